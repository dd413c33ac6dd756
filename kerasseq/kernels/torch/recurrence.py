"""The fast recurrence on PyTorch: Python's loop over operations that write in place.

Forward, each step writes what the way back needs into arrays that hold all steps.
Backward, local derivatives are computed for as many steps at once as the processor's
cache holds, and become the gradients of the sums in the gates in place.
"""

import functools

import torch

from kerasseq.kernels.torch import equations as torch_equations
from kerasseq.kernels.torch import native as torch_native
from kerasseq.kernels.torch.in_place import IN_CACHE
from kerasseq.kernels.torch.lstm import GateMajorLSTM

OFTEN = 4  # steps after which vanished gradients are looked for


def run(cell, states, mask):
    """See `kerasseq.kernels.recurrence`."""
    if torch_native.wanted(cell, mask):
        return torch_native.run(cell, states)
    learned = {name: w for name, w in cell.weights.items() if name != "dropout"}
    kind = torch_equations.of(cell.equation)
    if GateMajorLSTM.fits(cell.equation, learned):
        kind = GateMajorLSTM
    x, learned = kind.enter(cell, learned)
    tensors = [x, *states, *learned.values()]
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    dropout = cell.weights.get("dropout")
    kind = functools.partial(kind, cell.equation, dropout=dropout)
    fixed = (kind, mask, list(learned), keep)
    path, *last = _Recurrence.apply(fixed, len(states), *tensors)
    return path, last


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fixed, states, x, *tensors):
        kind, mask, names, keep = fixed
        ctx.set_materialize_grads(False)
        weights = dict(zip(names, tensors[states:], strict=True))
        math = kind(weights, batch=tensors[0].shape[0])
        with math.quiet:
            paths, gates = _forward(math, x, tensors[:states], mask, keep)
        if keep:
            ctx.fixed, ctx.names = fixed, list(gates)
            ctx.save_for_backward(*tensors[states:], *paths, *gates.values())
        return paths[0][1:], *(path[-1].clone() for path in paths)

    @staticmethod
    def backward(ctx, d_path, *d_last):
        if torch.is_grad_enabled():  # somebody means to differentiate what comes out
            raise RuntimeError(
                "on PyTorch the fast recurrence has no second derivatives; build the "
                "layer with unroll=True, which goes step by step and has them"
            )
        kind, mask, names, _ = ctx.fixed
        saved = list(ctx.saved_tensors)
        weights = {name: saved.pop(0) for name in names}
        paths = [saved.pop(0) for _ in d_last]
        gates = dict(zip(ctx.names, saved, strict=True))
        math = kind(weights, batch=paths[0].shape[1])
        d_states = [
            torch.zeros_like(path[0]) if d is None else d
            for path, d in zip(paths, d_last, strict=True)
        ]
        with math.quiet:
            dx, dw, d_states = _backward(math, paths, gates, mask, d_path, d_states)
        return None, None, dx, *d_states, *(dw[name] for name in names)


def _forward(math, x, states, mask, keep):
    """All states, the first included, `(T + 1, B, H)`, and the gates by name."""
    T = x.shape[-3]
    paths = [s.new_empty(T + 1, *s.shape) for s in states]
    for path, state in zip(paths, states, strict=True):
        path[0] = state
    gates = math.allocate(x, keep)
    before, after = [p[:-1] for p in paths], [p[1:] for p in paths]
    real = None if mask is None else mask[..., None].unbind()
    for t, now in enumerate(_per_step(math.arrays(x, before, after, **gates))):
        math.step(*now)
        if real is not None:
            for path in paths:
                torch.where(real[t], path[t + 1], path[t], out=path[t + 1])
    return paths, gates


def _per_step(arrays):
    """Views of each step of all arrays, made beforehand: slicing costs microseconds."""
    return zip(*arrays, strict=True)


def _backward(math, paths, gates, mask, d_path, d_states):
    """Gradients of x, of the weights and of the first states."""
    before, after = [p[:-1] for p in paths], [p[1:] for p in paths]
    T, B, H = before[0].shape
    m = None if mask is None else mask[..., None].to(before[0].dtype)
    out = math.allocate_gradients(before[0])
    d_outputs = None if d_path is None else d_path.unbind()
    chunk = max(1, IN_CACHE // max(1, B * H))
    d_states = [d.clone() for d in d_states]  # written over
    for end in range(T, 0, -chunk):
        now = slice(max(0, end - chunk), end)
        arrays = math.factors(
            [path[now] for path in before],
            [path[now] for path in after],
            {name: gate[now] for name, gate in gates.items()},
            None if m is None else m[now],
            **{name: gradient[now] for name, gradient in out.items()},
        )
        for n, factors in reversed(list(enumerate(_per_step(arrays), now.start))):
            if n % OFTEN == 0:
                d_states = [_without_denormals(d) for d in d_states]
            if d_outputs is not None:
                d_states[0].add_(d_outputs[n])
            math.step_back(d_states, *factors)
    return *math.finish(before, after, gates, **out), d_states


def _without_denormals(d):
    """Numbers below 1e-32 (float64: 1e-301) as 0, before they are denormal.

    Those take a processor several times as long, and the smallest of them stay: half of
    it and more is rounded to it again. TensorFlow and XLA have denormals as 0, too.
    """
    tiny = min(torch.finfo(d.dtype).tiny, torch.finfo(torch.float32).tiny)
    return torch.nn.functional.hardshrink(d, 1e6 * tiny)
