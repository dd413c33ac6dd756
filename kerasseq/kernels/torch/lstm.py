r"""The LSTM with σ and tanh on PyTorch, in as few and as short operations as it takes.

Gates lie one after the other, `(4, T, B, H)`: functions are fastest on memory in a row.
One function serves them all, since $\sigma(z) = \frac12 \tanh \frac z2 + \frac12$; all
weights of i, f and o are halved before, so that z, p and U below are:

$$
\begin{aligned}
i &= \tfrac12 \tanh(z_i + p_i c) + \tfrac12, \quad f \text{ alike}, \quad
g = \tanh(z_g) \\
c' &= f \odot c + i \odot g, \quad o = \tfrac12 \tanh(z_o + p_o c') + \tfrac12, \quad
h' = o \odot \tanh(c')
\end{aligned}
$$

On a CPU, NumPy computes them in PyTorch's memory: for arrays as small as those of a
step, a call takes it half the time.
"""

import contextlib

import numpy as np
import torch
from torch.nn.functional import pad
from torch.utils._python_dispatch import _get_current_dispatch_mode

from kerasseq.kernels.torch.equations import Equation
from kerasseq.kernels.torch.in_place import in_pieces, present
from kerasseq.kernels.torch.product import GateProduct, uses_onednn

tanh_backward = torch.ops.aten.tanh_backward


def library_for(like):
    """What computes on tensors like this one, and how it sees them."""
    recorded = torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None
    if like.device.type == "cpu" and type(like) is torch.Tensor and not recorded:
        return np, torch.Tensor.numpy
    return torch, lambda tensor: tensor


class GateMajorLSTM(Equation):
    """LSTM without peepholes or with diagonal ones, gates i, f, g, o."""

    @staticmethod
    def fits(equation, weights) -> bool:
        """Whether this class computes an equation, and as exactly as PyTorch would."""
        plain = equation.peephole != "full" and not equation.coupled
        usual = (equation.sigma, equation.phi) == ("sigmoid", "tanh")
        plain = plain and equation.name == "lstm"
        return plain and usual and weights["U"].dtype == torch.float32

    @staticmethod
    def enter(cell, weights):
        """Sums `(4, T, B, H)` and weights by gate, halved where autograd sees it."""
        scale = weights["U"].new_full((4, 1, 1), 0.5)
        scale[2] = 1

        def by_gate(w):
            w = w.reshape(len(w), 4, w.shape[-1] // 4).transpose(0, 1)
            return (w * scale).contiguous()

        x, W, (T, B, _) = cell.inputs, cell.kernel, cell.inputs.shape
        if W is None or uses_onednn(x):
            sums = by_gate(cell.project(x).flatten(0, 1))
        else:
            if cell.bias is not None:  # it is the weights of an input that is 1
                x, W = pad(x, (0, 1), value=1.0), torch.cat([W, cell.bias[None]])
            rows = x.reshape(1, T * B, x.shape[-1]).expand(4, -1, -1)
            sums = torch.bmm(rows, by_gate(W))
        weights = {**weights, "U": by_gate(weights["U"])}
        if "p" in weights:
            weights["p"] = weights["p"] / 2
        return sums.view(4, T, B, sums.shape[-1]), weights

    def __init__(self, equation, w, dropout, batch):
        U, units = w["U"].detach(), w["U"].shape[-1]
        self.product = GateProduct(U, dropout, batch)
        self.p = w["p"].detach() if "p" in w else None  # (3, H)
        library, self.view = library_for(U)
        # NumPy would warn of numbers that PyTorch lets be 0, infinite or none.
        quiet = np.errstate(all="ignore") if library is np else contextlib.nullcontext()
        self.quiet = quiet
        self.mul, self.add, self.tanh = library.multiply, library.add, library.tanh
        self.zero, self.half = U.new_zeros(()), self.view(U.new_full((), 0.5))
        self.spare = self.view(U.new_empty(2, batch, units))
        self.spare_1 = self.spare[0]
        if self.p is not None:
            p = self.p[:, None].expand(3, batch, units).contiguous()
            self.p_if, self.p_o = self.view(p[:2]), self.view(p[2])

    def allocate(self, x, keep):
        """The sums, which become the gates, and tanh(c)."""
        _, T, B, H = x.shape
        y = x.detach().transpose(0, 1)
        return {"y": y, "t": x.new_empty(T if keep else 1, B, H).expand(T, B, H)}

    def arrays(self, x, before, after, y, t):
        h = before[0].unsqueeze(1).expand(y.shape)
        views = (y[:, :2], y[:, :3], *y.unbind(1), before[1], *after, t)
        return [y, h, *map(self.view, views)]

    def step(self, sums, h, i_and_f, ifg, i, f, g, o, c, h_new, c_new, t):
        mul, add, tanh, spare = self.mul, self.add, self.tanh, self.spare_1
        self.product.add_to(sums, h)
        if self.p is not None:
            add(i_and_f, mul(self.p_if, c, out=self.spare), out=i_and_f)
        tanh(ifg, out=ifg)
        add(mul(i_and_f, self.half, out=i_and_f), self.half, out=i_and_f)
        add(mul(f, c, out=c_new), mul(i, g, out=spare), out=c_new)
        if self.p is not None:
            add(o, mul(self.p_o, c_new, out=spare), out=o)
        tanh(o, out=o)
        add(mul(o, self.half, out=o), self.half, out=o)
        mul(o, tanh(c_new, out=t), out=h_new)

    def allocate_gradients(self, like):
        T, B, H = like.shape
        return {"dz": like.new_empty(4, T, B, H).transpose(0, 1)}

    def factors(self, before, after, gates, m, dz):
        """As in `factors.lstm`, in place; A becomes dz."""
        y, t, c = gates["y"], gates["t"], before[1]
        i, f, g, o = y.unbind(1)
        A = torch.addcmul(y, y, y, value=-1, out=dz)  # half the slope of i, f and o
        A_i, A_f, A_g, A_o = A.unbind(1)
        tanh_backward.grad_input(i, g, grad_input=A_g)  # i (1 - g^2)
        for A_k, factor in ((A_i, g), (A_f, c), (A_o, t)):
            torch.addcmul(self.zero, A_k, factor, value=2, out=A_k)
        K = tanh_backward(o, t)
        F = f
        if self.p is not None:
            K.addcmul_(self.p[2], A_o)
            F = torch.addcmul(f, self.p[0], A_i).addcmul_(self.p[1], A_f)
        held = None
        if m is not None:
            held = 1 - m
            A.mul_(m.unsqueeze(1))
            K.mul_(m)
            F = torch.addcmul(held, m, F)
        return present(dz, *map(self.view, (A[:, :3], A_o, F, K)), held)

    def step_back(self, d_states, dz, A_ifg, A_o, F, K, held=None):
        mul, dh, dc = self.mul, *map(self.view, d_states)
        self.add(dc, mul(K, dh, out=self.spare_1), out=dc)
        mul(A_ifg, dc, out=A_ifg)
        mul(A_o, dh, out=A_o)
        mul(dc, F, out=dc)
        earlier = self.product.back(dz)
        if held is not None:
            earlier.addcmul_(held, d_states[0])
        d_states[0] = earlier

    def finish(self, before, after, gates, dz):
        dw = {"U": self.product.gradient(before[0], dz)}
        if self.p is not None:
            seen = ((before[1], 0), (before[1], 1), (after[1], 3))
            dp = [in_pieces(c, dz[:, gate]) for c, gate in seen]
            dw["p"] = torch.stack(dp)
        return dz.transpose(0, 1), dw
