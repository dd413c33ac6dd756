r"""BERT: an encoder that reads in both directions, pre-trained on hidden words."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.models.arguments import among, check_memory, checked_arguments, optional
from kerasseq.models.bert.bert_encoder import check_positions, hidden_states
from kerasseq.models.bert.bert_heads import HEADS, Head
from kerasseq.models.bert.bert_texts import BERTPreprocessor
from kerasseq.models.bert.bert_training import (
    PRETRAINING,
    PretrainingRows,
    fill,
    held_out_pairs,
    is_pretraining,
    pretraining_batches,
    refuse_pretraining,
)
from kerasseq.models.headed_model import (
    HeadedModel,
    can_truncate,
    check_truncate,
    copy_weights,
    plain_labels,
)
from kerasseq.models.text_blocks import known_ids
from kerasseq.positions.base import AttentionPosition
from kerasseq.published.architectures import Architecture, find
from kerasseq.tasks.fit_call import FitCall
from kerasseq.tasks.labels import Label
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.training import MaskedLMMaskGenerator
from kerasseq.transformer.global_tokens import check_attention, given

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
class BERT(HeadedModel):
    r"""An encoder of a text, or a pair, with a head for a task.

    $$x_0 = \mathrm{LayerNorm}(E_w + P + S), \qquad x_l = \mathrm{Block}_l(x_{l-1}),
    \qquad c = \tanh(W x_{L,[CLS]} + b)$$

    The inputs are "ids" and "segments", `(B, T)`: a text begins with [CLS], each
    sentence ends with [SEP], and [PAD] is padding; `fit`, `evaluate` and `predict` make
    them of texts. Pre-training also has "positions" `(B, P)`, those of the tokens to
    predict. The outputs are those of the head:

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
        max_sequence_length: The most tokens of a row.
        num_segments: Number of segments; None for no embedding of segments.
        dropout: Dropout rate.
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
        attention: "multi_head", "blockwise", "longformer", "reformer", "linformer" or
            "adaptive_span", of up to `max_sequence_length` tokens.
        sliding_window: A token attends to tokens at a distance below this only; 256 of
            "longformer" if None.
        global_tokens: Of "longformer": "first", which is [CLS]; ids of tokens; or None.
        position: Position encoding inside the attention, such as
            `layers.DisentangledPosition` of DeBERTa. All blocks share a copy of its
            table.
        embed_positions: Whether learned positions are added to the embeddings.
        use_query_key_value_bias: Whether queries, keys and values have biases;
            "query_value": not the keys, as in DeBERTa's first version.
        convolution_size: Width of a convolution beside the first block, as in DeBERTa
            v2 XL; None for none.
        **kwargs: `name` and `trainable`.

    Call arguments:
        global_mask: Boolean `(B, T)`, the global tokens of this call in place of
            `global_tokens`.

    Raises:
        TypeError: If an argument has the wrong type.
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
        Devlin et al. 2019; He et al. 2021 (DeBERTa). Slides A, D.
    """

    heads: dict[str | None, type[Head]] = HEADS
    preprocessor: BERTPreprocessor

    fit_options: tuple[str, ...] = ("missing", *PRETRAINING)
    evaluate_options: tuple[str, ...] = fit_options

    @checked_arguments(
        num_segments=optional(checks.size),
        head=among(*HEADS),
        activation=among(*ACTIVATIONS),
        pair_separators=among(1, 2),
        sliding_window=None,
    )
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
        num_segments: int | None = 2,
        dropout: float = 0.1,
        head: str | None = None,
        labels: int | Sequence[Label] | None = None,
        multi_label: bool = False,
        truncate: bool = False,
        special_ids: dict[str, int] | None = None,
        activation: str = "gelu_tanh",
        layer_norm_epsilon: float = 1e-12,
        pair_separators: int = 1,
        attention: str = "multi_head",
        sliding_window: int | None = None,
        global_tokens: str | Sequence[int] | None = None,
        position: AttentionPosition | None = None,
        embed_positions: bool = True,
        use_query_key_value_bias: bool | str = True,
        convolution_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        size = known_ids(tokenizer, vocabulary_size)
        task = HEADS[head](labels, multi_label)
        config = self._arguments | {
            "labels": plain_labels(task.labels),
            "multi_label": task.multi_label,
            "truncate": check_truncate(truncate, head),
            **check_attention(attention, sliding_window, global_tokens, size),
            **check_positions(
                *(position, embed_positions, use_query_key_value_bias),
                *(convolution_size, hidden_dim),
            ),
        }
        check_memory(config, vocabulary_size=size)
        preprocessor = BERTPreprocessor(
            tokenizer,
            special_ids,
            size,
            num_segments or 2,  # a pair has two, also where they are not embedded
            max_sequence_length,
            pair_separators,
            config["truncate"],
        )
        names = ["ids", "segments"] + ["positions"] * task.takes_positions
        inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in names}
        features = hidden_states(inputs, size, preprocessor.padding, config)
        super().__init__(inputs, features, preprocessor, task, config, **kwargs)
        self.vocabulary_size: int = size
        self.max_sequence_length = max_sequence_length

    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        mask: Any = None,
        global_mask: Tensor | None = None,
    ) -> Any:
        with given(self, global_mask):
            return super().call(inputs, training=training, mask=mask)

    def training_data(self, call: FitCall) -> Any:
        if is_pretraining(self, call.x, call.y):
            return PretrainingRows(self, call)
        refuse_pretraining(self, call)
        return super().training_data(call)

    def held_out_data(self, call: FitCall) -> Any:
        data = call.validation_data
        if is_pretraining(self, *(data if isinstance(data, tuple) else (data,))[:2]):
            return held_out_pairs(self, call)
        if is_pretraining(self, call.x, call.y):
            return data  # beside documents Keras reads arrays as they are
        refuse_pretraining(self, call)
        return super().held_out_data(call)

    def batches(
        self,
        x: Any,
        y: Any = None,
        *,
        sequence_length: int | None = None,
        masking: MaskedLMMaskGenerator | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        batch_size: int = 32,
        seed: int = 0,
        next_rate: float = 0.5,
    ) -> Any:
        """Returns the batches that `fit` trains on, for a training loop of your own.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            sequence_length: As for `fit`.
            masking: As for `fit`.
            class_weight: As for `fit`.
            batch_size: Rows in a batch.
            seed: Seed of order, pairs and masks.
            next_rate: To pre-train: share of pairs whose second sentence is the next.

        Returns:
            `batch(number)`, `stream(start)` and `steps_per_epoch`.
        """
        options = {"batch_size": batch_size, "seed": seed}
        if y is not None:
            self._check_head("batches")
            return super().batches(x, y, class_weight=class_weight, **options)
        options |= {"sequence_length": sequence_length, "masking": masking}
        return pretraining_batches(self, x, next_rate=next_rate, **options)

    def fill(
        self, text: str | tuple[str, str], k: int = 5
    ) -> list[list[tuple[str, float]]]:
        """Returns what may stand where a text has [MASK].

        Args:
            text: A text, or a pair of texts.
            k: How many tokens to name for each.

        Returns:
            For each [MASK] a list of `(token, probability)`, the best first.

        Raises:
            ValueError: If the head is another, or there is no [MASK].
        """
        self._check_head("fill", "pretraining", "tokens")
        return fill(self, text, k)

    def with_head(
        self,
        head: str | None,
        labels: int | Sequence[Label] | None = None,
        *,
        multi_label: bool = False,
        truncate: bool | None = None,
        dropout: float | None = None,
    ) -> Self:
        """Replaces the head. Layers of both models keep their weights.

        Args:
            head: One of the names above, or None.
            labels: For "classify" and "tag": names or number of the labels; None: `fit`
                learns the names.
            multi_label: For "classify": whether a text may have several labels.
            truncate: As before if None.
            dropout: As before if None.

        Returns:
            A new `BERT`.

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
        """Creates the model that a row of `models.architectures` describes.

        Args:
            architecture: A name, "bert_base" or "bert_large", or a row, such as
                `architectures["bert_base"].small()`.
            tokenizer: A fitted tokenizer; the vocabulary is its then.
            head: As for `BERT`, like the next five.
            labels: For "classify" and "tag".
            multi_label: For "classify".
            truncate: Whether a text that is too long is cut.
            special_ids: For a model without a tokenizer.
            dropout: Dropout rate.
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
