r"""From attention weights to where a Transformer for images looked.

One layer says where from its vectors were gathered, and these were mixed by the layers
before. Rollout follows the attention through all layers,

$$
\bar A_l = \tfrac12 \left(\tfrac1N \sum_n A_l^n + I\right), \qquad
R = \bar A_L \cdots \bar A_2 \bar A_1
$$

where the identity stands for what the residual carries past the attention. Abnar and
Zuidema 2020.
"""

import numpy as np


def rollout(alignments):
    """R, how much of each token of the input is in each of the last layer.

    Args:
        alignments: A of each layer from the first to the last, `(B, N, T, T)`.

    Returns:
        `(B, T, T)`, whose rows sum to 1.

    Examples:
        >>> look_left = np.array([[1.0, 0.0], [1.0, 0.0]])[None, None]
        >>> rollout([look_left, look_left])[0].tolist()
        [[1.0, 0.0], [0.75, 0.25]]
    """
    R = np.eye(alignments[0].shape[-1])
    for A in alignments:
        R = (A.mean(axis=1) + np.eye(A.shape[-1])) / 2 @ R
    return R


def on_patches(A, grid, class_token):
    """What the pooled vector takes from each patch.

    Args:
        A: Weights `(B, T, T)`, queries in rows.
        grid: Rows and columns of patches.
        class_token: Whether the first token is that one, whose row is taken; else the
            mean of all rows.

    Returns:
        `(B, rows, columns)`; over all patches of an image it sums to 1.

    Examples:
        >>> A = np.array([[[0.5, 0.2, 0.3], [0, 1, 0], [0, 0, 1]]])
        >>> on_patches(A, (1, 2), class_token=True)[0].tolist()
        [[0.4, 0.6]]
    """
    looked = A[:, 0, 1:] if class_token else A.mean(axis=1)  # (B, patches)
    looked = looked / looked.sum(axis=1, keepdims=True)
    return looked.reshape(-1, *grid)
