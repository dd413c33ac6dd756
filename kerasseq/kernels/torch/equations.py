"""One step of each recurrence on PyTorch, forward and back, written in place.

Letters are those of `equations.py` and `factors.py`. Each class lists its `buffers`,
what a step forward keeps of its gates, and its `gradients`, what a step back writes.
`arrays` and `factors` give lists of arrays over time, of which `step` and `step_back`
get the views of one step, in the same order.
"""

import contextlib

import torch

from kerasseq.kernels.reference import activations, factors
from kerasseq.kernels.reference.derivatives import peephole_gradient
from kerasseq.kernels.reference.equations import in_blocks, prepare, side_by_side
from kerasseq.kernels.torch.in_place import in_place, present
from kerasseq.kernels.torch.product import Product, StateProduct


class Equation:
    """One step of a recurrence, in place."""

    quiet = contextlib.nullcontext()  # what the loop over the steps runs in

    @staticmethod
    def enter(cell, weights):
        """The projected inputs of a `Recurrence`, and its weights, as they are used."""
        return cell.project(cell.inputs), weights

    def __init__(self, equation, weights):
        self.equation, self.w = equation, prepare(equation, weights)
        self.sigma = in_place(equation.sigma, weights["U"])
        self.phi = in_place(equation.phi, weights["U"])

    def allocate(self, x, keep):
        """Arrays for what `buffers` names."""
        T, B, width = x.shape
        H = width // self.equation.gates
        return {
            # Without a way back, all steps write into the same place.
            name: x.new_empty(T if keep else 1, B, *n, H).expand(T, B, *n, H)
            for name, n in self.buffers.items()
        }

    def allocate_gradients(self, like):
        """Arrays for what `gradients` names; like: the path of a state, `(T, B, H)`."""
        T, B, H = like.shape
        return {n: like.new_empty(T, B, *k, H) for n, k in self.gradients.items()}


class Elman(Equation):
    r"""$h = \phi(x + h U)$, and what all networks without memory share."""

    gates, buffers, gradients = 1, {}, {"dz": (1,)}

    def __init__(self, equation, w, dropout, batch):
        super().__init__(equation, w)
        self.product = StateProduct(self.w["U"], self.gates, dropout, batch)

    def arrays(self, x, before, after):
        """What a step forward reads and writes."""
        return [x, *before, *after]

    def step(self, x, h, h_new):
        """Write the state after the step."""
        self.phi(self.product.plus(x, h), h_new)

    def factors(self, before, after, gates, m, dz):
        """What a step back reads and writes."""
        A, F = factors.elman(self.equation, *after, m)
        return present(side_by_side(dz), dz, A, F)

    def step_back(self, d_states, d_sums, dz, A, F=None):
        """Write `dz`, and turn `d_states` into those before the step."""
        (dh,) = d_states
        torch.mul(A, dh.unsqueeze(1), out=dz)
        d_states[0] = self.product.back(d_sums)
        if F is not None:
            d_states[0].addcmul_(F, dh)

    def finish(self, before, after, gates, dz):
        """The gradients of x and of the weights."""
        dz = side_by_side(dz)
        return dz, {"U": self.product.gradient(before[0], dz)}


class Gated(Elman):
    r"""$h = z \odot h + (1 - z) \odot \bar h$."""

    gates, buffers, gradients = 2, {"y": (2,)}, {"dz": (2,)}

    def arrays(self, x, before, after, y):
        return [x, *before, *after, y[:, :, 0], y[:, :, 1]]

    def step(self, x, h, h_new, z, h_bar):
        sum_z, sum_h = self.product.plus(x, h).chunk(2, 1)
        self.sigma(sum_z, z)
        self.phi(sum_h, h_bar)
        torch.lerp(h_bar, h, z, out=h_new)

    def factors(self, before, after, gates, m, dz):
        A, F = factors.gated(self.equation, gates["y"], *before, m)
        return present(side_by_side(dz), dz, A, F)


