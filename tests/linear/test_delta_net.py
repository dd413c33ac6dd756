"""`DeltaNet` computes what Hugging Face's Qwen3-Next does with the same weights."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from tests.layer_checks import assert_close

pytestmark = pytest.mark.once("the peer is written in PyTorch")

B, T, D, N, M, K, V = 2, 67, 13, 6, 2, 5, 7


@pytest.fixture(scope="module")
def peer():
    """Qwen3-Next's layer with random weights."""
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    torch = pytest.importorskip("torch")
    qwen = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    config = qwen.Qwen3NextConfig(
        hidden_size=D,
        linear_num_value_heads=N,
        linear_num_key_heads=M,
        linear_key_head_dim=K,
        linear_value_head_dim=V,
        linear_conv_kernel_dim=4,
        num_hidden_layers=1,
    )
    torch.manual_seed(0)
    layer = qwen.Qwen3NextGatedDeltaNet(config, 0)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.6)
        weight.requires_grad_(False)
    return layer.to(torch.get_default_device())


def converted(peer):
    """Our layer with the weights of the peer, which groups them by key heads."""
    weights = {n: w.detach().cpu().numpy() for n, w in peer.named_parameters()}
    layer = layers.DeltaNet(N, K, V, num_key_heads=M)
    layer.build((None, None, D))
    grouped = weights["in_proj_qkvz.weight"].reshape(M, -1, D)
    parts = np.split(grouped, np.cumsum([K, K, N // M * V]), axis=1)
    grouped = weights["in_proj_ba.weight"].reshape(M, -1, D)
    parts += np.split(grouped, 2, axis=1)
    dense = [layer.query_dense, layer.key_dense, layer.value_dense]
    dense += [layer.gate_dense, layer.write_dense, layer.decay_dense]
    for one, part in zip(dense, parts, strict=True):
        one.kernel.assign(part.reshape(-1, D).T)
    layer.conv.kernel.assign(weights["conv1d.weight"].transpose(2, 1, 0))
    layer.log_rate.assign(weights["A_log"])
    layer.decay_bias.assign(weights["dt_bias"])
    layer.norm_scale.assign(weights["norm.weight"])
    layer.output_dense.kernel.assign(weights["out_proj.weight"].T)
    return layer


def test_same_numbers_as_qwen3_next(peer):
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    expected = peer(keras.ops.convert_to_tensor(x))
    largest = float(keras.ops.max(abs(expected)))
    assert_close(converted(peer)(x), expected, atol=1e-5 * largest)
