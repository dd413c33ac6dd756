"""Sequence layers whose cost grows with the length, beside their peers.

Part "minimal": MinGRU, MinLSTM and GRU of kerasseq, beside `torch.nn.GRU`. Part
"mamba": `Mamba`, beside the layer of the package transformers without its kernels for
GPUs, and a plain loop over time with a gradient by hand, which JAX compiles. `train`
and `infer` say how many times as fast as the first peer, which runs on PyTorch, a layer
is in the same run. A training step is the forward pass, the mean of the last output,
the gradients of all weights and an SGD update, compiled by tf.function or jax.jit. Each
implementation runs in its own process, in rounds (see `benchmarks.rounds`); figures are
medians.
"""

import os

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.recurrent import torch_layer
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import keras_steps, torch_steps

PEER, TRANSFORMERS, LOOP = "torch.nn.GRU", "transformers", "loop on JAX"
PARTS = {  # the peer of the ratios is the last one
    "minimal": ("MinGRU", "MinLSTM", "GRU", PEER),
    "mamba": ("Mamba", LOOP, TRANSFORMERS),
}
BACKENDS = {PEER: "torch", TRANSFORMERS: "torch", LOOP: "jax"}
SIZES = {  # batch, steps, features, units of the recurrent layers
    "long": (32, 1024, 64, 128),
    "small": (32, 64, 64, 128),
    "one": (1, 512, 256, 256),
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
        own = BACKENDS.get(name, backend)
        workers[name] = Worker("benchmarks.beyond", task, own)
    medians = time_in_rounds(workers, options.rounds)
    batch, steps, features, units = SIZES[size]
    widths = f"width {features}" if part == "mamba" else f"{features} -> {units}"
    peer = medians[PARTS[part][-1]]
    return [
        {
            "size": f"batch {batch}, {steps} steps, {widths}",
            "implementation": name,
            "train": peer["train"] / times["train"],
            "infer": peer["infer"] / times["infer"],
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
    name = task["implementation"]
    if name == PEER:
        return torch_layer("gru", x, units)
    if name == TRANSFORMERS:
        return transformers_mamba(x)
    if name == LOOP:
        from benchmarks.mamba_loop import LoopMamba

        layer = LoopMamba()
    else:
        import kerasseq

        own = getattr(kerasseq.layers, name)
        layer = own() if name == "Mamba" else own(units)
    layer(x[:, :2])  # builds it
    return keras_steps(layer, x, task["jit"])


def transformers_mamba(x):
    """Returns the functions to time for the layer of the package transformers."""
    import torch
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    config = MambaConfig(hidden_size=x.shape[-1], num_hidden_layers=1)
    return torch_steps(MambaMixer(config, layer_idx=0), torch.from_numpy(x))
