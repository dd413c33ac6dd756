"""Layers whose weights are of 16 bits are built and called on each backend."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from kerasseq.speech.batch_norm import BatchNormalization
from tests.test_layers_everywhere import CASES, SEQUENCE

pytestmark = pytest.mark.everywhere("backends differ in what they promote")


@pytest.fixture
def policy():
    """A function that sets the dtype policy of new layers until the end of a test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.mark.full("the sums of other layers are those of float32, cast")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("build", CASES)
def test_layers_are_built_and_called(build, dtype, policy):
    policy(dtype)
    for output in keras.tree.flatten(build()(SEQUENCE)):
        assert keras.backend.standardize_dtype(output.dtype) == dtype
        output = keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))
        assert np.isfinite(output).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_orthogonal_kernels(dtype):
    cells = [
        layers.LSTMCell(3, dtype=dtype),
        layers.SLSTMCell(6, num_heads=2, dtype=dtype),
        layers.RWKV4ChannelMix(3, kernel_initializer="orthogonal", dtype=dtype),
    ]
    for cell, name in zip(cells, ("recurrent_kernel",) * 2 + ("key",), strict=True):
        cell.build((None, 3) if cell is not cells[-1] else (None, None, 3))
        (U,) = (w for w in cell.weights if name in w.path and "kernel" in w.path)
        assert keras.backend.standardize_dtype(U.dtype) == dtype
        U = keras.ops.convert_to_numpy(keras.ops.cast(U, "float32"))[:3]
        np.testing.assert_allclose(U @ U.T, np.eye(3), atol=0.02)


def test_batch_normalization():
    layer = BatchNormalization(dtype="bfloat16")
    for training in (False, True):
        y = layer(SEQUENCE, training=training)
        assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
