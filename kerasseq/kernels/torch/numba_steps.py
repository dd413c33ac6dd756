r"""The part of a recurrent step that follows its matrix product, compiled by numba.

Each function computes one time step for a whole batch: forward it adds the product
$h U$ to the projected inputs and applies the gates; backward it turns the gradients of
the states into those of the pre-activations. `numba_loops.py` calls them step by step
and computes the products in between.

Arrays are contiguous and float32. Letters: T time, B batch, H units, G gates. `x` are
the projected inputs $(T, B, G, H)$, `u` the product $(B, G, H)$, `y` the values of the
gates at all steps $(T, B, \cdot, H)$, `real` the mask $(T, B)$, or $(0, 0)$ without
one. Paths of states such as `h` are $(T + 1, B, H)$ and begin with the first state.

How the code is written decides whether LLVM vectorizes it: short loops over one row of
one gate, constants of type float32, `error_model="numpy"` (else each division checks
for zero). `fastmath=True` is not used: it assumes that there is no NaN, and tanh(NaN)
becomes -1. numba's cache does not notice a change in another file, so the kernels and
the functions that they call share this one.
"""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

OPTIONS = {
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "arcp", "nsz", "afn"},
    "nogil": True,
}
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
# Gradients below this are set to 0 before they become denormal numbers, with which a
# CPU computes several times as slowly. TensorFlow and XLA set denormals to 0 as well.
VANISHED = np.float32(1e-32)
# tanh(x) = x P(x^2) / Q(x^2), as in Eigen and XLA; beyond +-LIMIT it is +-1.
LIMIT = np.float32(7.90531110763549805)
P_1, P_3, P_5, P_7, P_9, P_11, P_13 = map(
    np.float32,
    (
        4.89352455891786e-03,
        6.37261928875436e-04,
        1.48572235717979e-05,
        5.12229709037114e-08,
        -8.60467152213735e-11,
        2.00018790482477e-13,
        -2.76076847742355e-16,
    ),
)
Q_0, Q_2, Q_4, Q_6 = map(
    np.float32,
    (
        4.89352518554385e-03,
        2.26843463243900e-03,
        1.18534705686654e-04,
        1.19825839466702e-06,
    ),
)


@numba.njit(**OPTIONS)
def tanh(x):
    """The rational function; its error is below 3e-7. NaN stays NaN."""
    x = LIMIT if x > LIMIT else x
    x = -LIMIT if x < -LIMIT else x
    s = x * x
    p = P_1 + s * (P_3 + s * (P_5 + s * (P_7 + s * (P_9 + s * (P_11 + s * P_13)))))
    return x * p / (Q_0 + s * (Q_2 + s * (Q_4 + s * Q_6)))


@numba.njit(**OPTIONS)
def sigmoid(x):
    """Computes 1 / (1 + exp(-x)) from tanh."""
    return HALF * tanh(HALF * x) + HALF


@numba.njit(**OPTIONS)
def gate(x, u, y):
    """Computes y = sigmoid(x + u)."""
    for j in range(y.shape[0]):
        y[j] = sigmoid(x[j] + u[j])


@numba.njit(**OPTIONS)
def peephole_gate(x, u, p, c, y):
    """Computes y = sigmoid(x + u + p c)."""
    for j in range(y.shape[0]):
        y[j] = sigmoid(x[j] + u[j] + p[j] * c[j])


@numba.njit(**OPTIONS)
def candidate(x, u, relu, y):
    """Computes y = tanh(x + u), or relu(x + u)."""
    if relu:
        for j in range(y.shape[0]):
            z = x[j] + u[j]
            y[j] = ZERO if z < ZERO else z
    else:
        for j in range(y.shape[0]):
            y[j] = tanh(x[j] + u[j])


@numba.njit(**OPTIONS)
def multiply_by_slope(y, relu, d):
    """Multiplies d by the derivative of the candidate's activation, from its output."""
    if relu:
        for j in range(y.shape[0]):
            d[j] = d[j] if y[j] > ZERO else ZERO
    else:
        for j in range(y.shape[0]):
            d[j] = d[j] * (ONE - y[j] * y[j])


