"""Option types, names and options that several commands share. Loads no Keras.

Options of training have the default None, so that a resumed run can tell which were
given. Each task lists the values that replace None in its `DEFAULTS`.
"""

import argparse
import math
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from kerasseq.core import backend, checks

T = TypeVar("T")
Add = Callable[..., argparse.ArgumentParser]  # adds a command or a task
Settings = SimpleNamespace  # arguments of a run
Options: TypeAlias = argparse._ActionsContainer  # a parser, or a group of options
SUPPRESS = argparse.SUPPRESS  # the default of an argument that leaves none

# The names in kerasseq.tasks.architectures, which would load Keras; a test compares.
RECURRENT = (
    "elman",
    "gated",
    "lstm",
    "peephole_lstm",
    "full_peephole_lstm",
    "coupled_lstm",
    "gru",
    "min_gru",
    "min_lstm",
)
ARCHITECTURES = (
    *RECURRENT,
    "transformer",
    "wavenet",
    "linear_attention",
    "gla",
    "retention",
    "delta_net",
    "s4d",
    "mamba",
    "rwkv4",
)
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

    def __init__(self, default: object, **values: object) -> None:
        self.default = default
        self.values = values

    def of(self, model: str) -> object:
        return self.values.get(model, self.default)

    def __str__(self) -> str:
        others = "".join(f"; for {name} {value}" for name, value in self.values.items())
        return f"{self.default}{others}"


