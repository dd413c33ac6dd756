r"""Beam search: the probable sequences, not only the probable next token.

A beam holds $W$ beginnings. Each turn every one of them is continued by every token,
and of these continuations the $W$ most probable stay:

$$\log p(x_1 \dots x_t) = \log p(x_1 \dots x_{t-1}) + \log p(x_t \mid x_{<t})$$

One that ends with a stop token leaves the beam; when sequences are compared, long ones
are helped by the length penalty of Wu et al.:

$$\mathrm{score}(x) = \frac{\log p(x)}{lp(|x|)}, \qquad
lp(n) = \Big(\frac{5 + n}{6}\Big)^{\alpha}$$

From: Lowerre, "The HARPY Speech Recognition System", 1976; Sutskever, Vinyals and Le,
"Sequence to Sequence Learning with Neural Networks", 2014, for sequences that leave the
beam; Wu et al., "Google's Neural Machine Translation System", 2016, equation 14. Left
out: the coverage penalty, which needs attention.
"""

import dataclasses
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.decoding import arguments
from kerasseq.decoding.beam_tree import BeamTree, grow, path_to
from kerasseq.decoding.inputs import read_inputs
from kerasseq.decoding.loop import is_in, loop_of, put
from kerasseq.decoding.steps import repeat_rows, take_rows


class BeamResult(NamedTuple):
    """What a beam search found, the best first.

    Attributes:
        ids: int32 `(batch, n_best, length)`, without the prompt; `fill` behind the end.
        scores: float32 `(batch, n_best)`: log-probability divided by the length
            penalty; `-inf` where there are no more sequences.
        lengths: int32 `(batch, n_best)`, the stop token included; 0 where there are no
            more sequences.
        trees: A `BeamTree` per row if it was asked for, else None.
    """

    ids: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray
    trees: list[BeamTree] | None


@dataclasses.dataclass(frozen=True)
class Beam:
    r"""Beam search over a step function.

    Width 1 is greedy. A beam that holds all beginnings finds what trying all sequences
    finds: with `width = vocabulary ** (length - 1)` it does so for sure.

    Args:
        width: $W$, how many beginnings are kept.
        length_penalty: $\alpha$. 0 compares sums of logarithms, in which short
            sequences have an advantage; 1 is near to the mean per token.
        n_best: How many sequences come back, at most `width`.

    Raises:
        TypeError: If an argument is no number, or a count not whole.
        ValueError: If a count is below 1, `n_best` above `width`, or the length penalty
            negative or not finite.

    Examples:
        >>> p = np.array([[0.0, 0.4, 0.6], [0.9, 0.1, 0.0], [0.5, 0.5, 0.0]])
        >>> def step(state, token):  # from 0: first 2 looks better, but 1 is
        ...     return keras.ops.take(np.log(p + 1e-9), token, axis=0), state
        >>> found = Beam(2).search(step, {}, [[0]], length=2)
        >>> found.ids.tolist(), np.exp(found.scores).round(2).tolist()
        ([[[1, 0]]], [[0.36...]])
    """

    width: int
    length_penalty: float = 0.0
    n_best: int = 1

    def __post_init__(self):
        checks.whole_number("width", self.width)
        arguments.at_least_zero("length_penalty", self.length_penalty)
        checks.whole_number("n_best", self.n_best)
        if self.n_best > self.width:
            raise ValueError(
                f"n_best must be at most width, {self.width}, got {self.n_best}"
            )

    def search(
        self,
        step,
        state,
        prompt,
        *,
        length: int,
        mask=None,
        stop=None,
        fill: int = 0,
        compiled: bool = False,
        return_trees: bool = False,
    ) -> BeamResult:
        """Find the most probable continuations of each prompt of a batch.

        A row is done when no beginning in its beam can still come among the `n_best`
        that have ended. A log-probability only falls, and the longest sequence has the
        largest penalty to divide it by, so no beginning with log-probability s can end
        above s / lp(length): that is the bound. Of equal scores the sequence that ended
        first counts as better, then the one from the better beginning, then the one
        with the smaller id. What has not ended after `length` tokens counts as it is.

        Args:
            step: Function `(state, token) -> (logits, state)`, as for `generate`. It is
                called with `batch * width` rows.
            state: The state before the prompt. Its rows follow the beginnings to which
                they belong.
            prompt: Ids `(batch, time)`.
            length: The most tokens of a sequence.
            mask: Boolean `(batch, time)`, True where a token is real. All if None.
            stop: A token, or several, that end a sequence.
            fill: What stands behind the end.
            compiled: Compile the whole loop, and not only each turn, as in `generate`.
            return_trees: Also tell what was considered, for pictures.

        Returns:
            Ids, scores, lengths and, if asked for, the trees.

        Raises:
            TypeError: If something is not of the right type.
            ValueError: As for `generate`, or if there are fewer sequences than `width`.
        """
        checks.whole_number("length", length)
        fill = checks.whole_number("fill", fill, -(2**31))
        inputs = read_inputs(step, state, prompt, mask, stop)
        check_width(self.width, inputs.vocabulary, length)
        plan = Searching(self, inputs.stop)
        loop = loop_of(step, plan, inputs.programs, compiled)
        after = loop.read(inputs.state, inputs.before, compiled)
        carry = self.first_carry(inputs, after, length, return_trees)
        carry = loop.run(carry, compiled)
        carry.pop("state")
        carry = {name: ops.convert_to_numpy(x) for name, x in carry.items()}
        if not carry["sound"]:
            raise ValueError("step gave logits with NaN")
        return self.result(carry, inputs.stop, fill, return_trees)

    def first_carry(self, inputs, state, length, return_trees):
        """Beams in which all but the first place are empty: they have score -inf."""
        B, W, N, L = len(inputs.last), self.width, self.n_best, length
        K = min(W, inputs.vocabulary)
        history = {
            "tokens": np.zeros((B, L, W), "int32"),
            "parents": np.zeros((B, L, W), "int32"),
        }
        if return_trees:
            history["tried"] = np.zeros((B, L, W, K), "int32")
            history["tried_scores"] = np.full((B, L, W, K), -np.inf, "float32")
            history["places"] = np.zeros((B, L, W), "int32")
            history["scores"] = np.full((B, L, W), -np.inf, "float32")
        first = np.where(np.arange(W) == 0, 0, -np.inf).astype("float32")
        carry = {
            "t": np.int32(0),
            "token": np.repeat(inputs.last, W),
            "score": np.tile(first, (B, 1)),
            # Of the sequences that ended: score, last step, place in the beam there.
            "best": np.full((B, N), -np.inf, "float32"),
            "best_t": np.zeros((B, N), "int32"),
            "best_place": np.zeros((B, N), "int32"),
            "going": np.ones(B, bool),
            "turns": np.zeros(B, "int32"),
            "sound": np.True_,
            **history,
        }
        carry = {name: ops.convert_to_tensor(x) for name, x in carry.items()}
        return {**carry, "state": repeat_rows(state, W)}  # (B W, ...)

    def result(self, carry, stop, fill, return_trees):
        """Follow each sequence back from its end."""
        B, L, _ = carry["tokens"].shape
        found = np.isfinite(carry["best"])
        ids = np.full((B, self.n_best, L), fill, "int32")
        lengths = np.where(found, carry["best_t"] + 1, 0).astype("int32")
        for row, n in np.argwhere(found):
            path = path_to(
                carry, row, carry["best_t"][row, n], carry["best_place"][row, n]
            )
            ids[row, n, : len(path)] = path
        trees = [grow(carry, row, stop) for row in range(B)] if return_trees else None
        return BeamResult(ids, carry["best"], lengths, trees)


