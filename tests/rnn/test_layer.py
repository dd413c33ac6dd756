"""`RNN` around any cell; our layers inside Keras' layers; stateful; `advance`."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from tests.layer_checks import as_list, assert_close
from tests.rnn import references

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5)).astype("float32")
MASK = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 0]], bool)


@keras.saving.register_keras_serializable(package="tests")
class Plain(keras.layers.Layer):
    """A cell as people write them: no `training`, a bare state, its own output."""

    state_size, output_size = 3, 2

    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1], 3), name="w")

    def call(self, inputs, states):
        h = ops.tanh(ops.matmul(inputs, self.w) + 0.5 * states[0])
        return h[:, :2], h


FOREIGN = {
    "simple": lambda: keras.layers.SimpleRNNCell(3),
    "lstm": lambda: keras.layers.LSTMCell(3),
    "gru": lambda: keras.layers.GRUCell(3),
    "stacked": lambda: keras.layers.StackedRNNCells(
        [keras.layers.LSTMCell(2), keras.layers.GRUCell(3)]
    ),
    "mixed": lambda: keras.layers.StackedRNNCells(
        [layers.LSTMCell(2, peephole="full"), layers.GatedCell(3)]
    ),
    "plain": Plain,
}


def pair(cell, theirs=keras.layers.RNN, **options):
    """Ours and Keras', with a cell of the same weights each."""
    both = [cls(cell(), **options) for cls in (layers.RNN, theirs)]
    for layer in both:
        layer.build(X.shape)
    both[0].set_weights(references.random_weights(both[1]))
    return both


@pytest.mark.everywhere("states and masks through the kernel", cases=1)
@pytest.mark.parametrize("cell", FOREIGN)
def test_foreign_cells_run_as_in_keras(cell):
    options = {"return_sequences": True, "return_state": True}
    ours, theirs = pair(FOREIGN[cell], **options)
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0]], bool)
    # Keras on JAX cannot mask outputs of another size than the state.
    mask = None if cell == "plain" else ops.convert_to_tensor(mask)
    found, expected = ours(X, mask=mask), theirs(X, mask=mask)
    keras.tree.map_structure(assert_close, found, expected)
    shapes = keras.tree.flatten(ours.compute_output_shape(X.shape))
    assert shapes == keras.tree.flatten(theirs.compute_output_shape(X.shape))


def test_a_mask_on_outputs_of_another_size_than_the_state():
    layer = layers.RNN(Plain(), return_sequences=True, unroll=True)
    outputs = ops.convert_to_numpy(layer(X, mask=MASK))
    assert_close(outputs[1, :2], np.zeros((2, 2)))
    assert_close(outputs[1, 2:], layer(X[1:2, 2:])[0])
    assert_close(outputs[2, 3], outputs[2, 2])


@pytest.mark.everywhere("states and masks through the kernel", cases=1)
@pytest.mark.parametrize("name", ["ElmanRNN", "GatedRNN", "LSTM", "GRU"])
def test_keras_rnn_around_our_cell_is_our_layer(name):
    ours = getattr(layers, name)(3, return_sequences=True, return_state=True)
    ours.build(X.shape)
    references.random_weights(ours)
    theirs = keras.layers.RNN(ours.cell, return_sequences=True, return_state=True)
    for actual, expected in zip(ours(X), theirs(X), strict=True):
        assert_close(actual, expected)


def test_config_of_rnn_keeps_the_cell():
    layer = layers.RNN(layers.LSTMCell(3, peephole="full"), go_backwards=True)
    again = layers.RNN.from_config(layer.get_config())
    assert isinstance(again.cell, layers.LSTMCell)
    assert again.cell.peephole == "full" and again.go_backwards


