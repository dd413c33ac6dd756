"""The layers of a GPT, and the forward pass through them."""

import dataclasses
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Nested, Tensor
from kerasseq.models.gpt import segments
from kerasseq.positions import by_name
from kerasseq.transformer import mixers, norms
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.feed_forward import NONE
from kerasseq.transformer.rwkv7_block import block_class
from kerasseq.transformer.segment_block import SegmentBlock


@dataclasses.dataclass
class Stack:
    """The layers of a GPT, and the forward pass through them.

    Attributes:
        embedding: Token embedding, a `keras.layers.ReversibleEmbedding`, which also
            computes the logits.
        embedding_scale: Factor of the token embeddings, or None.
        position: Layer of the position embeddings, or None.
        embedding_norm: Norm of the embeddings, or None.
        dropout: Dropout of the embeddings.
        blocks: `TransformerDecoder`s, in order.
        final_norm: Norm after the last block, or None.
        memory_length: M, tokens in memory, or None.
    """

    embedding: Any
    embedding_scale: float | None
    position: Any
    embedding_norm: Any
    dropout: Any
    blocks: list[TransformerDecoder]
    final_norm: Any
    memory_length: int | None = None

    def hidden_states(
        self, x: Tensor, caches: Nested = None, index: Tensor = 0, mask: Tensor = None
    ) -> tuple[Tensor, list[Nested]]:
        """Hidden states `(B, T, D)` of token embeddings, and the updated caches.

        Args:
            x: Token embeddings `(B, T, D)`.
            caches: For each block a cache of keys and values, or the states that it
                carries; or None.
            index: With caches, the position of the first token: an integer, or one per
                row `(B,)`.
            mask: Boolean `(B, T)`, False at padding, or None. With caches, keys of
                padding are written as well, to be overwritten.
        """
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.position is not None:
            padding = {} if mask is None or caches is not None else {"mask": mask}
            x = x + self.position(x, **_position_arguments(index), **padding)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x, updated, first = self.dropout(x), [], None
        window = None if caches is None else self._memory_window(x, caches, index)
        for n, block in enumerate(self.blocks):
            shared = {"first_value": first} if block.shares_value else {}
            if caches is None:
                x = block(x, decoder_padding_mask=mask, **shared)
            elif block.carries_states:
                x, cache = block.advance(x, caches[n], mask, index=index, **shared)
                updated.append(cache)
            else:
                x, cache = block(
                    x,
                    decoder_attention_mask=window,
                    self_attention_cache=caches[n],
                    self_attention_cache_update_index=index,
                )
                updated.append(cache)
            if shared:
                x, first = x
        return x if self.final_norm is None else self.final_norm(x), updated

    def _memory_window(self, x, caches, index):
        """Where a token attends to itself and the M before it; None without memory."""
        if self.memory_length is None:
            return None
        sizes = ops.shape(x)[1], ops.shape(caches[0]["key"])[1]
        return masks.window(*sizes, self.memory_length + 1, index)

    def advance(
        self,
        x: Tensor,
        states: list[Tensor],
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Hidden states of a segment after a memory, and the memory after both.

        Args:
            x: Token embeddings `(B, T, D)`.
            states: The memory, see `segments`.
            mask: Boolean `(B, T)`, False at padding, or None.
            training: Whether to apply dropout.
        """
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x, inputs = self.dropout(x, training=training), []
        real = segments.real_steps(states, x, mask)
        for block, memory in zip(self.blocks, states, strict=False):
            inputs.append(x)
            x = block.read_after(x, memory, real, training)
        x = x if self.final_norm is None else self.final_norm(x)
        return x, segments.next_states(states, inputs, mask)

    def logits(self, h: Tensor) -> Tensor:
        """Logits `(B, T, V)` of hidden states `(B, T, D)`, in float32."""
        return ops.cast(self.embedding(h, reverse=True), "float32")

    def next_hidden_state(self, ids: Tensor, index: Tensor) -> Tensor:
        """Hidden states `(B, 1, D)` at `index` `(B,)` of ids `(B, T)`, uncached."""
        mask = ops.arange(ops.shape(ids)[1]) <= index[:, None]
        h, _ = self.hidden_states(self.embedding(ids), mask=mask)
        return kernels.take_steps(h, index[:, None])

    def make_caches(self, batch: int, length: int) -> list[Nested]:
        """Empty caches for `length` tokens."""
        return [block.make_cache(batch, length) for block in self.blocks]

    @property
    def cache_limit(self) -> int | None:
        """The longest text that may be continued from caches; None if without limit.

        See `TransformerDecoder.cache_limit`.
        """
        limits = [block.cache_limit for block in self.blocks]
        return min((n for n in limits if n is not None), default=None)


def _position_arguments(index: Tensor) -> dict[str, Tensor]:
    """The index as arguments of a position layer."""
    if len(getattr(index, "shape", ())) == 1:
        return {"positions": index[:, None]}
    return {"start_index": index}


def make_stack(vocabulary_size: int, config: Any) -> Stack:
    """Makes the layers of a GPT from its arguments, as attributes of `config`."""
    c, D, L = config, config.hidden_dim, config.num_layers
    # Each of the 2 L outputs that are added to the residual stream starts smaller.
    output_stddev = 0.02 / (2 * L) ** 0.5
    positions = by_name.make_decoder_positions(c.position, L, D)
    attentions = mixers.for_each_block("attention", c.attention, L)
    of_pairs = [isinstance(a, str) and a in mixers.OF_PAIRS for a in attentions]
    no_heads = not any(of_pairs)  # then the blocks say what is wrong
    blocks = []
    for n, f in enumerate(mixers.for_each_block("feed_forward", c.feed_forward, L)):
        named = f != NONE and not isinstance(f, keras.Layer)
        heads = {
            "position": positions[n],
            "num_key_value_heads": c.num_key_value_heads,
            "sliding_window": c.sliding_window,
            "use_query_key_value_bias": c.use_query_key_value_bias,
            "query_key_norm": c.query_key_norm,
        }
        kind = SegmentBlock if c.memory_length else block_class(attentions[n])
        block = kind(
            (c.intermediate_dim or 4 * D) if named else None,
            c.num_heads,
            c.dropout,
            layer_norm_epsilon=c.layer_norm_epsilon,
            norm=c.norm,
            norm_placement=c.norm_placement,
            feed_forward=f,
            kernel_initializer=normal(),
            output_initializer=(
                normal(output_stddev) if c.norm_placement == "pre" else None
            ),
            use_bias=c.use_bias,
            head_dim=c.head_dim,
            parallel=c.parallel,
            depth=L if c.norm_placement == "deep" else None,
            seed=drawn_seed(c.dropout),
            attention=attentions[n],
            max_length=c.max_sequence_length,
            name=f"block_{n}",
            **(heads if no_heads or of_pairs[n] else {}),
        )
        blocks.append(block)

    def norm(name: str) -> keras.Layer:
        options = {"epsilon": c.layer_norm_epsilon, "use_bias": c.use_bias}
        return norms.make_norm(c.norm, **options, name=name)

    return Stack(
        embedding=keras.layers.ReversibleEmbedding(
            vocabulary_size,
            D,
            tie_weights=c.tie_embeddings or c.head is None,
            embeddings_initializer=normal(),
            logit_soft_cap=c.logit_soft_cap,
            name="embedding",
        ),
        embedding_scale=c.embedding_scale,
        position=by_name.make_embedding_position(
            c.position, c.max_sequence_length, initializer=normal(0.01)
        ),
        embedding_norm=norm("embedding_norm") if c.embedding_norm else None,
        dropout=keras.layers.Dropout(
            c.dropout, seed=drawn_seed(c.dropout), name="dropout"
        ),
        blocks=blocks,
        final_norm=norm("final_norm") if c.norm_placement == "pre" else None,
        memory_length=c.memory_length,
    )


def normal(stddev: float = 0.02) -> keras.initializers.Initializer:
    """GPT-2's initializer, a new one for each weight."""
    return keras.initializers.RandomNormal(stddev=stddev)