def check_width(width, vocabulary, length):
    """Raise if the beam is wider than there are sequences."""
    if width > vocabulary**length:
        raise ValueError(
            f"width must be at most {vocabulary**length}, got {width}: there are no "
            f"more sequences of {length} out of {vocabulary} tokens"
        )


def penalties(length, alpha):
    r"""$lp(1) \dots lp(\text{length})$.

    Examples:
        >>> penalties(3, 1.0).round(3).tolist()
        [1.0, 1.167, 1.333]
    """
    return ((5 + np.arange(1, length + 1)) / 6) ** alpha


@dataclasses.dataclass(frozen=True)
class Searching:
    """The plan of a loop that moves a beam on by one token per turn, see `loop`."""

    beam: Beam
    stop: tuple

    def watch(self, step):
        return step

    def turn(self, step, carry):
        logits, state = step(carry["state"], carry["token"])
        tried = self.tries(carry["score"], logits)
        W = self.beam.width
        score, place = kernels.top_k(flat(tried["tried_scores"]), W)  # (B, W)
        token = ops.take_along_axis(flat(tried["tried"]), place, axis=1)
        parent = place // tried["tried"].shape[2]
        B = token.shape[0]
        rows = ops.reshape(W * ops.arange(B)[:, None] + parent, (B * W,))
        now = {
            **tried,
            "tokens": token,
            "parents": parent,
            "places": place,
            "scores": score,
        }
        alive = ops.reshape(carry["score"], (B * W, 1)) > -np.inf
        nan = ops.any(ops.logical_and(alive, ops.isnan(logits)))
        return {
            **self.settle(carry, score, token),
            "t": carry["t"] + 1,
            "token": ops.reshape(token, (B * W,)),
            "state": take_rows(state, rows),
            "turns": carry["turns"] + ops.cast(carry["going"], "int32"),
            "sound": ops.logical_and(carry["sound"], ops.logical_not(nan)),
            **{k: put(carry[k], carry["t"], x) for k, x in now.items() if k in carry},
        }

    def tries(self, score, logits):
        """The best continuations of each beginning: no more than W can stay."""
        B, W = score.shape
        log_p = keras.activations.log_softmax(logits)  # (B W, V)
        K = min(W, log_p.shape[-1])
        log_p, token = kernels.top_k(ops.reshape(log_p, (B, W, -1)), K)
        return {"tried": token, "tried_scores": score[..., None] + log_p}  # (B, W, K)

    def settle(self, carry, score, token):
        """Set aside what has ended, and see which rows can still find better."""
        t, L, N = carry["t"], carry["tokens"].shape[1], self.beam.n_best
        lp = ops.convert_to_tensor(penalties(L, self.beam.length_penalty), "float32")
        ended = ops.logical_or(is_in(token, self.stop), t + 1 == L)
        new = ops.where(ended, score / ops.take(lp, t), -np.inf)
        running = ops.where(ended, -np.inf, score)  # (B, W)
        # Those that ended earlier stand first, and so win if scores are equal.
        best, order = kernels.top_k(ops.concatenate([carry["best"], new], axis=1), N)
        ends = {"best_t": t, "best_place": ops.arange(self.beam.width)[None]}
        for name, value in ends.items():
            value = ops.broadcast_to(ops.cast(value, "int32"), token.shape)
            both = ops.concatenate([carry[name], value], axis=1)
            ends[name] = ops.take_along_axis(both, order, axis=1)
        bound = ops.max(running, axis=1) / lp[-1]
        going = ops.logical_and(carry["going"], bound > best[:, -1])
        return {"best": best, **ends, "score": running, "going": going}


def flat(x):
    """`(B, W, K)` as `(B, W K)`."""
    return ops.reshape(x, (x.shape[0], -1))
