"""A training step of LoRA beside one of all weights.

Two blocks of a GPT of width 512, 8 heads, hidden width 2,048, on 4 texts of 128 tokens.
`full` trains all weights; `lora` rank 8 of query and value; `all-linear` rank 8 of all
dense layers. `train` and `infer` are times of the forward pass with the gradients, and
without, as ratios to `full`. Each runs in its own process, in rounds (see
`benchmarks.rounds`).
"""

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.rounds import Worker, run_sizes, time_in_rounds
from benchmarks.steps import keras_steps

SIZES = {  # texts, tokens, width, heads, blocks, rank
    "512": (4, 128, 512, 8, 2, 8),
    "tiny": (2, 5, 6, 2, 1, 3),  # for the tests
}
NAMES = {"full": None, "lora": ["query", "value"], "all-linear": "all-linear"}
VOCABULARY = 97


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(parser, [("--sizes", SIZES, "512")])
    add_timing_arguments(parser, rounds=5, seconds=2.0)


def run(options):
    """Returns a table of ratios."""
    return run_sizes(options, measure)


def measure(size, backend, options):
    """Returns the rows of one size."""
    shared = {"jit": options.jit, "seconds": options.seconds, "size": SIZES[size]}
    shared["cpu_time"] = options.cpu_time
    workers = {
        name: Worker("benchmarks.lora", {"name": name, **shared}, backend)
        for name in NAMES
    }
    medians = time_in_rounds(workers, options.rounds)
    full = medians["full"]
    return [
        {
            "width": SIZES[size][2],
            "weights": name,
            "train": times["train"] / full["train"],
            "infer": times["infer"] / full["infer"],
            "MB": times["MB"],
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the training step and inference of the model."""
    from kerasseq import models

    B, T, D, heads, blocks, rank = task["size"]
    model = models.GPT(
        vocabulary_size=VOCABULARY,
        max_sequence_length=T,
        num_layers=blocks,
        num_heads=heads,
        hidden_dim=D,
    )
    if NAMES[task["name"]] is not None:
        model.enable_lora(rank, NAMES[task["name"]])
    x = np.random.default_rng(0).integers(VOCABULARY, size=(B, T)).astype("int32")
    return keras_steps(model, x, task["jit"])
