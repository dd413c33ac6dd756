r"""BERT: an encoder that reads in both directions, pre-trained on hidden words."""

from collections.abc import Sequence
from typing import Any, Self

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.models.bert.bert_heads import HEADS, Features, initializer
from kerasseq.models.bert.bert_texts import TextReader
from kerasseq.models.bert.bert_training import BERTTrainingMixin
from kerasseq.models.bert.fine_tuning import copy_weights
from kerasseq.models.causal_lm import check_memory, known_ids
from kerasseq.models.task_heads import can_truncate, check_truncate, plain_labels
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.segments import SegmentEmbedding
from kerasseq.published.architectures import Architecture, find
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.labels import Label
from kerasseq.text.tokenizers.conversion import AnyTokenizer, fitted_tokenizer
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.norms import LayerNormalization

SIZES = ("num_layers", "num_heads", "hidden_dim", "intermediate_dim")
ACTIVATIONS = ("gelu_tanh", "gelu", "relu")
SHAPE = {  # what an architecture must be, to be a BERT
    "kind": "encoder",
    "norm": "layer",
    "norm_placement": "post",
    "feed_forward": "gelu",
    "use_bias": True,
    "position": "learned",
    "tie_embeddings": True,
    "parallel": False,
    "embedding_norm": True,
    "pooler": True,
}


