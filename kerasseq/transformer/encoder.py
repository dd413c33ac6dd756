r"""Encoder block of a Transformer.

$$
Z = \mathrm{LayerNorm}(X + \mathrm{Attention}(X)), \qquad
Y = \mathrm{LayerNorm}(Z + \mathrm{FFN}(Z))
$$

or with the norms in another place, see `residual`; or with both sublayers in parallel,

$$
Y = X + \mathrm{Attention}(\mathrm{Norm}(X)) + \mathrm{FFN}(\mathrm{Norm}(X))
$$

Vaswani et al. 2017; in parallel Wang and Komatsuzaki 2021, Chowdhery et al. 2022.
Course slides A, B, C, D.
"""

from kerasseq import tracing
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import Shape, Tensor
from kerasseq.transformer import mixers, residual
from kerasseq.transformer.block import (
    TransformerBlock,
    check_self_attention_masks,
    one_output,
)
from kerasseq.transformer.feed_forward import NONE


@register
class TransformerEncoder(TransformerBlock):
    r"""Self-attention and a feed-forward network, with residual connections.

    Equivalent to `keras_hub.layers.TransformerEncoder`, with the same weights and
    results. Padding does not change the results of real tokens. A stack of blocks with
    `norm_placement="pre"` needs one more norm at its end.

    Args:
        intermediate_dim: F, the width of the hidden layer of the feed-forward network;
            None if `feed_forward` is a layer or "none".
        num_heads: N, number of attention heads.
        dropout: Fraction to drop in training, of the attention weights and of the
            output of each sublayer.
        activation: Activation function of the feed-forward network.
        layer_norm_epsilon: ε of the norms.
        kernel_initializer: Initializer of all kernels.
        bias_initializer: Initializer of all biases.
        normalize_first: Whether the norms are before the sublayers, as with "pre".
        norm: "layer", "rms", or a layer of which copies are made.
        norm_placement: Where the norms are: "post", "pre", or "deep" for DeepNorm. If
            None, as `normalize_first` says.
        feed_forward: "relu", "gelu", "silu", the gated "glu", "bilinear", "reglu",
            "geglu", "swiglu", a layer, or "none" for a block without this sublayer. If
            None, `activation` without a gate.
        use_bias: Whether projections and layer norms have biases.
        position: Position encoding inside the self-attention, as in
            `MultiHeadAttention`.
        num_key_value_heads: Number of key-value heads, each shared by a group of query
            heads; N if None.
        head_dim: K, the width of a head; D / N if None.
        scale: Factor of the scores; $1 / \sqrt K$ if None.
        sliding_window: A query attends to keys at a distance below this only.
        parallel: Whether both sublayers have the same input, in parallel.
        depth: Number of layers in the stack, for DeepNorm; a pair of encoder and
            decoder layers if there is a decoder.
        seed: Seed of dropout.
        use_query_key_value_bias: Whether the query, key and value projections have
            biases; `use_bias` if None. "query_value": not the key.
        query_key_norm: Norm of each query head and key head, before the position
            encoding: "layer", "rms", a layer of which copies are made, or None.
        output_initializer: Initializer of the last kernel of each sublayer;
            `kernel_initializer` if None.
        attention: What reads the sequence: "multi_head", "blockwise", "longformer",
            "linformer", "reformer", "adaptive_span", or in its place
            "linear_attention", or a layer that keeps the shape, of which a copy is
            made. Other names of `TransformerDecoder` are causal here as well.
        max_length: Length of the longest text, for "linformer", "reformer" and
            "adaptive_span".
        max_global_tokens: The most global tokens of a text, for "longformer".
        residual: Whether a sublayer is added to its input. Without it, a stack of a few
            blocks can no longer tell its positions apart (Dong et al. 2021).
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: X, `(B, T, D)`.
        padding_mask: Boolean `(B, T)`, True at real tokens; Keras' mask if None.
        attention_mask: Boolean `(B, T, T)`, True where a query may attend.
        training: Whether to apply dropout.
        return_attention_scores: Whether to return the attention weights as well.
        mask: Set by Keras, and used if `padding_mask` is None. Keras sets `inputs_mask`
            instead if there are other tensors beside the inputs.
        global_mask: Boolean `(B, T)`, True at global tokens of a `LongformerAttention`
            with `max_global_tokens`, or None.

    Returns:
        `(B, T, D)`, and the attention weights `(B, N, T, T)` if asked for.

    Raises:
        ValueError: If an argument is out of range, or two contradict each other.

    Examples:
        >>> layer = TransformerEncoder(11, 2, norm="rms", norm_placement="pre")
        >>> keras.ops.shape(layer(np.ones((3, 7, 4))))
        (3, 7, 4)
    """

    causal = False

    @staticmethod
    def _check_depth(name, value):
        """Returns a number, or a pair of numbers of encoder and decoder layers."""
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return tuple(checks.whole_number(name, number) for number in value)
        return checks.whole_number(name, value)

    def build(self, inputs_shape: Shape) -> None:
        alpha, beta = 1.0, 1.0
        if self._placement == "deep":
            depth = self.depth if isinstance(self.depth, tuple) else (self.depth,)
            alpha, beta = residual.deepnorm_encoder(*depth)
        self._build_self_attention(inputs_shape, alpha, beta)
        if not self.parallel and self.feed_forward != NONE:
            self._feedforward_layer_norm = self._build_norm(
                "feedforward_layer_norm", inputs_shape
            )
        self._feedforward_sublayer = self._build_feed_forward(inputs_shape, beta)
        self.built = True

    @one_output
    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        *,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        padding_mask = masks.first_given(padding_mask, mask, inputs_mask)
        check_self_attention_masks(inputs, padding_mask, attention_mask)
        x = as_floats("inputs", inputs, self.compute_dtype)
        x = masks.zero_masked(x, padding_mask)
        x = tracing.record(self, "input", x)
        norm, name = self._self_attention_layer_norm, "self_attention"
        n = self._pre_sublayer(x, norm, name)
        options = self._global_options(global_mask)
        if self._attends:
            a = self._self_attention_layer(
                n,
                n,
                query_mask=padding_mask,
                value_mask=padding_mask,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
                **options,
            )
        else:
            self._check_no_scores(
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
            )
            a = mixers.run(self._self_attention_layer, n, padding_mask)
        a, *weights = a if return_attention_scores else (a,)
        a = self._drop(a, training)
        if self.parallel:
            y = self._post_sublayer(
                x,
                a + self._feed_forward_and_dropout(n, training, padding_mask),
                norm,
                name,
            )
        else:
            z = self._post_sublayer(x, a, norm, name)
            y = self._feed_forward_branch(z, training, padding_mask)
        y = tracing.record(self, "output", y)
        return (y, *weights) if weights else y

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape
