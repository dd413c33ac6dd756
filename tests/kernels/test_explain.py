"""The equations of `explain`: computed from their text, and as textbooks have them."""

import re
import sys

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from kerasseq.rnn.elman import ElmanCell
from kerasseq.rnn.explanation import explain_cell
from kerasseq.rnn.gated import GatedCell
from kerasseq.rnn.gru import GRUCell
from kerasseq.rnn.lstm import LSTMCell
from kerasseq.rnn.min_gru import MinGRUCell
from kerasseq.rnn.min_lstm import MinLSTMCell
from tests.kernels.printed_equations import Equations

BATCH, FEATURES, UNITS = 2, 5, 3
pytestmark = pytest.mark.once("text, which does not depend on the backend")


class Own(ElmanCell):
    """A cell with weights for the steps below."""

    def build_recurrent_weights(self):
        self.U = self.add_weight(shape=(UNITS, UNITS), name="U")
        self.V = self.add_weight(shape=(UNITS, UNITS), name="V")
        self.w = self.add_weight(shape=(UNITS,), name="w")
        self.s = self.add_weight(shape=(), name="s")
        self.norm = keras.layers.LayerNormalization()
        self.norm.build((None, UNITS))


def own(step, states=1):
    """Returns a cell with this step."""
    names = tuple(f"s{k}" for k in range(states))
    return type("Own", (Own,), {"step": step, "state_names": names})(UNITS)


def layer_norm(self, x, states, training=False):
    (h,) = states
    z = x + ops.matmul(h, self.U)
    n = self.norm(z)
    h = ops.tanh(n)
    return h, [h]


def own_activation(self, x, states, training=False):
    (h,) = states
    h = x + ops.matmul(h, self.U)
    h = h * ops.sigmoid(h)
    return h, [h]


def two_products(self, x, states, training=False):
    (h,) = states
    a = ops.tanh(ops.matmul(h, self.U))
    h = ops.sigmoid(x + ops.matmul(a * h, self.V)) * a
    return h, [h]


def three_states(self, x, states, training=False):
    h, c, n = states
    n = 0.5 * n + ops.exp(-ops.abs(x))
    c = c * self.w + x / n
    h = ops.tanh(c) - ops.maximum(h, c)
    return h, [h, c, n]


def other_output(self, x, states, training=False):
    (h,) = states
    h = ops.tanh(x + h)
    y = ops.softmax(h) * ops.sqrt(1 + h**2)
    return y, [h]


def no_product(self, x, states, training=False):
    (h,) = states
    h = self.s * h + ops.mean(x, axis=-1, keepdims=True)
    return h, [h]


def unchanged_state(self, x, states, training=False):
    h, c = states
    h = ops.where(x > c, h, ops.sin(x) - 2.0)
    return h, [h, c]


def repeated(self, x, states, training=False):
    (h,) = states
    return ops.tanh(x * h + 1) * ops.sigmoid(x * h - 1) + x**3, [ops.cos(x * h)]


def parts(self, x, states, training=False):
    (h,) = states
    h = ops.concatenate([h[:, 1:], ops.tanh(x)[:, :1] * h[:, :1]], axis=-1)
    return h, [h]


def shared_gradient(self, x, states, training=False):
    (h,) = states
    n = self.norm
    h = self.w * ops.sin(h) + n.gamma * ops.sin(h) + n.beta * ops.sin(h) + x
    return h, [h]


def letters_twice(self, x, states, training=False):
    (h,) = states
    z_f = 2.0 * x
    f = ops.sigmoid(x + h)  # of another z_f
    b = z_f * f  # not the bias
    h = b + z_f
    return h, [h]


