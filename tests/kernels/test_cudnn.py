"""What is handed to cuDNN, read by others than cuDNN; there need not be a GPU."""

import dataclasses
import functools

import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers
from kerasseq.core import backend
from kerasseq.kernels import cudnn

pytestmark = pytest.mark.everywhere("kernels differ between backends")

T, B, D, H = 5, 3, 2, 7
CELLS = {"gru": layers.GRUCell, "lstm": layers.LSTMCell}
HERE = [n for n in cudnn.BUILT_FOR[backend.chosen()] if n in CELLS]


def numpy(x):
    return ops.convert_to_numpy(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run_and_reference(name, bias=True, **options):
    """A cell with its inputs, its states, and what its steps make of them."""
    rng = np.random.default_rng(5)
    cell = CELLS[name](H, use_bias=bias, **options)
    layer = layers.RNN(cell, return_sequences=True, return_state=True, unroll=True)
    layer.build((B, T, D))
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    x = ops.convert_to_tensor(rng.normal(size=(B, T, D)).astype("float32"))
    states = [rng.normal(size=(B, H)).astype("float32") for _ in cell.state_names]
    states = [ops.convert_to_tensor(s) for s in states]
    path, *last = layer(x, initial_state=states)
    run = kernels.Recurrence(
        cell,
        lambda cell, x, states: cell.step(x, states),
        ops.swapaxes(x, 0, 1),
        cell.project,
        native=cell.native,
        as_native=cell.as_native,
        cudnn=True,
    )
    return run, states, [ops.swapaxes(path, 0, 1), *last]


def read_as_cudnn(params, x, h, c, gru):
    """Gates in cuDNN's order, from one row of weights, as its manual has them."""
    n, params, features = 3 if gru else 4, numpy(params), x.shape[-1]
    cuts = np.cumsum([n * H * features, n * H * H, n * H])
    W, R, b_w, b_r = np.split(params, cuts)
    W, R = W.reshape(n, H, features), R.reshape(n, H, H)
    b_w, b_r = b_w.reshape(n, H), b_r.reshape(n, H)
    path = []
    for x_t in numpy(x):
        z = [x_t @ W[k].T + b_w[k] for k in range(n)]
        u = [h @ R[k].T + b_r[k] for k in range(n)]
        if gru:
            r, k = sigmoid(z[0] + u[0]), sigmoid(z[1] + u[1])
            h = (1 - k) * np.tanh(z[2] + r * u[2]) + k * h
        else:
            i, f, o = (sigmoid(z[k] + u[k]) for k in (0, 1, 3))
            c = f * c + i * np.tanh(z[2] + u[2])
            h = o * np.tanh(c)
        path.append(h)
    return np.stack(path), h, c


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_the_row_of_weights_is_in_the_order_of_cudnn(name, bias):
    run, states, expected = run_and_reference(name, bias)
    h, c = numpy(states[0]), numpy(states[-1])
    params = cudnn.flat_weights(name, run.as_native(run.inputs))
    path, h, c = read_as_cudnn(params, run.inputs, h, c, name == "gru")
    for a, b in zip([path, h, c], expected, strict=False):
        np.testing.assert_allclose(a, numpy(b), atol=1e-5)


def pretend(monkeypatch):
    """Others compute what cuDNN would."""
    if backend.chosen() == "jax":
        from jax.experimental import rnn

        def lstm(x, h, c, weights, lengths, **sizes):
            shape = sizes["input_size"], sizes["hidden_size"], sizes["num_layers"]
            parts = rnn.unpack_lstm_weights(weights, *shape, sizes["bidirectional"])
            return rnn.lstm_ref(x, h, c, *parts, lengths, *sizes.values())

        monkeypatch.setattr(rnn, "lstm", lstm)
    else:
        import tensorflow as tf

        def operation(input, input_h, input_c, params, rnn_mode, **options):
            assert options["time_major"] and options["is_training"]
            steps, batch = input.shape[:2]
            assert options["sequence_lengths"].numpy().tolist() == [steps] * batch
            states = (numpy(input_h)[0], numpy(input_c)[0])
            path, h, c = read_as_cudnn(params, input, *states, rnn_mode == "gru")
            return path, h[None], c[None], None, None

        monkeypatch.setattr(tf.raw_ops, "CudnnRNNV3", operation)


@pytest.mark.skipif(backend.chosen() == "torch", reason="its kernels run on a CPU too")
@pytest.mark.parametrize("name", HERE)
def test_what_comes_back_from_cudnn_is_put_where_it_belongs(name, monkeypatch):
    run, states, expected = run_and_reference(name)
    pretend(monkeypatch)
    last_output, path, last = kernels.recurrence(run, states)
    for a, b in zip([path, *last], expected, strict=True):
        np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5)
    np.testing.assert_allclose(numpy(last_output), numpy(last[0]))


@pytest.mark.skipif(backend.chosen() == "torch", reason="its kernels run on a CPU too")
@pytest.mark.parametrize("name", HERE)
def test_a_step_that_cudnn_does_not_compute_is_refused(name, monkeypatch):
    run, states, _ = run_and_reference(name)
    pretend(monkeypatch)
    run.cell.step = lambda x, states, training=False: (states[0] / 2, states)
    with pytest.raises(ValueError, match="`step` of the cell computes something else"):
        kernels.recurrence(run, states)


def test_what_cudnn_cannot_do_is_said():
    refused = functools.partial(pytest.raises, ValueError)
    for name in HERE:
        run, states, _ = run_and_reference(name)
        with refused(match="cuDNN can run: there is a mask"):
            kernels.recurrence(run, states, ops.ones((T, B), "bool"))
        noisy = dataclasses.replace(run, noise=ops.ones((B, H)))
        with refused(match="cuDNN can run: recurrent_dropout is on"):
            kernels.recurrence(noisy, states)
    run, states, _ = run_and_reference("lstm", peephole="diagonal")
    with refused(match="does not have the equation of this cell"):
        kernels.recurrence(run, states)
    run, states, _ = run_and_reference("lstm")
    run.inputs = ops.cast(run.inputs, "float16")
    with refused(match=r"cuDNN can run: .*float16"):
        kernels.recurrence(run, states)


@pytest.mark.skipif(kernels.has_cudnn(), reason="there is a GPU")
@pytest.mark.parametrize("cls", [layers.LSTM, layers.GRU])
def test_a_layer_saved_with_cudnn_comes_back_without_it(cls):
    config = {**cls(3).get_config(), "use_cudnn": True}
    assert cls.from_config(config).use_cudnn == "auto"
