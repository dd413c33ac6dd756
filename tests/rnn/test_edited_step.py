"""What a reader sees in `step` is what runs, from the next call on after an edit."""

import types

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers, tracing
from kerasseq.kernels.derived import derive
from kerasseq.rnn import loop

pytestmark = pytest.mark.everywhere("each backend derives a loop of its own")

B, T, D, H = 3, 7, 5, 2
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture
def operations(monkeypatch):
    """How many calls of a layer ran as one operation; else `step` ran step by step."""
    found = []

    def noting(*args, run=loop.kernels.recurrence):
        result = run(*args)
        found.append(result is not None)
        return result

    monkeypatch.setattr(loop.kernels, "recurrence", noting)
    return found


def steps(layer, x=X):
    """The outputs of the same cell, by calling it step by step."""
    cell, outputs = layer.cell, []
    count = len(getattr(cell, "state_names", ["h"]))
    states = [ops.zeros((len(x), H)) for _ in range(count)]
    for t in range(x.shape[1]):
        output, states = cell(x[:, t], states)
        outputs.append(output)
    return numpy(ops.stack(outputs, 1))


def built(cell):
    layer = layers.RNN(cell, return_sequences=True)
    layer.build(X.shape)
    return layer


class Halved(layers.LSTMCell):
    """A subclass with an equation of its own."""

    def step(self, projected, states, training=False):
        h, states = super().step(projected, states, training)
        return h / 2, states


class Blind(layers.LSTMCell):
    """A subclass that changes a part of the equation."""

    def all_peepholes(self, c):
        return 0 * super().all_peepholes(c)


class Own(keras.layers.Layer):
    """A cell that knows nothing of kerasseq."""

    state_size = H

    def build(self, shape):
        self.w = self.add_weight(shape=(D, H), name="w")

    def call(self, x, states):
        h = states[0] / 2 + ops.sin(ops.matmul(x, self.w))
        return h, [h]


class ByCall(layers.GRUCell):
    """A subclass that says what it computes in `call` alone."""

    def call(self, inputs, states, training=False):
        h, states = super().call(inputs, states, training)
        return h / 2, states


def squash(x):
    return ops.tanh(x)


class Calling(layers.ElmanCell):
    """Its step calls a function of the user, and reads an attribute."""

    factor = 1.0

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.rate = 1.0

    def step(self, projected, states, training=False):
        h = self.recurrent_product(states[0], training)
        h = self.factor * squash(projected + self.rate * h)
        return h, [h]


@pytest.mark.parametrize("make", [Halved, Blind, Own, ByCall, Calling])
def test_a_cell_of_ones_own_runs_as_one_operation(make, operations):
    cell = Own() if make is Own else make(H, peephole="full") if make is Blind else None
    layer = built(make(H) if cell is None else cell)
    np.testing.assert_allclose(numpy(layer(X)), steps(layer), rtol=1e-5, atol=1e-6)
    assert operations == [True]


def edit_instance(cell, monkeypatch):
    old = cell.step
    cell.step = lambda *args, **kwargs: doubled(old(*args, **kwargs))


def edit_bound(cell, monkeypatch):
    def step(self, projected, states, training=False):
        return doubled(type(self).step(self, projected, states, training))

    cell.step = types.MethodType(step, cell)


def edit_class(cell, monkeypatch):
    old = type(cell).step

    def step(self, *args, **kwargs):
        return doubled(old(self, *args, **kwargs))

    monkeypatch.setattr(type(cell), "step", step)


def edit_part(cell, monkeypatch):
    monkeypatch.setattr(
        type(cell), "recurrent_product", lambda self, h, *_, **__: ops.zeros_like(h)
    )


def edit_function(cell, monkeypatch):
    monkeypatch.setitem(globals(), "squash", ops.sin)


def edit_attribute(cell, monkeypatch):
    cell.rate = 0.5


def edit_class_attribute(cell, monkeypatch):
    monkeypatch.setattr(type(cell), "factor", -0.5)


def edit_activation(cell, monkeypatch):
    cell.activation = ops.sin


def doubled(found):
    h, states = found
    return 2 * h, states


EDITS = [
    (layers.LSTMCell, edit_instance),
    (layers.LSTMCell, edit_bound),
    (layers.LSTMCell, edit_class),
    (layers.GRUCell, edit_class),
    (layers.ElmanCell, edit_part),
    (layers.GRUCell, edit_activation),
    (Calling, edit_function),
    (Calling, edit_attribute),
    (Calling, edit_class_attribute),
]