@numba.njit(**OPTIONS)
def gate_backward(d, factor, y, dz):
    """Computes dz = d factor y (1 - y), for a sigmoid gate y that scales `factor`."""
    for j in range(y.shape[0]):
        dz[j] = d[j] * factor[j] * y[j] * (ONE - y[j])


@numba.njit(**OPTIONS)
def candidate_backward(d, factor, y, dz):
    """Computes dz = d factor (1 - y^2), for a candidate y."""
    for j in range(y.shape[0]):
        dz[j] = d[j] * factor[j] * (ONE - y[j] * y[j])


@numba.njit(**OPTIONS)
def coupled_gate_backward(d, old, f, g, d_f, d_g):
    """Computes dz of f and of g, where c' = f c + (1 - f) g."""
    for j in range(f.shape[0]):
        d_f[j] = d[j] * (old[j] - g[j]) * f[j] * (ONE - f[j])
    for j in range(f.shape[0]):
        d_g[j] = d[j] * (ONE - f[j]) * (ONE - g[j] * g[j])


@numba.njit(**OPTIONS)
def output_backward(d, o, s, p_o, d_o, d_c):
    """Adds to the gradient of c' what comes from h' = o s, with s = tanh(c')."""
    for j in range(d.shape[0]):
        e = d_c[j] + d[j] * o[j] * (ONE - s[j] * s[j]) + p_o[j] * d_o[j]
        d_c[j] = ZERO if abs(e) < VANISHED else e


@numba.njit(**OPTIONS)
def mix(keep, old, new, out):
    """Computes out = keep old + (1 - keep) new."""
    for j in range(out.shape[0]):
        out[j] = new[j] + keep[j] * (old[j] - new[j])


@numba.njit(**OPTIONS)
def add_product(a, b, total):
    """Adds a b to the total."""
    for j in range(total.shape[0]):
        total[j] = total[j] + a[j] * b[j]


@numba.njit(**OPTIONS)
def is_masked(real, t, b):
    """Whether step t of sequence b is masked."""
    return real.shape[0] > 0 and not real[t, b]


@numba.njit(**OPTIONS)
def copy(source, target):
    """Copies a row."""
    for j in range(target.shape[0]):
        target[j] = source[j]


@numba.njit(**OPTIONS)
def collect(t, b, d_path, past, dh):
    """Adds to dh what reaches the state other than through the product."""
    for j in range(dh.shape[1]):
        dh[b, j] = dh[b, j] + past[b, j]
    if d_path.shape[0] > 0:
        for j in range(dh.shape[1]):
            dh[b, j] = dh[b, j] + d_path[t, b, j]
    for j in range(dh.shape[1]):
        dh[b, j] = ZERO if abs(dh[b, j]) < VANISHED else dh[b, j]


def elman_forward(t, relu, x, u, real, h):
    """Computes h' = phi(x + u)."""
    for b in range(u.shape[0]):
        if is_masked(real, t, b):
            copy(h[t, b], h[t + 1, b])
        else:
            candidate(x[t, b, 0], u[b, 0], relu, h[t + 1, b])


def elman_backward(t, relu, real, h, d_path, past, dh, dz):
    """Computes dz = dh phi'."""
    for b in range(dh.shape[0]):
        collect(t, b, d_path, past, dh)
        if is_masked(real, t, b):
            dz[t, b] = ZERO
            copy(dh[b], past[b])
        else:
            copy(dh[b], dz[t, b, 0])
            multiply_by_slope(h[t + 1, b], relu, dz[t, b, 0])
            past[b] = ZERO


def gated_forward(t, slot, relu, x, u, real, h, y):
    """Computes h' = z h + (1 - z) h_bar; y holds z, h_bar."""
    for b in range(u.shape[0]):
        if is_masked(real, t, b):
            copy(h[t, b], h[t + 1, b])
            continue
        z, h_bar = y[slot, b, 0], y[slot, b, 1]
        gate(x[t, b, 0], u[b, 0], z)
        candidate(x[t, b, 1], u[b, 1], relu, h_bar)
        mix(z, h[t, b], h_bar, h[t + 1, b])


