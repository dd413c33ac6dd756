"""Products with fixed weights on PyTorch: of the state each step, of inputs at once.

On a CPU oneDNN, with the weights laid out for it once, was measured up to three times
as fast as PyTorch's own product.
"""

import functools

import torch

from kerasseq.kernels import derivatives, equations
from kerasseq.kernels.precision import matmul

_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def uses_onednn(x) -> bool:
    """Whether oneDNN multiplies a tensor like this one."""
    return (
        _LINEAR is not None
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
    )


def affine(x, transposed, bias=None):
    """$x W + b$ of rows, by oneDNN and without gradients; W is given transposed."""
    return _LINEAR(x, transposed, bias, "none", [], "")


class Product:
    """The function h ↦ $h W$, for many h of `batch` rows."""

    def __init__(self, weights, batch):
        self.weights, self.packed = weights, None
        if uses_onednn(weights):
            laid_out = weights.t().contiguous()
            self.packed = torch.ops.mkldnn._reorder_linear_weight(laid_out, batch)

    def __call__(self, h):
        if self.packed is None:
            return h @ self.weights
        return _LINEAR(h, self.packed, None, "none", [], "")

    def plus(self, x, h):
        """$x + h W$."""
        if self.packed is None:
            return torch.addmm(x, h, self.weights)
        return _LINEAR.binary(h, x, self.packed, None, "add")


class StateProduct:
    """The product of a state with its weights, forward and back, with its dropout.

    Args:
        U: `(H, gates * H)`.
        gates: Their number.
        masks: None, one dropout mask `(B, H)`, or a list of one for each gate.
        batch: B.
    """

    def __init__(self, U, gates, masks, batch):
        self.U, self.gates, self.masks, self.batch = U, gates, masks, batch

    @functools.cached_property
    def forward(self):
        """The function h ↦ $h U$, without dropout."""
        return Product(self.U, self.batch)

    @functools.cached_property
    def back(self):
        r"""The function dz ↦ $dz\, U^T$."""
        if self.masks is None:
            return Product(self.U.t(), self.batch)
        return derivatives.transposed(self.U, self.gates, self.masks)

    def __call__(self, h):
        """$h U$."""
        if self.masks is None:
            return self.forward(h)
        return equations.product(h, self.U, self.masks)

    def plus(self, x, h):
        """$x + h U$."""
        return self.forward.plus(x, h) if self.masks is None else x + self(h)

    def gradient(self, h, dz):
        """The gradient of U, from all h and the gradients of all products."""
        if self.masks is None:
            return over_steps(h, dz)
        return derivatives.weight_gradient(h, dz, self.gates, self.masks)


def over_steps(a, b):
    r"""$\sum_t a_t^T b_t$, of `(T, B, M)` and `(T, B, N)`."""
    a, b = a.reshape(-1, a.shape[-1]).t(), b.reshape(-1, b.shape[-1])
    return affine(a, b.t()) if uses_onednn(a) else a @ b


def project(x, weights):
    """$x W$, of all inputs `(T, B, D)` at once."""
    if x.ndim == 3 and uses_onednn(x) and uses_onednn(weights):
        return learned_affine(x, weights)
    return matmul(x, weights)


def learned_affine(x, weights, bias=None):
    """$x W + b$ by oneDNN, with gradients; x is `(..., D)`."""
    return _Affine.apply(x, weights, bias)


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights, bias):
        ctx.save_for_backward(x, weights)
        return affine(x, weights.t(), bias)

    @staticmethod
    def backward(ctx, d):
        x, weights = ctx.saved_tensors
        db = d.reshape(-1, d.shape[-1]).sum(0) if ctx.needs_input_grad[2] else None
        if torch.is_grad_enabled():  # to be differentiated again
            return d @ weights.t(), derivatives.over_steps(x, d), db
        d = d.contiguous()
        dx = affine(d, weights) if ctx.needs_input_grad[0] else None
        dW = over_steps(x, d) if ctx.needs_input_grad[1] else None
        return dx, dW, db
