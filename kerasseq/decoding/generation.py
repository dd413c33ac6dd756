"""Token by token from prompts: `generate`, `stream`, and samplers by name."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding.beam import Beam
from kerasseq.decoding.contrastive import Contrastive
from kerasseq.decoding.inputs import Seed, Step, Stop, check_inputs, uniform_numbers
from kerasseq.decoding.loop import Carry, Loop, is_in, make_loop, put
from kerasseq.decoding.samplers import Greedy, RandomSampler, Sampler


class Generated(NamedTuple):
    """The output of `generate`.

    Attributes:
        ids: int32 `(batch, max_new_tokens)`, without the prompt; `fill` after a stop
            token.
        lengths: int32 `(batch,)`, tokens generated per row, with the stop token.
        log_probabilities: float32 `(batch, max_new_tokens)`, of each token under the
            model, before the sampler changes the distribution; 0 after the end.
    """

    ids: np.ndarray
    lengths: np.ndarray
    log_probabilities: np.ndarray


def generate(
    step: Step,
    state: Nested,
    prompt: Tensor | Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    sampler: Sampler | None = None,
    mask: Tensor | None = None,
    stop: Stop = None,
    fill: int = 0,
    seed: Seed = None,
    compiled: bool = False,
) -> Generated:
    r"""Generates a continuation of each prompt of a batch.

    $$s_t, z_t = \mathrm{step}(s_{t-1}, x_t), \qquad x_{t+1} \sim \text{sampler}(z_t)$$

    Rows are independent: the result of a row does not depend on the others, nor on
    where the row is padded.

    Args:
        step: Function `(state, token) -> (logits, state)` that reads one token per row:
            `token` is int32 `(batch,)`, `logits` are `(batch, vocabulary)`. Each tensor
            of the state has the batch on axis 0, and keeps its shape and type. Pass the
            same function each time: TensorFlow and JAX compile it once per shape, and
            only then run its Python; they compile it again after a change of its
            layers, of their options or of a number that it reads. With a layer that is
            neither Keras' nor ours it runs as it is, unless the layer's `pure` is True.
        state: The state before the prompt. A model that reads a prompt in parallel
            passes its state after all but the last token, and that token as the prompt.
        prompt: Ids `(batch, time)`.
        max_new_tokens: The most tokens to generate.
        sampler: Chooses the next token. `Greedy()` if None.
        mask: Boolean `(batch, time)`, False at padding. No padding if None.
        stop: A token, or several, after which a row is finished.
        fill: The id after the end of a row: any integer.
        seed: Seed of the draws: an integer; a list of one per row, so that each row
            draws as it would alone with its seed; or a `keras.random.SeedGenerator`.
        compiled: Whether to compile the whole loop, not only each step: faster for a
            small model on TensorFlow and JAX, but compiled again for each prompt
            length. The tokens are the same. On PyTorch the loop runs in Python; a
            custom step function is recorded at its first call, and its Python no longer
            run, only if `compiled` is True. Those of our models always are.

    Returns:
        A `Generated` tuple: ids, lengths and log-probabilities.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If prompt or mask has the wrong shape, a row of the prompt is empty,
            an id is outside the vocabulary, or the step function returns wrong shapes
            or NaN.

    Examples:
        >>> def step(state, token):  # the next letter of the alphabet
        ...     return keras.ops.one_hot((token + 1) % 5, 5) * 9, state
        >>> options = {"max_new_tokens": 4, "stop": 0, "fill": -1}
        >>> generated = generate(step, {}, [[1], [3]], **options)
        >>> generated.ids.tolist(), generated.lengths.tolist()
        ([[2, 3, 4, 0], [4, 0, -1, -1]], [4, 2])
    """
    loop, carry = _start(
        step, state, prompt, max_new_tokens, sampler, mask, stop, fill, seed, compiled
    )
    carry = loop.run(carry, compiled)
    result = (ops.convert_to_numpy(carry[k]) for k in ("ids", "lengths", "log_p"))
    generated = Generated(*result)
    _check_numbers(generated.log_probabilities)
    return generated


class Hypotheses(NamedTuple):
    """The sequences decoded for a batch, best first.

    Attributes:
        ids: `(B, N, T)`, with the stop token, then padding.
        scores: `(B, N)`, log-probabilities; of a beam with length penalty, scores.
        lengths: `(B, N)`, with the stop token.
    """

    ids: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray


def decode(
    step: Step,
    state: Nested,
    prompt: Tensor,
    sampler: Sampler | Beam,
    *,
    seed: Seed = None,
    **options: Any,
) -> Hypotheses:
    """Runs a sampler or a beam search.

    Args:
        step: The step function, as for `generate`.
        state: The state before the prompt.
        prompt: Ids `(B, T)`.
        sampler: A `Sampler` or a `Beam`.
        seed: Seed of the draws of a sampler.
        **options: As for `generate` and `Beam.search`.
    """
    if isinstance(sampler, Beam):
        return Hypotheses(*sampler.search(step, state, prompt, **options)[:3])
    sampled = generate(step, state, prompt, sampler=sampler, seed=seed, **options)
    scores = sampled.log_probabilities.sum(axis=1)
    return Hypotheses(sampled.ids[:, None], scores[:, None], sampled.lengths[:, None])


def stream(
    step: Step,
    state: Nested,
    prompt: Tensor | Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    sampler: Sampler | None = None,
    mask: Tensor | None = None,
    stop: Stop = None,
    fill: int = 0,
    seed: Seed = None,
) -> Iterator[np.ndarray]:
    """Yields each token of `generate` as soon as it is generated.

    Args:
        step: As for `generate`, like all other arguments.
        state: The state before the prompt.
        prompt: Ids `(batch, time)`.
        max_new_tokens: The most tokens to generate.
        sampler: Chooses the next token.
        mask: Boolean `(batch, time)`.
        stop: A token, or several, after which a row is finished.
        fill: The id after the end of a row.
        seed: Seed of the draws.

    Returns:
        An iterator over int32 arrays `(batch,)`, which ends when all rows are finished.

    Raises:
        TypeError: As for `generate`, before the first token.
        ValueError: As for `generate`, before the first token.

    Examples:
        >>> def step(state, token):
        ...     return keras.ops.one_hot((token + 1) % 5, 5) * 9, state
        >>> for token in stream(step, {}, [[2]], max_new_tokens=4, stop=0):
        ...     print(token)
        [3]
        [4]
        [0]
    """
    loop, carry = _start(
        step, state, prompt, max_new_tokens, sampler, mask, stop, fill, seed, False
    )
    return _tokens(loop.steps(carry))


class Choice(NamedTuple):
    """A token that was generated, beside those that were most probable.

    Attributes:
        token: Its id.
        log_probability: ln p under the model, before the sampler changes it.
        ids: The most probable tokens, the first the most probable.
        log_probabilities: Theirs.
    """

    token: int
    log_probability: float
    ids: list[int]
    log_probabilities: list[float]


def choices(
    step: Step,
    state: Nested,
    prompt: Tensor | Sequence[Sequence[int]],
    *,
    count: int,
    max_new_tokens: int,
    sampler: Sampler | None = None,
    stop: Stop = None,
    seed: Seed = None,
) -> Iterator[Choice]:
    """Yields as `stream`, for one prompt, with the most probable tokens of each step.

    Args:
        step: As for `generate`, like all that are not named here.
        state: The state before the prompt.
        prompt: Ids `(1, time)`.
        count: How many of the most probable tokens, at most the vocabulary.
        max_new_tokens: The most tokens to generate.
        sampler: Chooses the next token.
        stop: A token, or several, at which it ends.
        seed: Seed of the draws.

    Returns:
        An iterator over `Choice`s.

    Raises:
        TypeError: As for `generate`, before the first token.
        ValueError: As for `generate`, before the first token.

    Examples:
        >>> def step(state, token):
        ...     return keras.ops.one_hot((token + 1) % 5, 5) * 9, state
        >>> options = {"max_new_tokens": 2, "count": 1}
        >>> [choice.ids for choice in choices(step, {}, [[2]], **options)]
        [[3], [4]]
    """
    checks.whole_number("count", count)
    loop, carry = _start(
        step, state, prompt, max_new_tokens, sampler, None, stop, 0, seed, False, count
    )
    return _choices(loop.steps(carry))


def _choices(carries):
    for t, carry in enumerate(carries):
        arrays = {
            name: ops.convert_to_numpy(carry[name])[0]
            for name in ("ids", "log_p", "best_ids", "best_log_p")
        }
        _check_numbers(arrays["log_p"][None])
        best = arrays["best_ids"].tolist(), arrays["best_log_p"].tolist()
        yield Choice(int(arrays["ids"][t]), float(arrays["log_p"][t]), *best)


def _tokens(carries: Iterable[Carry]) -> Iterator[np.ndarray]:
    """Returns the tokens of each step."""
    for t, carry in enumerate(carries):
        _check_numbers(ops.convert_to_numpy(carry["log_p"]))
        yield ops.convert_to_numpy(carry["ids"])[:, t]


def _start(
    step: Step,
    state: Nested,
    prompt: Tensor | Sequence[Sequence[int]],
    length: int,
    sampler: Sampler | None,
    mask: Tensor | None,
    stop: Stop,
    fill: int,
    seed: Seed,
    compiled: bool,
    best: int = 0,
) -> tuple[Loop, Carry]:
    """Checks everything, reads the prompts, and returns the loop and its carry."""
    inputs = check_inputs(step, state, prompt, mask, length, stop, fill)
    sampler = Greedy() if sampler is None else sampler
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"sampler must be a Sampler, such as Greedy(), "
            f"received {sampler!r}. Run a beam "
            "with Beam(width).search(...)"
        )
    batch, steps_before = inputs.before.ids.shape
    u = uniform_numbers(seed, batch, length)
    strategy = Sampling(sampler, inputs.stop, inputs.fill, best)
    loop = make_loop(step, strategy, inputs.programs, compiled)
    state = sampler.initial_state(inputs.state, num_steps=steps_before + length)
    carry = {
        "t": np.int32(0),
        "token": inputs.last,
        "u": u,
        "active": np.ones(batch, bool),
        "ids": np.full((batch, length), inputs.fill, "int32"),
        "log_p": np.zeros((batch, length), "float32"),
        "lengths": np.zeros(batch, "int32"),
    }
    if best:
        carry["best_ids"] = np.zeros((batch, best), "int32")
        carry["best_log_p"] = np.zeros((batch, best), "float32")
    carry = {name: ops.convert_to_tensor(x) for name, x in carry.items()}
    return loop, {**carry, "state": loop.read_prompt(state, inputs.before, compiled)}


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The strategy of one token per step, see `loop`.

    Attributes:
        sampler: The sampler.
        stop: Ids after which a row is finished.
        fill: The id after the end of a row.
        best: How many of the most probable tokens of the last step the carry has.
    """

    sampler: Sampler
    stop: tuple[int, ...]
    fill: int
    best: int = 0

    def wrap_step(self, step: Step) -> Step:
        return self.sampler.wrap_step(step)

    def step(self, step_function: Step, carry: Carry) -> Carry:
        t, active, length = carry["t"], carry["active"], carry["ids"].shape[1]
        logits, state = self.wrap_step(step_function)(carry["state"], carry["token"])
        u = ops.take(carry["u"], t, axis=1)
        token = self.sampler.choose(logits, u, state, step_function)  # (B,)
        all_log_p = keras.activations.log_softmax(logits)
        log_p = ops.take_along_axis(all_log_p, token[:, None], axis=1)[:, 0]
        best = {}
        if self.best:
            values, ids = ops.top_k(all_log_p, self.best)
            best["best_ids"] = ops.cast(ids, "int32")
            best["best_log_p"] = ops.cast(values, "float32")
        ended = ops.logical_or(is_in(token, self.stop), t + 1 == length)
        return {
            "t": t + 1,
            "token": token,  # finished rows go on; their tokens are not stored
            "state": state,
            "u": carry["u"],
            "active": ops.logical_and(active, ops.logical_not(ended)),
            "ids": put(carry["ids"], t, ops.where(active, token, self.fill)),
            "log_p": put(carry["log_p"], t, ops.where(active, log_p, 0.0)),
            "lengths": carry["lengths"] + ops.cast(active, "int32"),
            **best,
        }


