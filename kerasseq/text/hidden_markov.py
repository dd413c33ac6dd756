r"""Hidden Markov models: what is seen depends on a state that is not.

At each time the system is in one of $S$ states; it starts in state $i$ with probability
$\pi_i$, goes from $i$ to $j$ with probability $A_{ij}$, and in state $j$ shows symbol
$k$ with probability $B_{jk}$:

$$
p(o_1 \ldots o_T, s_1 \ldots s_T) =
\pi_{s_1} B_{s_1 o_1} \prod_{t=2}^{T} A_{s_{t-1} s_t} B_{s_t o_t}
$$

Learning is in `markov_learning`, the recursions are in `markov_recursions`.

From: Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech
Recognition", 1989; course C, "Hidden Markov Models". Left out: continuous emissions,
states that show nothing.
"""

from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.core.schema import check
from kerasseq.text import markov_learning as learning
from kerasseq.text import markov_recursions as recursions
from kerasseq.text import probabilities as checks
from kerasseq.text.ids import id_array
from kerasseq.text.saved import Saved

SCHEMA = {
    "states": int,
    "symbols": int,
    "initial": [float],
    "transition": [[float]],
    "emission": [[float]],
}


class Sample(NamedTuple):
    """What a model made up.

    Attributes:
        ids: The symbols, int32 of shape `(length,)`.
        states: The states that showed them, int32 of shape `(length,)`.
    """

    ids: np.ndarray
    states: np.ndarray


