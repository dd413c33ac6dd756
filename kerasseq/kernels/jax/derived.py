r"""The derived loop on JAX: `lax.scan` forward and, from the graph, backward.

Forward the loop runs ahead: the first activations of a step are computed at the end of
the step before, and carried. XLA computes a carried value once, but a value inside a
step again for each of its uses.

Backward the loop computes what the gradients of the states depend on. All else follows
after it for all steps at once: gradients of matrices as one product $\sum_t a_t^T d_t$
over the rows of all steps, and sums.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.evaluate import compute, evaluate
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    MASK,
    NOISE,
    PARAMETER,
    STATE,
    Value,
    walk,
)
from kerasseq.kernels.operations import matmul

_ACTIVATIONS = {"tanh", "sigmoid", "exp", "expm1", "log", "log1p", "sin", "cos", "erf"}


def can_run(derived: Derived, tensors: Sequence[Tensor]) -> bool:
    """Whether the loop can run: always, as XLA compiles all dtypes."""
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
) -> tuple[Tensor | None, list[Tensor]]:
    """Runs the steps of a cell.

    It can be differentiated again, and in reverse only (`jax.grad`, not `jax.jvp`).

    Args:
        derived: What the loop computes at each step.
        x: Inputs, `(T, B, N)`.
        states: The states before the first step, each `(B, n)`.
        parameters: As `derived.parameters` returns them.
        noise: Masks of recurrent dropout, each `(B, n)`, without a gradient.
        mask: Boolean, `(T, B)`, or None.
        path: Whether to return the output at all steps.

    Returns:
        The output at all steps `(T, B, n)`, or None, and the last states.
    """
    if path not in derived.compiled:  # so that eager calls do not trace again
        derived.compiled[path] = jax.jit(_loop(derived, path))
    return derived.compiled[path](x, list(states), list(parameters), list(noise), mask)


def _loop(derived, path):
    """The loop as a function that JAX differentiates by the graph."""

    @jax.custom_vjp
    def loop(x, states, parameters, noise, mask):
        outputs = [derived.output] if path else []
        last, paths, _ = _forward(
            derived, outputs, [], x, states, parameters, noise, mask
        )
        return paths.get(derived.output), last

    def forward(x, states, parameters, noise, mask):
        back = _Backward(derived)
        wanted = {*back.paths, derived.output} if path else back.paths
        last, paths, kept = _forward(
            derived, wanted, derived.kept, x, states, parameters, noise, mask
        )
        saved = {k: paths[k] for k in back.paths}, kept
        inputs = x, states, parameters, noise, mask
        return (paths[derived.output] if path else None, last), (saved, inputs)

    def backward(kept, gradients):
        return (*_Backward(derived).run(*kept, *gradients), None, None)

    loop.defvjp(forward, backward)
    return loop


def _forward(derived, wanted, kept, x, states, parameters, noise, mask):
    """Runs all steps; returns last states, paths of those wanted, and what is kept."""
    carried = _carried([*derived.new_states, *kept])
    same = _constants(derived, parameters, noise)
    steps = x.shape[0]

    def ahead(t, states):
        known = {**same, **_known(derived, {INPUT: [x[t]], STATE: states})}
        return evaluate(carried, known, x[t])

    def step(carry, t):
        states, values = carry
        now = {INPUT: [x[t]], STATE: states}
        if mask is not None:
            now[MASK] = [mask[t][:, None]]
        known = {**same, **_known(derived, now), **_pairs(carried, values)}
        found = evaluate([*derived.new_states, *kept], known, x[t])
        new, saved = found[: len(states)], found[len(states) :]
        # Those of the step after the last are not used.
        values = ahead(jnp.minimum(t + 1, steps - 1), new)
        return (new, values), ({k: new[k] for k in wanted}, saved)

    start = list(states), ahead(0, list(states))
    (last, _), (paths, saved) = lax.scan(step, start, jnp.arange(steps))
    return last, paths, saved


class _Backward:
    """The backward pass: what is computed in the loop, and what after it."""

    def __init__(self, derived: Derived) -> None:
        self.derived = derived
        back = derived.backward
        self.old = [d for d in back.states if d is not None]
        self.after = [value for p in back.products for value in (p.left, p.right)]
        self.after += [total.value for total in back.totals]
        self.after += [] if back.input is None else [back.input]
        known = {*derived.kept, *derived.new_states}
        inside = _read(self.old, known)
        self.stacked = [
            v
            for v in _read(self.after, {*known, *(v for v in inside if v.backward)})
            if v.backward and (v in inside or v.op == GRADIENT)
        ]
        read = [*inside, *_read(self.after, {*known, *self.stacked})]
        self.before = {v.detail for v in read if v.op == STATE}
        new = {k for k, v in enumerate(derived.new_states) if v in read}
        self.paths = self.before | new

    def run(self, saved, inputs, d_path, d_last):
        derived, (paths, kept) = self.derived, saved
        x, states, parameters, noise, mask = inputs
        same = _constants(derived, parameters, noise)
        transposed = {
            k: jnp.swapaxes(w, 0, 1) for k, w in enumerate(parameters) if w.ndim == 2
        }
        run = functools.partial(_compute, transposed)
        before = {
            k: jnp.concatenate([states[k][None], paths[k][:-1]]) for k in self.before
        }
        # What the forward pass knows, at all steps.
        known = {**_pairs(derived.kept, kept), **_known(derived, {STATE: before})}
        known |= {derived.new_states[k]: p for k, p in paths.items()}
        known |= _known(derived, {INPUT: [x]})
        if mask is not None:
            known |= _known(derived, {MASK: [mask[..., None]]})

        def step(d, now):
            d_output, known = now
            if d_output is not None:
                d = [
                    a + d_output if k == derived.output else a for k, a in enumerate(d)
                ]
            known = {**same, **dict(zip(order, known, strict=True))}
            known |= _known(derived, {GRADIENT: d})
            found = evaluate([*self.old, *self.stacked], known, like, run)
            old = iter(found[: len(self.old)])
            d = [
                jnp.zeros_like(a) if g is None else next(old)
                for a, g in zip(d, derived.backward.states, strict=True)
            ]
            return d, found[len(self.old) :]

        like = x[0]
        read = set(_read([*self.old, *self.stacked], known))
        order = [v for v in known if v in read]
        now = d_path, [known[v] for v in order]
        d_states, stacked = lax.scan(step, list(d_last), now, reverse=True)
        known = {**same, **known, **_pairs(self.stacked, stacked)}
        found = evaluate(self.after, known, x, run)
        d_x, d_parameters = self._gradients(found, x, parameters)
        return d_x, d_states, d_parameters

    def _gradients(self, found, x, parameters):
        back, found = self.derived.backward, iter(found)
        gradients = [jnp.zeros_like(w) for w in parameters]
        for p in back.products:
            left, right = (_rows(next(found)) for _ in range(2))
            gradients[p.parameter] += matmul(left.T, right)
        for total in back.totals:
            gradients[total.parameter] += jnp.sum(_rows(next(found)), axis=0)
        return next(found, jnp.zeros_like(x)), gradients


def _rows(values):
    return jnp.reshape(values, (-1, values.shape[-1]))


def _compute(transposed, value, args, like):
    if value.op == "matmul_transposed":
        return matmul(args[0], transposed[value.args[1].detail])
    return compute(value, args, like)


def _carried(values: Sequence[Value]) -> list[Value]:
    """The values that the loop computes a step ahead."""
    order = list(walk(values))
    late: set[Value] = set()  # follow an activation, or depend on the mask
    products: set[Value] = set()
    first = []
    for v in order:
        if v.op == MASK or any(a in late or a in first for a in v.args):
            late.add(v)
        elif v.op in _ACTIVATIONS and v.rows:
            first.append(v)
        if v.op == "matmul" or any(a in products for a in v.args):
            products.add(v)
    if not first:
        return []
    read = {*values, *(a for v in late for a in v.args)}
    return [
        v
        for v in order
        if v in read and v not in late and (v in first or v in products)
    ]


def _read(values: Iterable[Value], known: Iterable[Value]) -> list[Value]:
    """The values from which others are computed, as far as what is known."""
    known, seen, stack = set(known), {}, list(values)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen[value] = None
            stack += () if value in known else value.args
    return list(seen)


def _pairs(values, tensors):
    return dict(zip(values, tensors, strict=True))


def _constants(derived, parameters, noise):
    return _known(derived, {PARAMETER: parameters, NOISE: noise})


def _known(derived: Derived, tensors: dict[str, Any]) -> dict[Value, Tensor]:
    """The leaves of tensors by the kind of leaf; several have a number each."""
    found = {}
    for op, given in tensors.items():
        pairs = given.items() if isinstance(given, dict) else enumerate(given)
        for k, tensor in pairs:
            detail = None if op in (INPUT, MASK) else k
            leaf = derived.graph.make(op, width=tensor.shape[-1], detail=detail)
            found[leaf] = tensor
    return found
