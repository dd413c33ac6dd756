r"""Attention maps of a Vision Transformer over the patches of an image.

The weights of one layer refer to its inputs, which earlier layers have mixed. Attention
rollout follows the attention through all layers,

$$
\bar A_l = \tfrac12 \left(\tfrac1N \sum_n A_l^n + I\right), \qquad
R = \bar A_L \cdots \bar A_2 \bar A_1
$$

where the identity stands for the residual connection. Abnar and Zuidema 2020.
"""

from collections.abc import Sequence

import numpy as np


def rollout(alignments: Sequence[np.ndarray]) -> np.ndarray:
    """R, the share of each input token in each token of the last layer.

    Args:
        alignments: Attention weights A of each layer, first to last, `(B, N, T, T)`.

    Returns:
        `(B, T, T)`, whose rows sum to 1.

    Examples:
        >>> attend_left = np.array([[1.0, 0.0], [1.0, 0.0]])[None, None]
        >>> rollout([attend_left, attend_left])[0].tolist()
        [[1.0, 0.0], [0.75, 0.25]]
    """
    R = np.eye(alignments[0].shape[-1])
    for A in alignments:
        R = (A.mean(axis=1) + np.eye(A.shape[-1])) / 2 @ R
    return R


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
