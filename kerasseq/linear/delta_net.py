r"""The delta rule: what a key held is erased before a new value is written.

$$
S_t = \alpha_t \left(I - \beta_t k_t k_t^T\right) S_{t-1} + \beta_t k_t v_t^T, \qquad
y_t = \frac{S_t^T q_t}{\sqrt K}
$$

with unit queries and keys, $\beta_t = \sigma(x_t W^\beta)$ and, if gated,
$\alpha_t = \exp(-e^A\, \mathrm{softplus}(x_t W^\alpha + b))$ in each head. Yang et al.
2024a (DeltaNet), 2024b (gated); the gated form with Qwen3-Next's numbers.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Identifier, Shape, Tensor
from kerasseq.kernels import dense
from kerasseq.linear.base import States
from kerasseq.linear.gated import NormedHeads


@register
class DeltaNet(NormedHeads):
    r"""Linear attention that corrects its state: the delta rule.

    A key reads the value that it held, and a part β of the difference to the new value
    is written: a state overwrites, where a sum could only add.

    Args:
        num_heads: N, number of value heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        num_key_heads: M, number of query and key heads, each shared by a group of value
            heads; N if None.
        gated: Whether a learned decay α forgets, and a gate with SiLU follows the norm.
            If not, α is 1 and there is no gate.
        conv_kernel: Steps that a short convolution with SiLU reads, which follows the
            projections to queries, keys and values channel by channel. No convolution
            if None.
        epsilon: ε of the norm.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = DeltaNet(num_heads=4, key_dim=3, value_dim=5, num_key_heads=2)
        >>> y, states = layer.advance(np.ones((2, 1, 11)))
        >>> keras.ops.shape(y)
        (2, 1, 11)
        >>> [keras.ops.shape(state) for state in states]
        [(2, 4, 3, 5), (2, 3, 32)]
    """

    write_dense: keras.layers.Dense
    decay_dense: keras.layers.Dense
    log_rate: keras.Variable
    decay_bias: keras.Variable

    @passes_on(NormedHeads)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        num_key_heads: int | None = None,
        gated: bool = True,
        conv_kernel: int | None = 4,
        epsilon: float = 1e-6,
        use_bias: bool = False,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.num_key_heads: int | None = checks.optional(
            checks.size, "num_key_heads", num_key_heads
        )
        if self.num_heads % self.key_heads:
            raise ValueError(
                f"num_key_heads must divide num_heads={num_heads}, received "
                f"num_key_heads={num_key_heads}. Choose a divisor"
            )
        self.gated: bool = checks.flag("gated", gated)

    @property
    def key_heads(self) -> int:
        """M, number of query and key heads."""
        return self.num_key_heads or self.num_heads

    def build_heads(self, D: int) -> None:
        """Builds the gate, the write rate and the decay for inputs of width D."""
        super().build_heads(D)
        N = self.num_heads
        self.write_dense = self.built_dense("write", D, N)
        if not self.gated:
            return
        self.decay_dense = self.built_dense("decay", D, N, use_bias=False)
        options = {"shape": (N,), "autocast": False}
        self.log_rate = self.add_weight(
            name="log_rate", initializer=log_rates, **options
        )
        self.decay_bias = self.add_weight(
            name="decay_bias", initializer=decay_biases, **options
        )

    def attend(
        self, x: Tensor, qkv: Sequence[Tensor], states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """Returns the heads of all steps `(B, T, N, V)`, and the last states."""
        q, k, v = qkv
        q, k = (self._unit(ops.cast(x, self.state_dtype)) for x in (q, k))
        z = ops.cast(dense(self.write_dense, x), self.state_dtype)
        beta = self.record_heads("write", ops.sigmoid(z))[..., None]  # (B, T, N, 1)
        options = {"mask": mask, "c": k}
        if self.gated:
            options["log_decay"] = self._log_decay(x)
            options["c"] = ops.exp(options["log_decay"])[..., None] * k
        q = q / math.sqrt(self.key_dim)
        y, S = self.run_kernel(q, beta * k, v, states[0], **options)
        return y, [S]

    def _unit(self, x):
        """Makes unit vectors `(B, T, N, K)` of `(B, T, M, K)`, one a value head."""
        x = x * ops.rsqrt(ops.sum(x * x, axis=-1, keepdims=True) + 1e-6)
        repeats = self.num_heads // self.key_heads
        return x if repeats == 1 else ops.repeat(x, repeats, axis=2)

    def _log_decay(self, x):
        r"""Computes $\log \alpha$, `(B, T, N)`."""
        z = ops.cast(dense(self.decay_dense, x), self.state_dtype)
        rate, bias = (
            ops.cast(w, self.state_dtype) for w in (self.log_rate, self.decay_bias)
        )
        return self.record_decay(ops.exp(rate) * ops.log_sigmoid(-(z + bias)))


def log_rates(shape: Shape, dtype: DType = None) -> Tensor:
    """Draws A, logarithms of numbers from 1 to 16.

    Examples:
        >>> A = log_rates((100,))
        >>> bool(keras.ops.all(A >= 0)) and bool(keras.ops.all(A <= np.log(16)))
        True
    """
    return ops.log(keras.random.uniform(shape, 1.0, 16.0, dtype=dtype))


def decay_biases(shape: Shape, dtype: DType = None) -> Tensor:
    """Draws b such that softplus(b) is from 0.001 to 0.1, evenly in its logarithm.

    Examples:
        >>> rate = keras.ops.softplus(decay_biases((100,)))
        >>> bool(keras.ops.all(rate > 9e-4)) and bool(keras.ops.all(rate < 0.11))
        True
    """
    # The range of the published code, that of Mamba's step sizes.
    low, high = np.log(0.001), np.log(0.1)
    rate = ops.exp(keras.random.uniform(shape, low, high, dtype=dtype))
    return rate + ops.log(-ops.expm1(-rate))  # the inverse of softplus
