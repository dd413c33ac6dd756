"""The derived recurrence on TensorFlow: a `while_loop` forward and one backward.

Without XLA each operation costs time, so that `values.py` joins them, and they run one
after the other. XLA fuses the operations of a step, but computes an activation again
for each of its uses: there the loop carries the first activations of the next step.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.evaluate import evaluate, pick
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    MASK,
    NOISE,
    PARAMETER,
    STATE,
    Value,
)
from kerasseq.kernels.tensorflow import private
from kerasseq.kernels.tensorflow.functions import has_cudnn
from kerasseq.kernels.tensorflow.loop import InOrder, TensorArray, loop, saved_arrays
from kerasseq.kernels.tensorflow.plan import Plan
from kerasseq.kernels.tensorflow.values import Values


def can_run(tensors: Sequence[Tensor]) -> bool:
    """Returns whether the loop runs here: if inputs and states have one dtype."""
    return len({t.dtype for t in tensors}) == 1


def run(
    derived: Derived,
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Sequence[Tensor],
    noise: Sequence[Tensor],
    mask: Tensor | None,
    *,
    path: bool,
    again: object = None,
) -> tuple[Tensor | None, list[Tensor]]:
    """Runs the loop through time, and returns the output and the last states.

    x is `(T, B, N)`, a state or a mask of `noise` `(B, n)`, `mask` boolean `(T, B)` or
    None, and the output `(T, B, n)`, None if not `path`.
    Eager calls run a function that is traced once.
    """
    tensors = [x, list(states), list(parameters), list(noise)]
    tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)  # no variables
    if not tf.executing_eagerly():
        return _run(derived, path, *tensors, mask)
    if path not in derived.compiled:
        derived.compiled[path] = tf.function(
            functools.partial(_run, derived, path),
            autograph=False,
            reduce_retracing=True,
        )
    return derived.compiled[path](*tensors, mask)


def _run(derived, path, x, states, parameters, noise, mask):
    """Runs the loop as `run` does, in a graph."""
    if "plan" not in derived.compiled:
        derived.compiled["plan"] = Plan(derived)
    fixed, count = (derived.compiled["plan"], noise, mask), len(states)

    @tf.custom_gradient
    def function(x, *others):
        loops = Loops(*fixed, x, others[count:])
        last, arrays = loops.forward(others[:count], path)
        handed = saved_arrays(arrays, loops.steps)

        def gradient(*d_outputs):
            d_outputs = [tf.convert_to_tensor(d) for d in d_outputs]  # no slices
            d_path = d_outputs.pop() if path else None
            return loops.backward(handed(), d_outputs, d_path)

        # An unused path would have a gradient of zeros at each step.
        return [*last, arrays[-1].stack()] if path else last, gradient

    outputs = list(function(x, *states, *parameters))
    return (outputs.pop() if path else None), outputs


class Loops:
    """The two loops of one call of `run`, whose arguments it takes, with a plan."""

    def __init__(
        self,
        made: Plan,
        noise: Sequence[Tensor],
        mask: Tensor | None,
        x: Tensor,
        parameters: Sequence[Tensor],
    ) -> None:
        self.plan = made
        self.xla = private.for_xla()
        self.steps = x.shape[0] or tf.shape(x)[0]
        self.batch = tf.shape(x)[1] if x.shape[1] is None else x.shape[1]
        self.x = x
        self.count = len(parameters)
        self.sources = {INPUT: x}
        if mask is not None:
            self.sources[MASK] = tf.expand_dims(mask, -1)
        # What is the same at all steps.
        self.known: dict[Value, Tensor] = pick(
            made.leaves, {PARAMETER: parameters, NOISE: noise}
        )
        self.transposed: dict[Value, Tensor] = {
            v: tf.transpose(t) for v, t in self.known.items() if t.shape.rank == 2
        }
        values = self.values(InOrder(), {})
        fixed = evaluate(made.fixed, self.known, x, values)
        for v, t in self.known.items():
            if v.width > 1:  # repeated here, and not at each step
                self.known[v] = values.whole(t, v.width)
        self.known.update(zip(made.fixed, fixed, strict=True))

    def values(self, do, tiles) -> Values:
        """Returns what computes the values of one step."""
        on_xla = self.xla and not has_cudnn()
        return Values(self.batch, self.transposed, tiles, do, on_xla)

    def compute(self, targets, known, do, tiles):
        """Computes values of one step, with a row of numbers for each sequence."""
        values = self.values(do, tiles)
        rows = evaluate(targets, {**self.known, **known}, self.x, values)
        return [values.whole(t, v.width) for v, t in zip(targets, rows, strict=True)]

    def forward(
        self, states: Sequence[Tensor], path: bool
    ) -> tuple[list[Tensor], list[TensorArray]]:
        """Returns the last states, and arrays of what was kept, the path last."""
        made = self.plan
        new, output = made.derived.new_states, made.derived.output
        kept = [*made.kept, new[output]] if path else made.kept
        widths = [v.width for v in kept]
        read = [v for v in made.leaves if v.op in self.sources]
        inputs = [self.sources[v.op] for v in read]
        ahead = made.ahead if self.xla else []

        def look_ahead(do, t, states):
            known = pick(made.leaves, {STATE: states})
            known.update((v, x[t]) for v, x in zip(read, inputs, strict=True))
            return self.compute(ahead, known, do, made.tiles[0])

        def step(do, t, now, carried):
            states, early = carried[: len(new)], carried[len(new) :]
            known = pick(made.leaves, {STATE: states})
            known.update(zip([*read, *ahead], [*now, *early], strict=True))
            rows = self.compute([*new, *kept], known, do, made.tiles[0])
            states, written = rows[: len(new)], rows[len(new) :]
            if ahead:
                t = tf.minimum(t + 1, self.steps - 1)
                states = [*states, *look_ahead(do, t, states)]
            return states, written

        carried = [*states, *(look_ahead(InOrder(), 0, states) if ahead else [])]
        carried, arrays = loop(step, self.steps, carried, widths, inputs, xla=self.xla)
        return carried[: len(new)], arrays

    def backward(
        self,
        arrays: Sequence[TensorArray],
        d_last: Sequence[Tensor],
        d_path: Tensor | None,
    ) -> list[Tensor | None]:
        """Returns the gradients of x, of the states and of the parameters."""
        made, back = self.plan, self.plan.derived.backward
        output, count = made.derived.output, len(d_last)
        arrays = dict(zip(made.kept, arrays, strict=False))
        inputs = [
            self.sources[v.op] if v.op in self.sources else arrays[v] for v in made.read
        ]
        zeros = [tf.zeros_like(d) for d in d_last]
        # Sums of 16 bits would stop to grow.
        dtype = tf.float32 if self.x.dtype.size == 2 else self.x.dtype

        def add(total, value):
            return tf.add(total, tf.cast(value, dtype))

        def step(do, t, now, carried):
            d_states, sums = list(carried[:count]), carried[count:]
            if d_path is not None:
                d_states[output] = do.add(d_states[output], now[-1])
            known = pick(made.leaves, {GRADIENT: d_states})
            known.update(zip(made.read, now, strict=False))
            rows = iter(self.compute(made.backward, known, do, made.tiles[1]))
            pairs = zip(back.states, zeros, strict=True)
            before = [zero if d is None else next(rows) for d, zero in pairs]
            sums = [do(add, total, next(rows)) for total in sums]
            return [*before, *sums], list(rows)

        sums = [tf.zeros((self.batch, v.width), dtype) for v in made.totals.values()]
        widths = [v.width for v in made.written]
        inputs += [] if d_path is None else [d_path]
        carried, written = loop(
            step,
            self.steps,
            [*d_last, *sums],
            widths,
            inputs,
            reverse=True,
            xla=self.xla,
        )
        arrays.update(zip(made.written, written, strict=True))
        return self._gradients(carried[:count], carried[count:], arrays)

    def _gradients(self, d_states, sums, arrays):
        """Returns the results of `backward`, from what its loop computed."""
        back = self.plan.derived.backward

        @functools.cache
        def all_steps(v):
            return self.sources[v.op] if v.op in self.sources else arrays[v].stack()

        parts = {
            k: [tf.cast(tf.reduce_sum(total, 0), self.x.dtype)]
            for k, total in zip(self.plan.totals, sums, strict=True)
        }
        for p in back.products:
            a, d = _rows(all_steps(p.left)), _rows(all_steps(p.right))
            parts.setdefault(p.parameter, []).append(tf.matmul(a, d, transpose_a=True))
        dx = None if back.input is None else all_steps(back.input)
        pairs = zip(back.states, d_states, strict=True)
        d_states = [None if d is None else value for d, value in pairs]
        d_parameters = map(parts.get, range(self.count))
        return [dx, *d_states, *(d and tf.add_n(d) for d in d_parameters)]


def _rows(a: Tensor) -> Tensor:
    """Reshapes `(..., n)` to `(rows, n)`."""
    return tf.reshape(a, (-1, a.shape[-1]))
