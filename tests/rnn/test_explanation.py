"""`explain` of cells and layers: what is built, what is refused, what is traced."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.rnn.elman import ElmanCell
from kerasseq.rnn.explanation import FEATURES
from tests.kernels.own_cells import LayerNormLSTMCell

pytestmark = pytest.mark.once("text, which does not depend on the backend")

FIRST = "z_h = x_t W + b + h_{t-1} U"


def test_a_layer_that_is_not_built_stays_so():
    layer = layers.ElmanRNN(3)
    assert str(layer.explain().forward[0]) == FIRST
    assert not layer.built and not layer.cell.built


def test_a_built_layer_and_its_cell():
    layer = layers.ElmanRNN(3)
    layer(np.ones((2, 7, 11), "float32"))
    assert str(layer.explain().forward[0]) == FIRST
    assert layer.explain() == layer.cell.explain()


@pytest.mark.parametrize("name", ["SimpleRNNCell", "GRUCell", "LSTMCell"])
def test_cells_of_keras(name):
    layer = layers.RNN(getattr(keras.layers, name)(3))
    before = layer.explain()
    layer.build((None, None, 11))
    assert before.reason is None and before == layer.explain()


def test_a_step_that_was_set_on_a_cell():
    cell = layers.ElmanRNN(3).cell
    cell.step = lambda x, states, training=False: (x + states[0], [x + states[0]])
    assert str(cell.explain().forward[0]) == "h_t = x_t W + b + h_{t-1}"
    cell.build((None, FEATURES))
    assert str(cell.explain().forward[0]) == "h_t = x_t W + b + h_{t-1}"


class Rescaling(ElmanCell):
    """A cell whose `project` is not of `keras.ops`."""

    def project(self, inputs, training=False):
        scaled = np.log1p(np.exp(ops.convert_to_numpy(inputs)))
        return super().project(ops.convert_to_tensor(scaled), training)


def test_a_projection_that_cannot_be_derived_is_a_call():
    lines = Rescaling(3).explain()
    assert str(lines.forward[0]) == "z_h = project(x_t) + h_{t-1} U"
    assert not any("∂W" in line.left for line in lines.backward)


def test_what_depends_on_the_input_alone_is_not_kept():
    cell = layers.ElmanRNN(3).cell

    def step(x, states, training=False):
        (h,) = states
        h = h * ops.exp(x) + ops.sin(h)
        return h, [h]

    cell.step = step
    assert cell.explain().kept == ("cos(h_{t-1})",)


def test_equal_gradients_are_counted():
    cell = layers.ElmanRNN(3).cell
    cell.step = lambda x, states, training=False: (x, [x + states[0] + states[0]])
    assert "∂L/∂h_{t-1} = 2 ∂L/∂h_t" in map(str, cell.explain().backward)


@pytest.mark.parametrize(
    ("activation", "slope"),
    [
        ("elu", "1[z_h > 0] + 1[z_h ≤ 0] ⊙ exp(z_h ⊙ 1[z_h < 0]) ⊙ 1[z_h < 0]"),
        ("tanh_shrink", "tanh²(z_h)"),
    ],
)
def test_numbers_of_a_gradient_are_added_up(activation, slope):
    explained = ElmanCell(3, activation=activation).explain()
    slope = f"({slope})" if "+" in slope else slope
    assert str(explained.backward[0]) == f"∂L/∂z_h = ∂L/∂h_t ⊙ {slope}"
    assert not any("− 1" in kept or "+ 1" in kept for kept in explained.kept)


def test_numbers_of_a_sum_are_added_up():
    cell = layers.ElmanRNN(3).cell
    h = "x_t W + b + h_{t-1}"
    for added, text in [
        (lambda z: 2 - (1 - z) + 3, f"4 + {h}"),
        (lambda z: ops.expm1(z) + 1, f"exp({h})"),
        (lambda z: z + 1 - 1, h),
    ]:

        def step(x, states, training=False, added=added):
            h = added(x + states[0])
            return h, [h]

        cell.step = step
        assert str(cell.explain().forward[-1]) == f"h_t = {text}"


def test_weights_with_the_same_name_have_letters_of_their_own():
    lines = [line.left for line in LayerNormLSTMCell(3).explain().backward]
    assert {"∂L/∂γ", "∂L/∂γ′", "∂L/∂β", "∂L/∂β′"} < set(lines)
    assert len(set(lines)) == len(lines)


class Sized(keras.layers.Layer):
    """A cell without `step`, whose states have two sizes."""

    state_size = (3, 2)
    output_size = 3

    def __init__(self, size=None, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def build(self, shape):
        self.V = self.add_weight(shape=(shape[-1], 5), name="V")

    def call(self, x, states):
        h, c = states
        new_h, new_c = ops.split(ops.tanh(ops.matmul(x, self.V)), [3], axis=-1)
        return new_h * h, (new_h * h, new_c + c)


def test_states_of_several_sizes():
    lines = map(str, layers.RNN(Sized()).explain().forward)
    assert "h_t = new_h ⊙ h_{t-1}" in lines


def test_a_cell_that_cannot_be_copied_must_be_built():
    class Bare(Sized):
        def __init__(self, size):
            super().__init__()

    layer = layers.RNN(Bare(3))
    with pytest.raises(ValueError, match=r"`cell.build\(\(None, features\)\)` first"):
        layer.explain()
    layer.cell.build((None, 7))
    assert layer.explain().forward


def test_one_cell_of_a_stack():
    stack = layers.RNN([keras.layers.LSTMCell(3), keras.layers.LSTMCell(3)])
    with pytest.raises(ValueError, match="a stack of 2"):
        stack.explain()


def test_training_is_a_flag():
    with pytest.raises(TypeError, match="training"):
        layers.GRU(3).explain(training="yes")
