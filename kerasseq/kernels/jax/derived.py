r"""The derived loop on JAX: `lax.scan` forward and, from the graph, backward.

Forward the loop runs ahead: the first activations of a step are computed at the end of
the step before, and carried. XLA computes a carried value once, but a value inside a
step again for each of its uses.

Backward the loop computes what the gradients of the states depend on. All else follows
after it for all steps at once: gradients of matrices as one product $\sum_t a_t^T d_t$
over the rows of all steps, and sums.
"""

from collections.abc import Sequence

import jax
from jax import lax
from jax import numpy as jnp

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.ahead import carried
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
    between,
    walk,
)


def can_run(tensors: Sequence[Tensor]) -> bool:
    """Returns whether the loop runs here: always, as XLA compiles all dtypes."""
    return True


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
    The gradient has one of its own, in reverse only.
    """
    if path not in derived.compiled:  # so that eager calls do not trace again
        derived.compiled[path] = jax.jit(_loop(derived, path))
    return derived.compiled[path](x, list(states), list(parameters), list(noise), mask)


def _loop(derived, path):
    """Returns the loop as a function that JAX differentiates by the graph."""
    back = _Backward(derived)
    output = {derived.output} if path else set()

    @jax.custom_vjp
    def loop(*inputs):
        last, paths, _ = _forward(derived, output, [], *inputs)
        return paths.get(derived.output), last

    def forward(*inputs):
        last, paths, kept = _forward(
            derived, back.paths | output, derived.kept, *inputs
        )
        saved = {k: paths[k] for k in back.paths}
        return (paths[derived.output] if path else None, last), (saved, kept, inputs)

    def backward(saved, gradients):
        # None: recurrent dropout and masks have no gradient.
        return (*back.run(*saved, *gradients), None, None)

    loop.defvjp(forward, backward)
    return loop


def _forward(derived, wanted, kept, x, states, parameters, noise, mask):
    """Returns the last states, the paths of those that are wanted, and what is kept."""
    results = [*derived.new_states, *kept]
    every, early = list(walk(results)), carried(results)
    same = pick(every, {PARAMETER: parameters, NOISE: noise})
    steps = x.shape[0]

    def ahead(t, states):
        now = pick(every, {INPUT: [x[t]], STATE: states})
        return evaluate(early, {**same, **now}, x[t])

    def step(carry, t):
        states, values = carry
        now = {INPUT: [x[t]], STATE: states}
        if mask is not None:
            now[MASK] = [mask[t][:, None]]
        known = {**same, **pick(every, now), **_pairs(early, values)}
        computed = evaluate(results, known, x[t])
        new, saved = computed[: len(states)], computed[len(states) :]
        # What is computed ahead at the last step is not used.
        values = ahead(jnp.minimum(t + 1, steps - 1), new)
        return (new, values), ({k: new[k] for k in wanted}, saved)

    start = states, ahead(0, states)
    (last, _), (paths, saved) = lax.scan(step, start, jnp.arange(steps))
    return last, paths, saved


class _Backward:
    """The backward pass.

    Attributes:
        old: The gradients of the states before a step.
        after: What is computed after the loop, for all steps.
        stacked: What the loop computes and `after` reads.
        every: All values of the backward pass.
        before: The numbers of the states before a step that are read.
        paths: Those of the states that the forward pass saves.
    """

    def __init__(self, derived: Derived) -> None:
        back = derived.backward
        self.derived: Derived = derived
        self.old: list[Value] = [d for d in back.states if d is not None]
        self.after: list[Value] = [v for p in back.products for v in (p.left, p.right)]
        self.after += [total.value for total in back.totals]
        self.after += [] if back.input is None else [back.input]
        self.every: list[Value] = list(walk([*self.old, *self.after]))
        known = {*derived.kept, *derived.new_states}
        inside = {*between(self.old, known)}
        here = {v for v in inside if v.backward}
        self.stacked: list[Value] = [
            v
            for v in between(self.after, known | here)
            if v in here or v.op == GRADIENT
        ]
        read = inside.union(between(self.after, {*known, *self.stacked}))
        self.before: set[int] = {v.detail for v in read if v.op == STATE}
        new = {k for k, v in enumerate(derived.new_states) if v in read}
        self.paths: set[int] = self.before | new

    def run(self, paths, kept, inputs, d_path, d_last):
        """Returns the gradients of the inputs, the states and the parameters."""
        derived, (x, states, parameters, noise, mask) = self.derived, inputs
        same = pick(self.every, {PARAMETER: parameters, NOISE: noise})
        # What the forward pass leaves, at all steps.
        before = [
            jnp.concatenate([first[None], paths[k][:-1]]) if k in self.before else None
            for k, first in enumerate(states)
        ]
        given = {STATE: before, INPUT: [x]}
        if mask is not None:
            given[MASK] = [mask[..., None]]
        known = {**_pairs(derived.kept, kept), **pick(self.every, given)}
        known.update((derived.new_states[k], path) for k, path in paths.items())
        wanted = [*self.old, *self.stacked]
        read = [v for v in between(wanted, known) if v in known]

        def step(d, now):
            d_output, values = now
            if d_output is not None:
                d = [*d]
                d[derived.output] += d_output
            now = {**_pairs(read, values), **pick(self.every, {GRADIENT: d})}
            old = iter(evaluate(wanted, {**same, **now}, x[0]))
            pairs = zip(derived.backward.states, d, strict=True)
            d = [jnp.zeros_like(a) if g is None else next(old) for g, a in pairs]
            return d, list(old)

        now = d_path, [known[v] for v in read]
        d_states, stacked = lax.scan(step, d_last, now, reverse=True)
        known = {**same, **known, **_pairs(self.stacked, stacked)}
        values = evaluate(self.after, known, x)
        return self._gradients(values, x, d_states, parameters)

    def _gradients(self, values, x, d_states, parameters):
        """Returns the products and sums over all steps."""
        values = iter(values)
        d = [jnp.zeros_like(w) for w in parameters]
        for p in self.derived.backward.products:
            left, right = next(values), next(values)
            d[p.parameter] += jnp.tensordot(left, right, ((0, 1), (0, 1)))
        for total in self.derived.backward.totals:
            d[total.parameter] += jnp.sum(next(values), axis=(0, 1))
        return next(values, jnp.zeros_like(x)), d_states, d


def _pairs(values, tensors):
    return dict(zip(values, tensors, strict=True))
