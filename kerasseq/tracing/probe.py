r"""A linear probe: how well a class can be read off a vector.

$$
\hat k = \arg\max_k \; w_k \cdot \tilde v + b_k, \qquad
W = (\tilde V^\top \tilde V + \lambda I)^{-1} \tilde V^\top (Y - \bar Y)
$$

with standardized vectors $\tilde v$ and one column of Y for each class: ridge
regression, which has a closed form and needs no choice of steps.

Alain and Bengio 2016, "Understanding intermediate layers using linear classifier
probes".
"""

import numpy as np

RIDGE = 1.0  # λ


def probe_accuracy(
    vectors: np.ndarray,
    labels: np.ndarray,
    test_vectors: np.ndarray,
    test_labels: np.ndarray,
) -> float:
    """Trains a linear probe, and returns its accuracy on other vectors.

    Args:
        vectors: `(n, D)`.
        labels: Class of each, `(n,)`.
        test_vectors: `(m, D)`.
        test_labels: `(m,)`.

    Examples:
        >>> V = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [1.0, 2.0]])
        >>> k = np.array(["a", "b", "a", "b"])
        >>> probe_accuracy(V, k, V, k), probe_accuracy(V[:, 1:], k, V[:, 1:], k)
        (1.0, 0.5)
    """
    V = np.asarray(vectors, "float64")
    mean, deviation = V.mean(axis=0), V.std(axis=0)
    # A feature that is constant but for rounding tells nothing.
    scale = np.where(deviation > 1e-6 * (1 + np.abs(mean)), 1 / (deviation + 1e-12), 0)
    V = (V - mean) * scale
    classes, index = np.unique(labels, return_inverse=True)
    Y = np.eye(len(classes))[index]
    b = Y.mean(axis=0)
    W = np.linalg.solve(V.T @ V + RIDGE * np.eye(V.shape[1]), V.T @ (Y - b))
    new = (np.asarray(test_vectors, "float64") - mean) * scale
    # Not a product of matrices: equal vectors must get equal scores, to the last bit.
    scores = np.stack([np.sum(new * w, axis=1) for w in W.T], axis=1) + b
    return float(np.mean(classes[scores.argmax(axis=1)] == np.asarray(test_labels)))