def gated_backward(t, relu, real, h, y, d_path, past, dh, dz):
    """Computes dz of z and of h_bar."""
    for b in range(dh.shape[0]):
        collect(t, b, d_path, past, dh)
        if is_masked(real, t, b):
            dz[t, b] = ZERO
            copy(dh[b], past[b])
            continue
        d, old, z, h_bar = dh[b], h[t, b], y[t, b, 0], y[t, b, 1]
        d_z, d_h, later = dz[t, b, 0], dz[t, b, 1], past[b]
        for j in range(d.shape[0]):
            d_z[j] = d[j] * (old[j] - h_bar[j]) * z[j] * (ONE - z[j])
        for j in range(d.shape[0]):
            d_h[j] = d[j] * (ONE - z[j])
        multiply_by_slope(h_bar, relu, d_h)
        for j in range(d.shape[0]):
            later[j] = d[j] * z[j]


def lstm_forward(t, slot, x, u, p, real, h, c, y, tanh_c):
    """Computes h' and c'; y holds i, f, g, o, without i if the gates are coupled."""
    G = u.shape[1]
    for b in range(u.shape[0]):
        old, new = c[t, b], c[t + 1, b]
        if is_masked(real, t, b):
            copy(h[t, b], h[t + 1, b])
            copy(old, new)
            continue
        i, f = y[slot, b, 0], y[slot, b, G - 3]
        g, o = y[slot, b, G - 2], y[slot, b, G - 1]
        peephole_gate(x[t, b, G - 3], u[b, G - 3], p[1], old, f)
        candidate(x[t, b, G - 2], u[b, G - 2], False, g)
        if G == 4:
            peephole_gate(x[t, b, 0], u[b, 0], p[0], old, i)
            for j in range(new.shape[0]):
                new[j] = f[j] * old[j] + i[j] * g[j]
        else:
            mix(f, old, g, new)
        peephole_gate(x[t, b, G - 1], u[b, G - 1], p[2], new, o)
        s, h_new = tanh_c[slot, b], h[t + 1, b]
        for j in range(new.shape[0]):
            s[j] = tanh(new[j])
        for j in range(new.shape[0]):
            h_new[j] = o[j] * s[j]


def lstm_backward(t, p, real, c, y, tanh_c, d_path, past, dh, dc, dz, dp):
    """Computes dz of all gates and dc before the step, and adds to dp."""
    G = y.shape[2]
    dp_t = np.zeros_like(dp)  # summed for each step first, which rounds less
    for b in range(dh.shape[0]):
        collect(t, b, d_path, past, dh)
        if is_masked(real, t, b):
            dz[t, b] = ZERO
            copy(dh[b], past[b])
            continue
        past[b] = ZERO
        d, d_c, s, old = dh[b], dc[b], tanh_c[t, b], c[t, b]
        i, f, g, o = y[t, b, 0], y[t, b, G - 3], y[t, b, G - 2], y[t, b, G - 1]
        d_i, d_f, d_g = dz[t, b, 0], dz[t, b, G - 3], dz[t, b, G - 2]
        d_o = dz[t, b, G - 1]
        gate_backward(d, s, o, d_o)
        output_backward(d, o, s, p[2], d_o, d_c)
        if G == 4:
            gate_backward(d_c, g, i, d_i)
            gate_backward(d_c, old, f, d_f)
            candidate_backward(d_c, i, g, d_g)
        else:
            coupled_gate_backward(d_c, old, f, g, d_f, d_g)
        for j in range(d.shape[0]):
            d_c[j] = d_c[j] * f[j]
        add_product(p[1], d_f, d_c)
        if G == 4:
            add_product(p[0], d_i, d_c)
            add_product(d_i, old, dp_t[0])
        add_product(d_f, old, dp_t[1])
        add_product(d_o, c[t + 1, b], dp_t[2])
    dp += dp_t


