"""`label_report` equals scikit-learn, for one label, several, and tags."""

import numpy as np
import pytest

from kerasseq.training import entity_scores, label_report

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

NAMES = ["oak", "ash", "elm", "fir"]


def drawn(seed, size=53):
    rng = np.random.default_rng(seed)
    true = rng.choice(NAMES[:3], size)  # fir is predicted only
    return true, np.where(rng.random(size) < 0.6, true, rng.choice(NAMES, size))


def close(row):
    return {name: pytest.approx(value, abs=1e-12) for name, value in row.items()}


@pytest.mark.parametrize("given", [list, np.array])
def test_one_label_equals_scikit_learn(given):
    metrics = pytest.importorskip("sklearn.metrics")
    true, predicted = map(given, drawn(0))
    report = label_report(true, predicted, NAMES)
    expected = metrics.classification_report(
        true, predicted, labels=NAMES, output_dict=True, zero_division=0
    )
    expected["accuracy"] = metrics.accuracy_score(true, predicted)
    micro = metrics.precision_recall_fscore_support(true, predicted, average="micro")
    for name in (*NAMES, "macro avg", "weighted avg"):
        assert report.scores[name] == close(expected[name])
    assert [*report.scores["micro avg"].values()][:3] == pytest.approx(micro[:3])
    assert report.accuracy == pytest.approx(expected["accuracy"])
    counts = metrics.confusion_matrix(true, predicted, labels=NAMES)
    np.testing.assert_array_equal(report.confusion, counts)
    table = [line.split() for line in str(report).splitlines()]
    assert [row[0] for row in table[1:5]] == NAMES and report.entities is None
    assert float(table[1][2]) == pytest.approx(report.scores["oak"]["recall"], abs=6e-4)


def test_averages_are_of_the_labels_that_occur():
    metrics = pytest.importorskip("sklearn.metrics")
    true, predicted = ["b", "b", "d", "d", "b"], ["b", "d", "d", "c", "b"]
    report = label_report(true, predicted, ["a", "b", "c", "d", "e"])
    expected = metrics.classification_report(
        true, predicted, output_dict=True, zero_division=0
    )
    for name in ("b", "c", "d", "macro avg", "weighted avg"):
        assert report.scores[name] == close(expected[name])
    assert report.scores["a"]["support"] == 0


def test_several_labels_equal_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    true = (rng.random((41, 4)) < 0.4).astype(int)
    predicted = np.where(rng.random(true.shape) < 0.8, true, 1 - true)
    true[:, 3] = 0  # a label without rows
    sets = [[[NAMES[n] for n in np.flatnonzero(row)] for row in each]
            for each in (true, predicted)]  # fmt: skip
    report = label_report(*sets, NAMES, multi_label=True)
    expected = metrics.classification_report(
        true, predicted, target_names=NAMES, output_dict=True, zero_division=0
    )
    for name in (*NAMES, "micro avg", "macro avg", "weighted avg"):
        assert report.scores[name] == close(expected[name])
    matrices = metrics.multilabel_confusion_matrix(true, predicted)
    np.testing.assert_array_equal(report.confusion, matrices)
    assert report.accuracy == pytest.approx(metrics.accuracy_score(true, predicted))


def test_tags_and_entities():
    true = [["B-X", "I-X", "O"], ["B-Y"]]
    found = [["B-X", "O", "O"], ["B-Y"]]
    report = label_report(true, found)
    assert report.entities == entity_scores(true, found)
    assert report.accuracy == 3 / 4 and report.labels == ["B-X", "B-Y", "I-X", "O"]
    assert report.confusion.sum() == 4
    assert str(report).count("micro avg") == 2
    assert label_report([["A", "O"]], [["O", "O"]]).entities is None


def test_names_of_any_kind():
    report = label_report([1, 2, 2], [1, 2, 9], [1, 2])
    assert report.labels == ["1", "2", "9"]
    assert report.scores["9"]["precision"] == 0
    assert label_report([1, "1"], ["1", "1"]).labels == ["1", "'1'"]
    with pytest.raises(ValueError, match="same number of rows.*2 and 1"):
        label_report(["a", "b"], ["a"])