@pytest.mark.everywhere("states and masks through the kernel", cases=1)
@pytest.mark.parametrize("merge_mode", ["concat", "sum", "mul", "ave", None])
@pytest.mark.parametrize("return_sequences", [False, True])
def test_bidirectional_with_masks_on_either_side(merge_mode, return_sequences):
    layer = layers.GRU(3, return_sequences=return_sequences, unroll=True)
    both = keras.layers.Bidirectional(layer, merge_mode=merge_mode)
    both.build(X.shape)
    weights = references.random_weights(both)
    start = [np.zeros((3, 3))]
    found = []
    for part, backwards in ((weights[:3], False), (weights[3:], True)):
        last, outputs, _ = references.run(
            references.gru(), part, X, start, MASK, backwards, zero=True
        )
        outputs = outputs[:, ::-1] if backwards else outputs
        found.append(outputs if return_sequences else last)
    a, b = found
    expected = {
        "concat": np.concatenate([a, b], axis=-1),
        "sum": a + b,
        "mul": a * b,
        "ave": (a + b) / 2,
        None: [a, b],
    }[merge_mode]
    actual = both(X, mask=MASK)
    for one, other in zip(
        as_list(actual), expected if merge_mode is None else [expected], strict=True
    ):
        assert_close(one, other)
    shape = both.compute_output_shape(X.shape)
    assert (shape[0] if merge_mode is None else shape) == as_list(actual)[0].shape


def test_bidirectional_with_states_and_peepholes():
    both = keras.layers.Bidirectional(
        layers.PeepholeLSTM(3, return_state=True, return_sequences=True)
    )
    both.build(X.shape)
    weights = references.random_weights(both)
    start = [RNG.normal(size=(3, 3)).astype("float32") for _ in range(4)]
    step = references.lstm("diagonal")
    output, *states = both(X, initial_state=start, mask=MASK)
    _, a, forward = references.run(step, weights[:4], X, start[:2], MASK, zero=True)
    _, b, backward = references.run(
        step, weights[4:], X, start[2:], MASK, backwards=True, zero=True
    )
    assert_close(output, np.concatenate([a, b[:, ::-1]], axis=-1))
    for actual, expected in zip(states, forward + backward, strict=True):
        assert_close(actual, expected)


def test_masks_pass_through_a_stack():
    ids = np.array([[3, 1, 2, 4], [0, 0, 2, 1], [4, 4, 0, 0]])
    model = keras.Sequential(
        [
            keras.layers.Embedding(5, 2, mask_zero=True),
            layers.LSTM(3, return_sequences=True),
            keras.layers.Bidirectional(layers.ElmanRNN(2, return_sequences=True)),
            layers.RNN(keras.layers.GRUCell(3), return_sequences=True),
            layers.GatedRNN(3),
        ]
    )
    outputs = ops.convert_to_numpy(model(ids))
    assert_close(outputs[1:], model(np.array([[2, 1], [4, 4]])))


@pytest.mark.parametrize("go_backwards", [False, True])
def test_advance_in_two_halves_is_once(go_backwards):
    layer = layers.LSTM(3, go_backwards=go_backwards, return_sequences=True)
    x = X[:, ::-1] if go_backwards else X  # a backwards layer reads the end first
    whole, states = layer.advance(X)  # builds it
    assert_close(whole, layer(X))
    half = (
        [x[:, :2][:, ::-1], x[:, 2:][:, ::-1]] if go_backwards else [x[:, :2], x[:, 2:]]
    )
    first, between = layer.advance(half[0])
    second, end = layer.advance(half[1], between)
    assert_close(ops.concatenate([first, second], axis=1), whole)
    for actual, expected in zip(end, states, strict=True):
        assert_close(actual, expected)


@pytest.mark.everywhere("states and masks through the kernel")
def test_stateful_goes_on_until_reset():
    layer = layers.LSTM(3, stateful=True, return_state=True)
    plain = layers.LSTM(3, return_state=True)
    for each in (layer, plain):
        each.build(X.shape)
    plain.set_weights(references.random_weights(layer))
    first = layer(X)
    assert_close(first[0], plain(X)[0])
    assert_close(layer(X)[0], plain(X, initial_state=first[1:])[0])
    layer.reset_state()
    assert_close(layer(X)[0], first[0])
    with pytest.raises(ValueError, match="batch size"):
        layer(X[:2])
    with pytest.raises(ValueError, match="batch size must be static"):
        layers.LSTM(3, stateful=True).build((None, 4, 5))


