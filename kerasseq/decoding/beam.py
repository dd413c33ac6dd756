r"""Beam search: the most probable sequences instead of the most probable next token.

A beam holds $W$ hypotheses. At each step every hypothesis is expanded by every token,
and the $W$ most probable expansions are kept:

$$\log p(x_1 \dots x_t) = \log p(x_1 \dots x_{t-1}) + \log p(x_t \mid x_{<t})$$

A hypothesis that ends with a stop token leaves the beam. Finished hypotheses are
ranked with the length penalty of Wu et al.:

$$\mathrm{score}(x) = \frac{\log p(x)}{lp(|x|)}, \qquad
lp(n) = \Big(\frac{5 + n}{6}\Big)^{\alpha}$$

From: Lowerre, "The HARPY Speech Recognition System", 1976; Sutskever, Vinyals and Le,
"Sequence to Sequence Learning with Neural Networks", 2014, for hypotheses that leave
the beam; Wu et al., "Google's Neural Machine Translation System", 2016, equation 14.
Left out: the coverage penalty, which needs attention.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding.inputs import (
    Inputs,
    Step,
    Stop,
    at_least_zero,
    check_inputs,
    repeat_rows,
    take_rows,
)
from kerasseq.decoding.loop import Carry, is_in, make_loop, put


class BeamTree(NamedTuple):
    """The expansions that a beam search considered for one row, in order of time.

    For each hypothesis these are its best expansions, as many as the beam is wide. All
    arrays have the shape `(nodes,)`.

    Attributes:
        step: Index of the token in the sequence, from 0.
        parent: The node that it expands; -1 after the prompt.
        token: The id.
        score: Log-probability of the sequence so far.
        finished: Whether the sequence ends here, by a stop token or by its length.
        kept: Whether it was among the best, and not pruned.
    """

    step: np.ndarray
    parent: np.ndarray
    token: np.ndarray
    score: np.ndarray
    finished: np.ndarray
    kept: np.ndarray


class BeamResult(NamedTuple):
    """The best sequences of a beam search, best first.

    Attributes:
        ids: int32 `(batch, n_best, max_new_tokens)`, without the prompt; `fill` after
            the end.
        scores: float32 `(batch, n_best)`: log-probability divided by the length
            penalty; `-inf` where there are fewer sequences.
        lengths: int32 `(batch, n_best)`, with the stop token; 0 where there are fewer
            sequences.
        trees: A `BeamTree` per row with `return_trees=True`, else None.
    """

    ids: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray
    trees: list[BeamTree] | None


@dataclasses.dataclass(frozen=True)
class Beam:
    r"""Beam search over a step function.

    Width 1 is greedy search. With `width = vocabulary ** (max_new_tokens - 1)` the
    search is exhaustive.

    Args:
        width: $W$, number of hypotheses.
        length_penalty: $\alpha$. 0 compares log-probabilities, which favors short
            sequences; 1 is close to the mean per token.
        n_best: Number of sequences to return, at most `width`.

    Raises:
        TypeError: If an argument is not a number, or a count not an integer.
        ValueError: If a count is below 1, `n_best` above `width`, or the length penalty
            negative or not finite.

    Examples:
        >>> p = np.array([[0.0, 0.4, 0.6], [0.9, 0.1, 0.0], [0.5, 0.5, 0.0]])
        >>> def step(state, token):  # after 0, token 2 is more probable than 1
        ...     return keras.ops.take(np.log(p + 1e-9), token, axis=0), state
        >>> hypotheses = Beam(2).search(step, {}, [[0]], max_new_tokens=2)
        >>> hypotheses.ids.tolist(), np.exp(hypotheses.scores).round(2).tolist()
        ([[[1, 0]]], [[0.36...]])
    """

    width: int
    length_penalty: float = 0.0
    n_best: int = 1

    def __post_init__(self) -> None:
        checks.whole_number("width", self.width)
        at_least_zero("length_penalty", self.length_penalty)
        checks.whole_number("n_best", self.n_best)
        if self.n_best > self.width:
            raise ValueError(
                f"n_best must be at most width, {self.width}, received {self.n_best}"
            )

    def search(
        self,
        step: Step,
        state: Nested,
        prompt: Tensor | Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        mask: Tensor | None = None,
        stop: Stop = None,
        fill: int = 0,
        compiled: bool = False,
        return_trees: bool = False,
    ) -> BeamResult:
        """Searches the most probable continuations of each prompt of a batch.

        A row is finished when no hypothesis in its beam can still be among the `n_best`
        finished ones. A log-probability only decreases, and the longest sequence has
        the largest penalty, so no hypothesis with log-probability s can end above
        s / lp(max_new_tokens): this is the bound. Ties go to the sequence that ended
        first, then to the better parent, then to the smaller id. Hypotheses of
        `max_new_tokens` tokens are finished.

        Args:
            step: Function `(state, token) -> (logits, state)`, as for `generate`. It is
                called with `batch * width` rows.
            state: The state before the prompt. Its rows follow their hypotheses.
            prompt: Ids `(batch, time)`.
            max_new_tokens: The most tokens of a sequence.
            mask: Boolean `(batch, time)`, False at padding. No padding if None.
            stop: A token, or several, that end a sequence.
            fill: The id after the end.
            compiled: Whether to compile the whole loop, not only each step, as in
                `generate`.
            return_trees: Whether to return the expansions considered, for plots.

        Returns:
            A `BeamResult` tuple: ids, scores, lengths and trees.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: As for `generate`, or if there are fewer sequences than `width`.
        """
        inputs = check_inputs(step, state, prompt, mask, max_new_tokens, stop, fill)
        _check_width(self.width, inputs.vocabulary, max_new_tokens)
        loop = make_loop(step, BeamSearch(self, inputs.stop), inputs.programs, compiled)
        state = loop.read_prompt(inputs.state, inputs.before, compiled)
        carry = self._first_carry(inputs, state, max_new_tokens, return_trees)
        carry = loop.run(carry, compiled)
        carry.pop("state")
        carry = {name: ops.convert_to_numpy(x) for name, x in carry.items()}
        if not carry["finite"]:
            raise ValueError("step returned logits with NaN")
        return self._result(carry, inputs, return_trees)

    def _first_carry(
        self, inputs: Inputs, state: Nested, length: int, return_trees: bool
    ) -> Carry:
        """Beams with one hypothesis, the prompt; the others have score -inf."""
        B, W, N, L = len(inputs.last), self.width, self.n_best, length
        K = min(W, inputs.vocabulary)
        history = {
            "tokens": np.zeros((B, L, W), "int32"),
            "parents": np.zeros((B, L, W), "int32"),
        }
        if return_trees:
            history["expanded"] = np.zeros((B, L, W, K), "int32")
            history["expanded_scores"] = np.full((B, L, W, K), -np.inf, "float32")
            history["selected"] = np.zeros((B, L, W), "int32")
            history["scores"] = np.full((B, L, W), -np.inf, "float32")
        first = np.where(np.arange(W) == 0, 0, -np.inf).astype("float32")
        carry = {
            "t": np.int32(0),
            "token": np.repeat(inputs.last, W),
            "score": np.tile(first, (B, 1)),
            # Of the finished sequences: score, last step, index in the beam there.
            "best": np.full((B, N), -np.inf, "float32"),
            "best_t": np.zeros((B, N), "int32"),
            "best_index": np.zeros((B, N), "int32"),
            "active": np.ones(B, bool),
            "num_steps": np.zeros(B, "int32"),
            "finite": np.True_,
            **history,
        }
        carry = {name: ops.convert_to_tensor(x) for name, x in carry.items()}
        return {**carry, "state": repeat_rows(state, W)}  # (B W, ...)

    def _result(
        self, carry: dict[str, np.ndarray], inputs: Inputs, return_trees: bool
    ) -> BeamResult:
        """Reads each sequence by following the parents from its end."""
        B, L, _ = carry["tokens"].shape
        is_finite = np.isfinite(carry["best"])
        ids = np.full((B, self.n_best, L), inputs.fill, "int32")
        lengths = np.where(is_finite, carry["best_t"] + 1, 0).astype("int32")
        for row, n in np.argwhere(is_finite):
            path = backtrack(
                carry, row, carry["best_t"][row, n], carry["best_index"][row, n]
            )
            ids[row, n, : len(path)] = path
        trees = None
        if return_trees:
            trees = [build_tree(carry, row, inputs.stop) for row in range(B)]
        return BeamResult(ids, carry["best"], lengths, trees)


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """The strategy of beam search, see `loop`."""

    beam: Beam
    stop: tuple[int, ...]

    def wrap_step(self, step: Step) -> Step:
        return step

    def step(self, step_function: Step, carry: Carry) -> Carry:
        logits, state = step_function(carry["state"], carry["token"])
        expanded = self.expand(carry["score"], logits)
        W = self.beam.width
        score, index = kernels.top_k(_flat(expanded["expanded_scores"]), W)  # (B, W)
        token = ops.take_along_axis(_flat(expanded["expanded"]), index, axis=1)
        parent = index // expanded["expanded"].shape[2]
        B = token.shape[0]
        rows = ops.reshape(W * ops.arange(B)[:, None] + parent, (B * W,))
        history = {
            **expanded,
            "tokens": token,
            "parents": parent,
            "selected": index,
            "scores": score,
        }
        alive = ops.reshape(carry["score"], (B * W, 1)) > -np.inf
        nan = ops.any(ops.logical_and(alive, ops.isnan(logits)))
        return {
            **self.finalize(carry, score, token),
            "t": carry["t"] + 1,
            "token": ops.reshape(token, (B * W,)),
            "state": take_rows(state, rows),  # caches follow their hypotheses
            "num_steps": carry["num_steps"] + ops.cast(carry["active"], "int32"),
            "finite": ops.logical_and(carry["finite"], ops.logical_not(nan)),
            **{
                k: put(carry[k], carry["t"], v)
                for k, v in history.items()
                if k in carry
            },
        }

    def expand(self, score: Tensor, logits: Tensor) -> dict[str, Tensor]:
        """Returns the best expansions of each hypothesis, at most W."""
        B, W = score.shape
        log_p = keras.activations.log_softmax(logits)  # (B W, V)
        # A rule about the next token would set some of these to -inf.
        K = min(W, log_p.shape[-1])
        log_p, token = kernels.top_k(ops.reshape(log_p, (B, W, -1)), K)
        scores = score[..., None] + log_p  # (B, W, K)
        return {"expanded": token, "expanded_scores": scores}

    def finalize(self, carry: Carry, score: Tensor, token: Tensor) -> dict[str, Tensor]:
        """Moves finished hypotheses to the best; a row is active if it can improve."""
        t, L, N = carry["t"], carry["tokens"].shape[1], self.beam.n_best
        lp = length_penalties(L, self.beam.length_penalty)
        lp = ops.convert_to_tensor(lp, "float32")
        ended = ops.logical_or(is_in(token, self.stop), t + 1 == L)
        new = ops.where(ended, score / ops.take(lp, t), -np.inf)
        running = ops.where(ended, -np.inf, score)  # (B, W)
        # Earlier sequences come first, and win ties.
        best, order = kernels.top_k(ops.concatenate([carry["best"], new], axis=1), N)
        ends = {"best_t": t, "best_index": ops.arange(self.beam.width)[None]}
        for name, value in ends.items():
            value = ops.broadcast_to(ops.cast(value, "int32"), token.shape)
            both = ops.concatenate([carry[name], value], axis=1)
            ends[name] = ops.take_along_axis(both, order, axis=1)
        bound = ops.max(running, axis=1) / lp[-1]
        active = ops.logical_and(carry["active"], bound > best[:, -1])
        return {"best": best, **ends, "score": running, "active": active}


def _flat(x: Tensor) -> Tensor:
    """Reshapes `(B, W, K)` to `(B, W K)`."""
    return ops.reshape(x, (x.shape[0], -1))


def _check_width(width: int, vocabulary: int, length: int) -> None:
    """Raises if the beam is wider than the number of sequences."""
    if width > vocabulary**length:
        raise ValueError(
            f"width must be at most {vocabulary**length}, "
            f"received {width}: there are no "
            f"more sequences of {length} out of {vocabulary} tokens"
        )


def length_penalties(length: int, alpha: float) -> np.ndarray:
    r"""Computes $lp(1) \dots lp(\text{length})$.

    Examples:
        >>> length_penalties(3, 1.0).round(3).tolist()
        [1.0, 1.167, 1.333]
    """
    return ((5 + np.arange(1, length + 1)) / 6) ** alpha


def backtrack(
    history: Mapping[str, np.ndarray], row: int, t: int, index: int
) -> list[int]:
    """Returns the tokens of the hypothesis at `index` of the beam after step t.

    Examples:
        >>> history = {
        ...     "tokens": np.array([[[5, 6], [7, 8]]]),  # (batch, length, width)
        ...     "parents": np.array([[[0, 0], [1, 0]]]),
        ... }
        >>> backtrack(history, 0, 1, 0)
        [6, 7]
    """
    path = []
    for step in range(t, -1, -1):
        path.append(int(history["tokens"][row, step, index]))
        index = history["parents"][row, step, index]
    return path[::-1]


def build_tree(
    history: Mapping[str, np.ndarray], row: int, stop: Sequence[int]
) -> BeamTree:
    """Returns the tree of one row from the expansions of each step.

    Args:
        history: `expanded` and `expanded_scores`, `(batch, length, width, K)`;
            `selected` and `scores`, `(batch, length, width)`, the kept expansions as
            indices in `width * K`; `num_steps`, `(batch,)`, until the row finished.
        row: Index of the row.
        stop: The stop tokens.
    """
    nodes = []
    length, width, K = history["expanded"].shape[1:]
    parent_of = np.full(width, -1)  # the node of each hypothesis in the beam
    for t in range(history["num_steps"][row]):
        scores = history["expanded_scores"][row, t].reshape(-1)
        tokens = history["expanded"][row, t].reshape(-1)
        alive = history["scores"][row, t] > -np.inf
        selected = history["selected"][row, t][alive]
        node_of = np.full(width * K, -1)
        for index in np.flatnonzero(scores > -np.inf):
            node_of[index] = len(nodes)
            kept = index in selected
            ended = kept and (tokens[index] in stop or t + 1 == length)
            parent = parent_of[index // K]
            nodes.append((t, parent, tokens[index], scores[index], ended, kept))
        parent_of = node_of[history["selected"][row, t]]
    columns = zip(*nodes, strict=True)
    types = ("int32", "int32", "int32", "float32", "bool", "bool")
    return BeamTree(*map(np.array, columns, types))
