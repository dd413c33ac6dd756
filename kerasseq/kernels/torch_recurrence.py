"""The fast recurrence on PyTorch: Python's loop over operations that write in place.

Forward, each step writes what the way back needs into arrays that hold all steps.
Backward, local derivatives are computed for as many steps at once as the processor's
cache holds, and become the gradients of the sums in the gates in place.
"""

import torch

from kerasseq.kernels import torch_equations, torch_native
from kerasseq.kernels.equations import prepare
from kerasseq.kernels.torch_equations import IN_CACHE
from kerasseq.kernels.torch_lstm import DoubledLSTM


def run(cell, states, mask):
    """See `kerasseq.kernels.recurrence`."""
    if torch_native.wanted(cell, mask):
        return torch_native.run(cell, states)
    learned = {name: w for name, w in cell.weights.items() if name != "dropout"}
    tensors = [cell.project(cell.inputs), *states, *learned.values()]
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    fixed = (cell.equation, mask, cell.weights.get("dropout"), list(learned), keep)
    path, *last = _Recurrence.apply(fixed, len(states), *tensors)
    return path, last


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fixed, states, x, *tensors):
        equation, mask, dropout, names, keep = fixed
        ctx.set_materialize_grads(False)
        weights = dict(zip(names, tensors[states:], strict=True))
        math = _math(equation, weights, dropout, x.shape[1])
        paths, gates = _forward(math, x, tensors[:states], mask, keep)
        if keep:
            ctx.fixed, ctx.names = fixed, list(gates)
            ctx.save_for_backward(*tensors[states:], *paths, *gates.values())
        last = [path[-1] / k for path, k in zip(paths, math.scales, strict=False)]
        return paths[0][1:], *last

    @staticmethod
    def backward(ctx, d_path, *d_last):
        if torch.is_grad_enabled():  # somebody means to differentiate what comes out
            raise RuntimeError(
                "on PyTorch the fast recurrence has no second derivatives; build the "
                "layer with unroll=True, which goes step by step and has them"
            )
        equation, mask, dropout, names, _ = ctx.fixed
        saved = list(ctx.saved_tensors)
        weights = {name: saved.pop(0) for name in names}
        paths = [saved.pop(0) for _ in d_last]
        gates = dict(zip(ctx.names, saved, strict=True))
        math = _math(equation, weights, dropout, paths[0].shape[1])
        d_states = [
            torch.zeros_like(path[0]) if d is None else d / k
            for path, d, k in zip(paths, d_last, math.scales, strict=False)
        ]
        dx, dw = _backward(math, paths, gates, mask, d_path, d_states)
        d_states = [d * k for d, k in zip(d_states, math.scales, strict=False)]
        return None, None, dx, *d_states, *(dw[name] for name in names)


def _math(equation, weights, dropout, batch):
    if equation.name == "lstm" and DoubledLSTM.fits(equation, weights):
        return DoubledLSTM(equation, weights, dropout, batch)
    weights = prepare(equation, weights)
    return torch_equations.of(equation)(equation, weights, dropout, batch)


def _forward(math, x, states, mask, keep):
    """All states, the first included, `(T + 1, B, H)`, and the gates by name."""
    (T, B, _), H = x.shape, states[0].shape[-1]
    paths = [
        torch.cat([s[None] * k, s.new_empty(T, B, H)])
        for s, k in zip(states, math.scales, strict=False)
    ]
    gates = {
        # Without a way back, all steps write into the same place.
        name: x.new_empty(T if keep else 1, B, *blocks, H).expand(T, B, *blocks, H)
        for name, blocks in math.buffers.items()
    }
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
    return zip(*(a.unbind() for a in arrays), strict=True)


def _backward(math, paths, gates, mask, d_path, d_states):
    """Gradients of x and of the weights; those of the states replace `d_states`."""
    before, after = [p[:-1] for p in paths], [p[1:] for p in paths]
    T, B, H = before[0].shape
    m = None if mask is None else mask[..., None].to(before[0].dtype)
    out = {
        name: before[0].new_empty(T, B, *blocks, H)
        for name, blocks in math.gradients.items()
    }
    d_outputs = None if d_path is None else d_path.unbind()
    chunk = max(1, IN_CACHE // (B * H))
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
            if d_outputs is not None:
                d_states[0].add_(d_outputs[n])
            math.step_back(d_states, *factors)
    return math.finish(before, after, gates, **out)
