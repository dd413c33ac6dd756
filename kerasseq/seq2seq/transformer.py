"""The Transformer: an encoder that reads a source, a decoder that says a target."""

import dataclasses
import math

from kerasseq.core import checks
from kerasseq.core.arguments import own
from kerasseq.core.padding import FIRST
from kerasseq.core.serialization import register
from kerasseq.language.architectures import find
from kerasseq.positions.by_name import POSITIONS
from kerasseq.seq2seq.encoder_decoder import EncoderDecoder
from kerasseq.seq2seq.making import Options, inner_positions
from kerasseq.seq2seq.sides import Side

SIZES = ("num_layers", "num_heads", "hidden_dim", "max_sequence_length")
BLOCK = (  # arguments that are those of the blocks
    "intermediate_dim",
    "num_heads",
    "dropout",
    "norm",
    "norm_placement",
    "feed_forward",
    "use_bias",
    "num_key_value_heads",
    "head_dim",
)
FIELDS = (  # of an architecture, which are arguments here
    *(name for name in BLOCK if name != "dropout"),
    "num_layers",
    "hidden_dim",
    "position",
    "embedding_norm",
    "tie_embeddings",
)


@register
class Transformer(EncoderDecoder):
    r"""Read a source at once, then say a target, looking at the source in each layer.

    $$x_0 = \sqrt D\,E_w + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
    p = \mathrm{softmax}(x_L E^T)$$

    As it comes it is that of Vaswani et al.; with `position="learned"`,
    `feed_forward="gelu"`, `embedding_norm=True`, `scale_embeddings=False` and
    `share_embeddings=True` it is BART.

    The alignments of `translate` are means over the heads of the last layer. Each head
    by itself is what `tracing.trace` finds: `decoder_block_0/cross_attention/alignment`
    is of shape `(B, N, T, S)`.

    Args:
        source_tokenizer: A fitted tokenizer of `kerasseq.text`, saved with the model.
        target_tokenizer: The same for targets.
        source_vocabulary_size: Number of ids, for sources of ids, in which 0 is
            padding.
        target_vocabulary_size: The same for targets.
        num_layers: L, of encoder and decoder each.
        num_heads: N.
        hidden_dim: D, the width between the layers.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        max_sequence_length: The most tokens of a side, where positions are learned.
        dropout: Fraction dropped in training.
        norm: "layer" or "rms".
        norm_placement: Of the norms: "post", "pre" or "deep".
        feed_forward: "relu", "gelu", "swiglu", "geglu" …, see `FeedForward`.
        use_bias: Whether dense layers and norms have biases.
        position: "sinusoidal", "learned", "rope", "alibi", "relative", or None.
        num_key_value_heads: Heads of keys and values; N if None.
        head_dim: Width of a head; D / N if None.
        embedding_norm: Whether a norm follows each embedding.
        scale_embeddings: Whether the vectors of tokens are multiplied by $\sqrt D$.
        share_embeddings: Whether source and target have one table, for which they need
            one vocabulary.
        tie_embeddings: Whether logits come from the table of the target.
        scheduled_sampling: A `training.ScheduledSampling`: how often the decoder reads
            the truth in training. What else it reads, the most probable token of a
            first pass over the truth, stands for what it would say itself (Mihaylova
            and Martins 2019). Always the truth if None.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, heads do not divide the width, or two
            vocabularies should share a table.

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

    def __init__(
        self,
        source_tokenizer=None,
        target_tokenizer=None,
        *,
        source_vocabulary_size=None,
        target_vocabulary_size=None,
        num_layers=3,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=None,
        max_sequence_length=256,
        dropout=0.1,
        norm="layer",
        norm_placement="post",
        feed_forward="relu",
        use_bias=True,
        position="sinusoidal",
        num_key_value_heads=None,
        head_dim=None,
        embedding_norm=False,
        scale_embeddings=True,
        share_embeddings=False,
        tie_embeddings=True,
        scheduled_sampling=None,
        **kwargs,
    ):
        arguments = own(locals())
        for name in SIZES:
            checks.whole_number(name, arguments[name])
        checks.one_of("position", position, POSITIONS)
        longest = max_sequence_length if position == "learned" else None
        sides = (
            Side("source", source_tokenizer, source_vocabulary_size, longest),
            Side(
                "target",
                target_tokenizer,
                target_vocabulary_size,
                longest and longest - 1,  # behind its start
            ),
        )
        if share_embeddings:
            check_shared(*sides)
        block = {name: arguments[name] for name in BLOCK}
        block["intermediate_dim"] = intermediate_dim or 4 * hidden_dim
        encoder, decoder = Options(
            num_layers=num_layers,
            hidden_dim=hidden_dim,
            block={**block, "layer_norm_epsilon": 1e-5},
            positions=(position, max_sequence_length),
            inner=inner_positions(position),
            embedding_norm=embedding_norm,
            factor=math.sqrt(hidden_dim) if scale_embeddings else 1.0,
            logit_factor=1.0,
            # Vectors of tokens as long as codes of positions, once they are multiplied.
            embedding_deviation=hidden_dim**-0.5 if scale_embeddings else 0.02,
            tie_embeddings=tie_embeddings,
            last_dropout=False,
        ).stacks([side.size for side in sides], share_embeddings)
        super().__init__(
            sides, encoder, decoder, arguments, scheduled_sampling, **kwargs
        )

    @classmethod
    def from_architecture(
        cls, architecture, source_tokenizer=None, target_tokenizer=None, **changes
    ):
        """The model that a row of `models.architectures` describes.

        Args:
            architecture: A name, or a row, such as `architectures["t5_small"].small()`.
            source_tokenizer: A fitted tokenizer; the vocabulary is its then.
            target_tokenizer: The same for targets. With one tokenizer for both, or
                none, source and target share their embedding.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights. Padding, start and end are among the ids of
            the row.

        Raises:
            ValueError: If there is no such row, or it is of another kind of model.

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["t5_small"].small()
            >>> model = Transformer.from_architecture(row, max_sequence_length=19)
            >>> model.count_params() == kerasseq.models.count(row, what="all").total
            True
        """
        row = row_of(architecture, changes)
        options = {name: getattr(row, name) for name in FIELDS}
        if row.max_sequence_length:
            options["max_sequence_length"] = row.max_sequence_length
        for side, tokenizer in zip(
            ("source", "target"), (source_tokenizer, target_tokenizer), strict=True
        ):
            if tokenizer is None:
                options[f"{side}_vocabulary_size"] = own_ids(row)
        shared = source_tokenizer is target_tokenizer
        return cls(
            source_tokenizer, target_tokenizer, share_embeddings=shared, **options
        )


def row_of(architecture, changes):
    """A row of the table, with changes, once it is one of two stacks.

    Raises:
        ValueError: If it is of another kind of model.
    """
    row = find(architecture)
    row = dataclasses.replace(row, **changes) if changes else row
    if row.kind != "encoder_decoder" or row.parallel or row.position not in POSITIONS:
        raise ValueError(
            f"{row.title} is of kind={row.kind!r}, with parallel={row.parallel} and "
            f"position={row.position!r}; here kind must be 'encoder_decoder', parallel "
            f"False, and position one of {', '.join(POSITIONS[:-1])}"
        )
    return row


def own_ids(row):
    """The ids of a row that are left for a user: padding, and all but start and end."""
    return row.vocabulary_size - (FIRST - 1)


def check_shared(source, target):
    """Raise unless both sides have one vocabulary."""
    names = [side.tokenizer and side.tokenizer.vocabulary for side in (source, target)]
    if source.size != target.size or names[0] != names[1]:
        raise ValueError(
            "share_embeddings=True needs one vocabulary for both sides; those given "
            f"have {source.size} and {target.size} ids"
            + (", of other tokens" if source.size == target.size else "")
            + ". Give one tokenizer twice"
        )
