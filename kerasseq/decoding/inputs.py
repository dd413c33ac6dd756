"""Checks of what decoding receives, the contract of the step function, and its state.

A step function `(state, token) -> (logits, state)` reads one token per row: `token` is
int32 of shape `(batch,)`, `logits` are `(batch, vocabulary)` and score the next token.
The state is any structure of tensors, each with the batch on axis 0, and is returned
with the same structure, shapes and types. Decoding knows nothing else about a model. A
search calls it with other batch sizes than the one of the prompt.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Nested, Tensor
from kerasseq.tracing.listeners import pause

# A function (state, token) -> (logits, state).
Step: TypeAlias = Callable[[Nested, Tensor], tuple[Tensor, Nested]]
# A token, or several, that end a sequence.
Stop: TypeAlias = int | Sequence[int] | np.ndarray | None
Seed: TypeAlias = int | Sequence[int] | np.ndarray | keras.random.SeedGenerator | None


class Prompt(NamedTuple):
    """A batch of prompts.

    Attributes:
        ids: int32 `(batch, time)`, 0 at padding.
        mask: bool `(batch, time)`, False at padding.
    """

    ids: np.ndarray
    mask: np.ndarray

    def split(self) -> tuple["Prompt", np.ndarray]:
        """Returns a `Prompt` of all but the last tokens of the rows, and these tokens.

        Columns that are padding in all rows are dropped.

        Examples:
            >>> prompt = as_prompt([[5, 6, 9], [7, 9, 9]], [[1, 1, 0], [1, 0, 0]])
            >>> before, last = prompt.split()
            >>> before.ids.tolist(), before.mask.tolist(), last.tolist()
            ([[5], [0]], [[True], [False]], [6, 7])
        """
        time = self.ids.shape[1]
        last = time - 1 - self.mask[:, ::-1].argmax(axis=1)
        rows = np.arange(len(last))
        mask = self.mask.copy()
        mask[rows, last] = False
        columns = mask.any(axis=0)
        before = np.where(mask, self.ids, 0)[:, columns]
        return Prompt(before, mask[:, columns]), self.ids[rows, last]


class Inputs(NamedTuple):
    """The inputs of a decoding loop, checked.

    Attributes:
        before: The prompts without the last token of each row.
        last: The last tokens, `(batch,)`.
        state: The state as tensors.
        stop: The stop tokens.
        fill: The id after the end of a row.
        vocabulary: Number of logits.
        programs: Compiled programs of the step function.
    """

    before: Prompt
    last: np.ndarray
    state: Any
    stop: tuple[int, ...]
    fill: int
    vocabulary: int
    programs: kernels.Programs


def check_inputs(
    step: Step,
    state: Nested,
    prompt: Tensor | Sequence[Sequence[int]],
    mask: Tensor | None,
    max_new_tokens: int,
    stop: Stop,
    fill: int,
) -> Inputs:
    """Checks what `generate`, `stream` and `Beam.search` have in common."""
    checks.whole_number("max_new_tokens", max_new_tokens)
    fill = checks.whole_number("fill", fill, -(2**31))  # may be a negative number
    if not callable(step):
        raise TypeError(
            f"step must be a function (state, token) -> (logits, state), "
            f"received {step!r}"
        )
    prompt, stop = as_prompt(prompt, mask), stop_tokens(stop)
    batch = len(prompt.ids)
    state = as_state(state, batch)
    programs = kernels.programs(step)
    vocabulary = vocabulary_size(step, state, batch, programs)
    _check_range(prompt, stop, vocabulary)
    return Inputs(*prompt.split(), state, stop, fill, vocabulary, programs)


def as_prompt(
    prompt: Tensor | Sequence[Sequence[int]], mask: Tensor | None = None
) -> Prompt:
    """Checks prompts `(batch, time)` and their mask.

    Examples:
        >>> as_prompt([3, 1])
        Traceback (most recent call last):
        ...
        ValueError: prompt must be ids of shape (batch, time), received \