CELLS = {
    "elman": (lambda: ElmanCell(UNITS), {}),
    "elu": (lambda: ElmanCell(UNITS, activation="elu"), {}),
    "tanh_shrink": (lambda: ElmanCell(UNITS, activation="tanh_shrink"), {}),
    "gated": (lambda: GatedCell(UNITS), {}),
    "lstm": (lambda: LSTMCell(UNITS), {}),
    "silu": (lambda: LSTMCell(UNITS, activation="silu", use_bias=False), {}),
    "coupled": (lambda: LSTMCell(UNITS, coupled=True, peephole="full"), {}),
    "peephole": (
        lambda: LSTMCell(UNITS, peephole="diagonal"),
        {"p": "[∂L/∂p_i, ∂L/∂p_f, ∂L/∂p_o]"},
    ),
    "gru": (lambda: GRUCell(UNITS), {"b": "[∂L/∂b[0], ∂L/∂b[1]]"}),
    "before": (
        lambda: GRUCell(UNITS, reset_after=False, update="replace"),
        {"U": "[∂L/∂U[:, 0:6], ∂L/∂U[:, 6:9]]"},
    ),
    "min_gru": (lambda: MinGRUCell(UNITS), {}),
    "min_lstm": (lambda: MinLSTMCell(UNITS), {}),
    "keras_lstm": (lambda: keras.layers.LSTMCell(UNITS), {}),
    "keras_simple": (lambda: keras.layers.SimpleRNNCell(UNITS), {}),
    "layer_norm": (lambda: own(layer_norm), {}),
    "own_activation": (lambda: own(own_activation), {}),
    "two_products": (lambda: own(two_products), {}),
    "three_states": (lambda: own(three_states, 3), {}),
    "other_output": (lambda: own(other_output), {}),
    "no_product": (lambda: own(no_product), {}),
    "unchanged_state": (lambda: own(unchanged_state, 2), {}),
    "repeated": (lambda: own(repeated), {}),
    "parts": (lambda: own(parts), {}),
    "shared_gradient": (lambda: own(shared_gradient), {}),
    "letters_twice": (lambda: own(letters_twice), {}),
}
ATTRIBUTES = {"kernel": "W", "recurrent_kernel": "U", "bias": "b", "gamma": "γ"}
ATTRIBUTES |= {"peephole_kernel": "p", "beta": "β"}


def gradients(cell, x, states, weights, incoming):
    """Returns the gradients of a step, which a backend differentiates."""

    def loss(at):
        pairs = list(zip(cell.trainable_variables, at["weights"], strict=True))
        with keras.StatelessScope(pairs):
            h, new = cell(at["x"], at["states"])
        new = [*new, h] if len(incoming) > len(new) else new
        return sum(ops.sum(a * g) for a, g in zip(new, incoming, strict=True))

    tensors = {"x": x, "states": states, "weights": weights}
    incoming = [ops.convert_to_tensor(g) for g in incoming]
    tensors = keras.tree.map_structure(ops.convert_to_tensor, tensors)
    return keras.tree.map_structure(
        ops.convert_to_numpy, kernels.gradients(loss, tensors)
    )


def prepared(name):
    """Returns a cell with weights, and values for the letters of its equations."""
    rng = np.random.default_rng(0)

    def random(*shape):
        return rng.normal(0, 0.7, shape).astype("float32")

    cell = CELLS[name][0]()
    cell.build((None, FEATURES))
    letters = [ATTRIBUTES.get(v.name, v.name) for v in cell.trainable_variables]
    if name == "coupled":
        letters[-1] = "P"
    weights = {
        x: random(*v.shape)
        for x, v in zip(letters, cell.trainable_variables, strict=True)
    }
    for variable, value in zip(cell.trainable_variables, weights.values(), strict=True):
        variable.assign(value)
    states = [random(BATCH, UNITS) for _ in keras.tree.flatten(cell.state_size)]
    incoming = [random(BATCH, UNITS) for _ in range(len(states) + 1)]
    return cell, random(BATCH, FEATURES), states, weights, incoming


def parts_of(known, name):
    """The names that a step gives to parts of weights."""
    return (
        dict(zip(("p_i", "p_f", "p_o"), known["p"], strict=True))
        if name == "peephole"
        else {}
    )


