"""Training of linear attention, as a ratio to dense causal attention.

Compares, projections included, `MultiHeadAttention` with a causal mask and the layers
with a state of constant size: no decay (`LinearAttention`), one decay for each head
(`Retention`), for each channel (`GatedLinearAttention`), and with erasing (`DeltaNet`,
which has a short convolution as well). The cost of the dense
attention grows with the square of the length, theirs with the length. Each runs in a
process of its own, in rounds (see `benchmarks.rounds`); a speed of 10 is a tenth of the
time of the dense attention.
"""

import numpy as np

from benchmarks.attention import causal_self_attention
from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.rounds import Worker, run_sizes, time_in_rounds
from benchmarks.steps import keras_steps

SIZES = {  # batch, steps, heads, width of a head
    "4096": (1, 4096, 4, 64),
    "1024": (4, 1024, 4, 64),
    "tiny": (2, 5, 3, 4),  # for the tests
}
DECAYS = {
    "LinearAttention": "none",
    "Retention": "per head",
    "GatedLinearAttention": "per channel",
    "DeltaNet": "per head, erasing",
}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(parser, [("--sizes", SIZES, "4096")])
    add_timing_arguments(parser, rounds=5, seconds=2.0)


def run(options):
    """Returns a table of ratios."""
    return run_sizes(options, measure)


def measure(size, backend, options):
    """Returns the rows of one size, one for each layer."""
    workers = {}
    for name in ("MultiHeadAttention", *DECAYS):
        task = {"layer": name, "size": SIZES[size], "jit": options.jit}
        task |= {"seconds": options.seconds, "cpu_time": options.cpu_time}
        workers[name] = Worker("benchmarks.linear", task, backend)
    medians = time_in_rounds(workers, options.rounds)
    batch, steps, heads, width = SIZES[size]
    unit = medians["MultiHeadAttention"]
    return [
        {
            "size": f"{batch} × {steps} tokens, {heads} heads of {width}",
            "layer": name,
            "decay": DECAYS.get(name, ""),
            "ms per step": 1000 * times["train"],
            "training speed": unit["train"] / times["train"],
            "inference speed": unit["infer"] / times["infer"],
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the training step and inference of a layer."""
    from kerasseq import layers

    batch, steps, heads, width = task["size"]
    shape = batch, steps, heads * width
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    layer = getattr(layers, task["layer"])(heads, width)
    if task["layer"] == "MultiHeadAttention":
        layer = causal_self_attention(layer)
    layer(x)
    return keras_steps(layer, x, task["jit"])
