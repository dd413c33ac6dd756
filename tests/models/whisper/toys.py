"""A tiny Whisper, sounds for it, and Whisper's equations in NumPy."""

import keras
import numpy as np
from scipy import special

from kerasseq import models

RATE, WINDOW = 16_000, 1
D, N, F, M, V, T, ENCODER, DECODER = 12, 3, 29, 11, 37, 19, 1, 2
SIZES = {
    "num_layers": ENCODER,
    "num_decoder_layers": DECODER,
    "num_heads": N,
    "hidden_dim": D,
    "intermediate_dim": F,
    "num_mels": M,
    "window": WINDOW,
    "max_length": T,
}
# 75 frames of 8 samples at 800 a second: for tests that train.
SMALL = {
    **{"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "num_mels": 7},
    **{"sampling_rate": 800, "num_fft_bins": 32, "stride": 8, "max_length": 17},
    "window": 0.75,
}


def whisper(**changes):
    """A model with weights that leave no part without effect."""
    model = models.Whisper(**{"vocabulary_size": V, **SIZES, **changes})
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "encoder_position" not in weight.path:
            noise = rng.normal(scale=0.3, size=weight.shape)
            weight.assign(keras.ops.convert_to_numpy(weight) + noise)
    return model


def sounds(*seconds, rate=RATE, seed=0):
    """Tones in noise, one for each duration."""
    rng = np.random.default_rng(seed)
    found = []
    for each in seconds:
        time = np.arange(round(each * rate)) / rate
        tone = np.sin(2 * np.pi * rng.uniform(0.02, 0.2) * rate * time)
        found.append((tone + 0.1 * rng.normal(size=len(time))).astype("float32") / 2)
    return found


def ids(rows, time, seed=0):
    return np.random.default_rng(seed).integers(0, V, (rows, time)).astype("int32")


class Reference:
    """Whisper in float64, over tensors by the names of Hugging Face.

    Args:
        tensors: Arrays by name.
        heads: Number of heads.
    """

    def __init__(self, tensors, heads):
        self.w = {
            name.removeprefix("model."): x.astype("float64")
            for name, x in tensors.items()
        }
        self.heads = heads

    def dense(self, x, name):
        return x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0.0)

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def attend(self, x, y, name, causal=False):
        """Returns the output, and the weights `(B, N, T, S)`."""
        q, k, v = (
            self.dense(z, f"{name}.{part}_proj").reshape(*z.shape[:2], self.heads, -1)
            for part, z in (("q", x), ("k", y), ("v", y))
        )
        e = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(q.shape[-1])
        if causal:
            e = np.where(np.tri(*e.shape[2:], dtype=bool), e, -np.inf)
        a = special.softmax(e, axis=-1)
        heads = np.einsum("bnts,bsnk->btnk", a, v).reshape(x.shape)
        return self.dense(heads, f"{name}.out_proj"), a

    def convolution(self, x, name, stride):
        """A convolution over 3 frames, with GELU."""
        x = np.pad(x, ((0, 0), (1, 1), (0, 0)))
        parts = [x[:, r : x.shape[1] - 2 + r : stride] for r in range(3)]
        kernel = self.w[f"{name}.weight"]  # (D, M, R)
        y = sum(part @ kernel[:, :, r].T for r, part in enumerate(parts))
        return gelu(y + self.w[f"{name}.bias"])

    def sublayer(self, x, block, name, function):
        return x + function(self.norm(x, f"{block}.{name}_layer_norm"))

    def feed_forward(self, x, block):
        hidden = gelu(self.dense(x, f"{block}.fc1"))
        return self.dense(hidden, f"{block}.fc2")

    def encode(self, frames):
        """Returns the vectors `(B, S, D)` of frames `(B, T, M)`."""
        x = self.convolution(frames.astype("float64"), "encoder.conv1", 1)
        x = self.convolution(x, "encoder.conv2", 2)
        x = x + self.w["encoder.embed_positions.weight"]
        for block in self._blocks("encoder"):
            name = f"{block}.self_attn"
            x = self.sublayer(
                x, block, "self_attn", lambda y, n=name: self.attend(y, y, n)[0]
            )
            x = self.sublayer(
                x, block, "final", lambda y, b=block: self.feed_forward(y, b)
            )
        return self.norm(x, "encoder.layer_norm")

    def decode(self, target, memory):
        """Returns logits `(B, T, V)`, and the cross-attention of each layer."""
        x = self.w["decoder.embed_tokens.weight"][target]
        x = x + self.w["decoder.embed_positions.weight"][: target.shape[1]]
        found = []
        for block in self._blocks("decoder"):
            y = self.norm(x, f"{block}.self_attn_layer_norm")
            x = x + self.attend(y, y, f"{block}.self_attn", causal=True)[0]
            y = self.norm(x, f"{block}.encoder_attn_layer_norm")
            a, weights = self.attend(y, memory, f"{block}.encoder_attn")
            found.append(weights)
            x = x + a
            x = self.sublayer(
                x, block, "final", lambda y, b=block: self.feed_forward(y, b)
            )
        x = self.norm(x, "decoder.layer_norm")
        return x @ self.w["decoder.embed_tokens.weight"].T, found

    def _blocks(self, stack):
        n = 0
        while f"{stack}.layers.{n}.fc1.weight" in self.w:
            yield f"{stack}.layers.{n}"
            n += 1


def gelu(x):
    return x * (1 + special.erf(x / np.sqrt(2))) / 2