def gru_forward(t, slot, keeps, relu, x, u, real, h, y):
    """The GRU that resets after the product; y holds z, r, h_hat and u of h_hat."""
    for b in range(u.shape[0]):
        if is_masked(real, t, b):
            copy(h[t, b], h[t + 1, b])
            continue
        z, r = y[slot, b, 0], y[slot, b, 1]
        h_hat, u_h = y[slot, b, 2], y[slot, b, 3]
        gate(x[t, b, 0], u[b, 0], z)
        gate(x[t, b, 1], u[b, 1], r)
        copy(u[b, 2], u_h)
        for j in range(r.shape[0]):
            h_hat[j] = r[j] * u_h[j]
        candidate(x[t, b, 2], h_hat, relu, h_hat)
        if keeps:
            mix(z, h[t, b], h_hat, h[t + 1, b])
        else:
            mix(z, h_hat, h[t, b], h[t + 1, b])


def gru_backward(t, keeps, relu, real, h, y, d_path, past, dh, dx, du):
    """Computes the gradients of x and of u, which differ in the candidate's."""
    for b in range(dh.shape[0]):
        collect(t, b, d_path, past, dh)
        if is_masked(real, t, b):
            dx[t, b] = ZERO
            du[t, b] = ZERO
            copy(dh[b], past[b])
            continue
        z, r, h_hat, u_h = y[t, b, 0], y[t, b, 1], y[t, b, 2], y[t, b, 3]
        d_z, d_r, d_n = dx[t, b, 0], dx[t, b, 1], dx[t, b, 2]
        update_gate_backward(keeps, dh[b], z, h[t, b], h_hat, d_z, d_n, past[b])
        multiply_by_slope(h_hat, relu, d_n)
        gate_backward(d_n, u_h, r, d_r)
        copy(d_z, du[t, b, 0])
        copy(d_r, du[t, b, 1])
        d_u = du[t, b, 2]
        for j in range(d_u.shape[0]):
            d_u[j] = d_n[j] * r[j]


@numba.njit(**OPTIONS)
def update_gate_backward(keeps, d, z, old, h_hat, d_z, d_n, past):
    """Shares the gradient of h' among the update gate, h_hat and h."""
    for j in range(d.shape[0]):
        d_z[j] = d[j] * (old[j] - h_hat[j]) * z[j] * (ONE - z[j])
    for j in range(d.shape[0]):
        past[j] = d[j] * z[j]
    for j in range(d.shape[0]):
        d_n[j] = d[j] - past[j]
    if not keeps:
        for j in range(d.shape[0]):
            d_z[j] = -d_z[j]
            past[j], d_n[j] = d_n[j], past[j]


def reset_before_gates(t, slot, x, u, h, y, rh):
    """The gates of the GRU that resets before the product; rh is r h."""
    for b in range(u.shape[0]):
        z, r, old, out = y[slot, b, 0], y[slot, b, 1], h[t, b], rh[b]
        gate(x[t, b, 0], u[b, 0], z)
        gate(x[t, b, 1], u[b, 1], r)
        for j in range(r.shape[0]):
            out[j] = r[j] * old[j]


def reset_before_update(t, slot, keeps, relu, x, u_h, real, h, y):
    """Its new state, from u_h, the product of r h; y holds z, r, h_hat."""
    for b in range(u_h.shape[0]):
        if is_masked(real, t, b):
            copy(h[t, b], h[t + 1, b])
            continue
        h_hat = y[slot, b, 2]
        candidate(x[t, b, 2], u_h[b], relu, h_hat)
        if keeps:
            mix(y[slot, b, 0], h[t, b], h_hat, h[t + 1, b])
        else:
            mix(y[slot, b, 0], h_hat, h[t, b], h[t + 1, b])


