"""Conformer blocks have the results of Hugging Face's with the same random weights."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from kerasseq.speech.batch_norm import BatchNormalization

if keras.backend.backend() != "torch":
    pytest.skip("the peer is of PyTorch", allow_module_level=True)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.once("the peer is of PyTorch")

B, T, D, F, N, K = 3, 11, 14, 17, 2, 5  # K: size of the kernel
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
REAL = np.arange(T) < np.array([[11], [7], [2]])


def modeling(name):
    """A module of transformers."""
    return pytest.importorskip(f"transformers.models.{name}.modeling_{name}")


def parakeet(use_bias, convolution_bias):
    config = transformers.ParakeetEncoderConfig(
        hidden_size=D,
        intermediate_size=F,
        num_attention_heads=N,
        conv_kernel_size=K,
        attention_bias=use_bias,
        convolution_bias=convolution_bias,
        **dict.fromkeys(("dropout", "activation_dropout", "attention_dropout"), 0.0),
    )
    config._attn_implementation = "eager"
    module = modeling("parakeet")
    positions = module.ParakeetEncoderRelPositionalEncoding(config)
    block = module.ParakeetEncoderBlock(config, 0).eval()
    names = {
        "feed_forward_1": ("feed_forward1.linear1", "feed_forward1.linear2"),
        "feed_forward_2": ("feed_forward2.linear1", "feed_forward2.linear2"),
        "heads": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "attention_output": "self_attn.o_proj",
        "position": (
            "self_attn.relative_k_proj",
            "self_attn.bias_u",
            "self_attn.bias_v",
        ),
        "convolution": "conv",
        "norm": "conv.norm",
        "norms": [
            *("norm_feed_forward1", "norm_self_att", "norm_conv"),
            *("norm_feed_forward2", "norm_out"),
        ],
    }
    return block, positions, names


def wav2vec2():
    config = transformers.Wav2Vec2ConformerConfig(
        hidden_size=D,
        intermediate_size=F,
        num_attention_heads=N,
        conv_depthwise_kernel_size=K,
        hidden_act="swish",
        position_embeddings_type="relative",
    )
    config._attn_implementation = "eager"
    module = modeling("wav2vec2_conformer")
    positions = module.Wav2Vec2ConformerRelPositionalEmbedding(config)
    block = module.Wav2Vec2ConformerEncoderLayer(config).eval()
    names = {
        "feed_forward_1": ("ffn1.intermediate_dense", "ffn1.output_dense"),
        "feed_forward_2": ("ffn2.intermediate_dense", "ffn2.output_dense"),
        "heads": ("self_attn.linear_q", "self_attn.linear_k", "self_attn.linear_v"),
        "attention_output": "self_attn.linear_out",
        "position": (
            "self_attn.linear_pos",
            "self_attn.pos_bias_u",
            "self_attn.pos_bias_v",
        ),
        "convolution": "conv_module",
        "norm": "conv_module.batch_norm",
        "norms": [
            *("ffn1_layer_norm", "self_attn_layer_norm", "conv_module.layer_norm"),
            *("ffn2_layer_norm", "final_layer_norm"),
        ],
    }
    return block, positions, names


def randomize(block):
    """Fills all weights and statistics; returns them by name."""
    rng = np.random.default_rng(5)
    state = block.state_dict()
    for name, value in state.items():
        if value.dtype.is_floating_point:
            new = 0.4 * rng.normal(size=value.shape)
            new = np.abs(new) + 0.5 if "running_var" in name else new
            state[name] = torch.tensor(new, dtype=value.dtype)
    block.load_state_dict(state)
    return {name: value.numpy() for name, value in state.items()}


def copy(ours, state, names):
    """Gives our block the weights of theirs."""
    attention, position = ours.self_attention, ours.self_attention.position
    for n in (1, 2):
        network = getattr(ours, f"feed_forward_{n}")
        first, last = names[f"feed_forward_{n}"]
        _linear(network.intermediate_dense, state, first)
        _linear(network.output_dense, state, last)
    denses = attention.query_dense, attention.key_dense, attention.value_dense
    for dense, name in zip(denses, names["heads"], strict=True):
        _linear(dense, state, name)
    _linear(attention.output_dense, state, names["attention_output"])
    kernel, u, v = names["position"]
    # Theirs has sine and cosine of each frequency side by side.
    halves = np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)])
    kernel = state[f"{kernel}.weight"].T[halves]
    position.kernel.assign(kernel.reshape(position.kernel.shape))
    position.biases.u.assign(state[u])
    position.biases.v.assign(state[v])
    own, theirs = ours.convolution, names["convolution"]
    _linear(own.gated_dense, state, f"{theirs}.pointwise_conv1")
    own.kernel.assign(state[f"{theirs}.depthwise_conv.weight"][:, 0].T)
    if own.bias is not None:
        own.bias.assign(state[f"{theirs}.depthwise_conv.bias"])
    _linear(own.output_dense, state, f"{theirs}.pointwise_conv2")
    parts = ("weight", "bias", "running_mean", "running_var")
    own.norm.set_weights([state[f"{names['norm']}.{part}"] for part in parts])
    norms = ("feed_forward_1", "self_attention", "convolution", "feed_forward_2")
    norms = [getattr(ours, f"{name}_norm") for name in norms] + [ours.output_norm]
    for norm, name in zip(norms, names["norms"], strict=True):
        norm.set_weights([state[f"{name}.weight"], state[f"{name}.bias"]])


def _linear(dense, state, name):
    weight = state[f"{name}.weight"]
    weight = weight[..., 0] if weight.ndim == 3 else weight  # of a convolution
    dense.kernel.assign(weight.T.reshape(dense.kernel.shape))
    if dense.bias is not None:
        dense.bias.assign(state[f"{name}.bias"].reshape(dense.bias.shape))


def pair(block, names, **options):
    """Our block with the weights of theirs."""
    ours = layers.ConformerBlock(F, N, K, **options)
    ours.build(X.shape)
    copy(ours, randomize(block), names)
    return ours


@pytest.mark.parametrize(
    ("use_bias", "convolution_bias"), [(True, True), (False, False)]
)
def test_parakeet(use_bias, convolution_bias):
    """With masks: padded frames are zeros in their convolution as well."""
    block, positions, names = parakeet(use_bias, convolution_bias)
    ours = pair(block, names, use_bias=use_bias, use_convolution_bias=convolution_bias)
    x, real = torch.tensor(X), torch.tensor(REAL)
    pairs = real[:, None, :, None] & real[:, None, None, :]
    with torch.no_grad():
        alone = block(x, position_embeddings=positions(x)).numpy()
        padded = block(x, pairs, position_embeddings=positions(x)).numpy()
    found = keras.ops.convert_to_numpy(ours(X))
    np.testing.assert_allclose(found, alone, atol=1e-5)
    found = keras.ops.convert_to_numpy(ours(X, mask=REAL))
    np.testing.assert_allclose(found[REAL], padded[REAL], atol=1e-5)


def test_wav2vec2_conformer():
    """Without masks: their convolution reads padded frames."""
    block, positions, names = wav2vec2()
    ours = pair(block, names, use_convolution_bias=False)
    x = torch.tensor(X)
    with torch.no_grad():
        theirs = block(x, relative_position_embeddings=positions(x))
    found = keras.ops.convert_to_numpy(ours(X))
    np.testing.assert_allclose(found, theirs.numpy(), atol=1e-5)


def test_batch_normalization_in_training():
    """Outputs, gradients and moving means are PyTorch's, of the real frames alone."""
    ours, theirs = (
        BatchNormalization(momentum=0.9, epsilon=1e-5),
        torch.nn.BatchNorm1d(D),
    )
    ours.build(X.shape)
    x, real = torch.tensor(X, requires_grad=True), torch.tensor(REAL)
    y = ours(x, training=True, mask=real)[real]
    wanted = theirs(x[real])
    weights = torch.tensor(np.cos(np.arange(wanted.numel())).reshape(wanted.shape))
    gradients = [
        torch.autograd.grad((z * weights).sum(), x)[0][real] for z in (y, wanted)
    ]
    np.testing.assert_allclose(y.detach(), wanted.detach(), atol=1e-5)
    np.testing.assert_allclose(*gradients, atol=1e-5)
    mean = keras.ops.convert_to_numpy(ours.moving_mean)
    np.testing.assert_allclose(mean, theirs.running_mean, atol=1e-6)
