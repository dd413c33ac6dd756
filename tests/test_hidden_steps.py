"""What a mask hides changes nothing: no result of a real step, and no gradient.

Every public layer is called with zeros at the hidden steps, and with 1e30, infinity
and NaN there. Real results, and gradients of weights and inputs, must be the same
numbers, bit for bit. `docs/hidden_steps.md` lists what is not, and must be true, too.
"""

import functools
import pathlib
import re

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from kerasseq.core import masks

pytestmark = pytest.mark.everywhere("masks, gradients and kernels of each backend")
rest = pytest.mark.full("by the same lines as a case that runs everywhere")

RNG = np.random.default_rng(0)
# One row has its padding behind, the other one before.
REAL = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], bool)
REAL_MEMORY = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1]], bool)
X = RNG.normal(size=(2, 5, 6)).astype("float32")
MEMORY = RNG.normal(size=(2, 7, 6)).astype("float32")
GARBAGE = {"1e30": 1e30, "inf": np.inf, "nan": np.nan}
EVERY = np.array([[True], [True]])


class Case:
    """A layer, how to call it, and which of its outputs are real.

    Args:
        build: Function that gives the layer.
        call: Function of the layer and its inputs that gives the outputs, a list.
        real: For each output which of its first axes are real.
        hidden: By name, the inputs and which steps of them are real.
    """

    eager = False  # a trace is of calls that are not compiled
    trains = True

    def __init__(self, build, call, real=(REAL,), **hidden):
        self.build, self.call, self.real = build, call, real
        self.hidden = hidden or {"x": (X, REAL)}


def steps(cls, *args, **options):
    """A recurrent layer that gives its outputs and its last states."""

    def build():
        return cls(*args, return_sequences=True, return_state=True, **options)

    return Case(build, lambda layer, x: layer(x, mask=REAL), (REAL,) + 6 * (EVERY,))


def last(cls, *args, **options):
    build = functools.partial(cls, *args, **options)
    return Case(build, lambda layer, x: [layer(x, mask=REAL)], (EVERY,))


def traced(case):
    def call(layer, x):
        with tracing.trace(layer):
            return case.call(layer, x)

    found = Case(case.build, call, case.real, **case.hidden)
    found.eager, found.trains = True, False
    return found


def on_itself(cls, *args, scores=False, **options):
    def call(layer, x):
        own = {"query_mask": REAL, "value_mask": REAL}
        if scores:
            return [layer(x, x, return_attention_scores=True, **own)[0]]
        return [layer(x, x, **own)]

    return Case(lambda: cls(*args, **options), call)


def to_memory(cls, *args, name="value_mask", **options):
    """Real queries attend to a memory with hidden places."""

    def call(layer, x, memory):
        return [layer(x, memory, **{name: REAL_MEMORY})]

    hidden = {"x": (X, np.ones_like(REAL)), "memory": (MEMORY, REAL_MEMORY)}
    return Case(lambda: cls(*args, **options), call, (np.ones_like(REAL),), **hidden)


def keys_apart(cls, *args, pairs=False, **options):
    """Keys and values have garbage at the same steps, hidden by one mask."""

    def call(layer, x, value, key):
        if not pairs:
            return [layer(x, value, key, value_mask=REAL_MEMORY)]
        mask = np.repeat(REAL_MEMORY[:, None], 5, axis=1)
        name = "attention_mask" if cls is layers.MultiHeadAttention else "mask"
        return [layer(x, value, key, **{name: mask})]

    hidden = {"x": (X, np.ones_like(REAL)), "value": (MEMORY, REAL_MEMORY)}
    hidden["key"] = (-MEMORY, REAL_MEMORY)
    return Case(lambda: cls(*args, **options), call, (np.ones_like(REAL),), **hidden)


def by_pairs(cls, *args, **options):
    """A query sees the real steps that are not after it: no row is hidden as such."""
    seen = np.tril(np.ones((5, 5), bool))[None] & REAL[:, None]

    def call(layer, x):
        name = "attention_mask" if cls is layers.MultiHeadAttention else "mask"
        return [layer(x, x, query_mask=REAL, **{name: seen})]

    return Case(lambda: cls(*args, **options), call)