def close(value, wanted, name):
    """Compares a gradient, which may still have a row for each sequence."""
    if value.shape != wanted.shape and len(value) == BATCH:
        value = value.sum(0)
    value = np.reshape(value, wanted.shape)
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("name", CELLS)
def test_the_text_computes_the_step_and_its_gradients(name):
    cell, x, states, weights, incoming = prepared(name)
    explained = explain_cell(cell)
    lines = [line.left.removeprefix("∂L/∂") for line in explained.backward]
    before = [left for left in lines if re.fullmatch(r"\w+_\{t-1\}", left)]
    after = [left.replace("{t-1}", "t") for left in before]
    after += ["y_t"] if "∂L/∂y_t" in str(explained) else []
    assert len(set(lines)) == len(lines)
    incoming = incoming[: len(after)]
    known = {"x_t": x, **weights, **dict(zip(before, states, strict=True))}
    known |= parts_of(known, name)
    for left, g in zip(after, incoming, strict=True):
        known |= {f"∂L/∂{left}": g, f"∂L/∂{left}|t+1": g}
    found = Equations(known, (BATCH, UNITS))
    computed = ", ".join(line.left.strip("[]") for line in explained.forward)
    computed = computed.split(", ")
    assert len({*computed, *known}) == len(computed) + len(known)
    found.run(explained.forward)
    h, new = cell(x, [ops.convert_to_tensor(s) for s in states])
    for left, value in zip(after, [*new, h], strict=False):
        close(found.known[left], ops.convert_to_numpy(value), left)
    found.run(explained.backward)
    wanted = gradients(cell, x, states, list(weights.values()), incoming)
    pairs = [("x_t", wanted["x"]), *zip(before, wanted["states"], strict=True)]
    for left, gradient in [*pairs, *zip(weights, wanted["weights"], strict=True)]:
        text = CELLS[name][1].get(left, f"∂L/∂{left}")
        if gradient is None or not gradient.any():
            assert not np.any(found.known.get(text, 0))
        else:
            close(found.compute(text), gradient, left)


LSTM = """\
z = x_t W + b + h_{t-1} U
[z_i, z_f, z_g, z_o] = z
f = σ(z_f)
i = σ(z_i)
g = tanh(z_g)
c_t = f ⊙ c_{t-1} + i ⊙ g
o = σ(z_o)
h_t = o ⊙ tanh(c_t)

∂L/∂z_o = ∂L/∂h_t ⊙ tanh(c_t) ⊙ o ⊙ (1 − o)
∂L/∂c_t = ∂L/∂c_t|t+1 + ∂L/∂h_t ⊙ o ⊙ (1 − tanh²(c_t))
∂L/∂z_g = ∂L/∂c_t ⊙ i ⊙ (1 − g²)
∂L/∂z_i = ∂L/∂c_t ⊙ g ⊙ i ⊙ (1 − i)
∂L/∂z_f = ∂L/∂c_t ⊙ c_{t-1} ⊙ f ⊙ (1 − f)
∂L/∂z = [∂L/∂z_i, ∂L/∂z_f, ∂L/∂z_g, ∂L/∂z_o]
∂L/∂h_{t-1} = ∂L/∂z · Uᵀ
∂L/∂c_{t-1} = ∂L/∂c_t ⊙ f
∂L/∂x_t = ∂L/∂z · Wᵀ
∂L/∂U = Σ_t h_{t-1}ᵀ · ∂L/∂z
∂L/∂W = Σ_t x_tᵀ · ∂L/∂z
∂L/∂b = Σ_t ∂L/∂z"""


def plain(explained):
    """The equations without alignment."""
    parts = (explained.forward, explained.backward)
    return "\n\n".join("\n".join(map(str, lines)) for lines in parts)


@pytest.mark.everywhere("traced, and refused, by the same rules on all backends")
def test_every_backend_has_the_same_text_and_reason():
    assert plain(LSTMCell(UNITS).explain()) == LSTM
    reason = own(branch).explain().reason
    assert "branches on a value" in reason
    assert "`ops.where(condition, a, b)`" in reason


