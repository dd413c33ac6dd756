"""The Transformer of Vaswani et al., with the options of its successors."""

import math
from typing import Any

import keras

from kerasseq.core.padding import FIRST
from kerasseq.core.serialization import register
from kerasseq.models.arguments import among, check_memory, checked_arguments
from kerasseq.models.seq2seq.networks import options_of_blocks
from kerasseq.models.seq2seq.transformer_base import (
    Decoder,
    Encoder,
    EncoderDecoder,
    LayerOptions,
)
from kerasseq.models.seq2seq.vocabulary import Vocabulary
from kerasseq.positions.by_name import POSITIONS, make_attention_position
from kerasseq.published.architectures import Architecture, find
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.training import ScheduledSampling

FIELDS = (  # arguments that are fields of an architecture, too
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "norm",
    "norm_placement",
    "feed_forward",
    "use_bias",
    "position",
    "num_key_value_heads",
    "head_dim",
    "embedding_norm",
    "tie_embeddings",
)


@register
class Transformer(EncoderDecoder):
    r"""Transformer with encoder and decoder, Vaswani et al. 2017.

    $$x_0 = \sqrt D\,E_w + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
    p = \mathrm{softmax}(x_L E^T)$$

    With `position="learned"`, `feed_forward="gelu"`, `embedding_norm=True`,
    `scale_embeddings=False` and `share_embeddings=True` it is BART; `models.BART` has
    the ids of its published weights.

    The alignments of `translate` are means over the heads of the last layer.
    `tracing.trace` records each head: `decoder_block_0/cross_attention/alignment` has
    the shape `(B, N, T, S)`.

    Args:
        source_tokenizer: Fitted, saved with the model; see
            `kerasseq.text.as_tokenizer`.
        target_tokenizer: The same for targets.
        source_vocabulary_size: Number of ids, for sources of ids; 0 is padding.
        target_vocabulary_size: The same for targets.
        num_layers: L, of encoder and decoder each.
        num_heads: N, number of attention heads.
        hidden_dim: D, the hidden size.
        intermediate_dim: Hidden size of the feed-forward networks by name; 4 D if
            None.
        max_sequence_length: Number of positions, for learned positions.
        dropout: Dropout rate.
        norm: "layer" or "rms".
        norm_placement: "post", "pre" or "deep".
        feed_forward: "relu", "gelu", "swiglu", "geglu" …, see `FeedForward`; a layer,
            such as `MixtureOfExperts`, of which each block gets a copy; or a list with
            one of these for each of the L blocks.
        use_bias: Whether dense layers and norms have biases.
        position: "sinusoidal", "learned", "rope", "alibi", "relative", or None.
        num_key_value_heads: Number of heads of keys and values; N if None.
        head_dim: Size of a head; D / N if None.
        embedding_norm: Whether a norm follows each embedding.
        scale_embeddings: Whether token embeddings are multiplied by $\sqrt D$.
        share_embeddings: Whether source and target share one embedding, and so one
            vocabulary.
        tie_embeddings: Whether the logits use the weights of the target embedding.
        scheduled_sampling: A `training.ScheduledSampling`: how often the input of the
            decoder is the target token in training. Else it is the most probable token
            of a first pass with the target tokens as inputs (Mihaylova and Martins
            2019). Always the target token if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, `num_heads` does not divide
            `hidden_dim`, or two different vocabularies are to share an embedding.

    Examples:
        >>> import kerasseq
        >>> letters = kerasseq.text.CharacterTokenizer().fit("abc")
        >>> model = Transformer(letters, letters, num_layers=1, hidden_dim=8)
        >>> translation = model.translate("abba", max_length=5)
        >>> translation.alignment.shape[1], translation.source_tokens
        (4, ['a', 'b', 'b', 'a'])

    References:
        Vaswani et al. 2017; Lewis et al. 2020 (BART). Slides A, C, D.
    """

    @checked_arguments(position=among(*POSITIONS))
    def __init__(
        self,
        source_tokenizer: AnyTokenizer | None = None,
        target_tokenizer: AnyTokenizer | None = None,
        *,
        source_vocabulary_size: int | None = None,
        target_vocabulary_size: int | None = None,
        num_layers: int = 3,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        max_sequence_length: int = 256,
        dropout: float = 0.1,
        norm: str = "layer",
        norm_placement: str = "post",
        feed_forward: Any = "relu",
        use_bias: bool = True,
        position: str | None = "sinusoidal",
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        embedding_norm: bool = False,
        scale_embeddings: bool = True,
        share_embeddings: bool = False,
        tie_embeddings: bool = True,
        scheduled_sampling: ScheduledSampling | None = None,
        **kwargs: Any,
    ) -> None:
        max_length = max_sequence_length if position == "learned" else None
        source = Vocabulary(
            "source", source_tokenizer, source_vocabulary_size, max_length
        )
        target = Vocabulary(
            "target",
            target_tokenizer,
            target_vocabulary_size,
            max_length and max_length - 1,  # after the start
        )
        if share_embeddings:
            check_shared(source, target)
        check_memory(
            self._arguments,
            source_vocabulary_size=source.size,
            target_vocabulary_size=target.size,
            max_sequence_length=max_length,
        )
        blocks = options_of_blocks(
            *(feed_forward, num_layers, None, num_layers),
            intermediate_dim=intermediate_dim,
            hidden_dim=hidden_dim,
        )
        options = LayerOptions(
            *blocks,
            block={
                "num_heads": num_heads,
                "dropout": dropout,
                "norm": norm,
                "norm_placement": norm_placement,
                "use_bias": use_bias,
                "num_key_value_heads": num_key_value_heads,
                "head_dim": head_dim,
                "layer_norm_epsilon": 1e-5,
            },
            position=position,
            max_sequence_length=max_sequence_length,
            encoder_position=make_attention_position(position, causal=False),
            decoder_position=make_attention_position(position),
            embedding_norm=embedding_norm,
            embedding_scale=math.sqrt(hidden_dim) if scale_embeddings else 1.0,
        )
        # Scaled embeddings then have the standard deviation 1.
        stddev = hidden_dim**-0.5 if scale_embeddings else 0.02
        target_embedding = keras.layers.ReversibleEmbedding(
            target.size,
            hidden_dim,
            tie_weights=tie_embeddings,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=stddev),
            name="embedding" if share_embeddings else "target_embedding",
        )
        source_embedding = target_embedding
        if not share_embeddings:
            source_embedding = keras.layers.Embedding(
                source.size,
                hidden_dim,
                embeddings_initializer=keras.initializers.RandomNormal(stddev=stddev),
                name="source_embedding",
            )
        decoder = Decoder(target_embedding, options)
        encoder = Encoder(source_embedding, options)
        super().__init__(
            *(source, target, encoder, decoder),
            *(self._arguments, scheduled_sampling),
            **kwargs,
        )

    @classmethod
    def from_architecture(
        cls,
        architecture: str | Architecture,
        source_tokenizer: AnyTokenizer | None = None,
        target_tokenizer: AnyTokenizer | None = None,
        **changes: Any,
    ) -> "Transformer":
        """Builds the model that a row of `models.architectures` describes.

        Args:
            architecture: A name, or a row, such as `architectures["t5_small"].small()`.
            source_tokenizer: A fitted tokenizer, which gives the vocabulary.
            target_tokenizer: The same for targets. With one tokenizer for both, or
                none, source and target share their embedding.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights. Padding, start and end are among the ids of
            the row.

        Raises:
            ValueError: If there is no such row, or its kind is not "encoder_decoder".

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["t5_small"].small()
            >>> model = Transformer.from_architecture(row, max_sequence_length=19)
            >>> model.count_params() == kerasseq.models.count(row, what="all").total
            True
        """
        row = find_encoder_decoder(architecture, changes)
        options = {name: getattr(row, name) for name in FIELDS}
        if row.max_sequence_length:
            options["max_sequence_length"] = row.max_sequence_length
        if source_tokenizer is None:
            options["source_vocabulary_size"] = user_ids(row)
        if target_tokenizer is None:
            options["target_vocabulary_size"] = user_ids(row)
        shared = source_tokenizer is target_tokenizer
        return cls(
            source_tokenizer, target_tokenizer, share_embeddings=shared, **options
        )


