"""What BERT does with texts: training on them, answers in their form."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.models.bert.bert_heads import HEADS, Head
from kerasseq.models.bert.fine_tuning import FineTuningMixin
from kerasseq.training import MaskedLMMaskGenerator, MaskedPairs, SentencePairs
from kerasseq.training.batches import fit_arguments
from kerasseq.training.label_batches import TrimmedBatches


class BERTTrainingMixin(FineTuningMixin):
    """What BERT's heads do with texts, and how it is trained without labels."""

    heads: dict[str | None, type[Head]] = HEADS

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        sequence_length: int | None = None,
        masking: MaskedLMMaskGenerator | None = None,
        batch_size: int = 32,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        sample_weight: Any = None,
        missing: str = "error",
        seed: int = 0,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train on texts.

        Args:
            x: To pre-train, documents: a list of lists of sentences, each a text or
                ids. For the other heads a list of texts or of pairs of texts, as
                tuples; for tags, texts with spaces between words, or lists of words.
                Texts may also be an array of strings, a column of a table, two for
                pairs, or a `tf.data` set of strings with labels. Ids in the place of
                texts, as lists or as an array `(rows, time)`, are taken as they are:
                marks are among them, then. Anything else, such as a stream of batches,
                goes to `keras.Model.fit` as it is.
            y: Labels. To classify, one for each text, with `multi_label` a list for
                each. For tags, one for each word, or with ids
                one for each id, where -1 does not count. For spans, pairs of places of
                characters in the last text, such that `text[start:end]` is the answer,
                or None if there is none; with ids, first and last place `(rows, 2)`.
            sequence_length: To pre-train: ids in a row; `max_sequence_length` if None.
            masking: To pre-train: a `training.MaskedLMMaskGenerator`; that of the paper
                if None.
            batch_size: Rows in a batch.
            epochs: Last epoch; an epoch is a pass, or `steps_per_epoch`.
            initial_epoch: Number of epochs trained before.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            validation_split: Fraction of the labeled texts, from the end, for
                validation.
            validation_data: Other documents, or a pair `(x, y)`.
            class_weight: Weight of each label in the loss, by label; "balanced" gives
                all labels the same share.
            sample_weight: Weight of each text.
            missing: "skip" drops labeled rows that have an empty cell (None, NaN, or a
                text, word or label ""), and warns with their number; by default they
                are an error.
            seed: Seed of the order, and to pre-train of pairs and masks.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If a text or label is of the wrong kind.
            ValueError: If the model has no head, a text is longer than it reads, or an
                id or label is out of range.
        """
        self._check_head("fit")
        shared = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        pretraining = {"sequence_length": sequence_length, "masking": masking}
        if _is_documents(x, y) and self.head == "pretraining":
            batches = self.batches(x, batch_size=batch_size, seed=seed, **pretraining)
            if _is_documents(validation_data, None):
                validation_data = self.batches(validation_data, **pretraining).all()
            shared = {"validation_batch_size": batch_size, **shared}
            shared["validation_data"] = validation_data
            return super().fit(**fit_arguments(batches, steps_per_epoch, shared))
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            validation_split=validation_split,
            validation_data=validation_data,
            class_weight=class_weight,
            sample_weight=sample_weight,
            missing=missing,
            seed=seed,
            **shared,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        *,
        sequence_length: int | None = None,
        masking: MaskedLMMaskGenerator | None = None,
        **kwargs: Any,
    ) -> Any:
        """Measure, as `keras.Model.evaluate` does, on texts as for `fit`.

        Args:
            x: As for `fit`, like the next three.
            y: Labels.
            sequence_length: To pre-train.
            masking: To pre-train.
            **kwargs: As for `keras.Model.evaluate`.

        Returns:
            What Keras returns.
        """
        if not (_is_documents(x, y) and self.head == "pretraining"):
            return super().evaluate(x, y, **kwargs)
        options = {"sequence_length": sequence_length, "masking": masking}
        x, y, weights = self.batches(x, **options).all()
        return keras.Model.evaluate(self, x, y, sample_weight=weights, **kwargs)

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
    ) -> MaskedPairs | TrimmedBatches:
        """The batches that `fit` trains on, for a loop of one's own.

        Args:
            x: As for `fit`, like all that follow: documents, or texts with labels.
            y: Labels.
            sequence_length: To pre-train: ids in a row.
            masking: To pre-train: a `training.MaskedLMMaskGenerator`.
            class_weight: With labels: the weight of each.
            batch_size: Rows in a batch.
            seed: Seed of order, pairs and masks.
            next_rate: To pre-train: fraction of the pairs whose second sentence
                follows the first.

        Returns:
            An object with `batch(number)` and `stream(start)`, which give inputs,
            labels and weights, and with `steps_per_epoch`.
        """
        if y is not None:
            options = {"class_weight": class_weight, "batch_size": batch_size}
            return super().batches(x, y, seed=seed, **options)
        reader, length = self.reader, sequence_length or self.max_sequence_length
        if length > self.max_sequence_length:
            raise ValueError(
                f"sequence_length={length} is more than the model reads, "
                f"max_sequence_length={self.max_sequence_length}"
            )
        if masking is None:
            masking = MaskedLMMaskGenerator(
                vocabulary_size=self.vocabulary_size,
                mask_token_id=reader.special_ids["[MASK]"],
                unselectable_token_ids=reader.never_masked(),
                seed=seed,
            )
        pairs = SentencePairs(
            reader.documents(x),
            reader.start,
            reader.end,
            reader.padding,
            sequence_length=length,
            batch_size=batch_size,
            seed=seed,
            next_rate=next_rate,
        )
        return MaskedPairs(pairs, masking)

    def fill(
        self, text: str | tuple[str, str], k: int = 5
    ) -> list[list[tuple[str, float]]]:
        """What may stand where a text has [MASK].

        Args:
            text: A text, or a pair of texts.
            k: How many tokens to name for each.

        Returns:
            For each [MASK] a list of `(token, probability)`, the best first.

        Raises:
            ValueError: If the head is another, or there is no [MASK].
        """
        self._check_head("fill", "pretraining", "tokens")
        checks.whole_number("k", k)
        arrays = self.reader.read([text]).arrays
        places = np.flatnonzero(arrays["ids"][0] == self.reader.special_ids["[MASK]"])
        if not len(places):
            raise ValueError(f"the text has no [MASK] to fill: {text!r}")
        asked = {**arrays, "positions": places[None].astype("int32")}
        logits = self.scores_of(asked, verbose=0)["tokens"][0]
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        vocabulary = self.tokenizer.vocabulary
        best = np.argsort(-p, axis=-1)[:, :k]
        return [
            [(vocabulary[i], float(row[i])) for i in ids]
            for row, ids in zip(p, best, strict=True)
        ]


def _is_documents(x: Any, y: Any) -> bool:
    """Whether these are lists of sentences."""
    return y is None and isinstance(x, list) and len(x) > 0 and isinstance(x[0], list)