@pytest.mark.parametrize(("cell", "edit"), EDITS)
def test_an_edit_counts_from_the_next_call_on(cell, edit, monkeypatch, operations):
    layer = built(cell(H))
    before = numpy(layer(X))
    edit(layer.cell, monkeypatch)
    after = numpy(layer(X))
    assert np.abs(after - before).max() > 1e-2
    np.testing.assert_allclose(after, steps(layer), rtol=1e-5, atol=1e-6)
    monkeypatch.undo()


def test_a_step_that_fails_is_an_error():
    layer = built(layers.GRUCell(H))
    layer(X)

    def fails(*args, **kwargs):
        raise ZeroDivisionError("in my step")

    layer.cell.step = fails
    with pytest.raises(ZeroDivisionError, match="in my step"):
        layer(X)


@pytest.mark.parametrize(
    ("wrong", "received"),
    [(lambda h, c: (h, [h]), "received 1 states"), (lambda h, c: h, "received ")],
)
@pytest.mark.parametrize("unroll", [True, False])
def test_a_step_that_returns_something_else(wrong, received, unroll):
    layer = built(layers.LSTMCell(H))
    layer.unroll = unroll
    layer.cell.step = lambda x, states, training=False: wrong(*states)
    with pytest.raises(ValueError, match=f"takes, 2, as .* for one; {received}"):
        layer(X)


def test_a_step_that_branches_on_a_value_runs_step_by_step(operations):
    class Branching(layers.ElmanCell):
        def step(self, projected, states, training=False):
            if numpy(ops.abs(states[0])).max() > 0.1:
                projected = projected / 2
            return super().step(projected, states, training)

    layer = built(Branching(H))
    layer.trainable = False  # PyTorch reads no value that has a gradient
    if keras.backend.backend() == "jax":  # whose own loop has no values, either
        with pytest.raises(Exception):  # noqa: B017  # of many types
            layer(X)
        layer.unroll = True
    np.testing.assert_allclose(numpy(layer(X)), steps(layer), rtol=1e-5, atol=1e-6)
    assert not any(operations)


def test_a_layer_builds_runs_and_saves_the_cell_that_it_names(tmp_path):
    layer = Named(H, return_sequences=True)
    assert isinstance(layer.cell, NamedCell)
    np.testing.assert_allclose(numpy(layer(X)), steps(layer), rtol=1e-5, atol=1e-6)
    model = keras.Sequential([keras.Input(X.shape[1:]), layer])
    model.save(tmp_path / "of.keras")
    loaded = keras.saving.load_model(tmp_path / "of.keras")
    assert isinstance(loaded.layers[0].cell, NamedCell)
    np.testing.assert_allclose(numpy(loaded(X)), numpy(model(X)), atol=1e-6)


@keras.saving.register_keras_serializable("tests")
class NamedCell(Halved):
    pass


@keras.saving.register_keras_serializable("tests")
class Named(layers.LSTM):
    Cell = NamedCell


def test_the_trace_shows_what_runs():
    layer = built(Halved(H))
    with tracing.trace(layer) as seen:
        y = layer(X)
    (name,) = [k for k in seen if k.endswith("hidden_state")]
    np.testing.assert_allclose(numpy(y), numpy(seen[name])[:, -T:] / 2, atol=1e-6)


def test_a_compiled_fit_takes_the_edit_from_the_next_compile_on():
    layer = built(layers.GRUCell(H))
    model = keras.Sequential([keras.Input(X.shape[1:]), layer])
    model.compile("sgd", "mse")
    model.predict(X, verbose=0)
    layer.cell.step = lambda projected, states, training=False: (0 * states[0], states)
    model.compile("sgd", "mse")
    assert not model.predict(X, verbose=0).any()


def test_keras_own_loop_gives_the_same():
    layer = built(Halved(H))
    theirs = keras.layers.RNN(layer.cell, return_sequences=True)
    np.testing.assert_allclose(numpy(layer(X)), numpy(theirs(X)), atol=1e-6)


def test_an_edit_costs_one_derivation(monkeypatch):
    calls = []

    def counting(*args, trace=derive.trace, **kwargs):
        calls.append(args)
        return trace(*args, **kwargs)

    monkeypatch.setattr(derive, "trace", counting)
    layer = built(Calling(H, recurrent_dropout=0.3, dropout=0.3))
    for _ in range(3):
        layer(X)
    for _ in range(3):
        layer(X, training=True)
    assert len(calls) == 2
    layer.cell.rate = 0.7
    layer(X)
    assert len(calls) == 3
