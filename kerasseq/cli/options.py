"""Option types, names, and the options that several commands have. Loads no Keras.

Options of training have the default None, so that a resumed run can tell which were
given. Each task lists the values that replace None in its `DEFAULTS`.
"""

import argparse
import math
import os
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from kerasseq.core import backend, checks

T = TypeVar("T")
Add = Callable[..., argparse.ArgumentParser]  # adds a command or a task
Options: TypeAlias = argparse._ActionsContainer  # a parser, or a group of options


class Settings(SimpleNamespace):
    """The arguments of a run."""

    def own_file(self, name: str) -> str:
        """Makes the path of a user's file absolute, to resume from any folder.

        Args:
            name: The argument.

        Returns:
            The name of the file, without its folder.
        """
        path = os.path.abspath(getattr(self, name))
        setattr(self, name, path)
        return os.path.basename(path) or path


SPARSE = ("blockwise", "longformer", "reformer", "linformer", "adaptive_span")
# The names in kerasseq.tasks.architectures, which would load Keras; a test compares.
RECURRENT = (
    "elman",
    "gated",
    "lstm",
    "peephole_lstm",
    "full_peephole_lstm",
    "coupled_lstm",
    *("gru", "min_gru", "min_lstm", "slstm"),
)
ARCHITECTURES = (
    *RECURRENT,
    "transformer",
    *SPARSE,
    "wavenet",
    *("linear_attention", "gla", "retention", "delta_net"),
    *("mlstm", "rwkv7", "s4d", "mamba", "rwkv4"),
)
ONE_TEXT = ("--text", "--prompt", "--next", "--system")  # of a command
NEVER_CAUSAL = ("reformer", "linformer")  # not where the next token is predicted
CAUSAL = tuple(name for name in ARCHITECTURES if name not in NEVER_CAUSAL)
TOKENIZERS = ("character", "word", "bpe", "wordpiece", "unigram")
VOCABULARY_SIZE = 1000  # of a tokenizer that is trained
EPOCHS = 10  # if neither --epochs nor --steps is given


class PerModel:
    """A default that depends on the architecture.

    Args:
        default: The value for other architectures.
        **values: Values by architecture.

    Examples:
        >>> num_layers = PerModel(1, gpt=4)
        >>> num_layers.of("lstm"), num_layers.of("gpt"), str(num_layers)
        (1, 4, '1; for gpt 4')
    """

    argument: str = "model"  # which determines the value

    def __init__(self, default: object, **values: object) -> None:
        self.default = default
        self.values = values

    def of(self, name: str) -> object:
        return self.values.get(name, self.default)

    def __str__(self) -> str:
        values = {"": self.default} | {f"for {n} ": v for n, v in self.values.items()}
        return "; ".join(f"{n}{v}" for n, v in values.items() if v is not None)


