import functools
import itertools

import keras
import numpy as np
import pytest
from hypothesis import example, given

from kerasseq.layers import GRU, GRUCell
from tests.layer_checks import assert_close
from tests.rnn import peers, references

pytestmark = pytest.mark.full("equations: kernels are tested everywhere")

KINDS = list(itertools.product([True, False], ["keep", "replace"]))
RNG = np.random.default_rng(1)
X = RNG.normal(size=(2, 5)).astype("float32")
H = RNG.normal(size=(2, 3)).astype("float32")


@given(peers.options("reset_after"))
@example(peers.with_dropout(reset_after=True))
@example(peers.with_dropout(reset_after=False))
@peers.FEW
def test_is_the_gru_of_keras(options):
    peers.check_equal(GRU, keras.layers.GRU, *options)


@pytest.mark.everywhere("training through the recurrence kernel")
def test_trains_as_in_keras():
    peers.check_training_step(GRU, keras.layers.GRU, reset_after=False)


@pytest.mark.parametrize(("reset_after", "update"), KINDS)
def test_one_step_follows_the_equations(reset_after, update):
    cell = GRUCell(3, reset_after=reset_after, update=update)
    cell.build((None, 5))
    weights = references.random_weights(cell)
    expected, _ = references.gru(reset_after, update)(weights, X, [H])
    actual, (state,) = cell(X, [H])
    assert_close(actual, expected)
    assert_close(state, expected)


@pytest.mark.parametrize("reset_after", [True, False])
def test_the_two_conventions_are_each_others_mirror(reset_after):
    """Turn the sign of all that makes z, and keeping becomes replacing."""
    keep, replace = (
        GRUCell(3, reset_after=reset_after, update=u) for u in ("keep", "replace")
    )
    for cell in (keep, replace):
        cell.build((None, 5))
    weights = references.random_weights(keep)
    mirrored = [w.copy() for w in weights]
    for w in mirrored:
        w[..., :3] *= -1
    replace.set_weights(mirrored)
    assert_close(replace(X, [H])[0], keep(X, [H])[0])


@pytest.mark.parametrize("update", ["keep", "replace"])
def test_a_gate_can_copy_the_state_exactly(update):
    cell = GRUCell(3, update=update)
    cell.build((None, 5))
    kernel, recurrent, bias = references.random_weights(cell)
    bias[0, :3] = 1000 if update == "keep" else -1000
    cell.set_weights([kernel, recurrent, bias])
    h, _ = cell(X, [H])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(h), H)


@pytest.mark.parametrize("reset_after", [True, False])
def test_shape_of_the_bias(reset_after):
    cell = GRUCell(3, reset_after=reset_after)
    cell.build((None, 5))
    assert cell.bias.shape == ((2, 9) if reset_after else (9,))


def test_wrong_update():
    for make in (GRU, GRUCell, functools.partial(GRU, return_sequences=True)):
        with pytest.raises(ValueError, match='update="replce".*Did you mean "replace"'):
            make(3, update="replce")
