"""The equations of all cells, and the loop around them, in NumPy and nothing else."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def elman(weights, x, states):
    kernel, recurrent, bias = weights
    (h,) = states
    h = relu(x @ kernel + h @ recurrent + bias)
    return h, [h]


def gated(weights, x, states):
    (h,) = states
    kernel, recurrent, bias = (np.split(w, 2, axis=-1) for w in weights)
    z, h_bar = (x @ kernel[n] + h @ recurrent[n] + bias[n] for n in range(2))
    h = sigmoid(z) * h + (1 - sigmoid(z)) * relu(h_bar)
    return h, [h]


def lstm(peephole=None, coupled=False):
    """The step of an LSTM, gate by gate: each has matrices of its own."""
    names = "fgo" if coupled else "ifgo"

    def step(weights, x, states):
        h, c = states
        gates = dict.fromkeys("ifgo", 0)
        for n, gate in enumerate(names):
            w, u, b = (np.split(v, len(names), axis=-1)[n] for v in weights[:3])
            gates[gate] = x @ w + h @ u + b
        seeing = names.replace("g", "")
        if peephole == "diagonal":
            p = dict(zip(seeing, weights[3], strict=True))
            see = {gate: lambda c, gate=gate: c * p[gate] for gate in seeing}
        elif peephole == "full":
            blocks = np.split(weights[3], len(seeing), axis=-1)
            p = dict(zip(seeing, blocks, strict=True))
            see = {gate: lambda c, gate=gate: c @ p[gate] for gate in seeing}
        else:
            see = dict.fromkeys(seeing, np.zeros_like)
        f = sigmoid(gates["f"] + see["f"](c))
        i = 1 - f if coupled else sigmoid(gates["i"] + see["i"](c))
        new_c = f * c + i * np.tanh(gates["g"])
        # The two kinds of peepholes differ here: the diagonal one sees the new memory.
        o = sigmoid(gates["o"] + see["o"](new_c if peephole == "diagonal" else c))
        h = o * np.tanh(new_c)
        return h, [h, new_c]

    return step


def gru(reset_after=True, update="keep"):
    def step(weights, x, states):
        (h,) = states
        w_z, w_r, w_h = np.split(weights[0], 3, axis=-1)
        u_z, u_r, u_h = np.split(weights[1], 3, axis=-1)
        rows = weights[2] if reset_after else [weights[2], np.zeros_like(weights[2])]
        b_z, b_r, b_h = np.split(rows[0], 3)
        c_z, c_r, c_h = np.split(rows[1], 3)
        z = sigmoid(x @ w_z + b_z + h @ u_z + c_z)
        r = sigmoid(x @ w_r + b_r + h @ u_r + c_r)
        inner = r * (h @ u_h + c_h) if reset_after else (r * h) @ u_h
        h_hat = np.tanh(x @ w_h + b_h + inner)
        kept = z if update == "keep" else 1 - z
        h = kept * h + (1 - kept) * h_hat
        return h, [h]

    return step


def g(x):
    return np.where(x >= 0, x + 0.5, sigmoid(x))


def min_gru(weights, x, states):
    (h,) = states
    k, v = np.split(x @ weights[0] + weights[1], 2, axis=-1)
    z = sigmoid(k)
    h = (1 - z) * h + z * g(v)
    return h, [h]


def min_lstm(weights, x, states):
    (h,) = states
    f, i, v = np.split(x @ weights[0] + weights[1], 3, axis=-1)
    f, i = sigmoid(f), sigmoid(i)
    h = f / (f + i) * h + i / (f + i) * g(v)
    return h, [h]


def slstm(num_heads=1, forget_gate="sigmoid"):
    """The step of an sLSTM without a stabilizer, in float64: gates are large numbers.

    Its states are h, c and n.
    """

    def step(weights, x, states):
        h, c, n = states
        kernel, blocks, bias = weights
        z = np.split(x @ kernel + bias, 4, axis=-1)
        d = h.shape[-1] // num_heads
        for head in range(num_heads):
            here = slice(head * d, (head + 1) * d)
            for gate, u in enumerate(np.split(blocks[here], 4, axis=-1)):
                z[gate][:, here] += h[:, here] @ u
        i, f = np.exp(z[0]), (sigmoid if forget_gate == "sigmoid" else np.exp)(z[1])
        c, n = f * c + i * np.tanh(z[2]), f * n + i
        h = sigmoid(z[3]) * c / n
        return h, [h, c, n]

    return step


def run(step, weights, x, states, mask=None, backwards=False, zero=False):
    """What a recurrent layer must give: see the table of cases in the design.

    Returns:
        The output at the last real step, all outputs in order of processing, and the
        states after the last real step.
    """
    rows = [
        run_row(
            lambda x, s: step(weights, x, s),
            x[b],
            [s[b : b + 1] for s in states],
            np.ones(len(x[b]), bool) if mask is None else mask[b],
            backwards,
            zero,
        )
        for b in range(len(x))
    ]
    lasts, outputs, states = zip(*rows, strict=True)
    states = [np.concatenate(s) for s in zip(*states, strict=True)]
    return np.concatenate(lasts), np.stack(outputs), states


def run_row(step, x, states, mask, backwards, zero):
    """One sequence: skip what is masked, as if it were not there."""
    order = range(len(x))[::-1] if backwards else range(len(x))
    last = np.zeros_like(states[0])
    outputs = []
    for t in order:
        if mask[t]:
            last, states = step(x[t][None], states)
        outputs.append(last[0] if mask[t] or not zero else 0 * last[0])
    return last, np.stack(outputs), states


def random_weights(layer, seed=0):
    """Fill all weights, the biases too, with numbers that no symmetry hides."""
    rng = np.random.default_rng(seed)
    weights = [0.7 * rng.normal(size=w.shape) for w in layer.get_weights()]
    layer.set_weights(weights)
    return weights
