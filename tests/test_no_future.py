"""Outputs of causal layers do not depend on later steps, however large these are."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from kerasseq import layers as L
from tests.test_hidden_steps import PAGES

pytestmark = pytest.mark.everywhere("products, fused attention and loops of a backend")
rest = pytest.mark.full("the same code as a layer that is tested everywhere")

T, S, D = 70, 50, 6  # the last chunk of 64 steps is not full; S is in the first
X = np.random.default_rng(0).normal(size=(2, T, D)).astype("float32")
MASK = np.ones((2, T), bool)
MASK[0, :3] = MASK[1, 20:23] = MASK[1, -2:] = False
RECURRENT = {"return_sequences": True}
LAYERS = {
    "LinearAttention": lambda: L.LinearAttention(2, 3),
    "GatedLinearAttention": lambda: L.GatedLinearAttention(2, 3),
    "Retention": lambda: L.Retention(2, 4),
    "DeltaNet": lambda: L.DeltaNet(2, 3),
    "MLSTM": lambda: L.MLSTM(2, 3),
    "RWKV4TimeMix": lambda: L.RWKV4TimeMix(7),
    "RWKV4ChannelMix": lambda: L.RWKV4ChannelMix(11),
    "RWKV7TimeMix": lambda: L.RWKV7TimeMix(2),
    "RWKV7ChannelMix": lambda: L.RWKV7ChannelMix(11),
    "Mamba": lambda: L.Mamba(3),
    "S4D": lambda: L.S4D(4),
    "WaveNet": lambda: L.WaveNet(3, dilations=[1, 2]),
    "CausalConv1D": lambda: L.CausalConv1D(3, 2, dilation_rate=2),
    "MinGRU": lambda: L.MinGRU(3, **RECURRENT),
    "MinLSTM": lambda: L.MinLSTM(3, **RECURRENT),
    "SLSTM": lambda: L.SLSTM(3, **RECURRENT),
    "LSTM": lambda: L.LSTM(3, **RECURRENT),
    "GRU": lambda: L.GRU(3, **RECURRENT),
    "ElmanRNN": lambda: L.ElmanRNN(3, **RECURRENT),
    "TransformerDecoder": lambda: L.TransformerDecoder(11, 2),
    "AlibiBias": lambda: L.TransformerDecoder(11, 2, position=L.AlibiBias()),
    "RotaryEmbedding": lambda: L.TransformerDecoder(
        11,
        1,
        position=L.RotaryEmbedding(),  # an even width
    ),
    "TransformerXLPosition": lambda: L.TransformerDecoder(
        11, 2, position=L.TransformerXLPosition()
    ),
    "BlockwiseAttention": lambda: L.TransformerDecoder(
        11, 2, attention=L.BlockwiseAttention(2, 3, block_size=16)
    ),
    "LongformerAttention": lambda: L.TransformerDecoder(
        11, 2, attention=L.LongformerAttention(2, 3, sliding_window=9)
    ),
    "AdaptiveSpanAttention": lambda: L.TransformerDecoder(
        11, 2, attention=L.AdaptiveSpanAttention(2, 3, max_span=7, ramp=5)
    ),
    "NTMCell": lambda: L.RNN(L.NTMCell(3, 5, 2), **RECURRENT),
}
ONCE = ["Retention", "RWKV4ChannelMix", "WaveNet", "CausalConv1D", "MinLSTM"]
ONCE += ["MLSTM", "SLSTM"]
ONCE += ["LSTM", "GRU", "ElmanRNN", "AlibiBias", "RotaryEmbedding"]
ONCE += ["TransformerXLPosition", "RWKV7ChannelMix", "NTMCell"]


def built(name):
    keras.utils.set_random_seed(3)
    layer = LAYERS[name]()
    layer.build(X.shape)
    return layer


def exceptions():
    """The layers in which NaN reaches earlier steps, according to the page."""
    page = (PAGES / "hidden_steps.md").read_text()
    section = page.partition("## NaN at real steps")[2].partition("\n## ")[0]
    return {name for name in LAYERS if f"`{name}`" in section}


def with_outlier(value):
    """The inputs with one step of another size."""
    x = X.copy()
    x[:, S] = x[:, S] * value if np.isfinite(value) else value
    return x


def function(layer, masked):
    name = "decoder_padding_mask" if isinstance(layer, L.TransformerDecoder) else "mask"
    options = {name: MASK} if masked else {}
    run = kernels.compiled(lambda x: layer(x, **options))
    return lambda x: ops.convert_to_numpy(run(x))


def largest(y):
    """The largest number up to each step, `(T,)`."""
    return np.maximum.accumulate(np.abs(y).max(axis=(0, 2)))[:, None]


@pytest.mark.parametrize("masked", [True, pytest.param(False, marks=rest)])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[rest] if n in ONCE else []) for n in LAYERS]
)
def test_later_steps_change_nothing_before(name, masked):
    layer = built(name)
    run = function(layer, masked)
    y = run(X)
    values = [1e6, np.inf, np.nan][: 1 if name in exceptions() else 3]
    for value in values:
        found = run(with_outlier(value))
        difference = np.abs(found - y)[:, :S]
        assert np.all(difference <= 1e-5 * largest(y)[:S]), value
        assert np.all(np.any(found[:, S] != y[:, S], axis=-1))
        assert np.isfinite(value) or np.all(np.isnan(found[:, S]).any(axis=-1))


@rest
@pytest.mark.parametrize(
    "name",
    [n for n in LAYERS if not isinstance(LAYERS[n](), L.TransformerDecoder)],
)
def test_parts_equal_the_whole(name):
    """Also with an outlier, before and after which the sequence is cut."""
    layer, x = built(name), with_outlier(1e6)
    whole = ops.convert_to_numpy(layer(x, mask=MASK))
    parts, states = [], None
    for cut in (slice(0, 31), slice(31, S + 5), slice(S + 5, T)):
        y, states = layer.advance(x[:, cut], states, MASK[:, cut])
        parts.append(ops.convert_to_numpy(y))
    difference = np.abs(whole - np.concatenate(parts, axis=1)) * MASK[..., None]
    assert np.all(difference <= 1e-5 * np.maximum(1, largest(whole)))


@pytest.mark.full("the page is tested where it is cheapest")
@pytest.mark.parametrize("name", sorted(exceptions()))
def test_the_exceptions_are_exceptions(name):
    found = function(built(name), masked=False)(with_outlier(np.nan))
    assert np.any(np.isnan(found[:, :S]))
