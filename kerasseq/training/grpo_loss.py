"""The equations of group relative policy optimization: advantages, and the loss.

Shao et al. 2024, equations 3 and 4.
"""

import numpy as np
from keras import ops

from kerasseq.core.types import Tensor


def advantages(rewards: np.ndarray, group: int, scale: bool) -> np.ndarray:
    r"""Compares each reward with the others of its group.

    $$A_i = \frac{r_i - \mathrm{mean}(r)}{\mathrm{std}(r) + 10^{-4}}$$

    with the deviation of a sample, whose divisor is G - 1, as in the package trl.

    Args:
        rewards: `(B G,)`.
        group: G, the number of answers to a prompt.
        scale: Whether to divide.

    Examples:
        >>> advantages(np.array([1.0, 3.0, 5.0, 5.0]), 2, False).tolist()
        [-1.0, 1.0, 0.0, 0.0]
        >>> advantages(np.array([1.0, 3.0]), 2, True).round(3).tolist()
        [-0.7070000171661377, 0.7070000171661377]
    """
    r = rewards.reshape(-1, group).astype("float64")
    centered = r - r.mean(axis=1, keepdims=True)
    if scale:
        centered /= r.std(axis=1, ddof=1, keepdims=True) + 1e-4
    return centered.reshape(-1).astype("float32")


def token_losses(
    log_p: Tensor,
    old: Tensor,
    reference: Tensor,
    advantages: Tensor,
    *,
    epsilon: float,
    use_bias_correction_kl: bool,
) -> tuple[Tensor, Tensor]:
    r"""Computes the clipped loss and the KL term of each token.

    Args:
        log_p: $\ln \pi$, `(N, T)`.
        old: $\ln \pi_{old}$ of the model that sampled.
        reference: $\ln \pi_{ref}$.
        advantages: `(N, 1)`.
        epsilon: $\epsilon$.
        use_bias_correction_kl: Whether the KL term has the factor $\rho$.

    Returns:
        $-\min(\rho A, \mathrm{clip}(\rho) A)$ and $\rho K$, or K, each `(N, T)`.

    Examples:
        >>> p, old, reference = (np.log([[each]]) for each in (0.6, 0.4, 0.3))
        >>> options = {"epsilon": 0.2, "use_bias_correction_kl": True}
        >>> loss, kl = token_losses(p, old, reference, 1.0, **options)
        >>> round(float(loss[0, 0]), 3), round(float(kl[0, 0]), 3)  # 1.5 is cut to 1.2
        (-1.2, 0.29)
    """
    log_p, old, reference = map(ops.convert_to_tensor, (log_p, old, reference))
    ratio = ops.exp(log_p - old)
    clipped = ops.clip(ratio, 1 - epsilon, 1 + epsilon)
    loss = -ops.minimum(ratio * advantages, clipped * advantages)
    gap = reference - log_p
    kl = ops.exp(gap) - gap - 1
    return loss, ratio * kl if use_bias_correction_kl else kl
