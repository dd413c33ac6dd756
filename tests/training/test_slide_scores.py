"""The scores that slides E print, from our formulas."""

import pathlib
import tomllib

import pytest

from kerasseq.training.label_scores import by_class

pytestmark = pytest.mark.once("computed by NumPy")

TABLE = pathlib.Path(__file__).with_name("slide_scores.toml")
SCORES = tomllib.loads(TABLE.read_text(encoding="utf-8"))
LABELS, SUPPORT = SCORES.pop("labels"), SCORES.pop("support")


@pytest.mark.parametrize("learner", SCORES)
def test_f1_follows_from_precision_and_recall(learner):
    printed = SCORES[learner]
    rows = list(zip(*(printed[k] for k in ("precision", "recall", "f1")), strict=True))
    assert len(rows) == len(LABELS) == len(SUPPORT) == 11
    assert len(SCORES) == 9
    correct = [round(r * n) for (_, r, _), n in zip(rows, SUPPORT, strict=True)]
    found = [
        round(c / p) if p else 0 for (p, _, _), c in zip(rows, correct, strict=True)
    ]
    ours = by_class(LABELS, correct, found, SUPPORT)
    for label, (precision, recall, f1) in zip(LABELS, rows, strict=True):
        expected = precision and 2 * precision * recall / (precision + recall)
        assert abs(expected - f1) <= 0.01, label
        assert abs(ours[label]["f1-score"] - f1) <= 0.01, label
        assert abs(ours[label]["recall"] - recall) <= 0.01, label
