"""Tests of every public layer: the checks of `layer_checks`, and loading."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from tests import layer_checks
from tests.layer_checks import (
    LAYERS,
    check_config_names_every_argument,
    check_layer,
)
from tests.on_itself import (
    Added,
    AsAudio,
    AsImage,
    Asked,
    Coded,
    Marginals,
    OnItself,
    Scaled,
    Wrapper,
)
from tests.processes import run_python

pytestmark = pytest.mark.everywhere("general checks of layers")

SEQUENCE = np.random.default_rng(0).normal(size=(2, 7, 5)).astype("float32")


def in_keras(cell, **options):
    """A cell in `keras.layers.RNN`."""
    return lambda **kw: keras.layers.RNN(getattr(layers, cell)(3, **options, **kw))


def sequence(name, **options):
    return lambda **kw: getattr(layers, name)(3, return_sequences=True, **options, **kw)


def last(name, **options):
    return lambda **kw: getattr(layers, name)(3, **options, **kw)


def on_itself(name, *sizes, **options):
    """Self-attention."""
    return lambda **kw: OnItself(getattr(layers, name)(*sizes, **options, **kw))


def attending(position, **options):
    """Self-attention with a position encoding."""
    return lambda **kw: OnItself(
        layers.MultiHeadAttention(
            2, 4, position=getattr(layers, position)(**options), **kw
        )
    )


def added(name, *sizes, **options):
    """A position encoding or embedding added to its input."""
    return lambda **kw: Added(getattr(layers, name)(*sizes, **options))


def linear(name, key_dim, **options):
    """A layer with two heads of a state, which has no dropout."""
    return lambda **kw: getattr(layers, name)(2, key_dim, 7, **options)


PEEPHOLES = {"peephole_initializer": "uniform"}

# Functions of `dropout` and `seed` that build a layer, by public name.
BUILDERS = {
    "ElmanCell": [in_keras("ElmanCell", activation="tanh")],
    "ElmanRNN": [sequence("ElmanRNN")],
    "SimpleRNN": [last("SimpleRNN")],
    "GatedCell": [in_keras("GatedCell", activation="tanh")],
    "GatedRNN": [sequence("GatedRNN")],
    "LSTM": [
        last("LSTM"),
        sequence("LSTM", peephole="full", coupled=True, **PEEPHOLES),
    ],
    "LSTMCell": [in_keras("LSTMCell", peephole="full", **PEEPHOLES)],
    "PeepholeLSTM": [last("PeepholeLSTM", **PEEPHOLES)],
    "GRU": [last("GRU"), sequence("GRU", reset_after=False, update="replace")],
    "GRUCell": [in_keras("GRUCell")],
    "MinGRU": [sequence("MinGRU")],
    "MinGRUCell": [in_keras("MinGRUCell")],
    "MinLSTM": [last("MinLSTM")],
    "MinLSTMCell": [in_keras("MinLSTMCell")],
    "SLSTM": [sequence("SLSTM", num_heads=3, forget_gate="exp")],
    "SLSTMCell": [in_keras("SLSTMCell")],
    "RNN": [lambda **kw: layers.RNN(layers.GatedCell(3, **kw), go_backwards=True)],
    "StackedRNN": [
        lambda **kw: layers.StackedRNN(
            [layers.LSTMCell(3, **kw), layers.GatedCell(3, activation="tanh")],
            bidirectional=True,
            residual=True,
        )
    ],
    "CausalConv1D": [
        lambda **kw: layers.CausalConv1D(3, 2, dilation_rate=2, activation="tanh")
    ],
    "WaveNet": [lambda **kw: layers.WaveNet(3, dilations=[1, 2], skip_units=4, **kw)],
    "AlignmentAttention": [
        on_itself("AlignmentAttention", 3, score="concat"),
    ],
    "BahdanauAttention": [on_itself("BahdanauAttention", 3)],
    "LuongAttention": [on_itself("LuongAttention", "general")],
    "LocationAttention": [on_itself("LocationAttention", 17)],
    "CosineAttention": [on_itself("CosineAttention")],
    "MultiHeadAttention": [
        on_itself("MultiHeadAttention", 2, 3),
        on_itself("MultiHeadAttention", 4, 3, num_key_value_heads=2, use_gate=True),
    ],
    "BlockwiseAttention": [on_itself("BlockwiseAttention", 2, 3, block_size=2)],
    "LongformerAttention": [on_itself("LongformerAttention", 2, 3, sliding_window=3)],
    "ReformerAttention": [
        on_itself("ReformerAttention", 2, 3, num_buckets=4, chunk_length=3)
    ],
    "LinformerAttention": [
        on_itself("LinformerAttention", 2, 3, rank=3, max_length=19)
    ],
    "LinformerProjection": [
        lambda **kw: OnItself(
            layers.LinformerAttention(
                *(2, 3),
                rank=3,
                max_length=19,
                share="heads",
                projection=layers.LinformerProjection(3, 19, "heads"),
                **kw,
            )
        )
    ],
    "AdaptiveSpanAttention": [
        on_itself("AdaptiveSpanAttention", 2, 3, max_span=5, ramp=3, initial_span=1)
    ],
    "KernelAttention": [lambda **kw: OnItself(layers.KernelAttention())],
    "LayerNormalization": [lambda **kw: layers.LayerNormalization(epsilon=1e-3)],
    "RMSNormalization": [lambda **kw: layers.RMSNormalization(epsilon=1e-3)],
    "FeedForward": [
        lambda **kw: layers.FeedForward(11, activation="gelu", gated=True, **kw)
    ],
    "MixtureOfExperts": [
        lambda **kw: layers.MixtureOfExperts(3, 7, top_k=2, use_bias=True, **kw)
    ],
    "TransformerEncoder": [
        lambda **kw: layers.TransformerEncoder(
            11, 4, head_dim=3, num_key_value_heads=2, activation="gelu", **kw
        ),
    ],
    "TransformerDecoder": [
        lambda **kw: layers.TransformerDecoder(
            11, 5, norm="rms", norm_placement="pre", feed_forward="swiglu", **kw
        ),
    ],
    "AmplitudePosition": [added("AmplitudePosition", 0.5)],
    "BinaryPosition": [added("BinaryPosition")],
    "SinePositionEncoding": [added("SinePositionEncoding", 100)],
    "PositionEmbedding": [added("PositionEmbedding", 17)],
    "TokenAndPositionEmbedding": [added("TokenAndPositionEmbedding", 8, 17, 5)],
    "PositionalEmbedding": [added("PositionalEmbedding", 17, 8, 5)],
    "SegmentEmbedding": [added("SegmentEmbedding", 8)],
    "AttentionPosition": [attending("AttentionPosition")],
    "RotaryEmbedding": [attending("RotaryEmbedding", interleaved=True, fraction=0.5)],
    "AlibiBias": [attending("AlibiBias")],
    "RelativePositionBias": [
        attending("RelativePositionBias", num_buckets=8, max_distance=5)
    ],
    "TransformerXLPosition": [attending("TransformerXLPosition", code_dim=4)],
    "TransformerXLBiases": [
        lambda **kw: attending(
            "TransformerXLPosition", biases=layers.TransformerXLBiases()
        )(**kw)
    ],
    "DisentangledPosition": [
        lambda **kw: attending(
            "DisentangledPosition",
            table=layers.DisentangledTable(5, initializer="orthogonal"),
            initializer="glorot_uniform",
        )(**kw)
    ],
    "DisentangledTable": [
        lambda **kw: attending(
            "DisentangledPosition",
            table=layers.DisentangledTable(7, num_buckets=6, use_norm=True),
            share_kernels=True,
        )(**kw)
    ],
    "LinearAttention": [linear("LinearAttention", 3)],
    "GatedLinearAttention": [
        linear("GatedLinearAttention", 3, decay_rank=2, epsilon=1e-2)
    ],
    "Retention": [linear("Retention", 4, epsilon=1e-2, conv_kernel=3)],
    "DeltaNet": [linear("DeltaNet", 3, num_key_heads=1, epsilon=1e-2)],
    "MLSTM": [linear("MLSTM", 3, epsilon=1e-2)],
    "RWKV4TimeMix": [lambda **kw: layers.RWKV4TimeMix(7)],
    "RWKV4ChannelMix": [lambda **kw: layers.RWKV4ChannelMix(11)],
    "RWKV7TimeMix": [
        lambda **kw: layers.RWKV7TimeMix(2, 3, decay_rank=2, epsilon=1e-1)
    ],
    "RWKV7ChannelMix": [lambda **kw: layers.RWKV7ChannelMix(11)],
    "S4D": [lambda **kw: layers.S4D(4, time_step_min=0.05, initialization="inv")],
    "Mamba": [
        lambda **kw: layers.Mamba(
            3,
            time_step_min=0.5,
            time_step_max=1.0,
            kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=1),
        )
    ],
    "MemoryNetwork": [
        lambda **kw: Asked(layers.MemoryNetwork(8, 5, 3)),
        lambda **kw: Asked(layers.MemoryNetwork(8, 5, 2, tie="adjacent")),
    ],
    "NTMCell": [lambda **kw: layers.RNN(layers.NTMCell(2, 5, 1, write_heads=2))],
    "PatchEmbedding": [
        lambda **kw: AsImage(layers.PatchEmbedding((1, 5), 5, image_size=(4, 5)))
    ],
    "VectorQuantizer": [
        lambda seed=None, **kw: Coded(
            layers.VectorQuantizer(7, 5, decay=0.5, threshold=0.5, seed=seed)
        )
    ],
    "LogMelSpectrogram": [
        lambda **kw: AsAudio(
            layers.LogMelSpectrogram(5, 24, 5, 1009, scale="log", max_freq=503.0)
        )
    ],
    "SpecAugment": [
        lambda seed=None, **kw: Scaled(layers.SpecAugment(2, 3, 1, 4, seed=seed))
    ],
    "CRF": [lambda **kw: Marginals(layers.CRF(5, initializer="glorot_uniform"))],
    "ConvSubsampling": [lambda **kw: layers.ConvSubsampling(3, kernel_size=3)],
    "ConformerBlock": [
        lambda **kw: layers.ConformerBlock(
            11, 2, 3, head_dim=3, use_convolution_bias=False, **kw
        )
    ],
}
LINEAR = (
    *(layers.LinearAttention, layers.GatedLinearAttention, layers.Retention),
    *(layers.DeltaNet, layers.RWKV4TimeMix, layers.RWKV4ChannelMix),
    *(layers.RWKV7TimeMix, layers.RWKV7ChannelMix),
    *(layers.S4D, layers.Mamba, layers.MLSTM),
)
# Layers whose output has the shape of their input.
SAME_SHAPE = (
    layers.LayerNormalization,
    layers.RMSNormalization,
    layers.FeedForward,
    layers.MixtureOfExperts,
    layers.TransformerEncoder,
    layers.TransformerDecoder,
    layers.ConformerBlock,
    *LINEAR,
)
NORMS = (layers.LayerNormalization, layers.RMSNormalization)
CONVOLUTIONS = (layers.CausalConv1D, layers.WaveNet, layers.ConvSubsampling)
# The first weights positions by their index, which padding on the left changes; the
# second and norms compute each position by itself; images have no padding; samples
# are no steps; the outputs of `ConvSubsampling` are fewer.
UNMASKED = (
    *(layers.LocationAttention, layers.FeedForward, layers.PatchEmbedding),
    *(layers.ConvSubsampling, layers.LogMelSpectrogram, *NORMS),
)
CASES = [
    pytest.param(builder, id=f"{name}-{n}")
    for name, builders in BUILDERS.items()
    for n, builder in enumerate(builders)
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder for the models that `test_layer` saves."""
    return tmp_path_factory.mktemp("saved")