class LSTM(Equation):
    """All forms of the LSTM: two states, the gates i, f, g, o."""

    def __init__(self, equation, w, dropout, batch):
        super().__init__(equation, w)
        n = equation.gates
        self.buffers, self.gradients = {"y": (n,), "phi_c": ()}, {"dz": (n,)}
        self.product = StateProduct(self.w["U"], n, dropout, batch)
        self.p = self.w["p"] if equation.peephole == "diagonal" else None
        if self.p is not None:
            self.p_old, self.p_o = self.p[:-1], self.p[-1]
        if equation.peephole == "full":
            self.P = Product(self.w["P"], batch)
            self.P_T = Product(self.w["P"].t(), batch)

    def arrays(self, x, before, after, y, phi_c):
        (h, c), (h_new, c_new) = before, after
        i_and_f = y[:, :, :-2]  # or f alone
        gates = [y[:, :, k] for k in range(y.shape[2])]
        return [x, h, c, c.unsqueeze(2), h_new, c_new, phi_c, i_and_f, *gates]

    def step(self, x, h, c, c_to_all, h_new, c_new, phi_c, i_and_f, *gates):
        equation, (*i, f, g, o) = self.equation, gates
        sums = self.product.plus(x, h)
        if equation.peephole == "full":
            sums = self.P.plus(sums, c)
        sums = sums.view(*c.shape[:1], len(gates), *c.shape[1:])
        sum_i_and_f, sum_g, sum_o = sums.split_with_sizes([len(i) + 1, 1, 1], 1)
        sum_g, sum_o = sum_g.squeeze(1), sum_o.squeeze(1)
        if self.p is not None:
            sum_i_and_f.addcmul_(self.p_old, c_to_all)
        self.sigma(sum_i_and_f, i_and_f)
        self.phi(sum_g, g)
        if equation.coupled:
            torch.lerp(g, c, f, out=c_new)
        else:
            torch.mul(f, c, out=c_new).addcmul_(*i, g)
        if self.p is not None:
            sum_o.addcmul_(self.p_o, c_new)
        self.sigma(sum_o, o)
        self.phi(c_new, phi_c)
        torch.mul(o, phi_c, out=h_new)

    def factors(self, before, after, gates, m, dz):
        y, phi_c = gates["y"], gates["phi_c"]
        A_c, A_o, F, K = factors.lstm(
            self.equation, y[..., :-1, :], y[..., -1, :], phi_c, before[1], self.p, m
        )
        held = None if m is None else 1 - m
        by_gate = (dz[:, :, :-1], dz[:, :, -1])
        return present(side_by_side(dz), *by_gate, A_c, A_o, F, K, held)

    def step_back(self, d_states, d_sums, d_ifg, d_o, A_c, A_o, F, K, held=None):
        dh, dc = d_states
        dc.addcmul_(K, dh)
        torch.mul(A_c, dc.unsqueeze(1), out=d_ifg)
        torch.mul(A_o, dh, out=d_o)
        dc.mul_(F)
        if self.equation.peephole == "full":
            dc.add_(self.P_T(d_sums))
        d_states[0] = self.product.back(d_sums)
        if held is not None:
            d_states[0].addcmul_(held, dh)

    def finish(self, before, after, gates, dz):
        dz = side_by_side(dz)
        dw = {"U": self.product.gradient(before[0], dz)}
        if self.equation.peephole:
            dw["p"] = peephole_gradient(self.equation, before[1], after[1], dz)
        return dz, dw


