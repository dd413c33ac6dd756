r"""Linear attention: softmax attention with a kernel whose features are known.

$$
y_t = \frac{\phi(q_t)^T S_t}{\phi(q_t)^T z_t}, \qquad
S_t = \sum_{j \le t} \phi(k_j)\, v_j^T, \quad z_t = \sum_{j \le t} \phi(k_j), \qquad
\phi(x) = \mathrm{elu}(x) + 1
$$

Katharopoulos et al. 2020 ("Transformers are RNNs"). Course slides A and C.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Shape, Tensor
from kerasseq.kernels import matmul
from kerasseq.linear.base import StatefulHeads, States


@register
class LinearAttention(StatefulHeads):
    r"""Attention whose cost grows linearly with the length.

    The scores are $\phi(q_t)^T \phi(k_j)$, all positive, in place of
    $\exp(\lambda q_t^T k_j)$. The sums over all steps so far are a state of constant
    size, so that a text is continued in constant time and memory.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        conv_kernel: Steps that a short convolution with SiLU reads, which follows the
            projections to queries, keys and values channel by channel, as in later
            models. No convolution if None.
        causal: Whether a step attends to its own and earlier steps only. If not, it
            attends to all.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Nothing attends to masked steps.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = LinearAttention(num_heads=2, key_dim=3)
        >>> x = np.random.default_rng(0).normal(size=(5, 7, 11))
        >>> keras.ops.shape(layer(x))
        (5, 7, 11)
        >>> y, states = layer.advance(x)  # and on with layer.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]
        [(5, 2, 3, 3), (5, 2, 3)]
    """

    @passes_on(StatefulHeads)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        conv_kernel: int | None = None,
        causal: bool = True,
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.causal: bool = checks.flag("causal", causal)

    def head_states(self) -> list[tuple[Shape, str]]:
        """Returns S and z."""
        S, dtype = super().head_states()[0]
        return [(S, dtype), (S[:-1], dtype)]

    def attend(
        self, x: Tensor, qkv: Sequence[Tensor], states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """Returns the heads of all steps `(B, T, N, V)`, and the last states."""
        q, k, v = qkv
        q, k = (phi(ops.cast(x, self.state_dtype)) for x in (q, k))
        S, z = states
        S = ops.concatenate([S, z[..., None]], axis=-1)  # z is the sum of values of 1
        y, S = self.run_kernel(q, k, v, S, mask=mask)
        return y, [S[..., :-1], S[..., -1]]

    def kernel(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the normalized heads, and the state of which the last column is z."""
        v = ops.concatenate([v, ops.ones_like(v[..., :1])], axis=-1)
        if self.causal:
            y, S = super().kernel(q, k, v, state, **options)
        else:
            y, S = attend_to_all(q, k, v, **options), state
        total = y[..., -1:]
        return y[..., :-1] / ops.where(total > 0, total, ops.ones_like(total)), S

    def advance(
        self,
        x: Tensor,
        states: Sequence[Tensor] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, States]:
        """Continues from states `(B, N, K, V)` and `(B, N, K)` of a causal layer."""
        if not self.causal:
            raise ValueError(
                "advance needs causal=True, received a layer with causal=False, in "
                "which each step depends on all later ones. Create a causal layer"
            )
        return super().advance(x, states, mask)


def phi(x: Tensor) -> Tensor:
    r"""Computes $\mathrm{elu}(x) + 1$, above 0 also where elu is rounded to -1.

    Examples:
        >>> y = phi(keras.ops.convert_to_tensor([-50.0, 2.0]))
        >>> bool(y[0] > 0), float(y[1])
        (True, 3.0)
    """
    return ops.where(x > 0, x + 1, ops.exp(-ops.relu(-x)))


def attend_to_all(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Reads from the state after the last step at all steps.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, T, N, K)`.
        v: `(B, T, N, V)`.
        mask: Boolean `(B, T)`, or None.

    Returns:
        `(B, T, N, V)`.
    """
    q, k = masks.zero_masked(q, mask), masks.zero_masked(k, mask)
    q, k, v = (ops.swapaxes(x, 1, 2) for x in (q, k, v))
    S = matmul(ops.swapaxes(k, -1, -2), v)  # (B, N, K, V)
    return ops.swapaxes(matmul(q, S), 1, 2)
