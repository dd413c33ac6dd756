"""The commands, and the tasks of `kerasseq train`: a row each, with its module.

A module is imported when it is used: a command loads no other, and `--help` none.
"""

import importlib
from collections.abc import Iterator, Mapping
from types import ModuleType


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