def test_builders_cover_all_layers():
    assert set(BUILDERS) == LAYERS
    for name in LAYERS:
        built = BUILDERS[name][0]()
        cls = getattr(layers, name)
        inside = [getattr(built, part, None) for part in ("cell", "layer")]
        inside.append(getattr(inside[-1], "position", None))
        inside.append(getattr(inside[-1], "biases", None))
        inside.append(getattr(inside[2], "table", None))
        inside.append(getattr(inside[1], "projection", None))
        assert cls in map(type, [built, *inside])


@pytest.mark.parametrize("build", CASES)
def test_layer(build, saved, request):
    keras.utils.set_random_seed(3)
    layer = build()
    inside = getattr(layer, "layer", layer)
    same_shape = isinstance(layer, (Wrapper, *SAME_SHAPE))
    width = 5 if same_shape else {layers.StackedRNN: 6}.get(type(layer), 3)
    whole = same_shape or isinstance(layer, CONVOLUTIONS)
    whole = getattr(layer, "return_sequences", whole)
    steps = 2 if isinstance(layer, layers.ConvSubsampling) else 7
    random = not isinstance(layer, (Added, AsAudio, AsImage, Asked, Marginals))
    certain = (layers.KernelAttention, layers.CausalConv1D, *NORMS, *LINEAR)
    certain += (layers.NTMCell, layers.MixtureOfExperts, layers.ConvSubsampling)
    random = random and not isinstance(getattr(inside, "cell", inside), certain)
    position = getattr(inside, "position", None)
    check_layer(
        layer,
        SEQUENCE,
        (2, steps, width) if whole else (2, width),
        seeded=(lambda seed: build(dropout=0.5, seed=seed)) if random else None,
        still={}
        if isinstance(position, layers.RotaryEmbedding | layers.DisentangledPosition)
        or isinstance(
            inside, (*LINEAR, layers.LinformerAttention, layers.ReformerAttention)
        )
        else {"key/bias": "adds the same number to all scores of a query"},
        masked=not isinstance(inside, UNMASKED),
        folder=new_folder(saved, request.node.callspec.id),
    )
    for part in (inside, getattr(layer, "cell", layer)):
        if type(part).__name__ != "RNN":
            check_config_names_every_argument(part)