def with_defaults(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merges the arguments that were given with the defaults of a task."""
    merged = defaults | given
    return {
        name: value.of(merged["model"]) if isinstance(value, PerModel) else value
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


def positive(value: str) -> float:
    """Parses a number above 0.

    Examples:
        >>> positive("0.5")
        0.5
    """
    number = real(value)
    if not 0 < number <= 10**6:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and at most 1,000,000, received {value}"
        )
    return number


def rate(value: str) -> float:
    """Parses a dropout rate: at least 0 and below 1.

    Examples:
        >>> rate("0.5")
        0.5
    """
    number = real(value)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(
            f"expected a number of at least 0 and below 1, received {value}"
        )
    return number


def fraction(value: str) -> float:
    """Parses a number between 0 and 1.

    Examples:
        >>> fraction("0.2")
        0.2
    """
    number = real(value)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and below 1, received {value}"
        )
    return number


def share(value: str) -> float:
    """Parses a number from 0 to 1.

    Examples:
        >>> share("1")
        1.0
    """
    number = real(value)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(
            f"expected a number of at least 0 and at most 1, received {value}"
        )
    return number


def temperature(value: str) -> float:
    """Parses a number of at least 0.

    Examples:
        >>> temperature("0")
        0.0
    """
    number = real(value)
    if not number >= 0:
        raise argparse.ArgumentTypeError(
            f"expected a number of at least 0, received {value}"
        )
    return number


def probability(value: str) -> float:
    """Parses a number above 0 and at most 1.

    Examples:
        >>> probability("1")
        1.0
    """
    number = real(value)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and at most 1, received {value}"
        )
    return number


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
        for found in values:
            if values.count(found) > 1:
                raise argparse.ArgumentTypeError(
                    f'expected distinct values, received "{found}" more than once'
                )
        return values

    return check


# Options that several commands have.


def add(
    group: Options,
    defaults: dict[str, Any],
    names: str,
    type: Callable[[str], object],
    help: str,
    metavar: str = "N",
) -> None:
    """Adds an option of a task, with its default in the help.

    Args:
        group: The parser or argument group.
        defaults: The defaults of the task, by the name of the argument.
        names: The option and its aliases; the first names the argument.
        type: The type for argparse.
        help: The help, without the default.
        metavar: The placeholder of the value.
    """
    names = names.split()
    default = defaults[names[0][2:].replace("-", "_")]
    if isinstance(default, list):
        default = ",".join(map(str, default))
    group.add_argument(
        *names, type=type, metavar=metavar, help=f"{help} (default: {default})"
    )


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `kerasseq train` and each of its tasks share."""
    # A task must not replace by its default what was given before its name.
    is_task = len(parser.prog.split()) > 2
    default = argparse.SUPPRESS if is_task else None
    parser.add_argument(
        "--resume",
        metavar="DIR",
        default=default,
        help="continue the run in this folder, with the options it was started with",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=default,
        help="print the results as one JSON object, and the progress on stderr",
    )
    parser.add_argument(
        "--threads",
        type=integer(at_most=1024),
        metavar="N",
        default=default,
        help="threads that compute; 1 is fastest for small models on a busy machine "
        "(default: the choice of the backend)",
    )


def add_model(
    parser: Options,
    defaults: dict[str, Any],
    choices: Collection[str] = ARCHITECTURES,
    several: bool = False,
) -> Options:
    """Adds the architecture and its sizes, and returns their group."""
    group = parser.add_argument_group("model")
    kind = one_of("model", choices)
    kind, metavar = (list_of(kind), "A,B,…") if several else (kind, "NAME")
    names = "--model --architecture"
    add(group, defaults, names, kind, ", ".join(choices), metavar)
    return add_sizes(group, defaults)


def add_sizes(group: Options, defaults: dict[str, Any]) -> Options:
    """Adds the sizes of a model to a group, and returns the group."""
    add(group, defaults, "--units --hidden-size", units, "units of each layer")
    add(group, defaults, "--num-layers --layers", num_layers, "number of layers")
    if "dropout" in defaults:
        text = "dropout rate of the inputs of each layer"
        add(group, defaults, "--dropout", rate, text, "X")
    return group


def add_data(
    parser: Options,
    defaults: dict[str, Any],
    file: str,
    what: str,
    choices: Sequence[str],
) -> Options:
    """Adds a file and a data set to choose from, and returns their group.

    Args:
        parser: The parser.
        defaults: The defaults of the task.
        file: The option of the file.
        what: The kind of the file and the data sets.
        choices: The names of the data sets; the first is the default.
    """
    group = parser.add_argument_group("data")
    group.add_argument(file, metavar="FILE", help=f"a file: {what}")
    group.add_argument(
        "--data",
        type=one_of("data set", choices),
        metavar="NAME",
        help=f"{', '.join(choices)}, if there is no {file} (default: {choices[0]})",
    )
    text = "encoding of the file, such as cp1252"
    add(group, defaults, "--encoding", str, text, "NAME")
    return group


def add_training(parser: Options, defaults: dict[str, Any], steps: str) -> Options:
    """Adds how a model is trained, and returns the group.

    Args:
        parser: The parser.
        defaults: The defaults of the task.
        steps: The help for the number of training steps.
    """
    group = parser.add_argument_group("training")
    add(group, defaults, "--batch-size", integer(), "examples in a batch")
    if "sequence_length" in defaults:
        add(group, defaults, "--sequence-length", length, "time steps in an example")
    add(group, defaults, "--learning-rate", positive, "learning rate of Adam", "X")
    group.add_argument("--steps", type=integer(), metavar="N", help=steps)
    text = "steps between two checkpoints"
    add(group, defaults, "--checkpoint-every", integer(), text)
    if "seed" in defaults:
        add(group, defaults, "--seed", seed, "random seed")
    return group


def add_epochs(
    group: Options, what: str = "data", default: float | None = EPOCHS
) -> None:
    """Adds the number of epochs, which may be a fraction."""
    shown = "" if default is None else f" (default: {default:g})"
    group.add_argument(
        "--epochs",
        type=positive,
        metavar="X",
        help=f"passes over the {what}, such as 2.5{shown}",
    )


def number_of_steps(settings: Settings, steps_per_epoch: int) -> int:
    """Returns the number of training steps that `--steps` or `--epochs` mean."""
    if settings.steps:
        return settings.steps
    return max(1, math.ceil((settings.epochs or EPOCHS) * steps_per_epoch))


def add_tokenizer(group: Options, defaults: dict[str, Any]) -> None:
    """Adds the tokenizer of a model, and its size."""
    text = f"{', '.join(TOKENIZERS)}, or a file or folder"
    add(group, defaults, "--tokenizer", str, text, "NAME")
    text = "maximum number of tokens in the vocabulary"
    add(group, defaults, "--vocabulary-size --vocab-size", integer(), text)


def add_location(parser: Options, default: str) -> None:
    """Adds the folder of a run and the backend."""
    group = parser.add_argument_group("run")
    add_new_run(group, default)
    add_backend(group)


def add_new_run(parser: Options, default: str) -> None:
    """Adds the folder of a new run."""
    parser.add_argument(
        "--run",
        metavar="DIR",
        help=f"new folder for all files of the run (default: {default})",
    )


def add_run(parser: Options) -> None:
    """Adds the run to read."""
    parser.add_argument(
        "folder", metavar="RUN", help="folder of a run, such as runs/quickstart"
    )


def add_backend(parser: Options) -> None:
    """Adds the backend."""
    parser.add_argument(
        "--backend",
        type=one_of("backend", backend.BACKENDS),
        metavar="NAME",
        help="tensorflow, jax or torch (default: from KERAS_BACKEND or keras.json)",
    )


def add_seed(parser: Options, default: int | None) -> None:
    """Adds a seed."""
    shown = "random" if default is None else default
    parser.add_argument(
        "--seed",
        type=seed,
        default=default,
        metavar="N",
        help=f"random seed (default: {shown})",
    )


def add_encoding(parser: Options) -> None:
    """Adds the encoding of a file."""
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the file"
    )


def add_json(parser: Options) -> None:
    """Adds the choice of JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON")
