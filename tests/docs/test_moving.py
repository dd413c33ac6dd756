"""The tables of `howto/moving.md`: the same weights give the same numbers."""

import re

import keras
import numpy as np
import pytest

from kerasseq import layers
from tests.docs.site import PAGES

pytestmark = pytest.mark.full("the checks of each layer compare with Keras, too")

PAGE = (PAGES / "en" / "howto" / "moving.md").read_text(encoding="utf-8")
TIME, VOCABULARY = 7, 11
RNG = np.random.default_rng(0)
INPUTS = {
    "x": RNG.normal(size=(2, TIME, 6)).astype("float32"),
    "ids": RNG.integers(VOCABULARY, size=(2, TIME)),
    "mask": np.arange(TIME) < np.array([[TIME], [TIME - 2]]),
    "causal": np.tril(np.ones((TIME, TIME), bool)),
}
NAMES = {"keras": keras, "layers": layers}


def rows(beginning):
    """Returns the rows whose first code begins so, as lists of code by column."""
    return [
        [re.findall("`(.*?)`", cell) for cell in line.split(" | ")]
        for line in PAGE.splitlines()
        if line.startswith(f"| `{beginning}.")
    ]


def by_code(row):
    """Returns the name of a test: what is moved, and how it is called."""
    return " ".join(row[0] + row[2])


def build(layer, call):
    """Builds a layer by the shapes of the inputs in its call."""
    names = re.findall(r"\b(?:x|ids)\b", call)
    layer.build(*[INPUTS[name].shape for name in names])


def check_keras(row, **library):
    (theirs,), (ours,), (call,) = row
    theirs, ours = (eval(code, NAMES | library) for code in (theirs, ours))
    build(theirs, call)
    build(ours, call)
    rng = np.random.default_rng(1)
    theirs.set_weights([rng.normal(size=w.shape) for w in theirs.get_weights()])
    ours.set_weights(theirs.get_weights())
    found, expected = (
        keras.ops.convert_to_numpy(eval(call, {"layer": layer, **INPUTS}))
        for layer in (ours, theirs)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.everywhere("Keras' layers compute by the backend", cases=3)
@pytest.mark.parametrize("row", rows("keras.layers"), ids=by_code)
def test_keras(row):
    check_keras(row)


@pytest.mark.parametrize("row", rows("keras_hub.layers"), ids=by_code)
def test_keras_hub(row):
    check_keras(row, keras_hub=pytest.importorskip("keras_hub"))


@pytest.fixture(scope="module")
def from_torch():
    """The functions of the page that give the weights of PyTorch's layers."""
    torch = pytest.importorskip("torch")
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    names = NAMES | {"np": np, "torch": torch, "nn": torch.nn}
    exec(code, names)
    return names


@pytest.mark.once("PyTorch against the layers as they compute on PyTorch")
@pytest.mark.parametrize("row", rows("nn"), ids=by_code)
def test_torch(row, from_torch):
    (theirs, their_call), (ours, our_call), (weights,) = row
    theirs, ours = eval(theirs, from_torch).eval(), eval(ours, NAMES)
    torch = from_torch["torch"]
    generator = torch.Generator().manual_seed(1)
    for weight in theirs.parameters():  # also biases, which can be 0 otherwise
        torch.nn.init.uniform_(weight, -1, 1, generator=generator)
    build(ours, our_call)
    ours.set_weights(eval(weights, {**from_torch, "theirs": theirs}))
    tensors = {name: torch.tensor(x) for name, x in INPUTS.items()}
    expected = eval(their_call, {"theirs": theirs, **tensors}).detach().numpy()
    found = keras.ops.convert_to_numpy(eval(our_call, {"ours": ours, **INPUTS}))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.once("reads the page")
def test_all_rows_are_tested():
    tested = [rows(library) for library in ("keras.layers", "keras_hub.layers", "nn")]
    assert sum(map(len, tested)) == PAGE.count("\n| `") > 25