TEXTBOOK = {
    "elman": """\
z_h = x_t W + b + h_{t-1} U
h_t = ReLU(z_h)

∂L/∂z_h = ∂L/∂h_t ⊙ 1[h_t > 0]
∂L/∂h_{t-1} = ∂L/∂z_h · Uᵀ
∂L/∂x_t = ∂L/∂z_h · Wᵀ
∂L/∂U = Σ_t h_{t-1}ᵀ · ∂L/∂z_h
∂L/∂W = Σ_t x_tᵀ · ∂L/∂z_h
∂L/∂b = Σ_t ∂L/∂z_h""",
    "peephole": """\
z = x_t W + b + h_{t-1} U
[z_i′, z_f′, z_g, z_o′] = z
z_f = z_f′ + p_f ⊙ c_{t-1}
z_i = z_i′ + p_i ⊙ c_{t-1}
f = σ(z_f)
i = σ(z_i)
g = tanh(z_g)
c_t = f ⊙ c_{t-1} + i ⊙ g
z_o = z_o′ + p_o ⊙ c_t
o = σ(z_o)
h_t = o ⊙ tanh(c_t)

∂L/∂z_o = ∂L/∂h_t ⊙ tanh(c_t) ⊙ o ⊙ (1 − o)
∂L/∂c_t = ∂L/∂c_t|t+1 + ∂L/∂h_t ⊙ o ⊙ (1 − tanh²(c_t)) + ∂L/∂z_o ⊙ p_o
∂L/∂z_g = ∂L/∂c_t ⊙ i ⊙ (1 − g²)
∂L/∂z_i = ∂L/∂c_t ⊙ g ⊙ i ⊙ (1 − i)
∂L/∂z_f = ∂L/∂c_t ⊙ c_{t-1} ⊙ f ⊙ (1 − f)
∂L/∂z = [∂L/∂z_i, ∂L/∂z_f, ∂L/∂z_g, ∂L/∂z_o]
∂L/∂h_{t-1} = ∂L/∂z · Uᵀ
∂L/∂c_{t-1} = ∂L/∂z_i ⊙ p_i + ∂L/∂c_t ⊙ f + ∂L/∂z_f ⊙ p_f
∂L/∂x_t = ∂L/∂z · Wᵀ
∂L/∂U = Σ_t h_{t-1}ᵀ · ∂L/∂z
∂L/∂W = Σ_t x_tᵀ · ∂L/∂z
∂L/∂p_i = Σ_t ∂L/∂z_i ⊙ c_{t-1}
∂L/∂p_f = Σ_t ∂L/∂z_f ⊙ c_{t-1}
∂L/∂p_o = Σ_t ∂L/∂z_o ⊙ c_t
∂L/∂b = Σ_t ∂L/∂z""",
    "gru": """\
[x_z, x_r, x_h] = x_t W + b[0]
products = h_{t-1} U + b[1]
[u_z, u_r, u_h′] = products
z_z = x_z + u_z
z = σ(z_z)
z_r = x_r + u_r
r = σ(z_r)
u_h = r ⊙ u_h′
z_ĥ = x_h + u_h
ĥ = tanh(z_ĥ)
h_t = z ⊙ h_{t-1} + (1 − z) ⊙ ĥ

∂L/∂z_ĥ = ∂L/∂h_t ⊙ (1 − z) ⊙ (1 − ĥ²)
∂L/∂z_r = ∂L/∂z_ĥ ⊙ u_h′ ⊙ r ⊙ (1 − r)
∂L/∂z_z = ∂L/∂h_t ⊙ (h_{t-1} − ĥ) ⊙ z ⊙ (1 − z)
∂L/∂products = [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ ⊙ r]
∂L/∂h_{t-1} = ∂L/∂h_t ⊙ z + ∂L/∂products · Uᵀ
∂L/∂x_t = [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ] · Wᵀ
∂L/∂U = Σ_t h_{t-1}ᵀ · ∂L/∂products
∂L/∂W = Σ_t x_tᵀ · [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ]
∂L/∂b[1] = Σ_t ∂L/∂products
∂L/∂b[0] = Σ_t [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ]""",
    "before": """\
[x_z, x_r, x_h] = x_t W + b
[u_z, u_r] = h_{t-1} U[:, 0:6]
z_z = x_z + u_z
z = σ(z_z)
z_r = x_r + u_r
r = σ(z_r)
u_h = (r ⊙ h_{t-1}) U[:, 6:9]
z_ĥ = x_h + u_h
ĥ = tanh(z_ĥ)
kept = 1 − z
h_t = kept ⊙ h_{t-1} + (1 − kept) ⊙ ĥ

∂L/∂z_ĥ = ∂L/∂h_t ⊙ (1 − kept) ⊙ (1 − ĥ²)
∂L/∂(r ⊙ h_{t-1}) = ∂L/∂z_ĥ · U[:, 6:9]ᵀ
∂L/∂z_r = ∂L/∂(r ⊙ h_{t-1}) ⊙ h_{t-1} ⊙ r ⊙ (1 − r)
∂L/∂z_z = ∂L/∂h_t ⊙ (ĥ − h_{t-1}) ⊙ z ⊙ (1 − z)
∂L/∂h_{t-1} = ∂L/∂(r ⊙ h_{t-1}) ⊙ r + ∂L/∂h_t ⊙ kept + [∂L/∂z_z, ∂L/∂z_r] · U[:, 0:6]ᵀ
∂L/∂x_t = [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ] · Wᵀ
∂L/∂U[:, 6:9] = Σ_t (r ⊙ h_{t-1})ᵀ · ∂L/∂z_ĥ
∂L/∂U[:, 0:6] = Σ_t h_{t-1}ᵀ · [∂L/∂z_z, ∂L/∂z_r]
∂L/∂W = Σ_t x_tᵀ · [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ]
∂L/∂b = Σ_t [∂L/∂z_z, ∂L/∂z_r, ∂L/∂z_ĥ]""",
}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_the_equations_are_those_of_textbooks(name):
    assert plain(CELLS[name][0]().explain()) == TEXTBOOK[name]


