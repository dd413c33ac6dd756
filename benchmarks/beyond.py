"""Sequence layers whose cost grows with the length, beside what they replace.

Part "minimal": MinGRU, MinLSTM and GRU of kerasseq, and `torch.nn.GRU`. `train` and
`infer` say how many times as fast as `torch.nn.GRU` a layer is in the same run. A
training step is the forward pass, the mean of the last output, the gradients of all
weights and an SGD update, compiled by tf.function or jax.jit. Each implementation runs
in its own process, in rounds (see `benchmarks.rounds`); figures are medians.
"""

import os

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.recurrent import torch_layer
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import keras_steps

PEER = "torch.nn.GRU"
PARTS = {"minimal": ("MinGRU", "MinLSTM", "GRU", PEER)}
SIZES = {  # batch, steps, features, units
    "long": (32, 1024, 64, 128),
    "small": (32, 64, 64, 128),
    "tiny": (2, 3, 5, 7),  # for the tests
}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser, [("--parts", PARTS, "minimal"), ("--sizes", SIZES, "long")]
    )
    add_timing_arguments(parser, rounds=5, seconds=4.0)


def run(options):
    """Returns a table of speeds."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    table = []
    for part in options.parts:
        for size in options.sizes:
            table += measure(part, size, backend, options)
    return report(options, backend, table)


def measure(part, size, backend, options):
    """Returns the rows of one part and size, one for each implementation."""
    workers = {}
    for name in PARTS[part]:
        task = {"implementation": name, "size": SIZES[size]}
        task |= {"jit": options.jit, "seconds": options.seconds}
        task["cpu_time"] = options.cpu_time
        own = "torch" if name == PEER else backend
        workers[name] = Worker("benchmarks.beyond", task, own)
    medians = time_in_rounds(workers, options.rounds)
    batch, steps, features, units = SIZES[size]
    return [
        {
            "size": f"batch {batch}, {steps} steps, {features} -> {units}",
            "implementation": name,
            "train": medians[PEER]["train"] / times["train"],
            "infer": medians[PEER]["infer"] / times["infer"],
            "ms": times["train"] * 1e3,
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the functions that a worker times."""
    batch, steps, features, units = task["size"]
    x = np.random.default_rng(0).normal(size=(batch, steps, features))
    x = x.astype("float32")
    if task["implementation"] == PEER:
        return torch_layer("gru", x, units)
    import kerasseq

    layer = getattr(kerasseq.layers, task["implementation"])(units)
    layer(x[:, :2])  # builds it
    return keras_steps(layer, x, task["jit"])
