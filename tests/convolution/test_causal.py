"""The causal convolution: Keras' numbers, masks, and cuts of a sequence."""

import inspect

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.layers import CausalConv1D, WaveNet
from tests.convolution.references import array, fill
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("products and gathers of the backend")

RNG = np.random.default_rng(1)
X = RNG.normal(size=(3, 7, 6)).astype("float32")
# Padding on the right, on the left, and between real steps.
REAL = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0, 1]])
REAL = REAL.astype(bool)
CASES = {
    "plain": (5, 3, {"dilation_rate": 2, "activation": "tanh"}),
    "depthwise": (6, 4, {"groups": 6}),
    "groups": (4, 2, {"groups": 2, "use_bias": False}),
    "multiplied": (12, 3, {"groups": 6}),
    "pointwise": (5, 1, {}),
}
LAYERS = {
    "CausalConv1D": lambda: CausalConv1D(5, 3, dilation_rate=2),
    "WaveNet": lambda: WaveNet(5, dilations=[1, 2, 3]),
    "pointwise": lambda: CausalConv1D(5, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_is_the_convolution_of_keras(case):
    filters, size, options = CASES[case]
    ours = CausalConv1D(filters, size, **options)
    theirs = keras.layers.Conv1D(filters, size, padding="causal", **options)
    ours.build(X.shape)
    theirs.build(X.shape)
    fill(theirs)
    ours.set_weights(theirs.get_weights())
    assert_close(ours(X), theirs(X), atol=1e-5)
    assert [w.name for w in ours.weights] == [w.name for w in theirs.weights]


@pytest.mark.once("signatures")
def test_arguments_of_keras_in_the_same_order():
    def arguments(cls):
        found = inspect.signature(cls).parameters.values()
        return [(p.name, p.default) for p in found if p.name != "kwargs"]

    expected = dict(arguments(keras.layers.Conv1D))
    for name in ("strides", "padding", "data_format"):
        del expected[name]
    assert arguments(CausalConv1D) == list(expected.items())


def parts(layer, cuts):
    """Outputs and last states of sequences that are read in parts."""
    advance = kernels.compiled(layer.advance)
    outputs, states = [], layer.get_initial_state(len(X))
    for start, end in zip(cuts, cuts[1:], strict=False):
        real = REAL[:, start:end]
        y, states = advance(
            *keras.tree.map_structure(
                keras.ops.convert_to_tensor, (X[:, start:end], states, real)
            )
        )
        outputs.append(array(y))
    return np.concatenate(outputs, axis=1), keras.tree.map_structure(array, states)


@pytest.mark.parametrize("name", LAYERS)
def test_any_cut_gives_the_whole(name):
    layer = LAYERS[name]()
    layer.build(X.shape)
    fill(layer)
    y = array(layer(X, mask=REAL))
    np.testing.assert_array_equal(y[~REAL], 0)
    for row, real in enumerate(REAL):  # a masked step is skipped
        alone = array(layer(X[row : row + 1, real]))[0]
        np.testing.assert_allclose(y[row, real], alone, atol=1e-5)
    _, last = layer.advance(X, mask=REAL)
    for cuts in ([0, 2, 6, 7], range(8)):
        found, states = parts(layer, list(cuts))
        np.testing.assert_allclose(found, y, atol=1e-5)
        for state, expected in zip(states, last, strict=True):
            np.testing.assert_allclose(state, array(expected), atol=1e-5)
            assert state.shape == np.shape(expected)


@pytest.mark.once("the state is that of the inputs")
def test_the_state_is_the_last_real_inputs():
    layer = CausalConv1D(2, 3, dilation_rate=2)
    (state,) = layer.advance(X, mask=REAL)[1]
    for row, real in enumerate(REAL):
        np.testing.assert_array_equal(array(state)[row], X[row, real][-4:])
    (state,) = layer.advance(X[:, :1], [state], np.zeros((3, 1), bool))[1]
    np.testing.assert_array_equal(array(state)[0], X[0, 1:5])  # all masked


@pytest.mark.once("no arithmetic")
@pytest.mark.parametrize("name", ["CausalConv1D", "WaveNet"])
def test_no_output_depends_on_later_steps(name):
    layer = LAYERS[name]()
    layer.build(X.shape)
    fill(layer)
    other = X.copy()
    other[:, 4:] += 3
    for options in ({}, {"mask": REAL}):
        before, after = array(layer(X, **options)), array(layer(other, **options))
        np.testing.assert_array_equal(before[:, :4], after[:, :4])
        assert np.abs(before[0, 4] - after[0, 4]).max() > 1e-3


@pytest.mark.once("error messages")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CausalConv1D(0, 3), ValueError, "filters must be at least 1"),
        (lambda: CausalConv1D(2, 0), ValueError, "kernel_size must be at least 1, rec"),
        (lambda: CausalConv1D(2, 2.5), TypeError, "kernel_size must be a whole number"),
        (
            lambda: CausalConv1D(2, 2, dilation_rate=0),
            ValueError,
            "dilation_rate must be at least 1, received 0",
        ),
        (
            lambda: CausalConv1D(4, 2, groups=3),
            ValueError,
            "groups must divide filters=4, received groups=3",
        ),
        (
            lambda: CausalConv1D(4, 2, groups=4)(X),
            ValueError,
            "groups must divide the 6 channels of the inputs, received groups=4",
        ),
        (
            lambda: CausalConv1D(4, 2).get_initial_state(2),
            ValueError,
            "not built. Call",
        ),
        (lambda: CausalConv1D(4, 2)(X[:, :0]), ValueError, "of 0 steps"),
        (lambda: WaveNet(0), ValueError, "units must be at least 1, received 0"),
        (lambda: WaveNet(3, 0), ValueError, "kernel_size must be at least 1"),
        (
            lambda: WaveNet(3, dilations=[]),
            ValueError,
            r"dilations must have a number for each block of a stack, received \[\]",
        ),
        (
            lambda: WaveNet(3, dilations=[1, 0]),
            ValueError,
            r"dilations\[1\] must be at least 1, received 0",
        ),
        (lambda: WaveNet(3, dilations=4), TypeError, "dilations` must be a list of"),
        (lambda: WaveNet(3, stacks=0), ValueError, "stacks must be at least 1"),
        (lambda: WaveNet(3, skip_units=0), ValueError, "skip_units must be at least 1"),
        (
            lambda: WaveNet(3, dilations=[10**12]),
            ValueError,
            "dilations must .* memory",
        ),
    ],
)
def test_wrong_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.once("error messages")
def test_states_of_another_batch_or_layer():
    layer = CausalConv1D(2, 3)
    _, states = layer.advance(X)
    for wrong, error, message in [
        ([states[0][:2]], ValueError, r"states\[0\] must have shape \(3, 2, 6\), rec"),
        ([states[0][:, :1]], ValueError, r"received shape \(3, 1, 6\)"),
        (states * 2, ValueError, "states must have 1 tensors, received 2"),
        (states[0], TypeError, "states must be a list of 1 tensors"),
        ([3], TypeError, r"states\[0\] must be a tensor, received 3"),
    ]:
        with pytest.raises(error, match=message):
            layer.advance(X, wrong)
