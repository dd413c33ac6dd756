"""`BlockwiseAttention`: equal to dense attention, forward and backward."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from tests.attention.sparse.comparing import output_and_gradients, random_weights
from tests.layer_checks import assert_close, compiled_on_jax

pytestmark = pytest.mark.everywhere("loops and gradients of each backend")
rest = pytest.mark.full("the same loop as another case")

B, T, S, D, E, N, K, V = 2, 13, 11, 7, 5, 4, 6, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
Y = RNG.normal(size=(B, S, E)).astype("float32")
SIDES = np.ones((B, T), bool)
SIDES[0, -2:] = SIDES[1, :3] = False
PADDED = {"query_mask": SIDES, "value_mask": SIDES}
CAUSAL = {**PADDED, "use_causal_mask": True}
GROUPED = {"num_key_value_heads": 2, "value_dim": V, "use_gate": True}


def pair(query=X, value=X, position=None, block_size=5, **options):
    """A dense and a blockwise layer with the same weights."""
    dense = layers.MultiHeadAttention(N, K, position=position and position(), **options)
    blockwise = layers.BlockwiseAttention(
        N, K, position=position and position(), block_size=block_size, **options
    )
    return random_weights((dense, blockwise), query.shape, value.shape)


def assert_equal(pair, *inputs, **options):
    expected, found = (output_and_gradients(x, *inputs, **options) for x in pair)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("block_size", [1, 5, pytest.param(12, marks=rest)])
def test_a_block_of_any_size_equals_dense(block_size):
    assert_equal(pair(block_size=block_size), X, X, **CAUSAL)


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({**GROUPED, "position": layers.RotaryEmbedding, "sliding_window": 3}, CAUSAL),
        ({"position": layers.AlibiBias}, PADDED),
        pytest.param({"position": layers.RelativePositionBias}, CAUSAL, marks=rest),
        pytest.param({"position": layers.TransformerXLPosition}, CAUSAL, marks=rest),
        pytest.param({"sliding_window": 2}, {}, marks=rest),
    ],
)
def test_options_equal_dense(options, call):
    assert_equal(pair(**options), X, X, **call)


@rest
@pytest.mark.parametrize("shape", [(T, S), (B, T, S), (B, N, T, S)])
def test_attention_masks_equal_dense(shape):
    mask = RNG.random(shape) < 0.6
    mask[..., 4, :] = False  # a query that attends to nothing
    assert_equal(pair(X, Y), X, Y, attention_mask=mask)


def test_gradient_of_what_is_computed_again():
    """On JAX it is no closure over masks, which belong to the first computation."""
    x = X[:, :, None]

    def number(x):
        masks = {"key_mask": ops.cast(SIDES, "bool"), "causal": True}
        y = kernels.blockwise_attention(x, x, x, scale=1.0, block_size=5, **masks)
        return ops.sum(ops.square(y))

    def run(x):
        return [kernels.gradients(f, x) for f in (number, keras.remat(number))]

    expected, found = compiled_on_jax(run)(x)
    assert_close(found, expected)


@pytest.mark.once("the kernel is compared everywhere")
def test_cached_equals_the_whole():
    dense, layer = pair(position=layers.AlibiBias, **GROUPED)
    whole = dense(X, X, use_causal_mask=True)
    cache, outputs = layer.make_cache(B, T), []
    for start, end in ((0, 6), (6, 7), (7, 13)):
        x = X[:, start:end]
        y, cache = layer(x, x, cache=cache, cache_update_index=start)
        outputs.append(ops.convert_to_numpy(y))
    assert_close(np.concatenate(outputs, axis=1), whole)
    rows = layer(X[:, 7:], X[:, 7:], cache=cache, cache_update_index=np.array([7, 7]))
    assert_close(rows[0], whole[:, 7:])


@pytest.mark.once("the path of the dense layer")
def test_weights_are_those_of_dense():
    dense, layer = pair()
    expected = dense(X, X, return_attention_scores=True, **CAUSAL)
    found = layer(X, X, return_attention_scores=True, **CAUSAL)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    with tracing.trace(layer) as inside:
        assert_close(layer(X, X, **CAUSAL), expected[0])
    assert_close(inside["alignment"], expected[1])


@pytest.mark.once("error messages")
def test_wrong_block_size():
    with pytest.raises(ValueError, match="block_size must be at least 1, received 0"):
        layers.BlockwiseAttention(2, 3, block_size=0)
    with pytest.raises(TypeError, match="block_size must be a whole number, .* 2.5"):
        layers.BlockwiseAttention(2, 3, block_size=2.5)
