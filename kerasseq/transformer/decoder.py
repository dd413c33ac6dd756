r"""Decoder block of a Transformer, with or without cross-attention to an encoder.

$$
Z = \mathrm{LayerNorm}(X + \mathrm{Attention}(X)), \quad
C = \mathrm{LayerNorm}(Z + \mathrm{Attention}(Z, E)), \quad
Y = \mathrm{LayerNorm}(C + \mathrm{FFN}(C))
$$

without the second sublayer if there is no encoder output E; or with norms in another
place, see `residual`. Vaswani et al. 2017; without E Radford et al. 2018. Slides A–D.
"""

from typing import TypeAlias

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.attention import cache as caches
from kerasseq.core import checks, masks
from kerasseq.core.carried_state import Hidden, carries_state
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.serialization import register
from kerasseq.core.shapes import (
    as_floats,
    check_mask,
    check_numbers,
    check_sequence,
    check_shape,
)
from kerasseq.core.types import Nested, Shape, Tensor
from kerasseq.transformer import mixers, residual
from kerasseq.transformer.block import (
    TransformerBlock,
    check_self_attention_masks,
    one_output,
)
from kerasseq.transformer.feed_forward import NONE

States: TypeAlias = dict[str, Nested]  # of "attention" and "feed_forward"


@register
class TransformerDecoder(TransformerBlock):
    r"""Causal self-attention, cross-attention to an encoder, feed-forward network.

    Equivalent to `keras_hub.layers.TransformerDecoder`, with the same weights and
    results. Built with one input it has no cross-attention. Padding does not change the
    results of real tokens.

    Args:
        intermediate_dim: F, the width of the hidden layer of the feed-forward network;
            None if `feed_forward` is a layer or "none".
        num_heads: N, number of heads of each attention.
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
        parallel: Whether attention and feed-forward network have the same input, in
            parallel; not with an encoder.
        depth: Number of decoder layers in the stack, for DeepNorm.
        seed: Seed of dropout.
        use_query_key_value_bias: Whether the query, key and value projections have
            biases; `use_bias` if None. "query_value": not the key.
        query_key_norm: Norm of each query head and key head, before the position
            encoding: "layer", "rms", a layer of which copies are made, or None.
        output_initializer: Initializer of the last kernel of each sublayer;
            `kernel_initializer` if None.
        attention: What reads the sequence: "multi_head", "blockwise", "longformer",
            "adaptive_span", or in their place "linear_attention", "gla", "retention",
            "delta_net", "mlstm", "rwkv7", "min_gru", "min_lstm", "gru", "lstm",
            "slstm", "s4d", "mamba", "rwkv4", or a layer that keeps the shape, which is
            copied. Arguments of heads apply to names that have heads.
        max_length: Length of the longest text, for "adaptive_span".
        max_global_tokens: The most global tokens of a text, for "longformer".
        residual: Whether a sublayer is added to its input.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        decoder_sequence: X, `(B, T, D)`.
        encoder_sequence: E, `(B, S, D_E)`. Optional with a complete
            `cross_attention_cache`.
        decoder_padding_mask: Boolean `(B, T)`, True at real tokens; Keras' mask if
            None. With a cache, `(B, S)` for all its tokens; if it is not given, earlier
            tokens count as real.
        decoder_attention_mask: Boolean `(B, T, T)`, with a cache `(B, T, S)`, True
            where a query may attend.
        encoder_padding_mask: Boolean `(B, S)`.
        encoder_attention_mask: Boolean `(B, T, S)`.
        self_attention_cache: Keys and values of earlier tokens, from `make_cache`, or
            in KerasHub's format, `(B, 2, S, N, K)`.
        self_attention_cache_update_index: Where those of X go in the cache. If None,
            the cache is used unchanged.
        cross_attention_cache: Keys and values of E, from `project_memory`, or in
            KerasHub's format. With an encoder, both caches or none must be given.
        cross_attention_cache_update_index: Where those of E go in the cache; None if
            they are in it.
        use_causal_mask: Whether a query attends to its own and earlier positions only.
        training: Whether to apply dropout.
        return_attention_scores: Whether to return the attention weights as well.
        mask: Set by Keras, as are `decoder_sequence_mask` and `encoder_sequence_mask`,
            and used if there is no padding mask.
        global_mask: Boolean `(B, T)`, True at global tokens of a `LongformerAttention`
            with `max_global_tokens`, or None.

    Returns:
        `(B, T, D)`; then the weights of self-attention and cross-attention, if asked
        for; then the updated caches, in the format they were given in.

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

    causal = True
    shares_value: bool = False  # whether it hands on the values of the first block

    def build(
        self, decoder_sequence_shape: Shape, encoder_sequence_shape: Shape | None = None
    ) -> None:
        shape, memory_shape = decoder_sequence_shape, encoder_sequence_shape
        cross = memory_shape is not None
        if cross and self.parallel:
            raise ValueError(
                "encoder_sequence must not be given with parallel=True, received shape "
                f"{tuple(memory_shape)}. Leave one of them out"
            )
        alpha, beta = 1.0, 1.0
        if self._placement == "deep":
            alpha, beta = residual.deepnorm_decoder(self.depth, cross)
        self._build_self_attention(shape, alpha, beta)
        self._cross_attention_layer = None
        if cross:
            check_shape("encoder_sequence", memory_shape)
            self._memory_width = memory_shape[-1]
            self._cross_attention_layer = self._make_attention(
                "cross_attention", shape, memory_shape, seed=self._seeds[2], beta=beta
            )
            self._cross_attention_layer_norm = self._build_norm(
                "cross_attention_layer_norm", shape
            )
        self._feedforward_sublayer = self._build_feed_forward(shape, beta)
        if not self.parallel and self.feed_forward != NONE:
            self._feedforward_layer_norm = self._build_norm(
                "feedforward_layer_norm", shape
            )
        self.built = True

    @one_output
    def call(
        self,
        decoder_sequence: Tensor,
        encoder_sequence: Tensor | None = None,
        decoder_padding_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        self_attention_cache: caches.Cache | Tensor | None = None,
        self_attention_cache_update_index: int | Tensor | None = None,
        cross_attention_cache: caches.Cache | Tensor | None = None,
        cross_attention_cache_update_index: int | Tensor | None = None,
        use_causal_mask: bool = True,
        training: bool | None = None,
        *,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        decoder_sequence_mask: Tensor | None = None,
        encoder_sequence_mask: Tensor | None = None,
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        self._check_encoder(encoder_sequence, cross_attention_cache)
        if self_attention_cache is not None and (
            self.carries_states or not self._attends
        ):
            raise ValueError(
                f"self_attention_cache is for blocks that attend, received a block "
                f"with {self._self_attention_layer.name}. Call advance with its states"
            )
        own = self_attention_cache, self_attention_cache_update_index
        cross = cross_attention_cache, cross_attention_cache_update_index
        self._check_caches(*own, *cross)
        options = {
            "return_attention_scores": return_attention_scores,
            "training": training,
        }
        x = decoder_sequence
        keras_mask = masks.first_given(decoder_sequence_mask, mask)
        if self_attention_cache is None:  # with a cache, masks cover its tokens
            padding_mask = masks.first_given(decoder_padding_mask, keras_mask)
            check_self_attention_masks(
                x, padding_mask, decoder_attention_mask, "decoder_"
            )
            x = masks.zero_masked(x, padding_mask)
        x = as_floats("decoder_sequence", x, self.compute_dtype)
        x = tracing.record(self, "input", x)
        norm, name = self._self_attention_layer_norm, "self_attention"
        n = self._pre_sublayer(x, norm, name)
        real = masks.first_given(decoder_padding_mask, keras_mask)
        chosen = self._global_options(global_mask)
        if self._attends:
            a, *results = self._attend_to_itself(
                n,
                (decoder_padding_mask, keras_mask),
                *own,
                attention_mask=decoder_attention_mask,
                use_causal_mask=use_causal_mask,
                **chosen,
                **options,
            )
        else:
            self._check_no_scores(
                decoder_attention_mask=decoder_attention_mask,
                return_attention_scores=return_attention_scores,
            )
            a, results = mixers.run(self._self_attention_layer, n, real), []
        a = self._drop(a, training)
        if self.parallel:
            a = a + self._feed_forward_and_dropout(n, training, real)
        x = self._post_sublayer(x, a, norm, name)
        if self._cross_attention_layer is not None:
            norm, name = self._cross_attention_layer_norm, "cross_attention"
            a, *more = self._attend_to_encoder(
                self._pre_sublayer(x, norm, name),
                encoder_sequence,
                (encoder_padding_mask, encoder_sequence_mask),
                *cross,
                attention_mask=encoder_attention_mask,
                **options,
            )
            x = self._post_sublayer(x, self._drop(a, training), norm, name)
            results = [y for pair in zip(results, more, strict=True) for y in pair]
        if not self.parallel:
            x = self._feed_forward_branch(x, training, real)
        x = tracing.record(self, "output", x)
        return (x, *results) if results else x

    @property
    def state_carriers(self) -> dict[str, keras.Layer]:
        """The sublayers that carry states, by their key in the states of `advance`."""
        layers = {
            "attention": self._self_attention_layer,
            "feed_forward": self._feedforward_sublayer,
        }
        return {
            key: layer
            for key, layer in layers.items()
            if layer is not None and carries_state(layer)
        }

    @property
    def carries_states(self) -> bool:
        """Whether a sublayer carries states, so that `advance` continues from them."""
        return bool(self.state_carriers)

    @property
    def cache_limit(self) -> int | None:
        """The longest text that the block can continue; None if there is no limit.

        It is 0 with a layer that carries no states. See also
        `RotaryEmbedding.constant_length`.
        """
        layer = self._self_attention_layer
        if not self._attends and not carries_state(layer):
            return 0
        return getattr(getattr(layer, "position", None), "constant_length", None)

    def advance(
        self,
        x: Tensor,
        states: States,
        mask: Tensor | None = None,
        *,
        index: int | Tensor | None = None,
    ) -> tuple[Tensor, States]:
        """Continues a sequence, where a sublayer carries states.

        Args:
            x: The next steps, `(B, T, D)`.
            states: From `make_cache`, or as returned for the steps before.
            mask: Boolean `(B, T)`, False at padding, which changes no state.
            index: If the block attends: where the keys of x go in the cache.

        Returns:
            The outputs `(B, T, D)`, and the states after x.

        Raises:
            TypeError: If the states are not a dictionary as of `make_cache`.
            ValueError: If there is an encoder, or the states are those of another
                layer.
        """
        self._check_states(x, states, mask, index)
        return MethodLayer(self, "_advance")(x, hidden=Hidden(states, mask, index))

    def _check_states(self, x, states, mask, index):
        """Raises unless the block can advance from these states."""
        self._check_built()
        check_sequence("x", x, mask if index is None else None)
        keys = {"attention", "feed_forward"}
        if not isinstance(states, dict) or set(states) != keys:
            raise TypeError(
                'states must be a dictionary of "attention" and "feed_forward", '
                f"received {checks.short(states)}. Pass those of make_cache"
            )
        if self._cross_attention_layer is not None:
            raise ValueError(
                f"{self.name} has cross-attention: call it on the whole sequence"
            )

    def _advance(self, x, hidden):
        mask, index = hidden.mask, hidden.index
        x = as_floats("x", x, self.compute_dtype)
        x = tracing.record(self, "input", x)
        n = self._pre_sublayer(x, self._self_attention_layer_norm, "self_attention")
        attention, states = self._self_attention_layer, dict(hidden.states)
        if self._attends:
            options = {"use_causal_mask": True, "return_attention_scores": False}
            a, states["attention"] = self._attend_to_itself(
                n, (None, mask), states["attention"], index, **options
            )
        else:
            a, states["attention"] = attention.advance(n, states["attention"], mask)
        x = self._advance_rest(x, n, a, states, mask)
        return tracing.record(self, "output", x), states

    def _advance_rest(self, x, n, a, states, mask):
        """Returns the output after attention a of n; changes the other states."""
        norm, name = self._self_attention_layer_norm, "self_attention"
        if self.parallel:
            f, states["feed_forward"] = self._advance_feed_forward(n, states, mask)
            return self._post_sublayer(x, a + f, norm, name)
        x = self._post_sublayer(x, a, norm, name)
        if self._feedforward_sublayer is not None:
            norm, name = self._feedforward_layer_norm, "feed_forward"
            n = self._pre_sublayer(x, norm, name)
            f, states["feed_forward"] = self._advance_feed_forward(n, states, mask)
            x = self._post_sublayer(x, f, norm, name)
        return x

    def _advance_feed_forward(self, n, states, mask):
        layer = self._feedforward_sublayer
        if carries_state(layer):
            return layer.advance(n, states["feed_forward"], mask)
        return layer(n), []

    def _attend_to_itself(self, n, padding_masks, cache, index, **options):
        """Attends to itself: a list of output, weights and cache, as asked for."""
        attention = self._self_attention_layer
        if cache is None:
            mask = masks.first_given(*padding_masks)
            options |= {"query_mask": mask, "value_mask": mask}
        else:
            names = "self_attention_cache", "decoder_padding_mask"
            options |= caches.call_options(
                attention, names, cache, index, padding_masks, n.shape[0]
            )
        return caches.with_cache_format(attention(n, n, **options), cache)

    def _attend_to_encoder(self, n, memory, padding_masks, cache, index, **options):
        """Attends to the encoder: a list of output, weights and cache, as asked for."""
        attention = self._cross_attention_layer
        if cache is None:
            _check_memory_mask(padding_masks[0], memory)
            options["value_mask"] = masks.first_given(*padding_masks)
        else:
            if index is None:  # Keras' mask covers the whole cache as well
                padding_masks = masks.first_given(*padding_masks), None
            names = "cross_attention_cache", "encoder_padding_mask"
            options |= caches.call_options(
                attention, names, cache, index, padding_masks, n.shape[0]
            )
        memory = n if memory is None else memory  # not used with a complete cache
        return caches.with_cache_format(attention(n, memory, **options), cache)

    def _check_encoder(self, memory, cache):
        """Raises unless there is an encoder output or cache for cross-attention."""
        if self._cross_attention_layer is None:
            if memory is None and cache is None:
                return
            raise ValueError(
                f"{self.name} was built without cross-attention, received "
                "encoder_sequence or its cache. Pass encoder_sequence in the first call"
            )
        if memory is None and cache is None:
            raise ValueError(
                f"{self.name} has cross-attention and needs encoder_sequence, or a "
                "cross_attention_cache from project_memory, received neither. Pass one"
            )
        if memory is None:
            return
        check_numbers("encoder_sequence", memory)
        if memory.shape[-1] != self._memory_width:
            raise ValueError(
                f"encoder_sequence must have the {self._memory_width} features that "
                f"the layer was built for, received shape {tuple(memory.shape)}. "
                "Create another layer"
            )

    def _check_masks(self, x, encoder_sequence=None, **masks):
        super()._check_masks(x, **masks)
        self._check_encoder(encoder_sequence, None)
        if encoder_sequence is not None:
            _check_memory_mask(masks.get("encoder_padding_mask"), encoder_sequence)

    def _check_caches(self, cache, index, memory_cache, memory_index):
        """Raises unless both caches are given or none, and no index without cache."""
        cross = self._cross_attention_layer is not None
        if cross and (cache is None) != (memory_cache is None):
            kinds = ("self", "cross")
            given, missing = kinds if memory_cache is None else reversed(kinds)
            raise ValueError(
                "self_attention_cache and cross_attention_cache must both be given or "
                f"both be None, received {given}_attention_cache only. Pass "
                f"{missing}_attention_cache as well"
            )
        for name, one, at in (
            ("self_attention_cache", cache, index),
            ("cross_attention_cache", memory_cache, memory_index),
        ):
            if one is None and at is not None:
                raise ValueError(
                    f"{name}_update_index must be None without {name}, received {at}. "
                    f"Pass {name} as well"
                )

    def make_cache(self, batch: int, length: int) -> caches.Cache | States:
        """Creates an empty cache of the self-attention, or the states before a text.

        Args:
            batch: B.
            length: S, the maximum number of tokens. States do not depend on it.

        Returns:
            Zeros, for `self_attention_cache`. If a sublayer carries states, these are
            for `advance`: "attention", a list of states or a cache, and "feed_forward",
            a list of states.
        """
        self._check_built()
        own = mixers.start(self._self_attention_layer, batch, length)
        if not self.carries_states:
            return own
        after = mixers.start(self._feedforward_sublayer, batch, length)
        return {"attention": own, "feed_forward": after}

    def project_memory(self, encoder_sequence: Tensor) -> caches.Cache:
        """Computes the keys and values of an encoder's output, once for all steps.

        Args:
            encoder_sequence: E, `(B, S, D_E)`.

        Returns:
            The cache, for `cross_attention_cache`.
        """
        self._check_built()
        E = ops.cast(encoder_sequence, self.compute_dtype)
        self._check_encoder(E, None)
        return self._cross_attention_layer.project_memory(E)

    def _check_built(self):
        if not self.built:
            raise ValueError(
                f"{self.name} must be built before it can make a cache, and has no "
                "weights yet. Call it or its build method"
            )

    def compute_output_shape(
        self, decoder_sequence_shape: Shape, encoder_sequence_shape: Shape | None = None
    ) -> Shape:
        return decoder_sequence_shape


def _check_memory_mask(mask, memory):
    check_mask("encoder_padding_mask", mask, ("batch", "time"), memory.shape[:2])
