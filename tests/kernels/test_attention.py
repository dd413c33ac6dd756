"""Fused attention: one query is one of several, whatever way the backend takes."""

import numpy as np
import pytest
from keras import ops
from keras.backend import standardize_dtype

from kerasseq.kernels import compiled, fused_attention

pytestmark = pytest.mark.everywhere("kernels differ between backends")

N, S, K = 3, 7, 5
rng = np.random.default_rng(0)
Q, KEYS, V = (rng.normal(size=(1, T, N, K)).astype("float32") for T in (2, S, S))
MASKS = {
    "none": None,
    "of all heads": rng.random((1, 1, 2, S)) < 0.6,
    "of each head": rng.random((1, N, 2, S)) < 0.6,
}


def numpy(q, bias, mask):
    """Softmax of scores, by the equation; `(1, T, N, K)`."""
    e = np.einsum("btnk,bsnk->bnts", q, KEYS) * 0.3
    e = e if bias is None else e + bias
    e = e if mask is None else np.where(mask, e, -np.inf)
    alpha = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    return np.einsum("bnts,bsnk->btnk", alpha, V)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("heads", [None, 1, N])
def test_one_query_is_one_of_several(mask, heads):
    mask = MASKS[mask]
    if mask is not None:
        mask[..., 0] = True  # each sees something
    bias = None if heads is None else rng.normal(size=(1, heads, 2, S))
    bias = None if bias is None else bias.astype("float32")
    given = {"scale": 0.3, "bias": bias, "mask": mask}
    if bias is not None and mask is not None:  # the one becomes a part of the other
        given["bias"] = np.where(mask, bias, np.float32(-1e30))
        given["mask"] = None
    wanted = numpy(Q, bias, mask)
    tensors = {
        name: x if x is None or name == "scale" else ops.convert_to_tensor(x)
        for name, x in given.items()
    }
    whole = fused_attention(*map(ops.convert_to_tensor, (Q, KEYS, V)), **tensors)
    np.testing.assert_allclose(ops.convert_to_numpy(whole), wanted, atol=1e-5)
    for t in range(2):
        part = {
            name: x[:, :, t : t + 1] if hasattr(x, "shape") else x
            for name, x in tensors.items()
        }
        q = ops.convert_to_tensor(Q[:, t : t + 1])
        one = fused_attention(q, *map(ops.convert_to_tensor, (KEYS, V)), **part)
        np.testing.assert_allclose(
            ops.convert_to_numpy(one), wanted[:, t : t + 1], atol=1e-5
        )


def test_one_query_sees_one_key():
    q, k, v = (ops.convert_to_tensor(x[:, :1]) for x in (Q, KEYS, V))
    y = fused_attention(q, k, v, scale=0.3)  # and Keras' softmax does not warn
    np.testing.assert_allclose(ops.convert_to_numpy(y), V[:, :1], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("queries", [1, 2])
def test_short_types_also_when_compiled(dtype, queries):
    def attend(*tensors):
        return fused_attention(*tensors, scale=0.3)

    tensors = [ops.cast(x, dtype) for x in (Q[:, :queries], KEYS, V)]
    for run in (attend, compiled(attend)):
        found = run(*tensors)
        assert standardize_dtype(found.dtype) == dtype
        found = ops.convert_to_numpy(ops.cast(found, "float32"))
        np.testing.assert_allclose(found, numpy(Q, None, None)[:, :queries], atol=0.02)


def test_a_query_that_sees_nothing_gives_numbers():
    q = ops.convert_to_tensor(Q[:, :1])
    keys, v = ops.convert_to_tensor(KEYS), ops.convert_to_tensor(V)
    nothing = ops.zeros((1, 1, 1, S), "bool")
    one = fused_attention(q, keys, v, scale=0.3, mask=nothing)
    assert np.all(np.isfinite(ops.convert_to_numpy(one)))
