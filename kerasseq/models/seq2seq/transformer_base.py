r"""Transformer encoder-decoder models: encoder, decoder, and the model of both.

$$
x_0 = f\,E_w + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
p = \mathrm{softmax}(g\, x_L E^T)
$$

`Encoder` and `Decoder` hold layers and apply them: in training to whole sequences, in
decoding to one token, with keys and values in caches: in the self-attention those of
earlier tokens, in the cross-attention those of the source. Their layers become layers
of the `EncoderDecoder`, which is a functional model.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import keras
import numpy as np
from keras import ops, tree

from kerasseq.core import masks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.padding import PADDING, bucket
from kerasseq.core.types import Tensor
from kerasseq.models.seq2seq.cached_decoding import check_positions, compiled_method
from kerasseq.models.seq2seq.logit_bias import LogitBias
from kerasseq.models.seq2seq.networks import has_experts
from kerasseq.models.seq2seq.scheduled_sampling import ScheduledSampler
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.seq2seq.translator import Translator
from kerasseq.models.seq2seq.vocabulary import Vocabulary
from kerasseq.positions.base import AttentionPosition, PositionEncoding
from kerasseq.positions.by_name import make_embedding_position
from kerasseq.tasks.loss_chunks import TokenHead, scored
from kerasseq.tracing.listeners import pause
from kerasseq.training import ScheduledSampling
from kerasseq.transformer.block import TransformerBlock
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.norms import make_norm

Block = TypeVar("Block", bound=TransformerBlock)


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """Options of the layers of encoder and decoder.

    Attributes:
        encoder_blocks: For each encoder block, the arguments that are its own.
        decoder_blocks: The same of the decoder.
        block: Arguments of all blocks, except for positions.
        position: Name of the position encoding.
        max_sequence_length: Number of positions, for "learned".
        encoder_position: Position encoding in the self-attention of the encoder.
        decoder_position: The same of the decoder.
        embedding_norm: Whether a norm follows the embedding.
        embedding_scale: $f$, a factor of the token embeddings.
        logit_scale: $g$, a factor of the output before the logits.
        final_dropout: Whether dropout follows the last norm.
        padding: The id of padding.
        logit_bias: Whether the logits have a bias.
    """

    encoder_blocks: list[dict[str, Any]]
    decoder_blocks: list[dict[str, Any]]
    block: dict[str, Any]
    position: str | None = None
    max_sequence_length: int | None = None
    encoder_position: AttentionPosition | None = None
    decoder_position: AttentionPosition | None = None
    embedding_norm: bool = False
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    final_dropout: bool = False
    padding: int = PADDING
    logit_bias: bool = False

    def make_norm(self, name: str) -> keras.Layer:
        return make_norm(
            self.block["norm"],
            epsilon=self.block["layer_norm_epsilon"],
            use_bias=self.block["use_bias"],
            name=name,
        )

    def make_dropout(self, name: str) -> keras.layers.Dropout:
        rate = self.block["dropout"]
        return keras.layers.Dropout(rate, seed=drawn_seed(rate), name=name)


class _Layers(Generic[Block]):
    """Embedding, blocks and final norm, which encoder and decoder both have."""

    def __init__(
        self,
        name: str,
        embedding: keras.layers.Embedding,
        blocks: list[Block],
        options: LayerOptions,
    ) -> None:
        has_final_norm = options.block["norm_placement"] == "pre"
        self.embedding = embedding
        self.padding: int = options.padding
        self.embedding_scale: float = options.embedding_scale
        self.embedding_norm: keras.Layer | None = None
        self.final_norm: keras.Layer | None = None
        self.final_dropout: keras.layers.Dropout | None = None
        self.blocks = blocks
        if options.embedding_norm:
            self.embedding_norm = options.make_norm(f"{name}_embedding_norm")
        if has_final_norm:
            self.final_norm = options.make_norm(f"{name}_final_norm")
        self.embedding_dropout: keras.layers.Dropout = options.make_dropout(
            f"{name}_embedding_dropout"
        )
        if options.final_dropout:
            self.final_dropout = options.make_dropout(f"{name}_final_dropout")
        self.position: PositionEncoding | None = make_embedding_position(
            options.position, options.max_sequence_length, name=f"{name}_position"
        )
        learned = options.position == "learned"
        self.max_length: int | None = options.max_sequence_length if learned else None

    def embed(
        self,
        ids: Tensor,
        mask: Tensor,
        index: int | Tensor = 0,
        training: bool | None = None,
    ) -> Tensor:
        """Computes $x_0$.

        Args:
            ids: `(B, T)`.
            mask: `(B, T)`, True (or 1) at real tokens.
            index: Position of the first id.
            training: Whether to apply dropout.
        """
        x = self.embedding(ids)
        x = x if self.embedding_scale == 1 else x * self.embedding_scale
        if self.position is not None:
            p = masks.positions(mask, None, index)
            if self.max_length is not None:  # padding may be longer than the table
                p = ops.minimum(p, self.max_length - 1)
            x = x + self.position(x, positions=p)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        return self.embedding_dropout(x, training=training)

    def finish(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Applies norm and dropout to the output of the last block."""
        if self.final_norm is not None:
            x = self.final_norm(x)
        if self.final_dropout is not None:
            x = self.final_dropout(x, training=training)
        return x


