"""One step of each recurrence on TensorFlow, forward and backward, gate by gate.

Letters are those of `reference/equations.py`. `step` returns the new states, and what
`step_back` needs of the step: a `tf.TensorArray` passes it on without a copy.
`step_back` returns the gradients of the pre-activations, and of the previous states as
far as they do not flow through the product; `earlier` adds the rest.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import matmul
from kerasseq.kernels.reference.derivatives import (
    over_steps,
    transposed,
    weight_gradient,
)
from kerasseq.kernels.reference.equations import (
    Equation,
    apply,
    prepare,
    product,
    slope,
)
from kerasseq.kernels.tensorflow.loop import InOrder

_GRADIENTS = {"sigmoid": tf.raw_ops.SigmoidGrad, "tanh": tf.raw_ops.TanhGrad}


def gradient_of(activation: str, y: Tensor, dy: Tensor) -> Tensor:
    """Computes the gradient of the pre-activation from y and its gradient."""
    if activation in _GRADIENTS:
        return _GRADIENTS[activation](y=y, dy=dy)
    return dy * slope(activation, y)


def complement(gate: Tensor) -> Tensor:
    """Computes 1 - gate, in the dtype of the gate."""
    return 1 - gate


class ElmanSteps:
    r"""$h = \phi(x + h U)$, and what all equations share."""

    kept: int = 1  # number of arrays (B, H) that a step saves

    def __init__(
        self, equation: Equation, weights: Mapping[str, Tensor], batch: int | Tensor
    ) -> None:
        self.w: dict[str, Tensor] = prepare(equation, weights)
        self.equation = equation
        self.sigma: str = equation.sigma
        self.phi: str = equation.phi
        self.masks: Tensor | None = self.w.get("dropout")
        self.units: int = self.w["U"].shape[0]
        self.written: list[int] = [
            equation.gates * self.units
        ]  # columns of the gradients

    def pre_activations(self, do: InOrder, x: Tensor, h: Tensor) -> Tensor:
        """$x + h U$."""
        return do.add(x, do(product, h, self.w["U"], self.masks))

    def step(
        self, do: InOrder, x: Tensor, h: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        h = do(apply, self.phi, self.pre_activations(do, x, h))
        return [h], [h]

    def prepare_backward(self) -> None:
        """Computes what all steps of the backward pass need."""
        self.back: Callable[[Tensor], Tensor] = transposed(
            self.w["U"], self.equation.gates, self.masks
        )

    def step_back(
        self, do: InOrder, kept: list[Tensor], dh: Tensor
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        return [do(gradient_of, self.phi, *kept, dh)], [None]

    def earlier(
        self, do: InOrder, dz: list[Tensor], d_states: list[Tensor | None]
    ) -> list[Tensor]:
        """Returns the gradients of the previous states."""
        past, *others = d_states
        dh = do(self.back, dz[0])
        return [dh if past is None else do.add(dh, past), *others]

    def finish(
        self, h_before: Tensor, kept: list[Tensor], last: list[Tensor], dz: list[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the gradients of x and of the weights, from arrays over all steps."""
        gates = self.equation.gates
        return dz[0], {"U": weight_gradient(h_before, dz[0], gates, self.masks)}


