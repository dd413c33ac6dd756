r"""Linear-chain conditional random field: the tags of a sequence depend on each other.

A network gives each tag a score at each step, $e_t(k)$. The field adds a score for each
pair of neighboring tags, $A_{ij}$, for the first tag, $a_i$, and for the last, $z_i$:

$$
s(x, y) = a_{y_1} + \sum_{t=1}^T e_t(y_t) + \sum_{t=2}^T A_{y_{t-1} y_t} + z_{y_T}
\qquad
p(y \mid x) = \frac{e^{s(x, y)}}{Z(x)}
\qquad
Z(x) = \sum_{y'} e^{s(x, y')}
$$

The sum over all $C^T$ sequences of tags is computed step by step, by the forward
algorithm:

$$
\alpha_1(j) = a_j + e_1(j) \qquad
\alpha_t(j) = e_t(j) + \log \sum_i e^{\alpha_{t-1}(i) + A_{ij}} \qquad
\log Z = \log \sum_j e^{\alpha_T(j) + z_j}
$$

$$
\beta_T(i) = z_i \qquad
\beta_t(i) = \log \sum_j e^{A_{ij} + e_{t+1}(j) + \beta_{t+1}(j)} \qquad
p(y_t = k \mid x) = e^{\alpha_t(k) + \beta_t(k) - \log Z}
$$

With $\max$ instead of $\log \sum \exp$, the first line is the Viterbi algorithm, which
finds the most probable sequence of tags. `kerasseq.text.HiddenMarkovModel` has the same
algorithms: there $a$, $A$ and $e$ are the logarithms of probabilities, here they are
any scores, and those of a step may depend on the whole input.

From: Lafferty, McCallum and Pereira, "Conditional Random Fields", 2001; Huang, Xu and
Yu, "Bidirectional LSTM-CRF Models for Sequence Tagging", 2015. Left out: dependencies
between more than two tags.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, objects
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.masks import attached_mask, largest, zero_masked
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import as_floats, check_sequence
from kerasseq.core.types import Identifier, Shape, Tensor

NEVER = -1e30  # the score of what cannot be; sums of it stay finite


@register
class CRF(ListedConfig, keras.layers.Layer):
    r"""Linear-chain conditional random field over the tags of a sequence.

    The layer returns its inputs, the scores that another layer computes for each tag at
    each step. Its weights are used by `loss` in training, and by `decode` and
    `marginals` afterwards. `SequenceTagger(..., crf=True)` combines all of this.

    Masked steps are skipped: the steps before and after them become neighbors.

    Args:
        num_tags: Number of tags, $C$.
        initializer: Initializer of the weights.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        scores: $e$, `(batch, time, num_tags)`.

    Returns:
        The scores.

    Raises:
        ValueError: If `num_tags` is below 1, or the scores have another last axis.

    Examples:
        >>> crf = CRF(3)
        >>> inputs = keras.Input((None, 2))
        >>> model = keras.Model(inputs, crf(keras.layers.Dense(3)(inputs)))
        >>> model.compile("adam", loss=crf.loss)
        >>> x, tags = np.ones((5, 7, 2)), np.ones((5, 7), "int32")
        >>> history = model.fit(x, tags, verbose=0)
        >>> keras.ops.shape(crf.decode(model.predict(x, verbose=0)))
        (5, 7)

    References:
        Lafferty, McCallum and Pereira 2001; Huang, Xu and Yu 2015. Course C: hidden
        Markov models.
    """

    def __init__(
        self, num_tags: int, *, initializer: Identifier = "zeros", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_tags: int = checks.size("num_tags", num_tags)
        checks.fits_memory("num_tags", self.num_tags, self.num_tags)
        self.initializer: Callable[..., Tensor] = objects.initializer(
            "initializer", initializer
        )
        self.supports_masking = True

    def build(self, scores_shape: Shape) -> None:
        check_float64(self)
        C = self.num_tags
        if len(scores_shape) != 3 or scores_shape[-1] != C:
            raise ValueError(
                f"scores must have the shape (batch, time, {C}), as num_tags={C}, "
                f"received {tuple(scores_shape)}"
            )
        self.transitions: keras.Variable = self.add_weight(
            name="transitions", shape=(C, C), initializer=self.initializer
        )
        self.start: keras.Variable = self.add_weight(
            name="start", shape=(C,), initializer=self.initializer
        )
        self.end: keras.Variable = self.add_weight(
            name="end", shape=(C,), initializer=self.initializer
        )
        self.built = True

    def call(self, scores: Tensor) -> Tensor:
        return as_floats("scores", scores, self.compute_dtype)

    def loss(self, tags: Tensor, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        r"""Computes $-\log p(y \mid x)$, split over the steps.

        With $Z_t$ and $s_t$ for the first $t$ steps alone, the part of step $t$ is
        $(\log Z_t - \log Z_{t-1}) - (s_t - s_{t-1})$. The sum over the steps of a
        sequence is its loss; a part alone may be negative.

        Args:
            tags: $y$, integers `(batch, time)`; at masked steps any value.
            scores: $e$, `(batch, time, num_tags)`.
            mask: Boolean `(batch, time)`, False at masked steps. The mask that Keras
                has attached to `scores` if None.

        Returns:
            `(batch, time)`, 0 at masked steps.
        """
        e, mask, started, is_last = self._steps(scores, mask)
        A, a, z = self._weights(e)
        y = ops.where(mask, ops.cast(tags, "int32"), 0)
        y = ops.one_hot(y, self.num_tags, dtype=e.dtype)
        alpha = forward(potentials(e, A, a, mask))
        log_Z = ops.logsumexp(alpha, axis=-1)
        before = ops.pad(log_Z, [[0, 0], [1, 0]])[:, :-1]
        # log Z is 0 before the first step, and kept at masked steps.
        loss = log_Z - ops.where(started, before, 0)
        pairs = ops.sum(ops.matmul(_previous(y, mask), A) * y, axis=-1)
        first = ops.sum(a * y, axis=-1)
        loss -= ops.sum(e * y, axis=-1) + ops.where(started, pairs, first)
        of_end = ops.logsumexp(alpha + z, axis=-1) - log_Z - ops.sum(z * y, axis=-1)
        loss += ops.where(is_last, of_end, 0)
        return ops.where(mask, loss, 0)

    def decode(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        r"""Finds the most probable tags, $\arg\max_y s(x, y)$, by Viterbi's algorithm.

        Args:
            scores: $e$, `(batch, time, num_tags)`.
            mask: Boolean `(batch, time)`, as for `loss`.

        Returns:
            Integers `(batch, time)`, 0 at masked steps.
        """
        e, mask, _, _ = self._steps(scores, mask)
        e, A, a, z = map(ops.stop_gradient, (e, *self._weights(e)))
        return ops.where(mask, viterbi(potentials(e, A, a, mask), z), 0)

    def marginals(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        r"""Computes the probability of each tag at each step, $p(y_t = k \mid x)$.

        Args:
            scores: $e$, `(batch, time, num_tags)`.
            mask: Boolean `(batch, time)`, as for `loss`.

        Returns:
            `(batch, time, num_tags)`, which sums to 1; 0 at masked steps.
        """
        e, mask, _, _ = self._steps(scores, mask)
        A, a, z = self._weights(e)
        M = potentials(e, A, a, mask)
        log_p = forward(M) + backward(M, z)
        return ops.where(mask[..., None], ops.softmax(log_p, axis=-1), 0)

    def _steps(self, scores, mask):
        """Scores in 32 bits or more, the mask, and where a sequence goes on or ends."""
        mask = attached_mask(scores) if mask is None else ops.cast(mask, "bool")
        e = as_floats("scores", ops.convert_to_tensor(scores), "float32")
        check_sequence("scores", e)
        if keras.backend.standardize_dtype(e.dtype) != "float64":
            e = ops.cast(e, "float32")
        real = ops.cast(mask, "int32")
        count = ops.cumsum(real, axis=1)
        is_last = ops.logical_and(mask, ops.equal(count, count[:, -1:]))
        return zero_masked(e, mask), mask, ops.greater(count, real), is_last

    def _weights(self, e):
        weights = (self.transitions, self.start, self.end)
        return tuple(ops.cast(weight, e.dtype) for weight in weights)


def potentials(e: Tensor, A: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    r"""Computes the score of going from a tag to a tag at each step.

    The last tag is an additional one, in which every sequence starts. A masked step
    keeps the tag: its matrix is the logarithm of the identity.

    Returns:
        `(batch, time, C + 1, C + 1)`, from and to.
    """
    C = A.shape[0]
    to_tags = ops.concatenate([A, a[None]], axis=0)
    W = ops.pad(to_tags, [[0, 0], [0, 1]], constant_values=NEVER)
    identity = ops.convert_to_tensor(np.where(np.eye(C + 1), 0, NEVER), W.dtype)
    e = ops.pad(e, [[0, 0], [0, 0], [0, 1]])
    return ops.where(mask[..., None, None], W + e[:, :, None], identity)


def forward(M: Tensor) -> Tensor:
    r"""Computes $\alpha$ from potentials, `(batch, time, C)`."""

    def step(alpha, M_t):
        alpha = ops.logsumexp(alpha[:, :, None] + M_t, axis=1)
        return alpha, alpha

    alpha = kernels.scan(step, _start(M), ops.swapaxes(M, 0, 1))[1]
    return ops.swapaxes(alpha, 0, 1)[..., :-1]


def backward(M: Tensor, z: Tensor) -> Tensor:
    r"""Computes $\beta$ from potentials, `(batch, time, C)`."""

    def step(beta, M_t):
        return ops.logsumexp(M_t + beta[:, None], axis=2), beta

    last = ops.zeros_like(M[:, 0, 0]) + ops.pad(z, [[0, 1]])
    beta = kernels.scan(step, last, ops.swapaxes(M, 0, 1), reverse=True)[1]
    return ops.swapaxes(beta, 0, 1)[..., :-1]


def viterbi(M: Tensor, z: Tensor) -> Tensor:
    """Finds the tags with the highest score, `(batch, time)`."""

    def step(delta, M_t):
        paths = delta[:, :, None] + M_t  # (batch, from, to)
        best = ops.cast(ops.argmax(paths, axis=1), "int32")
        return largest(paths, axis=1), best

    delta, best = kernels.scan(step, _start(M), ops.swapaxes(M, 0, 1))
    last = ops.cast(ops.argmax(delta[:, :-1] + z, axis=-1), "int32")

    def step_back(tag, best_t):
        return ops.take_along_axis(best_t, tag[:, None], axis=1)[:, 0], tag

    return ops.transpose(kernels.scan(step_back, last, best, reverse=True)[1])


def _start(M):
    """Returns the state before the first step: in the additional tag."""
    S = M.shape[-1]
    state = np.where(np.arange(S) == S - 1, 0, NEVER)
    return ops.zeros_like(M[:, 0, 0]) + ops.convert_to_tensor(state, M.dtype)


def _previous(y, mask):
    """Returns the tags of the last real step before each step, as one-hot vectors."""
    real = ops.cast(mask, "int32")
    rank = ops.cumsum(real, axis=1) - real  # of real steps before a step
    steps = ops.arange(ops.shape(mask)[1], dtype="int32")
    real_first = ops.argsort(ops.where(mask, steps, steps + ops.shape(mask)[1]), axis=1)
    places = ops.take_along_axis(
        ops.cast(real_first, "int32"), ops.maximum(rank - 1, 0), axis=1
    )
    return ops.take_along_axis(y, places[..., None], axis=1)
