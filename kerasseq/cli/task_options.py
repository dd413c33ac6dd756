"""Options of tasks, a row each, and the table of those that several share.

Loads no Keras.
"""

import argparse
from collections.abc import Callable, Collection, Iterable
from types import ModuleType
from typing import Any, NamedTuple

from kerasseq.cli import options

# What is named, in messages, if it is not the argument.
WORDS = {"missing": "choice", "remat": "choice", "resize": "value", "quantize": "mode"}
WORDS |= {"kind": "kind of strings", "position": "position encoding"}


class Option(NamedTuple):
    """An option of a task.

    Attributes:
        names: The option, its aliases, and the placeholder of the value, as in the
            help; the first names the argument.
        group: The title of the options beside it in the help.
        type: The type for argparse, or the names that the value can have; None for an
            option without a value.
        help: The help, without the default and the names.
        default: The default of the task.
    """

    names: str
    group: str
    type: Callable[[str], object] | Collection[str] | None
    help: str
    default: Any = None

    @property
    def argument(self) -> str:
        """The name of the argument in Python."""
        return self.names.split()[0].removeprefix("--").replace("-", "_")


_CUT = "maximum length of a text; longer ones are cut"
_HELD_OUT = "fraction that is held out, of each class"
_VOCABULARY = "maximum number of tokens in the vocabulary"
_TOKENIZER = f"{', '.join(options.TOKENIZERS)}, or a file or folder"
_PRESET = "fine-tune a BERT, RoBERTa, GPT-2 or LLaMA from a folder of Hugging Face"
_NO_HEADER = "the first line of the table is a row; its columns are named 1, 2, …"
_BALANCED = "give all classes the same share of the loss"
_HEADS = "attention heads of a bert or gpt"
_DROPOUT = "dropout rate of the inputs of each layer"
_WARM_UP = "steps in which the learning rate rises"
_EPOCHS = f"passes over the data, such as 2.5 (default: {options.EPOCHS})"
_STEPS = "training steps, instead of --epochs"
_EVERY = "steps between two checkpoints"
_PATIENCE = (
    "validations without a lower loss after which training stops, with the best "
)
_PATIENCE += "weights; 0 trains all steps"
_MINUTES = "minutes after which training stops, at the next checkpoint"
_CHUNK = "positions of which the logits exist at a time, to save memory (default: all)"
_SEEDS = "random seeds; each model is trained once with each"
MISSING = ("error", "skip")  # what is done with incomplete rows
SHARED: dict[str, Option] = {
    row.argument: row
    for row in (
        Option("--file FILE", "data", str, "a file"),
        Option("--data NAME", "data", (), "if there is no file of your own"),
        Option("--encoding NAME", "data", str, "encoding of the file, such as cp1252"),
        Option("--text COLUMN", "data", str, "column of the texts"),
        Option("--label COLUMN", "data", str, "column of the labels"),
        Option("--no-header", "data", None, _NO_HEADER),
        Option("--missing NAME", "data", MISSING, "for incomplete rows"),
        Option("--held-out X", "data", options.fraction, _HELD_OUT),
        Option("--max-characters N", "data", options.length, _CUT),
        Option("--balanced", "data", None, _BALANCED),
        Option("--tokenizer NAME", "data", str, _TOKENIZER),
        Option(
            "--vocabulary-size --vocab-size N", "data", options.integer(), _VOCABULARY
        ),
        Option("--model --architecture NAME", "model", (), ""),
        Option("--models --model NAME", "model", (), ""),
        Option(
            "--units --hidden-size N", "model", options.units, "units of each layer"
        ),
        Option(
            "--num-layers --layers N", "model", options.num_layers, "number of layers"
        ),
        Option("--num-heads --heads N", "model", options.heads, _HEADS),
        Option("--preset FOLDER", "model", str, _PRESET),
        Option("--dropout X", "model", options.rate, _DROPOUT),
        Option("--batch-size N", "training", options.integer(), "examples in a batch"),
        Option(
            "--sequence-length N",
            "training",
            options.length,
            "time steps in an example",
        ),
        Option(
            "--learning-rate X", "training", options.positive, "learning rate of Adam"
        ),
        Option("--warm-up N", "training", options.integer(0), _WARM_UP),
        Option("--epochs X", "training", options.positive, _EPOCHS),
        Option("--steps N", "training", options.integer(), _STEPS),
        Option("--checkpoint-every N", "training", options.integer(), _EVERY),
        Option("--patience N", "training", options.integer(0), _PATIENCE),
        Option("--max-minutes X", "training", options.positive, _MINUTES),
        Option("--loss-chunk-size N", "training", options.integer(), _CHUNK),
        Option("--seed N", "training", options.seed, "random seed"),
        Option("--seeds --seed 0,1,…", "training", options.seed, _SEEDS),
    )
}


def shared(
    argument: str,
    default: Any = None,
    help: str | None = None,
    names: Collection[str] | None = None,
) -> Option:
    """Returns a row of the table, with the default of a task.

    Args:
        argument: The argument.
        default: Its default.
        help: The help, if that of the table does not fit the task.
        names: The names that the value can have, if the table has none.
    """
    row = SHARED[argument]
    kind, text = names or row.type, row.help if help is None else help
    return row._replace(default=default, type=kind, help=text)


def task_table(*rows: Option) -> tuple[Option, ...]:
    """Returns rows, of which a later one replaces an earlier one of the same names."""
    return tuple({row.names: row for row in rows}.values())


def task_defaults(rows: Iterable[Option]) -> dict[str, Any]:
    """Returns the arguments of a task with their defaults."""
    return {row.argument: row.default for row in rows}


def add_task(parser: argparse.ArgumentParser, name: str, task: ModuleType) -> None:
    """Adds the options of a task.

    Args:
        parser: The parser of the task.
        name: The name of the task.
        task: Its module, whose `OPTIONS` are the rows.
    """
    options.add_resume(parser)
    groups: dict[str, options.Options] = {"": parser}
    for row in task.OPTIONS:
        if row.group not in groups:
            groups[row.group] = parser.add_argument_group(row.group)
        _add_row(groups[row.group], row, task.FILE)
    several = isinstance(task.DEFAULTS.get("model"), list)
    named = [name for name in ("model", "method") if name in task.DEFAULTS]
    kind = "-race" if several else "".join(f"-{name.upper()}" for name in named)
    group = parser.add_argument_group("run")
    options.add_new_run(group, f"runs/{name}{kind}-N")


def _add_row(group, row, file=None):
    kind, text, default = row.type, row.help, row.default
    if kind is not None and not callable(kind):
        text = f"{', '.join(kind)}{'; ' * bool(text)}{text}"
        if row.argument == "data":
            default = next(iter(kind))
            kind = options.data_set(kind, file)
        else:
            word = row.argument.replace("_", " ").removesuffix("s")
            kind = options.one_of(WORDS.get(word, word), kind)
    *names, metavar = row.names.split() if kind else (row.names, None)
    if isinstance(default, list):
        kind, default = options.list_of(kind), ",".join(map(str, default))
        metavar = "A,B,…" if metavar == "NAME" else metavar
    options.add(group, " ".join(names), kind, text, metavar, shown=default)


def add_rows(parser: options.Options, rows: Iterable[Option]) -> None:
    """Adds options to another command, which has no defaults for them."""
    for row in rows:
        _add_row(parser, row)


def add_shared(parser: options.Options, *names: str) -> None:
    """Adds options of the table to another command."""
    add_rows(parser, [SHARED[name] for name in names])
