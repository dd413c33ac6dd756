"""How much scores would vary with another test set of the same size: the bootstrap."""

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.training.label_scores import check_same_shape, decisions, quotient

PART = 2**24  # counts that are drawn at a time


def bootstrap_f1(
    y_true: ArrayLike, y_pred: ArrayLike, *, samples: int = 1000, seed: int | None = 0
) -> np.ndarray:
    r"""Computes F1 of each label on samples of the test set, drawn with replacement.

    $$F_1^{(b)} = \frac{2 \sum_n w_n^{(b)} y_n \hat y_n}
    {\sum_n w_n^{(b)} (y_n + \hat y_n)}$$

    where $w_n^{(b)}$ is how often row n was drawn. Between the quantiles 0.025 and
    0.975 is the interval of 95 %. With the same seed all predictions of a test set are
    scored on the same samples, so that differences between two models can be compared.

    Args:
        y_true: 0 or 1, or False or True, of shape `(size, labels)`.
        y_pred: Predictions of the same shape.
        samples: Number of samples, each of `size` rows.
        seed: Random seed.

    Returns:
        Array `(samples, labels)`. Where a label is neither in the sample nor predicted,
        F1 is 0.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the shapes differ or are not `(size, labels)`, a value is neither
            0 nor 1, or `samples` is below 1.

    Examples:
        >>> y_true = np.array([[1], [0], [1], [1], [0], [1], [0], [1]])
        >>> y_pred = np.array([[1], [0], [1], [0], [1], [1], [0], [1]])
        >>> f1 = bootstrap_f1(y_true, y_pred)
        >>> f1.shape
        (1000, 1)
        >>> np.quantile(f1, [0.025, 0.975]).round(2).tolist()
        [0.44, 1.0]

    References:
        Efron 1979.
    """
    true, predicted = decisions("y_true", y_true), decisions("y_pred", y_pred)
    check_same_shape(true, predicted)
    samples = whole_number("samples", samples)
    rng = random_generator(seed)
    size = len(true)
    correct, both = 2.0 * (true & predicted), 1.0 * true + predicted
    scores = []
    for start in range(0, samples, max(1, PART // size)):
        count = min(samples - start, max(1, PART // size))
        weights = rng.multinomial(size, np.full(size, 1 / size), count)
        scores.append(quotient(weights @ correct, weights @ both))
    return np.concatenate(scores)
