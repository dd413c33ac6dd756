"""`kerasseq positions`: its help and its options. Loads no Keras."""

from kerasseq.cli import names, options


def command(add):
    """Add the command."""
    parser = add(
        "positions",
        "positions",
        "compare ways to say where a token stands",
        """\
Measure five things that a code of positions should be: unique; the same relation
between positions that are as far apart, everywhere; there for any length; of use at any
width; and deterministic. Each answer has a number with it.""",
        """\
examples:
  kerasseq positions
  kerasseq positions --length 32 --width 8 --figure positions.png""",
    )
    _size(parser, "--length", 64, 256, "how many positions are compared")
    _size(parser, "--width", 16, 1024, "how many numbers are in a code")
    parser.add_argument("--figure", metavar="FILE", help="draw the codes as PNG")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.backend(parser)


def _size(parser, option, default, most, text):
    parser.add_argument(
        option,
        type=names.whole(2, most),
        default=default,
        metavar="N",
        help=f"{text}, at most {most} (default: {default})",
    )
