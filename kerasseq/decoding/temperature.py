"""Sharper or flatter: the logits divided by a temperature."""

import dataclasses

from kerasseq.decoding import arguments
from kerasseq.decoding.sampler import Sampler, softmax


@dataclasses.dataclass(frozen=True)
class Temperature(Sampler):
    r"""Draw from the whole distribution, at a temperature $\tau$.

    $$p_\tau(v) = \frac{e^{z_v/\tau}}{\sum_w e^{z_w/\tau}}$$

    Args:
        temperature: $\tau$. 1 draws from the model as it is; below 1 the good tokens
            become better, above 1 all become more alike.

    Raises:
        TypeError: If the temperature is no number.
        ValueError: If it is not above 0, or not finite.

    Examples:
        >>> logits = np.log(np.array([[0.2, 0.8]], "float32"))
        >>> p = Temperature(0.5).distribution(logits)  # in proportion to squares
        >>> print(keras.ops.convert_to_numpy(p).round(3))
        [[0.059 0.941]]

    References:
        Ackley, Hinton and Sejnowski, "A Learning Algorithm for Boltzmann Machines",
        1985.
    """

    temperature: float = 1.0

    def __post_init__(self):
        arguments.temperature(self.temperature)

    def distribution(self, logits):
        return softmax(logits, self.temperature)