def make_blocks(
    block_class: type[Block],
    name: str,
    own_options: list[dict[str, Any]],
    depth: int | tuple[int, int],
    position: AttentionPosition | None,
    options: LayerOptions,
) -> list[Block]:
    """Makes the blocks of encoder or decoder, which share one position encoding."""
    deep = options.block["norm_placement"] == "deep"
    return [
        block_class(
            **options.block,
            **own,
            seed=drawn_seed(options.block["dropout"]),
            position=position,
            depth=depth if deep else None,
            name=f"{name}_block_{n}",
        )
        for n, own in enumerate(own_options)
    ]


class Encoder(_Layers[TransformerEncoder]):
    """Transformer encoder, from ids `(B, S)` to vectors `(B, S, D)`, the memory."""

    def __init__(
        self, embedding: keras.layers.Embedding, options: LayerOptions
    ) -> None:
        blocks = make_blocks(
            TransformerEncoder,
            "encoder",
            options.encoder_blocks,
            (len(options.encoder_blocks), len(options.decoder_blocks)),
            options.encoder_position,
            options,
        )
        super().__init__("encoder", embedding, blocks, options)

    def __call__(
        self, source: Tensor, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the memory `(B, S, D)` and its mask `(B, S)`, of ids `(B, S)`."""
        mask = ops.not_equal(source, self.padding)
        x = self.embed(source, mask, training=training)
        for block in self.blocks:
            x = block(x, padding_mask=mask, training=training)
        return self.finish(x, training), mask


class Decoder(_Layers[TransformerDecoder]):
    """Transformer decoder, from target and memory to logits."""

    def __init__(
        self, embedding: keras.layers.ReversibleEmbedding, options: LayerOptions
    ) -> None:
        blocks = make_blocks(
            TransformerDecoder,
            "decoder",
            options.decoder_blocks,
            len(options.decoder_blocks),
            options.decoder_position,
            options,
        )
        super().__init__("decoder", embedding, blocks, options)
        self.logit_scale: float = options.logit_scale
        self.logit_bias: LogitBias | None = (
            LogitBias(name="logit_bias") if options.logit_bias else None
        )
        self.has_experts: bool = has_experts(options.decoder_blocks)

    def __call__(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        training: bool | None = None,
    ) -> Tensor:
        """Returns logits `(B, T, V)` of the token after each id of `(B, T)`.

        A memory without padding has no mask.
        """
        return self.logits(self.hidden(target, memory, memory_mask, training))

    def hidden(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        training: bool | None = None,
    ) -> Tensor:
        """Returns the hidden states `(B, T, D)` of which these logits are made."""
        x = self.embed(target, ops.ones_like(target), training=training)
        padding = {"encoder_padding_mask": memory_mask}
        if self.has_experts:  # padding counts nowhere in their losses
            padding["decoder_padding_mask"] = self.target_mask(target)
        for block in self.blocks:
            x = block(x, memory, **padding, training=training)
        return self.finish(x, training)

    def target_mask(self, target: Tensor) -> Tensor:
        """Returns a mask `(B, T)`, True at the start, which may be 0, and at tokens."""
        real = ops.not_equal(target, self.padding)
        return ops.concatenate([ops.ones_like(real[:, :1]), real[:, 1:]], axis=1)

    def logits(self, x: Tensor) -> Tensor:
        """Returns logits in float32."""
        x = x if self.logit_scale == 1 else x * self.logit_scale
        logits = ops.cast(self.embedding(x, reverse=True), "float32")
        return logits if self.logit_bias is None else self.logit_bias(logits)

    def token_head(self, h: Tensor) -> TokenHead:
        """Returns the logits of symbolic hidden states, for `loss_chunk_size`."""
        bias = [] if self.logit_bias is None else [self.logit_bias]
        return TokenHead(lambda: h, [self.embedding, *bias], self.logits)

    def alignment(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Returns attention weights `(B, T, S)`: means over heads of the last layer."""
        last = len(self.blocks) - 1
        (alpha,) = self.cross_attentions(target, memory, memory_mask, [last])
        return ops.mean(alpha, axis=1)

    def cross_attentions(
        self,
        target: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        layers: Sequence[int],
    ) -> list[Tensor]:
        """Returns the attention weights `(B, N, T, S)` of layers, counted from 0."""
        x, weights = self.embed(target, ops.ones_like(target), training=False), {}
        mask = {} if memory_mask is None else {"memory_mask": memory_mask}
        for n, block in enumerate(self.blocks[: max(layers) + 1]):
            if n in layers:
                layer = CrossAttention(block, name=f"alignment_{n}")
                x, weights[n] = layer(x, memory, **mask)
            else:
                x = block(x, memory, encoder_padding_mask=memory_mask, training=False)
        return [weights[n] for n in layers]

    def initial_state(
        self, memory: Tensor, memory_mask: Tensor | None, length: int
    ) -> dict[str, Any]:
        """Returns the state before the first of at most `length` tokens."""
        batch = ops.shape(memory)[0]
        mask = {} if memory_mask is None else {"memory_mask": memory_mask}
        return {
            "index": ops.zeros((batch,), "int32"),
            **mask,
            "self_attention": [b.make_cache(batch, length) for b in self.blocks],
            "cross_attention": [b.project_memory(memory) for b in self.blocks],
        }

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the token after `token` `(B,)`, and the state."""
        index = state["index"][0]  # the same in all rows
        ids, caches = token[:, None], []  # (B, 1)
        x = self.embed(ids, ops.ones_like(ids), index, training=False)
        for block, own_cache, cross_cache in zip(
            self.blocks, state["self_attention"], state["cross_attention"], strict=True
        ):
            x, own_cache, _ = block(
                x,
                encoder_padding_mask=state.get("memory_mask"),
                self_attention_cache=own_cache,
                self_attention_cache_update_index=index,
                cross_attention_cache=cross_cache,
                training=False,
            )
            caches.append(own_cache)
        logits = self.logits(self.finish(x, training=False))
        after = {"index": state["index"] + 1, "self_attention": caches}
        return logits[:, 0], {**state, **after}


class CrossAttention(keras.layers.Layer):
    """A decoder block that returns its cross-attention weights beside its output.

    Args:
        block: A `TransformerDecoder` that is built.
        **kwargs: For `keras.layers.Layer`.
    """

    def __init__(self, block: TransformerDecoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block = block
        self.built = True

    def call(
        self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        y, _, alpha = self.block(
            x,
            memory,
            encoder_padding_mask=memory_mask,
            training=False,
            return_attention_scores=True,
        )
        return y, alpha  # (B, T, D), (B, N, T, S)


class EncoderDecoder(Translator):
    """Base class of Transformers with encoder and decoder.

    Args:
        source_vocabulary: The `Vocabulary` of sources.
        target_vocabulary: The `Vocabulary` of targets.
        encoder: An `Encoder`.
        decoder: A `Decoder`.
        config: The arguments of the subclass, to be saved.
        scheduled_sampling: A `training.ScheduledSampling`, or None.
        **kwargs: `name` and `trainable`.
    """

    def __init__(
        self,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        encoder: Encoder,
        decoder: Decoder,
        config: dict[str, Any],
        scheduled_sampling: ScheduledSampling | None = None,
        **kwargs: Any,
    ) -> None:
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        memory, memory_mask = encoder(source)
        h = decoder.hidden(target, memory, memory_mask)
        vars(self)["token_head"] = decoder.token_head(h)
        logits = decoder.logits(h)
        super().__init__([source, target], logits, config, **kwargs)
        self.source_vocabulary: Vocabulary | None = source_vocabulary
        self.target_vocabulary = target_vocabulary
        self.encoder = encoder
        self.decoder = decoder
        self.scheduled_sampler: ScheduledSampler = ScheduledSampler(
            scheduled_sampling, name="scheduled_sampler"
        )
        self.scheduled_sampler.build()

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if not training or self.scheduled_sampler.schedule is None:
            return super().call(inputs, training=training, mask=mask)
        source, target = tree.flatten(inputs)
        memory, memory_mask = self.encoder(source, training=True)
        predicted = self.decoder(target, memory, memory_mask, training=False)
        target = self.mix_predictions(target, predicted)
        h = self.decoder.hidden(target, memory, memory_mask, training=True)
        return scored(self, h)

    def mix_predictions(self, target: Tensor, logits: Tensor) -> Tensor:
        """Replaces target tokens by predictions, as the schedule says.

        Args:
            target: Ids `(B, T)`, with the start first.
            logits: `(B, T, V)`, predicted from `target`.

        Returns:
            Ids `(B, T)`. Start and padding are never replaced.
        """
        drawn = self.scheduled_sampler.draw(target, logits.shape[-1])
        predicted = self.scheduled_sampler.predict_token(
            logits, drawn.get("gumbel_noise")
        )
        predicted = ops.cast(predicted, target.dtype)
        # The prediction at t is the input at t + 1.
        predicted = ops.concatenate([target[:, :1], predicted[:, :-1]], axis=1)
        keep = ops.logical_or(drawn["use_target"], ops.equal(target, self.padding))
        return ops.where(keep, target, predicted)

    @functools.cached_property
    def alignment_model(self) -> keras.Model:
        """The model from source and target to alignments `(B, T, S)`.

        They are means over the heads of the last layer. `tracing.trace` records each
        head of each layer.
        """
        source, target = self.inputs
        with pause():  # symbolic values cannot be recorded
            alpha = self.decoder.alignment(target, *self.encoder(source))
        return keras.Model(self.inputs, alpha)

    def max_target_length(self, source: np.ndarray) -> int:
        length = super().max_target_length(source)
        return min(length, self.decoder.max_length or length)

    def initial_state(self, source: np.ndarray, length: int) -> dict[str, Any]:
        check_positions(length, self.decoder.max_length, "max_sequence_length")
        encode = compiled_method(self, "run_encoder", length=bucket(length))
        return encode(ops.convert_to_tensor(source))

    def run_encoder(self, source: Tensor, length: int) -> dict[str, Any]:
        """Runs the encoder: ids `(B, S)` to the state before the first token."""
        memory, memory_mask = self.encoder(source, training=False)
        return self.decoder.initial_state(memory, memory_mask, length)

    @functools.cached_property
    def step(self) -> TargetStep:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return TargetStep(self, "decode_step", self.never_written)

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the token after `token` `(B,)`, and the state."""
        return self.decoder.decode_step(state, token)

    @property
    def never_written(self) -> tuple[int, ...]:
        """The ids that no target has."""
        return self.target_vocabulary.never_written