def reset_before_update_backward(t, keeps, relu, real, h, y, d_path, past, dh, dz, d_n):
    """Computes dz of the update gate and of the candidate; d_n repeats the latter."""
    for b in range(dh.shape[0]):
        collect(t, b, d_path, past, dh)
        if is_masked(real, t, b):
            dz[t, b] = ZERO
            d_n[b] = ZERO
            copy(dh[b], past[b])
            continue
        z, h_hat = y[t, b, 0], y[t, b, 2]
        d_z, d_h = dz[t, b, 0], dz[t, b, 2]
        update_gate_backward(keeps, dh[b], z, h[t, b], h_hat, d_z, d_h, past[b])
        multiply_by_slope(h_hat, relu, d_h)
        copy(d_h, d_n[b])


def reset_before_gates_backward(t, real, h, y, d_rh, past, dz, d_zr):
    """Computes dz of the reset gate from d_rh; d_zr repeats that of both gates."""
    for b in range(d_rh.shape[0]):
        if is_masked(real, t, b):
            d_zr[b] = ZERO
            continue
        d, old, r, later = d_rh[b], h[t, b], y[t, b, 1], past[b]
        d_r = dz[t, b, 1]
        gate_backward(d, old, r, d_r)
        add_product(d, r, later)
        copy(dz[t, b, 0], d_zr[b, 0])
        copy(d_r, d_zr[b, 1])


N, L = numba.int64, numba.boolean
F2, F3, F4 = (numba.types.Array(numba.float32, n, "C") for n in (2, 3, 4))
M = numba.types.Array(numba.boolean, 2, "C")
SIGNATURES: dict[Callable[..., None], tuple[Any, ...]] = {
    elman_forward: (N, L, F4, F3, M, F3),
    elman_backward: (N, L, M, F3, F3, F2, F2, F4),
    gated_forward: (N, N, L, F4, F3, M, F3, F4),
    gated_backward: (N, L, M, F3, F4, F3, F2, F2, F4),
    lstm_forward: (N, N, F4, F3, F2, M, F3, F3, F4, F3),
    lstm_backward: (N, F2, M, F3, F4, F3, F3, F2, F2, F2, F4, F2),
    gru_forward: (N, N, L, L, F4, F3, M, F3, F4),
    gru_backward: (N, L, L, M, F3, F4, F3, F2, F2, F4, F4),
    reset_before_gates: (N, N, F4, F3, F3, F4, F2),
    reset_before_update: (N, N, L, L, F4, F2, M, F3, F4),
    reset_before_update_backward: (N, L, L, M, F3, F4, F3, F2, F2, F4, F2),
    reset_before_gates_backward: (N, M, F3, F4, F2, F2, F4, F3),
}


@functools.cache
def compile_functions(
    *functions: Callable[..., None],
    signatures: tuple[tuple[Any, ...], ...] | None = None,
) -> tuple[Callable[..., None], ...]:
    """Compiles functions for this CPU, or loads them from numba's cache.

    Each dtype and layout of the arguments is compiled in advance: other arrays raise an
    error instead of being compiled anew.

    Args:
        *functions: Functions without a result.
        signatures: The types of their arguments; not needed for those of this file.

    Returns:
        The compiled functions, in the same order.
    """
    start = time.perf_counter()
    types = signatures or tuple(SIGNATURES[function] for function in functions)
    found, kept = zip(*map(_compiled, functions, types), strict=True)
    if not all(kept):
        names = ", ".join(function.__name__ for function in functions)
        print(
            f"kerasseq compiled {names} in {time.perf_counter() - start:.1f} s",
            file=sys.stderr,
        )
    return found


def _compiled(
    function: Callable[..., None], types: tuple[Any, ...]
) -> tuple[Callable[..., None], bool]:
    """The compiled function, and whether it came from the cache."""
    signature = numba.void(*types)
    try:
        made = numba.njit(signature, cache=True, **OPTIONS)(function)
    except Exception:  # no folder can be written to, or a file of the cache is damaged
        made = numba.njit(signature, **OPTIONS)(function)
    return made, bool(getattr(made.stats, "cache_hits", False))
