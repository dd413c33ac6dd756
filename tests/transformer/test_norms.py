"""Norms over other axes than the last."""

import keras
import numpy as np
import pytest

from kerasseq import layers

pytestmark = pytest.mark.everywhere("PyTorch's operation takes the last axes alone")


@pytest.mark.parametrize("name", ["LayerNormalization", "RMSNormalization"])
def test_any_axis(name):
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    centered = x - x.mean(axis=1, keepdims=True) if name[0] == "L" else x
    expected = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-3)
    y = getattr(layers, name)(axis=1, epsilon=1e-3)(x)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(y), expected, atol=1e-5)