class HiddenMarkovModel(Saved):
    r"""A hidden Markov model with $S$ states over a vocabulary of symbols.

    Args:
        states: The number of states, $S$.
        symbols: The number of symbols: ids run from 0 to `symbols - 1`.
        initial: $\pi$, `(states,)`. Drawn at random if not given.
        transition: $A$, `(states, states)`, from row to column; the same.
        emission: $B$, `(states, symbols)`; the same.
        seed: Seed of what is drawn: each row evenly from all distributions.

    Rows sum to 1, and may hold zeros: what is impossible stays so when the model is
    fitted.

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
        initial=None,
        transition=None,
        emission=None,
        seed=None,
    ):
        self.states = S = whole_number("states", states)
        self.symbols = V = whole_number("symbols", symbols)
        rng = random_generator(seed)
        self.initial = checks.probability_rows("initial", initial, (S,), rng)
        self.transition = checks.probability_rows("transition", transition, (S, S), rng)
        self.emission = checks.probability_rows("emission", emission, (S, V), rng)

    def forward(self, ids) -> np.ndarray:
        r"""Return $\log \alpha$: of the symbols up to each time and the state then.

        Args:
            ids: One row of symbols, at least one.

        Returns:
            A float64 array of shape `(time, states)`; `-inf` for what cannot be.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If there are none, or one is out of range.
        """
        return recursions.forward(*self._logs(ids))

    def backward(self, ids) -> np.ndarray:
        r"""Return $\log \beta$: of the symbols after each time, given the state then.

        It takes what `forward` takes and has the same shape; zero at the last time.
        """
        _, log_A, log_b = self._logs(ids)
        return recursions.backward(log_A, log_b)

    def log_likelihood(self, ids) -> float:
        """Return the natural log of the probability of a sequence, over all states.

        Args:
            ids: One row of symbols, at least one.

        Returns:
            The logarithm, `-inf` for a sequence that cannot be. Divided by the length
            and negated it compares with `cross_entropy` of the other models.
        """
        return float(recursions.log_sum(self.forward(ids)[-1], axis=0))

    def posterior(self, ids) -> np.ndarray:
        r"""Return $\gamma$: how probable each state is, given the whole sequence.

        Returns:
            A float64 array of shape `(time, states)` whose rows sum to 1.

        Raises:
            ValueError: If the sequence has probability zero.
        """
        alpha = self.forward(ids)
        learning.check_possible(recursions.log_sum(alpha[-1], axis=0), "`ids`")
        return recursions.posterior(alpha, self.backward(ids))

    def viterbi(self, ids) -> recursions.Path:
        """Return the most probable sequence of states.

        It can differ from the most probable state at each time, which `posterior`
        gives. Of two equally probable states the one with the lower number is taken.

        Returns:
            The states and the log of their probability, as a `Path`.

        Raises:
            ValueError: If the sequence has probability zero.
        """
        path = recursions.best_path(*self._logs(ids))
        learning.check_possible(path.log_probability, "`ids`")
        return path

    def probabilities(self, context=()) -> np.ndarray:
        """Return the distribution of the next symbol.

        Args:
            context: The symbols before it, all of them.

        Returns:
            A float64 array of shape `(symbols,)` that sums to 1.

        Raises:
            ValueError: If the context has probability zero.
        """
        if not len(context):
            return self.initial @ self.emission
        alpha = self.forward(context)[-1]
        log_seen = recursions.log_sum(alpha, axis=0)
        learning.check_possible(log_seen, "`context`")
        return np.exp(alpha - log_seen) @ self.transition @ self.emission

    def fit(
        self, sequences, *, tolerance: float = 1e-4, max_iterations: int = 100
    ) -> list[float]:
        """Learn from symbols alone, by Baum–Welch, from the matrices as they are.

        A state that the sequences do not need keeps its rows. The summit that is
        reached depends on the start: try several seeds.

        Args:
            sequences: One row of symbols, or a list of rows of any lengths.
            tolerance: Stop when the log-likelihood rises by this or less.
            max_iterations: The most steps.

        Returns:
            The log-likelihood of all sequences together: first before the first step,
            last of the model as it is now. It never falls.

        Raises:
            ValueError: If there is nothing to learn from, or a sequence has
                probability zero: then no step can make it possible.

        Examples:
            >>> model = HiddenMarkovModel(2, 3, seed=0)
            >>> history = model.fit([0, 1, 0, 1, 2, 0, 1], max_iterations=7)
            >>> history == sorted(history), len(history)
            (True, 8)
        """
        sequences = checks.some_sequences("sequences", sequences, self.symbols)
        tolerance = checks.zero_or_more("tolerance", tolerance)
        steps = whole_number("max_iterations", max_iterations, at_least=0)
        model, history = learning.baum_welch(
            self._matrices(), sequences, tolerance, steps
        )
        self.initial, self.transition, self.emission = model
        return history

    def fit_labelled(self, sequences, states, *, k: float = 0.0) -> "HiddenMarkovModel":
        """Learn by counting, from sequences whose states are known.

        Args:
            sequences: One row of symbols, or a list of rows.
            states: Their states, in the same form.
            k: Added to every count. A row with no count at all, also with `k=0`,
                becomes uniform.

        Returns:
            The model itself. What it was before does not matter.

        Raises:
            ValueError: If the states do not match the symbols, or one is out of range.

        Examples:
            >>> model = HiddenMarkovModel(2, 2).fit_labelled([0, 0, 1], [0, 1, 1])
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
                "symbols: each symbol needs the state it was shown in."
            )
        model = learning.count_labelled(self._matrices(), sequences, labels, k)
        self.initial, self.transition, self.emission = model
        return self

    def sample(self, length: int, *, seed=None) -> Sample:
        """Make up `length` symbols, with the states behind them, as a `Sample`."""
        length = whole_number("length", length, at_least=0)
        rng = random_generator(seed)
        ids, states = np.empty((2, length), "int32")
        for t in range(length):
            row = self.transition[states[t - 1]] if t else self.initial
            states[t] = rng.choice(self.states, p=row)
            ids[t] = rng.choice(self.symbols, p=self.emission[states[t]])
        return Sample(ids, states)

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal model: plain JSON."""
        return {
            "states": self.states,
            "symbols": self.symbols,
            "initial": self.initial.tolist(),
            "transition": self.transition.tolist(),
            "emission": self.emission.tolist(),
        }

    @classmethod
    def from_config(cls, config: dict) -> "HiddenMarkovModel":
        """Build a model from what `get_config` gave.

        Raises:
            TypeError: If a size is not a whole number.
            ValueError: If a key is missing or strange, or a row is no distribution.
        """
        check(config, SCHEMA)
        return cls(**config)

    def _matrices(self) -> learning.Matrices:
        return learning.Matrices(self.initial, self.transition, self.emission)

    def _logs(self, ids):
        """Return log π, log A, and log b: of what was seen, by time and state."""
        ids = id_array(ids, self.symbols)
        if not len(ids):
            raise ValueError("`ids` is empty: pass at least one symbol.")
        log_pi, log_A, log_B = (checks.log(part) for part in self._matrices())
        return log_pi, log_A, log_B.T[ids]  # (S,), (S, S), (T, S)

    def _check_fitted(self):
        """Matrices drawn at random can be saved, too."""

    def __repr__(self):
        return f"<HiddenMarkovModel: {self.states} states, {self.symbols} symbols>"
