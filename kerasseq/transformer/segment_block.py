r"""Block of Transformer-XL, which reads a segment and the hidden states before it.

$$
\tilde H = [M \circ H], \qquad
Q = H W^Q, \quad K = \tilde H W^K, \quad V = \tilde H W^V
$$

H are the inputs of the block, and M, the memory, its inputs of the segments before,
without a gradient. Dai et al. 2019, section 3.2.
"""

from keras import ops

from kerasseq import tracing
from kerasseq.core import masks
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import Tensor
from kerasseq.transformer import residual
from kerasseq.transformer.decoder import TransformerDecoder


@register
class SegmentBlock(TransformerDecoder):
    """A `TransformerDecoder` that can also attend to a memory.

    The keys and values of the memory are computed anew for each segment, with the
    weights of this moment: cached ones would be those of the weights before the last
    training step.

    Args:
        *args: Arguments of `TransformerDecoder`.
        **kwargs: Arguments of `TransformerDecoder`.

    Examples:
        >>> block = SegmentBlock(11, 2)
        >>> block.build((None, None, 4))
        >>> memory, x = np.ones((3, 5, 4), "float32"), np.ones((3, 7, 4), "float32")
        >>> keras.ops.shape(block.read_after(x, memory, np.ones((3, 12), bool)))
        (3, 7, 4)
    """

    rematerialized = ("call", "read_after")

    def read_after(
        self, x: Tensor, memory: Tensor, real: Tensor, training: bool | None = None
    ) -> Tensor:
        """Computes the outputs of a segment after the memory.

        Args:
            x: Inputs of the block, `(B, T, D)`.
            memory: Its inputs before x, `(B, M, D)`.
            real: Boolean `(B, M + T)`, True at real tokens of both.
            training: Whether to apply dropout.

        Returns:
            `(B, T, D)`.
        """
        M, S = memory.shape[1], ops.shape(real)[1]
        x = as_floats("x", masks.zero_masked(x, real[:, M:]), self.compute_dtype)
        x = tracing.record(self, "input", x)
        norm, name = self._self_attention_layer_norm, "self_attention"
        both = ops.concatenate([ops.cast(memory, x.dtype), x], axis=1)
        both = residual.pre_sublayer(both, norm, self._placement)  # (B, M + T, D)
        n = tracing.record(self, f"{name}_input", both[:, M:])
        p = masks.positions(real, S)
        a = self._self_attention_layer(
            n,
            both,
            query_mask=real[:, M:],
            value_mask=real,
            attention_mask=masks.causal(S - M, S, start=M),
            query_positions=p[:, M:],
            key_positions=p,
            training=training,
        )
        a = self._drop(a, training)
        if self.parallel:
            a = a + self._feed_forward_and_dropout(n, training, real[:, M:])
        x = self._post_sublayer(x, a, norm, name)
        if not self.parallel:
            x = self._feed_forward_branch(x, training, real[:, M:])
        return tracing.record(self, "output", x)