@pytest.mark.everywhere("states in compiled batches and mixed precision", cases=2)
@pytest.mark.parametrize(
    ("name", "policy"),
    [("LSTM", "mixed_float16"), ("GRU", "float32"), ("MinGRU", "mixed_bfloat16")],
)
def test_stateful_models_carry_states_between_batches(name, policy, tmp_path):
    """Three batches of a part each are the whole, in `predict` and in `fit`."""
    build = getattr(layers, name)
    layer = build(3, stateful=True, return_sequences=True, dtype=policy)
    model = keras.Sequential([keras.Input(batch_shape=(2, 4, 5)), layer])
    plain = build(3, return_sequences=True, return_state=True, dtype=policy)
    plain.build((2, 4, 5))
    plain.set_weights(layer.get_weights())  # states are not weights
    parts = np.random.default_rng(1).normal(size=(3, 2, 4, 5)).astype("float32")
    whole, *states = plain(np.concatenate(parts, axis=1))
    parts = parts.reshape(6, 4, 5)
    atol = {"float32": 1e-5, "mixed_float16": 5e-3, "mixed_bfloat16": 5e-2}[policy]

    def check_states():
        for found, state in zip(layer.states, states, strict=True):
            assert_close(found, ops.cast(state, "float32"), atol)
            assert found.dtype == "float32"

    found = np.concatenate(
        np.split(model.predict(parts, batch_size=2, verbose=0), 3), 1
    )
    assert_close(found.astype("float32"), ops.cast(whole, "float32"), atol)
    check_states()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").layers[-1]
    assert_close(loaded.cell.kernel, layer.cell.kernel)
    layer.reset_state()
    for each in (loaded, layer):  # a file has no states
        assert not any(ops.convert_to_numpy(state).any() for state in each.states)
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(parts, 0 * parts[..., :3], batch_size=2, shuffle=False, verbose=0)
    check_states()


@pytest.mark.once("which variables there are")
def test_weights_of_stateful_layers_are_those_of_keras(tmp_path):
    options = {"stateful": True, "name": "stacked"}
    ours, theirs = pair(FOREIGN["stacked"], **options)
    models = [
        keras.Sequential([keras.Input(batch_shape=X.shape), x]) for x in (ours, theirs)
    ]
    assert_close(models[0](X), models[1](X))
    assert ops.convert_to_numpy(ours.states[0][0]).any()
    models[1].save_weights(tmp_path / "of.weights.h5")
    ours.set_weights([0 * w for w in ours.get_weights()])
    models[0].load_weights(tmp_path / "of.weights.h5")
    ours.reset_state()  # Keras' fails on nested states
    assert_close(models[0](X), keras.layers.RNN(ours.cell)(X))
    models[0].save_weights(tmp_path / "of.weights.h5")
    theirs.set_weights([0 * w for w in theirs.get_weights()])
    models[1].load_weights(tmp_path / "of.weights.h5")
    assert_close(theirs.cell.cells[0].kernel, ours.cell.cells[0].kernel)


@pytest.mark.everywhere("states and masks through the kernel", cases=1)
@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("name", ["ElmanRNN", "LSTM", "PeepholeLSTM", "GRU"])
def test_stateful_layers_learn(name, unroll):
    keras.utils.set_random_seed(0)  # some initial weights leave all ReLU units at 0
    layer = getattr(layers, name)(3, stateful=True, unroll=unroll)
    model = keras.Sequential([keras.Input(batch_shape=X.shape), layer])
    model.compile("sgd", "mse")
    before = layer.get_weights()
    model.fit(X, np.ones((3, 3), "float32"), batch_size=3, epochs=2, verbose=0)
    assert all((a != b).any() for a, b in zip(before, layer.get_weights(), strict=True))