@register
class BERT(BERTTrainingMixin, TaskModel):
    r"""A Transformer that reads a text, or a pair, and says something about it.

    $$x_0 = \mathrm{LayerNorm}(E_w + P + S), \qquad x_l = \mathrm{Block}_l(x_{l-1}),
    \qquad c = \tanh(W x_{L,[CLS]} + b)$$

    The inputs are "ids" and "segments", `(B, T)`, where a text begins with [CLS], each
    sentence ends with [SEP], and [PAD] is nothing; `fit`, `evaluate` and `predict` make
    them of texts. For pre-training there are "positions" `(B, P)`, too, where tokens
    are asked for. What comes out is said by the head:

    | head | outputs |
    |---|---|
    | None | "sequence" `(B, T, D)`, "pooled" `(B, D)` |
    | "sequence" | "sequence" `(B, T, D)` |
    | "tokens" | logits "tokens" `(B, P, V)` |
    | "pretraining" | logits "tokens" `(B, P, V)`, "next" `(B, 2)`: 1 if b follows a |
    | "classify" | logits `(B, C)` |
    | "tag" | logits `(B, T, C)` |
    | "span" | logits "start" and "end", `(B, T)` |

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`. It
            has the special tokens [PAD], [CLS], [SEP] and [MASK], or RoBERTa's <pad>,
            <s>, </s> and <mask>.
        vocabulary_size: Number of ids, V, for a model without a tokenizer.
        num_layers: L.
        num_heads: N.
        hidden_dim: D, the width between the layers.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        max_sequence_length: The most tokens it reads at once.
        num_segments: How many sentences are told apart.
        dropout: Fraction dropped in training.
        head: "sequence", "tokens", "pretraining", "classify", "tag", "span", or None.
        labels: For "classify" and "tag": the names of the labels; their number C, for
            labels from 0 on; or None: `fit` learns the names.
        multi_label: For "classify": whether a text may have several labels, or none.
        truncate: Whether a text that is too long is cut, of a pair the longer one. It
            is an error otherwise, and always for "tag" and "span".
        special_ids: For a model without a tokenizer, the ids of the special tokens by
            name; those that a new `WordPieceTokenizer` gives them if None.
        activation: "gelu_tanh" as in the paper's code, or "gelu" or "relu".
        layer_norm_epsilon: Epsilon of the norms.
        pair_separators: How many [SEP] stand between the texts of a pair: 1, or 2 as in
            RoBERTa, where all tokens are of segment 0.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If a number is none.
        ValueError: If a name or number is wrong, a special token is missing, or heads
            do not divide the width.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.WordPieceTokenizer(20).fit("to be or not to be")
        >>> sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8}
        >>> model = BERT(tokenizer, **sizes, head="pretraining")
        >>> classifier = model.with_head("classify", ["no", "yes"])
        >>> [each.label in ("no", "yes") for each in classifier.classify(
        ...     ["to be", ("or not", "to be")]
        ... )]
        [True, True]

    References:
        Devlin et al. 2019. Slides A, C.
    """

    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 4,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        max_sequence_length: int = 256,
        num_segments: int = 2,
        dropout: float = 0.1,
        head: str | None = None,
        labels: int | Sequence[Label] | None = None,
        multi_label: bool = False,
        truncate: bool = False,
        special_ids: dict[str, int] | None = None,
        activation: str = "gelu_tanh",
        layer_norm_epsilon: float = 1e-12,
        pair_separators: int = 1,
        **kwargs: Any,
    ) -> None:
        tokenizer = fitted_tokenizer(tokenizer)
        size = known_ids(tokenizer, vocabulary_size)
        checks.one_of("head", head, HEADS)
        task = HEADS[head](labels, multi_label)
        config = {
            "tokenizer": tokenizer,
            "vocabulary_size": vocabulary_size,
            "num_layers": checks.size("num_layers", num_layers),
            "num_heads": checks.size("num_heads", num_heads),
            "hidden_dim": checks.size("hidden_dim", hidden_dim),
            "intermediate_dim": checks.optional(
                checks.size, "intermediate_dim", intermediate_dim
            ),
            "max_sequence_length": checks.size(
                "max_sequence_length", max_sequence_length
            ),
            "num_segments": checks.size("num_segments", num_segments),
            "dropout": checks.rate("dropout", dropout),
            "head": head,
            "labels": plain_labels(task.labels),
            "multi_label": task.multi_label,
            "truncate": check_truncate(truncate, head),
            "special_ids": special_ids,
            "activation": checks.one_of("activation", activation, ACTIVATIONS),
            "layer_norm_epsilon": checks.positive(
                "layer_norm_epsilon", layer_norm_epsilon
            ),
            "pair_separators": checks.one_of(
                "pair_separators", pair_separators, (1, 2)
            ),
        }
        check_memory(
            hidden_dim,
            vocabulary_size=size,
            intermediate_dim=intermediate_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            num_layers=num_layers * (intermediate_dim or 4 * hidden_dim),
        )
        reader = TextReader(
            tokenizer,
            special_ids,
            size,
            num_segments,
            max_sequence_length,
            pair_separators,
            config["truncate"],
        )
        names = ["ids", "segments"] + ["positions"] * task.takes_positions
        inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in names}
        features = build(
            inputs,
            size,
            reader.padding,
            num_layers=num_layers,
            num_heads=num_heads,
            hidden_dim=hidden_dim,
            intermediate_dim=intermediate_dim or 4 * hidden_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            dropout=dropout,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
        )
        super().__init__(inputs, task.model_outputs(features), config, **kwargs)
        self.keep_graph(inputs, features)
        self.reader = reader
        self.tokenizer = tokenizer
        self.vocabulary_size: int = size
        self.max_sequence_length = max_sequence_length
        self.head = head

    def with_head(
        self,
        head: str | None,
        labels: int | Sequence[Label] | None = None,
        *,
        multi_label: bool = False,
        truncate: bool | None = None,
        dropout: float | None = None,
    ) -> Self:
        """The same model with another head: what both have keeps its weights.

        Args:
            head: One of the names above, or None.
            labels: For "classify" and "tag": names or number of the labels; None: `fit`
                learns the names.
            multi_label: For "classify": whether a text may have several labels.
            truncate: Whether a text that is too long is cut; as before if None.
            dropout: Fraction dropped in training; as before if None.

        Returns:
            A new `BERT`; this one stays as it is.

        Raises:
            ValueError: If the head is unknown, or `labels` do not fit it.

        Examples:
            >>> model = BERT(vocabulary_size=11, num_layers=1, hidden_dim=8)
            >>> model.with_head("tag", 3).output_shape
            (None, None, 3)
        """
        changes = {"head": head, "labels": labels, "multi_label": multi_label}
        if truncate is None:
            truncate = self._arguments["truncate"] and can_truncate(head)
        changes["truncate"] = truncate
        if dropout is not None:
            changes["dropout"] = dropout
        other = type(self)(**{**self._arguments, **changes})
        copy_weights(self, other)
        return other

    @classmethod
    def from_architecture(
        cls,
        architecture: str | Architecture,
        tokenizer: AnyTokenizer | None = None,
        *,
        head: str | None = None,
        labels: int | Sequence[Label] | None = None,
        multi_label: bool = False,
        truncate: bool = False,
        special_ids: dict[str, int] | None = None,
        dropout: float = 0.1,
        **changes: Any,
    ) -> Self:
        """The model that a row of `models.architectures` describes.

        Args:
            architecture: A name, "bert_base" or "bert_large", or a row, such as
                `architectures["bert_base"].small()`.
            tokenizer: A fitted tokenizer; the vocabulary is its then.
            head: As for `BERT`, like the next five.
            labels: For "classify" and "tag".
            multi_label: For "classify".
            truncate: Whether a text that is too long is cut.
            special_ids: For a model without a tokenizer.
            dropout: Fraction dropped in training.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights.

        Raises:
            ValueError: If there is no such row, or it is of another kind of model.

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["bert_base"].small()
            >>> model = BERT.from_architecture(row)
            >>> model.count_params() == kerasseq.models.count(row, what="all").total
            True
        """
        row = find(architecture, **changes)
        for name, wanted in SHAPE.items():
            if getattr(row, name) != wanted:
                raise ValueError(
                    f"{row.title} has {name}={getattr(row, name)!r}; BERT builds "
                    f"{name}={wanted!r} only"
                )
        return cls(
            tokenizer,
            vocabulary_size=row.vocabulary_size if tokenizer is None else None,
            max_sequence_length=row.max_sequence_length,
            num_segments=row.segments,
            dropout=dropout,
            head=head,
            labels=labels,
            multi_label=multi_label,
            truncate=truncate,
            special_ids=special_ids,
            **{name: getattr(row, name) for name in SIZES},
        )


