"""`kerasseq positions`: the criteria of the course for position encodings, measured.

Measure five criteria of position encodings: whether they are unique; whether positions
at the same distance have the same relation; whether any sequence length and any hidden
size is possible; and whether they are deterministic. Each answer has a number.

Examples:
  kerasseq positions
  kerasseq positions --sequence-length 32 --hidden-size 8 --figure positions.png
"""

import argparse
import pathlib
from typing import TYPE_CHECKING

import kerasseq
from kerasseq.cli import figures, options
from kerasseq.cli.console import Console, choose_backend, print_json, set_seed, status
from kerasseq.cli.errors import UsageError

if TYPE_CHECKING:
    import keras

    from kerasseq.tracing.positions import Criterion

LEGEND = """\
unique: the smallest distance between two encodings. relation: how much it varies
between positions, from 0 to 1. length: the longest sequence tried that works. width:
the hidden sizes among 2, 3, 5, 8 and 32 without an encoding, or with unused features.
deterministic: how much two new layers differ."""


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("positions")
    sizes = (
        ("--sequence-length --length", 64, 256, "number of positions"),
        ("--hidden-size --width", 16, 1024, "number of features of an encoding"),
    )
    for names, default, at_most, text in sizes:
        kind, text = options.integer(2, at_most), f"{text}, at most {at_most}"
        options.add(parser, names, kind, text, default=default)
    parser.add_argument("--figure", metavar="FILE", help="draw the encodings as PNG")
    options.add_json(parser)
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq positions`."""
    length, width = args.sequence_length, args.hidden_size
    if width % 2 or length > 2**width:
        raise UsageError(
            "--hidden-size must be even, for rotary embeddings, and large enough for "
            f"the binary encoding of {length} positions, received {width}. Choose a "
            "larger even number"
        )
    choose_backend(args.backend)
    tracing = kerasseq.tracing
    set_seed(0)
    layers = make_layers(length)
    sizes = {"length": length, "width": width}
    by_layer = {}
    for name, layer in layers.items():
        with status(f"measuring {name}"):
            by_layer[name] = tracing.position_criteria(layer, **sizes)
    if args.figure:
        with status("drawing the figure"):
            draw(args.figure, layers, sizes)
    if args.json:
        listed = {
            name: {n: criterion._asdict() for n, criterion in criteria.items()}
            for name, criteria in by_layer.items()
        }
        print_json({**sizes, "layers": listed})
        return
    console = Console()
    show(console, by_layer, sizes)
    if args.figure:
        console.write(f"Figure: {args.figure}")


def make_layers(length: int) -> "dict[str, keras.layers.Layer]":
    """Returns a layer of each kind of position encoding by name."""
    layers = kerasseq.layers
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


def show(
    console: Console, by_layer: "dict[str, dict[str, Criterion]]", sizes: dict[str, int]
) -> None:
    """Prints the criteria of each layer."""
    columns = list(next(iter(by_layer.values())))
    rows = [
        (name, *(f"{_word(c.holds)} {_value(n, c.value)}" for n, c in criteria.items()))
        for name, criteria in by_layer.items()
    ]
    title = f"Encodings of {sizes['length']} positions, {sizes['width']} features"
    console.table(title, ("layer", *columns), rows)
    console.write(LEGEND)


def _word(holds):
    return "yes" if holds else "no "


def _value(name, value):
    """Formats the number of a criterion.

    Examples:
        >>> _value("length", 1024), _value("width", (3, 7)), _value("unique", 0.5)
        ('1024', '3,7', '0.50')
    """
    if name == "width":
        return ",".join(map(str, value))
    return str(value) if name == "length" else f"{value:.2f}"


def draw(
    file: str, layers: "dict[str, keras.layers.Layer]", sizes: dict[str, int]
) -> None:
    """Draws the encodings to a file."""
    figures.require()
    figure = kerasseq.tracing.plots.plot_positions(layers, **sizes)
    figures.save(figure, pathlib.Path(file))
