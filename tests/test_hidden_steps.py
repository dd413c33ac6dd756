"""Tests that values at masked steps affect no results at real steps and no gradients.

Every public layer is called with zeros, 1e30, infinity and NaN at masked steps. The
results at real steps, and the gradients of weights and inputs, must be equal bit for
bit. `docs/pages/en/hidden_steps.md` lists the exceptions, which are tested as well.
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
from tests.layer_checks import LAYERS

pytestmark = pytest.mark.everywhere("masks, gradients and kernels of each backend")
rest = pytest.mark.full("the same code as a case that runs everywhere")

RNG = np.random.default_rng(0)
# The first row has padding on the right, the second on the left.
REAL = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], bool)
REAL_MEMORY = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1]], bool)
X = RNG.normal(size=(2, 5, 6)).astype("float32")
MEMORY = RNG.normal(size=(2, 7, 6)).astype("float32")
GARBAGE = {"1e30": 1e30, "inf": np.inf, "nan": np.nan}
EVERY = np.array([[True], [True]])


class Case:
    """A layer, its call, and the real steps of its inputs and outputs.

    Args:
        build: Function that returns the layer.
        call: Function of the layer and its inputs that returns a list of outputs.
        real: Mask of the real steps of each output.
        hidden: By name, an input and the mask of its real steps.
    """

    eager = False  # tracing needs eager calls
    trains = True

    def __init__(self, build, call, real=(REAL,), **hidden):
        self.build, self.call, self.real = build, call, real
        self.hidden = hidden or {"x": (X, REAL)}


def steps(cls, *args, **options):
    """A recurrent layer that returns all outputs and the final states."""

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


def self_attention(cls, *args, scores=False, **options):
    def call(layer, x):
        own = {"query_mask": REAL, "value_mask": REAL}
        if scores:
            return [layer(x, x, return_attention_scores=True, **own)[0]]
        return [layer(x, x, **own)]

    return Case(lambda: cls(*args, **options), call)


def cross_attention(cls, *args, name="value_mask", **options):
    """Queries attend to a source with masked steps."""

    def call(layer, x, memory):
        return [layer(x, memory, **{name: REAL_MEMORY})]

    hidden = {"x": (X, np.ones_like(REAL)), "memory": (MEMORY, REAL_MEMORY)}
    return Case(lambda: cls(*args, **options), call, (np.ones_like(REAL),), **hidden)


def separate_keys(cls, *args, pairs=False, **options):
    """Attention with separate keys and values, masked by one mask."""

    def call(layer, x, value, key):
        if not pairs:
            return [layer(x, value, key, value_mask=REAL_MEMORY)]
        mask = np.repeat(REAL_MEMORY[:, None], 5, axis=1)
        name = "attention_mask" if cls is layers.MultiHeadAttention else "mask"
        return [layer(x, value, key, **{name: mask})]

    hidden = {"x": (X, np.ones_like(REAL)), "value": (MEMORY, REAL_MEMORY)}
    hidden["key"] = (-MEMORY, REAL_MEMORY)
    return Case(lambda: cls(*args, **options), call, (np.ones_like(REAL),), **hidden)


def causal_with_mask(cls, *args, **options):
    """Self-attention to real steps up to the query, by a mask of pairs."""
    allowed = np.tril(np.ones((5, 5), bool))[None] & REAL[:, None]

    def call(layer, x):
        of_heads = issubclass(cls, layers.MultiHeadAttention)
        name = "attention_mask" if of_heads else "mask"
        return [layer(x, x, query_mask=REAL, **{name: allowed})]

    return Case(lambda: cls(*args, **options), call)


def masked_for_some(cls, *args, **options):
    """The last step is masked for all queries but its own."""
    before = np.repeat(np.arange(5)[None] < 4, 2, axis=0)

    def call(layer, x):
        return [layer(x, x, use_causal_mask=True)]

    return Case(lambda: cls(*args, **options), call, (before,), x=(X, before))


def over_axes(*axes):
    """Attention over one or both axes of (2, 2, 3, 6), with a mask of pairs."""
    grid = RNG.normal(size=(2, 2, 3, 6)).astype("float32")
    real = np.array([[[1, 1, 1], [1, 1, 0]], [[0, 1, 1], [1, 1, 1]]], bool)
    allowed = real[..., None] & real[:, :, None]  # within each row of the grid
    if axes == (1, 2):
        allowed = real[..., None, None] & real[:, None, None]

    def call(layer, x):
        return [layer(x, x, attention_mask=allowed)]

    build = functools.partial(layers.MultiHeadAttention, 2, 3, attention_axes=axes)
    return Case(build, call, (real,), x=(grid, real))


def cached(layer, x, **options):
    """Decodes with a cache: all steps but the last, then the last."""
    arguments = {"decoder_padding_mask": REAL_CACHE, "use_causal_mask": True}
    arguments |= options
    cache, outputs = layer.make_cache(2, 5), []
    for start, end in ((0, 4), (4, 5)):
        y, cache = layer(
            x[:, start:end],
            self_attention_cache=cache,
            self_attention_cache_update_index=start,
            **arguments,
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


def decoder_with_encoder(**options):
    def call(layer, x, memory):
        both = {"decoder_padding_mask": REAL, "encoder_padding_mask": REAL_MEMORY}
        return [layer(x, memory, **both)]

    hidden = {"x": (X, REAL), "memory": (MEMORY, REAL_MEMORY)}
    build = functools.partial(layers.TransformerDecoder, 11, 2, **options)
    return Case(build, call, **hidden)


def with_mask(cls, *args, **options):
    """A layer called with a sequence and its mask, added to the sequence."""

    def call(layer, x):
        return [ops.add(x, layer(x, mask=REAL))]

    return Case(lambda: cls(*args, **options), call)


def of_samples(**options):
    """The numbers of a sequence are the samples of a sound, its frames those of steps.

    The frames come first, wherever the padding is.
    """
    samples = np.repeat(REAL, 6, axis=1)

    def call(layer, x):
        return [layer(ops.reshape(x, (2, 30)), mask=samples)]

    def build():
        return layers.LogMelSpectrogram(3, 16, 6, 1000, **options)

    return Case(build, call, (np.repeat([[1, 1, 1, 0, 0]], 2, axis=0) > 0,))


def augmented(*args):
    """The same random masks at each call, which is eager."""

    def call(layer, x):
        layer.seed_generator.state.assign([1, 0])
        return [layer(x, mask=REAL), layer(x, mask=REAL, training=True)]

    found = Case(lambda: layers.SpecAugment(*args, seed=1), call, (REAL, REAL))
    found.eager = True
    return found


def carries_state(cls, *args, **options):
    """A layer with a state: outputs of both calls, and the last states."""

    def call(layer, x):
        y, states = layer.advance(x, mask=REAL)
        return [layer(x, mask=REAL), y, *states]

    def build():
        layer = cls(*args, **options)
        layer.build(X.shape)
        return layer

    return Case(build, call, (REAL, REAL) + 4 * (EVERY,))


def cell_in_keras(cls, *args):
    def build():
        return keras.layers.RNN(cls(*args), return_sequences=True)

    return Case(build, lambda layer, x: [layer(x, mask=REAL)])


def heads(position, case=self_attention):
    """Multi-head attention with a position encoding."""

    def build():
        return layers.MultiHeadAttention(2, 4, position=position())

    found = case(layers.MultiHeadAttention)
    return Case(build, found.call, found.real, **found.hidden)


def subsampling():
    """Frames of which two become one: the real ones are then the first."""
    real = np.array([[1, 1, 0], [1, 1, 0]], bool)

    def build():
        return layers.ConvSubsampling(3, 2, kernel_size=3)

    return Case(build, lambda layer, x: [layer(x, mask=REAL)], (real,), x=(X, REAL))


def global_tokens():
    """Longformer's attention to 20 steps, in two chunks, with global tokens."""
    x, real = np.concatenate(4 * [X], axis=1), np.concatenate(4 * [REAL], axis=1)
    options = {"query_mask": real, "value_mask": real}
    options["global_mask"] = real & (np.arange(20) < 3)

    def build():
        return layers.LongformerAttention(2, 3, sliding_window=2, max_global_tokens=3)

    return Case(build, lambda layer, x: [layer(x, x, **options)], (real,), x=(x, real))


