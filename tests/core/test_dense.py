"""Adapted dense layers: equal to NumPy, called or through `kernels.dense`."""

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.core.dense import Dense, EinsumDense, LoRA

pytestmark = pytest.mark.everywhere("the product beside the kernel is of the backend")

CASES = {  # the layer, the shape of its inputs without rows, and the axes of I
    "dense": (lambda **k: Dense(7, activation="tanh", **k), (5, 3), 1),
    "no bias": (lambda **k: Dense(7, use_bias=False, **k), (3,), 1),
    "to heads": (
        lambda **k: EinsumDense("abx,xyz->abyz", (None, 2, 7), bias_axes="yz", **k),
        (5, 3),
        1,
    ),
    "from heads": (
        lambda **k: EinsumDense("abyz,yzu->abu", (None, 11), bias_axes="u", **k),
        (5, 2, 3),
        2,
    ),
}


def adapted(case, **options):
    keras.utils.set_random_seed(2)
    build, shape, axes = CASES[case]
    layer = build(**options)
    layer.build((None, *shape))
    x = np.random.default_rng(0).normal(size=(13, *shape)).astype("float32")
    layer.add_lora(LoRA(2, alpha=6))
    layer.lora_b.assign(np.random.default_rng(1).normal(size=layer.lora_b.shape))
    return layer, x, axes


@pytest.mark.parametrize("case", CASES)
def test_equals_numpy(case):
    layer, x, axes = adapted(case)
    W, A, B = map(
        keras.ops.convert_to_numpy, (layer.kernel, layer.lora_a, layer.lora_b)
    )
    rows = x.reshape(-1, A.shape[0])
    expected = rows @ W.reshape(A.shape[0], -1) + 3 * (rows @ A) @ B
    if layer.bias is not None:
        expected = expected + keras.ops.convert_to_numpy(layer.bias).reshape(-1)
    if layer.activation is keras.activations.tanh:
        expected = np.tanh(expected)
    for y in (layer(x), kernels.dense(layer, keras.ops.array(x), axes=axes)):
        found = keras.ops.convert_to_numpy(y)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-5)
    layer.remove_lora()
    assert {w.name for w in layer.weights} <= {"kernel", "bias"}
    plain = keras.ops.convert_to_numpy(layer(x)).reshape(expected.shape)
    assert np.abs(plain - expected).max() > 0.1


@pytest.mark.parametrize("case", ["dense", "from heads"])
def test_mixed_precision_and_dropout(case):
    layer, x, _ = adapted(case, dtype="mixed_bfloat16")
    assert layer.lora_a.dtype == "float32"
    assert keras.backend.standardize_dtype(layer(x).dtype) == "bfloat16"
    layer.remove_lora()
    layer.add_lora(LoRA(2, alpha=2, dropout=0.5))
    layer.lora_b.assign(layer.lora_b + 1.0)
    calls = [
        keras.ops.convert_to_numpy(keras.ops.cast(layer(x, training=t), "float32"))
        for t in (False, False, True, True)
    ]
    assert np.array_equal(calls[0], calls[1])
    assert not np.array_equal(calls[2], calls[3])
    layer.remove_lora()
    assert len(layer.variables) == len(layer.weights) <= 2


def test_an_activation_after_quantizing_is_refused():
    layer = Dense(3, activation="tanh")
    layer.build((None, 5))
    layer.quantize("int8")
    with pytest.raises(ValueError, match="choose other layers"):
        layer.add_lora(LoRA(2, alpha=2))
    other = Dense(3, activation="tanh")
    other.build((None, 5))
    other.add_lora(LoRA(2, alpha=2))
    with pytest.raises(ValueError, match="quantize the model first"):
        other.quantize("int8")
    with pytest.raises(ValueError, match="has LoRA already"):
        other.add_lora(LoRA(2, alpha=2))
