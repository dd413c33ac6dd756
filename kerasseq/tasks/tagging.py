"""Taggers: `TaggerMixin`, and tags as targets of the loss."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.tasks import text_inputs
from kerasseq.tasks.data_checks import check_labels_of_rows
from kerasseq.tasks.input_rows import number_of_rows
from kerasseq.tasks.labeled import LabelsMixin, check_learned
from kerasseq.tasks.labels import Label, Labels, plain_list
from kerasseq.training.metrics import per_step


class TaggerMixin(LabelsMixin):
    """`tag` of a model whose outputs are a score for each tag at each step."""

    padding_id: int  # of arrays of ids

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training, as for every model of a task.

        Metrics count the steps that have a tag, with their sample weights: neither
        padding nor further tokens of a word.
        """
        if self.per_step and _is_of_indices(loss):
            given = keras.tree.flatten([metrics, weighted_metrics])
            metrics = []
            weighted_metrics = [per_step(each) for each in given if each is not None]
        super().compile(
            optimizer,
            loss,
            loss_weights,
            metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )

    def real_steps(self, x: Any) -> Tensor:
        """Returns which steps of a batch of inputs are not padding, `(B, T)`."""
        ids = x["ids"] if isinstance(x, Mapping) else keras.tree.flatten(x)[0]
        return ops.not_equal(ids, self.padding_id)

    def _step_weights(self, x, sample_weight):
        """The weight of each step, 0 at padding.

        Masks of outputs are no substitute: on JAX they are lost in a training step.
        """
        if x is None or not self.per_step:
            return sample_weight
        real = ops.cast(self.real_steps(x), "float32")
        if sample_weight is None:
            return real
        weight = ops.cast(sample_weight, "float32")
        return real * (weight[:, None] if len(weight.shape) == 1 else weight)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss; that of padding is 0."""
        sample_weight = self._step_weights(x, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the metrics, in which padding does not count."""
        sample_weight = self._step_weights(x, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def tag(
        self, x: Any, *, batch_size: int = 32, missing: str = "error"
    ) -> list[Label] | list[list[Label]]:
        """Finds the most probable tags.

        Args:
            x: A list of words, or a text, which is split at spaces; or several of them;
                or inputs as for `fit`.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.

        Returns:
            A list of tags for one sequence of words, else a list of lists; None for
            rows that are left out. Padding, wherever it is, has no tag.

        Raises:
            ValueError: If cells are empty.

        Examples:
            >>> from kerasseq.models import SequenceTagger
            >>> from kerasseq.text import WordTokenizer
            >>> tokenizer = WordTokenizer().fit("the cat sat")
            >>> model = SequenceTagger("gru", ["DET", "NOUN"], tokenizer=tokenizer)
            >>> [len(tags) for tags in model.tag(["the cat sat", "the cat"])]
            [3, 2]
        """
        x = self.labeled_inputs(x, None)[0]
        sentences = self.several(x)
        if _is_one_sentence(x):
            return self._tags(sentences, batch_size)[0]
        return self.for_complete_rows(
            lambda rows: self._tags(rows, batch_size), sentences, missing
        )

    def _tags(self, x, batch_size):
        """The tags of several rows."""
        names = check_learned(self._labels).names
        if number_of_rows(x) == 0:
            return []
        if (batches := _batches_of(x)) is not None:
            found = [self._tags(batch, batch_size) for batch in batches]
            return [tags for batch in found for tags in batch]
        scores = self.scores_of(x, batch_size=batch_size, verbose=0)
        if isinstance(scores, np.ndarray):
            real = self.real_rows(x, scores)
            scores = [row[: len(n)][n] for row, n in zip(scores, real, strict=True)]
        found = self.best_tags(scores, batch_size)
        return [[names[n] for n in row] for row in found]

    def several(self, x: Any) -> Any:
        """Returns texts as lists of words, one sentence in a list; others as they are.

        Args:
            x: As for `tag`.
        """
        if isinstance(x, str):
            return [x.split()]
        if _is_one_sentence(x):
            return [list(x)]
        rows = x if isinstance(x, list | tuple) or text_inputs.are_texts(x) else ()
        has_texts = any(isinstance(row, str) for row in rows)
        return [_words(row) for row in rows] if has_texts else x

    def real_rows(self, x: Any, found: Sequence[Any]) -> Sequence[np.ndarray]:
        """Returns for each row of inputs which of its steps are not padding.

        Args:
            x: Rows of ids or vectors; or words, which have no padding.
            found: For each row something for each of its words.
        """
        if text_inputs.are_texts(x) or text_inputs.are_words(x):
            return [np.ones(len(row), bool) for row in found]
        if isinstance(x, list | tuple) and len({len(row) for row in x}) > 1:
            x = [np.asarray(row)[None] for row in x]  # of several lengths
            return [ops.convert_to_numpy(self.real_steps(row))[0] for row in x]
        x = x if isinstance(x, Mapping) or hasattr(x, "shape") else np.asarray(x)
        return ops.convert_to_numpy(self.real_steps(x))

    def best_tags(
        self, scores: Sequence[np.ndarray], batch_size: int
    ) -> Sequence[np.ndarray]:
        """Returns the indices of the most probable tags, for scores `(time, tags)`."""
        return [row.argmax(axis=-1) for row in scores]


def _is_one_sentence(x):
    """Whether this is a text, or a list of words: strings without spaces."""
    if isinstance(x, str):
        return True
    return text_inputs.are_texts(x) and all(map(_is_word, x))


def _is_word(text):
    return isinstance(text, str) and " " not in text.strip()


def _words(row):
    """The words of a text; other rows as they are."""
    return row.split() if isinstance(row, str) else row


def _is_of_indices(loss):
    """Whether a loss takes tags as indices, as the default does."""
    kind = keras.losses.SparseCategoricalCrossentropy
    return loss in (None, "sparse_categorical_crossentropy") or isinstance(loss, kind)


def _batches_of(x):
    """The inputs of each batch of a `tf.data` set, for example; None for arrays."""
    if isinstance(x, list | tuple | Mapping) or hasattr(x, "shape"):
        return None
    if isinstance(x, keras.utils.PyDataset):
        x = (x[number] for number in range(len(x)))
    # A batch may have labels and weights as well.
    return (batch[0] if isinstance(batch, tuple) else batch for batch in x)


def all_tags(y: Any) -> Any:
    """Returns the tags of some data, to learn the distinct ones.

    Examples:
        >>> all_tags(np.array([[2, -1], [0, 2]])).tolist()  # -1 is not counted
        [2, 0, 2]
    """
    if hasattr(y, "ndim") and y.dtype.kind in "iu":
        return y[y >= 0]
    return y


def tag_rows(
    labels: Labels,
    y: Any,
    sizes: Sequence[int],
    first: Sequence[np.ndarray] | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Converts the tags of rows to indices, and returns them with weights of 0 and 1.

    Args:
        labels: The tags of the model.
        y: For each row a list of tags.
        sizes: Number of ids of each row.
        first: For rows of words, the index of the id that each word's tag belongs to;
            other ids have the weight 0. None if each id has a tag.

    Raises:
        ValueError: If a tag is unknown, or there are not as many as words.

    Examples:
        >>> labels = Labels(["A", "B"])
        >>> y, weights = tag_rows(labels, [["B", "A"]], [3], [np.array([0, 2])])
        >>> y[0].tolist(), weights[0].tolist()
        ([1, 0, 0], [1.0, 0.0, 1.0])
    """
    check_labels_of_rows(y, len(sizes))
    found, weights = [], []
    for n, (size, tags) in enumerate(zip(sizes, y, strict=True)):
        places = np.arange(size) if first is None else first[n]
        tags = plain_list(tags, f"y[{n}]")
        if len(tags) != len(places):
            what = "ids" if first is None else "words"
            raise ValueError(
                f"y[{n}] must have a tag for each of {len(places)} {what}, "
                f"received {len(tags)} tags"
            )
        indices, weight = np.zeros(size, "int32"), np.zeros(size, "float32")
        indices[places] = labels.encode(tags, f"y[{n}]")
        weight[places] = 1
        found.append(indices)
        weights.append(weight)
    return found, weights


def tag_array(labels: Labels, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Converts an array of tags to indices; numbers below 0 are not counted.

    Returns:
        int32 indices, and whether each tag is counted, in the shape of `y`.

    Examples:
        >>> y, known = tag_array(Labels(3), np.array([[2, -1]]))
        >>> y.tolist(), known.tolist()
        ([[2, 0]], [[True, False]])
    """
    known = np.ones(y.shape, bool)
    if y.dtype.kind in "iu":
        known = y >= 0
        y = np.where(known, y, labels.names[0])
    return labels.encode(y.reshape(-1)).reshape(y.shape), known


def weighted_tags(
    labels: Labels,
    y: Any,
    weights: Any,
    class_weight: str | Mapping[Any, float] | None,
) -> Any:
    """Returns the weights of steps times those of their tags.

    Args:
        labels: The tags of the model.
        y: Indices of tags: an array, or a list of rows.
        weights: The weights of the steps in the same form; None if all are 1.
        class_weight: As for `fit`. "balanced" counts steps with a weight only.
    """
    if class_weight is None:
        return weights
    if not isinstance(y, list):
        weights = np.ones(y.shape, "float32") if weights is None else weights
        return labels.weights(class_weight, y[weights > 0])[y] * weights
    counted = [tags[weight > 0] for tags, weight in zip(y, weights, strict=True)]
    factors = labels.weights(class_weight, np.concatenate(counted))
    return [factors[tags] * weight for tags, weight in zip(y, weights, strict=True)]
