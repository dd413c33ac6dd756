r"""How the hard attention of a decoder learns from what the captions are worth.

Xu et al., "Show, Attend and Tell: Neural Image Caption Generation with Visual
Attention", 2015, section 4.1. Course slides B.
"""

from typing import Any

from kerasseq.core import checks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register


@register
class Reinforcement(ListedConfig):
    r"""Options of the training of hard attention in `models.Seq2Seq`.

    The choices $a$ of a target get the gradient of

    $$\lambda_r\, (b - r) \log p(a) - \lambda_e H[a], \qquad
    b \leftarrow \delta b + (1 - \delta)\, \bar r$$

    beside that of the loss, with the reward $r = \log p(y \mid a, x)$ of the whole
    target and the mean $\bar r$ of a batch.

    Args:
        weight: $\lambda_r$. With 1, `entropy=0` and `soft_share=0` the gradient is an
            unbiased estimate of that of the expected loss.
        entropy: $\lambda_e$, of the entropy H of the weights.
        baseline_decay: $\delta$; with 1 there is no baseline.
        soft_share: Probability with which a row reads the expected value, as soft
            attention does, instead of samples.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is out of range.

    Examples:
        >>> Reinforcement(soft_share=0.0).get_config()["baseline_decay"]
        0.9
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        entropy: float = 0.002,
        baseline_decay: float = 0.9,
        soft_share: float = 0.5,
    ) -> None:
        self.weight: float = checks.positive("weight", weight)
        self.entropy: float = checks.number("entropy", entropy)
        if self.entropy < 0:
            raise ValueError(f"entropy must be at least 0, received {entropy}")
        self.baseline_decay: float = checks.fraction("baseline_decay", baseline_decay)
        self.soft_share: float = checks.fraction("soft_share", soft_share)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Reinforcement":
        """Creates the options from their config."""
        return cls(**config)
