"""Attention maps of a Vision Transformer over the patches of an image."""

import numpy as np


def patch_weights(
    A: np.ndarray, grid: tuple[int, int], class_token: bool
) -> np.ndarray:
    """The attention of the pooled vector to each patch.

    Args:
        A: Weights `(B, T, T)`, queries in rows.
        grid: Rows and columns of patches.
        class_token: Whether the first token is a class token, whose row is used. If
            not, the mean of all rows is used.

    Returns:
        `(B, rows, columns)`; over all patches of an image it sums to 1.

    Examples:
        >>> A = np.array([[[0.5, 0.2, 0.3], [0, 1, 0], [0, 0, 1]]])
        >>> patch_weights(A, (1, 2), class_token=True)[0].tolist()
        [[0.4, 0.6]]
    """
    weights = A[:, 0, 1:] if class_token else A.mean(axis=1)  # (B, patches)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights.reshape(-1, *grid)
