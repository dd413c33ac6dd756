"""The `kerasseq` command: its parser, its entry point and its exit codes.

Each command is a module of this package with two functions: `add_command` declares the
options and `run` executes the command; its docstring is the help. Parsing and `--help`
load no Keras.
"""

import argparse
import contextvars
import logging
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import kerasseq
from kerasseq.cli import config, console, control, devices, errors, options
from kerasseq.cli.commands import (
    ALIASES,
    COMMANDS,
    COMPARISONS,
    TASKS,
    Modules,
    add_task,
)
from kerasseq.core import checks, synonyms

INPUTS = ("--file", "--prompt", "--text", "--pairs", "--data")  # what is read
SHOWN_RUNS = 5
# The advice on an option of a task that is not named.
OF_RESUMED = "A resumed run keeps its options: leave it out, or start another run"
OF_TASKS = "Name the task first, as in  kerasseq train classify --help"


def main(argv: list[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: The words after `kerasseq`; those of the process if None.

    Returns:
        The exit code: 0; 1 for a bug in kerasseq; 2 for an error that the user can
        correct; 130 after Ctrl-C. If the environment variable KERASSEQ_DEBUG is set, an
        error is raised instead.
    """
    # In a context of its own: `errors.typed_options` is that of one command.
    return contextvars.copy_context().run(_run, argv)


def _run(argv):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # log lines of TensorFlow
    logging.getLogger("tensorflow").setLevel("ERROR")
    try:
        args, names = _parse(sys.argv[1:] if argv is None else list(argv))
        errors.typed_options.set(names)
        with control.no_signal_lost(), console.silence(args.quiet):
            COMMANDS[args.command].run(args)
        sys.stdout.flush()
    except SystemExit as done:  # argparse, after --help and --version
        return done.code or 0
    except KeyboardInterrupt:
        print("kerasseq: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as in `kerasseq data | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("KERASSEQ_DEBUG"):
            raise
        code, text = errors.exit_code_and_message(error)
        print(f"kerasseq: error: {text}", file=sys.stderr)
        return code
    return 0


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises `UsageError` instead of exiting."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(
            *args,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **kwargs,
        )

    def error(self, message: str) -> NoReturn:
        if message.endswith(" required: RUN"):
            message += _runs_here()
        raise errors.UsageError(f"{message}. See  {self.prog} --help")


def parse(argv: list[str]) -> argparse.Namespace:
    """Parses a command line.

    Args:
        argv: The words after `kerasseq`.

    Raises:
        UsageError: If the command line is wrong. The message suggests the nearest
            option or name.
        SystemExit: After `--help` and `--version`.
    """
    return _parse(argv)[0]


def _parse(argv):
    """Parses arguments; returns them and the command's options by names in Python."""
    if argv[:1] == ["--quiet"]:  # also before the command
        argv = [*argv[1:], "--quiet"]
    parser, parsers = build_parser(argv)
    _check_command(argv, parser)
    if any(word.partition("=")[0] == config.OPTION for word in argv):
        argv = config.expanded(argv, parse)
        parser, parsers = build_parser(argv)
    if argv in ([], ["--quiet"]):
        parser.print_help()
        raise SystemExit(0)
    args, unknown = _parsed(argv, parser, parsers)
    task = getattr(args, "task", None)
    used = parsers.get((args.command, task), parser)
    if unknown:
        table, name = (TASKS, task) if task in TASKS else (COMMANDS, args.command)
        option = unknown[0].partition("=")[0]
        why = getattr(table.get(name), "UNKNOWN", {}).get(option)
        raise _unknown(unknown[0], used, why)
    args.words = argv  # for processes that run the same command
    return args, _option_names(args.command, task, parsers)


def _unknown(word, used, why=None):
    """Returns the error for a word that a parser does not know."""
    near = (
        _meant_option(word, used) if word.startswith("-") else _option_for(word, used)
    )
    return errors.UsageError(
        f"{used.prog}: unrecognized argument {errors.truncate_word(word, 60)}. "
        + (why or f"{near} See  {used.prog} --help")
    )


def _meant_option(word, used):
    """Returns which option is meant by one that a parser does not know."""
    known = re.findall(r"--[a-z][a-z-]*", used.format_help())
    name = word.partition("=")[0]
    by_argument = {option[2:].replace("-", "_"): option for option in known}
    meant = synonyms.of_argument(name.strip("-").replace("-", "_"), by_argument)
    if meant in by_argument:
        return f'Did you mean "{by_argument[meant]}"?'
    return checks.nearest(name, known)[1:]


def _option_for(word, used):
    """Returns which option takes a file, or a text, that is given without one."""
    is_file = os.path.lexists(word) or os.path.splitext(word)[1][1:].isalnum()
    kinds = ("FILE", "FOLDER") if is_file else ("TEXT",)
    takes = {
        option
        for action in used._actions
        for option in action.option_strings
        if action.metavar in kinds
    }
    own = next((each for each in INPUTS if each in takes), None)
    return f"Did you mean {own} {shlex.quote(word)}?" if own else ""


def _runs_here():
    """Returns a sentence that names the runs in the working folder."""
    runs = sorted(pathlib.Path("runs").glob("*/run.json"))[:SHOWN_RUNS]
    names = ", ".join(str(path.parent) for path in runs)
    return f". Runs here: {names}" if names else ", the folder of a training"


def _parsed(argv, parser, parsers):
    """Returns the arguments, and words that are unknown.

    Where no task is named, argparse takes the value of an unknown option for one.
    """
    try:
        return parser.parse_known_args(argv)
    except errors.UsageError as error:
        used = parsers.get((argv[0], None))
        if used is None or "invalid choice" not in str(error):
            raise
        known = {each for a in used._actions for each in a.option_strings}
        names = [word.partition("=")[0] for word in argv if word.startswith("--")]
        unknown = next((name for name in names if name not in known), None)
        if unknown is None:
            raise
        why = OF_RESUMED if "--resume" in names else OF_TASKS
        why = why if argv[0] == "train" else None
        raise _unknown(unknown, used, why) from None


def _option_names(command, task, parsers):
    """Returns the options of the command, by the names of the arguments in Python.

    A run that is resumed may have any task.
    """
    return {
        action.dest: next(s for s in action.option_strings if s.startswith("--"))
        for (name, of_task), parser in parsers.items()
        if name == command and task in (None, of_task)
        for action in parser._actions
        if action.option_strings
    }


def _check_command(argv, parser):
    """Checks command and task before argparse, which suggests no nearest name."""
    expected, tasks = [("command", COMMANDS)], (*TASKS, *ALIASES)
    if argv[:1] == ["train"]:
        expected.append(("task", tasks))
    elif argv[:1] == ["compare"]:
        expected.append(("comparison", tuple(COMPARISONS)))
        _check_comparison(argv, parser)
    elif argv and argv[0] in tasks and argv[0] not in COMMANDS:
        parser.error(f"{argv[0]} is a task: type  kerasseq train {argv[0]}")
    for word, (what, choices) in zip(argv, expected, strict=False):
        if not word.startswith("-") and word not in choices:
            try:
                options.one_of(what, choices)(word)
            except argparse.ArgumentTypeError as error:
                parser.error(str(error))


def _check_comparison(argv, parser):
    """Raises if options come before the comparison, which would replace them."""
    for word, after in zip(argv[1:], argv[2:], strict=False):
        if after in COMPARISONS and not word.startswith("--"):
            parser.error(f"{after} comes first: type  kerasseq compare {after} …")


def build_parser(
    words: Sequence[str] | None = None,
) -> tuple[Parser, dict[tuple[str, str | None], Parser]]:
    """Builds the parser, and returns it with the subparsers by command and task.

    Args:
        words: The command line. Commands and tasks that it does not use are there with
            their names and summaries alone, and their modules are not imported. None
            for all.
    """
    parser = Parser(
        prog="kerasseq",
        description="Train sequence models on texts and series, and inspect them.",
        epilog="""\
first steps:
  kerasseq quickstart                 train a small language model, in minutes
  kerasseq train language-model --text my.txt --run runs/mine
  kerasseq generate runs/mine --prompt "Once "
  kerasseq inspect runs/mine --text "Once upon a time"

Options of a command:  kerasseq train --help
If the environment variable KERASSEQ_DEBUG is 1, an error shows its traceback.""",
    )
    parser.add_argument(
        "--version", action="version", version=f"kerasseq {kerasseq.__version__}"
    )
    add_quiet(parser, False)
    parsers: dict[tuple[str, str | None], Parser] = {}
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND"
    )
    used = COMMANDS if words is None else words[:1]
    for name, made in _add(commands, COMMANDS, used).items():
        parsers[name, None] = made
    if ("train", None) in parsers:
        tasks = parsers["train", None].add_subparsers(
            title="tasks", dest="task", metavar="TASK"
        )
        made = _add(tasks, TASKS, _used_tasks(words))
        parsers |= {("train", name): task for name, task in made.items()}
    if ("compare", None) in parsers:
        tasks = parsers["compare", None].add_subparsers(
            title="other comparisons", dest="task", metavar="COMPARISON"
        )
        named = COMPARISONS if words is None else words[1:2]
        made = _add(tasks, COMPARISONS, named)
        parsers |= {("compare", name): task for name, task in made.items()}
    return parser, parsers


def add_quiet(parser: argparse.ArgumentParser, default: Any) -> None:
    """Adds the choice of fewer messages."""
    text = "print results and errors alone"
    parser.add_argument("--quiet", action="store_true", default=default, help=text)


def _add(subparsers, table: Modules, used: Iterable[str]):
    """Adds all names of a table, and the options of those that are used."""
    made: dict[str, Parser] = {}

    def add(name, description=None, epilog=None):
        aliases = [alias for alias, task in ALIASES.items() if task == name]
        more = {"help": table.summary(name), "aliases": aliases}
        if name not in used:
            return subparsers.add_parser(name, **more)
        if description is None:
            description, epilog = _help_of(table[name])
        parser = subparsers.add_parser(
            name, description=description, epilog=epilog, **more
        )
        made.update(dict.fromkeys((name, *aliases), parser))
        # A command must not replace by its default what was given before its name.
        add_quiet(parser, argparse.SUPPRESS)
        return parser

    for name in table:
        if name not in used:
            add(name)
        elif table is COMMANDS:
            table[name].add_command(add)
        else:
            parser = add(name)
            add_task(parser, name, table[name])
            devices.add_options(parser)
    return made


def _help_of(module):
    """Returns the description of a command, and its examples: those of its module."""
    text = (module.__doc__ or "").partition("\n\n")[2].rstrip()
    description, mark, examples = text.partition("Examples:\n")
    return description.rstrip(), mark + examples


def _used_tasks(words):
    """Returns the tasks that are named; all if none is, as a run may have any."""
    named = {ALIASES.get(word, word) for word in words or ()} & {*TASKS}
    is_resumed = any(word.startswith("--resume") for word in words or ())
    return named if words is not None and (named or not is_resumed) else {*TASKS}
