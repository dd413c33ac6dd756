r"""A layer of a Transformer that sees no future, and may read an encoder.

$$
Z = \mathrm{LayerNorm}(X + \mathrm{Attention}(X)), \quad
C = \mathrm{LayerNorm}(Z + \mathrm{Attention}(Z, E)), \quad
Y = \mathrm{LayerNorm}(C + \mathrm{FFN}(C))
$$

without the second part where there is no encoder output E; or with the norms elsewhere,
see `residual`. Vaswani et al. 2017; Radford et al. 2018 without an encoder. Course
slides A, B, C, D.
"""

from keras import ops

from kerasseq import tracing
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_mask, check_numbers, check_shape
from kerasseq.transformer import caches, residual
from kerasseq.transformer.block import TransformerBlock, check_step_masks


@register
class TransformerDecoder(TransformerBlock):
    r"""Self-attention without future, attention to an encoder, feed-forward network.

    Takes what `keras_hub.layers.TransformerDecoder` takes, has its weights, and gives
    its results. Called with one sequence it never attends to an encoder: whether it
    does is settled when it is built. Padding changes no real position's result.

    Args:
        intermediate_dim: F, the width inside the feed-forward network; None if that is
            a layer of your own.
        num_heads: N, of each attention.
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
        sliding_window: A position sees itself and what is fewer than this many places
            back.
        parallel: Whether attention and feed-forward network read the same norm, side by
            side; not with an encoder.
        depth: Number of decoder layers in the stack, for DeepNorm.
        seed: Seed of dropout.
        use_query_key_value_bias: Whether the projections of queries, keys and values
            have biases; as `use_bias` if None.
        query_key_norm: Of each head of queries and keys, before positions apply:
            "layer", "rms", a layer of which copies are made, or None for no norm.
        output_initializer: Of the last kernel of each part, whose product is added to
            the inputs; as `kernel_initializer` says if None.
        **kwargs: As for any layer.

    Call arguments:
        decoder_sequence: X, `(B, T, D)`.
        encoder_sequence: E, `(B, S, E)`. May be left out where a complete
            `cross_attention_cache` stands for it.
        decoder_padding_mask: Boolean `(B, T)`, True where a position is real; the mask
            of Keras if None. With a cache, `(B, S)` for all its places; without it,
            what is in the cache counts as real.
        decoder_attention_mask: Boolean `(B, T, T)`, with a cache `(B, T, S)`, True
            where a query may look.
        encoder_padding_mask: Boolean `(B, S)`.
        encoder_attention_mask: Boolean `(B, T, S)`.
        self_attention_cache: Keys and values of steps before, from `make_cache`, or in
            the form of KerasHub, `(B, 2, S, N, K)`.
        self_attention_cache_update_index: Where those of X go in the cache. None uses
            the cache as it is.
        cross_attention_cache: Keys and values of E, from `project_memory`, or in the
            form of KerasHub. With an encoder, one cache needs the other.
        cross_attention_cache_update_index: Where those of E go in the cache; None if
            they are in it.
        use_causal_mask: Whether a position sees no future.
        training: Whether dropout is on.
        return_attention_scores: Whether to return the weights, too.
        mask: What Keras fills in, like `decoder_sequence_mask` and
            `encoder_sequence_mask`, used where there is no padding mask.

    Returns:
        `(B, T, D)`; then the weights of the self-attention and, if there is one, of the
        attention to the encoder, if asked for; then the caches, in the form they came.

    Raises:
        ValueError: If an argument is out of range, two contradict each other, or a
            cache or sequence does not fit.

    Examples:
        >>> layer = TransformerDecoder(11, num_heads=2, feed_forward="swiglu")
        >>> layer.build((None, None, 4))
        >>> y, cache = layer(
        ...     np.ones((3, 1, 4)),
        ...     self_attention_cache=layer.make_cache(batch=3, length=7),
        ...     self_attention_cache_update_index=0,
        ... )
        >>> keras.ops.shape(y), keras.ops.shape(cache["key"])
        ((3, 1, 4), (3, 7, 2, 2))
    """

    def _check_depth(self):
        checks.whole_number("depth", self.depth)

    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        shape, memory = decoder_sequence_shape, encoder_sequence_shape
        if memory is not None and self.parallel:
            raise ValueError(
                "parallel=True puts attention and feed-forward network side by side: "
                "it takes no encoder_sequence"
            )
        beta = self._start(shape)
        if self.placed == "deep":
            cross = memory is not None
            self.alpha, beta = residual.deepnorm_decoder(self.depth, cross)
        self._self_attention_layer = self._make_attention(
            "self_attention",
            shape,
            shape,
            seed=self._seeds[1],
            beta=beta,
            position=self.position,
            sliding_window=self.sliding_window,
        )
        self._self_attention_layer_norm = self._make_norm(
            "self_attention_layer_norm", shape
        )
        self._cross_attention_layer = None
        if memory is not None:
            check_shape("encoder_sequence", memory)
            self._memory_width = memory[-1]
            self._cross_attention_layer = self._make_attention(
                "cross_attention", shape, memory, seed=self._seeds[2], beta=beta
            )
            self._cross_attention_layer_norm = self._make_norm(
                "cross_attention_layer_norm", shape
            )
        self._feedforward_sublayer = self._make_feed_forward(shape, beta)
        if not self.parallel:
            self._feedforward_layer_norm = self._make_norm(
                "feedforward_layer_norm", shape
            )
        self.built = True

    def call(
        self,
        decoder_sequence,
        encoder_sequence=None,
        decoder_padding_mask=None,
        decoder_attention_mask=None,
        encoder_padding_mask=None,
        encoder_attention_mask=None,
        self_attention_cache=None,
        self_attention_cache_update_index=None,
        cross_attention_cache=None,
        cross_attention_cache_update_index=None,
        use_causal_mask=True,
        training=None,
        *,
        return_attention_scores=False,
        mask=None,
        decoder_sequence_mask=None,
        encoder_sequence_mask=None,
    ):
        self._check_sequences(encoder_sequence, cross_attention_cache)
        indices = self_attention_cache_update_index, cross_attention_cache_update_index
        self._check_caches(self_attention_cache, cross_attention_cache, *indices)
        options = {
            "return_attention_scores": return_attention_scores,
            "training": training,
        }
        x, norm = decoder_sequence, self._self_attention_layer_norm
        padding = decoder_padding_mask, masks.first_given(decoder_sequence_mask, mask)
        if self_attention_cache is None:  # else a mask is of the places of the cache
            real = masks.first_given(*padding)
            check_step_masks(x, real, decoder_attention_mask, "decoder_")
            x = masks.zero_masked(x, real)
        if cross_attention_cache is None and encoder_sequence is not None:
            axes, sizes = ("batch", "time"), encoder_sequence.shape[:2]
            check_mask("encoder_padding_mask", encoder_padding_mask, axes, sizes)
        n = self._pre_sublayer(x, norm)
        a, *found = caches.attend(
            "self",
            self._self_attention_layer,
            (n, n),
            padding,
            (self_attention_cache, indices[0]),
            attention_mask=decoder_attention_mask,
            use_causal_mask=use_causal_mask,
            **options,
        )
        a = self._drop(a, training)
        if self.parallel:
            a = a + self._fed_forward(n, training)
        x = self._post_sublayer(x, a, norm)
        if self._cross_attention_layer is not None:
            norm = self._cross_attention_layer_norm
            n = self._pre_sublayer(x, norm)
            a, *more = caches.attend(
                "cross",
                self._cross_attention_layer,
                (n, encoder_sequence),
                (encoder_padding_mask, encoder_sequence_mask),
                (cross_attention_cache, indices[1]),
                attention_mask=encoder_attention_mask,
                **options,
            )
            x = self._post_sublayer(x, self._drop(a, training), norm)
            found = [each for pair in zip(found, more, strict=True) for each in pair]
        if not self.parallel:
            x = self._feed_forward(x, training)
        x = tracing.record(self, "output", x)
        return (x, *found) if found else x

    def _check_sequences(self, memory, cache):
        """Raise unless there is an encoder where the block attends to one."""
        if self._cross_attention_layer is None:
            if memory is None and cache is None:
                return
            raise ValueError(
                "this block was built without attention to an encoder, and is now "
                "given encoder_sequence or its cache: give encoder_sequence from the "
                "first call on"
            )
        if memory is None and cache is None:
            raise ValueError(
                "this block attends to an encoder: it needs encoder_sequence, or a "
                "cross_attention_cache made of it by project_memory"
            )
        if memory is not None:
            check_numbers("encoder_sequence", memory)
        if memory is not None and memory.shape[-1] != self._memory_width:
            raise ValueError(
                f"encoder_sequence has width {memory.shape[-1]}, but the block was "
                f"built for {self._memory_width}"
            )

    def _check_caches(self, cache, memory_cache, index, memory_index):
        """Raise unless both caches are there, or none, and what goes into them."""
        cross = self._cross_attention_layer is not None
        if cross and (cache is None) != (memory_cache is None):
            has, lacks = (
                ("self", "cross") if memory_cache is None else ("cross", "self")
            )
            raise ValueError(
                f"there is a {has}_attention_cache, but no {lacks}_attention_cache: "
                "give both or none"
            )
        for kind, one, at in (
            ("self", cache, index),
            ("cross", memory_cache, memory_index),
        ):
            if one is None and at is not None:
                raise ValueError(
                    f"{kind}_attention_cache_update_index={at} says where in a cache, "
                    f"but there is no {kind}_attention_cache"
                )

    def make_cache(self, batch, length):
        """Room for the keys and values of a text, to be filled step by step.

        Args:
            batch: B.
            length: S, the most places there can be.

        Returns:
            What `self_attention_cache` takes, all zeros.
        """
        self._check_built()
        return self._self_attention_layer.make_cache(batch, length)

    def project_memory(self, encoder_sequence):
        """The keys and values of an encoder's output, made once for all steps.

        Args:
            encoder_sequence: E, `(B, S, E)`.

        Returns:
            What `cross_attention_cache` takes.
        """
        self._check_built()
        E = ops.cast(encoder_sequence, self.compute_dtype)
        self._check_sequences(E, None)
        return self._cross_attention_layer.project_memory(E)

    def _check_built(self):
        if not self.built:
            raise ValueError(f"{self.name} has no weights yet: call or build it before")

    def compute_output_shape(self, decoder_sequence_shape, encoder_sequence_shape=None):
        return decoder_sequence_shape