def from_some(cls, *args, **options):
    """The last step is hidden from all queries but its own, which is not real."""
    before = np.repeat(np.arange(5)[None] < 4, 2, axis=0)

    def call(layer, x):
        return [layer(x, x, use_causal_mask=True)]

    return Case(lambda: cls(*args, **options), call, (before,), x=(X, before))


def over_axes(*axes):
    """Attention over one or both axes of (2, 2, 3, 6), hidden by a mask of pairs."""
    grid = RNG.normal(size=(2, 2, 3, 6)).astype("float32")
    real = np.array([[[1, 1, 1], [1, 1, 0]], [[0, 1, 1], [1, 1, 1]]], bool)
    seen = real[..., None] & real[:, :, None]  # within each row of the grid
    if axes == (1, 2):
        seen = real[..., None, None] & real[:, None, None]

    def call(layer, x):
        return [layer(x, x, attention_mask=seen)]

    build = functools.partial(layers.MultiHeadAttention, 2, 3, attention_axes=axes)
    return Case(build, call, (real,), x=(grid, real))


def cached(layer, x, **options):
    """All steps of a decoder but the last put into a cache, then the last."""
    places = {"decoder_padding_mask": REAL_CACHE, "use_causal_mask": True}
    places |= options
    cache, outputs = layer.make_cache(2, 5), []
    for start, end in ((0, 4), (4, 5)):
        y, cache = layer(
            x[:, start:end],
            self_attention_cache=cache,
            self_attention_cache_update_index=start,
            **places,
        )
        outputs.append(y)
    return [ops.concatenate(outputs, axis=1)]


REAL_CACHE = np.array([[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]], bool)


def with_cache(**options):
    def build():
        layer = layers.TransformerDecoder(11, 2, **options)
        layer.build((None, None, 6))
        return layer

    found = Case(build, cached, (REAL_CACHE,), x=(X, REAL_CACHE))
    found.trains = False
    return found


PAIRS = np.repeat(REAL[:, None], 5, axis=1)


def block(cls, name="padding_mask", shown=REAL, **options):
    def call(layer, x):
        return [layer(x, **{name: shown})]

    return Case(lambda: cls(11, 2, **options), call)


def decoder_of_both(**options):
    def call(layer, x, memory):
        both = {"decoder_padding_mask": REAL, "encoder_padding_mask": REAL_MEMORY}
        return [layer(x, memory, **both)]

    hidden = {"x": (X, REAL), "memory": (MEMORY, REAL_MEMORY)}
    build = functools.partial(layers.TransformerDecoder, 11, 2, **options)
    return Case(build, call, **hidden)


def code(cls, *args, **options):
    """A layer that is called with a sequence and its mask."""

    def call(layer, x):
        return [ops.add(x, layer(x, mask=REAL))]

    return Case(lambda: cls(*args, **options), call)


def cell_in_keras(cls, *args):
    def build():
        return keras.layers.RNN(cls(*args), return_sequences=True)

    return Case(build, lambda layer, x: [layer(x, mask=REAL)])


def heads(position, case=on_itself):
    """Attention with positions."""

    def build():
        return layers.MultiHeadAttention(2, 4, position=position())

    found = case(layers.MultiHeadAttention)
    return Case(build, found.call, found.real, **found.hidden)


