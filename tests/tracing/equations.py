"""The slides' equations in NumPy, in float64, letter by letter: no code of ours.

`change(name, value)` returns what a gate or state is replaced by.
"""

import functools

import numpy as np


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def keep(name, value):
    return value


def elman(x_t, h, W, U, b, change=keep):
    h = change("hidden_state", np.maximum(x_t @ W + h @ U + b, 0))
    return h, {"hidden_state": h}


def gated(x_t, h, W, U, b, change=keep):
    z, h_bar = np.split(x_t @ W + h @ U + b, 2, axis=-1)
    z, h_bar = sigmoid(z), np.maximum(h_bar, 0)
    z, h_bar = change("forget_gate", z), change("candidate", h_bar)
    h = change("hidden_state", z * h + (1 - z) * h_bar)
    return h, {"forget_gate": z, "candidate": h_bar, "hidden_state": h}


def gru(x_t, h, W, U, b, change=keep):
    x_z, x_r, x_h = np.split(x_t @ W + b[0], 3, axis=-1)
    u_z, u_r, u_h = np.split(h @ U + b[1], 3, axis=-1)
    z, r = sigmoid(x_z + u_z), sigmoid(x_r + u_r)
    z, r = change("update_gate", z), change("reset_gate", r)
    h_hat = change("candidate", np.tanh(x_h + r * u_h))
    h = change("hidden_state", z * h + (1 - z) * h_hat)
    return h, {
        "update_gate": z,
        "reset_gate": r,
        "candidate": h_hat,
        "hidden_state": h,
    }


def gru_reset_before(x_t, h, W, U, b, change=keep):
    x_z, x_r, x_h = np.split(x_t @ W + b, 3, axis=-1)
    U_z, U_r, U_h = np.split(U, 3, axis=-1)
    z, r = sigmoid(x_z + h @ U_z), sigmoid(x_r + h @ U_r)
    z, r = change("update_gate", z), change("reset_gate", r)
    h_hat = change("candidate", np.tanh(x_h + (r * h) @ U_h))
    h = change("hidden_state", (1 - z) * h + z * h_hat)  # z says how much is replaced
    return h, {
        "update_gate": z,
        "reset_gate": r,
        "candidate": h_hat,
        "hidden_state": h,
    }


def lstm(x_t, states, W, U, b, p=None, kind=None, nudge=0, change=keep):
    h, c = states
    i, f, g, o = np.split(x_t @ W + h @ U + b, 4, axis=-1)
    if kind == "diagonal":
        i, f = i + p[0] * c, f + p[1] * c
    if kind == "full":
        p_i, p_f, p_o = np.split(p, 3, axis=-1)
        i, f, o = i + c @ p_i, f + c @ p_f, o + c @ p_o
    i, f, g = sigmoid(i), change("forget_gate", sigmoid(f)), np.tanh(g)
    p_o = p[2] if kind == "diagonal" else 0
    return _remember(i, f, g, o, c, p_o, change, nudge)


def coupled_lstm(x_t, states, W, U, b, change=keep):
    h, c = states
    f, g, o = np.split(x_t @ W + h @ U + b, 3, axis=-1)
    f, g = change("forget_gate", sigmoid(f)), np.tanh(g)
    return _remember(1 - f, f, g, o, c, 0, change)


def _remember(i, f, g, o, c, p_o, change, nudge=0):
    i, g = change("input_gate", i), change("candidate", g)
    c = change("cell_state", f * c + i * g + nudge)
    o = change("output_gate", sigmoid(o + p_o * c))
    h = change("hidden_state", o * np.tanh(c))
    return (h, c), {
        "forget_gate": f,
        "input_gate": i,
        "candidate": g,
        "output_gate": o,
        "cell_state": c,
        "hidden_state": h,
    }


def over_time(
    step, x, units, weights, mask=None, backwards=False, change=None, **options
):
    """What a trace must hold: each value `(batch, time, units)`, in order of the input.

    At masked steps the states are held, and all else is zero. `change(name, value, t)`
    replaces a value.
    """
    x, weights = np.asarray(x, "float64"), [np.asarray(w, "float64") for w in weights]
    zero = np.zeros((len(x), units))
    states = (zero, zero) if "lstm" in step.__name__ else zero
    steps = range(x.shape[1])
    found = {}
    for t in reversed(steps) if backwards else steps:
        if change is not None:
            options["change"] = functools.partial(_at_step, change, t)
        new, values = step(x[:, t], states, *weights, **options)
        real = np.ones((len(x), 1), bool) if mask is None else mask[:, t, None]
        old = states
        if isinstance(new, tuple):
            states = tuple(np.where(real, n, s) for n, s in zip(new, old, strict=True))
            kept = dict(zip(("hidden_state", "cell_state"), states, strict=True))
        else:
            states = np.where(real, new, old)
            kept = {"hidden_state": states}
        for name, value in values.items():
            shown = kept.get(name, np.where(real, value, 0))
            found.setdefault(name, np.zeros((*x.shape[:2], units)))[:, t] = shown
    return found


def _at_step(change, t, name, value):
    return change(name, value, t)