class TwiceCell(layers.LSTMCell):
    """A cell that does more to its inputs than ours."""

    def project(self, inputs, training=False):
        return 2 * super().project(inputs, training)


def test_a_project_of_ones_own_is_taken():
    fast, slow = (layers.RNN(TwiceCell(3), unroll=u) for u in (False, True))
    for layer in (fast, slow):
        layer.build(X.shape)
    slow.set_weights(fast.get_weights())
    assert_close(fast(X), slow(X))
    plain = layers.RNN(layers.LSTMCell(3))
    plain.build(X.shape)
    plain.set_weights(fast.get_weights())
    found, once = (ops.convert_to_numpy(layer(X)) for layer in (fast, plain))
    assert np.abs(found - once).max() > 1e-3


@pytest.mark.everywhere("oneDNN reads states of another width as they lie", cases=2)
@pytest.mark.parametrize("name", ["LSTM", "MinGRU", "ElmanRNN", "PeepholeLSTM", "GRU"])
def test_states_that_do_not_fit(name):
    layer = getattr(layers, name)(3)
    count = len(layer.get_initial_state(1))
    for rows, *given in ((3, 1, 3), (1, 3, 3), (3, 3, 5), (3, 3, 2)):
        received = f"({rows}, 3), received shape {tuple(given)}"
        with pytest.raises(ValueError, match=re.escape(f"must have shape {received}")):
            layer(X[:rows], initial_state=[ops.zeros(given)] * count)
    for wrong in (0, count + 1):
        with pytest.raises(
            ValueError, match=f"{count} tensors, received {wrong}. Pass"
        ):
            layer(X, initial_state=[ops.zeros((3, 3))] * wrong)
    state = [ops.zeros((3, 3), "int32")] * count
    assert_close(layer(X, initial_state=state), layer(X))


NESTED = [layers.LSTMCell(2), layers.MinGRUCell(3)]


@pytest.mark.once("messages")
def test_states_of_nested_cells_are_checked():
    layer = layers.RNN(keras.layers.StackedRNNCells(NESTED), return_sequences=True)
    whole, states = layer.advance(X)
    first, between = layer.advance(X[:, :3])
    assert_close(
        ops.concatenate([first, layer.advance(X[:, 3:], between)[0]], 1), whole
    )
    with pytest.raises(ValueError, match="states must have 3 tensors, received 2"):
        layer.advance(X, states[:1])


def test_wrong_rank():
    advice = r"sequences\[None\] for one sequence, or sequences\[..., None\] for one f"
    for x in (X[0], keras.Input(X.shape[2:])):
        with pytest.raises(ValueError, match=rf"\(batch, time, features\), .*{advice}"):
            layers.GRU(3)(x)


@pytest.mark.parametrize("name", ["ElmanRNN", "LSTM", "GRU"])
def test_no_step(name):
    with pytest.raises(ValueError, match="of 0 steps: there must be at least one step"):
        getattr(layers, name)(3)(X[:, :0])


@pytest.mark.everywhere("backends cast differently")
@pytest.mark.parametrize(
    "dtypes", [("float32", "float16"), ("mixed_bfloat16", "mixed_float16")]
)
def test_a_cell_of_another_dtype_works_or_is_named(dtypes):
    own, other = dtypes
    layer = layers.RNN(layers.LSTMCell(3, dtype=other), dtype=own)
    try:
        y = layer(np.ones((2, 7, 5)))
    except TypeError as error:
        wanted = f"the cell must have the dtype policy of its layer, '{own}', received "
        assert f"{wanted}'{other}'. Pass dtype='{own}' to the cell" in str(error)
    else:
        assert keras.ops.shape(y) == (2, 3)


@pytest.mark.once("only PyTorch refuses the product")
def test_advance_names_a_cell_of_another_dtype():
    layer = layers.RNN(layers.LSTMCell(3), dtype="float64")
    with pytest.raises(TypeError, match="the cell must have the dtype policy of its"):
        layer.advance(np.ones((2, 7, 5)))