L = layers
PEEPING = {"peephole_initializer": "uniform"}
CASES = {
    "ElmanRNN": steps(L.ElmanRNN, 3),
    "SimpleRNN": steps(L.SimpleRNN, 3),
    "GatedRNN": steps(L.GatedRNN, 3),
    "LSTM": steps(L.LSTM, 3),
    "LSTM-last": last(L.LSTM, 3),
    "LSTM-full": steps(L.LSTM, 3, peephole="full", coupled=True, **PEEPING),
    "LSTM-unrolled": steps(L.LSTM, 3, unroll=True),
    "LSTM-backwards": steps(L.LSTM, 3, go_backwards=True, zero_output_for_mask=True),
    "LSTM-traced": traced(steps(L.LSTM, 3)),
    "PeepholeLSTM": steps(L.PeepholeLSTM, 3, **PEEPING),
    "GRU": steps(L.GRU, 3),
    "GRU-before": last(L.GRU, 3, reset_after=False),
    "RNN": last(lambda: L.RNN(keras.layers.GRUCell(3))),
    "StackedRNN": last(
        lambda: L.StackedRNN([L.GRUCell(3), L.GatedCell(3)], bidirectional=True)
    ),
    "ElmanCell": cell_in_keras(L.ElmanCell, 3),
    "GatedCell": cell_in_keras(L.GatedCell, 3),
    "LSTMCell": cell_in_keras(L.LSTMCell, 3),
    "GRUCell": cell_in_keras(L.GRUCell, 3),
    "AlignmentAttention": on_itself(L.AlignmentAttention, 3, score="concat"),
    "AlignmentAttention-memory": to_memory(
        L.AlignmentAttention, score="scaled_dot", name="mask"
    ),
    "AlignmentAttention-keys": keys_apart(L.AlignmentAttention, score="dot"),
    "AlignmentAttention-pairs": keys_apart(L.AlignmentAttention, 3, pairs=True),
    "AlignmentAttention-causal": by_pairs(L.AlignmentAttention, score="general"),
    "BahdanauAttention": on_itself(L.BahdanauAttention, 3, scores=True),
    "LuongAttention": on_itself(L.LuongAttention),
    "LocationAttention": on_itself(L.LocationAttention, 7),
    "CosineAttention": on_itself(L.CosineAttention),
    "KernelAttention": on_itself(L.KernelAttention),
    "MultiHeadAttention": on_itself(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-scores": on_itself(L.MultiHeadAttention, 2, 3, scores=True),
    "MultiHeadAttention-gate": on_itself(L.MultiHeadAttention, 2, 3, use_gate=True),
    "MultiHeadAttention-wide": on_itself(L.MultiHeadAttention, 2, 3, value_dim=5),
    "MultiHeadAttention-memory": to_memory(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-key_mask": to_memory(
        L.MultiHeadAttention, 2, 3, name="key_mask"
    ),
    "MultiHeadAttention-keys": keys_apart(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-pairs": keys_apart(L.MultiHeadAttention, 2, 3, pairs=True),
    "MultiHeadAttention-causal": by_pairs(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-some": from_some(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-axes": over_axes(1, 2),
    "MultiHeadAttention-axis": over_axes(2),
    "RotaryEmbedding": heads(L.RotaryEmbedding),
    "AlibiBias": heads(L.AlibiBias),
    "AlibiBias-pairs": heads(L.AlibiBias, by_pairs),
    "RelativePositionBias": heads(L.RelativePositionBias),
    "TransformerXLBiases": heads(L.TransformerXLPosition),
    "TransformerXLPosition": heads(L.TransformerXLPosition, by_pairs),
    "FeedForward": code(L.FeedForward, 11, activation="gelu", gated=True),
    "TransformerEncoder": block(L.TransformerEncoder),
    "TransformerEncoder-pre": block(
        L.TransformerEncoder, norm="rms", norm_placement="pre", feed_forward="swiglu"
    ),
    "TransformerEncoder-parallel": block(
        L.TransformerEncoder, "mask", parallel=True, normalize_first=True
    ),
    "TransformerDecoder": block(L.TransformerDecoder, "decoder_padding_mask"),
    "TransformerDecoder-alibi": block(
        lambda *a: L.TransformerDecoder(*a, position=L.AlibiBias()),
        "decoder_padding_mask",
    ),
    "TransformerEncoder-pairs": block(
        L.TransformerEncoder, "attention_mask", shown=PAIRS
    ),
    "TransformerDecoder-cache": with_cache(position=L.AlibiBias()),
    "TransformerDecoder-memory": decoder_of_both(),
    "TransformerDecoder-memory-pre": decoder_of_both(normalize_first=True),
    "AmplitudePosition": code(L.AmplitudePosition),
    "BinaryPosition": code(L.BinaryPosition),
    "SinePositionEncoding": code(L.SinePositionEncoding),
    "PositionEmbedding": code(L.PositionEmbedding, 7),
    "RotaryEmbedding-alone": code(L.RotaryEmbedding),
}
# These take no sequence of numbers that a mask could hide.
WITHOUT_STEPS = {
    "TokenAndPositionEmbedding",
    "PositionalEmbedding",
    "SegmentEmbedding",
    "PatchEmbedding",
}


TABLE = pathlib.Path(__file__).parents[1] / "docs" / "hidden_steps.md"


def excepted():
    """By case, what the table says is changed: "gradients" and "results"."""
    rows = re.findall(r"^\| `(\S+)` \|.*\| (.*) \| (.*) \|$", TABLE.read_text(), re.M)
    found = {}
    for name, results, gradients in rows:
        parts = {"results": results, "gradients": gradients}
        found[name] = {
            part: values.split(", ") for part, values in parts.items() if values != "–"
        }
    return found


def garbage(value):
    """The number with both signs, where a step is hidden."""
    signs = np.where(np.arange(6) % 3, 1, -1)
    return (GARBAGE[value] * signs).astype("float32")


def filled(case, value):
    """The inputs with `value` at hidden steps."""
    found = {}
    for name, (x, real) in case.hidden.items():
        hidden = 0 if value is None else garbage(value)
        found[name] = np.where(real[..., None], x, hidden).astype("float32")
    return found


def results(case, policy=None):
    """A function of inputs that gives real outputs, and the gradients of a loss."""
    keras.utils.set_random_seed(5)
    layer = case.build()
    if policy:
        layer = type(layer).from_config({**layer.get_config(), "dtype": policy})
    case.call(layer, **filled(case, None))  # builds it
    variables = layer.trainable_variables
    # They are not drawn from in a graph.
    fixed = [(v, v.value) for v in layer.non_trainable_variables]

    def loss(given):
        pairs = zip(variables, given["weights"], strict=True)
        with keras.StatelessScope(state_mapping=[*pairs, *fixed]):
            found = real_outputs(case, layer, given["inputs"])
        return sum(ops.sum(y * scale(y.shape)) for y in found)

    def run(inputs):
        given = {"inputs": inputs, "weights": [v.value for v in variables]}
        gradients = kernels.gradients(loss, given) if case.trains else []
        return real_outputs(case, layer, inputs), gradients

    if keras.backend.backend() != "torch" and not case.eager:
        run = kernels.compiled(run)
    return lambda inputs: run(keras.tree.map_structure(ops.convert_to_tensor, inputs))


def real_outputs(case, layer, inputs):
    """The outputs, with zeros at steps that are not real."""
    found = case.call(layer, **inputs)
    pairs = zip(found, case.real, strict=False)
    return [masks.zero_masked(ops.cast(y, "float32"), real) for y, real in pairs]


def scale(shape):
    """Numbers by which the outputs count in the loss, none like another."""
    numbers = np.cos(np.arange(np.prod(shape))).reshape(shape)
    return ops.convert_to_tensor(numbers.astype("float32"))


def as_arrays(structure):
    return [ops.convert_to_numpy(x) for x in keras.tree.flatten(structure)]


def changed(case, policy=None):
    """What changes with garbage at hidden steps, as `excepted` gives it."""
    run = results(case, policy)
    wanted = run(filled(case, None))
    wrong = {}
    for value in GARBAGE:
        found = run(filled(case, value))
        for part, a, b in zip(("results", "gradients"), found, wanted, strict=True):
            pairs = zip(as_arrays(a), as_arrays(b), strict=True)
            if not all(np.array_equal(*pair) for pair in pairs):
                wrong.setdefault(part, []).append(value)
    return wrong


EVERYWHERE = [
    "ElmanRNN",
    "LSTM",
    "LSTM-traced",
    "GRU",
    "RNN",
    "AlignmentAttention",
    "AlignmentAttention-keys",
    "CosineAttention",
    "KernelAttention",
    "MultiHeadAttention",
    "MultiHeadAttention-scores",
    "MultiHeadAttention-some",
    "TransformerXLPosition",
    "FeedForward",
    "TransformerEncoder",
    "TransformerDecoder-memory-pre",
    "TransformerDecoder-cache",
]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in EVERYWHERE else rest) for n in CASES],
)
def test_hidden_steps_change_nothing(name):
    assert changed(CASES[name]) == excepted().get(name, {})


@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=rest)]
)
@pytest.mark.parametrize("name", ["LSTM", "TransformerEncoder"])
def test_in_mixed_precision(name, policy):
    """1e30 is infinite in float16."""
    assert changed(CASES[name], policy) == {}


@pytest.mark.once("a list of names")
def test_every_layer_is_tried():
    named = {name.split("-")[0] for name in CASES}
    assert named | WITHOUT_STEPS == set(layers.__all__)
    assert excepted().keys() <= CASES.keys()
