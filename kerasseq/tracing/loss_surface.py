r"""The loss around the weights of a trained model, along random directions.

$$
L(\alpha, \beta) = L(\theta + \alpha \delta + \beta \eta), \qquad
\delta_f = \frac{d_f}{\lVert d_f \rVert} \lVert \theta_f \rVert
$$

$d$ is drawn from a normal distribution and scaled filter by filter: $\theta_f$ are the
weights with one index of the last axis, which lead to one output. So a network whose
weights are all twice as large is not taken to be twice as flat. Biases, and the scales
and offsets of norms, stay as they are. Li et al. 2018 ("Visualizing the loss landscape
of neural nets"). Course slides D.
"""

import dataclasses

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Nested
from kerasseq.tracing.depth import differentiable, loss_of_weights


@dataclasses.dataclass(frozen=True)
class LossSurface:
    """Losses on a line or a square around the weights of a model.

    Attributes:
        positions: α, and β, `(points,)`, from -span to span; 0 in the middle.
        losses: `(points,)` along a line, or `(points, points)`: α is the first axis.
    """

    positions: np.ndarray
    losses: np.ndarray

    @property
    def center(self) -> float:
        """The loss of the model as it is."""
        middle = len(self.positions) // 2
        return float(self.losses[(middle,) * self.losses.ndim])

    @property
    def curvature(self) -> float:
        r"""The second difference in the middle, divided by that of the positions.

        $(L(h) - 2 L(0) + L(-h)) / h^2$; on a square the mean of both axes.
        """
        middle = len(self.positions) // 2
        h = self.positions[middle + 1]
        axes = [line[middle - 1 : middle + 2] for line in self._axes()]
        return float(np.mean([a - 2 * b + c for a, b, c in axes]) / h**2)

    def rise(self, distance: float) -> float:
        """Computes how much larger the loss is at this distance, as a mean of sides.

        Args:
            distance: The distance from the middle, along each axis; between two
                positions the loss is interpolated.

        Raises:
            ValueError: If it is not between 0 and the largest position.
        """
        most = self.positions[-1]
        if not 0 <= checks.finite("distance", distance) <= most:
            raise ValueError(f"distance must be in 0..{most}, received {distance}")
        at = [-distance, distance]
        losses = [np.interp(at, self.positions, line) for line in self._axes()]
        return float(np.mean(losses) - self.center)

    def _axes(self):
        """Returns the lines through the middle."""
        if self.losses.ndim == 1:
            return [self.losses]
        middle = len(self.positions) // 2
        return [self.losses[:, middle], self.losses[middle]]


def loss_surface(
    model: keras.Model,
    x: Nested,
    y: Nested,
    *,
    directions: int = 2,
    points: int = 21,
    span: float = 1.0,
    seed: int = 0,
) -> LossSurface:
    """Computes the loss around the weights of a model, which stay as they are.

    Args:
        model: A compiled Keras model.
        x: Inputs, as for `model.fit`, in one batch.
        y: Targets, as for `model.fit`.
        directions: 1 for a line, 2 for a square.
        points: Number of positions along each direction, odd: one is the model as it
            is. A square needs `points ** 2` evaluations.
        span: The largest position: at 1 the step is as long as the weights.
        seed: Seed of the directions.

    Returns:
        A `LossSurface`, which `plots.plot_loss_surface` draws.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If the model is not compiled or has no weights, or an argument is
            out of range.

    Examples:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        >>> model.compile("sgd", "mse")
        >>> data = np.ones((5, 2)), np.ones((5, 3))
        >>> line = loss_surface(model, *data, directions=1, points=5)
        >>> line.positions.tolist(), line.losses.shape
        ([-1.0, -0.5, 0.0, 0.5, 1.0], (5,))

    References:
        Slides D: the loss with and without residual connections.
    """
    checks.one_of("directions", directions, (1, 2))
    if checks.whole_number("points", points, 3) % 2 == 0:
        raise ValueError(
            f"points must be odd, so that one is the model as it is, received {points}."
            f" Choose {points + 1}"
        )
    checks.positive("span", span)
    weights = differentiable(model, x)
    rng = np.random.default_rng(checks.seed("seed", seed))
    theta = [ops.convert_to_numpy(ops.cast(w, "float32")) for w in weights]
    chosen = [[_direction(rng, w) for w in theta] for _ in range(directions)]
    positions = np.linspace(-span, span, points)
    evaluate = kernels.compiled(loss_of_weights(model, weights, x, y))
    losses = np.empty((points,) * directions)
    for place in np.ndindex(losses.shape):
        values = theta
        for k, delta in zip(place, chosen, strict=True):
            alpha = positions[k]
            moved = zip(values, delta, strict=True)
            values = [w + np.float32(alpha) * d for w, d in moved]
        losses[place] = float(ops.convert_to_numpy(evaluate(values)))
    return LossSurface(positions, losses)


def _direction(rng: np.random.Generator, w: np.ndarray) -> np.ndarray:
    """Returns a random direction whose filters are as long as those of the weights.

    Examples:
        >>> w = np.array([[3.0, 0.0], [4.0, 0.0]])
        >>> np.linalg.norm(_direction(np.random.default_rng(0), w), axis=0).round(6)
        array([5., 0.])
        >>> _direction(np.random.default_rng(0), np.ones(3))
        array([0., 0., 0.])
    """
    if w.ndim < 2:
        return np.zeros_like(w)
    d = rng.normal(size=w.shape).astype(w.dtype)
    longest = np.linalg.norm(d.reshape(-1, w.shape[-1]), axis=0)
    wanted = np.linalg.norm(w.reshape(-1, w.shape[-1]), axis=0)
    return d * (wanted / np.maximum(longest, 1e-30))
