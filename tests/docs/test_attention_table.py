"""The table of attention layers in the reference: each cell is tried."""

import re

import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.transformer.mixers import OF_PAIRS
from tests.attention.sparse.comparing import random_weights
from tests.layer_checks import assert_close
from tests.processes import ROOT

pytestmark = pytest.mark.once("the layers are tested everywhere")

PAGE = ROOT / "docs/pages/en/reference/attention.md"
B, T, S, D, N, K, w = 2, 37, 41, 7, 4, 6, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
SIZES = {
    "MultiHeadAttention": {},
    "BlockwiseAttention": {"block_size": 8},
    "LongformerAttention": {"sliding_window": w},
    "ReformerAttention": {"num_buckets": 4, "chunk_length": 5, "seed": 0},
    "LinformerAttention": {"rank": 3, "max_length": 43},
    "AdaptiveSpanAttention": {"max_span": 11, "ramp": 3},
}
DENSE = {  # where layers are those of all pairs
    "BlockwiseAttention": {"block_size": 8},
    "LongformerAttention": {"sliding_window": T},
    "AdaptiveSpanAttention": {"max_span": T, "initial_span": T},
}
POSITIONS = {
    "RoPE": layers.RotaryEmbedding,
    "ALiBi": layers.AlibiBias,
    "T5's bias": layers.RelativePositionBias,
}
CACHES = {"all tokens": T, "the window": w - 1, "the longest span": 11 + 3 - 1}


def table():
    """The rows by name of the layer, each a dictionary by column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    header = next(n for n, line in enumerate(lines) if "Grouped heads" in line)
    cells = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines[header:]]
    names, rows = cells[0], {}
    for row in cells[1:]:
        if len(row) != len(names):
            break
        rows[row[0].strip("`")] = dict(zip(names[1:], row[1:], strict=True))
    return rows


ROWS = table()
COLUMNS = ["Causal", "Padding on both sides", *POSITIONS]
COLUMNS += ["Grouped heads", "Cross-attention", "Cache of"]


def made(name, **options):
    layer = getattr(layers, name)(N, K, **{**SIZES[name], **options})
    random_weights((layer,), X.shape)
    if name == "AdaptiveSpanAttention":
        layer.span_fractions.assign(np.linspace(0.2, 1, N))
    return layer


def output(layer, x=X, y=None, **options):
    return ops.convert_to_numpy(layer(x, x if y is None else y, **options))


def causal(name):
    layer = made(name)
    before = output(layer, use_causal_mask=True)
    after = X.copy()
    after[:, -1] += 1
    after = output(layer, after, use_causal_mask=True)
    assert_close(after[:, :-1], before[:, :-1])
    assert np.abs(after - before).max() > 1e-3


def padding(name):
    layer = made(name)
    whole, zeros = output(layer), np.full((B, 3, D), 7, "float32")
    real = np.ones((B, T), bool)
    for left in (False, True):
        x = np.concatenate([zeros, X] if left else [X, zeros], axis=1)
        mask = np.pad(real, ((0, 0), (3, 0) if left else (0, 3)))
        found = output(layer, x, query_mask=mask, value_mask=mask)
        assert_close(found[mask].reshape(whole.shape), whole)


def position(name, make):
    found = output(made(name, position=make()))
    assert found.shape == X.shape and np.isfinite(found).all()
    assert np.abs(found - output(made(name))).max() > 1e-3
    if name in DENSE:
        layer = made(name, position=make(), **DENSE[name])
        if name == "AdaptiveSpanAttention":
            layer.span_fractions.assign(np.ones(N))
        dense = layers.MultiHeadAttention(N, K, position=make())
        dense.build(X.shape, X.shape)
        known = [v for v in layer.weights if v.name != "span_fractions"]
        dense.set_weights([ops.convert_to_numpy(v) for v in known])
        assert_close(output(layer), output(dense))


def grouped_heads(name):
    layer = made(name, num_key_value_heads=2)
    assert layer.key_dense.kernel.shape[1] == 2
    found = output(layer)
    assert found.shape == X.shape and np.isfinite(found).all()


def cross_attention(name):
    y = RNG.normal(size=(B, S, D)).astype("float32")
    found = output(made(name), X, y)
    assert found.shape == X.shape and np.isfinite(found).all()
    assert np.abs(found - output(made(name), X, 2 * y)).max() > 1e-3


def cache(name):
    layer = made(name)
    kept, parts = layer.make_cache(B, T), []
    assert kept["key"].shape[1] == CACHES[ROWS[name]["Cache of"]]
    for start, end in ((0, 20), (20, T)):
        x = X[:, start:end]
        y, kept = layer(x, x, cache=kept, cache_update_index=start)
        parts.append(ops.convert_to_numpy(y))
    assert_close(np.concatenate(parts, axis=1), output(layer, use_causal_mask=True))


TRIALS = {
    "Causal": causal,
    "Padding on both sides": padding,
    "Grouped heads": grouped_heads,
    "Cross-attention": cross_attention,
    "Cache of": cache,
}


def test_the_table_has_all_layers():
    assert {name: row["Name"].strip("`") for name, row in ROWS.items()} == {
        layer.__name__: name for name, layer in OF_PAIRS.items()
    }


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", SIZES)
def test_cell(name, column):
    def run():
        if column in POSITIONS:
            position(name, POSITIONS[column])
        else:
            TRIALS[column](name)

    cell = ROWS[name][column].partition(",")[0]
    assert cell in (CACHES.keys() | {"none"} if column == "Cache of" else "yes no")
    if cell in ("no", "none"):
        with pytest.raises(ValueError, match=name):
            run()
    else:
        run()
