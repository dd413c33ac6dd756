r"""A layer of a Transformer that sees a whole sequence at once.

$$
Z = \mathrm{LayerNorm}(X + \mathrm{Attention}(X)), \qquad
Y = \mathrm{LayerNorm}(Z + \mathrm{FFN}(Z))
$$

or with the norms elsewhere, see `residual`; or with both parts side by side,

$$
Y = X + \mathrm{Attention}(\mathrm{Norm}(X)) + \mathrm{FFN}(\mathrm{Norm}(X))
$$

Vaswani et al. 2017; side by side Wang and Komatsuzaki 2021, Chowdhery et al. 2022.
Course slides A, B, C, D.
"""

from kerasseq import tracing
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.transformer import residual
from kerasseq.transformer.block import TransformerBlock, check_step_masks


@register
class TransformerEncoder(TransformerBlock):
    r"""Self-attention, then a feed-forward network, each added to what came in.

    Takes what `keras_hub.layers.TransformerEncoder` takes, has its weights, and gives
    its results. Padding changes no real position's result. With the norms before the
    parts, a stack of blocks needs one more norm at its end.

    Args:
        intermediate_dim: F, the width inside the feed-forward network; None if that is
            a layer of your own.
        num_heads: N, of the attention.
        dropout: Fraction of the attention weights and of what each part gives that is
            dropped in training.
        activation: Of the feed-forward network.
        layer_norm_epsilon: Epsilon of the norms.
        kernel_initializer: Of all kernels.
        bias_initializer: Of all biases.
        normalize_first: Whether norms stand before the parts, as "pre" does.
        norm: "layer", "rms", or a layer of which copies are made.
        norm_placement: Of the norms: "post", "pre", or "deep" for DeepNorm.
            As `normalize_first` says if None.
        feed_forward: "relu", "gelu", "silu", the gated "glu", "bilinear", "reglu",
            "geglu", "swiglu", or a layer. With `activation` and no gate if None.
        use_bias: Whether projections and layer norms have biases.
        position: Position encoding inside the self-attention, as in
            `MultiHeadAttention`.
        num_key_value_heads: Heads of keys and values, each shared by a group.
        head_dim: K, the width of a head; that of the inputs over N if None.
        scale: Factor of the scores; $1 / \sqrt K$ if None.
        sliding_window: A position sees what is fewer than this many places away.
        parallel: Whether both parts read the same norm, side by side.
        depth: Number of layers of the stack, for DeepNorm; a pair, of encoder and
            decoder, where there is a decoder.
        seed: Seed of dropout.
        use_query_key_value_bias: Whether the projections of queries, keys and values
            have biases; as `use_bias` if None.
        query_key_norm: Of each head of queries and keys, before positions apply:
            "layer", "rms", a layer of which copies are made, or None for no norm.
        output_initializer: Of the last kernel of each part, whose product is added to
            the inputs; as `kernel_initializer` says if None.
        **kwargs: As for any layer.

    Call arguments:
        inputs: X, `(B, T, D)`.
        padding_mask: Boolean `(B, T)`, True where a position is real; the mask of Keras
            if None.
        attention_mask: Boolean `(B, T, T)`, True where a query may look.
        training: Whether dropout is on.
        return_attention_scores: Whether to return the weights, too.
        mask: What Keras fills in, used where there is no padding mask; in
            `inputs_mask`, if there are other tensors beside the inputs.

    Returns:
        `(B, T, D)`; with the weights, `(B, N, T, T)`, if asked for.

    Raises:
        ValueError: If an argument is out of range, or two contradict each other.

    Examples:
        >>> layer = TransformerEncoder(11, 2, norm="rms", norm_placement="pre")
        >>> keras.ops.shape(layer(np.ones((3, 7, 4))))
        (3, 7, 4)
    """

    def _check_depth(self):
        pair = isinstance(self.depth, (tuple, list)) and len(self.depth) == 2
        for number in self.depth if pair else (self.depth,):
            checks.whole_number("depth", number)
        self._depths = tuple(self.depth) if pair else (self.depth,)

    def build(self, inputs_shape):
        beta = self._start(inputs_shape)
        if self.placed == "deep":
            self.alpha, beta = residual.deepnorm_encoder(*self._depths)
        self._self_attention_layer = self._make_attention(
            "self_attention",
            inputs_shape,
            inputs_shape,
            seed=self._seeds[1],
            beta=beta,
            position=self.position,
            sliding_window=self.sliding_window,
        )
        self._self_attention_layer_norm = self._make_norm(
            "self_attention_layer_norm", inputs_shape
        )
        if not self.parallel:
            self._feedforward_layer_norm = self._make_norm(
                "feedforward_layer_norm", inputs_shape
            )
        self._feedforward_sublayer = self._make_feed_forward(inputs_shape, beta)
        self.built = True

    def call(
        self,
        inputs,
        padding_mask=None,
        attention_mask=None,
        training=None,
        return_attention_scores=False,
        *,
        mask=None,
        inputs_mask=None,
    ):
        real = masks.first_given(padding_mask, mask, inputs_mask)
        check_step_masks(inputs, real, attention_mask)
        x, norm = masks.zero_masked(inputs, real), self._self_attention_layer_norm
        n = self._pre_sublayer(x, norm)
        a = self._self_attention_layer(
            n,
            n,
            query_mask=real,
            value_mask=real,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        a, *alpha = a if return_attention_scores else (a,)
        a = self._drop(a, training)
        if self.parallel:
            y = self._post_sublayer(x, a + self._fed_forward(n, training), norm)
        else:
            y = self._feed_forward(self._post_sublayer(x, a, norm), training)
        y = tracing.record(self, "output", y)
        return (y, *alpha) if alpha else y

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
