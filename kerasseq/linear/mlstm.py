r"""The mLSTM: a matrix as memory, an exponential input gate, and a normalizer.

$$
\begin{aligned}
\tilde i_t, \tilde f_t &= \mathrm{cap}(x_t W^i + b^i),\ \mathrm{cap}(x_t W^f + b^f),
\qquad \mathrm{cap}(a) = 15 \tanh(a / 15) \\
m_t &= \max(\log \sigma(\tilde f_t) + m_{t-1},\ \tilde i_t) \\
i'_t &= e^{\tilde i_t - m_t}, \qquad
f'_t = e^{\log \sigma(\tilde f_t) + m_{t-1} - m_t} \\
S_t &= f'_t\, S_{t-1} + i'_t\, k_t v_t^T, \qquad
n_t = f'_t\, n_{t-1} + i'_t\, k_t \\
y_t &= \frac{S_t^T q_t}{\max(|n_t^T q_t|,\ e^{-m_t}) + 10^{-6}} \\
\mathrm{output} &= \left(\mathrm{LayerNorm}(y_t) \odot \sigma(x_t W^o)\right) W^O
\end{aligned}
$$

with $q_t$ divided by $\sqrt K$, a norm for each head, and gates that are a number for
each head. S and n are divided by $e^{m_t}$, so that no exponential overflows; y is the
same for any m. The gates do not depend on the state, so all $m_t$ are known ahead of
the kernel, in which n is one more column of S. Beck et al. 2024 ("xLSTM"); the numbers
are those of Hugging Face's `xLSTMModel`.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, masks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import dense
from kerasseq.linear.base import StatefulHeads, States

EPSILON = 1e-6  # added to the normalizer
MASKED = -1e38  # in place of the input gate of a masked step
FIRST_FORGET = (3.0, 6.0)  # b^f of the first and the last head


@register
class MLSTM(StatefulHeads):
    r"""Linear attention with the gates of an LSTM: the mLSTM of xLSTM.

    A memory of key-value pairs: the input gate writes a pair with any weight, the
    forget gate lets all fade, the normalizer divides by what was written.

    A trace has `query`, `key`, `value`, `input_gate` $i'$, `decay` $f'$, `gate`
    $\sigma(x W^o)$, the `heads` y, and the `alignment` `(B, N, T, T)`, with which
    alignment · value = y.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head, at least 2; K if None.
        soft_cap: Bound of the pre-activations of input and forget gate, as in the
            equation; none if None.
        conv_kernel: Steps that a short convolution with SiLU reads, which follows the
            projections to queries, keys and values channel by channel. No convolution
            if None.
        epsilon: ε of the norm.
        use_bias: Whether the projections and the norm have biases; those of the input
            and the forget gate always have.
        kernel_initializer: Initializer of the projections' kernels; those of the input
            and the forget gate start as zeros.
        bias_initializer: Initializer of the projections' biases; $b^f$ starts from 3 in
            the first head to 6 in the last.
        input_bias_initializer: Initializer of $b^i$. It is -10 in large models, which
            write little at first.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = MLSTM(num_heads=2, key_dim=3, value_dim=5)
        >>> x = np.random.default_rng(0).normal(size=(2, 7, 11))
        >>> keras.ops.shape(layer(x))
        (2, 7, 11)
        >>> y, states = layer.advance(x)  # and on with layer.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]  # S, n and m
        [(2, 2, 3, 5), (2, 2, 3), (2, 2)]

    References:
        Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024,
        arXiv:2405.04517.
    """

    input_dense: keras.layers.Dense
    forget_dense: keras.layers.Dense
    gate_dense: keras.layers.Dense
    norm_scale: keras.Variable
    norm_bias: keras.Variable
    input_bias_initializer: Initializer

    @passes_on(StatefulHeads)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        soft_cap: float | None = 15.0,
        conv_kernel: int | None = None,
        epsilon: float = 1e-6,
        use_bias: bool = False,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        input_bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.soft_cap: float | None = checks.optional(
            checks.positive, "soft_cap", soft_cap
        )
        self.epsilon: float = checks.positive("epsilon", epsilon)
        if self.value_dim == 1:
            raise ValueError(
                "value_dim must be at least 2, as the norm of a head of one number is "
                f"0, received {value_dim or key_dim}. Choose wider heads, or fewer"
            )

    def build_heads(self, D: int) -> None:
        """Builds the gates and the norm for inputs of width D."""
        N, units = self.num_heads, self.num_heads * self.value_dim
        self.gate_dense = self.built_dense("gate", D, units)
        gates = {"use_bias": True, "kernel_initializer": "zeros"}
        self.input_dense = self.built_dense(
            "input", D, N, bias_initializer=self.input_bias_initializer, **gates
        )
        self.forget_dense = self.built_dense(
            "forget", D, N, bias_initializer=first_forget_biases, **gates
        )
        norm = {"shape": (units,), "autocast": False}
        self.norm_scale = self.add_weight(name="norm_scale", initializer="ones", **norm)
        if self.use_bias:
            self.norm_bias = self.add_weight(
                name="norm_bias", initializer="zeros", **norm
            )

    def head_states(self) -> list[tuple[Shape, str]]:
        """Returns S, n and m."""
        S, dtype = super().head_states()[0]
        return [(S, dtype), (S[:-1], dtype), (S[:-2], dtype)]

    def attend(
        self, x: Tensor, qkv: Sequence[Tensor], states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """Returns the heads of all steps `(B, T, N, V)`, and the last states."""
        S, n, m = states
        log_i, log_f = (
            self._capped(ops.cast(dense(gate, x), self.state_dtype))
            for gate in (self.input_dense, self.forget_dense)
        )
        m, log_i, log_f = stabilized(log_i, ops.log_sigmoid(log_f), m, mask)
        i = self.record_heads("input_gate", ops.exp(log_i), domain=(0, 1))
        options = {"log_decay": self.record_decay(log_f), "mask": mask}
        q, k, v = (ops.cast(each, self.state_dtype) for each in qkv)
        S = ops.concatenate([S, n[..., None]], axis=-1)  # n is the sum of values of 1
        y, S = self.run_kernel(
            q / math.sqrt(self.key_dim), k, v, S, i=i, m=m, **options
        )
        return y, [S[..., :-1], S[..., -1], m[:, -1]]

    def _capped(self, x):
        """Computes `cap` of the equation."""
        if self.soft_cap is None:
            return x
        return self.soft_cap * kernels.tanh(x / self.soft_cap)

    def kernel(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor | None = None,
        *,
        i: Tensor,
        m: Tensor,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the normalized heads, and the state of which the last column is n.

        Args:
            q: `(B, T, N, K)`.
            k: `(B, T, N, K)`.
            v: `(B, T, N, V)`.
            state: `(B, N, K, V + 1)`.
            i: $i'$, `(B, T, N)`.
            m: `(B, T, N)`.
            **options: Arguments of `kernels.linear_attention`.
        """
        v = ops.concatenate([v, ops.ones_like(v[..., :1])], axis=-1)
        y, S = super().kernel(q, i[..., None] * k, v, state, **options)
        least = ops.exp(-m)[..., None]
        total = ops.absolute(y[..., -1:])
        total = ops.where(total > least, total, least)  # a maximum, also in float64
        return y[..., :-1] / (total + EPSILON), S

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """Normalizes and gates the heads `(B, T, N, V)` by x `(B, T, D)`."""
        V = self.value_dim
        y = y - ops.sum(y, axis=-1, keepdims=True) / V
        square = ops.sum(y * y, axis=-1, keepdims=True) / V
        y = y * ops.rsqrt(square + self.epsilon)
        shape = (self.num_heads, V)
        y = y * ops.reshape(ops.cast(self.norm_scale, y.dtype), shape)
        if self.use_bias:
            y = y + ops.reshape(ops.cast(self.norm_bias, y.dtype), shape)
        gate = ops.sigmoid(self.to_heads(dense(self.gate_dense, x), V))
        gate = self.record_heads("gate", gate, domain=(0, 1))
        return y * ops.cast(gate, y.dtype)


def stabilized(
    log_i: Tensor, log_f: Tensor, m: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Returns the scale m of the states at each step, and the gates relative to it.

    $m_t = F_t + \max(m_0, \max_{s \le t} \tilde i_s - F_s)$, where $F_t$ is the sum of
    the $\log f$ up to step t. y does not depend on m, which has no gradient, and may be
    rounded.

    Args:
        log_i: $\tilde i$, `(B, T, N)`.
        log_f: $\log f$, at most 0, `(B, T, N)`.
        m: $m_0$, `(B, N)`.
        mask: Boolean `(B, T)`, or None. A masked step leaves m as it is.

    Returns:
        m, $\log i'$ and $\log f'$, each `(B, T, N)`, the last two at most 0.

    Examples:
        >>> log_i, log_f = keras.ops.array([[[[1.0], [-2.0]]], [[[-4.0], [-0.5]]]])
        >>> m, write, keep = stabilized(log_i, log_f, keras.ops.zeros((1, 1)))
        >>> [keras.ops.convert_to_numpy(x).ravel().tolist() for x in (m, write, keep)]
        [[1.0, 0.5], [0.0, -2.5], [-5.0, 0.0]]
    """
    log_f = masks.zero_masked(log_f, mask)
    m = ops.stop_gradient(m)[:, None]  # (B, 1, N)
    F = ops.cumsum(log_f, axis=1)
    grown = log_i - F
    if mask is not None:
        grown = ops.where(mask[..., None], grown, MASKED)
    largest = kernels.running_maximum(ops.concatenate([m, grown], axis=1))[:, 1:]
    path = ops.cast(ops.stop_gradient(F) + largest, log_f.dtype)
    before = ops.concatenate([m, path[:, :-1]], axis=1)
    return path, masks.zero_masked(log_i - path, mask), before - path + log_f


def first_forget_biases(shape: Shape, dtype: DType | None = None) -> Tensor:
    """Returns initial biases of the forget gate: later heads remember longer.

    Examples:
        >>> keras.ops.convert_to_numpy(first_forget_biases((4,))).tolist()
        [3.0, 4.0, 5.0, 6.0]
    """
    return ops.linspace(*FIRST_FORGET, shape[0], dtype=dtype)
