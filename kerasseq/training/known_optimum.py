r"""How far a model is from the best possible one, where the source is known.

On the same tokens, the excess of a model q over its source p is

$$
\bar d = \frac{1}{N} \sum_n d_n \qquad
d_n = \frac{1}{T - 1} \sum_t \log_2 \frac{p(x_{nt} \mid x_{n, <t})}
    {q(x_{nt} \mid x_{n, <t})}
$$

with the standard error $s = \sqrt{\mathrm{var}(d_n) / N}$ over sequences. Its
expectation is a mean of divergences, never below 0. So a model with $\bar d < -3 s$
sees what it must predict. The difference token by token has a far smaller error than
that of two means: most of the luck of a sample is the same for both.
"""

import warnings
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks

LEAST = -3  # standard errors of the excess, below which there must be a leak


class KnownSource(Protocol):
    """A source that knows the probabilities of its tokens, as `MarkovSource`."""

    def bits(self, ids: ArrayLike) -> np.ndarray:
        r"""Computes $-\log_2 p$ of each token after the first, `(N, T - 1)`."""


class Excess(NamedTuple):
    """The loss of a model beside that of the source, on the same tokens.

    Attributes:
        bits: Mean loss of the model in bits a token.
        optimum: That of the source.
        excess: The difference, in bits a token.
        error: Its standard error.
    """

    bits: float
    optimum: float
    excess: float
    error: float

    @property
    def leaks(self) -> bool:
        """Whether the model is better than the source by 3 standard errors."""
        return self.excess < LEAST * self.error


def excess(
    model: keras.Model,
    source: KnownSource,
    ids: ArrayLike,
    *,
    inputs: Any = None,
    batch_size: int = 256,
) -> Excess:
    """Compares a model of the next token with the source of its tokens.

    Args:
        model: A model from ids `(B, T)` to logits `(B, T, V)`, such as `LanguageModel`.
            Logits beyond the symbols of the source count, as all of V.
        source: What the ids are sampled from, such as `datasets.markov_source()`.
        ids: Sequences `(N, T)` that training has not, N and T at least 2.
        inputs: What the model reads for `ids[:, :-1]`, if it is something else.
        batch_size: Sequences that are processed at once.

    Returns:
        The losses and their difference, as an `Excess`.

    Raises:
        ValueError: If there are too few ids, or the outputs have another shape.

    Examples:
        >>> from kerasseq import datasets, models
        >>> source = datasets.markov_source(3, order=1)
        >>> model = models.LanguageModel("gru", vocabulary_size=3, units=2)
        >>> result = excess(model, source, source.sample(50, 7))
        >>> result.excess > 0, result.leaks
        (True, False)
    """
    ids = np.asarray(ids)
    if ids.ndim != 2 or min(ids.shape) < 2:
        raise ValueError(
            "ids must have the shape (N, T) with at least 2 sequences of 2 tokens, "
            f"received the shape {ids.shape}"
        )
    optimum = source.bits(ids)
    x = ids[:, :-1] if inputs is None else np.asarray(inputs)
    if len(x) != len(ids):
        raise ValueError(f"inputs must have {len(ids)} rows, as ids, received {len(x)}")
    size = checks.whole_number("batch_size", batch_size)
    logits = model.predict(x, batch_size=size, verbose=0).astype("float64")
    if logits.shape[:2] != optimum.shape or logits.shape[-1] <= ids.max():
        raise ValueError(
            f"model must have outputs (N, T - 1, V) = {(*optimum.shape, 'V')} with a V "
            f"above the ids, of which the largest is {ids.max()}, received "
            f"{logits.shape}"
        )
    target = np.take_along_axis(logits, ids[:, 1:, None], axis=-1)[..., 0]
    bits = (np.logaddexp.reduce(logits, axis=-1) - target) / np.log(2)  # (N, T - 1)
    d = np.mean(bits - optimum, axis=1)
    error = float(np.std(d, ddof=1) / np.sqrt(len(d)))
    means = (float(np.mean(x)) for x in (bits, optimum, d))
    return Excess(*means, error)


def add_to_logs(
    logs: dict[str, float] | None,
    name: str,
    measured: Any,
    leak: tuple[str, str],
) -> None:
    """Adds an excess to the logs of an epoch, and warns of a leak.

    Args:
        logs: The logs, or None.
        name: The name of the loss.
        measured: Loss, optimum, excess and error, as an `Excess`, with `leaks`.
        leak: What is better, with a place for how much; and what that means.
    """
    loss, optimum, above, error = measured
    if logs is not None:
        logs |= {name: loss, "optimum": optimum}
        logs |= {"excess": above, "excess_error": error}
    if measured.leaks:
        better, meaning = leak
        warnings.warn(
            f"{better.format(-above)}, {-above / error:.0f} standard errors: {meaning}",
            stacklevel=3,
        )


class KnownOptimum(keras.callbacks.Callback):
    """Compares a model with the source of its tokens while it is trained.

    After each epoch the logs, and so the history, have `held_out_bits`, `optimum`,
    `excess` and `excess_error`, see `excess`. A model that is better than the source by
    more than 3 standard errors is warned about: its inputs tell what it must predict.

    Args:
        source: As for `excess`.
        ids: As for `excess`.
        inputs: As for `excess`.
        batch_size: As for `excess`.

    Examples:
        >>> from kerasseq import datasets, models
        >>> source = datasets.markov_source(3, order=1)
        >>> ids = source.sample(60, 7, seed=1)
        >>> model = models.LanguageModel("gru", vocabulary_size=3, units=2)
        >>> optimum = KnownOptimum(source, source.sample(50, 7, seed=2))
        >>> history = model.fit(ids[:, :-1], ids[:, 1:], callbacks=[optimum], verbose=0)
        >>> [name for name in history.history if name.startswith("excess")]
        ['excess', 'excess_error']
    """

    def __init__(
        self,
        source: KnownSource,
        ids: ArrayLike,
        *,
        inputs: Any = None,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        self.source: KnownSource = source
        self.ids: np.ndarray = np.asarray(ids)
        self.inputs: Any = inputs
        self.batch_size: int = batch_size

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Adds the excess to the logs, and warns of a leak."""
        measured = excess(
            self.model,
            self.source,
            self.ids,
            inputs=self.inputs,
            batch_size=self.batch_size,
        )
        leak = (
            "the model is better than the best possible one by {:.4f} bits a token",
            "its inputs tell what it must predict",
        )
        add_to_logs(logs, "held_out_bits", measured, leak)
