"""The contenders of `benchmarks recurrent`."""

import numpy as np

from benchmarks.steps import steps_of, torch_steps


def functions(task):
    """What one of them times."""
    batch, steps, features, units = task["size"]
    x = np.random.default_rng(0).normal(size=(batch, steps, features))
    x = x.astype("float32")
    if task["who"] == "torch.nn":
        return torch_nn(task["cell"], x, units)
    layer = make(task["who"], task["cell"], units)
    layer(x[:, :2])  # builds it
    return steps_of(layer, x, task["jit"])


def torch_nn(cell, x, units):
    """A training step and an inference of the layer of torch.nn."""
    import torch

    from benchmarks.recurrent import CELLS

    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            options = {"nonlinearity": "relu"} if cell == "elman" else {}
            layer = getattr(torch.nn, CELLS[cell][3])
            self.layer = layer(x.shape[-1], units, batch_first=True, **options)

        def forward(self, x):
            return self.layer(x)[0][:, -1]

    return torch_steps(Last(), torch.from_numpy(x))


def make(who, cell, units):
    """The layer of a contender."""
    import keras

    import kerasseq
    from benchmarks.recurrent import CELLS, OPTIONS

    ours, layer, keras_cell, _ = CELLS[cell]
    relu = {"activation": "relu"} if cell == "elman" else {}
    if who == "kerasseq":
        return getattr(kerasseq.layers, ours)(units, **OPTIONS.get(cell, {}))
    if who == "keras":
        return getattr(keras.layers, layer)(units, **relu)
    if cell == "peephole":  # the nearest thing: a cell that Keras runs step by step
        return keras.layers.RNN(kerasseq.layers.LSTMCell(units, peephole="diagonal"))
    return keras.layers.RNN(getattr(keras.layers, keras_cell)(units, **relu))