class GRU(Elman):
    """The GRU whose reset gate acts after the product."""

    gates = 3
    buffers = {"y": (2,), "h_hat": (), "u_h": ()}
    gradients = {"du": (3,), "dn": ()}

    def __init__(self, equation, w, dropout, batch):
        super().__init__(equation, w, dropout, batch)
        self.b = self.w.get("b")

    def arrays(self, x, before, after, y, h_hat, u_h):
        x = in_blocks(x, 3)
        x_zr, x_h, z, r = x[:, :, :2], x[:, :, 2], y[:, :, 0], y[:, :, 1]
        return [x_zr.flatten(2), x_h, *before, *after, y.flatten(2), z, r, h_hat, u_h]

    def step(self, x_zr, x_h, h, h_new, z_and_r, z, r, h_hat, u_h):
        u = self.product(h)
        u = u if self.b is None else u.add_(self.b)
        units = h.shape[1]
        u_zr, u_now = u.split_with_sizes([2 * units, units], 1)
        self.sigma(u_zr.add_(x_zr), z_and_r)
        u_h.copy_(u_now)
        self.phi(torch.addcmul(x_h, r, u_now), h_hat)
        self.mix(z, h, h_hat, h_new)

    def mix(self, z, h, h_hat, out):
        """Out = k h + (1 - k) h_hat, with k = z or 1 - z."""
        if self.equation.update == "keep":
            torch.lerp(h_hat, h, z, out=out)
        else:
            torch.lerp(h, h_hat, z, out=out)

    def factors(self, before, after, gates, m, du, dn):
        A, A_n, F = factors.gru_reset_after(
            self.equation, gates["y"], gates["h_hat"], gates["u_h"], *before, m
        )
        return [side_by_side(du), du, A, F, dn, A_n]

    def step_back(self, d_states, d_sums, du, A, F, dn, A_n):
        torch.mul(A_n, d_states[0], out=dn)
        super().step_back(d_states, d_sums, du, A, F)

    def finish(self, before, after, gates, du, dn):
        dx = side_by_side(torch.cat([du[:, :, :2], dn[:, :, None]], 2))
        _, dw = super().finish(before, after, gates, du)
        if self.b is not None:
            dw["b"] = du.sum((0, 1)).flatten()
        return dx, dw


class GRUResetBefore(GRU):
    """The GRU whose reset gate acts on the state, before the product."""

    buffers, gradients = {"y": (2,), "h_hat": ()}, {"dz": (3,)}

    def __init__(self, equation, w, dropout, batch):
        Equation.__init__(self, equation, w)
        masks_zr, mask_h = (None, None)
        if dropout is not None:
            masks_zr, mask_h = dropout[:2], dropout[2]
        self.zr = StateProduct(self.w["U_zr"], 2, masks_zr, batch)
        self.h = StateProduct(self.w["U_h"], 1, mask_h, batch)

    def arrays(self, x, before, after, y, h_hat):
        x = in_blocks(x, 3)
        x_zr, x_h, z, r = x[:, :, :2], x[:, :, 2].contiguous(), y[:, :, 0], y[:, :, 1]
        return [x_zr.flatten(2), x_h, *before, *after, y.flatten(2), z, r, h_hat]

    def step(self, x_zr, x_h, h, h_new, z_and_r, z, r, h_hat):
        self.sigma(self.zr.plus(x_zr, h), z_and_r)
        self.phi(self.h.plus(x_h, r * h), h_hat)
        self.mix(z, h, h_hat, h_new)

    def factors(self, before, after, gates, m, dz):
        y = gates["y"]
        A_z, A_n, F = factors.gru(self.equation, y, gates["h_hat"], *before, m)
        r = y[:, :, 1]
        A_r = before[0] * activations.slope(self.equation.sigma, r)
        return [*dz.unbind(2), A_z, A_n, A_r, F, r]

    def step_back(self, d_states, d_z, d_r, d_n, A_z, A_n, A_r, F, r):
        (dh,) = d_states
        dq = self.h.back(torch.mul(A_n, dh))  # of r * h
        torch.mul(A_n, dh, out=d_n)
        torch.mul(A_z, dh, out=d_z)
        torch.mul(A_r, dq, out=d_r)
        d_states[0] = self.zr.back(torch.cat([d_z, d_r], 1))
        d_states[0].addcmul_(F, dh).addcmul_(r, dq)

    def finish(self, before, after, gates, dz):
        (h,), r = before, gates["y"][:, :, 1]
        d_zr = self.zr.gradient(h, dz[:, :, :2].flatten(2))
        d_h = self.h.gradient(r * h, dz[:, :, 2])
        return side_by_side(dz), {"U": torch.cat([d_zr, d_h], -1)}


def of(equation):
    """The class for an equation."""
    if equation.name == "gru" and not equation.reset_after:
        return GRUResetBefore
    return {"elman": Elman, "gated": Gated, "lstm": LSTM, "gru": GRU}[equation.name]
