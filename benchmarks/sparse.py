"""Sparse attention beside all pairs: memory and time of a training step, by length.

One layer of 4 heads of 64 with a causal mask, batch 1. `memory` counts floats, as parts
of the T × T scores of each head: of JAX what XLA plans for the step beside arguments
and results, of the others by how much the peak of the process grows in the first steps.
`train` and `infer` are times, as ratios to `dense`; `band` is dense with a window, a
mask of pairs. Both make all scores at any length; `long` is `MultiHeadAttention` as it
is. Each layer runs in its own process, in rounds (see `benchmarks.rounds`).
"""

import os
import sys

import numpy as np

from benchmarks.attention import causal_self_attention
from benchmarks.options import add_names_arguments, add_timing_arguments, positive
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import jax_step, keras_steps

HEADS, WIDTH, WINDOW, BLOCK = 4, 256, 256, 128
NAMES = ("dense", "band", "long", "blockwise", "longformer", "adaptive_span")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(parser, [("--names", NAMES, ",".join(NAMES))])
    parser.add_argument("--lengths", default="4096", help="tokens, such as 4096,8192")
    parser.add_argument("--window", type=positive(int), default=WINDOW)
    parser.add_argument("--block-size", type=positive(int), default=BLOCK)
    add_timing_arguments(parser, rounds=3, seconds=2.0)


def run(options):
    """Returns a table with a row for each length and layer."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    names = options.names
    names = names.split(",") if isinstance(names, str) else names
    lengths = [int(length) for length in options.lengths.split(",")]
    table = [row for T in lengths for row in measure(T, names, backend, options)]
    return report(options, backend, table)


def measure(T, names, backend, options):
    """Returns the rows of one length."""
    sizes = {"T": T, "window": options.window, "block_size": options.block_size}
    tasks = {name: {"name": name, **sizes} for name in names}
    shared = {"jit": options.jit, "seconds": options.seconds}
    shared["cpu_time"] = options.cpu_time
    workers = {
        name: Worker("benchmarks.sparse", {**task, **shared}, backend)
        for name, task in tasks.items()
    }
    medians = time_in_rounds(workers, options.rounds)
    unit = medians.get("dense", medians[names[0]])
    rows = []
    for name, times in medians.items():
        count = times["MB"] * 2**20
        if backend == "jax":
            count = planned(tasks[name])
        rows.append(
            {
                "tokens": T,
                "layer": name,
                "memory": count / (4 * HEADS * T * T),
                **{key: times[key] / unit[key] for key in ("train", "infer")},
            }
        )
    return rows


def functions(task):
    """Returns the functions that a worker times."""
    layer, x = built(task)
    return keras_steps(layer, x, task["jit"])


def built(task):
    """Returns a layer of one input, and its input."""
    T, window, block_size = task["T"], task["window"], task["block_size"]
    x = np.random.default_rng(0).normal(size=(1, T, WIDTH)).astype("float32")
    layer = causal_self_attention(make(task["name"], window, T, block_size))
    layer(x[:, : window + 1])
    return layer, x


def make(name, window, T, block_size):
    """Makes an attention layer by its name."""
    from kerasseq import layers

    class Dense(layers.MultiHeadAttention):
        dense_length = sys.maxsize

    sizes = HEADS, WIDTH // HEADS
    if name in ("dense", "band"):
        return Dense(*sizes, sliding_window=window if name == "band" else None)
    if name == "long":
        return layers.MultiHeadAttention(*sizes)
    if name == "blockwise":
        return layers.BlockwiseAttention(*sizes, block_size=block_size)
    if name == "longformer":
        return layers.LongformerAttention(*sizes, sliding_window=window)
    span = min(window, T)
    return layers.AdaptiveSpanAttention(*sizes, max_span=span, initial_span=span)


def planned(task):
    """The bytes that XLA plans for a training step, beside arguments and results."""
    step, w = jax_step(*built(task))
    analysis = step.lower(w).compile().memory_analysis()
    return analysis.temp_size_in_bytes
