r"""The backward pass of the recurrences of `equations.py`, with derivatives by hand.

The local derivatives do not depend on the gradients of later steps, so the functions
`..._factors` compute them for all steps at once, before the loop. What is left for the
loop is linear in the gradients `dh`, `dc` of the states:

$$
\begin{aligned}
dc &\leftarrow dc + K \odot dh, & dz &= A \odot dh \text{ or } A \odot dc, \\
dh &\leftarrow dz\, U^T + F \odot dh, & dc &\leftarrow F \odot dc
\end{aligned}
$$

with z the pre-activations of the gates. A masked step has A = K = 0 and F = 1. All
arrays are `(..., B, H)`, those of several gates `(..., B, gates, H)`; `m` is the mask
as numbers, `(..., B, 1)`, or None. The gradient of the weights is one product over all
steps, after the loop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from keras import ops

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.operations import matmul
from kerasseq.kernels.reference.equations import (
    Equation,
    apply,
    in_blocks,
    prepare,
    side_by_side,
    slope,
)
from kerasseq.kernels.scan import scan

# Of x, of the list of states, and of the weights by name.
_Gradients: TypeAlias = tuple[Tensor, list[Tensor], dict[str, Tensor]]


def backward(
    equation: Equation,
    kept: tuple[list[Tensor], Nested],
    states: Sequence[Tensor],
    weights: Mapping[str, Tensor],
    mask: Tensor | None,
    d_path: Tensor,
    d_last: Sequence[Tensor],
) -> _Gradients:
    """Computes the gradients, from the last step to the first.

    Args:
        equation: An `Equation`.
        kept: The paths of the states and the gates, as `forward` returns them.
        states: As given to `forward`.
        weights: As given to `forward`.
        mask: As given to `forward`.
        d_path: Gradient of the path of the hidden state, `(T, B, H)`.
        d_last: List of the gradients of the last states.

    Returns:
        Gradients of `x`, of the list `states`, and of `weights` (without dropout).
    """
    paths, gates = kept
    before = [
        ops.concatenate([ops.expand_dims(s, 0), path[:-1]])
        for s, path in zip(states, paths, strict=True)
    ]
    m = None
    if mask is not None:
        m = ops.expand_dims(ops.cast(mask, d_path.dtype), -1)  # (T, B, 1)
    back = _BACKWARD[equation.name]
    w = prepare(equation, weights)
    return back(equation, paths, gates, before, w, m, d_path, list(d_last))


def transposed(
    U: Tensor, gates: int, masks: Tensor | Sequence[Tensor] | None = None
) -> Callable[[Tensor], Tensor]:
    r"""Returns the function dz ↦ dh of `product`: $dz\, U^T$, with the same dropout."""
    if not isinstance(masks, (list, tuple)):
        U_T = ops.transpose(U)
        return lambda dz: matmul(dz, U_T) * (1 if masks is None else masks)
    blocks = [ops.transpose(block) for block in ops.split(U, gates, axis=-1)]

    def back(dz: Tensor) -> Tensor:
        parts = zip(masks, ops.split(dz, gates, axis=-1), blocks, strict=True)
        return sum(m * matmul(d, block) for m, d, block in parts)

    return back


def weight_gradient(
    h: Tensor, dz: Tensor, gates: int, masks: Tensor | Sequence[Tensor] | None = None
) -> Tensor:
    r"""$\sum_t h_t^T dz_t$, as one product over all steps."""
    if isinstance(masks, (list, tuple)):
        parts = zip(masks, ops.split(dz, gates, axis=-1), strict=True)
        return ops.concatenate([over_steps(h * m, d) for m, d in parts], -1)
    return over_steps(h if masks is None else h * masks, dz)


def over_steps(a: Tensor, b: Tensor) -> Tensor:
    r"""$\sum_t a_t^T b_t$, of `(T, B, M)` and `(T, B, N)`."""
    flat_a = ops.reshape(a, (-1, a.shape[-1]))
    flat_b = ops.reshape(b, (-1, b.shape[-1]))
    return matmul(ops.transpose(flat_a), flat_b)


def _through_state(
    back: Callable[[Tensor], Tensor],
    A: Tensor,
    F: Tensor | None,
    d_path: Tensor,
    d_last: Tensor,
) -> tuple[Tensor, Tensor]:
    """Runs the loop of a network whose only state is h; returns dh at all steps."""

    def step(carry: Nested, now: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        dh = carry + now["d"]
        earlier = back(side_by_side(now["A"] * dh[:, None]))
        if "F" in now:
            earlier = earlier + now["F"] * dh
        return earlier, dh

    inputs = {"A": A, "d": d_path}
    if F is not None:
        inputs["F"] = F
    return scan(step, d_last, inputs, reverse=True)


def _elman(
    equation: Equation,
    paths: list[Tensor],
    gates: Nested,
    before: list[Tensor],
    w: dict[str, Tensor],
    m: Tensor | None,
    d_path: Tensor,
    d_last: Sequence[Tensor],
) -> _Gradients:
    A, F = elman_factors(equation, paths[0], m)
    masks = w.get("dropout")
    dh_0, dh = _through_state(transposed(w["U"], 1, masks), A, F, d_path, *d_last)
    dz = side_by_side(A * dh[:, :, None])
    return dz, [dh_0], {"U": weight_gradient(before[0], dz, 1, masks)}


def _gated(
    equation: Equation,
    paths: list[Tensor],
    gates: Nested,
    before: list[Tensor],
    w: dict[str, Tensor],
    m: Tensor | None,
    d_path: Tensor,
    d_last: Sequence[Tensor],
) -> _Gradients:
    A, F = gated_factors(equation, gates, before[0], m)
    masks = w.get("dropout")
    dh_0, dh = _through_state(transposed(w["U"], 2, masks), A, F, d_path, *d_last)
    dz = side_by_side(A * dh[:, :, None])
    return dz, [dh_0], {"U": weight_gradient(before[0], dz, 2, masks)}


def _lstm(
    equation: Equation,
    paths: list[Tensor],
    gates: Nested,
    before: list[Tensor],
    w: dict[str, Tensor],
    m: Tensor | None,
    d_path: Tensor,
    d_last: Sequence[Tensor],
) -> _Gradients:
    n, (h_before, c_before) = equation.gates, before
    diagonal = equation.peephole == "diagonal"
    y, o = gates if diagonal else (gates[..., :-1, :], gates[..., -1, :])
    phi_c = apply(equation.phi, paths[1])
    p = w["p"] if diagonal else None
    A_c, A_o, F, K = lstm_factors(equation, y, o, phi_c, c_before, p, m)
    masks = w.get("dropout")
    back = transposed(w["U"], n, masks)
    P_T = ops.transpose(w["P"]) if "P" in w else None

    def step(carry: Nested, now: dict[str, Tensor]) -> tuple[list[Tensor], Tensor]:
        dh, dc = carry
        dh = dh + now["d"]
        dc = dc + now["K"] * dh
        blocks = [now["A_c"] * dc[:, None], (now["A_o"] * dh)[:, None]]
        dz = side_by_side(ops.concatenate(blocks, 1))
        earlier = [back(dz), now["F"] * dc]
        if P_T is not None:
            earlier[1] = earlier[1] + matmul(dz, P_T)
        if "held" in now:
            earlier[0] = earlier[0] + now["held"] * dh
        return earlier, dz

    inputs = {"A_c": A_c, "A_o": A_o, "F": F, "K": K, "d": d_path}
    if m is not None:
        inputs["held"] = 1 - m
    d_first, dz = scan(step, d_last, inputs, reverse=True)
    d_w = {"U": weight_gradient(h_before, dz, n, masks)}
    if equation.peephole:
        d_w["p"] = peephole_gradient(equation, c_before, paths[1], dz)
    return dz, d_first, d_w


def peephole_gradient(
    equation: Equation, c_before: Tensor, c: Tensor, dz: Tensor
) -> Tensor:
    """Computes the gradient of p or P, from the pre-activations' at all steps."""
    blocks = in_blocks(dz, equation.gates)
    d_if, d_o = blocks[..., :-2, :], blocks[..., -1:, :]
    if equation.peephole == "full":
        return over_steps(c_before, side_by_side(ops.concatenate([d_if, d_o], -2)))
    on_old = ops.sum(c_before[..., None, :] * d_if, (0, 1))
    on_new = ops.sum(c[..., None, :] * d_o, (0, 1))
    return ops.concatenate([on_old, on_new])


