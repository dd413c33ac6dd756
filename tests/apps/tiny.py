"""Models that pages need, untrained and small: as if they had been prepared."""

import functools
import json
import pathlib
import shutil
import tempfile

import keras

import kerasseq

ALPHABET = "".join(map(chr, range(32, 127))) + "\n"


def classifier(cell):
    """Reads parentheses, as the models of the lab Gates."""
    return kerasseq.models.SequenceClassifier(cell, 2, vocabulary_size=3, units=12)


def writer(cell):
    """Writes text, as the models of the lab Gates."""
    tokenizer = kerasseq.text.CharacterTokenizer().fit(ALPHABET)
    return kerasseq.models.LanguageModel(cell, tokenizer, units=64)


MAKERS = {"parentheses": classifier, "language-model": writer}  # by task


@functools.cache
def _file(task, cell, backend):
    keras.utils.set_random_seed(0)
    file = pathlib.Path(tempfile.mkdtemp()) / "model.keras"
    MAKERS[task](cell).save(file)
    return file


def put(folder, recipe):
    """Makes the files of a prepared model, if there is a maker of its task."""
    task, *options = recipe.words
    if task in MAKERS and "--model" in options:
        cell = options[options.index("--model") + 1]
        (folder / recipe.part).mkdir(parents=True, exist_ok=True)
        file = _file(task, cell, keras.config.backend())
        shutil.copy(file, folder / recipe.part / "model.keras")
        (folder / "results.json").write_text(json.dumps({}))
