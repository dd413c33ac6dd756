"""`kerasseq positions`: the five criteria of the course, measured on each layer."""

import json
import pathlib
import sys

from kerasseq.cli.console import Console
from kerasseq.cli.errors import UsageError
from kerasseq.cli.quiet import set_seed
from kerasseq.cli.train import choose_backend
from kerasseq.cli.waiting import waiting

MEANING = """\
unique: distance of the nearest two codes. relation: how much it varies between places,
from 0 to 1. length: the longest sequence tried that works. width: those of 2, 3, 5, 8
and 32 at which there is no code, or numbers that tell nothing. deterministic: how much
two new layers differ."""


def run(args):
    """Run `kerasseq positions`."""
    if args.width % 2 or args.length > 2**args.width:
        raise UsageError(
            f"--width {args.width} does not suit all codes of {args.length} positions: "
            "it must be even, as rotary numbers turn in pairs, and so large that as "
            "many binary digits count so far"
        )
    choose_backend(args.backend)

    from kerasseq import tracing  # loads Keras, on the backend chosen by now

    set_seed(0)
    layers = make(args.length)
    sizes = {"length": args.length, "width": args.width}
    found = {}
    for name, layer in layers.items():
        with waiting(f"measuring {name}"):
            found[name] = tracing.position_criteria(layer, **sizes)
    if args.figure:
        with waiting("drawing the figure"):
            draw(args.figure, layers, sizes)
    if args.json:
        listed = {
            name: {n: criterion._asdict() for n, criterion in criteria.items()}
            for name, criteria in found.items()
        }
        json.dump({**sizes, "layers": listed}, sys.stdout, indent=1)
        print()
        return
    console = Console()
    show(console, found, sizes)
    if args.figure:
        console.say(f"Figure: {args.figure}")


def make(length):
    """A layer of each kind by name."""
    from kerasseq import layers

    return {
        "amplitude": layers.AmplitudePosition(),
        "binary": layers.BinaryPosition(),
        "sine": layers.SinePositionEncoding(),
        "learned": layers.PositionEmbedding(length),
        "rotary": layers.RotaryEmbedding(),
        "alibi": layers.AlibiBias(),
        "relative": layers.RelativePositionBias(),
        "transformer xl": layers.TransformerXLPosition(),
    }


def show(console, found, sizes):
    """Print the table."""
    columns = list(next(iter(found.values())))
    rows = [
        (name, *(f"{_word(c.holds)} {_value(n, c.value)}" for n, c in criteria.items()))
        for name, criteria in found.items()
    ]
    title = f"Codes of {sizes['length']} positions, {sizes['width']} numbers wide"
    console.table(title, ("layer", *columns), rows)
    console.say(MEANING)


def _word(holds):
    return "yes" if holds else "no "


def _value(name, value):
    """What was measured, in few characters.

    Examples:
        >>> _value("length", 1024), _value("width", (3, 7)), _value("unique", 0.5)
        ('1024', '3,7', '0.50')
    """
    if name == "width":
        return ",".join(map(str, value))
    return str(value) if name == "length" else f"{value:.2f}"


def draw(file, layers, sizes):
    """Draw what the layers give, whole or not at all."""
    from kerasseq.cli import figures
    from kerasseq.tracing import plots

    figures.require()
    figures.save(plots.plot_positions(layers, **sizes), pathlib.Path(file))
