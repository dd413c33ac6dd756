"""How a model writes token by token: words, or tokens of a picture."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kerasseq import decoding
from kerasseq.core import arguments, checks
from kerasseq.decoding.generation import decode
from kerasseq.models.whisper.window_decoding import padded_rows


@checks.only_listed(arguments.check_names)
def write(
    model: Any,
    inputs: Callable[[np.ndarray], dict[str, np.ndarray]],
    count: int,
    *,
    length: int,
    sampler: decoding.Sampler | decoding.Beam,
    stop: tuple[int, ...] = (),
    seed: int | None = None,
    batch_size: int,
) -> list[list[int]]:
    """Returns the ids that are written for each row.

    Args:
        model: The model.
        inputs: Function from indices of rows to arrays by name.
        count: The number of rows.
        length: The most ids.
        sampler: A sampler or a beam.
        stop: Ids after which a row ends.
        seed: Seed of the draws; those of a row depend on its index alone.
        batch_size: Rows that are processed at once.
    """
    size = checks.whole_number("batch_size", batch_size)
    start, written = model.preprocessor.first_written, []
    for first in range(0, count, size):
        rows = list(range(first, min(first + size, count)))
        more = padded_rows(rows)
        ids, _, lengths = decode(
            model.step,
            state=model.initial_state(inputs(np.array(more)), length),
            prompt=np.full((len(more), 1), start, "int32"),
            sampler=sampler,
            max_new_tokens=length,
            stop=stop,
            seed=None if seed is None else [seed + row for row in more],
        )
        written += [ids[n, 0, : lengths[n, 0]].tolist() for n in range(len(rows))]
    return written


def sampler_of(
    method: str, sampler: Any, **numbers: float | None
) -> decoding.Sampler | decoding.Beam:
    """Returns the sampler that the arguments of a method specify; greedy if none.

    Args:
        method: The name of the method, for messages.
        sampler: As for `GPT.generate`.
        **numbers: As for `GPT.generate`.

    Raises:
        ValueError: If it needs hidden states.
    """
    chosen = decoding.get_sampler(sampler, **numbers, default="greedy")
    if isinstance(chosen, decoding.Contrastive):
        raise ValueError(
            f"{method} cannot use contrastive search, which needs hidden states, "
            f'received {chosen!r}. Use another sampler, such as sampler="beam"'
        )
    return chosen
