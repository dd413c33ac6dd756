"""The rules for masks, on which Keras disagrees with itself, and the loop over time."""

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerasseq
from kerasseq import kernels
from kerasseq.layers import (
    GRU,
    LSTM,
    RNN,
    ElmanRNN,
    GatedRNN,
    LSTMCell,
    MinGRU,
    MinLSTM,
)
from kerasseq.rnn.layer import as_mask
from tests.layer_checks import assert_close
from tests.rnn import references
from tests.rnn.peers import FEW

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

KINDS = {
    "elman": (ElmanRNN, references.elman, 1),
    "gated": (GatedRNN, references.gated, 1),
    "lstm": (LSTM, references.lstm(), 2),
    "gru": (GRU, references.gru(), 1),
    "min_gru": (MinGRU, references.min_gru, 1),
    "min_lstm": (MinLSTM, references.min_lstm, 1),
}
MASK = np.array(
    [
        [1, 1, 1, 1],
        [0, 0, 1, 1],  # padded on the left
        [1, 1, 0, 0],  # on the right
        [0, 1, 0, 1],  # a hole
        [0, 0, 0, 0],  # nothing real
    ],
    bool,
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4, 2)).astype("float32")


def make(kind, **options):
    cls, step, count = KINDS[kind]
    layer = cls(3, return_state=True, **options)
    layer.build((None, None, X.shape[-1]))
    weights = references.random_weights(layer)
    states = [RNG.normal(size=(5, 3)).astype("float32") for _ in range(count)]
    return layer, states, lambda *args, **kw: references.run(step, weights, *args, **kw)


def numpy(tensors):
    return [keras.ops.convert_to_numpy(t) for t in tensors]


@pytest.mark.everywhere("masks, gradients and directions of the kernels", cases=2)
@pytest.mark.parametrize(
    ("zero", "backwards", "unroll"), list(itertools.product([False, True], repeat=3))
)
def test_table_of_cases(zero, backwards, unroll):
    layer, start, reference = make(
        "lstm",
        return_sequences=True,
        zero_output_for_mask=zero,
        go_backwards=backwards,
        unroll=unroll,
    )
    _, expected, expected_states = reference(X, start, MASK, backwards, zero)
    outputs, *states = numpy(layer(X, initial_state=start, mask=MASK))
    assert_close(outputs, expected)
    for actual, wanted in zip(states, expected_states, strict=True):
        assert_close(actual, wanted)

    mask = MASK[:, ::-1] if backwards else MASK
    before = np.cumsum(mask, axis=1) == 0
    np.testing.assert_array_equal(outputs[before], 0)  # before the first real step
    np.testing.assert_array_equal(outputs[4], 0)  # nothing real at all
    for state, initial in zip(states, start, strict=True):
        np.testing.assert_array_equal(state[4], initial[4])
    if zero:
        np.testing.assert_array_equal(outputs[~mask], 0)
        assert np.all(np.any(outputs[mask] != 0, axis=-1))
    else:
        row = 1 if backwards else 2  # padded at the end of the processing
        np.testing.assert_array_equal(outputs[row, 3], outputs[row, 2])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_last_output_is_that_of_the_last_real_step(kind, zero, backwards):
    layer, start, reference = make(
        kind, zero_output_for_mask=zero, go_backwards=backwards, unroll=True
    )
    expected, _, _ = reference(X, start, MASK, backwards, zero)
    output, h, *_ = numpy(layer(X, initial_state=start, mask=MASK))
    assert_close(output, expected)
    np.testing.assert_array_equal(output[:4], h[:4])  # where something is real
    np.testing.assert_array_equal(output[4], 0)


@given(
    kind=st.sampled_from(sorted(KINDS)),
    mask=st.lists(
        st.lists(st.booleans(), min_size=4, max_size=4), min_size=5, max_size=5
    ),
    time=st.integers(1, 4),
    flags=st.tuples(*[st.booleans()] * 5),
)
@FEW
def test_any_mask_and_option_against_numpy(kind, mask, time, flags):
    zero, backwards, sequences, unroll, start_at_zero = flags
    layer, start, reference = make(
        kind,
        zero_output_for_mask=zero,
        go_backwards=backwards,
        return_sequences=sequences,
        unroll=unroll,
    )
    x, mask = X[:, :time], np.array(mask)[:, :time]
    if start_at_zero:
        start = [0 * s for s in start]
    last, outputs, states = reference(x, start, mask, backwards, zero)
    given_start = {} if start_at_zero else {"initial_state": start}
    actual, *actual_states = layer(x, mask=mask, **given_start)
    assert_close(actual, outputs if sequences else last)
    for found, wanted in zip(actual_states, states, strict=True):
        assert_close(found, wanted)


def test_going_backwards_keeps_the_order_of_processing():
    layer, start, _ = make("gru", return_sequences=True, go_backwards=True)
    forwards, _, _ = make("gru", return_sequences=True)
    outputs, state = layer(X, initial_state=start)
    expected, _ = forwards(X[:, ::-1], initial_state=start)
    assert_close(outputs, expected)
    assert_close(outputs[:, -1], state)


