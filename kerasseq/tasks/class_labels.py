"""The labels that a model finds for whole rows, with their probabilities."""

from typing import Any, NamedTuple

from kerasseq.core import checks
from kerasseq.core.table import Table
from kerasseq.tasks.labeled_data import for_complete_rows
from kerasseq.tasks.labels import Label


class Classification(NamedTuple):
    """The class of one input.

    Attributes:
        label: The most probable label; for several labels at once, the list of those
            with a probability of at least the threshold.
        probability: Its probability; for several labels, that of each in `label`.
        probabilities: The probability of each label.
    """

    label: Any
    probability: Any
    probabilities: dict[Label, float]

    def _repr_html_(self) -> str:
        rows = [(str(name), f"{p:.3f}") for name, p in self.probabilities.items()]
        return Table(rows, ("label", "probability")).html()


def classify(
    model: Any, x: Any, *, threshold: float, batch_size: int, missing: str
) -> Classification | list[Classification]:
    """Finds the labels of rows, as `SequenceClassifier.classify`.

    Args:
        model: A model with `scores_of`, a score for each label.
        x: One input, or several as for `fit`.
        threshold: With several labels at once: the least probability of a label.
        batch_size: Rows that are processed at once.
        missing: "error" or "skip", as for `classify`.
    """
    threshold = checks.fraction("threshold", threshold)

    def classified(rows):
        outputs = model.scores_of(rows, batch_size=batch_size, verbose=0)
        p = model.probabilities(outputs).tolist()
        return [_classification(model, row, threshold) for row in p]

    if model.preprocessor.is_one(x):
        return classified(model.preprocessor.several(x))[0]
    return for_complete_rows(model, classified, x, missing)


def _classification(model, row, threshold):
    p = dict(zip(model.labels, row, strict=True))
    if not model.multi_label:
        label = max(p, key=p.get)
        return Classification(label, p[label], p)
    chosen = [label for label in p if p[label] >= threshold]
    return Classification(chosen, [p[label] for label in chosen], p)
