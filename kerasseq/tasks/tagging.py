"""Labels of steps: answers, and tags as targets of the loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, overload

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Method
from kerasseq.tasks.data_checks import as_array, check_labels_of_rows
from kerasseq.tasks.fit_call import check_learned
from kerasseq.tasks.input_rows import number_of_rows
from kerasseq.tasks.labeled_data import for_complete_rows, inputs_of
from kerasseq.tasks.labels import Label, Labels, plain_list
from kerasseq.tasks.preprocessor import are_texts, are_words, is_one_sentence, sentences
from kerasseq.training.label_batches import Rows
from kerasseq.training.metrics import per_step

P = ParamSpec("P")


class TagMethod(Protocol[P]):
    """A method that returns tags for a text, and a list of them for lists of words."""

    @overload
    def __call__(
        self, text: str, /, *args: P.args, **kwargs: P.kwargs
    ) -> list[Label]: ...
    @overload
    def __call__(
        self, sentences: list[list[str]], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[list[Label]]: ...
    @overload  # strings are words or texts; arrays, columns; the argument by its name
    def __call__(
        self, *args: Any, **kwargs: Any
    ) -> list[Label] | list[list[Label]]: ...


def typed_tags(method: Method[P]) -> TagMethod[P]:
    """Tells type checkers what a method `tag` returns. It is not changed."""
    return method


def tag(
    model: Any,
    x: Any,
    *,
    batch_size: int,
    missing: str,
    best: Callable[[Sequence[np.ndarray], int], Sequence[np.ndarray]] | None = None,
) -> list[Label] | list[list[Label]]:
    """Finds the tags of rows, as `SequenceTagger.tag`.

    Args:
        model: A model with `scores_of`, a score for each tag at each step.
        x: One sequence of words, or several as for `fit`.
        batch_size: Rows that are processed at once.
        missing: "error" or "skip", as for `tag`.
        best: Function from scores `(time, tags)` of rows and the batch size to the
            indices of the best tags; the most probable tag of each step if None.
    """

    def tags_of(rows):
        names = check_learned(model).labels.names
        if number_of_rows(rows) == 0:
            return []
        if (batches := _batches_of(rows)) is not None:
            return [tags for batch in batches for tags in tags_of(batch)]
        scores = model.scores_of(rows, batch_size=batch_size, verbose=0)
        if isinstance(scores, np.ndarray):
            real = real_rows(model, rows, scores)
            scores = [row[: len(n)][n] for row, n in zip(scores, real, strict=True)]
        if best is None:
            indices = [row.argmax(axis=-1) for row in scores]
        else:
            indices = best(scores, batch_size)
        return [[names[n] for n in row] for row in indices]

    x = inputs_of(model, x)
    if is_one_sentence(x):
        return tags_of(sentences(x))[0]
    return for_complete_rows(model, tags_of, sentences(x), missing)


def real_rows(model: Any, x: Any, outputs: Sequence[Any]) -> Sequence[np.ndarray]:
    """Returns for each row of inputs which of its steps are not padding.

    Args:
        model: A model with `real_steps`.
        x: Rows of ids or vectors; or words, which have no padding.
        outputs: For each row something for each of its words.
    """
    if are_texts(x) or are_words(x):
        return [np.ones(len(row), bool) for row in outputs]
    if isinstance(x, list | tuple) and len({len(row) for row in x}) > 1:
        x = [np.asarray(row)[None] for row in x]  # of several lengths
        return [ops.convert_to_numpy(model.real_steps(row))[0] for row in x]
    x = x if isinstance(x, Mapping) or hasattr(x, "shape") else np.asarray(x)
    return ops.convert_to_numpy(model.real_steps(x))


def _batches_of(x):
    """Returns an iterator over the inputs of batches, as of `tf.data`, or None."""
    if isinstance(x, list | tuple | Mapping) or hasattr(x, "shape"):
        return None
    if isinstance(x, keras.utils.PyDataset):
        x = (x[number] for number in range(len(x)))
    # A batch may have labels and weights as well.
    return (batch[0] if isinstance(batch, tuple) else batch for batch in x)


def step_metrics(loss: Any, *metrics: Any) -> list[Any] | None:
    """Returns metrics that count the steps that have a tag, by their weights.

    Args:
        loss: The loss of the tags; None for the default.
        *metrics: Metrics, or None.

    Returns:
        The metrics; None for a loss of your own, whose outputs may be anything.
    """
    kind = keras.losses.SparseCategoricalCrossentropy
    is_default = loss in (None, "sparse_categorical_crossentropy")
    if not is_default and not isinstance(loss, kind):
        return None
    given = keras.tree.flatten(metrics)
    return [per_step(each) for each in given if each is not None]


def all_tags(y: Any) -> Any:
    """Returns the tags of some data, to learn the distinct ones.

    Examples:
        >>> all_tags(np.array([[2, -1], [0, 2]])).tolist()  # -1 is not counted
        [2, 0, 2]
    """
    if hasattr(y, "ndim") and y.dtype.kind in "iu":
        return y[y >= 0]
    return y


def row_targets(labels: Labels, rows: Rows, y: Any) -> tuple[Any, Any]:
    """Converts tags to indices, and returns them with the weights of the steps.

    Args:
        labels: The tags of the model.
        rows: The rows.
        y: For each row a list of tags; for arrays an array `(rows, steps)`, in which
            numbers below 0 are not counted.

    Returns:
        Indices and weights of 0 and 1, in the form of the rows; None for weights if
        all are 1.

    Raises:
        ValueError: If a tag is unknown, or their number or the shape is wrong.
    """
    if isinstance(rows.arrays, list):
        return tag_rows(labels, y, [len(row) for row in rows.arrays], rows.places)
    ids = rows.arrays["ids"] if isinstance(rows.arrays, dict) else rows.arrays
    if rows.places is not None:
        sizes = [ids.shape[1]] * len(ids)
        return tuple(map(np.stack, tag_rows(labels, y, sizes, rows.places)))
    steps = ids.shape[1] if rows.steps is None else rows.steps
    given, y = y, as_array(y)
    if y is None or y.shape != (len(ids), steps):
        raise ValueError(
            f"y must be an array of tags {(len(ids), steps)}, as x is, received "
            f"{checks.short(given)}"
        )
    y, known = tag_array(labels, y)
    end = (0, 0), (0, ids.shape[1] - steps)
    y, known = np.pad(y, end), np.pad(known, end)
    real = ids != rows.padding if len(ids.shape) == 2 else known | True
    return y, None if known[real].all() else known.astype("float32")


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
    rows, weights = [], []
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
        rows.append(indices)
        weights.append(weight)
    return rows, weights


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
