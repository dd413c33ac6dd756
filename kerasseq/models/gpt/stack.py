"""The layers of a GPT, and the forward pass through them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.attention.cache import is_rolling
from kerasseq.core import masks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.carried_state import carries_state
from kerasseq.core.types import Nested, Tensor
from kerasseq.models.gpt import segments
from kerasseq.positions import by_name
from kerasseq.published.architectures import Architecture
from kerasseq.tasks.loss_chunks import TokenHead
from kerasseq.transformer import mixers, norms
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.experts import MixtureOfExperts
from kerasseq.transformer.feed_forward import widths_of_blocks
from kerasseq.transformer.global_tokens import GlobalTokens, most
from kerasseq.transformer.rwkv7_block import block_class
from kerasseq.transformer.segment_block import SegmentBlock

KINDS = ("decoder", "prefix_decoder")  # of architectures
BUILDERS = {"multi_head": "GPT", "mamba": "Mamba", "rwkv4": "RWKV", "rwkv7": "RWKV"}


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
        global_tokens: Finds the global tokens, or None.
        memory_length: M, tokens in memory, or None.
    """

    embedding: Any
    embedding_scale: float | None
    position: Any
    embedding_norm: Any
    dropout: Any
    blocks: list[TransformerDecoder]
    final_norm: Any
    global_tokens: GlobalTokens | None = None

    def global_mask(
        self, ids: Tensor, index: Tensor = 0, mask: Tensor | None = None
    ) -> Tensor | None:
        """Returns a mask `(B, T)`, True at global tokens; None in a model without them.

        Args:
            ids: `(B, T)`.
            index: As for `hidden_states`.
            mask: As for `hidden_states`.
        """
        if self.global_tokens is None:
            return None
        real = ops.ones_like(ids, dtype="bool") if mask is None else mask
        return self.global_tokens(real, ids=ids, earlier=index)

    memory_length: int | None = None

    def hidden_states(
        self,
        x: Tensor,
        caches: Nested = None,
        index: Tensor = 0,
        mask: Tensor = None,
        global_mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Nested]]:
        """Returns hidden states `(B, T, D)` of token embeddings, and the new caches.

        Args:
            x: Token embeddings `(B, T, D)`.
            caches: For each block a cache of keys and values, or the states that it
                carries; or None.
            index: With caches, the position of the first token: an integer, or one per
                row `(B,)`.
            mask: Boolean `(B, T)`, False at padding, or None. With caches, keys of
                padding are written as well, to be overwritten.
            global_mask: From `global_mask`.
        """
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.position is not None:
            padding = {} if mask is None or caches is not None else {"mask": mask}
            x = x + self.position(x, **_position_arguments(index), **padding)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x, updated, first = self.dropout(x), [], None
        window = self._memory_window(x, caches, index)
        for n, block in enumerate(self.blocks):
            options = {"first_value": first} if block.shares_value else {**window}
            if block.has_global_tokens and global_mask is not None:
                options["global_mask"] = global_mask
            if caches is None:
                x = block(x, decoder_padding_mask=mask, **options)
            else:
                x, cache = _continue(block, x, caches[n], index, mask, options)
                updated.append(cache)
            if block.shares_value:
                x, first = x
        return x if self.final_norm is None else self.final_norm(x), updated

    def _memory_window(self, x, caches, index):
        """Returns a mask: a token attends to itself and the M before it, if any."""
        if self.memory_length is None or caches is None:
            return {}
        sizes = ops.shape(x)[1], ops.shape(caches[0]["key"])[1]
        window = masks.window(*sizes, self.memory_length + 1, index)
        return {"decoder_attention_mask": window}

    def advance(
        self,
        x: Tensor,
        states: list[Tensor],
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Computes hidden states of a segment after a memory, and the next memory.

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
        """Computes logits `(B, T, V)` of hidden states `(B, T, D)`, in float32."""
        return ops.cast(self.embedding(h, reverse=True), "float32")

    def token_head(self, h: Tensor) -> TokenHead:
        """Returns the logits of symbolic hidden states, for `loss_chunk_size`."""
        return TokenHead(lambda: h, [self.embedding], self.logits)

    def next_hidden_state(self, ids: Tensor, index: Tensor) -> Tensor:
        """Returns hidden states `(B, 1, D)` at `index` `(B,)` of ids `(B, T)`."""
        mask = ops.arange(ops.shape(ids)[1]) <= index[:, None]
        return kernels.take_steps(self.of_padded(ids, mask), index[:, None])

    def of_padded(
        self, ids: Tensor, mask: Tensor, global_mask: Tensor | None = None
    ) -> Tensor:
        """Returns hidden states `(B, T, D)` of ids `(B, T)`; padding loads no expert.

        Args:
            ids: `(B, T)`.
            mask: Boolean `(B, T)`, False at padding.
            global_mask: The global tokens; those of the ids if None.
        """
        if global_mask is None:
            global_mask = self.global_mask(ids, mask=mask)
        x = self.embedding(ids)
        return self.hidden_states(x, mask=mask, global_mask=global_mask)[0]

    @property
    def has_experts(self) -> bool:
        """Whether a block has experts, whose losses count the tokens."""
        networks = (block.feed_forward for block in self.blocks)
        return any(isinstance(each, MixtureOfExperts) for each in networks)

    def make_caches(self, batch: int, length: int) -> list[Nested]:
        """Returns empty caches for `length` tokens."""
        return [block.make_cache(batch, length) for block in self.blocks]

    @property
    def caches_follow_weights(self) -> bool:
        """Whether the size of a cache depends on weights."""
        return any(block.cache_follows_weights for block in self.blocks)

    @property
    def cache_limit(self) -> int | None:
        """The longest text that may be continued from caches; None if without limit.

        See `TransformerDecoder.cache_limit`.
        """
        limits = [block.cache_limit for block in self.blocks]
        return min((n for n in limits if n is not None), default=None)


def _continue(block, x, cache, index, mask, options):
    """Returns the output of a block and its cache, after x `(B, T, D)`."""
    if block.carries_states:
        return block.advance(x, cache, mask, index=index, **options)
    return block(
        x,
        self_attention_cache=cache,
        self_attention_cache_update_index=index,
        mask=mask if is_rolling(cache) else None,
        **options,
    )


def _position_arguments(index: Tensor) -> dict[str, Tensor]:
    """Returns the index as arguments of a position layer."""
    if len(getattr(index, "shape", ())) == 1:
        return {"positions": index[:, None]}
    return {"start_index": index}


def check_row(row: Architecture, name: str, attention: Sequence[str]) -> None:
    """Raises unless a class builds a published architecture.

    Args:
        row: The architecture.
        name: The name of the class.
        attention: The kinds of attention that it builds.

    Raises:
        ValueError: If it is no decoder, or has another kind.
    """
    if row.kind not in KINDS:
        raise ValueError(
            f"{row.title} is of kind={row.kind!r}; {name} builds {' and '.join(KINDS)}"
        )
    if row.attention not in attention:
        raise ValueError(
            f"{row.title} has attention={row.attention!r}; {name} builds "
            + " and ".join(map(repr, attention))
            + f". Use models.{BUILDERS[row.attention]}"
        )


def options_of(row: Architecture, fields: Sequence[str]) -> dict[str, Any]:
    """Returns fields of a published architecture as arguments of a GPT.

    Args:
        row: The architecture.
        fields: Names of the fields that are arguments.
    """
    options = {name: getattr(row, name) for name in fields}
    if row.num_experts is not None:
        options["intermediate_dim"] = None
        options["feed_forward"] = MixtureOfExperts(
            row.num_experts,
            row.intermediate_dim,
            top_k=row.top_k,
            feed_forward=row.feed_forward,
            norm_topk_prob=row.top_k > 1,
            use_bias=row.use_bias,
            name="feed_forward",
        )
    return options


def make_stack(vocabulary_size: int, config: Any) -> Stack:
    """Makes the layers of a GPT from its arguments, as attributes of `config`."""
    c, D, L = config, config.hidden_dim, config.num_layers
    # Each of the 2 L outputs that are added to the residual stream starts smaller.
    output_stddev = 0.02 / (2 * L) ** 0.5
    positions = by_name.make_decoder_positions(c.position, L, D)
    attentions = mixers.for_each_block("attention", c.attention, L)
    of_pairs = [isinstance(a, str) and a in mixers.OF_PAIRS for a in attentions]
    no_heads = not any(of_pairs)  # then the blocks say what is wrong
    networks = mixers.for_each_block("feed_forward", c.feed_forward, L)
    widths = widths_of_blocks(networks, c.intermediate_dim, 4 * D)
    blocks = []
    for n, f in enumerate(networks):
        heads = {
            "position": positions[n],
            "num_key_value_heads": c.num_key_value_heads,
            "sliding_window": c.sliding_window,
            "use_query_key_value_bias": c.use_query_key_value_bias,
            "query_key_norm": c.query_key_norm,
        }
        kind = SegmentBlock if c.memory_length else block_class(attentions[n])
        block = kind(
            widths[n],
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
            residual=c.residual,
            depth=L if c.norm_placement == "deep" else None,
            seed=drawn_seed(c.dropout),
            attention=attentions[n],
            max_length=c.max_sequence_length,
            max_global_tokens=(
                most(c.global_tokens, c.max_sequence_length)
                if attentions[n] == "longformer"
                else None
            ),
            name=f"block_{n}",
            **(heads if no_heads or of_pairs[n] else {}),
        )
        blocks.append(block)
    if c.global_tokens is not None:
        _check_blocks(blocks)

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
        global_tokens=(
            None
            if c.global_tokens is None
            else GlobalTokens(c.global_tokens, name="global_tokens")
        ),
        memory_length=c.memory_length,
    )


def _check_blocks(blocks):
    """Raises unless a block has global tokens, and no such block carries states."""
    chosen = [block for block in blocks if block.has_global_tokens]
    if not chosen:
        raise ValueError(
            'global_tokens need attention="longformer", or LongformerAttention layers '
            "with max_global_tokens, received blocks without. Leave them out"
        )
    for block in chosen:
        if isinstance(block.feed_forward, keras.Layer) and carries_state(
            block.feed_forward
        ):
            raise ValueError(
                "feed_forward must carry no states in a block with global tokens, "
                f"received {block.feed_forward.name}. Choose another, such as "
                '"swiglu"'
            )


def normal(stddev: float = 0.02) -> keras.initializers.Initializer:
    """Returns GPT-2's initializer, a new one for each weight."""
    return keras.initializers.RandomNormal(stddev=stddev)
