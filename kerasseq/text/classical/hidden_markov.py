r"""Hidden Markov model: observed symbols depend on hidden states.

At each step the model is in one of $S$ states. It starts in state $i$ with probability
$\pi_i$, goes from $i$ to $j$ with probability $A_{ij}$, and emits symbol $k$ in state
$j$ with probability $B_{jk}$:

$$
p(o_1 \ldots o_T, s_1 \ldots s_T) =
\pi_{s_1} B_{s_1 o_1} \prod_{t=2}^{T} A_{s_{t-1} s_t} B_{s_t o_t}
$$

The recursions and the learning are in `markov_algorithms.py`.

From: Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech
Recognition", 1989; course C, "Hidden Markov Models". Left out: continuous emissions,
states without emission.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.core.schema import check
from kerasseq.text import probabilities as checks
from kerasseq.text.classical import markov_algorithms as algorithms
from kerasseq.text.files import Saved
from kerasseq.text.texts import id_array

SCHEMA = {
    "states": int,
    "symbols": int,
    "initial": [float],
    "transition": [[float]],
    "emission": [[float]],
}


class Sample(NamedTuple):
    """A sampled sequence.

    Attributes:
        ids: The symbols, int32 of shape `(length,)`.
        states: The hidden states, int32 of shape `(length,)`.
    """

    ids: np.ndarray
    states: np.ndarray


class HiddenMarkovModel(Saved):
    r"""A hidden Markov model with $S$ states over a vocabulary of symbols.

    Args:
        states: The number of states, $S$.
        symbols: The number of symbols.
        initial: $\pi$, `(states,)`. Random by default.
        transition: $A$, `(states, states)`, from row to column. Random by default.
        emission: $B$, `(states, symbols)`. Random by default.
        seed: Seed of the random rows, which have a uniform Dirichlet distribution.

    Rows sum to 1. Zeros stay zeros in `fit`.

    Attributes:
        initial: $\pi$, float64.
        transition: $A$, float64.
        emission: $B$, float64.

    Examples:
        >>> model = HiddenMarkovModel(
        ...     2, 3,
        ...     initial=[0.6, 0.4],
        ...     transition=[[0.7, 0.3], [0.4, 0.6]],
        ...     emission=[[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]],
        ... )
        >>> round(model.log_likelihood([2, 1, 0]), 4)
        -3.3165
        >>> model.viterbi([2, 1, 0]).states
        array([0, 0, 1], dtype=int32)
        >>> print(model)
        <HiddenMarkovModel: 2 states, 3 symbols>
    """

    def __init__(
        self,
        states: int,
        symbols: int,
        *,
        initial: ArrayLike | None = None,
        transition: ArrayLike | None = None,
        emission: ArrayLike | None = None,
        seed: checks.Seed = None,
    ):
        self.states: int = whole_number("states", states)
        self.symbols: int = whole_number("symbols", symbols)
        S, V = self.states, self.symbols
        rng = random_generator(seed)
        rows = checks.probability_rows
        self.initial: np.ndarray = rows("initial", initial, (S,), rng)
        self.transition: np.ndarray = rows("transition", transition, (S, S), rng)
        self.emission: np.ndarray = rows("emission", emission, (S, V), rng)

    def forward(self, ids: ArrayLike) -> np.ndarray:
        r"""Computes $\log \alpha$: of the symbols up to each step and its state.

        Args:
            ids: One sequence of symbols, not empty.

        Returns:
            A float64 array of shape `(time, states)`; `-inf` for probability zero.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If the sequence is empty, or an id is out of range.
        """
        return algorithms.forward(*self._logs(ids))

    def backward(self, ids: ArrayLike) -> np.ndarray:
        r"""Computes $\log \beta$: of the symbols after each step, given its state.

        Argument and shape are those of `forward`; the last row is zero.
        """
        _, log_A, log_b = self._logs(ids)
        return algorithms.backward(log_A, log_b)

    def log_likelihood(self, ids: ArrayLike) -> float:
        """Computes the log-likelihood of a sequence.

        Args:
            ids: One sequence of symbols, not empty.

        Returns:
            The natural logarithm, `-inf` for probability zero. Negated and divided by
            the length, it is comparable to `cross_entropy` of other models.
        """
        return float(algorithms.log_sum(self.forward(ids)[-1], axis=0))

    def posterior(self, ids: ArrayLike) -> np.ndarray:
        r"""Computes $\gamma$: the probability of each state, given the sequence.

        Returns:
            A float64 array of shape `(time, states)` whose rows sum to 1.

        Raises:
            ValueError: If the sequence has probability zero.
        """
        alpha = self.forward(ids)
        algorithms.check_possible(algorithms.log_sum(alpha[-1], axis=0), "`ids`")
        return algorithms.posterior(alpha, self.backward(ids))

    def viterbi(self, ids: ArrayLike) -> algorithms.Path:
        """Returns the most probable sequence of states.

        It can differ from the most probable state at each step, which `posterior`
        gives. Ties are resolved to the lower state.

        Returns:
            The states and the log of their probability, as a `Path`.

        Raises:
            ValueError: If the sequence has probability zero.
        """
        path = algorithms.best_path(*self._logs(ids))
        algorithms.check_possible(path.log_probability, "`ids`")
        return path

    def probabilities(self, context: ArrayLike = ()) -> np.ndarray:
        """Returns the distribution of the next symbol.

        Args:
            context: All previous symbols.

        Returns:
            A float64 array of shape `(symbols,)` that sums to 1.

        Raises:
            ValueError: If the context has probability zero.
        """
        if not len(context):
            return self.initial @ self.emission
        alpha = self.forward(context)[-1]
        log_seen = algorithms.log_sum(alpha, axis=0)
        algorithms.check_possible(log_seen, "`context`")
        return np.exp(alpha - log_seen) @ self.transition @ self.emission

    def fit(
        self,
        sequences: ArrayLike,
        *,
        tolerance: float = 1e-4,
        max_iterations: int = 100,
    ) -> list[float]:
        """Fits the model to symbols by Baum–Welch, starting from the current matrices.

        Unused states keep their rows. The local maximum depends on the start: try
        several seeds.

        Args:
            sequences: One sequence of symbols, or a list of sequences.
            tolerance: Stop if the log-likelihood increases by at most this.
            max_iterations: Maximum number of steps.

        Returns:
            The log-likelihood of all sequences before the first step and after each.
            It never decreases.

        Raises:
            ValueError: If there are no sequences, or one has probability zero, which
                no step can change.

        Examples:
            >>> model = HiddenMarkovModel(2, 3, seed=0)
            >>> history = model.fit([0, 1, 0, 1, 2, 0, 1], max_iterations=7)
            >>> history == sorted(history), len(history)
            (True, 8)
        """
        sequences = checks.some_sequences("sequences", sequences, self.symbols)
        tolerance = checks.zero_or_more("tolerance", tolerance)
        steps = whole_number("max_iterations", max_iterations, at_least=0)
        model, history = algorithms.baum_welch(
            self._matrices(), sequences, tolerance, steps
        )
        self.initial, self.transition, self.emission = model
        return history

    def fit_labeled(
        self, sequences: ArrayLike, states: ArrayLike, *, k: float = 0.0
    ) -> "HiddenMarkovModel":
        """Fits the model to sequences with known states, by counting.

        Args:
            sequences: One sequence of symbols, or a list of sequences.
            states: Their states, in the same form.
            k: Added to every count. Rows without counts become uniform.

        Returns:
            The model itself.

        Raises:
            ValueError: If the states do not match the symbols, or one is out of range.

        Examples:
            >>> model = HiddenMarkovModel(2, 2).fit_labeled([0, 0, 1], [0, 1, 1])
            >>> model.emission
            array([[1. , 0. ],
                   [0.5, 0.5]])
        """
        sequences = checks.some_sequences("sequences", sequences, self.symbols)
        labels = checks.some_sequences("states", states, self.states)
        k = checks.zero_or_more("k", k)
        lengths, others = [[len(row) for row in rows] for rows in (sequences, labels)]
        if lengths != others:
            raise ValueError(
                f"`states` has rows of {others} labels for `sequences` of {lengths} "
                "symbols. Pass one state for each symbol."
            )
        model = algorithms.count_labeled(self._matrices(), sequences, labels, k)
        self.initial, self.transition, self.emission = model
        return self

    def sample(self, length: int, *, seed: checks.Seed = None) -> Sample:
        """Samples symbols and their hidden states, as a `Sample`."""
        length = whole_number("length", length, at_least=0)
        rng = random_generator(seed)
        ids, states = np.empty((2, length), "int32")
        for t in range(length):
            row = self.transition[states[t - 1]] if t else self.initial
            states[t] = rng.choice(self.states, p=row)
            ids[t] = rng.choice(self.symbols, p=self.emission[states[t]])
        return Sample(ids, states)

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration and the fitted model as plain JSON."""
        return {
            "states": self.states,
            "symbols": self.symbols,
            "initial": self.initial.tolist(),
            "transition": self.transition.tolist(),
            "emission": self.emission.tolist(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "HiddenMarkovModel":
        """Builds a model from the result of `get_config`.

        Raises:
            TypeError: If a size is not a whole number.
            ValueError: If a key is missing or unknown, or a row is not a distribution.
        """
        check(config, SCHEMA)
        return cls(**config)

    def _matrices(self) -> algorithms.Matrices:
        return algorithms.Matrices(self.initial, self.transition, self.emission)

    def _logs(self, ids):
        """Returns log π, log A, and log b, the emissions by step and state."""
        ids = id_array(ids, self.symbols)
        if not len(ids):
            raise ValueError("`ids` is empty. Pass at least one symbol.")
        log_pi, log_A, log_B = (checks.log(part) for part in self._matrices())
        return log_pi, log_A, log_B.T[ids]  # (S,), (S, S), (T, S)

    def _check_fitted(self):
        """Does nothing: random matrices can be saved as well."""

    def __repr__(self) -> str:
        return f"<HiddenMarkovModel: {self.states} states, {self.symbols} symbols>"
