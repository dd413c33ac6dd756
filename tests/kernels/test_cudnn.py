"""What is handed to cuDNN, read by others than cuDNN; there need not be a GPU."""

import numpy as np
import pytest
from keras import ops, tree

from kerasseq import kernels, layers
from kerasseq.core import backend
from kerasseq.kernels import cudnn
from kerasseq.kernels.reference.equations import Equation, forward
from tests.kernels.test_recurrence import B, H, T, numpy

pytestmark = pytest.mark.everywhere("kernels differ between backends")

D = 2
EQUATIONS = {name: Equation(name, "tanh") for name in ("gru", "lstm")}
HERE = [n for n in cudnn.BUILT_FOR[backend.chosen()] if n in EQUATIONS]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell_and_reference(name, bias=True, **options):
    """A cell, its states, and what the equation makes of them."""
    rng, columns = np.random.default_rng(5), EQUATIONS[name].gates * H

    def normal(*shape):
        return ops.convert_to_tensor(rng.normal(size=shape).astype("float32"))

    x, kernel, b = normal(T, B, D), normal(D, columns), normal(columns)
    weights = {"U": normal(H, columns)}
    if name == "gru" and bias:
        weights["b"] = normal(columns)
    states = [normal(B, H) for _ in range(1 + (name == "lstm"))]
    projected = ops.matmul(x, kernel) + (b if bias else 0)
    cell = kernels.Recurrence(
        EQUATIONS[name],
        weights,
        x,
        lambda x: projected,
        kernel,
        b if bias else None,
        **options,
    )
    paths, last, _ = forward(EQUATIONS[name], projected, states, weights, None)
    return cell, states, [paths[0], *last]


def read_as_cudnn(params, x, h, c, gru):
    """Gates in cuDNN's order, from one row of weights, as its manual has them."""
    n, params = 3 if gru else 4, numpy(params)
    cuts = np.cumsum([n * H * D, n * H * H, n * H])
    W, R, b_w, b_r = np.split(params, cuts)
    W, R = W.reshape(n, H, D), R.reshape(n, H, H)
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
@pytest.mark.parametrize("name", EQUATIONS)
def test_the_row_of_weights_is_in_the_order_of_cudnn(name, bias):
    cell, states, expected = cell_and_reference(name, bias)
    h, c = numpy(states[0]), numpy(states[-1])
    params = cudnn.flat_weights(cell)
    path, h, c = read_as_cudnn(params, cell.inputs, h, c, name == "gru")
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
            assert options["sequence_lengths"].numpy().tolist() == [T] * B
            states = (numpy(input_h)[0], numpy(input_c)[0])
            path, h, c = read_as_cudnn(params, input, *states, rnn_mode == "gru")
            return path, h[None], c[None], None, None

        monkeypatch.setattr(tf.raw_ops, "CudnnRNNV3", operation)


@pytest.mark.skipif(backend.chosen() == "torch", reason="its kernels run on a CPU too")
@pytest.mark.parametrize("name", HERE)
def test_what_comes_back_from_cudnn_is_put_where_it_belongs(name, monkeypatch):
    cell, states, expected = cell_and_reference(name, cudnn=True)
    pretend(monkeypatch)
    path, last = kernels.recurrence(cell, states)
    for a, b in zip([path, *last], expected, strict=True):
        np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5)


def test_what_cudnn_cannot_do_is_said():
    for name in HERE:
        cell, states, _ = cell_and_reference(name, cudnn=True)
        with pytest.raises(ValueError, match="cuDNN can run: there is a mask"):
            kernels.recurrence(cell, states, ops.ones((T, B), "bool"))
        cell.weights["dropout"] = ops.ones((B, H))
        with pytest.raises(ValueError, match="cuDNN can run: recurrent_dropout is on"):
            kernels.recurrence(cell, states)
    cell, states, _ = cell_and_reference("lstm", cudnn=True)
    cell.equation = Equation("lstm", "tanh", peephole="diagonal")
    with pytest.raises(ValueError, match="does not have this equation"):
        kernels.recurrence(cell, states)
    half = tree.map_structure(lambda a: ops.cast(a, "float16"), cell.inputs)
    cell, states, _ = cell_and_reference("lstm", cudnn=True)
    cell.inputs = half
    with pytest.raises(ValueError, match=r"cuDNN can run: .*float16"):
        kernels.recurrence(cell, states)


@pytest.mark.skipif(kernels.has_cudnn(), reason="there is a GPU")
@pytest.mark.parametrize("cls", [layers.LSTM, layers.GRU])
def test_a_layer_saved_with_cudnn_comes_back_without_it(cls):
    config = {**cls(3).get_config(), "use_cudnn": True}
    assert cls.from_config(config).use_cudnn == "auto"
