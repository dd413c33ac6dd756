"""Writing on from prompts, one token after the other."""

import dataclasses
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.decoding.greedy import Greedy
from kerasseq.decoding.inputs import read_inputs
from kerasseq.decoding.loop import is_in, loop_of, put
from kerasseq.decoding.prompts import uniform_numbers
from kerasseq.decoding.sampler import Sampler


class Generated(NamedTuple):
    """What was written.

    Attributes:
        ids: int32 `(batch, length)`, without the prompt; `fill` after a stop token.
        lengths: int32 `(batch,)`: how many tokens of a row count, the stop token
            included.
        log_probabilities: float32 `(batch, length)`: of each token under the model as
            it is, before the sampler changed the distribution; 0 where nothing counts.
    """

    ids: np.ndarray
    lengths: np.ndarray
    log_probabilities: np.ndarray


def generate(
    step,
    state,
    prompt,
    *,
    length: int,
    sampler: Sampler | None = None,
    mask=None,
    stop=None,
    fill: int = 0,
    seed=None,
    compiled: bool = False,
) -> Generated:
    r"""Write on from each prompt of a batch.

    $$s_t, z_t = \mathrm{step}(s_{t-1}, x_t), \qquad x_{t+1} \sim \text{sampler}(z_t)$$

    Rows do not know of each other: each comes out as if it were alone, however it is
    padded, on the left, on the right or between.

    Args:
        step: Function `(state, token) -> (logits, state)` that reads one token per row:
            `token` is int32 `(batch,)`, `logits` are `(batch, vocabulary)`. Each tensor
            of the state has the batch on axis 0, and keeps its shape and type. Give the
            same function each time: TensorFlow and JAX compile it once per shape, and
            run its Python, such as a counter, only then; after a change of its layers,
            of their options or of a number that it reads they compile it anew.
        state: The state before the prompt. A model that reads a prompt at once gives
            its state after all but the last token, and that token as the prompt.
        prompt: Ids `(batch, time)`.
        length: The most tokens to write.
        sampler: How the next token is taken. `Greedy()` if None.
        mask: Boolean `(batch, time)`, True where a token is real. All if None.
        stop: A token, or several, after which a row is done.
        fill: What stands in a row after it is done: any integer.
        seed: Seed of the draws: an integer; a list of one per row, so that each row
            draws as it would alone with its seed; or a `keras.random.SeedGenerator`.
        compiled: Compile the whole loop, and not only each turn: faster for a small
            model on TensorFlow and JAX, but compiled anew for each length of prompt.
            The tokens are the same. On PyTorch the loop runs in Python; a step function
            of your own is recorded after some calls, and its Python not run any more,
            only if `compiled` is True. Those of our models always are.

    Returns:
        Ids, lengths and log-probabilities.

    Raises:
        TypeError: If something is not of the right type.
        ValueError: If prompt or mask has a wrong shape, a row of the prompt is empty,
            an id is out of the vocabulary, or the step function gives wrong shapes or
            NaN.

    Examples:
        >>> def step(state, token):  # after each letter the next of the alphabet
        ...     return keras.ops.one_hot((token + 1) % 5, 5) * 9, state
        >>> written = generate(step, {}, [[1], [3]], length=4, stop=0, fill=-1)
        >>> written.ids.tolist(), written.lengths.tolist()
        ([[2, 3, 4, 0], [4, 0, -1, -1]], [4, 2])
    """
    loop, carry = start(
        step, state, prompt, length, sampler, mask, stop, fill, seed, compiled
    )
    carry = loop.run(carry, compiled)
    result = (ops.convert_to_numpy(carry[k]) for k in ("ids", "lengths", "log_p"))
    written = Generated(*result)
    check_numbers(written.log_probabilities)
    return written


