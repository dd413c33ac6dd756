"""Training and inference of recurrent layers, beside those of Keras and torch.nn.

Compares kerasseq's layer, the same layer of Keras, `keras.layers.RNN` with Keras' cell,
and the closest layer of `torch.nn` (which has neither peepholes nor a gated network).
Each implementation runs in its own process, in rounds (see `benchmarks.rounds`). A
training step is the forward pass, the mean of the last output, the gradients of all
weights and an SGD update, compiled by tf.function or jax.jit. Figures are medians over
the rounds as ratios to torch.nn. Memory is the growth of the process's peak memory from
before the first step to the end.
"""

import importlib.util
import os

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import keras_steps, torch_steps

SIZES = {  # batch, steps, features, units
    "small": (32, 64, 64, 128),
    "large": (64, 128, 256, 512),
    "long": (8, 1024, 64, 128),
    "short": (8, 64, 64, 128),  # to compare with "long"
    "tiny": (2, 3, 5, 7),  # for the tests
}
CELLS = {  # kerasseq's layer, Keras' layer, Keras' cell, the layer of torch.nn
    "elman": ("ElmanRNN", "SimpleRNN", "SimpleRNNCell", "RNN"),
    "gated": ("GatedRNN", None, None, "GRU"),
    "lstm": ("LSTM", "LSTM", "LSTMCell", "LSTM"),
    "peephole": ("PeepholeLSTM", None, "LSTMCell", "LSTM"),
    "full_peephole": ("LSTM", None, None, "LSTM"),
    "coupled": ("LSTM", None, None, "LSTM"),
    "gru": ("GRU", "GRU", "GRUCell", "GRU"),
}
OPTIONS = {"full_peephole": {"peephole": "full"}, "coupled": {"coupled": True}}
IMPLEMENTATIONS = ("kerasseq", "keras", "keras.RNN(cell)", "torch.nn")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser,
        [
            ("--cell", CELLS, "lstm,peephole,gru,elman"),
            ("--sizes", SIZES, "small,large"),
        ],
    )
    add_timing_arguments(parser, rounds=9, seconds=0.5)


def run(options):
    """Returns a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    table = []
    for size in options.sizes:
        for cell in options.cell:
            table += measure(cell, size, backend, options)
    return report(options, backend, table)


def measure(cell, size, backend, options):
    """Returns the rows of one cell and size, one for each implementation."""
    classes = dict(zip(IMPLEMENTATIONS, CELLS[cell], strict=True))
    if importlib.util.find_spec("torch") is None:
        classes["torch.nn"] = None
    workers = {}
    for name, cls in classes.items():
        if cls is not None:
            task = {"implementation": name, "cell": cell, "size": SIZES[size]}
            task["cpu_time"] = options.cpu_time
            workers[name] = Worker(
                "benchmarks.recurrent",
                {**task, "jit": options.jit, "seconds": options.seconds},
                "torch" if name == "torch.nn" else backend,
            )
    medians = time_in_rounds(workers, options.rounds)
    unit = medians.get("torch.nn", medians["kerasseq"])
    batch, steps, features, units = SIZES[size]
    return [
        {
            "size": f"{size}: batch {batch}, {steps} steps, {features} -> {units}",
            "cell": cell,
            "implementation": name,
            "train": times["train"] / unit["train"],
            "infer": times["infer"] / unit["infer"],
            "us per step": times["train"] / steps * 1e6,
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the functions that a worker times."""
    batch, steps, features, units = task["size"]
    x = np.random.default_rng(0).normal(size=(batch, steps, features))
    x = x.astype("float32")
    if task["implementation"] == "torch.nn":
        return torch_layer(task["cell"], x, units)
    layer = keras_layer(task["implementation"], task["cell"], units)
    layer(x[:, :2])  # builds it
    return keras_steps(layer, x, task["jit"])


def torch_layer(cell, x, units):
    """Returns the training step and inference of the layer of torch.nn."""
    import torch

    class LastOutput(torch.nn.Module):
        def __init__(self):
            super().__init__()
            options = {"nonlinearity": "relu"} if cell == "elman" else {}
            layer = getattr(torch.nn, CELLS[cell][3])
            self.layer = layer(x.shape[-1], units, batch_first=True, **options)

        def forward(self, x):
            return self.layer(x)[0][:, -1]

    return torch_steps(LastOutput(), torch.from_numpy(x))


def keras_layer(implementation, cell, units):
    """Returns the layer of kerasseq or Keras."""
    import keras

    import kerasseq

    name, layer, keras_cell, _ = CELLS[cell]
    relu = {"activation": "relu"} if cell == "elman" else {}
    if implementation == "kerasseq":
        return getattr(kerasseq.layers, name)(units, **OPTIONS.get(cell, {}))
    if implementation == "keras":
        return getattr(keras.layers, layer)(units, **relu)
    if cell == "peephole":  # Keras has no such cell, but runs ours step by step
        return keras.layers.RNN(kerasseq.layers.LSTMCell(units, peephole="diagonal"))
    return keras.layers.RNN(getattr(keras.layers, keras_cell)(units, **relu))