def _check_numbers(log_p: np.ndarray) -> None:
    """Raises if the step function returned NaN."""
    bad = np.argwhere(np.isnan(log_p))
    if len(bad):
        row, t = bad[0]
        raise ValueError(f"step returned logits with NaN for row {row}, new token {t}")


# With KerasHub's defaults. A number that is given replaces the default.
FILTERS = {
    "random": {},
    "top_k": {"top_k": 5},
    "top_p": {"top_p": 0.1},
    "min_p": {"min_p": 0.1},
}
SEARCHES = {
    "greedy": Greedy(),
    "beam": Beam(5),
    "contrastive": Contrastive(5, 0.6),
}


def get_sampler(
    sampler: Any = None,
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    default: str = "random",
) -> Sampler | Beam:
    """Returns the sampler that the arguments of a model's `generate` specify.

    Args:
        sampler: A `Sampler`, a `Beam`, or a name: "greedy", "random", "top_k", "top_p",
            "min_p", "contrastive" or "beam". If None, "random" if one of the numbers
            is given, else `default`.
        temperature: Lower is more deterministic, higher more random; 0 is greedy.
        top_k: Number of tokens to sample from.
        top_p: Cumulative probability of the tokens to sample from.
        min_p: The least probability, as a fraction of the largest.
        default: Name of the sampler if nothing is given.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range, or is given with a sampler that does
            not use it.

    Examples:
        >>> get_sampler(temperature=0.8, top_k=40, top_p=0.9)
        RandomSampler(temperature=0.8, top_k=40, top_p=0.9, min_p=None)
        >>> get_sampler("top_k").top_k, get_sampler(temperature=0), get_sampler("beam")
        (5, Greedy(), Beam(width=5, length_penalty=0.0, n_best=1))
    """
    numbers = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    numbers = {name: x for name, x in numbers.items() if x is not None}
    given = numbers if temperature is None else {"temperature": temperature, **numbers}
    if sampler is None:
        sampler = "random" if given else default
    if isinstance(sampler, str):
        checks.one_of("sampler", sampler, (*FILTERS, *SEARCHES))
    elif not isinstance(sampler, Sampler | Beam):
        raise TypeError(
            'sampler must be a name, such as "top_k", a Sampler or a Beam, received '
            f"{sampler!r}"
        )
    if sampler not in FILTERS:
        if given:
            raise ValueError(
                f"sampler={sampler!r} does not use {', '.join(given)}: give the "
                "sampler or the numbers, not both"
            )
        return SEARCHES.get(sampler, sampler)
    checked = 1.0 if temperature is None else checks.number("temperature", temperature)
    random = RandomSampler(checked or 1.0, **{**FILTERS[sampler], **numbers})
    return random if checked else Greedy()