@pytest.mark.everywhere("masks, gradients and directions of the kernels")
def test_what_is_masked_gets_no_gradient():
    from kerasseq import kernels

    layer, start, _ = make("gru", unroll=True)

    def loss(x):
        return keras.ops.sum(layer(x, initial_state=start, mask=MASK)[0])

    gradient = keras.ops.convert_to_numpy(kernels.gradients(loss, X))
    np.testing.assert_array_equal(gradient[~MASK], 0)
    assert np.all(np.any(gradient[MASK] != 0, axis=-1))


@pytest.mark.everywhere("masks, gradients and directions of the kernels")
def test_nan_in_padded_places_stays_there():
    layer, start, _ = make("lstm", unroll=True)
    clean = layer(X, initial_state=start, mask=MASK)
    dirty = np.where(MASK[..., None], X, np.nan).astype("float32")
    for actual, expected in zip(
        layer(dirty, initial_state=start, mask=MASK), clean, strict=True
    ):
        np.testing.assert_array_equal(*numpy([actual, expected]))


def test_unrolled_steps_are_written_out():
    layer, start, _ = make("gru", unroll=True)
    calls = []

    def counted(*args, step=layer.cell.step):
        calls.append(args)
        return step(*args)

    object.__setattr__(layer.cell, "step", counted)
    layer(X, initial_state=start)
    assert len(calls) == X.shape[1]


def test_integer_masks_are_read_as_boolean():
    layer, start, _ = make("gru", unroll=True)
    results = [
        layer(X, initial_state=start, mask=MASK.astype(kind))[0]
        for kind in ("bool", "int32", "float32")
    ]
    assert_close(results[1], results[0])
    assert_close(results[2], results[0])


def test_wrong_mask():
    layer = RNN(keras.layers.GRUCell(3))
    with pytest.raises(
        ValueError, match=r"mask must have shape \(batch, time\) = .*\(5, 4, 1\)"
    ):
        layer(X, mask=MASK[..., None])
    assert as_mask(None, X.shape) is None
    assert as_mask([None], X.shape) is None


@pytest.mark.everywhere("masks, gradients and directions of the kernels", cases=4)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("zero_output_for_mask", [False, True])
@pytest.mark.parametrize(
    "name", ["ElmanRNN", "GatedRNN", "PeepholeLSTM", "GRU", "MinGRU"]
)
def test_as_one_operation_or_step_by_step(name, zero_output_for_mask, masked):
    mask = np.array([[0, 1, 0, 1, 1, 0, 0], [0] * 7, [1] * 7], bool) if masked else None
    x = np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32")
    options = {"return_sequences": True, "return_state": True, "go_backwards": True}
    options["zero_output_for_mask"] = zero_output_for_mask
    layers = [
        getattr(kerasseq.layers, name)(2, unroll=unroll, **options)
        for unroll in (False, True)
    ]
    for layer in layers:
        layer.build(x.shape)
        layer.set_weights(layers[0].get_weights())
    fast, slow = (layer(x, mask=mask) for layer in layers)
    for a, b in zip(fast, slow, strict=True):
        a, b = keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b)
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.everywhere("masks, gradients and directions of the kernels")
def test_second_derivatives():
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    layers = [
        kerasseq.layers.PeepholeLSTM(2, unroll=unroll) for unroll in (True, False)
    ]
    for layer in layers:
        layer.build(x.shape)
        layer.set_weights(layers[0].get_weights())

    def squared_slope(layer):
        if keras.backend.backend() == "torch":
            import torch  # noqa: TID251

            inputs = torch.tensor(x, requires_grad=True)
            y = layer(inputs).sum()
            (slope,) = torch.autograd.grad(y, inputs, create_graph=True)
            return torch.autograd.grad((slope**2).sum(), inputs)[0].numpy()

        def slope(x):
            found = kernels.gradients(lambda x: keras.ops.sum(layer(x)), x)
            return keras.ops.sum(found**2)

        return keras.ops.convert_to_numpy(kernels.gradients(slope, x))

    slow, fast = map(squared_slope, layers)
    assert np.abs(slow).max() > 1e-3
    np.testing.assert_allclose(fast, slow, atol=1e-5)


@keras.saving.register_keras_serializable("tests")
class CallsOtherwise(LSTMCell):
    """A cell whose author changed `call`, as in any Keras cell, and nothing else."""

    def call(self, inputs, states, training=False):
        output, states = super().call(inputs, states, training=training)
        return 2 * output, states


def test_a_changed_call_is_what_runs():
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    changed, plain = RNN(CallsOtherwise(7)), RNN(LSTMCell(7))
    for layer in (changed, plain):
        layer.build(x.shape)
    changed.set_weights(plain.get_weights())
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(changed(x)),
        2 * keras.ops.convert_to_numpy(plain(x)),
        atol=1e-5,
    )