def with_defaults(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merges the arguments that were given with the defaults of a task."""
    merged = defaults | given
    return {
        name: value.of(merged[value.argument]) if isinstance(value, PerModel) else value
        for name, value in merged.items()
    }


# Types for argparse.


def one_of(what: str, choices: Collection[str]) -> Callable[[str], str]:
    """Returns a type that accepts one of several names and suggests the nearest.

    Examples:
        >>> one_of("backend", ["jax", "torch"])("jaxx")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: unknown backend "jaxx". Did you mean "jax"? \
Choose from jax, torch
    """

    def check(value):
        if value in choices:
            return value
        raise argparse.ArgumentTypeError(
            f'unknown {what} "{value}".{checks.nearest(value, choices)} '
            f"Choose from {', '.join(choices)}"
        )

    return check


def data_set(choices: Collection[str], file: str) -> Callable[[str], str]:
    """Returns the type of `--data`, which tells how the user's own data are given.

    Args:
        choices: The names of the data sets.
        file: The argument of the user's data.

    Examples:
        >>> data_set(["names"], "file")("films.csv")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: unknown data set "films.csv". Choose from names, \
or give your own data as --file films.csv
    """

    def check(value):
        try:
            return one_of("data set", choices)(value)
        except argparse.ArgumentTypeError as error:
            is_path = os.path.exists(value) or os.path.splitext(value)[1]
            own = f"--{file} {value if is_path else 'FILE'}"
            text = f"{error}, or give your own data as {own}"
            raise argparse.ArgumentTypeError(text) from None

    return check


def integer(at_least: int = 1, at_most: int = 10**9) -> Callable[[str], int]:
    """Returns a type that accepts an integer within two bounds.

    Examples:
        >>> integer()("12")
        12
        >>> integer(at_most=1000)("1001")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: expected an integer of at most 1,000, received 1001
    """

    def check(value):
        try:
            number = int(value)
        except ValueError:  # also for thousands of digits
            number = None
        if number is None:
            raise argparse.ArgumentTypeError(f'expected an integer, received "{value}"')
        if number < at_least:
            raise argparse.ArgumentTypeError(
                f"expected an integer of at least {at_least}, received {number}"
            )
        if number > at_most:
            raise argparse.ArgumentTypeError(
                f"expected an integer of at most {at_most:,}, received {number}"
            )
        return number

    return check


Integer = Callable[[str], int]
seed: Integer = integer(0, 2**32 - 1)  # the range of NumPy and Keras
units: Integer = integer(at_most=2**20)
heads: Integer = integer(at_most=2**16)
num_layers: Integer = integer(at_most=1000)
length: Integer = integer(at_most=10**6)  # of a sequence
examples: Integer = integer(at_most=10**6)  # each takes about 700 bytes


def real(value: str) -> float:
    """Parses a finite number.

    Examples:
        >>> real("-2.5")
        -2.5
    """
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f'expected a number, received "{value}"')
    return number


def bounded(accepts: Callable[[float], bool], bounds: str) -> Callable[[str], float]:
    """Returns a type that accepts a number within bounds.

    Args:
        accepts: Whether a number is within them.
        bounds: The bounds in words.

    Examples:
        >>> rate("0.5"), temperature("0"), share("1")
        (0.5, 0.0, 1.0)
        >>> fraction("1")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: expected a number above 0 and below 1, received 1
    """

    def check(value):
        number = real(value)
        if not accepts(number):
            raise argparse.ArgumentTypeError(
                f"expected a number {bounds}, received {value}"
            )
        return number

    return check


Real = Callable[[str], float]
positive: Real = bounded(lambda x: 0 < x <= 10**6, "above 0 and at most 1,000,000")
rate: Real = bounded(lambda x: 0 <= x < 1, "of at least 0 and below 1")
fraction: Real = bounded(lambda x: 0 < x < 1, "above 0 and below 1")
share: Real = bounded(lambda x: 0 <= x <= 1, "of at least 0 and at most 1")
temperature: Real = bounded(lambda x: x >= 0, "of at least 0")
probability: Real = bounded(lambda x: 0 < x <= 1, "above 0 and at most 1")


def list_of(item: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Returns a type that accepts distinct items, separated by commas.

    Examples:
        >>> list_of(seed)("0,1,2")
        [0, 1, 2]
    """

    def check(value):
        parts = [part.strip() for part in value.split(",")]
        if not all(parts):
            raise argparse.ArgumentTypeError(
                f'expected values separated by commas, received "{value}"'
            )
        values = [item(part) for part in parts]
        for each in values:
            if values.count(each) > 1:
                raise argparse.ArgumentTypeError(
                    f'expected distinct values, received "{each}" more than once'
                )
        return values

    return check


# Options that several commands have.

_CONFIG = (
    "read options from a JSON file, such as the run.json of a run; those that are "
)
_CONFIG += "typed come before them"
_THREADS = "threads that compute; 1 is fastest for small models on a busy machine "
_THREADS += "(default: the choice of the backend)"
_BACKEND = "tensorflow, jax or torch (default: from KERAS_BACKEND or keras.json)"


class Once(argparse.Action):
    """An option that is given once: argparse would forget all values but the last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Stores the value, or raises if there is one."""
        before = getattr(namespace, self.dest, None)
        if before is not None:
            raise argparse.ArgumentError(
                self, f"expected one text, received {before!r} and {values!r}"
            )
        setattr(namespace, self.dest, values)


def add(
    group: Options,
    names: str,
    type: Callable[[str], object] | None,
    help: str,
    metavar: str = "N",
    *,
    default: object = None,
    shown: object = None,
) -> None:
    """Adds an option, with its default in the help.

    Args:
        group: The parser or argument group.
        names: The option and its aliases; without dashes, an argument that is optional.
        type: The type for argparse; None for an option without a value.
        help: The help, without the default.
        metavar: The placeholder of the value.
        default: The default.
        shown: What the help says about the default, if that is None.
    """
    if type is None:
        group.add_argument(*names.split(), action="store_true", default=None, help=help)
        return
    shown = default if shown is None else shown
    more = {"default": default}
    if not names.startswith("-"):
        more = {"nargs": "?", "default": argparse.SUPPRESS}
    if names in ONE_TEXT:
        more["action"] = Once
    if shown is not None and "(default" not in help:
        help = f"{help} (default: {shown})"
    group.add_argument(*names.split(), type=type, metavar=metavar, help=help, **more)


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `kerasseq train` and each of its tasks share."""
    # A task must not replace by its default what was given before its name.
    is_task = len(parser.prog.split()) > 2
    default = argparse.SUPPRESS if is_task else None
    rows = (
        ("--resume", "DIR", str, "continue the run in this folder, with its options"),
        ("--config", "FILE", str, _CONFIG),
        ("--threads", "N", integer(at_most=1024), _THREADS),
        ("--backend", "NAME", one_of("backend", backend.BACKENDS), _BACKEND),
    )
    for name, metavar, kind, text in rows:
        parser.add_argument(
            name, metavar=metavar, type=kind, default=default, help=text
        )
    flags = {
        "--json": "print the results as one JSON object, and the progress on stderr",
        "--dry-run": "check data and options, print what would be done, and write "
        "nothing",
    }
    for name, text in flags.items():
        parser.add_argument(name, action="store_true", default=default, help=text)


def add_new_run(parser: Options, default: str) -> None:
    """Adds the folder of a new run."""
    text = f"new folder for all files of the run (default: {default})"
    parser.add_argument("--run", metavar="DIR", help=text)


def add_run(parser: Options) -> None:
    """Adds the run to read."""
    text = "folder of a run, such as runs/quickstart"
    parser.add_argument("folder", metavar="RUN", help=text)


def add_backend(parser: Options) -> None:
    """Adds the backend."""
    add(parser, "--backend", one_of("backend", backend.BACKENDS), _BACKEND, "NAME")


def add_seed(parser: Options, default: int | None) -> None:
    """Adds a seed."""
    shown = "random" if default is None else default
    add(parser, "--seed", seed, "random seed", default=default, shown=shown)


def add_encoding(parser: Options) -> None:
    """Adds the encoding of a file."""
    add(parser, "--encoding", str, "encoding of the file", "NAME", default="utf-8")


def add_json(parser: Options) -> None:
    """Adds the choice of JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON")
