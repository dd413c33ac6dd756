"""What `run.json` may say: what could have been typed, and where the data came from.

Each argument goes through the parser once more, so types and bounds stand in one place.
"""

from kerasseq.cli import parser
from kerasseq.cli.defaults import DEFAULTS, OF_MODEL
from kerasseq.cli.errors import UsageError
from kerasseq.core.backend import BACKENDS

NEEDED = ("task", "arguments", "backend", "data")


def check(record, file) -> dict:
    """Return the record of a run if it is one.

    Args:
        record: What was read.
        file: Where from, for the message.

    Raises:
        ValueError: If a key is missing, or has a wrong value; the text names it.
    """
    try:
        _check(record)
    except ValueError as error:
        raise ValueError(
            f"{file} is damaged, or of another version of kerasseq: {error}. The run "
            "cannot be used: start another"
        ) from error
    return record


def _check(record):
    _object("the file", record)
    for key in NEEDED:
        if key not in record:
            raise ValueError(f"it lacks the key {key}")
    task, arguments, data = record["task"], record["arguments"], record["data"]
    _choice("task", task, tuple(DEFAULTS))
    _choice("backend", record["backend"], BACKENDS)
    _object("arguments", arguments)
    if set(arguments) != set(DEFAULTS[task]):
        names = ", ".join(sorted(set(arguments) ^ set(DEFAULTS[task])))
        raise ValueError(f"arguments lacks keys, or has strange ones: {names}")
    _check_arguments(task, arguments)
    _check_source(arguments)
    _object("data", data)
    for key in ("source", "sha256"):
        if not isinstance(data.get(key), str):
            raise ValueError(f"data.{key} must be a string, received {data.get(key)!r}")


def _object(key, value):
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be an object, received {value!r}")


def _choice(key, value, choices):
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(choices)
        raise ValueError(f"{key} must be one of {listed}, received {value!r}")


def _check_arguments(task, arguments):
    """Type the arguments, and see whether the parser takes them for the same."""
    words = [_typed(task, name, value) for name, value in arguments.items()]
    try:
        read = vars(parser.parse(["train", task, *filter(None, words)]))
    except UsageError as error:
        raise ValueError(f"arguments: {error}") from error
    for name, value in arguments.items():
        expected = False if value is False and read[name] is None else read[name]
        if (type(expected), expected) != (type(value), value):
            raise ValueError(
                f"arguments.{name} must be {expected!r}, received {value!r}"
            )


def _check_source(arguments):
    """A run has learned from a file or from a data set, and says from which."""
    for file in {"text", "pairs"} & set(arguments):
        if (arguments[file] is None) == (arguments["data"] is None):
            raise ValueError(f"one of arguments.{file} and arguments.data must be null")


def _typed(task, name, value) -> str:
    """How an argument is typed; nothing for what is left out.

    Examples:
        >>> _typed("language-model", "sequence_length", 64)
        '--sequence-length=64'
    """
    option, default = f"--{name.replace('_', '-')}", DEFAULTS[task][name]
    if isinstance(value, bool) and isinstance(default, bool):
        return option if value else ""
    if value is None:
        of_model = OF_MODEL[task][-1] if task in OF_MODEL else ()
        if default is not None or name in of_model:
            raise ValueError(f"arguments.{name} must not be null")
        return ""
    if isinstance(value, list) and isinstance(default, list):
        value = ",".join(map(str, value))
    return f"{option}={value}"
