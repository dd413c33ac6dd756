"""Blocks whose dense layers are quantized or adapted by LoRA."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.models import GPT
from tests.layer_checks import called

pytestmark = pytest.mark.everywhere("small types and new variables")


def numbers(model, ids):
    return ops.convert_to_numpy(called(model, ids))


@pytest.mark.everywhere("small types", cases=1)
@pytest.mark.parametrize("options", [{"feed_forward": "swiglu"}, {}])
def test_quantized_is_close(options):
    model = GPT(vocabulary_size=11, num_layers=1, num_heads=2, hidden_dim=16, **options)
    ids = np.arange(1, 11)[None]
    before = numbers(model, ids)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dense | keras.layers.EinsumDense):
            layer.quantize("int8")
    after = numbers(model, ids)
    kernels = [w for w in model.weights if "int8" in str(w.dtype)]
    assert len(kernels) >= 6
    assert 0 < np.abs(after - before).max() < 0.02 * np.abs(before).max()


@pytest.mark.everywhere("new variables", cases=1)
@pytest.mark.parametrize("options", [{"feed_forward": "swiglu"}, {}])
def test_lora_trains_only_its_matrices(options):
    model = GPT(vocabulary_size=11, num_layers=1, num_heads=2, hidden_dim=8, **options)
    ids = np.arange(1, 11)[None]
    before = numbers(model, ids)
    block = model.get_layer("block_0")
    attention, inner = block._self_attention_layer, block._feedforward_sublayer
    beside = (attention.query_dense, attention.output_dense, inner.intermediate_dense)
    for dense in beside:
        dense.enable_lora(2)
    kernels = [ops.convert_to_numpy(dense._kernel) for dense in beside]
    now = numbers(model, ids)
    np.testing.assert_allclose(now, before, atol=1e-6)
    model.compile()
    model.fit(ids[:, :-1], ids[:, 1:], epochs=3, verbose=0)
    assert np.abs(numbers(model, ids) - before).max() > 1e-4
    for dense, kernel in zip(beside, kernels, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(dense._kernel), kernel)
