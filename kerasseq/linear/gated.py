r"""Linear attention that forgets: by learned decays, or by constant ones.

$$
S_t = \mathrm{diag}(\alpha_t)\, S_{t-1} + k_t v_t^T, \quad
y_t = \frac{S_t^T q_t}{\sqrt K}, \quad
\mathrm{output} = \left(\mathrm{RMSNorm}(y_t) \odot \mathrm{silu}(x_t W^G)\right) W^O
$$

Gated linear attention: $\alpha_t = \sigma(x_t W_1 W_2 + b)^{1/16}$ for each channel of
the keys; Yang et al. 2023. Retention: $\alpha = 1 - 2^{-5-n}$ in head n, with queries
and keys rotated by their position; Sun et al. 2023 (RetNet).
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, masks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import dense
from kerasseq.linear.base import StatefulHeads, States
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.tracing import listeners


class NormedHeads(StatefulHeads):
    """Heads that are normalized and gated, as in the equation above.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        epsilon: ε of the norm.
        **kwargs: Arguments of `StatefulHeads`.
    """

    gated: bool = True  # whether the gate follows the norm
    gate_dense: keras.layers.Dense
    norm_scale: keras.Variable

    @passes_on(StatefulHeads)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        epsilon: float,
        **kwargs: Any,
    ) -> None:
        self.epsilon: float = checks.positive("epsilon", epsilon)

    def build_heads(self, D: int) -> None:
        """Builds the gate and the scale of the norm for inputs of width D."""
        if self.gated:
            units = self.num_heads * self.value_dim
            self.gate_dense = self.built_dense("gate", D, units)
        self.norm_scale = self.add_weight(
            name="norm_scale",
            shape=(self.value_dim,),
            initializer="ones",
            autocast=False,
        )

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """Normalizes and gates the heads `(B, T, N, V)` by x `(B, T, D)`."""
        square = ops.sum(y * y, axis=-1, keepdims=True) / self.value_dim
        y = y * ops.rsqrt(square + self.epsilon)
        y = y * ops.cast(self.norm_scale, y.dtype)
        if not self.gated:
            return y
        gate = keras.activations.silu(dense(self.gate_dense, x))
        gate = self.record_heads("gate", self.to_heads(gate, self.value_dim))
        return y * ops.cast(gate, y.dtype)


@register
class GatedLinearAttention(NormedHeads):
    r"""Gated linear attention: each channel of the keys has a learned decay.

    The decay depends on the input, $\alpha_t = \sigma(x_t W_1 W_2 + b)^{1/\tau}$, so
    that the layer chooses what to forget.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        conv_kernel: Steps that a short convolution with SiLU reads, which follows the
            projections to queries, keys and values channel by channel, as in later
            models. No convolution if None.
        decay_rank: Width between $W_1$ and $W_2$.
        decay_temperature: τ. The larger, the closer to 1 are the decays.
        epsilon: ε of the norm.
        use_bias: Whether the projections have biases; that of the decays always has.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        decay_bias_initializer: Initializer of b.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = GatedLinearAttention(num_heads=2, key_dim=3, value_dim=5)
        >>> x = np.random.default_rng(0).normal(size=(2, 7, 11))
        >>> keras.ops.shape(layer(x))
        (2, 7, 11)
        >>> y, states = layer.advance(x)  # and on with layer.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]
        [(2, 2, 3, 5)]
    """

    decay_down: keras.layers.Dense
    decay_up: keras.layers.Dense
    decay_bias_initializer: Initializer

    @passes_on(NormedHeads)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        conv_kernel: int | None = None,
        decay_rank: int = 16,
        decay_temperature: float = 16.0,
        epsilon: float = 1e-6,
        use_bias: bool = False,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        decay_bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.decay_rank: int = checks.size("decay_rank", decay_rank)
        self.decay_temperature: float = checks.positive(
            "decay_temperature", decay_temperature
        )

    def build_heads(self, D: int) -> None:
        """Builds the layers of the decay, too, for inputs of width D."""
        super().build_heads(D)
        rank, units = self.decay_rank, self.num_heads * self.key_dim
        checks.fits_memory("decay_rank", rank, max(D, units))
        self.decay_down = self.built_dense("decay_down", D, rank, use_bias=False)
        bias = {"use_bias": True, "bias_initializer": self.decay_bias_initializer}
        self.decay_up = self.built_dense("decay_up", rank, units, **bias)

    def attend(
        self, x: Tensor, qkv: Sequence[Tensor], states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """Returns the heads of all steps `(B, T, N, V)`, and the last states."""
        q, k, v = qkv
        z = self.to_heads(dense(self.decay_up, dense(self.decay_down, x)), self.key_dim)
        log_decay = ops.log_sigmoid(ops.cast(z, self.state_dtype))
        log_decay = self.record_decay(log_decay / self.decay_temperature)
        q = q / math.sqrt(self.key_dim)
        y, S = self.run_kernel(q, k, v, states[0], log_decay=log_decay, mask=mask)
        return y, [S]


@register
class Retention(NormedHeads):
    r"""Retention of RetNet: each head forgets at a constant rate.

    Head n, counted from 0, has the decay $1 - 2^{-5-n}$: the first remembers some 32
    steps, and each next one twice as many. Queries and keys are rotated by their
    position, as by `RotaryEmbedding`.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head; even.
        value_dim: V, width of each value head; K if None.
        conv_kernel: Steps that a short convolution with SiLU reads, which follows the
            projections to queries, keys and values channel by channel, as in later
            models. No convolution if None.
        max_wavelength: λ of the rotation. The longest wavelength is nearly 2πλ steps.
        epsilon: ε of the norm.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is, and
            positions are counted over real steps.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = Retention(num_heads=2, key_dim=4)
        >>> x = np.random.default_rng(0).normal(size=(3, 7, 11))
        >>> keras.ops.shape(layer(x))
        (3, 7, 11)
        >>> layer.decays.tolist()
        [0.96875, 0.984375]
    """

    @passes_on(NormedHeads)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        conv_kernel: int | None = None,
        max_wavelength: float = 10000,
        epsilon: float = 1e-6,
        use_bias: bool = False,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        if self.key_dim % 2:
            raise ValueError(
                "key_dim must be even, as pairs of features are rotated, received "
                f"key_dim={key_dim}. Choose {self.key_dim + 1}"
            )
        self.max_wavelength: float = checks.positive("max_wavelength", max_wavelength)
        self.rotary: RotaryEmbedding = RotaryEmbedding(
            self.max_wavelength, dtype=self.dtype_policy, name="rotary"
        )

    @property
    def decays(self) -> np.ndarray:
        """α of each head, `(N,)`."""
        return -np.expm1(self._log_gap())

    def _log_gap(self):
        """Returns the logarithm of 1 - α of each head."""
        return -math.log(2) * (5.0 + np.arange(self.num_heads))

    def head_states(self) -> list[tuple[Shape, str]]:
        """Returns S, and the number of real steps so far."""
        return [*super().head_states(), ((), "int32")]

    def start(self, x: Tensor) -> States:
        """Returns first states for x `(B, T, D)`; all rows have the same angles."""
        S, _, *conv = super().start(x)
        return [S, 0, *conv]

    def attend(
        self, x: Tensor, qkv: Sequence[Tensor], states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """Returns the heads of all steps `(B, T, N, V)`, and the last states."""
        S, count = states
        T = ops.shape(x)[1]
        positions = masks.positions(mask, T, count)
        real = T if mask is None else ops.sum(ops.cast(mask, "int32"), axis=1)
        q, k, v = qkv
        q, k = (
            self.rotary.rotate(ops.cast(x, self.state_dtype), positions) for x in (q, k)
        )
        log_decay = kernels.constant(np.log1p(-np.exp(self._log_gap())), like=q)
        if listeners.active():
            B, N = ops.shape(x)[0], self.num_heads
            log_decay = self.record_decay(ops.broadcast_to(log_decay, (B, T, N)))
        q = q / math.sqrt(self.key_dim)
        y, S = self.run_kernel(q, k, v, S, log_decay=log_decay, mask=mask)
        return y, [S, count + real]
