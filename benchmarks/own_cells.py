"""Two recurrent cells as a user writes them, for the benchmark of recurrent layers."""

import keras
from keras import ops


class OwnCell(keras.layers.Layer):
    """What both cells share: the weights, and the part without the state.

    A subclass sets `gates`, the number of blocks of `units` columns in each kernel, and
    writes its equation as `step`.
    """

    gates: int

    def __init__(self, units, dtype=None):
        super().__init__(dtype=dtype)
        self.units = self.output_size = units
        self.state_size = [units] * len(self.state_names)

    def build(self, input_shape):
        wide = self.gates * self.units
        self.W = self.add_weight(shape=(input_shape[-1], wide), name="W")
        self.U = self.add_weight(shape=(self.units, wide), name="U")
        self.b = self.add_weight(shape=(wide,), initializer="zeros", name="b")

    def project(self, inputs, training=False):
        return ops.matmul(inputs, self.W) + self.b

    def call(self, inputs, states, training=False):
        return self.step(self.project(inputs), states, training)


class LayerNormLSTMCell(OwnCell):
    """LSTM with a normalized product and cell state (Ba et al. 2016)."""

    state_names = ("hidden_state", "cell_state")
    gates = 4

    def build(self, input_shape):
        super().build(input_shape)
        self.norm_z = keras.layers.LayerNormalization(name="norm_z")
        self.norm_z.build((None, self.gates * self.units))
        self.norm_c = keras.layers.LayerNormalization(name="norm_c")
        self.norm_c.build((None, self.units))

    def step(self, projected, states, training=False):
        h, c = states
        z = projected + self.norm_z(ops.matmul(h, self.U))
        i, f, g, o = ops.split(z, 4, axis=-1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(self.norm_c(c))
        return h, [h, c]


class MinimalGatedCell(OwnCell):
    """Minimal gated unit: one gate forgets and resets (Zhou et al. 2016)."""

    state_names = ("hidden_state",)
    gates = 2

    def step(self, projected, states, training=False):
        (h,) = states
        x_f, x_g = ops.split(projected, 2, axis=-1)
        U_f, U_g = ops.split(ops.convert_to_tensor(self.U), 2, axis=-1)
        f = ops.sigmoid(x_f + ops.matmul(h, U_f))
        h = (1 - f) * h + f * ops.tanh(x_g + ops.matmul(f * h, U_g))
        return h, [h]


def with_own_step(cell):
    """Returns a copy of a cell of kerasseq whose class defines a `step` of its own.

    The equation is the same, but no kernel by hand may know that: the layer costs what
    it costs a user who changes the equation of a cell.
    """

    class OwnStep(type(cell)):
        def step(self, projected, states, training=False):
            return super().step(projected, states, training)

    return OwnStep.from_config(cell.get_config())