def stream(
    step,
    state,
    prompt,
    *,
    length: int,
    sampler: Sampler | None = None,
    mask=None,
    stop=None,
    fill: int = 0,
    seed=None,
):
    """`generate`, each token when it comes.

    Args:
        step: As for `generate`, like all that follows.
        state: The state before the prompt.
        prompt: Ids `(batch, time)`.
        length: The most tokens to write.
        sampler: How the next token is taken.
        mask: Boolean `(batch, time)`.
        stop: A token, or several, after which a row is done.
        fill: What comes from a row that is done while others are not.
        seed: Seed of the draws.

    Returns:
        An iterator over int32 arrays `(batch,)`, which ends when all rows are done.

    Raises:
        TypeError: If something is not of the right type; at once, as
        ValueError: if prompt, mask or step function are wrong, as for `generate`.

    Examples:
        >>> def step(state, token):
        ...     return keras.ops.one_hot((token + 1) % 5, 5) * 9, state
        >>> for token in stream(step, {}, [[2]], length=4, stop=0):
        ...     print(token)
        [3]
        [4]
        [0]
    """
    loop, carry = start(
        step, state, prompt, length, sampler, mask, stop, fill, seed, False
    )
    return tokens_of(loop.turns(carry))


def tokens_of(carries):
    """The tokens of each turn, out of the carries after it."""
    for t, carry in enumerate(carries):
        check_numbers(ops.convert_to_numpy(carry["log_p"]))
        yield ops.convert_to_numpy(carry["ids"])[:, t]


def start(step, state, prompt, length, sampler, mask, stop, fill, seed, compiled):
    """Check everything, read the prompts, and give the loop with its first carry."""
    checks.whole_number("length", length)
    sampler = Greedy() if sampler is None else sampler
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be one, such as Greedy(), got {sampler!r}")
    fill = checks.whole_number("fill", fill, -(2**31))  # no token below 0: fine
    inputs = read_inputs(step, state, prompt, mask, stop)
    batch, steps_before = inputs.before.ids.shape
    u = uniform_numbers(seed, batch, length)
    plan = Writing(sampler, inputs.stop, fill)
    loop = loop_of(step, plan, inputs.programs, compiled)
    state = sampler.begin(inputs.state, room=steps_before + length)
    carry = {
        "t": np.int32(0),
        "token": inputs.last,
        "u": u,
        "going": np.ones(batch, bool),
        "ids": np.full((batch, length), fill, "int32"),
        "log_p": np.zeros((batch, length), "float32"),
        "lengths": np.zeros(batch, "int32"),
    }
    carry = {name: ops.convert_to_tensor(x) for name, x in carry.items()}
    return loop, {**carry, "state": loop.read(state, inputs.before, compiled)}


@dataclasses.dataclass(frozen=True)
class Writing:
    """The plan of a loop that writes one token per turn, see `loop`."""

    sampler: Sampler
    stop: tuple
    fill: int

    def watch(self, step):
        return self.sampler.watch(step)

    def turn(self, step, carry):
        t, going, length = carry["t"], carry["going"], carry["ids"].shape[1]
        logits, state = self.watch(step)(carry["state"], carry["token"])
        u = ops.take(carry["u"], t, axis=1)
        token = self.sampler.choose(logits, u, state, step)  # (B,)
        log_p = keras.activations.log_softmax(logits)
        log_p = ops.take_along_axis(log_p, token[:, None], axis=1)[:, 0]
        ended = ops.logical_or(is_in(token, self.stop), t + 1 == length)
        return {
            "t": t + 1,
            "token": token,  # a row that is done goes on reading, and nobody looks
            "state": state,
            "u": carry["u"],
            "going": ops.logical_and(going, ops.logical_not(ended)),
            "ids": put(carry["ids"], t, ops.where(going, token, self.fill)),
            "log_p": put(carry["log_p"], t, ops.where(going, log_p, 0.0)),
            "lengths": carry["lengths"] + ops.cast(going, "int32"),
        }


def check_numbers(log_p):
    """Raise if a step function gave NaN on the way."""
    bad = np.argwhere(np.isnan(log_p))
    if len(bad):
        row, t = bad[0]
        raise ValueError(f"step gave logits with NaN for row {row}, new token {t}")
