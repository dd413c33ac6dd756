import warnings

import numpy as np
import pytest

from kerasseq.training import (
    classification_report,
    confusion_matrix,
    multilabel_f1,
)

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

NAMES = ["oak", "ash", "elm", "fir", "yew"]


def draw(seed, size=97, classes=5):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, size)
    return true, np.where(rng.random(size) < 0.6, true, rng.integers(0, classes, size))


def assert_same(actual, expected):
    """Compares nested dictionaries of numbers."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_same(actual[name], value)
        else:
            assert actual[name] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 5])
def test_equals_scikit_learn(seed, classes):
    metrics = pytest.importorskip("sklearn.metrics")
    true, predicted = draw(seed, classes=classes)
    expected = metrics.classification_report(true, predicted, output_dict=True)
    assert_same(classification_report(true, predicted), expected)
    words = np.array(NAMES)
    texts = words[true], words[predicted]
    expected = metrics.classification_report(*texts, output_dict=True)
    assert_same(classification_report(*texts), expected)
    expected = metrics.confusion_matrix(true, predicted)
    np.testing.assert_array_equal(confusion_matrix(true, predicted), expected)
    expected = metrics.confusion_matrix(*texts, labels=NAMES)
    np.testing.assert_array_equal(confusion_matrix(*texts, NAMES), expected)


def test_classes_that_do_not_occur_equal_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    true, predicted = (
        [0, 0, 1, 3, 3, 3, 1],
        [0, 2, 1, 3, 2, 3, 3],
    )  # 4 never, 2 not true
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of quotients of 0 and 0
        expected = metrics.classification_report(
            true, predicted, labels=range(5), target_names=NAMES, output_dict=True
        )
    assert_same(classification_report(true, predicted, NAMES), expected)
    assert confusion_matrix(true, predicted, NAMES).shape == (5, 5)
    assert confusion_matrix(true, predicted).shape == (4, 4)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_several_labels_equal_scikit_learn(average):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    true, predicted = rng.integers(0, 2, (2, 31, 7))
    true[:, 3] = predicted[:, 3] = 0  # a label that never occurs
    expected = metrics.f1_score(true, predicted, average=average, zero_division=0)
    assert multilabel_f1(true, predicted, average) == pytest.approx(expected, abs=1e-12)
    assert multilabel_f1(true > 0, predicted.astype("float32"), average) == (
        pytest.approx(expected, abs=1e-12)
    )


def test_the_result_is_plain_data():
    import json

    report = classification_report(*draw(1), NAMES)
    assert json.loads(json.dumps(report)) == report


def test_kinds_of_labels():
    expected = classification_report([0, 1, 1], [1, 1, 1])
    signed, unsigned = np.int8([0, 1, 1]), np.uint64([1, 1, 1])
    assert classification_report(signed, unsigned) == expected
    flags = classification_report([False, True, True], [True, True, True])
    assert list(flags)[:2] == ["False", "True"]
    assert flags["True"] == expected["1"]
    objects = np.array(["ash", "elm"], object)
    assert classification_report(objects, ["ash", "elm"])["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("true", "predicted", "names", "error", "message"),
    [
        ([0, 1], [0], None, ValueError, r"same shape, received \(2,\) and \(1,\)"),
        ([], [], None, ValueError, "at least one label"),
        ([[0]], [[0]], None, ValueError, r"shape \(size,\).*received \(1, 1\).*argmax"),
        ([[0], [0, 1]], [0], None, ValueError, "`y_true` must have rows of one length"),
        ([0.5], [0], None, TypeError, "`y_true` must be whole numbers or strings"),
        ([0], ["a"], None, TypeError, "both be whole numbers or both strings"),
        ([0], [2], ["a", "b"], ValueError, r"`y_pred` .* 0 to 1, received 2 at 0"),
        ([-1], [1], ["a", "b"], ValueError, r"`y_true` .* received -1 at 0"),
        (["c"], ["a"], ["a"], ValueError, r"`y_true` .* received 'c' at 0"),
        ([0], [0], ["a", "a"], ValueError, "`names` must be different"),
        ([0], [0], [1], TypeError, "`names` must be strings, received 1"),
        ([0], [0], "a", TypeError, "`names` must be a list of strings"),
        ([0], [0], ["accuracy"], ValueError, "names of averages, received 'accuracy'"),
    ],
)
def test_invalid_labels(true, predicted, names, error, message):
    with pytest.raises(error, match=message):
        classification_report(true, predicted, names)


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([[0, 1]], [[0, 0.7]], "`y_pred` must be 0 or 1, .* probabilities > 0.5"),
        ([0, 1], [0, 1], r"`y_true` must have shape \(size, labels\)"),
        ([[0, 1]], [[0]], "same shape"),
    ],
)
def test_invalid_decisions(true, predicted, message):
    with pytest.raises(ValueError, match=message):
        multilabel_f1(true, predicted)
    with pytest.raises(ValueError, match='Did you mean "micro"'):
        multilabel_f1([[1]], [[1]], "mikro")