def new_folder(saved, name):
    (saved / name).mkdir()
    return saved / name


def test_loading_in_a_new_process(saved):
    """Loading needs no custom objects, and layers compute in float64 on JAX.

    `test_layer` has saved the layers, and tests float64 on the other backends. If it
    was not run for a layer, the layer is saved here.
    """
    for case in CASES:
        if not (saved / case.id).exists():
            layer = case.values[0]()
            layer.build(SEQUENCE.shape)
            outputs = layer_checks.called(layer, SEQUENCE)
            layer_checks.save(layer, SEQUENCE, outputs, new_folder(saved, case.id))
    on_jax = keras.backend.backend() == "jax"
    run_python(
        LOAD,
        saved,
        *(case.id for case in CASES),
        JAX_ENABLE_X64="1" if on_jax else None,
        JAX_DISABLE_MOST_OPTIMIZATIONS="1",
    )


LOAD = """
import os, pathlib, sys
import keras
import numpy as np
import kerasseq
import tests.on_itself  # registers its classes

folders = [pathlib.Path(sys.argv[1]) / name for name in sys.argv[2:]]
models = [keras.saving.load_model(folder / "layer.keras") for folder in folders]

from tests import layer_checks
from tests.test_layers_everywhere import SEQUENCE

wide = "JAX_ENABLE_X64" in os.environ
assert layer_checks.float64_is_there() or not wide
for folder, model in zip(folders, models, strict=True):
    layer, outputs = model.layers[-1], np.load(folder / "outputs.npy")
    if wide:  # compares with the outputs, too
        layer_checks.check_float64(layer, SEQUENCE, outputs)
    else:
        layer_checks.assert_close(layer_checks.called(layer, SEQUENCE), outputs)
"""
