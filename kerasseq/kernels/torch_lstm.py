r"""The LSTM with σ and tanh on PyTorch, in as few operations as it takes.

PyTorch's σ is several times as fast as its tanh, so tanh(x) = 2 σ(2x) - 1 is taken for
both. To save the doublings, the sums in the candidate come out doubled (U and x are
doubled there before the loop), and the memory is held as $C = 2c$:

$$
\begin{aligned}
i &= \sigma(z_i + \tfrac12 p_i C), \qquad f = \sigma(z_f + \tfrac12 p_f C) \\
G &= 4 \sigma(2 z_g) - 2, \qquad C' = f \odot C + i \odot G \\
o &= \sigma(z_o + \tfrac12 p_o C'), \qquad t = 2 \sigma(C') - 1, \qquad h' = o \odot t
\end{aligned}
$$

Gradients of the sums are those of the undoubled ones, as everywhere else.
"""

import torch

from kerasseq.kernels.equations import side_by_side
from kerasseq.kernels.torch_equations import Equation, in_pieces, present
from kerasseq.kernels.torch_product import StateProduct

_NUMBER = {n: torch.tensor(n, device="cpu") for n in (-2.0, -1.0, 0.5, 2.0)}


class DoubledLSTM(Equation):
    """LSTM without peepholes or with diagonal ones, gates i, f, g, o."""

    scales = (1, 2)  # of h and c
    buffers, gradients = {"y": (4,), "t": ()}, {"dz": (4,)}

    @staticmethod
    def fits(equation, weights) -> bool:
        """Whether this class computes an equation, and as exactly as PyTorch would."""
        plain = equation.peephole != "full" and not equation.coupled
        usual = (equation.sigma, equation.phi) == ("sigmoid", "tanh")
        return plain and usual and weights["U"].dtype == torch.float32

    def __init__(self, equation, w, dropout, batch):
        super().__init__(equation, w)
        U, units = w["U"], w["U"].shape[0]
        self.doubled = U.new_ones(4, 1).index_fill_(0, torch.tensor([2]), 2.0)
        twice = (U.view(units, 4, units) * self.doubled).view(units, 4 * units)
        self.forward = StateProduct(twice, 4, dropout, batch)
        self.product = StateProduct(U, 4, dropout, batch)
        self.p = w["p"] / 2 if "p" in w else None  # (3, H), as they act on C

    def arrays(self, x, before, after, y, t):
        T, B, width = x.shape
        x = (x.view(T, B, 4, width // 4) * self.doubled).view(T, B, width)
        (h, C), (h_new, C_new) = before, [a.unsqueeze(2) for a in after]
        at_once = y if self.p is None else y[:, :, :3]
        gates = [y[:, :, k : k + 1] for k in range(4)]
        return [x, h, C.unsqueeze(2), h_new, C_new, t.unsqueeze(2), at_once, *gates]

    def step(self, x, h, C, h_new, C_new, t, at_once, i, f, g, o):
        sums = self.forward.plus(x, h).view(C.shape[0], 4, C.shape[2])
        if self.p is not None:
            sums, sum_o = sums.split_with_sizes([3, 1], 1)
            sums.narrow(1, 0, 2).addcmul_(self.p[:2], C)
        torch.sigmoid(sums, out=at_once)
        torch.add(_NUMBER[-2.0], g, alpha=4, out=g)
        torch.mul(f, C, out=C_new).addcmul_(i, g)
        if self.p is not None:
            torch.sigmoid(sum_o.addcmul_(self.p[2], C_new), out=o)
        torch.sigmoid(C_new, out=t)
        torch.add(_NUMBER[-1.0], t, alpha=2, out=t)
        torch.mul(o, t, out=h_new)

    def factors(self, before, after, gates, m, dz):
        """As in `factors.lstm`, in place."""
        y, t, C = gates["y"], gates["t"], before[1]
        i, f, G, o = y.unbind(2)
        A = torch.addcmul(y, y, y, value=-1)  # y (1 - y)
        A_i, A_f, A_g, A_o = A.unbind(2)
        A_i.mul_(G)
        A_f.mul_(C)
        torch.addcmul(_NUMBER[2.0], G, G, value=-0.5, out=A_g).mul_(i)
        A_o.mul_(t)
        K = torch.addcmul(_NUMBER[0.5], t, t, value=-0.5).mul_(o)
        F = f
        if self.p is not None:
            K.addcmul_(self.p[2], A_o)
            F = torch.addcmul(f, self.p[0], A_i).addcmul_(self.p[1], A_f)
        held = None
        if m is not None:
            held = 1 - m
            A.mul_(m.unsqueeze(2))
            K.mul_(m)
            F = torch.addcmul(held, m, F)
        blocks = (dz[:, :, :3], dz[:, :, 3], A[:, :, :3], A_o)
        return present(side_by_side(dz), *blocks, F, K, held)

    def step_back(self, d_states, d_sums, d_ifg, d_o, A_ifg, A_o, F, K, held=None):
        dh, dC = d_states
        dC.addcmul_(K, dh)
        torch.mul(A_ifg, dC.unsqueeze(1), out=d_ifg)
        torch.mul(A_o, dh, out=d_o)
        dC.mul_(F)
        d_states[0] = self.product.back(d_sums)
        if held is not None:
            d_states[0].addcmul_(held, dh)

    def finish(self, before, after, gates, dz):
        blocks, dz = dz, side_by_side(dz)
        dw = {"U": self.product.gradient(before[0], dz)}
        if self.p is not None:
            seen = ((before[1], 0), (before[1], 1), (after[1], 3))
            dp = [in_pieces(C, blocks[:, :, gate]) for C, gate in seen]
            dw["p"] = torch.stack(dp) / 2
        return dz, dw
