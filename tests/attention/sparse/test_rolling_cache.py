"""Caches as long as a layer needs: a window, global tokens, the longest span."""

import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.attention.sparse import adaptive_span
from tests.attention.sparse.comparing import random_weights
from tests.layer_checks import assert_close

pytestmark = pytest.mark.once("in the compiled loop of a GPT everywhere")

B, T, D, N, K, w, z, R = 2, 37, 7, 2, 4, 5, 13, 3
P = 11  # tokens of the longer prompt
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
FIRST = np.arange(T)[None] == np.array([[0], [2]])
SEVERAL = np.zeros((B, T), bool)
SEVERAL[0, [0, 9, 25, 33]] = SEVERAL[1, [3, 4, 30]] = True


def longformer(G=None, position=None):
    layer = layers.LongformerAttention(
        *(N, K),
        sliding_window=w,
        max_global_tokens=G,
        num_key_value_heads=1,
        position=position,
    )
    random_weights((layer,), X.shape)
    return layer


def adaptive(fractions=(0.2, 1.0), position=None):
    layer = layers.AdaptiveSpanAttention(N, K, max_span=z, ramp=R, position=position)
    random_weights((layer,), X.shape)
    layer.span_fractions.assign(fractions)
    return layer


# The layer, its global tokens, and the tokens that its cache holds.
CASES = {
    "first": (lambda: longformer(1), FIRST, w),
    "window": (lambda: longformer(position=layers.RotaryEmbedding()), None, w - 1),
    "first-alibi": (lambda: longformer(1, layers.AlibiBias()), FIRST, w),
    "several": (lambda: longformer(7), SEVERAL, T),
    "spans": (adaptive, None, z + R - 1),
    "spans-alibi": (lambda: adaptive(position=layers.AlibiBias()), None, z + R - 1),
}


def some(mask, rows, columns):
    """The options of a call with some of the tokens."""
    return {} if mask is None else {"global_mask": mask[rows, columns]}


def whole(layer, mask, **options):
    return ops.convert_to_numpy(
        layer(X, X, use_causal_mask=True, **some(mask, ..., slice(None)), **options)
    )


@pytest.mark.parametrize("case", CASES)
def test_parts_equal_the_whole(case):
    make, mask, size = CASES[case]
    layer = make()
    cache, parts = layer.make_cache(B, T), []
    assert {cache[name].shape[1] for name in ("key", "value")} == {size}
    for start, end in ((0, 19), (19, 20), (20, T)):
        x, options = X[:, start:end], some(mask, ..., slice(start, end))
        y, cache = layer(x, x, cache=cache, cache_update_index=start, **options)
        parts.append(ops.convert_to_numpy(y))
    assert cache["key"].shape[1] == size
    assert_close(np.concatenate(parts, axis=1), whole(layer, mask))


@pytest.mark.parametrize("case", CASES)
def test_prompts_of_several_lengths(case):
    """Padding at the end of a prompt is overwritten."""
    make, mask, _ = CASES[case]
    layer = make()
    expected = whole(layer, mask)
    count = np.array([3, P])
    real = np.arange(P) < count[:, None]
    options = some(mask, ..., slice(P))
    options = {name: given & real for name, given in options.items()}
    if case != "several":  # its cache holds padding until it is overwritten
        options |= {"query_mask": real, "value_mask": real}
    x, cache = X[:, :P], layer.make_cache(B, T)
    y, cache = layer(x, x, cache=cache, cache_update_index=0, **options)
    assert_close(ops.convert_to_numpy(y)[real], expected[:, :P][real])
    rows = np.arange(B)[:, None]
    for _ in range(2 * w):
        at = count[:, None]
        y, cache = layer(
            *(X[rows, at], X[rows, at]),
            cache=cache,
            cache_update_index=ops.convert_to_tensor(count.astype("int32")),
            **some(mask, rows, at),
        )
        assert_close(y, expected[rows, at])
        count = count + 1