def test_kept_values_and_notes():
    text = str(LSTMCell(UNITS).explain())
    assert "Kept for the backward pass: o, f, i, g, tanh(c_t)." in text
    assert "|t+1 is what step t + 1 contributes" in text
    assert "1[" not in text


def test_masks_of_dropout_are_m():
    cell = ElmanCell(UNITS, recurrent_dropout=0.5)
    line = str(cell.explain(training=True).forward[0])
    assert line == "z_h = x_t W + b + (h_{t-1} ⊙ m) U"
    assert "m" not in str(cell.explain().forward[0])
    lines = LSTMCell(UNITS, recurrent_dropout=0.5).explain(training=True).backward
    assert "∂L/∂U[:, 0:3] = Σ_t (h_{t-1} ⊙ m_1)ᵀ · ∂L/∂z_i" in map(str, lines)


# What cannot be derived.


def branch(self, x, states, training=False):
    (h,) = states
    if ops.max(h) > 0:
        h = -h
    return x + h, [x + h]


def numpy(self, x, states, training=False):
    h = np.tanh(x)
    return h, [h]


def made(self, x, states, training=False):
    h = x + ops.ones((UNITS,))
    return h, [h]


def unknown(self, x, states, training=False):
    h = ops.cumsum(x, axis=-1)
    return h, [h]


def wider(self, x, states, training=False):
    h = ops.concatenate([x, x], axis=-1)
    return h, [h]


def over_batch(self, x, states, training=False):
    h = x - ops.mean(x, axis=0, keepdims=True)
    return h, [h]


def missing(self, x, states, training=False):
    h = self.nothing * x
    return h, [h]


REASONS = {
    branch: ("branches on a value", "if ops.max(h) > 0:", "ops.where"),
    numpy: ("numbers of a tensor", "h = np.tanh(x)", "`keras.ops`"),
    unknown: ("Cumsum", "by element"),
    wider: ("[3] units before", "[6] after", "state_size"),
    over_batch: ("last axis",),
    made: ("made inside the step", "ops.zeros_like"),
    missing: ("AttributeError", "nothing", "self.nothing * x"),
}


@pytest.mark.parametrize("step", REASONS)
def test_reasons_say_what_and_what_to_do(step):
    explained = own(step).explain()
    assert all(word in explained.reason for word in REASONS[step]), explained.reason
    assert explained.reason in str(explained)
    assert "calls `step` at each time step" in str(explained)
    assert not explained.forward
    assert str(explained) == explained._repr_markdown_()


def test_a_normalization_in_half_precision():
    cell = own(layer_norm)
    cell = type(cell)(UNITS, dtype="mixed_bfloat16")
    assert 'dtype="float32"' in cell.explain().reason


# The letters.


def test_an_edited_step_changes_the_text(monkeypatch):
    before = plain(GatedCell(UNITS).explain())
    cell = GatedCell(UNITS)
    cell.step = lambda x, states, training=False: (x[:, :UNITS], [x[:, UNITS:]])
    assert "[y_t, h_t] = x_t W + b" in plain(cell.explain())
    monkeypatch.setattr(GatedCell, "step", own_activation)
    assert plain(GatedCell(UNITS).explain()) != before


def test_a_debugger_goes_on_after_the_step():
    def debugger(*_):
        return None

    before = sys.gettrace()
    try:
        sys.settrace(debugger)
        LSTMCell(UNITS).explain()
        own(branch).explain()
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)


def test_latex():
    explained = LSTMCell(UNITS).explain()
    line = explained.backward[0].latex
    assert line == (
        r"\frac{\partial L}{\partial z_{o}} &= \frac{\partial L}{\partial h_{t}} \odot "
        r"\tanh\left(c_{t}\right) \odot o \odot \left(1 - o\right)"
    )
    block = explained.latex("backward")
    assert block.startswith("\\begin{aligned}\n" + line)
    assert block.count("&=") == len(explained.backward)
    assert block in explained._repr_markdown_()
    assert explained.forward[0].latex in explained.latex()
