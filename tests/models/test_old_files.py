"""Model files of an earlier version load, and predict what they predicted there.

`files/` has a small trained model of each kind, as `save` wrote it before the models
had one base class, when their classes stood in other modules. `outputs.json` has what
that version predicted on PyTorch, rounded to six decimals.
"""

import json
import pathlib

import numpy as np
import pytest

import kerasseq

pytestmark = pytest.mark.once("what a file holds does not depend on the backend")

FILES = pathlib.Path(__file__).parent / "files"
OUTPUTS = json.loads((FILES / "outputs.json").read_text())
TEXTS, LABELS = ["b a", "a", "a a b", "b", "b b"], ["x", "y", "y", "x", "y"]
WORDS = [text.split() for text in TEXTS]
TAGS = [["x" if word == "a" else "y" for word in row] for row in WORDS]
TARGETS = ["a", "b b", "b", "a b", "a"]
IMAGES = np.arange(5 * 4 * 6, dtype="uint8").reshape(5, 4, 6) * 2


def of_rows(model, x):
    return np.concatenate(model.predict(x, verbose=0), axis=None)


def of_pairs(model):
    return model.predict((TEXTS, TARGETS), verbose=0)


KINDS = {  # how each predicts, and what it is trained on again
    "classifier": (lambda model: of_rows(model, TEXTS), (TEXTS, LABELS)),
    "tagger": (lambda model: of_rows(model, WORDS), (WORDS, TAGS)),
    "bert": (lambda model: of_rows(model, TEXTS), (TEXTS, LABELS)),
    "gpt_task": (lambda model: of_rows(model, TEXTS), (TEXTS, LABELS)),
    "vit": (lambda model: of_rows(model, IMAGES), (IMAGES, LABELS)),
    "language_model": (lambda model: of_rows(model, TEXTS), ("a b ab ba " * 30,)),
    "seq2seq": (of_pairs, (TEXTS, TARGETS)),
    "transformer": (of_pairs, (TEXTS, TARGETS)),
    "forecaster": (
        lambda model: model.forecast(3).iloc[:, 1:].to_numpy("float64"),
        (),
    ),
}


@pytest.mark.everywhere("tensors of a file in the layers of a backend", cases=1)
@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_an_earlier_version(name, tmp_path):
    predicted, _ = KINDS[name]
    expected = np.array(OUTPUTS[name])
    model = kerasseq.load_model(FILES / f"{name}.keras")
    np.testing.assert_allclose(np.ravel(predicted(model)), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    again = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(np.ravel(predicted(again)), expected, atol=1e-5)


@pytest.mark.full("training of loaded models; predictions are compared above")
@pytest.mark.parametrize("name", [name for name in KINDS if name != "forecaster"])
def test_a_loaded_model_continues_training(name):
    model = kerasseq.load_model(FILES / f"{name}.keras")
    options = {"sequence_length": 7} if name == "language_model" else {}
    history = model.fit(*KINDS[name][1], verbose=0, **options).history
    assert np.isfinite(history["loss"]).all()
