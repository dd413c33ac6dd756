"""The two loops of decoding: Python's over compiled turns, and one that is compiled.

A plan says what one turn does: `turn(step, carry) -> carry`. The carry is a dictionary
of tensors; its `going` is True for each row that is not done. What came out so far is
in the carry, too, so that both loops end with the same thing.
"""

import functools

from keras import ops, tree

from kerasseq import kernels
from kerasseq.decoding.steps import checked, leaves_like, where_rows


def loop_of(step, plan, programs, compiled=False):
    """The loop of a step function and a plan, the one made before if it is kept.

    Args:
        step: The step function.
        plan: As for `Loop`.
        programs: The `kernels.programs` of the step function, which keep the loops.
        compiled: Whether the caller knows that the step function is pure.
    """
    depends_on = kernels.Fingerprint(plan)
    pure = compiled or (programs.pure and depends_on.ours)
    return programs.get("loop", (depends_on, pure), lambda: Loop(step, plan, pure=pure))


class Loop:
    """A step function and a plan, compiled when first needed.

    Args:
        step: The step function.
        plan: Has `watch(step)`, which gives the step function with which a prompt is
            read, and `turn(step, carry)`.
        pure: Whether both are known to have no effects, see `kernels.compiled`.
    """

    def __init__(self, step, plan, *, pure):
        step = checked(step)
        self.step = plan.watch(step)
        turn = functools.partial(plan.turn, step)
        self.turn = kernels.compiled(turn, donated=True, pure=pure)
        self.read_one = kernels.compiled(self._read_one, pure=pure)
        self.read_all = kernels.compiled(self._read_all, pure=pure)
        self.all_turns = kernels.compiled(self._all_turns, jit=True, pure=pure)

    def read(self, state, prompt, compiled):
        """The state after a prompt: where a row has no token, its state stays."""
        ids, real = prompt.ids.T, prompt.real.T  # (T, B)
        if compiled and len(ids):
            return self.read_all(state, *map(ops.convert_to_tensor, (ids, real)))
        for now in zip(ids, real, strict=True):
            state = self.read_one(state, *map(ops.convert_to_tensor, now))
        return state

    def turns(self, carry):
        """The carry after each turn, until every row is done."""
        while ops.convert_to_numpy(carry["going"]).any():
            carry = self.turn(carry)
            yield carry

    def run(self, carry, compiled):
        """The carry after the last turn."""
        if compiled:
            return self.all_turns(carry)
        for after in self.turns(carry):
            carry = after
        return carry

    def _read_one(self, state, token, real):
        _, after = self.step(state, token)
        return where_rows(real, after, state)

    def _read_all(self, state, ids, real):
        def read(state, now):
            return self._read_one(state, *now), ()

        return kernels.scan(read, state, (ids, real))[0]

    def _all_turns(self, carry):
        def whole(flat):
            return tree.pack_sequence_as(carry, list(flat))

        def body(*flat):
            return leaves_like(self.turn(whole(flat)), carry)

        def going(*flat):
            return ops.any(whole(flat)["going"])

        return whole(ops.while_loop(going, body, tuple(tree.flatten(carry))))


def put(values, t, now):
    """`values` `(batch, length, ...)` with those of time t replaced by `now`.

    Examples:
        >>> np.asarray(put(np.array([[7, 0], [7, 0]]), 1, np.array([3, 4]))).tolist()
        [[7, 3], [7, 4]]
    """
    here = ops.arange(values.shape[1]) == t
    here = ops.reshape(here, (1, -1) + (1,) * (len(values.shape) - 2))
    return ops.where(here, ops.expand_dims(now, 1), values)


def is_in(token, stop):
    """Whether each token is one of `stop`, a tuple of ids."""
    if not stop:
        return ops.zeros_like(token, "bool")
    return ops.any(token[..., None] == ops.array(stop, "int32"), axis=-1)