def find_encoder_decoder(
    architecture: str | Architecture, changes: dict[str, Any]
) -> Architecture:
    """Returns a row of the table of architectures, with changes.

    Raises:
        ValueError: If its kind is not "encoder_decoder".
    """
    row = find(architecture, **changes)
    if row.kind != "encoder_decoder" or row.parallel or row.position not in POSITIONS:
        raise ValueError(
            "expected an architecture of kind='encoder_decoder', with parallel=False "
            f"and a position of {', '.join(POSITIONS[:-1])}; received {row.title} of "
            f"kind={row.kind!r}, with parallel={row.parallel} and "
            f"position={row.position!r}"
        )
    return row


def user_ids(row: Architecture) -> int:
    """Returns the number of ids of a row without start and end."""
    return row.vocabulary_size - (FIRST - 1)


def check_shared(source: Vocabulary, target: Vocabulary) -> None:
    """Raises unless source and target have the same vocabulary."""
    tokens = [side.tokenizer and side.tokenizer.vocabulary for side in (source, target)]
    if source.size != target.size or tokens[0] != tokens[1]:
        different = "different tokens with " if source.size == target.size else ""
        raise ValueError(
            "share_embeddings=True needs the same vocabulary for source and target, "
            f"received {different}{source.size} and {target.size} ids. Pass the same "
            "tokenizer twice"
        )