def build(
    inputs: dict[str, Tensor],
    size: int,
    padding: int,
    *,
    num_layers: int,
    num_heads: int,
    hidden_dim: int,
    intermediate_dim: int,
    max_sequence_length: int,
    num_segments: int,
    dropout: float,
    activation: str,
    layer_norm_epsilon: float,
) -> Features:
    """From ids and segments to the vectors of the tokens."""
    options = {"embeddings_initializer": initializer(), "name": "embedding"}
    embedding = keras.layers.ReversibleEmbedding(size, hidden_dim, **options)
    position = PositionEmbedding(
        max_sequence_length, initializer(), name="position_embedding"
    )
    segment = SegmentEmbedding(
        num_segments, initializer=initializer(), name="segment_embedding"
    )
    real = ops.not_equal(inputs["ids"], padding)
    embedded = x = embedding(inputs["ids"])
    x = x + position(x, mask=real) + segment(x, inputs["segments"])
    x = LayerNormalization(epsilon=layer_norm_epsilon, name="embedding_norm")(x)
    x = keras.layers.Dropout(dropout, seed=drawn_seed(dropout), name="dropout")(x)
    for n in range(num_layers):
        x = TransformerEncoder(
            intermediate_dim,
            num_heads,
            dropout,
            feed_forward=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            kernel_initializer=initializer(),
            name=f"block_{n}",
        )(x, padding_mask=real)
    return Features(
        sequence=x,
        real=real,
        embedding=embedding,
        embedded=embedded,
        dropout=dropout,
        positions=inputs.get("positions"),
        activation=activation,
        epsilon=layer_norm_epsilon,
    )
