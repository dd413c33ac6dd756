"""Training and inference of recurrent layers, beside those of Keras and torch.nn.

Compares kerasseq's layer, the same layer of Keras, `keras.layers.RNN` with Keras' cell,
and the closest layer of `torch.nn` (which has neither peepholes nor a gated network).
"own step" is kerasseq's layer with a cell whose class defines `step` anew, as a user's
cell does; two cells are a user's altogether (`benchmarks.own_cells`). `--beside` adds
the layers of another checkout of this project, for a change of the code.

Each implementation runs in its own process, in rounds (see `benchmarks.rounds`). A
training step is the forward pass, the mean of the last output, the gradients of all
weights and an SGD update, compiled by tf.function or jax.jit. Figures are medians over
the rounds as ratios to torch.nn, and to the same layer of the other checkout. Memory is
the growth of the process's peak memory in the first steps.
`--first-call` adds the seconds of the first training step of a process, without
imports: with an empty folder for compiled code, and in the next process.
"""

import contextlib
import functools
import importlib.util
import os
import subprocess
import tempfile

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments, checkout
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
    "gru_before": ("GRU", "GRU", "GRUCell", "GRU"),
    "layer_norm_lstm": (None, None, None, "LSTM"),
    "minimal_gated": (None, None, None, "GRU"),
}
OWN_CELLS = {  # in benchmarks.own_cells
    "layer_norm_lstm": "LayerNormLSTMCell",
    "minimal_gated": "MinimalGatedCell",
}
OPTIONS = {
    "full_peephole": {"peephole": "full"},
    "coupled": {"coupled": True},
    "gru_before": {"reset_after": False},
}
OURS = ("kerasseq", "own step")
IMPLEMENTATIONS = (*OURS, "keras", "keras.RNN(cell)", "torch.nn")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser,
        [
            ("--cell", CELLS, "lstm,peephole,gru,elman"),
            ("--sizes", SIZES, "small,large"),
            ("--implementations", IMPLEMENTATIONS, ",".join(IMPLEMENTATIONS)),
        ],
    )
    add_timing_arguments(parser, rounds=9, seconds=0.5)
    parser.add_argument(
        "--beside",
        type=checkout,
        metavar="CHECKOUT",
        help="folder with another checkout of this project, to compare with",
    )
    parser.add_argument(
        "--first-call",
        action="store_true",
        help="add the seconds of the first training step, in two new processes",
    )


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
    tasks = tasks_of(cell, options)
    workers, empty = {}, {}
    with contextlib.ExitStack() as stack:
        for name, task in tasks.items():
            task |= {"cell": cell, "size": SIZES[size], "jit": options.jit}
            task |= {"cpu_time": options.cpu_time, "seconds": options.seconds}
            where = "torch" if name == "torch.nn" else backend
            cache = None
            if options.first_call:
                cache = stack.enter_context(tempfile.TemporaryDirectory())
                before = Worker("benchmarks.recurrent", task, where, cache)
                empty[name] = before.first["train"]
                before.end()
            workers[name] = Worker("benchmarks.recurrent", task, where, cache)
        medians = time_in_rounds(workers, options.rounds)
    unit = medians.get("torch.nn", next(iter(medians.values())))
    batch, steps, features, units = SIZES[size]
    table = []
    for name, times in medians.items():
        row = {
            "size": f"{size}: batch {batch}, {steps} steps, {features} -> {units}",
            "cell": cell,
            "implementation": name,
            "train": times["train"] / unit["train"],
            "infer": times["infer"] / unit["infer"],
        }
        if options.beside:
            other = medians.get(beside_name(name, options.beside))
            for key in ("train", "infer"):
                row[f"{key} beside"] = times[key] / other[key] if other else ""
        row["us per step"] = times["train"] / steps * 1e6
        if options.first_call:
            row["first call"] = empty[name]
            row["next process"] = workers[name].first["train"]
        table.append({**row, "MB": times["MB"]})
    return table


def tasks_of(cell, options):
    """Returns what each worker does, by the name of the implementation."""
    layer, keras_layer, keras_cell, torch_layer = CELLS[cell]
    exists = {
        "kerasseq": True,
        "own step": layer,  # the cells of a user have one anyway
        "keras": keras_layer,
        "keras.RNN(cell)": keras_cell,
        "torch.nn": torch_layer and importlib.util.find_spec("torch"),
    }
    tasks = {}
    for name in options.implementations:
        if exists[name]:
            tasks[name] = {"implementation": name}
        if exists[name] and options.beside and name in OURS:
            checkout = {"checkout": str(options.beside)}
            tasks[beside_name(name, options.beside)] = {**tasks[name], **checkout}
    return tasks


@functools.cache  # one name, also after a commit there during the run
def beside_name(name, folder):
    """Returns the name of an implementation of another checkout."""
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = ""
    with contextlib.suppress(OSError):  # no git
        commit = subprocess.run(command, capture_output=True, text=True).stdout
    return f"{name} ({folder.name} {commit.strip()}".strip() + ")"


def functions(task):
    """Returns the functions that a worker times."""
    batch, steps, features, units = task["size"]
    x = np.random.default_rng(0).normal(size=(batch, steps, features))
    x = x.astype("float32")
    if task["implementation"] == "torch.nn":
        return torch_layer(task["cell"], x, units)
    layer = keras_layer(task["implementation"], task["cell"], units)
    layer.build(x.shape)  # a call would compile what the first step is to compile
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

    keras.utils.set_random_seed(0)  # the same weights in each process
    name, layer, keras_cell, _ = CELLS[cell]
    options = {"activation": "relu"} if cell == "elman" else OPTIONS.get(cell, {})
    if implementation == "keras":
        return getattr(keras.layers, layer)(units, **options)
    if implementation == "keras.RNN(cell)":
        if cell == "peephole":  # Keras has no such cell, but runs ours step by step
            ours = kerasseq.layers.LSTMCell(units, peephole="diagonal")
            return keras.layers.RNN(ours)
        return keras.layers.RNN(getattr(keras.layers, keras_cell)(units, **options))
    from benchmarks import own_cells

    if cell in OWN_CELLS:
        return kerasseq.layers.RNN(getattr(own_cells, OWN_CELLS[cell])(units))
    layer = getattr(kerasseq.layers, name)(units, **options)
    if implementation == "own step":
        return kerasseq.layers.RNN(own_cells.with_own_step(layer.cell))
    return layer
