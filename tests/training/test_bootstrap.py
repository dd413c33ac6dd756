import numpy as np
import pytest

from kerasseq.training import bootstrap_f1

pytestmark = pytest.mark.once("computed by NumPy")


def predictions(size=29, labels=3, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 2, (size, labels))
    return true, np.where(rng.random((size, labels)) < 0.3, 1 - true, true)


def test_equals_its_definition():
    """F1 of rows that are drawn with replacement, by scikit-learn."""
    metrics = pytest.importorskip("sklearn.metrics")
    true, predicted = predictions()
    found = bootstrap_f1(true, predicted, samples=7, seed=5)
    weights = np.random.default_rng(5).multinomial(29, np.full(29, 1 / 29), 7)
    assert found.shape == (7, 3)
    for counts, scores in zip(weights, found, strict=True):
        assert counts.sum() == 29
        rows = np.repeat(np.arange(29), counts)
        expected = metrics.f1_score(
            true[rows], predicted[rows], average=None, zero_division=0
        )
        np.testing.assert_allclose(scores, expected)


def test_interval_has_the_width_of_theory():
    """With precision 1, F1 is a function of recall, whose variance is known."""
    true = np.ones((400, 1), int)
    predicted = (np.arange(400) < 300).astype(int)[:, None]
    f1 = bootstrap_f1(true, predicted, samples=4000)[:, 0]
    recall = f1 / (2 - f1)
    assert abs(recall.mean() - 0.75) < 0.002
    assert abs(recall.std() / np.sqrt(0.75 * 0.25 / 400) - 1) < 0.05


def test_same_seed_same_samples_in_parts(monkeypatch):
    true, predicted = predictions()
    whole = bootstrap_f1(true, predicted, samples=11)
    monkeypatch.setattr("kerasseq.training.bootstrap.PART", 29 * 3)
    np.testing.assert_array_equal(bootstrap_f1(true, predicted, samples=11), whole)
    assert (bootstrap_f1(true, predicted, samples=11, seed=1) != whole).any()


def test_label_that_does_not_occur():
    true, predicted = np.array([[0, 1], [0, 1]]), np.array([[0, 1], [0, 1]])
    assert bootstrap_f1(true, predicted, samples=3).tolist() == [[0.0, 1.0]] * 3


def test_wrong_arguments():
    true, predicted = predictions()
    with pytest.raises(ValueError, match="same shape"):
        bootstrap_f1(true, predicted[:3])
    with pytest.raises(ValueError, match="`y_pred` must be 0 or 1"):
        bootstrap_f1(true, predicted + 0.5)
    with pytest.raises(ValueError, match="`?samples`? must be"):
        bootstrap_f1(true, predicted, samples=0)
