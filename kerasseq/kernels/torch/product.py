"""Products with fixed weights on PyTorch: of the state each step, of inputs at once.

PyTorch multiplies by MKL. On AMD's processors oneDNN, with the weights laid out for it
once, was measured up to three times as fast. On Intel's it is slower by up to a half,
but for weights that fit no cache: those it reads three times as fast.
"""

import functools
import math

import torch

from kerasseq.kernels.reference import derivatives, equations
from kerasseq.kernels.reference.precision import matmul

LARGE = 2**21  # weights that fit no cache

_LINEAR = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_PROCESSOR = getattr(torch.cpu, "get_capabilities", dict)().get("cpu_name")


def on_intel() -> bool:
    """Whether the processor is Intel's; False also where PyTorch cannot say."""
    return "Intel" in (_PROCESSOR or "")


def uses_onednn(x) -> bool:
    """Whether oneDNN multiplies tensors like this one."""
    return _has_onednn(x) and not on_intel()


def _has_onednn(x):
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


def lays_out(weights) -> bool:
    """Whether a product of each step with these weights is one for oneDNN."""
    return uses_onednn(weights) or (_has_onednn(weights) and weights.numel() >= LARGE)


class Product:
    """The function h ↦ $h W$, for many h of `batch` rows."""

    def __init__(self, weights, batch):
        self.weights = self.packed = None
        if lays_out(weights):
            laid_out = weights.t().contiguous()
            self.packed = torch.ops.mkldnn._reorder_linear_weight(laid_out, batch)
        else:
            self.weights = weights.contiguous()  # transposed ones take a third longer

    def __call__(self, h):
        if self.packed is None:
            return torch.mm(h, self.weights)
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


class GateProduct:
    """As `StateProduct`, of weights that lie gate by gate.

    Args:
        U: `(4, H, H)`.
        masks: None, one dropout mask `(B, H)`, or a list of one for each gate.
        batch: B.
    """

    def __init__(self, U, masks, batch):
        self.U, self.batch = U, batch
        self.masks = torch.stack(masks) if isinstance(masks, list) else masks
        self.at_once = masks is None and lays_out(U)
        self.parts = U.new_empty(len(U), batch, U.shape[-1])

    @functools.cached_property
    def forward(self):
        """The function h ↦ $h U$, all gates side by side."""
        return Product(self.U.transpose(0, 1).flatten(1), self.batch)

    def add_to(self, sums, h):
        """Add $h U$ to sums, `(gates, B, H)`; h is given once for each gate."""
        if self.at_once:
            gates, B, H = sums.shape
            sums.add_(self.forward(h[0]).view(B, gates, H).transpose(0, 1))
        else:
            h = h if self.masks is None else h * self.masks
            sums.add_(torch.bmm(h, self.U, out=self.parts))

    @functools.cached_property
    def back(self):
        r"""The function dz ↦ $\sum_k dz_k U_k^T$, of `(gates, B, H)`."""
        U_T = self.U.transpose(1, 2).contiguous()
        if self.at_once:
            product = Product(U_T.flatten(0, 1), self.batch)
            return lambda dz: product(dz.transpose(0, 1).flatten(1))
        half, other = self.parts.chunk(2)  # a sum over gates takes thrice as long
        one, two = half

        def back(dz):
            torch.bmm(dz, U_T, out=self.parts)
            if self.masks is not None:
                self.parts.mul_(self.masks)
            half.add_(other)
            return one + two

        return back

    def gradient(self, h, dz):
        """The gradient of U, from all h `(T, B, H)` and all dz `(T, gates, B, H)`."""
        dz = dz.transpose(0, 1).flatten(1, 2)  # (gates, T B, H)
        h = h[None] if self.masks is None else self.masks.view(-1, 1, *h.shape[1:]) * h
        h = h.flatten(1, 2).expand(len(dz), -1, -1)
        if uses_onednn(h):
            return torch.stack([over_steps(a, b) for a, b in zip(h, dz, strict=True)])
        return torch.bmm(h.transpose(1, 2), dz)


def over_steps(a, b):
    r"""$\sum_t a_t^T b_t$, of `(T, B, M)` and `(T, B, N)`."""
    a, b = a.reshape(-1, a.shape[-1]).t(), b.reshape(-1, b.shape[-1])
    return affine(a, b.t()) if uses_onednn(a) else a @ b


def project(x, weights, bias=None):
    """$x W + b$, of all inputs `(T, B, D)` at once."""
    if x.ndim == 3 and uses_onednn(x) and uses_onednn(weights):
        return learned_affine(x, weights, bias)
    if bias is None:
        return matmul(x, weights)
    if x.dtype == weights.dtype == bias.dtype:
        rows = x.reshape(-1, x.shape[-1])
        return torch.addmm(bias, rows, weights).view(*x.shape[:-1], len(bias))
    return matmul(x, weights) + bias


def flat_affine(x, kernel, bias, axes):
    """See `kerasseq.kernels.affine`; the bias is added within the product."""
    inner, out = kernel.shape[:axes], kernel.shape[axes:]
    D, N = math.prod(inner), math.prod(out)
    x, before = x.reshape(-1, D), x.shape[: x.ndim - axes]
    kernel = kernel.reshape(D, N)
    b = None if bias is None else bias.reshape(N)
    y = x @ kernel if b is None else torch.addmm(b, x, kernel)
    return y.view(*before, *out)


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
