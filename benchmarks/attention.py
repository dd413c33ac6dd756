"""Training, inference and decoding of multi-head attention, beside its peers.

kerasseq's `MultiHeadAttention`, `keras.layers.MultiHeadAttention` on the same backend,
and on PyTorch four linear layers round
`torch.nn.functional.scaled_dot_product_attention`, all causal, take turns as processes
of their own: see `benchmarks.turns`. Figures are ratios to Keras' layer.

Decoding is ours alone: one token with a cache of keys and values, when the cache is
nearly empty and when it is nearly full. The cost of a token must not grow.
"""

import importlib.util
import os

from benchmarks.recurrent import names_among, positive
from benchmarks.turns import Contender, report, take_turns

SIZES = {  # batch, steps, width, heads
    "small": (32, 64, 128, 4),
    "large": (8, 512, 256, 8),
    "tiny": (2, 5, 6, 3),  # to see that it runs
}
PEERS = ("kerasseq", "keras", "torch SDPA")


def add_arguments(parser):
    """What to measure, and how long."""
    parser.add_argument(
        "--sizes", type=names_among(SIZES), default="small,large", help=",".join(SIZES)
    )
    parser.add_argument("--turns", type=positive(int), default=9)
    parser.add_argument(
        "--seconds", type=positive(float), default=0.6, help="length of a turn"
    )
    parser.add_argument("--jit", action="store_true", help="XLA on TensorFlow")


def run(options):
    """Measure, and give a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    sizes = options.sizes
    sizes = sizes.split(",") if isinstance(sizes, str) else sizes
    table = [row for size in sizes for row in measure(size, backend, options)]
    return report(options, backend, table)


def measure(size, backend, options):
    """Rows of the table: one size, all contenders."""
    contenders = {}
    for who in PEERS:
        if who == "torch SDPA" and importlib.util.find_spec("torch") is None:
            continue
        task = {"who": who, "size": SIZES[size], "jit": options.jit}
        contenders[who] = Contender(
            "benchmarks.attention_contender",
            {**task, "seconds": options.seconds},
            "torch" if who == "torch SDPA" else backend,
        )
    found = take_turns(contenders, options.turns)
    batch, steps, width, heads = SIZES[size]
    one = found["keras"]
    return [
        {
            "size": f"{size}: {batch} × {steps} tokens of {width}, {heads} heads",
            "who": who,
            "train": times["train"] / one["train"],
            "infer": times["infer"] / one["infer"],
            "token, full to empty cache": (
                times["late token"] / times["early token"]
                if "late token" in times
                else ""
            ),
            "MB": times["MB"],
        }
        for who, times in found.items()
    ]