def _gru(
    equation: Equation,
    paths: list[Tensor],
    gates: Nested,
    before: list[Tensor],
    w: dict[str, Tensor],
    m: Tensor | None,
    d_path: Tensor,
    d_last: Sequence[Tensor],
) -> _Gradients:
    if not equation.reset_after:
        return _gru_reset_before(equation, gates, before, w, m, d_path, d_last)
    y, h_hat, u_h = gates
    A, A_n, F = gru_reset_after_factors(equation, y, h_hat, u_h, before[0], m)
    masks = w.get("dropout")
    dh_0, dh = _through_state(transposed(w["U"], 3, masks), A, F, d_path, *d_last)
    du = A * dh[:, :, None]  # (T, B, 3, H), of h U + b'
    d_w = {"U": weight_gradient(before[0], side_by_side(du), 3, masks)}
    if "b" in w:
        d_w["b"] = ops.sum(side_by_side(du), (0, 1))
    dx = ops.concatenate([du[:, :, :2], (A_n * dh)[:, :, None]], 2)
    return side_by_side(dx), [dh_0], d_w


def _gru_reset_before(
    equation: Equation,
    gates: Nested,
    before: list[Tensor],
    w: dict[str, Tensor],
    m: Tensor | None,
    d_path: Tensor,
    d_last: Sequence[Tensor],
) -> _Gradients:
    (y, h_hat), (h,) = gates, before
    A_z, A_n, F = gru_factors(equation, y, h_hat, h, m)
    r = y[:, :, 1]
    masks = w.get("dropout")
    masks_zr, mask_h = (None, None) if masks is None else (masks[:2], masks[2])
    back_zr = transposed(w["U_zr"], 2, masks_zr)
    back_h = transposed(w["U_h"], 1, mask_h)

    def step(carry: Nested, now: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        dh = carry + now["d"]
        dn = now["A_n"] * dh
        dq = back_h(dn)  # of r * h
        d_zr = ops.concatenate([now["A_z"] * dh, now["A_r"] * dq], -1)
        earlier = now["F"] * dh + now["r"] * dq + back_zr(d_zr)
        return earlier, ops.concatenate([d_zr, dn], -1)

    inputs = {"A_n": A_n, "A_z": A_z, "A_r": h * slope(equation.sigma, r)}
    inputs |= {"F": F, "r": r, "d": d_path}
    dh_0, dx = scan(step, *d_last, inputs, reverse=True)
    cut = 2 * h.shape[-1]
    d_zr = weight_gradient(h, dx[..., :cut], 2, masks_zr)
    d_h = weight_gradient(r * h, dx[..., cut:], 1, mask_h)
    return dx, [dh_0], {"U": ops.concatenate([d_zr, d_h], -1)}


_BACKWARD = {"elman": _elman, "gated": _gated, "lstm": _lstm, "gru": _gru}


def elman_factors(
    equation: Equation, h: Tensor, m: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    r"""A and F of $h = \phi(z)$."""
    A = _unless_masked(slope(equation.phi, h), m)
    return ops.expand_dims(A, -2), None if m is None else 1 - m


def gated_factors(
    equation: Equation, y: Tensor, h_before: Tensor, m: Tensor | None
) -> tuple[Tensor, Tensor]:
    """A and F, from y, the values of gate and candidate."""
    z, h_bar = y[..., 0, :], y[..., 1, :]
    A_z = (h_before - h_bar) * slope(equation.sigma, z)
    A_h = (1 - z) * slope(equation.phi, h_bar)
    return _stack(m, A_z, A_h), _or_carried(z, m)


def gru_factors(
    equation: Equation, y: Tensor, h_hat: Tensor, h_before: Tensor, m: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """A of update gate and candidate, and F, from y, the values of the gates."""
    z = y[..., 0, :]
    A_z = (h_before - h_hat) * slope(equation.sigma, z)
    keep = z
    if equation.update == "replace":
        A_z, keep = -A_z, 1 - z
    A_n = (1 - keep) * slope(equation.phi, h_hat)
    return _unless_masked(A_z, m), _unless_masked(A_n, m), _or_carried(keep, m)


def gru_reset_after_factors(
    equation: Equation,
    y: Tensor,
    h_hat: Tensor,
    u_h: Tensor,
    h_before: Tensor,
    m: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A of all gates, A of the candidate before the reset gate, and F."""
    A_z, A_n, F = gru_factors(equation, y, h_hat, h_before, m)
    r = y[..., 1, :]
    A_r = A_n * u_h * slope(equation.sigma, r)
    return _stack(None, A_z, A_r, A_n * r), A_n, F


def lstm_factors(
    equation: Equation,
    y: Tensor,
    o: Tensor,
    phi_c: Tensor,
    c_before: Tensor,
    p: Tensor | None,
    m: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""A of the gates that act on c, A of the output gate, F and K.

    Args:
        equation: An `Equation`.
        y: Values of the gates that act on c, the candidate last.
        o: Values of the output gate.
        phi_c: $\phi(c_t)$.
        c_before: $c_{t-1}$.
        p: Diagonal peepholes, `(gates - 1, H)`, or None.
        m: The mask.
    """
    f, g = y[..., -2, :], y[..., -1, :]
    A_o = phi_c * slope(equation.sigma, o)
    K = o * slope(equation.phi, phi_c)
    if equation.coupled:
        A_c = [(c_before - g) * slope(equation.sigma, f)]
    else:
        i = y[..., 0, :]
        A_c = [g * slope(equation.sigma, i), c_before * slope(equation.sigma, f)]
    F = f
    if p is not None:
        K = K + p[-1] * A_o
        for k, A_k in enumerate(A_c):
            F = F + p[k] * A_k
    A_g = (1 - f if equation.coupled else i) * slope(equation.phi, g)
    A_c = _stack(m, *A_c, A_g)
    return A_c, _unless_masked(A_o, m), _or_carried(F, m), _unless_masked(K, m)


def _unless_masked(A: Tensor, m: Tensor | None) -> Tensor:
    return A if m is None else A * m


def _or_carried(F: Tensor, m: Tensor | None) -> Tensor:
    return F if m is None else m * F + (1 - m)


def _stack(m: Tensor | None, *blocks: Tensor) -> Tensor:
    return ops.stack([_unless_masked(A, m) for A in blocks], -2)
