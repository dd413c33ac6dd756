r"""Block of RWKV-7, which hands on the values of the first block of its stack.

$$
a_l, v^{\mathrm{first}} = x_{l-1} + \mathrm{TimeMix}_l(\mathrm{Norm}(x_{l-1}),
v^{\mathrm{first}}), \qquad x_l = a_l + \mathrm{FFN}_l(\mathrm{Norm}(a_l))
$$

The first block computes $v^{\mathrm{first}}$; each later one mixes its values with it,
and returns it unchanged. Peng et al. 2025 (arXiv 2503.14456).
"""

from typing import Any

import keras

from kerasseq import tracing
from kerasseq.core import masks
from kerasseq.core.carried_state import Hidden
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import Shape, Tensor
from kerasseq.linear.rwkv7 import RWKV7TimeMix
from kerasseq.transformer.block import check_self_attention_masks
from kerasseq.transformer.decoder import States, TransformerDecoder


@register
class RWKV7Block(TransformerDecoder):
    """A `TransformerDecoder` whose attention is an `RWKV7TimeMix`.

    Args:
        *args: Arguments of `TransformerDecoder`.
        **kwargs: Arguments of `TransformerDecoder`.

    Call arguments:
        decoder_sequence: X, `(B, T, D)`.
        decoder_padding_mask: Boolean `(B, T)`, True at real tokens.
        training: Whether to apply dropout.
        first_value: The values of the first block, `(B, T, A)`; None in that block.

    Returns:
        `(B, T, D)`, and the values of the first block.

    Examples:
        >>> mix = RWKV7TimeMix(2)
        >>> block = RWKV7Block(11, 2, norm_placement="pre", attention=mix)
        >>> y, first_value = block(np.ones((3, 7, 4)))
        >>> keras.ops.shape(y), keras.ops.shape(first_value)
        ((3, 7, 4), (3, 7, 4))
    """

    shares_value = True

    def build(
        self, decoder_sequence_shape: Shape, first_value_shape: Shape | None = None
    ) -> None:
        super().build(decoder_sequence_shape)

    def call(
        self,
        decoder_sequence: Tensor,
        decoder_padding_mask: Tensor | None = None,
        training: bool | None = None,
        *,
        first_value: Tensor | None = None,
        mask: Tensor | None = None,
        decoder_sequence_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        real = masks.first_given(decoder_padding_mask, decoder_sequence_mask, mask)
        check_self_attention_masks(decoder_sequence, real, None, "decoder_")
        x = masks.zero_masked(decoder_sequence, real)
        x = as_floats("decoder_sequence", x, self.compute_dtype)
        x = tracing.record(self, "input", x)
        norm, name = self._self_attention_layer_norm, "self_attention"
        n = self._pre_sublayer(x, norm, name)
        value = {"first_value": first_value, "return_value": True}
        a, first_value = self._self_attention_layer(n, mask=real, **value)
        a = self._drop(a, training)
        if self.parallel:
            a = a + self._feed_forward_and_dropout(n, training, real)
        x = self._post_sublayer(x, a, norm, name)
        if not self.parallel:
            x = self._feed_forward_branch(x, training, real)
        return tracing.record(self, "output", x), first_value

    def advance(
        self,
        x: Tensor,
        states: States,
        mask: Tensor | None = None,
        *,
        index: int | Tensor | None = None,
        first_value: Tensor | None = None,
    ) -> tuple[tuple[Tensor, Tensor], States]:
        """Continues a sequence; see `TransformerDecoder.advance`.

        Args:
            x: The next steps, `(B, T, D)`.
            states: From `make_cache`, or as returned for the steps before.
            mask: Boolean `(B, T)`, False at padding, which changes no state.
            index: Not used: there is no cache.
            first_value: As in a call.

        Returns:
            What a call returns, and the states after x.
        """
        self._check_states(x, states, mask, index)
        value = () if first_value is None else (first_value,)
        hidden = Hidden(states, mask, index)
        return MethodLayer(self, "_advance")(x, *value, hidden=hidden)

    def _advance(self, x, first_value=None, *, hidden):
        mask, states = hidden.mask, dict(hidden.states)
        x = as_floats("x", x, self.compute_dtype)
        x = tracing.record(self, "input", x)
        norm, name = self._self_attention_layer_norm, "self_attention"
        n = self._pre_sublayer(x, norm, name)
        (a, first_value), states["attention"] = self._self_attention_layer.advance(
            n, states["attention"], mask, first_value=first_value, return_value=True
        )
        x = self._advance_rest(x, n, a, states, mask)
        return (tracing.record(self, "output", x), first_value), states

    def compute_output_spec(
        self, decoder_sequence: Any, *args: Any, **kwargs: Any
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        shape = decoder_sequence.shape
        value = (*shape[:2], self._self_attention_layer.channels)
        return tuple(
            keras.KerasTensor(one, dtype=self.compute_dtype) for one in (shape, value)
        )


def block_class(attention: Any) -> type[TransformerDecoder]:
    """Returns the class of a block for what reads the sequence in it.

    Args:
        attention: A name, a layer, or None.

    Examples:
        >>> block_class(RWKV7TimeMix(2)).__name__, block_class("gla").__name__
        ('RWKV7Block', 'TransformerDecoder')
    """
    return RWKV7Block if isinstance(attention, RWKV7TimeMix) else TransformerDecoder
