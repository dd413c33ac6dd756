r"""Scheduled sampling: from teacher forcing to the model's own predictions.

With teacher forcing the inputs of a decoder are the true tokens. In generation they are
its own predictions, with errors that training did not contain: exposure bias. Scheduled
sampling feeds, at each step and for each sequence, the true token with probability
$\varepsilon_i$ and the prediction otherwise; $\varepsilon_i$ decreases with the
training step $i$.

Bengio et al., "Scheduled Sampling for Sequence Prediction with Recurrent Neural
Networks", 2015. Course slides D.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any

from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor


def _at_least_one(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, received {value!r}")
    if not 1 <= value < math.inf:
        raise ValueError(
            f"{name} of an inverse sigmoid must be at least 1, received {value}"
        )
    return float(value)


# The argument of each schedule, and its check.
SCHEDULES: dict[str, tuple[str, Callable[[str, Any], float]]] = {
    "constant": ("ratio", checks.fraction),
    "linear": ("steps", checks.whole_number),
    "exponential": ("k", checks.fraction),
    "inverse_sigmoid": ("k", _at_least_one),
}


@register
class ScheduledSampling:
    r"""A schedule of the probability of teacher forcing.

    Args:
        schedule: "constant" $\varepsilon_i = \mathrm{ratio}$;
            "linear" $1 - i / \mathrm{steps}$; "exponential" $k^i$, with k below 1;
            "inverse_sigmoid" $k / (k + e^{i/k})$, with k of at least 1.
        ratio: For "constant": 1 is teacher forcing, 0 is free running.
        steps: For "linear": the step at which the probability reaches 0.
        k: For "exponential" and "inverse_sigmoid".
        lowest: Minimum of $\varepsilon_i$.
        sampled: Whether predictions are sampled from the predicted distribution;
            otherwise they are the most probable tokens.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the schedule is unknown, or its argument is missing, belongs to
            another schedule, or is out of range.

    Examples:
        >>> falling = ScheduledSampling("linear", steps=4, lowest=0.2)
        >>> [round(float(falling.ratio(i)), 2) for i in range(5)]
        [1.0, 0.75, 0.5, 0.25, 0.2]
    """

    def __init__(
        self,
        schedule: str = "inverse_sigmoid",
        *,
        ratio: float | None = None,
        steps: int | None = None,
        k: float | None = None,
        lowest: float = 0.0,
        sampled: bool = False,
    ) -> None:
        self.schedule: str = checks.one_of("schedule", schedule, tuple(SCHEDULES))
        self.lowest: float = checks.fraction("lowest", lowest)
        self.sampled: bool = checks.truth("sampled", sampled)
        given = {"ratio": ratio, "steps": steps, "k": k}
        needed, check = SCHEDULES[schedule]
        for name, value in given.items():
            if (value is not None) != (name == needed):
                raise ValueError(
                    f'schedule="{schedule}" needs {needed} and no other argument of '
                    f"{', '.join(given)}; received {name}={value}"
                )
        self.number: dict[str, Any] = {**given, needed: check(needed, given[needed])}

    def ratio(self, step: int | Tensor) -> Tensor:
        r"""Computes the probability $\varepsilon_i$ of teacher forcing.

        Args:
            step: Number of training steps done, $i$: a number or a tensor.

        Returns:
            float32 tensor.
        """
        i = ops.cast(step, "float32")
        k = float(self.number[SCHEDULES[self.schedule][0]])
        epsilon = {
            "constant": lambda: 0 * i + k,
            "linear": lambda: 1 - i / k,
            "exponential": lambda: ops.power(ops.cast(k, "float32"), i),
            "inverse_sigmoid": lambda: k / (k + ops.exp(i / k)),
        }[self.schedule]()
        return ops.clip(epsilon, self.lowest, 1.0)

    def get_config(self) -> Config:
        """Returns the arguments as plain JSON."""
        shared = ("schedule", "lowest", "sampled")
        return {**{name: getattr(self, name) for name in shared}, **self.number}

    @classmethod
    def from_config(cls, config: Config) -> "ScheduledSampling":
        """Creates a schedule from its config."""
        return cls(**config)
