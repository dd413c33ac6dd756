"""Causal convolution and WaveNet in NumPy, step by step."""

import numpy as np
from keras import ops

RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def fill(layer, scale=0.7):
    """Fills all weights with numbers; returns them by path, in float64."""
    values = [
        (scale * RNG.normal(size=w.shape)).astype("float32") for w in layer.weights
    ]
    layer.set_weights(values)
    paths = [w.path.partition("/")[2] for w in layer.weights]
    return {p: v.astype("float64") for p, v in zip(paths, values, strict=True)}


def causal(x, kernel, bias, dilation=1):
    """The convolution of one sequence `(T, D)`, a product for each step and tap."""
    y = np.tile(bias, (len(x), 1))
    for t in range(len(x)):
        for j, w in enumerate(kernel):
            at = t - (len(kernel) - 1 - j) * dilation
            if at >= 0:
                y[t] = y[t] + x[at] @ w
    return y


def wavenet(weights, x, dilations):
    """The outputs of one sequence, and filter and gate of each block."""

    def part(name):
        return weights[f"{name}/kernel"], weights[f"{name}/bias"]

    def dense(name, x):
        kernel, bias = part(name)
        return x @ kernel + bias

    x, total, inside = causal(x, *part("input")), 0, {}
    for n, dilation in enumerate(dilations, 1):
        both = causal(x, *part(f"block_{n}/convolution"), dilation)
        f, g = np.split(both, 2, axis=-1)
        f, g = np.tanh(f), sigmoid(g)
        inside |= {f"block_{n}/filter": f, f"block_{n}/gate": g}
        total = total + dense(f"block_{n}/skip", f * g)
        if n < len(dilations):
            x = x + dense(f"block_{n}/residual", f * g)
    return relu(dense("output", relu(total))), inside


def array(value):
    return ops.convert_to_numpy(value)
