"""What all cells share: dropout, seeds, initializers and the like, wrong arguments."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.layers import (
    GRU,
    LSTM,
    RNN,
    ElmanCell,
    ElmanRNN,
    GatedCell,
    GatedRNN,
    GRUCell,
    LSTMCell,
    PeepholeLSTM,
    SimpleRNN,
)
from tests.layer_checks import as_list, assert_close
from tests.processes import ROOT, run_python
from tests.rnn import references

pytestmark = pytest.mark.once("arguments and configurations")

CELLS = [ElmanCell, GatedCell, LSTMCell, GRUCell]
LAYERS = [ElmanRNN, SimpleRNN, GatedRNN, LSTM, PeepholeLSTM, GRU]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("cls", CELLS + LAYERS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"units": 0}, ValueError, "units must be at least 1, received 0"),
        ({"units": 2.5}, TypeError, "units must be a whole number, received 2.5"),
        (
            {"dropout": 1.5},
            ValueError,
            "dropout must lie between 0 and 1, received 1.5",
        ),
        ({"dropout": 1}, ValueError, "dropout=1 would drop everything"),
        ({"recurrent_dropout": -0.1}, ValueError, "recurrent_dropout must lie"),
    ],
)
def test_wrong_arguments(cls, arguments, error, message):
    with pytest.raises(error, match=message):
        cls(**{"units": 3, **arguments})


@pytest.mark.parametrize("cls", [LSTM, PeepholeLSTM, GRU])
def test_without_cudnn_asking_for_it_is_an_error(cls):
    with pytest.raises(ValueError, match='use_cudnn=True` needs an NVIDIA GPU.*"auto"'):
        cls(3, use_cudnn=True)
    with pytest.raises(ValueError, match='use_cudnn="aut".*Did you mean "auto"'):
        cls(3, use_cudnn="aut")
    assert cls(3, use_cudnn=False).get_config()["use_cudnn"] is False


@pytest.mark.parametrize("cls", LAYERS)
def test_the_layer_shows_the_arguments_of_its_cell(cls):
    layer = cls(3, dropout=0.25, kernel_initializer="ones", seed=5)
    assert (layer.units, layer.dropout, layer.seed) == (3, 0.25, 5)
    assert layer.kernel_initializer is layer.cell.kernel_initializer


@pytest.mark.parametrize("cls", LAYERS)
def test_initializers_regularizers_and_constraints_take_effect(cls):
    layer = cls(
        3,
        kernel_initializer=keras.initializers.Constant(0.25),
        recurrent_initializer=keras.initializers.Constant(0.5),
        bias_initializer=keras.initializers.Constant(2.0),
        kernel_regularizer=keras.regularizers.L1(1.0),
        recurrent_regularizer=keras.regularizers.L2(0.5),
        bias_regularizer=keras.regularizers.L1(0.01),
        activity_regularizer=keras.regularizers.L1(7.0),
        kernel_constraint=keras.constraints.NonNeg(),
        recurrent_constraint=keras.constraints.MaxNorm(0.1),
        bias_constraint=keras.constraints.UnitNorm(axis=-1),
    )
    layer.build((None, 4, 5))
    gates, cell = layer.cell.gates, layer.cell
    assert_close(cell.kernel, np.full((5, gates * 3), 0.25))
    assert_close(cell.recurrent_kernel, np.full((3, gates * 3), 0.5))
    bias = np.full(cell.bias.shape, 2.0)
    if isinstance(layer, LSTM):
        bias[3:6] = 1  # the forget gate's
    assert_close(cell.bias, bias)

    kernel = 0.25 * 5 * gates * 3
    recurrent = 0.5 * 0.25 * 3 * gates * 3
    outputs = ops.convert_to_numpy(layer(np.ones((2, 1, 5), "float32")))
    activity = 7 * np.abs(outputs).sum() / 2  # per row of the batch
    expected = [activity, kernel, recurrent, 0.01 * bias.sum()]
    losses = sorted(float(ops.convert_to_numpy(x)) for x in layer.losses)
    assert_close(losses, sorted(expected), atol=1e-4)

    assert_close(cell.kernel.constraint(ops.convert_to_tensor(-cell.kernel)), 0.0)
    norm = ops.norm(cell.recurrent_kernel.constraint(cell.recurrent_kernel), axis=0)
    assert_close(norm, np.full(gates * 3, 0.1), atol=1e-4)
    norm = ops.norm(cell.bias.constraint(cell.bias), axis=-1)
    assert_close(norm, np.ones(norm.shape), atol=1e-4)


@pytest.mark.parametrize("cls", LAYERS)
def test_without_bias(cls):
    layer = cls(3, use_bias=False)
    layer.build((None, 4, 5))
    assert "bias" not in {w.name for w in layer.weights}
    zero = np.zeros((2, 1, 5), "float32")
    assert_close(layer(zero), np.zeros((2, 3)))


@pytest.mark.parametrize("cls", CELLS)
def test_each_gate_has_a_dropout_of_its_own(cls):
    """As in Keras, with `recurrent_dropout`; with `dropout` alone they share one."""
    cell = cls(3, dropout=0.5, recurrent_dropout=0.5, seed=1)
    cell.build((None, 5))
    cell.kernel.assign(np.ones(cell.kernel.shape))
    x = ops.ones((97, 5))
    blocks = np.split(
        ops.convert_to_numpy(cell.project(x, training=True)), cell.gates, 1
    )
    bias = np.split(np.atleast_2d(ops.convert_to_numpy(cell.bias))[0], cell.gates)
    blocks = [b - c for b, c in zip(blocks, bias, strict=True)]
    for block in blocks:
        assert_close(block, np.repeat(block[:, :1], 3, axis=1))
        assert set(np.round(np.unique(block), 4)) <= {0, 2, 4, 6, 8, 10}
        assert abs(block.mean() - 5) < 1
    for one, other in zip(blocks, blocks[1:], strict=False):
        assert np.any(one != other)

    shared = cls(3, dropout=0.5, seed=1)
    shared.build((None, 5))
    shared.kernel.assign(np.ones(shared.kernel.shape))
    first, *rest = np.split(
        ops.convert_to_numpy(shared.project(x, training=True)), shared.gates, 1
    )
    for block, b in zip(rest, bias[1:], strict=True):
        assert_close(block - b, first - bias[0])


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("cls", CELLS)
def test_recurrent_dropout_drops_states_in_training(cls, unroll):
    cell = cls(5, recurrent_dropout=0.5, seed=1)
    cell.build((None, 3))
    kernel = ops.convert_to_numpy(cell.recurrent_kernel)
    cell.recurrent_kernel.assign(np.ones(kernel.shape))
    h = ops.ones((97, 5))
    assert_close(cell.recurrent_product(h), np.full((97, kernel.shape[1]), 5))
    dropped = ops.convert_to_numpy(cell.recurrent_product(h, training=True))
    cell.reset_recurrent_dropout_mask()
    assert {0, 2, 4, 6, 8, 10} >= set(np.unique(np.round(dropped, 4)))
    assert abs(dropped.mean() - 5) < 0.5 and dropped.std() > 2

    cell.recurrent_kernel.assign(kernel)
    layer = RNN(cell, return_sequences=True, unroll=unroll)
    x = RNG.normal(size=(2, 7, 3)).astype("float32")
    plain, *drawn = (
        ops.convert_to_numpy(layer(x, training=training))
        for training in (False, True, True)
    )
    assert_close(drawn[0][:, 0], plain[:, 0])  # the first state is 0
    assert not np.allclose(drawn[0], plain, atol=1e-3)
    assert not np.allclose(drawn[0], drawn[1], atol=1e-3)


@pytest.mark.parametrize("cls", CELLS)
def test_the_two_halves_are_the_call(cls):
    cell = cls(3)
    cell.build((None, 5))
    references.random_weights(cell)
    x = ops.convert_to_tensor(RNG.normal(size=(2, 5)), "float32")
    states = [x[:, n : n + 3] for n, _ in enumerate(cell.state_names)]
    output, new_states = cell(x, states)
    halves, half_states = cell.step(cell.project(x), states)
    assert_close(halves, output)
    for actual, expected in zip(half_states, new_states, strict=True):
        assert_close(actual, expected)
    many = ops.convert_to_tensor(RNG.normal(size=(7, 2, 5)), "float32")
    assert_close(cell.project(many)[4], cell.project(many[4]))


@pytest.mark.everywhere("dropout is drawn by the backend", cases=1)
@pytest.mark.parametrize("cells", [[ElmanCell], [GatedCell], [LSTMCell, GRUCell]])
def test_dropout_in_the_layers_of_keras_under_fit(cells):
    """On JAX the masks must be drawn before the loop, and they are."""
    cells = [cls(3, dropout=0.5, recurrent_dropout=0.5, seed=1) for cls in cells]
    cell = keras.layers.StackedRNNCells(cells) if len(cells) > 1 else cells[0]
    model = keras.Sequential([keras.Input((4, 5)), keras.layers.RNN(cell)])
    model.compile("sgd", "mse")
    x = RNG.normal(size=(2, 4, 5)).astype("float32")
    first, second = (model.train_on_batch(x, np.ones((2, 3))) for _ in range(2))
    assert np.isfinite([first, second]).all() and first != second


@pytest.mark.parametrize("cls", CELLS)
def test_states_at_the_start(cls):
    cell = cls(3)
    states = cell.get_initial_state(batch_size=2)
    assert len(states) == len(as_list(cell.state_size))
    for state in states:
        assert_close(state, np.zeros((2, 3)))


def dropped():
    """Outputs with dropout, twice, and without it, twice."""
    layer = GRU(
        3,
        dropout=0.5,
        recurrent_dropout=0.5,
        seed=1,
        kernel_initializer=keras.initializers.GlorotUniform(seed=2),
        recurrent_initializer=keras.initializers.Orthogonal(seed=3),
    )
    x = np.ones((2, 7, 5), "float32")
    calls = [layer(x, training=training) for training in (True, True, False, False)]
    return np.stack([ops.convert_to_numpy(y) for y in calls])


@pytest.mark.once("names of Keras: no backend is asked")
def test_dropout_is_the_same_without_the_private_class_of_keras():
    code = """
import keras
class LSTMCell(keras.layers.Layer):
    def get_dropout_mask(self, step_input): pass
keras.layers.LSTMCell = LSTMCell
from kerasseq.rnn import cell
from tests.rnn.test_cell import dropped
assert cell.DropoutRNNCell is cell.DropoutMasks
print(dropped().tolist())
"""
    one, two, plain, again = dropped()
    assert not np.array_equal(one, two) and not np.array_equal(one, plain)
    assert np.array_equal(plain, again)
    found = json.loads(run_python(code, cwd=ROOT).stdout)
    np.testing.assert_allclose(found, [one, two, plain, again], atol=1e-6)
