"""The commands, the tasks of `kerasseq train` and the options of tasks: a row each.

The module of a command or task is imported when it is used: a command loads no other,
and `--help` none. Loads no Keras.
"""

import argparse
import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from kerasseq.cli import options


class Modules(Mapping[str, ModuleType]):
    """Modules of this package by the names that users type.

    Args:
        rows: The summary of each name.
        files: The modules that are not named as what users type.

    Examples:
        >>> TASKS["language-model"].__name__
        'kerasseq.cli.language_model'
    """

    def __init__(self, rows: Mapping[str, str], **files: str) -> None:
        self._rows, self._files = rows, files

    def __getitem__(self, name: str) -> ModuleType:
        if name not in self._rows:
            raise KeyError(name)
        file = self._files.get(name, name.replace("-", "_"))
        return importlib.import_module(f"kerasseq.cli.{file}")

    def __contains__(self, name: object) -> bool:
        return name in self._rows  # that of `Mapping` would import it

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def summary(self, name: str) -> str:
        """Returns the line about a name in `--help`."""
        return self._rows[name]


COMMANDS = Modules(
    {
        "quickstart": "train a first model in a minute or two",
        "app": "open the app in the browser",
        "train": "train a model, or resume a run",
        "compare": "compare simple models, networks and a pre-trained encoder",
        "scale": "show how the loss of language models falls with their width",
        "generate": "generate text with a trained language model",
        "chat": "talk with a language model that was trained on conversations",
        "report": "write a page that compares language models after each stage",
        "arena": "compare language models by blind votes between two continuations",
        "translate": "translate with a trained model",
        "transcribe": "write down the speech, or Morse code, of WAV files",
        "predict": "classify texts or images, tag or translate texts, or forecast",
        "evaluate": "evaluate a classifier or tagger on a file or a folder",
        "inspect": "inspect a trained model",
        "export": "write a model for onnxruntime, LiteRT and others, without Keras",
        "tokenize": "tokenize a text",
        "prepare": "tokenize texts larger than memory, to train on",
        "params": "count the parameters of GPT-3 and other models",
        "data": "list the data sets, or print samples of one",
        "eliza": "talk with ELIZA, the chatbot of 1966",
        "positions": "compare position encodings",
        "info": "print versions, backends and devices",
        "completion": "print the script by which a shell completes the command",
    }
)

# Each task has `OPTIONS`, a row each, and `DEFAULTS`, its arguments; `FILE`, the one
# that names a file of the user; and `train`, which trains, evaluates and draws the
# figures. Its docstring is the help.
_COMPARISONS = {
    "translators": "compare RNNenc, RNNsearch and a Transformer of equal size",
    "cells": "compare recurrent cells on four tasks",
}
TASKS = Modules(
    {
        "language-model": "predict the next token of a text",
        "classify": "classify texts, trained on a table of texts and labels",
        "tag": "tag words, trained on sentences with a tag for each word",
        "images": "classify images, trained on a folder with a subfolder for each "
        "class",
        "parentheses": "a race: is a string of parentheses balanced?",
        "forecast": "predict the next values of a series, or of a table of your own",
        "translation": "translate, trained on pairs of texts",
        "speech": "write down speech or Morse code, trained on sounds and texts",
        "contrastive": "find the caption of a picture and back, trained on pictures "
        "and captions",
        "captions": "describe pictures, trained on a folder with a table of captions",
        "draw": "draw pictures from captions, trained on pictures and captions",
        "bert": "pre-train BERT: masked tokens and next sentences",
        "conversations": "train a language model on conversations, to talk with it",
        "preferences": "train a language model on votes, or on the rewards of its "
        "answers",
        "vectors": "learn a vector for each word of a text",
        "compare": f"{COMMANDS.summary('compare')}; the same as kerasseq compare",
        "scale": f"{COMMANDS.summary('scale')}; the same as kerasseq scale",
        **_COMPARISONS,
    },
    parentheses="race",
    vectors="word_vectors",
)
COMPARISONS = Modules(_COMPARISONS)  # tasks of `kerasseq compare`, too
ALIASES = {"race": "parentheses"}  # other names that a task can be typed with


# Options of tasks, and the table of those that several share

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
