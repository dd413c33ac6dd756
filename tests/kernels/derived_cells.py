"""Cells whose loop is derived: those of kerasseq in all forms, and invented ones."""

import keras
from keras import ops

from kerasseq.rnn.elman import ElmanCell
from kerasseq.rnn.gated import GatedCell
from kerasseq.rnn.gru import GRUCell
from kerasseq.rnn.lstm import LSTMCell


class Invented(keras.Layer):
    """A cell with weights U `(units, gates * units)`; inputs are projected."""

    recurrent_dropout = 0.0
    gates = 1
    state_names = ("h",)

    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, input_shape):
        self.width = self.gates * self.units
        self.U = self.weight("U", self.units, self.width)

    def weight(self, name, *shape):
        return self.add_weight(
            shape=shape,
            name=name,
            initializer=keras.initializers.RandomNormal(stddev=0.4, seed=len(name)),
        )


class LayerNormLSTM(Invented):
    """Ba et al. 2016: normalizes the product and the cell state."""

    gates, state_names = 4, ("h", "c")

    def build(self, input_shape):
        super().build(input_shape)
        self.norm = keras.layers.LayerNormalization()
        self.norm.build((None, self.width))
        self.norm_c = keras.layers.RMSNormalization()
        self.norm_c.build((None, self.units))

    def step(self, x, states, training=False):
        h, c = states
        i, f, g, o = ops.split(x + self.norm(ops.matmul(h, self.U)), 4, axis=-1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(self.norm_c(c))
        return h, [h, c]


class MinimalGatedUnit(Invented):
    """Zhou et al. 2016: the forget gate also resets; two products, one by one."""

    gates = 2

    def step(self, x, states, training=False):
        (h,) = states
        x_f, x_h = ops.split(x, 2, axis=-1)
        U_f, U_h = self.U[:, : self.units], self.U[:, self.units :]
        f = ops.sigmoid(x_f + ops.matmul(h, U_f))
        h = (1 - f) * h + f * ops.tanh(x_h + ops.matmul(f * h, U_h))
        return h, [h]


class OwnActivation(Invented):
    """A user's activation, x sigmoid(x), and those that Keras has."""

    gates = 3

    def step(self, x, states, training=False):
        (h,) = states
        a, b, c = ops.split(x + ops.matmul(h, self.U), 3, axis=-1)
        h = 0.5 * h + a * ops.sigmoid(a) + ops.gelu(b, approximate=False)
        h = keras.activations.elu(h - ops.softplus(c)) / (1 + ops.abs(h))
        return h, [h]


class ThreeStates(Invented):
    """Three states, two of which change places; one matrix in two products."""

    gates, state_names = 2, ("h", "fast", "slow")

    def step(self, x, states, training=False):
        h, fast, slow = states
        z, g = ops.split(x + ops.matmul(h, self.U), 2, axis=-1)
        z = ops.sigmoid(z + ops.matmul(slow, self.U)[:, : self.units])
        new = z * fast + (1 - z) * ops.tanh(g)
        h = new + ops.maximum(slow, 0.1) * ops.sin(fast)
        return h, [h, slow, new]


class OutputIsNoState(Invented):
    """The output is computed from the state, and is not carried on."""

    def build(self, input_shape):
        super().build(input_shape)
        self.V = self.weight("V", self.units, self.units)
        self.shift = self.weight("shift", self.units)

    def step(self, x, states, training=False):
        (h,) = states
        h = ops.tanh(x + ops.matmul(h + self.shift, self.U))
        return ops.matmul(h, self.V), [h]


class NoProduct(Invented):
    """Elementwise: a function computes all steps in one call."""

    gates = 2

    def build(self, input_shape):
        super().build(input_shape)
        self.decay = self.weight("decay", 1, self.units)

    def step(self, x, states, training=False):
        (h,) = states
        a, b = ops.split(x, 2, axis=-1)
        h = ops.sigmoid(a + self.decay) * h + ops.tanh(b) * ops.exp(-ops.abs(a))
        return h, [h]


class OnlyProduct(Invented):
    """No function at all in a step, and inputs that nothing reads."""

    def step(self, x, states, training=False):
        h = ops.matmul(states[0], self.U)
        return h, [h]


class Scalars(Invented):
    """A scalar weight, a state of one unit, and values that are the same for units."""

    state_names = ("h", "level")

    def build(self, input_shape):
        super().build(input_shape)
        self.scale = self.weight("scale")

    def step(self, x, states, training=False):
        h, level = states
        gate = ops.sigmoid(h[:, 2:3] + level)
        z = x + self.scale * ops.matmul(h, self.U) * gate
        level = 0.9 * level + ops.mean(z, axis=-1, keepdims=True)
        h = ops.softmax(z) * ops.tanh(level) + ops.max(z, axis=-1, keepdims=True) / 7
        return h, [h, level]

    def sizes(self):
        return [self.units, 1]


class Parts(Invented):
    """Units that are split, joined and rotated, and choices between them."""

    def step(self, x, states, training=False):
        (h,) = states
        n = self.units // 2
        z = x + ops.matmul(ops.concatenate([h[:, n:], h[:, :n]], axis=-1), self.U)
        left, right = z[:, :n], z[:, n:]
        joined = ops.concatenate([ops.tanh(right), ops.relu(left)], axis=-1)
        chosen = ops.where(ops.logical_and(z > 0, h < 1), joined, 0.3 * z)
        h = ops.clip(chosen, -1.5, 2) + 0.1 * ops.sign(h) * ops.sqrt(1 + z * z)
        return h, [h]


def public(cls, **options):
    """A cell of kerasseq whose weights are all random."""
    for name in ("bias", *(["peephole"] if options.get("peephole") else [])):
        options[f"{name}_initializer"] = keras.initializers.RandomNormal(seed=1)
    return lambda units, **more: cls(units, **options, **more)


PUBLIC = {
    "elman tanh": public(ElmanCell, activation="tanh"),
    "elman relu": public(ElmanCell),
    "elman softsign": public(ElmanCell, activation="softsign"),
    "gated relu": public(GatedCell),
    "gated tanh": public(GatedCell, activation="tanh"),
    **{
        f"lstm {peephole or 'plain'}{' coupled' * coupled}": public(
            LSTMCell, peephole=peephole, coupled=coupled
        )
        for peephole in (None, "diagonal", "full")
        for coupled in (False, True)
    },
    "lstm hard": public(
        LSTMCell, activation="softsign", recurrent_activation="hard_sigmoid"
    ),
    **{
        f"gru {'after' if after else 'before'} {update}": public(
            GRUCell, reset_after=after, update=update
        )
        for after in (True, False)
        for update in ("keep", "replace")
    },
}
INVENTED = {
    cls.__name__: cls
    for cls in (
        *(LayerNormLSTM, MinimalGatedUnit, OwnActivation, ThreeStates),
        *(OutputIsNoState, NoProduct, OnlyProduct, Scalars, Parts),
    )
}
