"""The report of a model with labels: true labels beside those that it finds."""

from typing import Any

import numpy as np

from kerasseq.tasks.data_checks import check_labels_of_rows
from kerasseq.tasks.labels import plain_list
from kerasseq.tasks.preprocessor import sentences
from kerasseq.tasks.tagging import real_rows
from kerasseq.training.label_reports import LabelReport, label_report


def report(
    model: Any, x: Any, y: Any, *, threshold: float, batch_size: int
) -> LabelReport:
    """Evaluates a model label by label, as `SequenceClassifier.report`.

    Args:
        model: A model with `tag`, or with `classify`.
        x: Inputs.
        y: Their labels.
        threshold: With several labels at once: the least probability of a label.
        batch_size: Rows that are processed at once.
    """
    if y is None:
        raise ValueError("expected labels y for the inputs, received y=None")
    x = model.preprocessor.several(x)
    if model.per_step:
        x = sentences(x)
        true, predicted = _tags(model, x, y, model.tag(x, batch_size=batch_size))
    else:
        predicted = model.classify(x, threshold=threshold, batch_size=batch_size)
        check_labels_of_rows(y, len(predicted))
        true, predicted = _labels(model, y), [each.label for each in predicted]
    return label_report(true, predicted, model.labels, multi_label=model.multi_label)


def _labels(model, y):
    """Returns the labels of each input, checked; sets of labels as lists."""
    labels, names = model.task.labels, model.labels
    if not model.multi_label:
        return [names[n] for n in labels.encode(y)]
    return [[names[n] for n in np.flatnonzero(row)] for row in labels.encode_sets(y)]


def _tags(model, x, y, predicted):
    """Returns true and predicted tags at steps with a label: not below 0 or padding."""
    check_labels_of_rows(y, len(predicted))
    is_array, labels = hasattr(y, "ndim"), model.task.labels
    true, kept, real = [], [], real_rows(model, x, predicted)
    for row, (tags, best) in enumerate(zip(y, predicted, strict=True)):
        steps = real[row]
        tags = plain_list(tags, f"y[{row}]")[: len(steps) if is_array else None]
        if len(tags) == len(steps):
            tags = [tag for tag, is_one in zip(tags, steps, strict=True) if is_one]
        if len(tags) != len(best):
            raise ValueError(
                f"y[{row}] must have {len(best)} tags, received {len(tags)}"
            )
        known = [n for n, tag in enumerate(tags) if not _is_ignored(tag)]
        indices = labels.encode([tags[n] for n in known], f"y[{row}]")
        true.append([labels.names[n] for n in indices])
        kept.append([best[n] for n in known])
    return true, kept


def _is_ignored(tag):
    """Returns whether a tag is a number below 0, which no label is."""
    return isinstance(tag, int) and tag < 0