shape (2,): for one row write [prompt]
    """
    ids = whole_numbers("prompt", prompt)
    if ids.ndim != 2:
        hint = ": for one row write [prompt]" if ids.ndim == 1 else ""
        raise ValueError(
            f"prompt must be ids of shape (batch, time), "
            f"received shape {ids.shape}{hint}"
        )
    if not ids.size:
        raise ValueError(
            f"prompt must have at least one row and one token, "
            f"received shape {ids.shape}"
        )
    mask = np.ones(ids.shape, bool) if mask is None else _as_mask(mask, ids.shape)
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ValueError(
            "each row of prompt must have at least one token that mask does not hide; "
            f"it hides all of row {', '.join(map(str, empty))}"
        )
    return Prompt(np.where(mask, ids, 0).astype("int32"), mask)


def _as_mask(mask: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the mask as booleans of the shape of the prompt."""
    mask = keras.ops.convert_to_numpy(mask)
    if mask.shape != shape:
        raise ValueError(
            f"mask must have the shape of prompt, {shape}, received {mask.shape}: True "
            "where a token is real"
        )
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("mask must be True (real) or False (padding) everywhere")
    return mask.astype(bool)


def stop_tokens(stop: Stop) -> tuple[int, ...]:
    """Returns the stop tokens as a sorted tuple.

    Examples:
        >>> stop_tokens(None), stop_tokens(3), stop_tokens([5, 2, 5])
        ((), (3,), (2, 5))
    """
    ids = np.empty(0, int) if stop is None else np.atleast_1d(np.asarray(stop))
    ids = whole_numbers("stop", ids) if ids.size else ids
    return tuple(sorted({int(i) for i in ids.reshape(-1)}))


def _check_range(prompt: Prompt, stop: tuple[int, ...], vocabulary: int) -> None:
    """Raises if an id of the prompt, or a stop token, is outside the vocabulary."""
    unknown = (prompt.ids < 0) | (prompt.ids >= vocabulary)
    if unknown.any():
        row, t = np.argwhere(unknown)[0]
        raise ValueError(
            f"prompt has id {prompt.ids[row, t]} in row {row} at {t}, but step returns "
            f"{vocabulary} logits: ids must lie from 0 to {vocabulary - 1}"
        )
    unknown = [i for i in stop if not 0 <= i < vocabulary]
    if unknown:
        raise ValueError(
            f"stop must have ids from 0 to {vocabulary - 1}, as step returns "
            f"{vocabulary} logits, received {unknown[0]}, which can never be generated"
        )


def whole_numbers(name: str, value: Tensor) -> np.ndarray:
    """Returns an array of integers.

    Examples:
        >>> whole_numbers("prompt", [[1.5]])
        Traceback (most recent call last):
        ...
        TypeError: prompt must hold whole numbers, received float64: [[1.5]]
    """
    try:
        ids = keras.ops.convert_to_numpy(value)
    except (TypeError, ValueError):
        ids = None
    if ids is None or ids.dtype == object:
        raise TypeError(
            f"{name} must be one array of whole numbers, "
            f"received {checks.short(value)}. "
            "Pad rows of unequal length, and pass a mask"
        )
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must hold whole numbers, "
            f"received {ids.dtype}: {checks.short(value)}"
        )
    return ids


def uniform_numbers(seed: Seed, batch: int, length: int) -> np.ndarray:
    """Returns the random numbers of all draws, `(batch, length)`, uniform in [0, 1).

    Each row has its own stream, so that its numbers depend neither on the batch size
    nor on the length.

    Args:
        seed: An integer; one per row; a `keras.random.SeedGenerator`, which advances;
            or None for numbers that do not repeat.
        batch: Number of rows.
        length: Numbers per row.

    Examples:
        >>> one, rows = uniform_numbers(7, 1, 3), uniform_numbers([5, 7], 2, 3)
        >>> bool((one[0] == rows[1]).all())
        True
    """
    streams = [
        np.random.default_rng(entropy).random(length, dtype="float32")
        for entropy in _entropies(seed, batch)
    ]
    return np.stack(streams)


