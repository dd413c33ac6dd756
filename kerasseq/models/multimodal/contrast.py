r"""Contrastive learning: what belongs together is nearer than what does not.

For unit vectors $a_i$, $b_j$ of a batch, such as of pictures and texts, the scores are

$$
s_{ij} = e^{\tau}\, a_i \cdot b_j + \beta
$$

CLIP's loss reads them as probabilities of the right partner among all, both ways:

$$
L = -\frac{1}{2 B} \sum_i \Big( \log \frac{e^{s_{ii}}}{\sum_j e^{s_{ij}}} +
    \log \frac{e^{s_{ii}}}{\sum_j e^{s_{ji}}} \Big)
$$

where rows with the same text as row i are left out of its sums. SigLIP's loss asks of
each pair whether it belongs together, $y_{ij} = 1$, or not, $-1$:

$$
L = -\frac{1}{B} \sum_i \sum_j \log \sigma(y_{ij}\, s_{ij})
$$

where rows with the same text belong together. With one vector for all, CLIP's loss is
ln B. Both depend on the batch by definition. Radford et al. 2021; Zhai et al. 2023.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import matmul

LOSSES = ("softmax", "sigmoid")
LARGEST = math.log(100)  # of tau with "softmax", as in CLIP


@register
class AtMost(ListedConfig, keras.constraints.Constraint):
    """Keeps the values of a variable at or below a number.

    Unlike a minimum in the layer, it leaves the gradient at that number as it is.

    Args:
        largest: The number.

    Examples:
        >>> keras.ops.convert_to_numpy(AtMost(0.5)(np.array([0.25, 2.0]))).tolist()
        [0.25, 0.5]
    """

    def __init__(self, largest: float) -> None:
        self.largest = largest

    def __call__(self, w: Tensor) -> Tensor:
        return ops.minimum(w, self.largest)


@register
class PairScores(Layer):
    r"""Compares the vectors of each two kinds, with a learned temperature.

    Args:
        loss: "softmax": $\tau = \ln(1 / 0.07)$ at first, at most ln 100, and no
            $\beta$; or "sigmoid": $\tau = \ln 10$ and $\beta = -10$ at first.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        vectors: For each kind unit vectors `(B, D)`.

    Returns:
        `(B, P, B)` with P pairs of kinds: the scores of each row of the first kind of a
        pair with all rows of the second.

    Examples:
        >>> layer = PairScores("sigmoid")
        >>> scores = layer([np.eye(2), np.eye(2)])
        >>> keras.ops.convert_to_numpy(scores)[:, 0].round(4).tolist()
        [[0.0, -10.0], [-10.0, 0.0]]
    """

    @passes_on(Layer)
    def __init__(self, loss: str = "softmax", **kwargs: Any) -> None:
        self.loss: str = checks.one_of("loss", loss, LOSSES)

    def build(self, shapes: Sequence[Shape]) -> None:
        sigmoid = self.loss == "sigmoid"
        first = math.log(10 if sigmoid else 1 / 0.07)
        limit = None if sigmoid else AtMost(LARGEST)
        self.log_scale: keras.Variable = self._number("log_scale", first, limit)
        if sigmoid:
            self.bias: keras.Variable = self._number("bias", -10)
        self.built = True

    def _number(self, name, first, constraint=None):
        start = keras.initializers.Constant(first)
        return self.add_weight((), start, name=name, constraint=constraint)

    @property
    def scale(self) -> Tensor:
        r"""$e^{\tau}$, the factor of the scores."""
        return ops.exp(ops.convert_to_tensor(self.log_scale))

    def call(self, vectors: Sequence[Tensor]) -> Tensor:
        scores = []
        for a, b in itertools.combinations(vectors, 2):
            s = self.scale * matmul(a, ops.transpose(b))  # (B, B)
            if self.loss == "sigmoid":
                s = s + ops.convert_to_tensor(self.bias)
            scores.append(s)
        return ops.stack(scores, axis=1)

    def compute_output_shape(self, shapes: Sequence[Shape]) -> Shape:
        B = shapes[0][0]
        return B, math.comb(len(shapes), 2), B


class _PairLoss(keras.losses.Loss):
    """The mean over rows of the loss of each, and over the pairs of kinds."""

    per_row: bool = True  # for the mean over batches

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Returns the loss of each row.

        Args:
            y_true: `(B,)`, a number of each text, the same for the same text.
            y_pred: Scores `(B, P, B)`.
        """
        y_true = ops.reshape(y_true, (-1,))
        same = ops.equal(y_true[:, None], y_true[None, :])  # (B, B)
        pairs = [self.of_pair(y_pred[:, p], same) for p in range(y_pred.shape[1])]
        return sum(pairs) / len(pairs)

    def of_pair(self, s: Tensor, same: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define of_pair")


@register
class ContrastiveLoss(_PairLoss):
    """CLIP's loss of scores `(B, P, B)`; rows with the same text are no negatives.

    Args:
        reduction: As for `keras.losses.Loss`.
        name: As for `keras.losses.Loss`.
        dtype: As for `keras.losses.Loss`.

    Examples:
        >>> loss = ContrastiveLoss()(np.arange(4), np.zeros((4, 1, 4)))
        >>> round(float(loss), 4)  # ln 4
        1.3863
    """

    def of_pair(self, s: Tensor, same: Tensor) -> Tensor:
        own = ops.cast(ops.eye(ops.shape(s)[0]), "bool")
        left_out = ops.logical_and(same, ops.logical_not(own))
        s = ops.where(left_out, masks.lowest(s.dtype), s)
        right = ops.diagonal(s)
        rows = ops.logsumexp(s, axis=1) - right
        columns = ops.logsumexp(s, axis=0) - right
        return (rows + columns) / 2


@register
class SigmoidLoss(_PairLoss):
    """SigLIP's loss of scores `(B, P, B)`; rows with the same text are positives.

    Args:
        reduction: As for `keras.losses.Loss`.
        name: As for `keras.losses.Loss`.
        dtype: As for `keras.losses.Loss`.

    Examples:
        >>> loss = SigmoidLoss()(np.arange(4), np.zeros((4, 1, 4)))
        >>> round(float(loss), 4)  # 4 ln 2
        2.7726
    """

    def of_pair(self, s: Tensor, same: Tensor) -> Tensor:
        y = ops.where(same, ops.ones_like(s), -ops.ones_like(s))
        return ops.sum(ops.softplus(-y * s), axis=1)
