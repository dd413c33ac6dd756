"""A mixture of experts beside a dense network of the same active width.

8 experts of hidden width 512, of which a token reads 2, on 2,048 tokens of width 256.
`dense` is a feed-forward network of width 1,024, with the weights that a token reads;
`all` is the same mixture where each token reads all 8 experts. `train` and `infer` are
times of the forward pass with all gradients, and without, as ratios to `dense`;
`beside all` is that of training to `all`. Each layer runs in its own process, in rounds
(see `benchmarks.rounds`).
"""

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.rounds import Worker, run_sizes, time_in_rounds
from benchmarks.steps import keras_steps

SIZES = {  # tokens, width, hidden width, experts, experts of a token
    "2048": (2048, 256, 512, 8, 2),
    "tiny": (37, 5, 7, 3, 2),  # for the tests
}
NAMES = ("dense", "experts", "all")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(parser, [("--sizes", SIZES, "2048")])
    parser.add_argument("--feed-forward", default="swiglu")
    add_timing_arguments(parser, rounds=5, seconds=2.0)


def run(options):
    """Returns a table of ratios."""
    return run_sizes(options, measure)


def measure(size, backend, options):
    """Returns the rows of one size, one for each layer."""
    shared = {"jit": options.jit, "seconds": options.seconds}
    shared |= {"size": SIZES[size], "feed_forward": options.feed_forward}
    shared["cpu_time"] = options.cpu_time
    workers = {
        name: Worker("benchmarks.experts", {"layer": name, **shared}, backend)
        for name in NAMES
    }
    medians = time_in_rounds(workers, options.rounds)
    dense, every = medians["dense"], medians["all"]
    return [
        {
            "tokens": SIZES[size][0],
            "layer": name,
            "train": times["train"] / dense["train"],
            "infer": times["infer"] / dense["infer"],
            "beside all": times["train"] / every["train"],
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the training step and inference of a layer."""
    from kerasseq import layers

    T, D, F, E, k = task["size"]
    x = np.random.default_rng(0).normal(size=(1, T, D)).astype("float32")
    one = task["layer"] == "dense"
    layer = layers.MixtureOfExperts(
        1 if one else E,
        k * F if one else F,
        top_k={"dense": 1, "experts": k, "all": E}[task["layer"]],
        feed_forward=task["feed_forward"],
    )
    layer(x)
    return keras_steps(layer, x, task["jit"])
