r"""Scheduled sampling: less and less of the truth is fed back.

With teacher forcing a decoder reads the right beginning of its sentence. Later it must
read its own, mistakes included, which it has never seen: exposure bias. In between, at
each step and for each sentence, truth is fed with probability $\varepsilon_i$, and what
the model has just said otherwise; $\varepsilon_i$ falls with the training step $i$.

Bengio et al., "Scheduled Sampling for Sequence Prediction with Recurrent Neural
Networks", 2015. Course slides D.
"""

import math
import numbers

from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register


def _at_least_one(name, value) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 1 <= value < math.inf:
        raise ValueError(
            f"{name} of an inverse sigmoid must be at least 1, got {value}"
        )
    return float(value)


# What each schedule needs, and what is right for it.
SCHEDULES = {
    "constant": ("ratio", checks.fraction),
    "linear": ("steps", checks.whole_number),
    "exponential": ("k", checks.fraction),
    "inverse_sigmoid": ("k", _at_least_one),
}


@register
class ScheduledSampling:
    r"""How often the truth is fed at each training step.

    Args:
        schedule: "constant" $\varepsilon_i = \mathrm{ratio}$;
            "linear" $1 - i / \mathrm{steps}$; "exponential" $k^i$, with k below 1;
            "inverse_sigmoid" $k / (k + e^{i/k})$, with k of at least 1.
        ratio: For "constant": 1 is teacher forcing, 0 is free running.
        steps: For "linear": the step at which nothing of the truth is left.
        k: For "exponential" and "inverse_sigmoid".
        lowest: $\varepsilon_i$ does not fall below this.
        sampled: Whether what the model says is drawn from its probabilities; otherwise
            it is the most probable token.

    Raises:
        TypeError: If a number is none.
        ValueError: If the schedule is unknown, if its number is missing, given to
            another schedule, or out of range.

    Examples:
        >>> falling = ScheduledSampling("linear", steps=4, lowest=0.2)
        >>> [round(float(falling.ratio(i)), 2) for i in range(5)]
        [1.0, 0.75, 0.5, 0.25, 0.2]
    """

    def __init__(
        self,
        schedule="inverse_sigmoid",
        *,
        ratio=None,
        steps=None,
        k=None,
        lowest=0.0,
        sampled=False,
    ):
        self.schedule = checks.one_of("schedule", schedule, tuple(SCHEDULES))
        self.lowest = checks.fraction("lowest", lowest)
        self.sampled = checks.truth("sampled", sampled)
        given = {"ratio": ratio, "steps": steps, "k": k}
        needed, check = SCHEDULES[schedule]
        for name, value in given.items():
            if (value is not None) != (name == needed):
                raise ValueError(
                    f'schedule="{schedule}" needs {needed} and nothing else of '
                    f"{', '.join(given)}; got {name}={value}"
                )
        self.number = {**given, needed: check(needed, given[needed])}

    def ratio(self, step):
        r"""The probability $\varepsilon_i$ of feeding the truth.

        Args:
            step: Training steps done before, $i$: a number or a tensor.

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

    def get_config(self):
        """The arguments, as plain JSON."""
        shared = ("schedule", "lowest", "sampled")
        return {**{name: getattr(self, name) for name in shared}, **self.number}

    @classmethod
    def from_config(cls, config):
        """The schedule with these arguments."""
        return cls(**config)
