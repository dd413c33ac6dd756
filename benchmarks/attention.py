"""Training, inference and cached decoding of multi-head attention, beside its peers.

Compares, all with a causal mask: kerasseq's `MultiHeadAttention`,
`keras.layers.MultiHeadAttention` on the same backend, and on PyTorch four linear layers
with `torch.nn.functional.scaled_dot_product_attention`. Each implementation runs in its
own process, in rounds (see `benchmarks.rounds`). Figures are ratios to Keras' layer.

For kerasseq the table also has the time of decoding one token with a cache of keys and
values, when the cache is nearly full, as a ratio to when it is nearly empty. It should
be close to 1.
"""

import importlib.util
import os

import numpy as np

from benchmarks.options import add_timing_arguments, names_among
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import compiled, keras_steps, torch_steps

SIZES = {  # batch, steps, width, heads
    "small": (32, 64, 128, 4),
    "large": (8, 512, 256, 8),
    "tiny": (2, 5, 6, 3),  # for the tests
}
IMPLEMENTATIONS = ("kerasseq", "keras", "torch SDPA")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--sizes", type=names_among(SIZES), default="small,large", help=",".join(SIZES)
    )
    add_timing_arguments(parser, rounds=9, seconds=0.6)


def run(options):
    """Returns a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    sizes = options.sizes
    sizes = sizes.split(",") if isinstance(sizes, str) else sizes
    table = [row for size in sizes for row in measure(size, backend, options)]
    return report(options, backend, table)


def measure(size, backend, options):
    """Returns the rows of one size, one for each implementation."""
    workers = {}
    for name in IMPLEMENTATIONS:
        if name == "torch SDPA" and importlib.util.find_spec("torch") is None:
            continue
        task = {"implementation": name, "size": SIZES[size], "jit": options.jit}
        workers[name] = Worker(
            "benchmarks.attention",
            {**task, "seconds": options.seconds, "cpu_time": options.cpu_time},
            "torch" if name == "torch SDPA" else backend,
        )
    medians = time_in_rounds(workers, options.rounds)
    batch, steps, width, heads = SIZES[size]
    unit = medians["keras"]
    return [
        {
            "size": f"{size}: {batch} × {steps} tokens of {width}, {heads} heads",
            "implementation": name,
            "train": times["train"] / unit["train"],
            "infer": times["infer"] / unit["infer"],
            "token, full to empty cache": (
                times["last token"] / times["first token"]
                if "last token" in times
                else ""
            ),
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the functions that a worker times."""
    batch, steps, width, heads = task["size"]
    x = np.random.default_rng(0).normal(size=(batch, steps, width)).astype("float32")
    if task["implementation"] == "torch SDPA":
        return torch_attention(x, heads)

    import keras

    import kerasseq

    namespaces = {"kerasseq": kerasseq.layers, "keras": keras.layers}
    namespace = namespaces[task["implementation"]]
    attention = namespace.MultiHeadAttention(heads, width // heads)
    layer = causal_self_attention(attention)
    layer(x)
    timed = keras_steps(layer, x, task["jit"])
    if task["implementation"] == "kerasseq":
        timed |= decoding(attention, x)
    return timed


def causal_self_attention(attention):
    """Returns a layer of one input that calls `attention` with a causal mask."""
    import keras

    class CausalSelfAttention(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def call(self, x, training=False):
            return self.attention(x, x, use_causal_mask=True, training=training)

    return CausalSelfAttention()


def torch_attention(x, heads):
    """Returns the training step and inference of attention in plain PyTorch."""
    import torch

    class Attention(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.query, self.key, self.value, self.output = (
                torch.nn.Linear(width, width) for _ in range(4)
            )

        def forward(self, x):
            B, T, D = x.shape
            q, k, v = (
                layer(x).view(B, T, heads, D // heads).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            heads_out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True
            )
            return self.output(heads_out.transpose(1, 2).reshape(B, T, D))

    return torch_steps(Attention(x.shape[-1]), torch.from_numpy(x))


def decoding(attention, x):
    """Returns the decoding of one token near the start and at the end of a cache."""
    import keras

    batch, steps, _ = x.shape
    token = keras.ops.convert_to_tensor(x[:, :1])
    cache = attention.make_cache(batch, steps)

    def step(index):
        return attention(
            token, token, cache=cache, cache_update_index=index, training=False
        )[0]

    step = compiled(step)

    def decode_at(index):
        index = keras.ops.convert_to_tensor(index, "int32")
        return lambda: keras.ops.convert_to_numpy(step(index))

    return {"first token": decode_at(1), "last token": decode_at(steps - 1)}
