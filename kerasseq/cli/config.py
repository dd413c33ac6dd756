"""`--config`: options from a JSON file, as if they were typed."""

from collections.abc import Callable
from typing import Any

from kerasseq.cli import options
from kerasseq.cli.commands import ALIASES, COMPARISONS, TASKS
from kerasseq.cli.errors import UsageError, about
from kerasseq.core import checks
from kerasseq.core.files import read_json

OPTION = "--config"
COMMANDS = ("train", "compare", "scale")  # that take it
OF_COMMAND = ("run", "backend", "threads")  # that no task has among its arguments


def expanded(words: list[str], parse: Callable[[list[str]], object]) -> list[str]:
    """Returns a command line with the options of the file that `--config` names.

    They come before those that are typed, which win. `train` without a task takes the
    one in the file.

    Args:
        words: The words after `kerasseq`.
        parse: Parses such words, to check the options of the file.

    Raises:
        UsageError: If the file has an option that the task does not have.
        ValueError: If it is damaged, or has no table of options.
    """
    file, typed = _without_config(words)
    if file is None:
        return words
    if any(word.partition("=")[0] == "--resume" for word in typed):
        raise UsageError(f"{OPTION} and --resume exclude each other: give one")
    record = read_json(file)
    arguments = record.get("arguments", record) if isinstance(record, dict) else None
    if not isinstance(arguments, dict):
        raise ValueError(
            f'{file} must have an object of options, such as {{"units": 64}}, '
            f"received {checks.short(record)}"
        )
    if arguments is record:
        arguments = {name: value for name, value in record.items() if name != "task"}
    if typed[0] == "train":
        start = ["train", _task(typed, record, file)]
    else:
        # The comparison that is typed, or that of the file.
        named = (
            typed[1] if typed[1:2] and typed[1] in COMPARISONS else record.get("task")
        )
        is_named = typed[0] == "compare" and named in COMPARISONS
        start = [typed[0], *[named] * is_named]
    task = ALIASES.get(start[-1], start[-1])
    if record.get("task", task) != task:
        raise UsageError(
            f"{file} has options of the task {record['task']}, received {start[-1]}. "
            "Leave the task out, or give another file"
        )
    rest = typed[len(start) :] if typed[: len(start)] == start else typed[1:]
    given = _options(arguments, task, file, rest)
    with about(file):
        parse([*start, *given])
    return [*start, *given, *rest]


def _without_config(words):
    """Returns the file, or None, and the other words."""
    for n, word in enumerate(words):
        name, mark, file = word.partition("=")
        if name == OPTION and words[0] in COMMANDS:
            if mark:
                return file, [*words[:n], *words[n + 1 :]]
            if n + 1 == len(words):
                raise UsageError(f"{OPTION} needs a file, such as runs/mine/run.json")
            return words[n + 1], [*words[:n], *words[n + 2 :]]
    return None, words


def _task(typed, record, file):
    """Returns the task that is typed; if none is, that of the file."""
    if typed[1:] and not typed[1].startswith("-"):
        return typed[1]
    if record.get("task") not in TASKS:
        raise UsageError(
            f"{file} names no task: type one, as in  kerasseq train classify {OPTION} "
            f"{file}"
        )
    return record["task"]


def _options(arguments, task, file, typed) -> list[str]:
    """Returns the options of a file as typed words, without what typed ones exclude."""
    module = TASKS[task]
    arguments = {name.replace("-", "_"): value for name, value in arguments.items()}
    known = (*module.DEFAULTS, *OF_COMMAND)
    for name in arguments:
        if name not in known:
            raise UsageError(
                f'{file}: unknown option "{name}" of {task}.'
                f"{checks.nearest(name, known)} Choose from {', '.join(known)}"
            )
    names = {
        word.partition("=")[0].removeprefix("--").replace("-", "_") for word in typed
    }
    pairs = [{"epochs", "steps"}, {module.FILE, "data"}]
    if module.DEFAULTS.get("preset", "") is None:  # a folder, which has a model
        pairs.append({"preset", "model"})
    if "base" in module.DEFAULTS:
        pairs.append({"base", "model"})
    excluded = set().union(*(pair for pair in pairs if pair & names))
    named = ("model", "method")  # which determine other defaults
    model = {name: arguments[name] for name in named if name in arguments}
    defaults = options.with_defaults(module.DEFAULTS, model)
    defaults |= {name: module.DEFAULTS[name] for name in model}
    return [
        as_typed(name, value, defaults.get(name))
        for name, value in arguments.items()
        if value not in (None, defaults.get(name)) and name not in excluded
    ]


def as_typed(name: str, value: Any, default: object) -> str:
    """Returns an argument as it is typed; "" for one that is left out.

    Examples:
        >>> as_typed("sequence_length", 64, None)
        '--sequence-length=64'
    """
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool) and isinstance(default, bool):
        return option if value else ""
    if value is None:
        if not _may_be_none(default):
            raise ValueError(f"arguments.{name} must not be null")
        return ""
    if isinstance(value, list) and isinstance(default, list):
        value = ",".join(map(str, value))
    return f"{option}={value}"


def _may_be_none(default: object) -> bool:
    """Returns whether an argument with this default is None for some model.

    Examples:
        >>> _may_be_none(options.PerModel("max", bert=None)), _may_be_none(3)
        (True, False)
    """
    if isinstance(default, options.PerModel):
        return None in (default.default, *default.values.values())
    return default is None
