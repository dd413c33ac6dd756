"""The recurrences of `equations.py` backward, with derivatives written by hand.

`factors.py` computes all local derivatives at once, before the loop, and explains the
letters. The gradient of the weights is one product over all steps, after the loop.
"""

from keras import ops

from kerasseq.kernels.reference import factors
from kerasseq.kernels.reference.activations import apply, slope
from kerasseq.kernels.reference.equations import in_blocks, prepare, side_by_side
from kerasseq.kernels.reference.precision import matmul
from kerasseq.kernels.scan import scan


def backward(equation, kept, states, weights, mask, d_path, d_last):
    """Run back through time.

    Args:
        equation: An `Equation`.
        kept: The paths of the states and the gates, as `forward` gives them.
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


def transposed(U, gates, masks=None):
    r"""The function dz ↦ dh of `product`: $dz\, U^T$, with the same dropout."""
    if not isinstance(masks, (list, tuple)):
        U_T = ops.transpose(U)
        return lambda dz: matmul(dz, U_T) * (1 if masks is None else masks)
    blocks = [ops.transpose(block) for block in ops.split(U, gates, axis=-1)]

    def back(dz):
        parts = zip(masks, ops.split(dz, gates, axis=-1), blocks, strict=True)
        return sum(m * matmul(d, block) for m, d, block in parts)

    return back


def weight_gradient(h, dz, gates, masks=None):
    r"""$\sum_t h_t^T dz_t$, as one product over all steps."""
    if isinstance(masks, (list, tuple)):
        parts = zip(masks, ops.split(dz, gates, axis=-1), strict=True)
        return ops.concatenate([over_steps(h * m, d) for m, d in parts], -1)
    return over_steps(h if masks is None else h * masks, dz)


def over_steps(a, b):
    r"""$\sum_t a_t^T b_t$, of `(T, B, M)` and `(T, B, N)`."""
    flat_a = ops.reshape(a, (-1, a.shape[-1]))
    flat_b = ops.reshape(b, (-1, b.shape[-1]))
    return matmul(ops.transpose(flat_a), flat_b)


def _through_state(back, A, F, d_path, d_last):
    """The loop of a network whose only state is h; gives dh at all steps."""

    def step(carry, now):
        dh = carry + now["d"]
        earlier = back(side_by_side(now["A"] * dh[:, None]))
        if "F" in now:
            earlier = earlier + now["F"] * dh
        return earlier, dh

    inputs = {"A": A, "d": d_path}
    if F is not None:
        inputs["F"] = F
    return scan(step, d_last, inputs, reverse=True)


def _elman(equation, paths, gates, before, w, m, d_path, d_last):
    A, F = factors.elman(equation, paths[0], m)
    masks = w.get("dropout")
    dh_0, dh = _through_state(transposed(w["U"], 1, masks), A, F, d_path, *d_last)
    dz = side_by_side(A * dh[:, :, None])
    return dz, [dh_0], {"U": weight_gradient(before[0], dz, 1, masks)}


def _gated(equation, paths, gates, before, w, m, d_path, d_last):
    A, F = factors.gated(equation, gates, before[0], m)
    masks = w.get("dropout")
    dh_0, dh = _through_state(transposed(w["U"], 2, masks), A, F, d_path, *d_last)
    dz = side_by_side(A * dh[:, :, None])
    return dz, [dh_0], {"U": weight_gradient(before[0], dz, 2, masks)}


def _lstm(equation, paths, gates, before, w, m, d_path, d_last):
    n, (h_before, c_before) = equation.gates, before
    diagonal = equation.peephole == "diagonal"
    y, o = gates if diagonal else (gates[..., :-1, :], gates[..., -1, :])
    phi_c = apply(equation.phi, paths[1])
    p = w["p"] if diagonal else None
    A_c, A_o, F, K = factors.lstm(equation, y, o, phi_c, c_before, p, m)
    masks = w.get("dropout")
    back = transposed(w["U"], n, masks)
    P_T = ops.transpose(w["P"]) if "P" in w else None

    def step(carry, now):
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


def peephole_gradient(equation, c_before, c, dz):
    """The gradient of p or P, from that of the sums in the gates at all steps."""
    blocks = in_blocks(dz, equation.gates)
    seeing, d_o = blocks[..., :-2, :], blocks[..., -1:, :]
    if equation.peephole == "full":
        seeing = side_by_side(ops.concatenate([seeing, d_o], -2))
        return over_steps(c_before, seeing)
    on_old = ops.sum(c_before[..., None, :] * seeing, (0, 1))
    on_new = ops.sum(c[..., None, :] * d_o, (0, 1))
    return ops.concatenate([on_old, on_new])


def _gru(equation, paths, gates, before, w, m, d_path, d_last):
    if not equation.reset_after:
        return _gru_reset_before(equation, gates, before, w, m, d_path, d_last)
    y, h_hat, u_h = gates
    A, A_n, F = factors.gru_reset_after(equation, y, h_hat, u_h, before[0], m)
    masks = w.get("dropout")
    dh_0, dh = _through_state(transposed(w["U"], 3, masks), A, F, d_path, *d_last)
    du = A * dh[:, :, None]  # (T, B, 3, H), of h U + b'
    d_w = {"U": weight_gradient(before[0], side_by_side(du), 3, masks)}
    if "b" in w:
        d_w["b"] = ops.sum(side_by_side(du), (0, 1))
    dx = ops.concatenate([du[:, :, :2], (A_n * dh)[:, :, None]], 2)
    return side_by_side(dx), [dh_0], d_w


def _gru_reset_before(equation, gates, before, w, m, d_path, d_last):
    (y, h_hat), (h,) = gates, before
    A_z, A_n, F = factors.gru(equation, y, h_hat, h, m)
    r = y[:, :, 1]
    masks = w.get("dropout")
    masks_zr, mask_h = (None, None) if masks is None else (masks[:2], masks[2])
    back_zr = transposed(w["U_zr"], 2, masks_zr)
    back_h = transposed(w["U_h"], 1, mask_h)

    def step(carry, now):
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
