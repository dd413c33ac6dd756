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
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.masks import attached_mask, zero_masked
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.types import Config, Identifier, Shape, Tensor


@register
class CRF(keras.layers.Layer):
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
        self.initializer: Callable[..., Tensor] = keras.initializers.get(initializer)
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
        return scores

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
        y = _one_hot(ops.where(mask, ops.cast(tags, "int32"), 0), e)
        alpha = forward(e, A, a, mask)
        log_Z = ops.logsumexp(alpha, axis=-1)
        before = ops.pad(log_Z, [[0, 0], [1, 0]])[:, :-1]
        # Before the first step log Z is 0; `alpha` is kept at masked steps.
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
        scores = map(ops.stop_gradient, (e, *self._weights(e)))
        return viterbi(*scores, mask)

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
        log_p = forward(e, A, a, mask) + backward(e, A, z, mask)
        return ops.where(mask[..., None], ops.softmax(log_p, axis=-1), 0)

    def _steps(self, scores, mask):
        """Scores in 32 bits or more, the mask, and where a sequence goes on or ends."""
        mask = attached_mask(scores) if mask is None else ops.cast(mask, "bool")
        e = ops.convert_to_tensor(scores)
        if keras.backend.standardize_dtype(e.dtype) != "float64":
            e = ops.cast(e, "float32")
        real = ops.cast(mask, "int32")
        count = ops.cumsum(real, axis=1)
        is_last = ops.logical_and(mask, ops.equal(count, count[:, -1:]))
        return zero_masked(e, mask), mask, ops.greater(count, real), is_last

    def _weights(self, e):
        weights = (self.transitions, self.start, self.end)
        return tuple(ops.cast(weight, e.dtype) for weight in weights)

    def get_config(self) -> Config:
        config = {
            "num_tags": self.num_tags,
            "initializer": keras.initializers.serialize(self.initializer),
        }
        return {**super().get_config(), **config}


def forward(e: Tensor, A: Tensor, a: Tensor, mask: Tensor) -> Tensor:
    r"""Computes $\alpha$, `(batch, time, C)`; masked steps repeat the one before."""

    def step(carry, inputs):
        alpha, started = carry
        e_t, mask_t = inputs
        new = e_t + ops.logsumexp(alpha[:, :, None] + A, axis=1)
        alpha = ops.where(mask_t, ops.where(started, new, a + e_t), alpha)
        return (alpha, ops.logical_or(started, mask_t)), alpha

    return _batch_major(kernels.scan(step, _nothing(e), _time_major(e, mask))[1])


def backward(e: Tensor, A: Tensor, z: Tensor, mask: Tensor) -> Tensor:
    r"""Computes $\beta$, `(batch, time, C)`; masked steps repeat the one after."""

    def step(carry, inputs):
        # `later` is e + β of the next real step, if there is one.
        later, started = carry
        e_t, mask_t = inputs
        beta = ops.where(started, ops.logsumexp(A + later[:, None], axis=2), z)
        later = ops.where(mask_t, e_t + beta, later)
        return (later, ops.logical_or(started, mask_t)), beta

    inputs = _time_major(e, mask)
    return _batch_major(kernels.scan(step, _nothing(e), inputs, reverse=True)[1])


def viterbi(e: Tensor, A: Tensor, a: Tensor, z: Tensor, mask: Tensor) -> Tensor:
    """Finds the tags with the highest score, `(batch, time)`; 0 at masked steps."""
    C = A.shape[0]

    def step(carry, inputs):
        delta, started = carry
        e_t, mask_t = inputs
        paths = delta[:, :, None] + A  # (batch, from, to)
        new = ops.where(started, e_t + ops.max(paths, axis=1), a + e_t)
        best = ops.cast(ops.argmax(paths, axis=1), "int32")
        same = ops.broadcast_to(ops.arange(C, dtype="int32"), ops.shape(best))
        best = ops.where(ops.logical_and(mask_t, started), best, same)
        carry = ops.where(mask_t, new, delta), ops.logical_or(started, mask_t)
        return carry, best

    (delta, _), best = kernels.scan(step, _nothing(e), _time_major(e, mask))
    last = ops.cast(ops.argmax(delta + z, axis=-1), "int32")

    def step_back(tag, best_t):
        return ops.take_along_axis(best_t, tag[:, None], axis=1)[:, 0], tag

    tags = ops.transpose(kernels.scan(step_back, last, best, reverse=True)[1])
    return ops.where(mask, tags, 0)


def _nothing(e):
    """The state before the first real step: zeros, and that none has been seen."""
    return ops.zeros_like(e[:, 0]), ops.zeros_like(e[:, 0, :1], dtype="bool")


def _time_major(e, mask):
    return ops.transpose(e, (1, 0, 2)), ops.transpose(mask)[..., None]


def _batch_major(x):
    return ops.transpose(x, (1, 0, 2))


def _one_hot(tags, e):
    return ops.one_hot(tags, e.shape[-1], dtype=e.dtype)


def _previous(y, mask):
    """The tags of the last real step before each step, as one-hot vectors."""

    def step(last, inputs):
        y_t, mask_t = inputs
        return ops.where(mask_t, y_t, last), last

    inputs = _time_major(y, mask)
    return _batch_major(kernels.scan(step, ops.zeros_like(y[:, 0]), inputs)[1])