def _entropies(seed: Seed, batch: int) -> Sequence[Any]:
    """Returns the entropy that seeds the stream of each row."""
    if seed is None:
        return np.random.SeedSequence().spawn(batch)
    if isinstance(seed, keras.random.SeedGenerator):
        drawn = keras.ops.convert_to_numpy(seed.next()).astype("int64").tolist()
        return [[row, *drawn] for row in range(batch)]
    if isinstance(seed, list | tuple | np.ndarray):
        if len(seed) != batch:
            raise ValueError(
                f"seed has {len(seed)} integers for {batch} rows of prompt: give one, "
                "or one per row"
            )
        return [[0, checks.whole_number("seed", s, 0)] for s in seed]
    return [[row, checks.whole_number("seed", seed, 0)] for row in range(batch)]


def share(name: str, value: float) -> None:
    """Raises unless `value` is above 0 and at most 1.

    Examples:
        >>> share("p", 90)
        Traceback (most recent call last):
        ...
        ValueError: p must be above 0 and at most 1, received 90
    """
    _real(name, value)
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, received {value}")


def temperature(value: float) -> None:
    """Raises unless `value` is finite and above 0.

    Examples:
        >>> temperature(0)
        Traceback (most recent call last):
        ...
        ValueError: temperature must be above 0 and finite, received 0. Use \
Greedy() for the most probable token
    """
    _real("temperature", value)
    if not 0 < value < math.inf:
        raise ValueError(
            f"temperature must be above 0 and finite, "
            f"received {value}. Use Greedy() for "
            "the most probable token"
        )


