"""Training and inference of recurrent layers, beside Keras' own and torch.nn.

Each contender is a process of its own: kerasseq's layer, the same layer of Keras,
`keras.layers.RNN` around Keras' cell, on the backend asked for, and the layer of
`torch.nn` that comes nearest (it has no peepholes, no gated network). They take turns
A B C A B C …; a turn is a few calls after one that is not counted. A training step is
the layer, a sum over its last output, the gradients of all weights and a step of SGD,
compiled by tf.function or jax.jit. Reported are medians over the turns, divided by that
of torch.nn: ratios hold from machine to machine better than times do. Memory is how far
the process's peak grew from before the first step to the end.
"""

import argparse
import importlib.util
import os

from benchmarks.turns import Contender, report, take_turns

SIZES = {  # batch, steps, features, units
    "small": (32, 64, 64, 128),
    "large": (64, 128, 256, 512),
    "long": (8, 1024, 64, 128),
    "short": (8, 64, 64, 128),  # what "long" is compared with
    "tiny": (2, 3, 5, 7),  # to see that it runs
}
CELLS = {  # ours, Keras' layer, Keras' cell, torch.nn
    "elman": ("ElmanRNN", "SimpleRNN", "SimpleRNNCell", "RNN"),
    "gated": ("GatedRNN", None, None, "GRU"),
    "lstm": ("LSTM", "LSTM", "LSTMCell", "LSTM"),
    "peephole": ("PeepholeLSTM", None, "LSTMCell", "LSTM"),
    "full_peephole": ("LSTM", None, None, "LSTM"),
    "coupled": ("LSTM", None, None, "LSTM"),
    "gru": ("GRU", "GRU", "GRUCell", "GRU"),
}
OPTIONS = {"full_peephole": {"peephole": "full"}, "coupled": {"coupled": True}}
PEER = "torch.nn"


def add_arguments(parser):
    """What to measure, and how long."""
    for name, known, default in (
        ("--cell", CELLS, "lstm,peephole,gru,elman"),
        ("--sizes", SIZES, "small,large"),
    ):
        parser.add_argument(
            name, type=names_among(known), default=default, help=",".join(known)
        )
    parser.add_argument("--turns", type=positive(int), default=9)
    parser.add_argument(
        "--seconds", type=positive(float), default=0.5, help="length of a turn"
    )
    parser.add_argument("--jit", action="store_true", help="XLA on TensorFlow")


def names_among(known):
    """A type for argparse: names with commas between them, all of them known."""

    def names(text):
        for name in text.split(","):
            if name not in known:
                message = f"{name!r} is none of {', '.join(known)}"
                raise argparse.ArgumentTypeError(message)
        return text.split(",")

    return names


def positive(kind):
    """A type for argparse: a number above 0."""

    def number(text):
        if not kind(text) > 0:
            raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
        return kind(text)

    return number


def run(options):
    """Measure, and give a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    table = []
    for size in options.sizes:
        for cell in options.cell:
            table += measure(cell, size, backend, options)
    return report(options, backend, table)


def measure(cell, size, backend, options):
    """Rows of the table: one cell, one size, all contenders."""
    names = dict(
        zip(("kerasseq", "keras", "keras.RNN(cell)", PEER), CELLS[cell], strict=True)
    )
    if importlib.util.find_spec("torch") is None:
        names[PEER] = None
    contenders = {}
    for who, name in names.items():
        if name is not None:
            task = {"who": who, "cell": cell, "size": SIZES[size], "jit": options.jit}
            contenders[who] = Contender(
                "benchmarks.recurrent_contender",
                {**task, "seconds": options.seconds},
                "torch" if who == PEER else backend,
            )
    times = take_turns(contenders, options.turns)
    one = times.get(PEER, times["kerasseq"])
    batch, steps, features, units = SIZES[size]
    return [
        {
            "size": f"{size}: batch {batch}, {steps} steps, {features} -> {units}",
            "cell": cell,
            "who": who,
            "train": times[who]["train"] / one["train"],
            "infer": times[who]["infer"] / one["infer"],
            "us per step": times[who]["train"] / steps * 1e6,
            "MB": times[who]["MB"],
        }
        for who in contenders
    ]