class GatedSteps(ElmanSteps):
    r"""$h = z \odot h + (1 - z) \odot \bar h$."""

    kept = 3

    def step(
        self, do: InOrder, x: Tensor, h: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        z, h_bar = do.split(self.pre_activations(do, x, h), 2, 1)
        z, h_bar = do(apply, self.sigma, z), do(apply, self.phi, h_bar)
        more = do.subtract(h, h_bar)
        return [do.add(h_bar, do.multiply(z, more))], [z, h_bar, more]

    def step_back(
        self, do: InOrder, kept: list[Tensor], dh: Tensor
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        z, h_bar, more = kept
        past = do.multiply(z, dh)
        dz = [
            do(gradient_of, self.sigma, z, do.multiply(dh, more)),
            do(gradient_of, self.phi, h_bar, do.subtract(dh, past)),
        ]
        return [do.concat(dz, 1)], [past]


class LSTMSteps(ElmanSteps):
    """All forms of the LSTM: two states, the gates i, f, g, o."""

    def __init__(
        self, equation: Equation, weights: Mapping[str, Tensor], batch: int | Tensor
    ) -> None:
        super().__init__(equation, weights, batch)
        self.kept: int = 5 + (not equation.coupled)
        self.p: list[Tensor] | None = None
        if equation.peephole == "diagonal":  # slower at each step
            p = tf.expand_dims(self.w["p"], 1)
            self.p = tf.unstack(tf.broadcast_to(p, (p.shape[0], batch, self.units)))

    def step(
        self, do: InOrder, x: Tensor, h: Tensor, c: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        mul, add = do.multiply, do.add
        z = self.pre_activations(do, x, h)
        if "P" in self.w:
            z = add(z, do(matmul, c, self.w["P"]))
        *z_if, z_g, z_o = do.split(z, self.equation.gates, 1)
        if self.p is not None:  # the last depends on the new cell state
            z_if = [add(z, mul(p, c)) for z, p in zip(z_if, self.p, strict=False)]
        *i, f = [do(apply, self.sigma, z) for z in z_if]
        g = do(apply, self.phi, z_g)
        c_new = add(mul(f, c), mul(i[0] if i else do(complement, f), g))
        if self.p is not None:
            z_o = add(z_o, mul(self.p[-1], c_new))
        o, y = do(apply, self.sigma, z_o), do(apply, self.phi, c_new)
        return [mul(o, y), c_new], [*i, f, g, o, y, c]

    def prepare_backward(self) -> None:
        super().prepare_backward()
        self.P_T = tf.transpose(self.w["P"]) if "P" in self.w else None

    def step_back(
        self, do: InOrder, kept: list[Tensor], dh: Tensor, dc: Tensor
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        mul, add = do.multiply, do.add
        *i, f, g, o, y, c = kept
        d_o = do(gradient_of, self.sigma, o, mul(dh, y))
        dc = add(dc, do(gradient_of, self.phi, y, mul(dh, o)))
        if self.p is not None:
            dc = add(dc, mul(self.p[-1], d_o))
        # The factors of the gates: g and c, or (1 - f) g + f c.
        factors = [g, c] if i else [do.subtract(c, g)]
        gates = zip([*i, f], factors, strict=True)
        d_if = [do(gradient_of, self.sigma, gate, mul(dc, a)) for gate, a in gates]
        d_g = mul(dc, i[0] if i else do(complement, f))
        d_g = do(gradient_of, self.phi, g, d_g)
        dc = mul(dc, f)
        if self.p is not None:
            for p, d in zip(self.p, d_if, strict=False):
                dc = add(dc, mul(p, d))
        return [do.concat([*d_if, d_g, d_o], 1)], [None, dc]

    def earlier(
        self, do: InOrder, dz: list[Tensor], d_states: list[Tensor | None]
    ) -> list[Tensor]:
        dh, dc = super().earlier(do, dz, d_states)
        if self.P_T is not None:
            dc = do.add(dc, do(matmul, dz[0], self.P_T))
        return [dh, dc]

    def finish(
        self, h_before: Tensor, kept: list[Tensor], last: list[Tensor], dz: list[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        dx, dw = super().finish(h_before, kept, last, dz)
        if self.equation.peephole:
            c_before = kept[-1].stack()
            *dz_if, _, dz_o = tf.split(dx, self.equation.gates, -1)
        if self.equation.peephole == "full":
            dw["p"] = over_steps(c_before, tf.concat([*dz_if, dz_o], -1))
        if self.equation.peephole == "diagonal":
            c = tf.concat([c_before[1:], last[-1][None]], 0)
            dp = [c_before * d for d in dz_if] + [c * dz_o]
            dw["p"] = tf.stack([over_rows(a) for a in dp])
        return dx, dw


class GRUSteps(ElmanSteps):
    """The reset gate acts after the product."""

    kept = 5

    def __init__(
        self, equation: Equation, weights: Mapping[str, Tensor], batch: int | Tensor
    ) -> None:
        super().__init__(equation, weights, batch)
        self.written: list[int] = [3 * self.units, self.units]
        self.z_keeps: bool = equation.update == "keep"

    def step(
        self, do: InOrder, x: Tensor, h: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        u = do(product, h, self.w["U"], self.masks)
        if "b" in self.w:
            u = do(tf.nn.bias_add, u, self.w["b"])
        sizes = [2 * self.units, self.units]
        (x_zr, x_n), (u_zr, u_n) = do.split(x, sizes, 1), do.split(u, sizes, 1)
        zr = do(apply, self.sigma, do.add(x_zr, u_zr))
        z, r = do.split(zr, 2, 1)
        n = do(apply, self.phi, do.add(x_n, do.multiply(r, u_n)))
        h, more = self.mix(do, z, h, n)
        return [h], [z, r, n, u_n, more]

    def mix(
        self, do: InOrder, z: Tensor, h: Tensor, n: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the new state, and its derivative in z."""
        start, end = (n, h) if self.z_keeps else (h, n)
        more = do.subtract(end, start)
        return do.add(start, do.multiply(z, more)), more

    def split_gradient(
        self, do: InOrder, z: Tensor, dh: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Splits the gradient of the state between the old state and the candidate."""
        with_z = do.multiply(z, dh)
        without = do.subtract(dh, with_z)
        return (with_z, without) if self.z_keeps else (without, with_z)

    def step_back(
        self, do: InOrder, kept: list[Tensor], dh: Tensor
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        z, r, n, u_n, more = kept
        past, new = self.split_gradient(do, z, dh)
        d_z = do(gradient_of, self.sigma, z, do.multiply(dh, more))
        d_n = do(gradient_of, self.phi, n, new)
        d_r = do(gradient_of, self.sigma, r, do.multiply(d_n, u_n))
        du = do.concat([d_z, d_r, do.multiply(d_n, r)], 1)
        return [du, d_n], [past]

    def finish(
        self, h_before: Tensor, kept: list[Tensor], last: list[Tensor], dz: list[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        du, d_n = dz
        _, dw = super().finish(h_before, kept, last, [du])
        if "b" in self.w:
            dw["b"] = over_rows(du)
        return tf.concat([du[..., : 2 * self.units], d_n], -1), dw


class GRUResetBeforeSteps(GRUSteps):
    """The reset gate acts on the state, before the product."""

    def __init__(
        self, equation: Equation, weights: Mapping[str, Tensor], batch: int | Tensor
    ) -> None:
        super().__init__(equation, weights, batch)
        self.written: list[int] = [3 * self.units]
        self.masks_zr: list[Tensor] | None = None
        self.mask_n: Tensor | None = None
        if self.masks is not None:
            self.masks_zr, self.mask_n = self.masks[:2], self.masks[2]

    def step(
        self, do: InOrder, x: Tensor, h: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        x_zr, x_n = do.split(x, [2 * self.units, self.units], 1)
        zr = do.add(x_zr, do(product, h, self.w["U_zr"], self.masks_zr))
        z, r = do.split(do(apply, self.sigma, zr), 2, 1)
        rh = do.multiply(r, h)
        n = do.add(x_n, do(product, rh, self.w["U_h"], self.mask_n))
        n = do(apply, self.phi, n)
        h_new, more = self.mix(do, z, h, n)
        return [h_new], [z, r, n, h, more]

    def prepare_backward(self) -> None:
        self.back_zr: Callable[[Tensor], Tensor] = transposed(
            self.w["U_zr"], 2, self.masks_zr
        )
        self.back_n: Callable[[Tensor], Tensor] = transposed(
            self.w["U_h"], 1, self.mask_n
        )

    def step_back(
        self, do: InOrder, kept: list[Tensor], dh: Tensor
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        z, r, n, h, more = kept
        past, new = self.split_gradient(do, z, dh)
        d_z = do(gradient_of, self.sigma, z, do.multiply(dh, more))
        d_n = do(gradient_of, self.phi, n, new)
        d_rh = do(self.back_n, d_n)
        d_r = do(gradient_of, self.sigma, r, do.multiply(d_rh, h))
        past = do.add(past, do.multiply(d_rh, r))
        return [do.concat([d_z, d_r, d_n], 1)], [past]

    def earlier(
        self, do: InOrder, dz: list[Tensor], d_states: list[Tensor | None]
    ) -> list[Tensor]:
        d_zr = do(self.back_zr, dz[0][:, : 2 * self.units])
        return [do.add(d_zr, *d_states)]

    def finish(
        self, h_before: Tensor, kept: list[Tensor], last: list[Tensor], dz: list[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        (dx,) = dz
        cut = 2 * self.units
        rh = kept[1].stack() * h_before
        dU_zr = weight_gradient(h_before, dx[..., :cut], 2, self.masks_zr)
        dU_h = weight_gradient(rh, dx[..., cut:], 1, self.mask_n)
        return dx, {"U": tf.concat([dU_zr, dU_h], -1)}


def of(equation: Equation) -> type[ElmanSteps]:
    """The class that computes an `Equation`."""
    if equation.name == "gru" and not equation.reset_after:
        return GRUResetBeforeSteps
    return {
        "elman": ElmanSteps,
        "gated": GatedSteps,
        "lstm": LSTMSteps,
        "gru": GRUSteps,
    }[equation.name]


def over_rows(a: Tensor) -> Tensor:
    """The sum over all axes but the last, as a product with ones.

    `tf.reduce_sum` takes up to five times as long, and stops at 2048 ones in float16;
    the gradient of `tf.nn.bias_add` twice as long, and stops at 256 in bfloat16.
    """
    rows = tf.reshape(a, (-1, a.shape[-1]))
    return tf.linalg.matvec(rows, tf.ones_like(rows[:, 0]), transpose_a=True)
