"""`Mamba` and the layers of RWKV-4 compute what those of Hugging Face do."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from tests.layer_checks import assert_close

pytestmark = pytest.mark.once("the peers are written in PyTorch")

B, T, D = 2, 37, 10
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")


@pytest.fixture(scope="module", autouse=True)
def torch():
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    return pytest.importorskip("torch")


def random_weights(torch, module):
    """NumPy weights by name, after they were drawn anew."""
    torch.manual_seed(0)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.6)
        weight.requires_grad_(False)
    module.eval().to(torch.get_default_device())
    return {n: w.detach().cpu().numpy() for n, w in module.named_parameters()}


def assert_same(layer, expected):
    largest = float(keras.ops.max(abs(expected)))
    assert_close(layer(X), expected, atol=1e-5 * largest)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use_bias", [True, False])
def test_mamba(torch, use_bias):
    mamba = pytest.importorskip("transformers.models.mamba.modeling_mamba")
    config = mamba.MambaConfig(
        vocab_size=11,
        hidden_size=D,
        state_size=3,
        num_hidden_layers=1,
        time_step_rank=2,
        use_bias=use_bias,
        use_conv_bias=not use_bias,
    )
    peer = mamba.MambaMixer(config, 0)
    w = random_weights(torch, peer)
    layer = layers.Mamba(
        3, time_step_rank=2, use_bias=use_bias, use_conv_bias=not use_bias
    )
    layer.build((None, None, D))
    for ours, theirs in (("in", "in_proj"), ("x", "x_proj"), ("out", "out_proj")):
        dense = getattr(layer, f"{ours}_dense")
        dense.kernel.assign(w[f"{theirs}.weight"].T)
        if dense.use_bias:
            dense.bias.assign(w[f"{theirs}.bias"])
    layer.step_dense.set_weights([w["dt_proj.weight"].T, w["dt_proj.bias"]])
    layer.conv.kernel.assign(w["conv1d.weight"].transpose(2, 1, 0))
    if not use_bias:
        layer.conv.bias.assign(w["conv1d.bias"])
    layer.log_rate.assign(w["A_log"])
    layer.skip.assign(w["D"])
    assert_same(layer, peer(keras.ops.convert_to_tensor(X)))


@pytest.fixture(scope="module")
def rwkv(torch):
    module = pytest.importorskip("transformers.models.rwkv.modeling_rwkv")
    config = module.RwkvConfig(
        vocab_size=11,
        hidden_size=D,
        num_hidden_layers=3,
        attention_hidden_size=12,
        intermediate_size=17,
        rescale_every=0,
    )
    return module.RwkvModel(config).blocks[1]


@pytest.mark.parametrize("part", ["attention", "feed_forward"])
def test_rwkv4(torch, rwkv, part):
    peer = getattr(rwkv, part)
    index = {"layer_index": 1, "num_layers": 3}
    if part == "attention":
        layer = layers.RWKV4TimeMix(12, **index)
    else:
        layer = layers.RWKV4ChannelMix(17, **index)
    layer.build((None, None, D))
    for name in ("key", "value", "receptance"):  # the initial values
        theirs = getattr(peer, f"time_mix_{name}", None)
        if theirs is not None:
            ours = getattr(layer, f"{name}_mix")
            assert_close(ours, theirs.detach()[0, 0])
    if part == "attention":
        assert_close(layer.time_decay, peer.time_decay.detach())
    w = random_weights(torch, peer)
    for name, value in w.items():
        if name.startswith("time_mix_"):
            getattr(layer, f"{name.removeprefix('time_mix_')}_mix").assign(value[0, 0])
        elif name.startswith("time_"):
            getattr(layer, name).assign(value)
        else:
            dense = getattr(layer, f"{name.removesuffix('.weight')}_dense")
            dense.kernel.assign(value.T)
    assert_same(layer, peer(keras.ops.convert_to_tensor(X))[0])
