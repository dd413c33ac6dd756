"""Whether a model and a step of its training can fit into the memory of this machine.

What does not fit ends in words of the backend at best, and else in a process that the
system kills. The estimate is a lower bound: what it refuses cannot work.
"""

import os

from kerasseq.cli.errors import UsageError

BYTES = 4  # of a float32
COPIES = 4  # of each weight: itself, its gradient, and two moments of Adam
# Weights of a layer, in squares of its width.
SQUARES = {"elman": 2, "gated": 4, "gru": 6, "gpt": 12, "transformer": 28}
SQUARES_OF_LSTM = 8


def check(settings, rows, vocabulary_size=0):
    """Raise unless the sizes of a run may fit into memory.

    Args:
        settings: Arguments of the run.
        rows: Examples there are: a batch has no more.
        vocabulary_size: Width of the logits, of a model that has them at each step.

    Raises:
        UsageError: If they cannot fit. It names the sizes and the memory.
    """
    there = memory()
    names = settings.model if isinstance(settings.model, list) else [settings.model]
    squares = min(SQUARES.get(name, SQUARES_OF_LSTM) for name in names)
    weights = settings.layers * squares * settings.units**2
    weights += 2 * vocabulary_size * settings.units
    needed = weights * COPIES * BYTES
    sizes = f"--units {settings.units:,} and --layers {settings.layers:,}"
    _refuse(needed, there, f"{sizes} make a model of {weights:,} parameters or more")
    batch = min(settings.batch_size, rows)
    steps = getattr(settings, "sequence_length", 1)
    values = batch * steps * (settings.layers * settings.units + vocabulary_size)
    sizes = f"--batch-size {batch:,}, --sequence-length {steps:,}, {sizes}"
    _refuse(values * BYTES, there, f"a step of {sizes} has {values:,} values or more")


def memory() -> int | None:
    """Bytes of memory of this machine, None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _refuse(needed, there, what):
    if there is not None and needed > there:
        raise UsageError(
            f"{what}, which take {needed / 2**30:,.0f} GiB; this machine has "
            f"{there / 2**30:,.0f} GiB. Choose smaller ones"
        )
