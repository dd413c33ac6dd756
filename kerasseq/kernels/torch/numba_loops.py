"""The recurrences on a CPU in float32: products by PyTorch, the rest by numba.

All inputs are projected at once, before. Each step is one product, with full peepholes
or a reset before the product two, and one call of a function of `numba_steps.py` after
each; the gradients of the weights are one product each over all steps, after the loop.
`numba_steps.py` explains the letters.

"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from kerasseq.kernels.reference.derivatives import transposed, weight_gradient
from kerasseq.kernels.reference.equations import Equation, product, with_candidate
from kerasseq.kernels.torch.products import empty, mm

try:
    from kerasseq.kernels.torch import numba_steps
except ImportError:  # numba is not installed
    numba_steps = None

NO_MASK, NO_PATH = np.zeros((0, 0), "bool"), np.zeros((0, 0, 0), "float32")


def array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as a contiguous NumPy array, of the same memory if it is contiguous."""
    return tensor.detach().contiguous().numpy()


class ElmanLoops:
    """The loops over time of an Elman network, and what all equations share."""

    values: int = 0  # arrays (B, H) that a step saves of its gates

    def __init__(
        self,
        equation: Equation,
        weights: Mapping[str, torch.Tensor],
        dropout: torch.Tensor | list[torch.Tensor] | None,
        mask: torch.Tensor | None,
    ) -> None:
        self.equation = equation
        self.gates: int = equation.gates
        self.dropout = dropout
        self.weights: dict[str, torch.Tensor] = {
            name: w.detach() for name, w in weights.items()
        }
        self.U = self.weights["U"].contiguous()
        self.relu: bool = equation.phi == "relu"
        self.keeps: bool = equation.update == "keep"
        self.real: np.ndarray = NO_MASK if mask is None else array(mask)
        functions = numba_steps.compile_functions(*self.functions())
        self.step: Callable[..., None] = functions[0]
        self.step_back: Callable[..., None] = functions[1]
        self.more_functions: tuple[Callable[..., None], ...] = functions[2:]
        self.prepare_weights()

    def prepare_weights(self) -> None:
        """Splits the weights as the steps read them."""

    def functions(self) -> tuple[Callable[..., None], ...]:
        """The functions of `numba_steps.py` for a step forward, backward and others."""
        return numba_steps.elman_forward, numba_steps.elman_backward

    def forward(
        self, x: torch.Tensor, states: Sequence[torch.Tensor], keep: bool
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Returns all states, `(T + 1, B, H)` each, and what is saved of the gates."""
        T, B, _ = x.shape
        H = states[0].shape[1]
        self.x: np.ndarray = array(x).reshape(T, B, self.gates, H)
        slots = T if keep else 1
        shapes = [(T + 1, B, H) for _ in states]
        shapes += [(slots, B, self.values, H)] if self.values else []
        shapes += [(slots, B, H) for _ in states[1:]]
        arrays = empty(x, shapes, in_one_block=keep)
        paths, saved = arrays[: len(states)], arrays[len(states) :]
        for path, state in zip(paths, states, strict=True):
            path[0] = state
        self.prepare_forward(paths, saved)
        for t in range(T):
            self.forward_step(t, t if keep else 0)
        return paths, saved

    def prepare_forward(
        self, paths: list[torch.Tensor], saved: list[torch.Tensor]
    ) -> None:
        """Allocates the buffers of a step, and views all arrays as NumPy's."""
        self.arrays: list[np.ndarray] = [path.numpy() for path in paths] + [
            y.numpy() for y in saved
        ]
        self.h: Sequence[torch.Tensor] = paths[0].unbind()
        self.u_shape: tuple[int, int, int] = (
            paths[0].shape[1],
            self.gates,
            paths[0].shape[2],
        )

    def multiply(self, t: int) -> None:
        """Computes h U, as `product` and as the array `u`."""
        if self.dropout is None:
            self.product: torch.Tensor = mm(self.h[t], self.U)
        else:
            self.product = product(self.h[t], self.U, self.dropout)
        self.u: np.ndarray = self.product.view(self.u_shape).numpy()

    def forward_step(self, t: int, slot: int) -> None:
        self.multiply(t)
        self.step(t, self.relu, self.x, self.u, self.real, *self.arrays)

    def backward(
        self,
        paths: list[torch.Tensor],
        saved: list[torch.Tensor],
        d_path: np.ndarray,
        d_states: list[torch.Tensor],
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], list[torch.Tensor]]:
        """Returns the gradients of x, of the weights by name, and of the states."""
        self.arrays = [path.numpy() for path in paths] + [y.numpy() for y in saved]
        T, B, H = paths[0][1:].shape
        self.d_path = d_path
        self.d_states = d_states
        self.past: torch.Tensor = torch.zeros_like(d_states[0])
        self.prepare_backward(paths[0].new_empty(T, B, self.gates, H))
        for t in reversed(range(T)):
            self.backward_step(t)
        d_states[0] += self.past
        return *self.finish(paths), d_states

    def prepare_backward(self, dz: torch.Tensor) -> None:
        """Allocates what a step backward writes."""
        self.dz = dz
        self.dz_array: np.ndarray = dz.numpy()
        self.past_array: np.ndarray = self.past.numpy()
        self.d_arrays: list[np.ndarray] = [d.numpy() for d in self.d_states]
        self.rows: Sequence[torch.Tensor] = dz.flatten(2).unbind()
        self.U_T = self.U.t().contiguous()

    def multiply_back(self, dz: torch.Tensor) -> None:
        """Computes the gradient of h through the product."""
        if self.dropout is None:
            dh = mm(dz, self.U_T)
        else:
            dh = transposed(self.U, self.gates, self.dropout)(dz)
        self.d_states[0], self.d_arrays[0] = dh, dh.numpy()

    def backward_step(self, t: int) -> None:
        self.step_back(
            t,
            self.relu,
            self.real,
            *self.arrays,
            self.d_path,
            self.past_array,
            *self.d_arrays,
            self.dz_array,
        )
        self.multiply_back(self.rows[t])

    def finish(
        self, paths: list[torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Returns the gradients of x and of the weights, over all steps at once."""
        dz = self.dz.flatten(2)
        return dz, {"U": self.weight_gradient(paths[0][:-1], dz)}

    def weight_gradient(self, h: torch.Tensor, dz: torch.Tensor) -> torch.Tensor:
        """The gradient of U."""
        if self.dropout is None:
            return mm(h.flatten(0, 1).t(), dz.flatten(0, 1))
        return weight_gradient(h, dz, self.gates, self.dropout)


class GatedLoops(ElmanLoops):
    """The network with one gate."""

    values = 2

    def functions(self) -> tuple[Callable[..., None], ...]:
        return numba_steps.gated_forward, numba_steps.gated_backward

    def forward_step(self, t: int, slot: int) -> None:
        self.multiply(t)
        self.step(t, slot, self.relu, self.x, self.u, self.real, *self.arrays)


class LSTMLoops(ElmanLoops):
    """All forms of the LSTM."""

    def prepare_weights(self) -> None:
        self.values: int = self.gates
        self.P: torch.Tensor | None = None
        H = self.U.shape[0]
        p = self.U.new_zeros(3, H)
        if self.equation.peephole == "diagonal":
            p[-len(self.weights["p"]) :] = self.weights["p"]  # no i if coupled
        if self.equation.peephole == "full":
            self.P = with_candidate(self.weights["p"]).contiguous()
        self.p: np.ndarray = p.numpy()

    def functions(self) -> tuple[Callable[..., None], ...]:
        return numba_steps.lstm_forward, numba_steps.lstm_backward

    def prepare_forward(
        self, paths: list[torch.Tensor], saved: list[torch.Tensor]
    ) -> None:
        super().prepare_forward(paths, saved)
        self.c: Sequence[torch.Tensor] = paths[1].unbind()

    def forward_step(self, t: int, slot: int) -> None:
        self.multiply(t)
        if self.P is not None:
            self.product.add_(mm(self.c[t], self.P))
        self.step(t, slot, self.x, self.u, self.p, self.real, *self.arrays)

    def prepare_backward(self, dz: torch.Tensor) -> None:
        super().prepare_backward(dz)
        self.dp: np.ndarray = np.zeros_like(self.p)
        self.P_T: torch.Tensor | None = (
            None if self.P is None else self.P.t().contiguous()
        )

    def backward_step(self, t: int) -> None:
        _, c, y, tanh_c = self.arrays
        self.step_back(
            t,
            self.p,
            self.real,
            c,
            y,
            tanh_c,
            self.d_path,
            self.past_array,
            *self.d_arrays,
            self.dz_array,
            self.dp,
        )
        self.multiply_back(self.rows[t])
        if self.P_T is not None:
            self.d_states[1] += mm(self.rows[t], self.P_T)

    def finish(
        self, paths: list[torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        dx, dw = super().finish(paths)
        if self.equation.peephole == "diagonal":
            dw["p"] = torch.from_numpy(self.dp[-len(self.weights["p"]) :])
        if self.equation.peephole == "full":
            c, H = paths[1][:-1].flatten(0, 1), self.U.shape[0]
            dP = mm(c.t(), dx.flatten(0, 1))
            dw["p"] = torch.cat([dP[:, : -2 * H], dP[:, -H:]], 1)
        return dx, dw


class GRULoops(ElmanLoops):
    """The GRU that resets after the product."""

    values = 4

    def functions(self) -> tuple[Callable[..., None], ...]:
        return numba_steps.gru_forward, numba_steps.gru_backward

    def multiply(self, t: int) -> None:
        super().multiply(t)
        if "b" in self.weights:
            self.product.add_(self.weights["b"])

    def forward_step(self, t: int, slot: int) -> None:
        self.multiply(t)
        self.step(
            t, slot, self.keeps, self.relu, self.x, self.u, self.real, *self.arrays
        )

    def prepare_backward(self, dz: torch.Tensor) -> None:
        super().prepare_backward(dz)  # dz is the gradient of h U + b
        self.dx: torch.Tensor = torch.empty_like(dz)

    def backward_step(self, t: int) -> None:
        self.step_back(
            t,
            self.keeps,
            self.relu,
            self.real,
            *self.arrays,
            self.d_path,
            self.past_array,
            *self.d_arrays,
            self.dx.numpy(),
            self.dz_array,
        )
        self.multiply_back(self.rows[t])

    def finish(
        self, paths: list[torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        du, dw = super().finish(paths)
        if "b" in self.weights:
            dw["b"] = du.sum((0, 1))
        return self.dx.flatten(2), dw


class GRUResetBeforeLoops(ElmanLoops):
    """The GRU that resets before the product: two products a step."""

    values = 3

    def prepare_weights(self) -> None:
        self.compute_gates: Callable[..., None] = self.more_functions[0]
        self.gates_back: Callable[..., None] = self.more_functions[1]
        H = self.U.shape[0]
        self.U_zr: torch.Tensor = self.U[:, : 2 * H].contiguous()
        self.U_h: torch.Tensor = self.U[:, 2 * H :].contiguous()
        self.zr_dropout: list[torch.Tensor] | None = None
        self.h_dropout: torch.Tensor | None = None
        if self.dropout is not None:
            self.zr_dropout, self.h_dropout = self.dropout[:2], self.dropout[2]

    def functions(self) -> tuple[Callable[..., None], ...]:
        return (
            numba_steps.reset_before_update,
            numba_steps.reset_before_update_backward,
            numba_steps.reset_before_gates,
            numba_steps.reset_before_gates_backward,
        )

    def prepare_forward(
        self, paths: list[torch.Tensor], saved: list[torch.Tensor]
    ) -> None:
        super().prepare_forward(paths, saved)
        B, H = self.h[0].shape
        self.u_zr: torch.Tensor = self.U.new_empty(B, 2 * H)
        self.u_h: torch.Tensor = self.U.new_empty(B, H)
        self.rh: torch.Tensor = self.U.new_empty(B, H)

    def forward_step(self, t: int, slot: int) -> None:
        B, H = self.rh.shape
        h, y = self.arrays
        self.u_zr.copy_(product(self.h[t], self.U_zr, self.zr_dropout))
        u_zr = self.u_zr.view(B, 2, H).numpy()
        self.compute_gates(t, slot, self.x, u_zr, h, y, self.rh.numpy())
        self.u_h.copy_(product(self.rh, self.U_h, self.h_dropout))
        flags = (self.keeps, self.relu)
        self.step(t, slot, *flags, self.x, self.u_h.numpy(), self.real, h, y)

    def prepare_backward(self, dz: torch.Tensor) -> None:
        super().prepare_backward(dz)
        B, H = self.d_states[0].shape
        self.d_n: torch.Tensor = dz.new_empty(B, H)
        self.d_zr: torch.Tensor = dz.new_empty(B, 2, H)
        self.back_h: Callable[[torch.Tensor], torch.Tensor] = transposed(
            self.U_h, 1, self.h_dropout
        )
        self.back_zr: Callable[[torch.Tensor], torch.Tensor] = transposed(
            self.U_zr, 2, self.zr_dropout
        )

    def backward_step(self, t: int) -> None:
        self.step_back(
            t,
            self.keeps,
            self.relu,
            self.real,
            *self.arrays,
            self.d_path,
            self.past_array,
            *self.d_arrays,
            self.dz_array,
            self.d_n.numpy(),
        )
        d_rh = array(self.back_h(self.d_n))
        self.gates_back(
            t,
            self.real,
            *self.arrays,
            d_rh,
            self.past_array,
            self.dz_array,
            self.d_zr.numpy(),
        )
        self.d_states[0].copy_(self.back_zr(self.d_zr.flatten(1)))

    def finish(
        self, paths: list[torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        h, r = paths[0][:-1], torch.from_numpy(self.arrays[1][:, :, 1])
        rh, dz = r * h, self.dz.flatten(2)
        cut = 2 * h.shape[-1]
        d_zr = weight_gradient(h, dz[..., :cut], 2, self.zr_dropout)
        d_h = weight_gradient(rh, dz[..., cut:], 1, self.h_dropout)
        return dz, {"U": torch.cat([d_zr, d_h], -1)}


def loops_of(equation: Equation) -> type[ElmanLoops]:
    """Returns the class whose loops compute an equation."""
    if equation.name == "gru" and not equation.reset_after:
        return GRUResetBeforeLoops
    return {
        "elman": ElmanLoops,
        "gated": GatedLoops,
        "lstm": LSTMLoops,
        "gru": GRULoops,
    }[equation.name]
