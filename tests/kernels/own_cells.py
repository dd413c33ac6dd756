"""Cells as a user writes them: those that kerasseq has, with options, and others."""

import keras
from keras import ops

from kerasseq import layers
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.tracing import record

UNITS, FEATURES = 3, 2


def options(gates, **more):
    return {
        "gates": gates,
        "activation": "tanh",
        "use_bias": True,
        "kernel_initializer": "glorot_uniform",
        "recurrent_initializer": "zeros",
        "bias_initializer": "zeros",
        "kernel_regularizer": None,
        "recurrent_regularizer": None,
        "bias_regularizer": None,
        "kernel_constraint": None,
        "recurrent_constraint": None,
        "bias_constraint": None,
        "dropout": 0.0,
        "recurrent_dropout": 0.0,
        "seed": None,
        **more,
    }


class LayerNormLSTMCell(RecurrentCell):
    """LSTM whose recurrent products and cell state are normalized (Ba et al. 2016)."""

    state_names = ("hidden_state", "cell_state")

    def __init__(self, units, **more):
        super().__init__(units, **options(4, **more))

    def build(self, input_shape):
        super().build(input_shape)
        self.norm = keras.layers.LayerNormalization(dtype=self.dtype_policy)
        self.norm.build((None, 4 * self.units))
        self.norm_c = keras.layers.LayerNormalization(dtype=self.dtype_policy)
        self.norm_c.build((None, self.units))

    def step(self, projected, states, training=False):
        h, c = states
        z = projected + self.normalize(self.norm, self.recurrent_product(h, training))
        i, f, g, o = ops.split(z, 4, axis=-1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * self.phi(g)
        h = ops.sigmoid(o) * self.phi(self.normalize(self.norm_c, c))
        return h, [h, c]

    def normalize(self, norm, x):
        return norm(x)


class Float64NormLSTMCell(LayerNormLSTMCell):
    """The same as a formula: Keras' layer computes float64 in float32."""

    def normalize(self, norm, x):
        x = x - ops.sum(x, axis=-1, keepdims=True) / x.shape[-1]
        variance = ops.sum(x * x, axis=-1, keepdims=True) / x.shape[-1]
        return x / ops.sqrt(variance + norm.epsilon) * norm.gamma + norm.beta


class MGUCell(RecurrentCell):
    """Minimal gated unit (Zhou et al. 2016): the forget gate also resets."""

    def __init__(self, units, **more):
        super().__init__(units, **options(2, **more))

    def step(self, projected, states, training=False):
        (h,) = states
        x_f, x_h = ops.split(projected, 2, axis=-1)
        f = ops.sigmoid(x_f + self.recurrent_product(h, training, last=1))
        f = record(self, "forget_gate", f)
        n = self.phi(x_h + self.recurrent_product(f * h, training, first=1))
        h = (1 - f) * h + f * n
        return h, [h]


def x_sigmoid(x):
    """A user's activation."""
    return x * ops.sigmoid(x)


class OwnCell(keras.layers.Layer):
    """A cell of Keras, whose weights are in `shapes`."""

    shapes: dict[str, tuple[int, ...]] = {}

    def build(self, input_shape):
        for name, shape in self.shapes.items():
            weight = self.add_weight(shape=shape, name=name, initializer="ones")
            setattr(self, name, weight)


class TwoProductsCell(OwnCell):
    """One product after the other, and the input's inside the step."""

    state_size = [UNITS]
    shapes = {"W": (FEATURES, 5), "U": (UNITS, 5), "V": (5, UNITS)}

    def call(self, x, states):
        (h,) = states
        inner = ops.tanh(ops.matmul(x, self.W) + ops.matmul(h, self.U))
        h = 0.5 * h + ops.sin(ops.matmul(inner, self.V))
        return h, [h]


class JoinedWeightsCell(OwnCell):
    """A gated cell with a matrix for each gate, which are put side by side."""

    state_size = [UNITS]
    shapes = {
        "W": (FEATURES, 2 * UNITS),
        "U": (UNITS, UNITS),
        "V": (UNITS, UNITS),
    }

    def call(self, x, states):
        (h,) = states
        gates = ops.concatenate([self.U, self.V], axis=1)
        z = ops.matmul(x, self.W) + ops.matmul(h, gates)
        f, g = ops.split(z, 2, axis=-1)
        f = ops.sigmoid(f)
        h = f * h + (1 - f) * ops.tanh(g)
        return h, [h]


class ThreeStatesCell(OwnCell):
    """States of three sizes; the output is the last, and one counts steps."""

    state_size = [5, 1, UNITS]
    shapes = {"U": (UNITS, 5), "V": (5, UNITS), "b": (UNITS,)}

    def call(self, x, states):
        a, n, h = states
        a = ops.maximum(0.9 * a, ops.abs(ops.matmul(h, self.U)))
        n = n + 1
        h = ops.softmax(ops.matmul(a, self.V) / n + self.b * h) + x[:, :1]
        return h, [a, n, h]


class OtherOutputCell(OwnCell):
    """The output is not one of the states, and has another size."""

    state_size = [UNITS]
    shapes = {"W": (FEATURES, UNITS), "U": (UNITS, UNITS), "V": (UNITS, 5)}

    def call(self, x, states):
        (h,) = states
        h = ops.tanh(ops.matmul(x, self.W) + ops.matmul(h, self.U))
        return ops.elu(ops.matmul(h, self.V)), [h]


class NoProductCell(OwnCell):
    """Each unit for itself."""

    state_size = [FEATURES]
    shapes = {"a": (FEATURES,), "scale": ()}

    def call(self, x, states):
        (h,) = states
        f = ops.sigmoid(self.a + x)
        h = f * h + (1 - f) * ops.relu(x * self.scale - h)
        return h, [h]


class ScalarCell(OwnCell):
    """A state of one unit, whose weight is a single number."""

    state_size = [1]
    shapes = {"w": (), "u": (1, 1)}

    def call(self, x, states):
        (s,) = states
        mean = ops.mean(ops.square(x), axis=-1, keepdims=True)
        s = ops.tanh(self.w * s + ops.matmul(s, self.u)) + ops.log1p(mean)
        return s, [s]


OWN = {
    "layer norm": lambda **more: LayerNormLSTMCell(UNITS, **more),
    "minimal": lambda **more: MGUCell(UNITS, **more),
    "own activation": lambda **more: layers.LSTMCell(UNITS, x_sigmoid, **more),
    "two products": TwoProductsCell,
    "joined weights": JoinedWeightsCell,
    "three states": ThreeStatesCell,
    "other output": OtherOutputCell,
    "no product": NoProductCell,
    "scalar": ScalarCell,
}


def _of(cls, *args, **fixed):
    fixed["recurrent_initializer"] = (
        "zeros"  # weights are replaced, and QR needs float32
    )
    return lambda **more: cls(UNITS, *args, **fixed, **more)


PUBLIC = {
    "lstm": _of(layers.LSTMCell),
    "lstm diagonal": _of(layers.LSTMCell, peephole="diagonal"),
    "gru": _of(layers.GRUCell),
    "gru before": _of(layers.GRUCell, reset_after=False),
    "elman": _of(layers.ElmanCell),
    "gated": _of(layers.GatedCell),
    "lstm full": _of(layers.LSTMCell, peephole="full"),
    "lstm coupled": _of(layers.LSTMCell, coupled=True),
    "lstm coupled diagonal": _of(layers.LSTMCell, coupled=True, peephole="diagonal"),
    "lstm coupled full": _of(layers.LSTMCell, coupled=True, peephole="full"),
    "lstm softsign": _of(layers.LSTMCell, "softsign", "hard_sigmoid"),
    "gru replace": _of(layers.GRUCell, update="replace"),
    "gru before replace": _of(layers.GRUCell, reset_after=False, update="replace"),
    "gru without bias": _of(layers.GRUCell, use_bias=False),
    "elman tanh": _of(layers.ElmanCell, "tanh"),
    "gated tanh": _of(layers.GatedCell, "tanh"),
}
CELLS = {**OWN, **PUBLIC}