@pytest.mark.parametrize("case", CASES)
def test_padding_that_stays(case, monkeypatch):
    """On the left, and within the text, where positions go on after it."""
    monkeypatch.setattr(adaptive_span, "ROUNDED", 1)
    make, mask, _ = CASES[case]
    layer = make()
    if "spans" in case:  # without a rest, and within `max_span`, which counts padding
        layer.span_fractions.assign([0.2, 0.7])
        assert layer.make_cache(B, T)["key"].shape[1] == 12
    padding = np.ones((B, T), bool)
    padding[0, 3:6] = padding[1, :2] = False
    mask = None if mask is None else mask & padding
    masks = {"query_mask": padding, "value_mask": padding}
    expected = whole(layer, mask, **masks)
    cache = layer.make_cache(B, T)
    for start, end in ((0, 7), (7, 19), (19, T)):
        x, options = X[:, start:end], some(mask, ..., slice(start, end))
        y, cache = layer(
            *(x, x),
            cache=cache,
            cache_update_index=start,
            cached_mask=padding,
            **options,
        )
        real = padding[:, start:end]
        found = ops.convert_to_numpy(y)[real]
        assert_close(found, expected[:, start:end][real])


def test_a_cache_is_as_long_as_the_spans_are_now():
    long = layers.AdaptiveSpanAttention(N, K, max_span=500, ramp=R)
    random_weights((long,), X.shape)
    for fraction, size in ((0.0, 16), (0.1, 64), (1.0, 502)):
        long.span_fractions.assign([0.0, fraction])
        assert long.make_cache(B, 10_000)["key"].shape[1] == size
    assert long.make_cache(B, T)["key"].shape[1] == T
    layer = adaptive((0.0, 0.1))
    cache, x = layer.make_cache(B, T), X[:, :30]
    _, cache = layer(x, x, cache=cache, cache_update_index=0)
    layer.span_fractions.assign([0.0, 1.0])  # still within the 15 of the cache
    y, _ = layer(X[:, 30:], X[:, 30:], cache=cache, cache_update_index=30)
    assert_close(y, whole(layer, None)[:, 30:])
    long.span_fractions.assign([0.0, 0.0])
    cache = short = long.make_cache(B, T)
    _, cache = long(x, x, cache=cache, cache_update_index=0)
    long.span_fractions.assign([0.0, 0.5])
    y, _ = long(X[:, 30:], X[:, 30:], cache=cache, cache_update_index=30)
    assert np.isnan(ops.convert_to_numpy(y)).all()  # 14 tokens are missing
    y, _ = long(X[:, :9], X[:, :9], cache=short, cache_update_index=0)
    assert np.isfinite(ops.convert_to_numpy(y)).all()


def test_errors():
    layer = longformer(1)
    x, one = X[:, :9], X[:, 9:10]
    _, cache = layer(x, x, cache=layer.make_cache(B, T), cache_update_index=0)
    with pytest.raises(ValueError, match=r"has read, \[9, 9\], received 10. Continue"):
        layer(one, one, cache=cache, cache_update_index=10)
    with pytest.raises(ValueError, match="attention_mask must be None with the cache"):
        every = np.ones((B, 1, 10), bool)
        layer(one, one, cache=cache, cache_update_index=9, attention_mask=every)
    with pytest.raises(ValueError, match="number of tokens before.*received None"):
        layer(one, one, cache=cache)
    wrong = ops.convert_to_tensor(np.array([9, 8], "int32"))
    y, _ = layer(one, one, cache=cache, cache_update_index=wrong)
    bad = np.isnan(ops.convert_to_numpy(y)).all(axis=(1, 2))
    assert bad.tolist() == [False, True]
    late = np.array([[True], [False]])  # what was before it is gone
    y, _ = layer(one, one, cache=cache, cache_update_index=9, global_mask=late)
    bad = np.isnan(ops.convert_to_numpy(y)).all(axis=(1, 2))
    assert bad.tolist() == [True, False]
    full = layers.MultiHeadAttention(N, K)
    full.build(X.shape, X.shape)
    with pytest.raises(ValueError, match="room for global tokens .* with make_cache"):
        layer(
            one,
            one,
            cache=full.make_cache(B, T),
            cache_update_index=0,
            global_mask=late,
        )
    several = longformer(3)
    mask = np.ones((B, 2), bool)
    cache = several.make_cache(B, T)
    for start in (0, 2):
        x = X[:, start : start + 2]
        options = {"cache_update_index": start, "global_mask": mask}
        y, cache = several(x, x, cache=cache, **options)
    assert np.isnan(ops.convert_to_numpy(y)).all()  # four global tokens
