"""The loop of decoding: in Python over a compiled step, or compiled as a whole.

A strategy, sampling or beam search, defines one step, `step(step_function, carry) ->
carry`. The carry is a dictionary of tensors; its `active` is False for each row that is
finished. It also holds the output so far, so that both loops return the same.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding.inputs import Prompt, Step, checked, leaves_like, where_rows

# The state of a loop: tensors by name, and the state of the step function.
Carry: TypeAlias = dict[str, Nested]


class Strategy(Protocol):
    """What a loop repeats: see `Loop`."""

    def wrap_step(self, step: Step) -> Step: ...

    def step(self, step_function: Step, carry: Carry) -> Carry: ...


def make_loop(
    step: Step, strategy: Strategy, programs: kernels.Programs, compiled: bool = False
) -> "Loop":
    """Returns the loop of a step function and a strategy, cached if possible.

    Args:
        step: The step function.
        strategy: As for `Loop`.
        programs: The `kernels.programs` of the step function, which cache the loops.
        compiled: Whether the caller guarantees that the step function is pure.
    """
    fingerprint = kernels.Fingerprint(strategy)
    pure = compiled or (programs.pure and fingerprint.pure)
    return programs.get(
        "loop", (fingerprint, pure), lambda: Loop(step, strategy, pure=pure)
    )


class Loop:
    """A step function and a strategy, compiled on first use.

    Args:
        step: The step function.
        strategy: Has `wrap_step(step)`, the step function that reads the prompt, and
            `step(step_function, carry)`, one step of decoding with the step function
            as it was given.
        pure: Whether both are known to have no side effects, see `kernels.compiled`.
    """

    def __init__(self, step: Step, strategy: Strategy, *, pure: bool | None) -> None:
        step = checked(step)
        self.step: Step = strategy.wrap_step(step)
        one_step = functools.partial(strategy.step, step)
        self.one_step: Callable[[Carry], Carry] = kernels.compiled(
            one_step, donated=True, pure=pure
        )
        self.read_token: Callable[..., Nested] = kernels.compiled(
            self._read_token, pure=pure
        )
        self.read_all: Callable[..., Nested] = kernels.compiled(
            self._read_all, pure=pure
        )
        self.all_steps: Callable[[Carry], Carry] = kernels.compiled(
            self._all_steps, jit=True, pure=pure
        )

    def read_prompt(self, state: Nested, prompt: Prompt, compiled: bool) -> Nested:
        """Returns the state after a prompt; padding leaves a row's state unchanged."""
        ids, mask = prompt.ids.T, prompt.mask.T  # (T, B)
        if compiled and len(ids) and not kernels.is_uncompiled():
            return self.read_all(state, *map(ops.convert_to_tensor, (ids, mask)))
        for now in zip(ids, mask, strict=True):
            state = self.read_token(state, *map(ops.convert_to_tensor, now))
        return state

    def steps(self, carry: Carry) -> Iterator[Carry]:
        """Yields the carry after each step, until every row is finished."""
        while ops.convert_to_numpy(carry["active"]).any():
            carry = self.one_step(carry)
            yield carry

    def run(self, carry: Carry, compiled: bool) -> Carry:
        """Returns the carry after the last step."""
        if compiled and not kernels.is_uncompiled():
            return self.all_steps(carry)
        for after in self.steps(carry):
            carry = after
        return carry

    def _read_token(self, state: Nested, token: Tensor, mask: Tensor) -> Nested:
        _, after = self.step(state, token)
        return where_rows(mask, after, state)

    def _read_all(self, state: Nested, ids: Tensor, mask: Tensor) -> Nested:
        def read(state, now):
            return self._read_token(state, *now), ()

        return kernels.scan(read, state, (ids, mask))[0]

    def _all_steps(self, carry: Carry) -> Carry:
        def structured(flat):
            return tree.pack_sequence_as(carry, list(flat))

        def body(*flat):
            return leaves_like(self.one_step(structured(flat)), carry)

        def active(*flat):
            return ops.any(structured(flat)["active"])

        return structured(ops.while_loop(active, body, tuple(tree.flatten(carry))))


def put(values: Tensor, t: int | Tensor, now: Tensor) -> Tensor:
    """Replaces the entries of step t of `values` `(batch, length, ...)` by `now`.

    Examples:
        >>> np.asarray(put(np.array([[7, 0], [7, 0]]), 1, np.array([3, 4]))).tolist()
        [[7, 3], [7, 4]]
    """
    here = ops.arange(values.shape[1]) == t
    here = ops.reshape(here, (1, -1) + (1,) * (len(values.shape) - 2))
    return ops.where(here, ops.expand_dims(now, 1), values)


def is_in(token: Tensor, stop: tuple[int, ...]) -> Tensor:
    """Returns whether each token is one of `stop`, a tuple of ids."""
    if not stop:
        return ops.zeros_like(token, "bool")
    return ops.any(token[..., None] == ops.array(stop, "int32"), axis=-1)
