"""Reference implementation of both blocks in NumPy."""

import math

import numpy as np
from keras import ops

PHI = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "linear": lambda x: x,
}
GATES = {
    "glu": "sigmoid",
    "bilinear": "linear",
    "reglu": "relu",
    "geglu": "gelu",
    "swiglu": "silu",
}


def weights_of(layer):
    """The weights by path: `{"feed_forward/output_dense/kernel": ...}`."""
    named = [w.path.partition("/")[2] for w in layer.weights]
    values = [ops.convert_to_numpy(w).astype("float64") for w in layer.weights]
    return dict(zip(named, values, strict=True))


class Block:
    """A block in NumPy.

    Args:
        weights: What `weights_of` gives.
        norm_placement: "post", "pre" or "deep".
        norm: "layer" or "rms".
        feed_forward: A name.
        parallel: Whether both parts read the same norm.
        alpha: α of "deep".
        scale: λ, or None.
        angle: Whether the first two numbers of each head turn with its position.
        slope: How much a place of distance loses in score.
    """

    def __init__(
        self,
        weights,
        *,
        norm_placement="post",
        norm="layer",
        feed_forward="relu",
        parallel=False,
        alpha=1.0,
        scale=None,
        angle=0,
        slope=0,
    ):
        self.w = weights
        self.norm_placement, self.kind, self.mlp = norm_placement, norm, feed_forward
        self.parallel, self.alpha, self.scale = parallel, alpha, scale
        self.angle, self.slope = angle, slope

    def get(self, name):
        return self.w.get(name, 0.0)

    def norm(self, name, x):
        if self.kind == "layer":
            x = x - x.mean(-1, keepdims=True)
            gain = self.w[f"{name}/gamma"]
        else:
            gain = self.w[f"{name}/scale"]
        length = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return gain * x / length + self.get(f"{name}/beta")

    def heads(self, name, x):
        y = np.einsum("btd,dnk->btnk", x, self.w[f"{name}/kernel"])
        return y + self.get(f"{name}/bias")

    def turned(self, x, on):
        if not on:
            return x
        at = np.arange(x.shape[1])[None, :, None] * self.angle
        a, b = x[..., 0], x[..., 1]
        first = [a * np.cos(at) - b * np.sin(at), a * np.sin(at) + b * np.cos(at)]
        return np.concatenate([np.stack(first, -1), x[..., 2:]], -1)

    def attention(self, name, x, y, allowed):
        itself = name == "self_attention"
        q = self.turned(self.heads(f"{name}/query", x), itself and self.angle)
        k = self.turned(self.heads(f"{name}/key", y), itself and self.angle)
        v = self.heads(f"{name}/value", y)
        k, v = (np.repeat(z, q.shape[2] // z.shape[2], axis=2) for z in (k, v))
        scale = self.scale or 1 / math.sqrt(q.shape[-1])
        e = scale * np.einsum("btnk,bsnk->bnts", q, k)
        if itself:
            places = np.arange(x.shape[1])
            e = e - self.slope * np.abs(places[:, None] - places)
        e = np.where(allowed, e, -np.inf)
        alpha = np.exp(e - e.max(-1, keepdims=True))
        alpha /= alpha.sum(-1, keepdims=True)
        kernel = self.w[f"{name}/attention_output/kernel"]
        y = np.einsum("bnts,bsnk,nkd->btd", alpha, v, kernel)
        return y + self.get(f"{name}/attention_output/bias"), alpha

    def dense(self, name, x):
        name = f"feed_forward/{name}"
        return x @ self.w[f"{name}/kernel"] + self.get(f"{name}/bias")

    def feed_forward(self, x):
        if self.mlp in GATES:
            gate = PHI[GATES[self.mlp]](self.dense("gate_dense", x))
            return self.dense(
                "output_dense", gate * self.dense("intermediate_dense", x)
            )
        h = PHI[self.mlp](self.dense("intermediate_dense", x))
        return self.dense("output_dense", h)

    def added(self, norm, x, f):
        """The output of one sublayer with its residual connection."""
        if self.norm_placement == "pre":
            return x + f(self.norm(norm, x))
        alpha = self.alpha if self.norm_placement == "deep" else 1
        return self.norm(norm, alpha * x + f(x))

    def __call__(self, x, allowed, memory=None, memory_allowed=True):
        """The output and the weights of the attentions."""
        weights = []

        def attend(name, n, y, where):
            out, alpha = self.attention(name, n, y, where)
            weights.append(alpha)
            return out

        def itself(n):
            a = attend("self_attention", n, n, allowed)
            return a + self.feed_forward(n) if self.parallel else a

        x = self.added("self_attention_layer_norm", x, itself)
        if memory is not None:
            x = self.added(
                "cross_attention_layer_norm",
                x,
                lambda n: attend("cross_attention", n, memory, memory_allowed),
            )
        if not self.parallel:
            x = self.added("feedforward_layer_norm", x, self.feed_forward)
        return x, weights
