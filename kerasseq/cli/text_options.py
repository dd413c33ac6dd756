"""The options of the commands that need no model. Loads no Keras."""

from kerasseq.cli import names
from kerasseq.cli.defaults import VOCABULARY_SIZE
from kerasseq.cli.options import seed, tokenizer_help


def data(parser):
    """Add the options of `kerasseq data`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="show samples of this data set"
    )
    parser.add_argument(
        "--count",
        type=names.whole(at_most=10**6),
        default=5,
        metavar="N",
        help="how many samples (default: 5)",
    )
    seed(parser, 0)
    parser.add_argument("--json", action="store_true", help="print JSON")


def eliza(parser):
    """Add the options of `kerasseq eliza`."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--language",
        type=names.one_of("language", names.LANGUAGES),
        default="en",
        metavar="NAME",
        help="en or fr (default: en)",
    )
    source.add_argument("--rules", metavar="FILE", help="a TOML file of your rules")
    parser.add_argument(
        "--explain", action="store_true", help="show how each reply comes about"
    )


def tokens(parser):
    """Add the options of `kerasseq tokens`."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("text", nargs="?", metavar="TEXT", help="the text to cut")
    source.add_argument("--file", metavar="FILE", help="a text file to cut instead")
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the file"
    )
    parser.add_argument(
        "--tokenizer",
        default="bpe",
        metavar="NAME",
        help=f"{tokenizer_help()} (default: bpe)",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=names.whole(),
        default=VOCABULARY_SIZE,
        metavar="N",
        help=f"ids it may have, if it learns (default: {VOCABULARY_SIZE})",
    )
    parser.add_argument(
        "--corpus",
        metavar="FILE",
        help="a text file to learn from (default: the reference of Python)",
    )
    parser.add_argument(
        "--table", action="store_true", help="a line for each token: id and place"
    )
    parser.add_argument(
        "--trace", action="store_true", help="show the first merges of the training"
    )
    parser.add_argument("--save", metavar="FILE", help="keep the tokenizer as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")
