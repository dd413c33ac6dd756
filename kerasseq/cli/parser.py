"""What can be typed: commands, their options, and help that teaches. Loads no Keras."""

import argparse
import re

import kerasseq
from kerasseq.cli import (
    names,
    options,
    params_options,
    position_options,
    text_options,
    train_parser,
    translation_options,
)
from kerasseq.cli.errors import UsageError, cut
from kerasseq.core import checks


class Parser(argparse.ArgumentParser):
    """A parser that raises, so that `main` alone decides how an error looks."""

    def __init__(self, *args, **kwargs):
        super().__init__(
            *args,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **kwargs,
        )

    def error(self, message):
        raise UsageError(f"{message}. See  {self.prog} --help")


def parse(argv) -> argparse.Namespace:
    """Read a command line.

    Args:
        argv: The words after `kerasseq`.

    Returns:
        The arguments. `module` names the module of `kerasseq.cli` that runs them.

    Raises:
        UsageError: If it is wrong, with the nearest right word.
        SystemExit: After `--help` and `--version`.
    """
    parser, parsers = build()
    _check_names(argv, parser)
    if not argv:
        parser.print_help()
        raise SystemExit(0)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        used = parsers.get((args.command, getattr(args, "task", None)), parser)
        known = re.findall(r"--[a-z][a-z-]*", used.format_help())
        raise UsageError(
            f"{used.prog} does not know {cut(unknown[0], 60)}."
            f"{checks.nearest(unknown[0].partition('=')[0], known)} "
            f"See  {used.prog} --help"
        )
    return args


def _check_names(argv, parser):
    """Look at the command and the task before argparse, which knows no nearest name."""
    wanted = [("command", names.COMMANDS)]
    if argv[:1] == ["train"]:
        wanted.append(("task", names.TASKS))
    for word, (what, choices) in zip(argv, wanted, strict=False):
        if not word.startswith("-") and word not in choices:
            try:
                names.one_of(what, choices)(word)
            except argparse.ArgumentTypeError as error:
                parser.error(str(error))


def build():
    """Build the parser of the command, and by name those of its parts."""
    parser = Parser(
        prog="kerasseq",
        description="Train sequence models on text and series, and look inside them.",
        epilog="""\
the first steps:
  kerasseq quickstart                 train a small language model, in minutes
  kerasseq train language-model --text my.txt --run runs/mine
  kerasseq generate runs/mine --prompt "Once "
  kerasseq inspect runs/mine --text "Once upon a time"

Each command explains itself:  kerasseq train --help
With KERASSEQ_DEBUG=1 in the environment an error shows where it comes from.""",
    )
    parser.add_argument(
        "--version", action="version", version=f"kerasseq {kerasseq.__version__}"
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND"
    )
    parsers = {}

    def add(name, module, summary, description, epilog, to=commands, task=None):
        made = to.add_parser(
            task or name, help=summary, description=description, epilog=epilog
        )
        made.set_defaults(module=module)
        parsers[name, task] = made
        return made

    _quickstart(add)
    train_parser.command(add)
    _generate(add)
    translation_options.translate(add)
    _inspect(add)
    _tokens(add)
    params_options.command(add)
    _data(add)
    _eliza(add)
    position_options.command(add)
    _info(add)
    return parser, parsers


def _quickstart(add):
    made = add(
        "quickstart",
        "quickstart",
        "train a first model in a minute or two",
        """\
Train a peephole LSTM, character by character, on the reference of the Python language,
which every Python brings along. Then compare it with a model that counts pairs of
characters, let it write, and draw its gates. Nothing is downloaded.""",
        """\
examples:
  kerasseq quickstart
  kerasseq quickstart --backend jax --run runs/jax""",
    )
    options.quickstart(made)


def _generate(add):
    made = add(
        "generate",
        "generate",
        "let a trained language model write",
        """\
Generate a continuation of a prompt, token by token, each drawn from the distribution
that the model predicts. Lower temperatures are more deterministic, higher ones more
random.""",
        """\
examples:
  kerasseq generate runs/quickstart
  kerasseq generate runs/quickstart --prompt "The class " --length 500
  kerasseq generate runs/quickstart --temperature 0.5 --top-k 10 --seed 1""",
    )
    options.generate(made)


def _inspect(add):
    made = add(
        "inspect",
        "inspect",
        "look inside a trained model",
        """\
Print the structure of a model; then let it read a text, and draw what its gates do and
how far back the gradient of its last prediction reaches.""",
        """\
examples:
  kerasseq inspect runs/quickstart
  kerasseq inspect runs/quickstart --text "for x in range(3):"
  kerasseq inspect runs/parentheses-race-1/lstm-seed0 --text "2 0 9 7 0 9" """,
    )
    options.inspect(made)


def _tokens(add):
    made = add(
        "tokens",
        "tokens",
        "see how a tokenizer cuts a text",
        """\
Cut a text into tokens, by a tokenizer that is learned on the spot from a text of yours
or from the reference of Python, or loaded from a file.""",
        """\
examples:
  kerasseq tokens "unbelievable tokenizers" --tokenizer bpe
  kerasseq tokens "to be" --corpus my.txt --vocabulary-size 500 --trace --save my.json
  kerasseq tokens --file my.txt --tokenizer my.json --table""",
    )
    text_options.tokens(made)


def _data(add):
    made = add(
        "data",
        "data",
        "list the data sets, or show samples of one",
        "List the data sets with size, source and licence, or show samples of one.",
        """\
examples:
  kerasseq data
  kerasseq data parentheses --count 3 --seed 1""",
    )
    text_options.data(made)


def _eliza(add):
    made = add(
        "eliza",
        "eliza",
        "talk with ELIZA, the chatbot of 1966",
        """\
Talk with Weizenbaum's ELIZA, which answers by rules alone; --explain shows which. The
end of the input, Ctrl-C or "bye" ends the conversation. Lines from a pipe get a reply
each, between the greeting and the farewell.""",
        """\
examples:
  kerasseq eliza
  kerasseq eliza --language fr --explain
  kerasseq eliza --rules mine.toml
  echo "Men are all alike." | kerasseq eliza""",
    )
    text_options.eliza(made)


def _info(add):
    made = add(
        "info",
        "info",
        "versions, backends and devices",
        "Show versions, the backends that are installed, and the devices in use.",
        """\
examples:
  kerasseq info
  kerasseq info --backend torch --json""",
    )
    options.info(made)