L = layers
PEEPHOLES = {"peephole_initializer": "uniform"}
CASES = {
    "ElmanRNN": steps(L.ElmanRNN, 3),
    "SimpleRNN": steps(L.SimpleRNN, 3),
    "GatedRNN": steps(L.GatedRNN, 3),
    "LSTM": steps(L.LSTM, 3),
    "LSTM-last": last(L.LSTM, 3),
    "LSTM-full": steps(L.LSTM, 3, peephole="full", coupled=True, **PEEPHOLES),
    "LSTM-unrolled": steps(L.LSTM, 3, unroll=True),
    "LSTM-backwards": steps(L.LSTM, 3, go_backwards=True, zero_output_for_mask=True),
    "LSTM-traced": traced(steps(L.LSTM, 3)),
    "PeepholeLSTM": steps(L.PeepholeLSTM, 3, **PEEPHOLES),
    "GRU": steps(L.GRU, 3),
    "GRU-before": last(L.GRU, 3, reset_after=False),
    "MinGRU": steps(L.MinGRU, 3),
    "MinLSTM": last(L.MinLSTM, 3),
    "SLSTM": steps(L.SLSTM, 3),
    "RNN": last(lambda: L.RNN(keras.layers.GRUCell(3))),
    "StackedRNN": last(
        lambda: L.StackedRNN([L.GRUCell(3), L.GatedCell(3)], bidirectional=True)
    ),
    "ElmanCell": cell_in_keras(L.ElmanCell, 3),
    "GatedCell": cell_in_keras(L.GatedCell, 3),
    "LSTMCell": cell_in_keras(L.LSTMCell, 3),
    "GRUCell": cell_in_keras(L.GRUCell, 3),
    "MinGRUCell": cell_in_keras(L.MinGRUCell, 3),
    "MinLSTMCell": cell_in_keras(L.MinLSTMCell, 3),
    "SLSTMCell": cell_in_keras(L.SLSTMCell, 3),
    "NTMCell": last(lambda: L.RNN(L.NTMCell(3, 5, 2))),
    "CausalConv1D": carries_state(L.CausalConv1D, 3, 2, dilation_rate=2),
    "WaveNet": carries_state(L.WaveNet, 3, dilations=[1, 2]),
    "WaveNet-traced": traced(carries_state(L.WaveNet, 3, dilations=[1, 2])),
    "AlignmentAttention": self_attention(L.AlignmentAttention, 3, score="concat"),
    "AlignmentAttention-memory": cross_attention(
        L.AlignmentAttention, score="scaled_dot", name="mask"
    ),
    "AlignmentAttention-keys": separate_keys(L.AlignmentAttention, score="dot"),
    "AlignmentAttention-pairs": separate_keys(L.AlignmentAttention, 3, pairs=True),
    "AlignmentAttention-causal": causal_with_mask(
        L.AlignmentAttention, score="general"
    ),
    "BahdanauAttention": self_attention(L.BahdanauAttention, 3, scores=True),
    "LuongAttention": self_attention(L.LuongAttention),
    "LocationAttention": self_attention(L.LocationAttention, 7),
    "CosineAttention": self_attention(L.CosineAttention),
    "KernelAttention": self_attention(L.KernelAttention),
    "MultiHeadAttention": self_attention(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-scores": self_attention(
        L.MultiHeadAttention, 2, 3, scores=True
    ),
    "MultiHeadAttention-gate": self_attention(
        L.MultiHeadAttention, 2, 3, use_gate=True
    ),
    "MultiHeadAttention-wide": self_attention(L.MultiHeadAttention, 2, 3, value_dim=5),
    "MultiHeadAttention-memory": cross_attention(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-key_mask": cross_attention(
        L.MultiHeadAttention, 2, 3, name="key_mask"
    ),
    "MultiHeadAttention-keys": separate_keys(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-pairs": separate_keys(L.MultiHeadAttention, 2, 3, pairs=True),
    "MultiHeadAttention-causal": causal_with_mask(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-some": masked_for_some(L.MultiHeadAttention, 2, 3),
    "MultiHeadAttention-axes": over_axes(1, 2),
    "MultiHeadAttention-axis": over_axes(2),
    "BlockwiseAttention": self_attention(L.BlockwiseAttention, 2, 3, block_size=2),
    "BlockwiseAttention-causal": causal_with_mask(
        L.BlockwiseAttention, 2, 3, block_size=2
    ),
    "LongformerAttention": self_attention(
        L.LongformerAttention, 2, 3, sliding_window=2
    ),
    "LongformerAttention-global": global_tokens(),
    "ReformerAttention": self_attention(
        L.ReformerAttention, 2, 3, num_buckets=4, chunk_length=2
    ),
    "LinformerAttention": self_attention(
        L.LinformerAttention, 2, 3, rank=3, max_length=5
    ),
    "LinformerProjection": cross_attention(
        L.LinformerAttention, 2, 3, rank=3, max_length=7, share="key_value"
    ),
    "AdaptiveSpanAttention": self_attention(
        L.AdaptiveSpanAttention, 2, 3, max_span=2, ramp=3
    ),
    "LinearAttention": carries_state(L.LinearAttention, 2, 3),
    "LinearAttention-all": with_mask(L.LinearAttention, 2, 3, causal=False),
    "LinearAttention-traced": traced(carries_state(L.LinearAttention, 2, 3)),
    "GatedLinearAttention": carries_state(L.GatedLinearAttention, 2, 3),
    "Retention": carries_state(L.Retention, 2, 4),
    "DeltaNet": carries_state(L.DeltaNet, 2, 3),
    "MLSTM": carries_state(L.MLSTM, 2, 3),
    "MLSTM-traced": traced(carries_state(L.MLSTM, 2, 3)),
    "RWKV4TimeMix": carries_state(L.RWKV4TimeMix, 7),
    "RWKV4TimeMix-traced": traced(carries_state(L.RWKV4TimeMix)),
    "RWKV4ChannelMix": carries_state(L.RWKV4ChannelMix, 11),
    "RWKV7TimeMix": carries_state(L.RWKV7TimeMix, 2, 3),
    "RWKV7TimeMix-traced": traced(carries_state(L.RWKV7TimeMix, 2, 3)),
    "RWKV7ChannelMix": carries_state(L.RWKV7ChannelMix, 11),
    "S4D": carries_state(L.S4D, 4),
    "Mamba": carries_state(L.Mamba, 3),
    "Mamba-traced": traced(carries_state(L.Mamba, 3)),
    "AttentionPosition": heads(L.AttentionPosition),
    "RotaryEmbedding": heads(L.RotaryEmbedding),
    "AlibiBias": heads(L.AlibiBias),
    "AlibiBias-pairs": heads(L.AlibiBias, causal_with_mask),
    "RelativePositionBias": heads(L.RelativePositionBias),
    "TransformerXLBiases": heads(L.TransformerXLPosition),
    "DisentangledTable": heads(L.DisentangledPosition),
    "DisentangledPosition": heads(L.DisentangledPosition, causal_with_mask),
    "TransformerXLPosition": heads(L.TransformerXLPosition, causal_with_mask),
    "FeedForward": with_mask(L.FeedForward, 11, activation="gelu", gated=True),
    "MixtureOfExperts": with_mask(L.MixtureOfExperts, 3, 7),
    "VectorQuantizer": with_mask(L.VectorQuantizer, 7, 6),
    "ConvSubsampling": subsampling(),
    "ConformerBlock": with_mask(L.ConformerBlock, 11, 2, 3),
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
    "TransformerDecoder-memory": decoder_with_encoder(),
    "TransformerDecoder-memory-pre": decoder_with_encoder(normalize_first=True),
    "CRF": Case(
        lambda: L.CRF(6, initializer="normal"),
        lambda layer, x: [
            layer.marginals(layer(x), REAL),
            layer.loss(np.ones(REAL.shape), layer(x), REAL),
        ],
        (REAL, REAL),
    ),
    "AmplitudePosition": with_mask(L.AmplitudePosition),
    "BinaryPosition": with_mask(L.BinaryPosition),
    "SinePositionEncoding": with_mask(L.SinePositionEncoding),
    "PositionEmbedding": with_mask(L.PositionEmbedding, 7),
    "RotaryEmbedding-alone": with_mask(L.RotaryEmbedding),
    "LogMelSpectrogram": of_samples(),
    "LogMelSpectrogram-log": of_samples(scale="log", mel_scale="htk"),
    "SpecAugment": augmented(2, 3, 1, 2),
}
# Layers without a sequence of vectors as input, or that compute each step by itself
# and pass the mask on.
WITHOUT_STEPS = {
    "LayerNormalization",
    "RMSNormalization",
    "TokenAndPositionEmbedding",
    "PositionalEmbedding",
    "SegmentEmbedding",
    "PatchEmbedding",
    "MemoryNetwork",  # of ids
}


PAGES = pathlib.Path(__file__).parents[1] / "docs" / "pages" / "en"
TABLE = PAGES / "hidden_steps.md"


def exceptions():
    """Returns the exceptions in the table, by case and by "results" or "gradients"."""
    rows = re.findall(r"^\| `(\S+)` \|.*\| (.*) \| (.*) \|$", TABLE.read_text(), re.M)
    found = {}
    for name, results, gradients in rows:
        parts = {"results": results, "gradients": gradients}
        found[name] = {
            part: values.split(", ") for part, values in parts.items() if values != "–"
        }
    return found


def garbage(value):
    """Returns a vector of the value with both signs."""
    signs = np.where(np.arange(6) % 3, 1, -1)
    return (GARBAGE[value] * signs).astype("float32")


def filled(case, value):
    """Returns the inputs with a value at masked steps."""
    found = {}
    for name, (x, real) in case.hidden.items():
        hidden = 0 if value is None else garbage(value)
        found[name] = np.where(real[..., None], x, hidden).astype("float32")
    return found


def results(case, policy=None):
    """Returns a function of inputs that computes outputs and gradients of a loss."""
    keras.utils.set_random_seed(5)
    layer = case.build()
    if policy:
        layer = type(layer).from_config({**layer.get_config(), "dtype": policy})
    case.call(layer, **filled(case, None))  # builds it
    variables = layer.trainable_variables
    # Seed generators must not change in a graph.
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
    """Returns the outputs with zeros at masked steps."""
    found = case.call(layer, **inputs)
    pairs = zip(found, case.real, strict=False)
    return [masks.zero_masked(ops.cast(y, "float32"), real) for y, real in pairs]


def scale(shape):
    """Returns distinct weights of the outputs in the loss."""
    numbers = np.cos(np.arange(np.prod(shape))).reshape(shape)
    return ops.convert_to_tensor(numbers.astype("float32"))


def as_arrays(structure):
    return [ops.convert_to_numpy(x) for x in keras.tree.flatten(structure)]


def changes(case, policy=None):
    """Returns the effects of values at masked steps, in the form of `exceptions`."""
    run = results(case, policy)
    expected = run(filled(case, None))
    effects = {}
    for value in GARBAGE:
        found = run(filled(case, value))
        for part, a, b in zip(("results", "gradients"), found, expected, strict=True):
            pairs = zip(as_arrays(a), as_arrays(b), strict=True)
            if not all(np.array_equal(*pair) for pair in pairs):
                effects.setdefault(part, []).append(value)
    return effects


EVERYWHERE = [
    "ElmanRNN",
    "LSTM",
    "LSTM-traced",
    "WaveNet",
    "GRU",
    "MinGRU",
    "RNN",
    "AlignmentAttention",
    "AlignmentAttention-keys",
    "CosineAttention",
    "KernelAttention",
    "MultiHeadAttention",
    "MultiHeadAttention-scores",
    "MultiHeadAttention-some",
    "Mamba",
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
def test_values_at_masked_steps(name):
    found, listed = changes(CASES[name]), exceptions().get(name, {})
    if keras.backend.backend() == "torch":
        assert found == listed
    for part, values in found.items():  # fewer where the backend rounds otherwise
        assert set(values) <= set(listed.get(part, []))


@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=rest)]
)
@pytest.mark.parametrize("name", ["LSTM", "TransformerEncoder"])
def test_mixed_precision(name, policy):
    """1e30 is infinite in float16."""
    assert changes(CASES[name], policy) == {}


@pytest.mark.once("a list of names")
def test_cases_cover_all_layers():
    named = {name.split("-")[0] for name in CASES}
    assert named | WITHOUT_STEPS == LAYERS
    assert exceptions().keys() <= CASES.keys()
