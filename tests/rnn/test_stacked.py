"""`StackedRNN`: many to one, many to many, one to many; deep, both ways, residual."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.layers import (
    ElmanCell,
    GatedCell,
    GRUCell,
    LSTMCell,
    StackedRNN,
)
from tests.layer_checks import as_list, assert_close, check_seed, fresh
from tests.rnn import references

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 3)).astype("float32")
MASK = np.array([[0, 1, 1, 1], [1, 1, 0, 0]], bool)


def built(layer, inputs=X):
    layer.build(inputs.shape)
    return layer, references.random_weights(layer)


def zeros(count):
    return [np.zeros((2, 3)) for _ in range(count)]


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("return_sequences", [False, True])
def test_many_to_one_and_many_to_many(residual, return_sequences):
    cells = [LSTMCell(3), ElmanCell(3)]
    layer, weights = built(
        StackedRNN(cells, residual=residual, return_sequences=return_sequences)
    )
    _, below, _ = references.run(references.lstm(), weights[:3], X, zeros(2))
    below = X + below if residual else below
    last, above, _ = references.run(references.elman, weights[3:], below, zeros(1))
    above = below + above if residual else above
    # A layer that gives the last output alone has nothing as wide to add to it.
    assert_close(layer(X), above if return_sequences else last)


@pytest.mark.parametrize("residual", [False, True])
def test_bidirectional_with_a_mask(residual):
    layer, weights = built(
        StackedRNN(
            [GRUCell(3), GatedCell(3)],
            bidirectional=True,
            residual=residual,
            return_sequences=True,
        )
    )
    x = X
    for step, part in (
        (references.gru(), weights[:6]),
        (references.gated, weights[6:]),
    ):
        both = []
        for mine, backwards in ((part[:3], False), (part[3:], True)):
            _, outputs, _ = references.run(
                step, mine, x, zeros(1), MASK, backwards, zero=True
            )
            both.append(outputs[:, ::-1] if backwards else outputs)
        y = np.concatenate(both, axis=-1)  # (2, 4, 6)
        x = x + y if residual and y.shape == x.shape else y
    assert_close(layer(X, mask=MASK), x)


def test_one_to_many_repeated():
    cells = [LSTMCell(3), GRUCell(3)]
    layer, _ = built(StackedRNN(cells, steps=4, return_sequences=True), X[:, 0])
    many, _ = built(StackedRNN(cells, return_sequences=True))
    assert_close(layer(X[:, 0]), many(keras.layers.RepeatVector(4)(X[:, 0])))
    assert layer.compute_output_shape((2, 3)) == (2, 4, 3)


@pytest.mark.parametrize("residual", [False, True])
def test_one_to_many_fed_back(residual):
    cells = [LSTMCell(3), ElmanCell(3, activation="tanh")]
    layer, weights = built(
        StackedRNN(
            cells, steps=4, feed_back=True, residual=residual, return_sequences=True
        ),
        X[:, 0],
    )
    y, states, expected = X[:, 0], zeros(3), []
    for _ in range(4):
        h, states[:2] = references.lstm()(weights[:3], y, states[:2])
        y = y + h if residual else h
        kernel, recurrent, bias = weights[3:]
        states[2] = np.tanh(y @ kernel + states[2] @ recurrent + bias)
        y = y + states[2] if residual else states[2]
        expected.append(y)
    assert_close(layer(X[:, 0]), np.stack(expected, axis=1))


@pytest.mark.parametrize(
    "options",
    [
        {"return_sequences": True},
        {"return_sequences": True, "residual": True},
        {"return_sequences": True, "steps": 2, "feed_back": True},
    ],
)
def test_running_on_from_the_states_is_running_once(options):
    def make(**changes):
        return StackedRNN(
            [LSTMCell(3), GRUCell(3)], return_state=True, **{**options, **changes}
        )

    fed_back = "steps" in options
    x = X[:, 0] if fed_back else X
    half, weights = built(make(), x)
    whole = make(steps=4) if fed_back else make()
    whole.build(x.shape)
    whole.set_weights(weights)

    expected, *end = whole(x)
    first, *states = half(x if fed_back else x[:, :2])
    assert len(states) == 3
    second, *final = half(first[:, -1] if fed_back else x[:, 2:], initial_state=states)
    assert_close(ops.concatenate([first, second], axis=1), expected)
    for actual, wanted in zip(final, end, strict=True):
        assert_close(actual, wanted)


def test_states_of_both_directions():
    layer, _ = built(
        StackedRNN([LSTMCell(3), GRUCell(3)], bidirectional=True, return_state=True)
    )
    start = [RNG.normal(size=(2, 3)).astype("float32") for _ in range(6)]
    plain = layer(X)
    output, *states = layer(X, initial_state=start)
    assert [s.shape for s in states] == [(2, 3)] * 6
    assert np.any(ops.convert_to_numpy(output != plain[0]))
    # The last output of a direction is its last state.
    assert_close(output, ops.concatenate(states[4:], axis=-1))


@pytest.mark.everywhere("a loop that is compiled and saved", cases=1)
@pytest.mark.parametrize("feed_back", [False, True])
def test_dropout_when_compiled_too(feed_back):
    """The masks are drawn once and hold for all steps: those of each cell differ."""
    options = {"dropout": 0.5, "recurrent_dropout": 0.5}

    def make(seed, steps=1):  # one step needs no loop
        return StackedRNN(
            [LSTMCell(3, seed=seed, **options), GRUCell(3, seed=seed, **options)],
            steps=steps,
            feed_back=feed_back,
        )

    layer, _ = built(make(1, steps=2), X[:, 0])
    check_seed(layer, X[:, 0], seeded=make)
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
    first, second = (model.train_on_batch(X[:, 0], X[:, 1]) for _ in range(2))
    assert np.isfinite([first, second]).all() and first != second
    assert_close(model.predict(X[:, 0], verbose=0), layer(X[:, 0]))


@pytest.mark.everywhere("a loop that is compiled and saved")
def test_fed_back_learns_and_is_saved_with_its_cells(tmp_path):
    cells = [GatedCell(3, activation="tanh"), LSTMCell(3, peephole="diagonal")]
    layer = StackedRNN(cells, steps=3, feed_back=True, residual=True)
    model = keras.Sequential([keras.Input((3,)), layer])
    before = model.get_weights()
    model.compile("sgd", "mse")
    model.fit(X[:, 0], X[:, 1], verbose=0)
    for new, old in zip(model.get_weights(), before, strict=True):
        assert np.max(np.abs(new - old)) > 1e-6
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(again(X[:, 0]), model(X[:, 0]))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("return_state", [False, True])
def test_shapes_and_masks_that_are_passed_on(
    bidirectional, return_sequences, return_state
):
    layer = StackedRNN(
        [LSTMCell(3), GRUCell(2)],
        bidirectional=bidirectional,
        return_sequences=return_sequences,
        return_state=return_state,
    )
    eager = [y.shape for y in as_list(layer(X[:, :1]))]
    computed = layer.compute_output_shape((2, 1, 3))
    assert (list(computed) if return_state else [computed]) == eager
    mask = as_list(layer.compute_mask(X, MASK))
    assert mask[0] is (MASK if return_sequences else None)
    assert mask[1:] == [None] * (len(eager) - 1)
    symbolic = fresh(layer)(keras.Input((None, 3)))
    shapes = [y.shape for y in as_list(symbolic)]
    assert [s[-1] for s in shapes] == [s[-1] for s in eager]


def test_one_cell_needs_no_list():
    layer, weights = built(StackedRNN(GRUCell(3)))
    plain = layers.GRU(3)
    plain.build(X.shape)
    plain.set_weights(weights)
    assert_close(layer(X), plain(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cells": []}, "cells is empty: give at least one cell"),
        ({"feed_back": True}, "feed_back=True needs steps=.*received steps=None"),
        (
            {"feed_back": True, "steps": 2, "bidirectional": True},
            "one direction.*bidirectional=True",
        ),
        ({"steps": 0}, "steps must be at least 1, received 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        StackedRNN(**{"cells": [GRUCell(3)], **arguments})


def test_widths_that_do_not_fit():
    with pytest.raises(
        ValueError, match="goes into layer 2, 3 wide.*comes out, 2 wide"
    ):
        StackedRNN([GRUCell(3), GRUCell(2)], residual=True).build(X.shape)
    with pytest.raises(ValueError, match="last cell has 2 units.*3 features"):
        StackedRNN([GRUCell(2)], steps=2, feed_back=True).build((2, 3))
    with pytest.raises(ValueError, match=r"has 1 tensors.*keep 3: \[2, 1\]"):
        StackedRNN([LSTMCell(3), GRUCell(3)])(X, initial_state=[X[:, 0]])