def at_least_zero(name: str, value: float) -> None:
    """Raises unless `value` is finite and 0 or more.

    Examples:
        >>> at_least_zero("length_penalty", -1)
        Traceback (most recent call last):
        ...
        ValueError: length_penalty must be finite and 0 or more, received -1
    """
    _real(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and 0 or more, received {value}")


def _real(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, received {value!r}")


def as_state(state: Nested, batch: int) -> Nested:
    """Returns the state as tensors, if each has the batch on axis 0."""
    for path, leaf in tree.flatten_with_path(state):
        shape = getattr(leaf, "shape", None)
        if shape is None or len(shape) < 1 or shape[0] != batch:
            received = repr(leaf) if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                f"{name_of(path)} must be an array with the batch, {batch}, on axis "
                f"0, received {received}"
            )
    return tree.map_structure(ops.convert_to_tensor, state)


def checked(step: Step) -> Step:
    """Returns the step function with float32 logits and a check of its contract."""

    def call(state, token):
        outputs = step(state, token)
        if not isinstance(outputs, tuple | list) or len(outputs) != 2:
            raise TypeError(
                f"step must return two things, (logits, state), "
                f"received {counted(outputs)}"
            )
        logits, after = outputs
        return check_logits(logits, token.shape[0]), check_after(state, after)

    return call


def counted(outputs: object) -> str:
    """Describes outputs that are not a pair.

    Examples:
        >>> counted((1, 2, 3)), counted(0.5)
        ('a tuple of 3', 'one float')
    """
    name = type(outputs).__name__
    if isinstance(outputs, tuple | list):
        return f"a {name} of {len(outputs)}"
    return f"one {name}"


def check_logits(logits: Tensor, batch: int) -> Tensor:
    """Returns the logits in float32, if their shape is right."""
    logits = ops.convert_to_tensor(logits)
    shape = tuple(logits.shape)
    # In a graph the batch size may be unknown: it is that of the token.
    if len(shape) != 2 or shape[0] not in (batch, None) or not shape[1]:
        raise ValueError(
            f"step must return logits of shape (batch, vocabulary), here ({batch}, "
            f"vocabulary), received {shape}"
        )
    return ops.cast(ops.reshape(logits, (batch, shape[1])), "float32")


def check_after(before: Nested, after: Nested) -> Nested:
    """Returns the new state, with the container types of the old one."""
    flat = dict(tree.flatten_with_path(after))
    expected = dict(tree.flatten_with_path(before))
    if flat.keys() != expected.keys():
        missing = ", ".join(map(name_of, expected.keys() - flat.keys())) or "nothing"
        added = ", ".join(map(name_of, flat.keys() - expected.keys())) or "nothing"
        raise ValueError(
            "step must return a state of the structure that it received; it lacks "
            f"{missing}, and has in addition {added}"
        )
    leaves = [check_leaf(path, x, flat[path]) for path, x in expected.items()]
    return tree.pack_sequence_as(before, leaves)


def leaves_like(structure: Nested, like: Nested) -> list[Tensor]:
    """Returns the leaves of a structure in the order of those of another one.

    On PyTorch `keras.tree` flattens inner dictionaries in order of insertion, so that
    equal structures may have different orders.

    Examples:
        >>> leaves_like([{"a": 1, "b": 2}], like=[{"b": 0, "a": 0}]) == (
        ...     keras.tree.flatten([{"b": 2, "a": 1}])
        ... )
        True
    """
    leaves = dict(tree.flatten_with_path(structure))
    return [leaves[path] for path, _ in tree.flatten_with_path(like)]


def check_leaf(path: Iterable[object], old: Tensor, new: Tensor) -> Tensor:
    """Returns a tensor of the new state, of the shape and type of the old one."""
    new = ops.convert_to_tensor(new)
    shape, dtype = tuple(new.shape), new.dtype
    fits = len(shape) == len(old.shape) and all(
        a in (b, None) for a, b in zip(shape, old.shape, strict=True)
    )
    if not fits or dtype != old.dtype:
        raise ValueError(
            f"step changed {name_of(path)} from shape {tuple(old.shape)}, {old.dtype}, "
            f"to shape {shape}, {dtype}: shapes and types must not change"
        )
    return new if None not in shape else ops.reshape(new, old.shape)


def name_of(path: Iterable[object]) -> str:
    """Returns a path in the state as a Python expression.

    Examples:
        >>> name_of(("layers", 0))
        "state['layers'][0]"
    """
    return "state" + "".join(f"[{part!r}]" for part in path)


def vocabulary_size(
    step: Step, state: Nested, batch: int, programs: kernels.Programs
) -> int:
    """Returns the number of logits of a step function, after a check of its contract.

    It needs a trace, so the result is cached in the `programs`.
    """

    def find():
        token = ops.zeros((batch,), "int32")
        with pause():  # symbolic values cannot be recorded
            if programs.pure is False:  # its Python may need numbers
                logits, _ = checked(step)(state, token)
            else:
                logits, _ = kernels.output_specs(checked(step), state, token)
        return logits.shape[-1]

    leaves = tree.flatten_with_path(state)
    key = (batch, *((path, tuple(x.shape), str(x.dtype)) for path, x in leaves))
    return programs.get("vocabulary", key, find, kept=32)


def where_rows(true: Tensor, new: Nested, old: Nested) -> Nested:
    """Returns the new state where a row is `true`, else the old one."""

    def choose(new, old):
        per_row = ops.reshape(true, (-1,) + (1,) * (len(old.shape) - 1))
        return ops.where(per_row, new, old)

    return tree.map_structure(choose, new, old)


def take_rows(state: Nested, rows: Tensor) -> Nested:
    """Gathers rows of a state by their indices."""
    return tree.map_structure(lambda x: ops.take(x, rows, axis=0), state)


def repeat_rows(state: Nested, times: int) -> Nested:
    """Repeats each row of a state.

    Examples:
        >>> np.asarray(repeat_rows(np.array([[1], [2]]), 2))[:, 0].tolist()
        [1, 1, 2, 2]
    """
    return tree.map_structure(lambda x: ops.repeat(x, times, axis=0), state)
