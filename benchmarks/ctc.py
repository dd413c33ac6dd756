"""CTC beside Keras and PyTorch: the loss with its gradient, and beam search.

Part "loss": `training.CTC`, `keras.losses.CTC` and `torch.nn.CTCLoss`, forward and the
gradient with respect to the logits, compiled by tf.function or jax.jit. Part "beam":
`decoding.ctc_beam` and `keras.ops.ctc_decode`, both with 16 beams, after a check that
they write the same texts.

`times the peer` is the time divided by that of the last implementation of the part in
the same run: of `torch.nn.CTCLoss`, which runs on PyTorch, or of `ctc_decode`. Each
implementation runs in its own process, in rounds (see `benchmarks.rounds`); figures are
medians after the first call.
"""

import os

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.rounds import Worker, report, time_in_rounds

OURS, KERAS, TORCH = "kerasseq", "keras", "torch.nn"
PARTS = {"loss": (OURS, KERAS, TORCH), "beam": (OURS, KERAS)}  # the peer is the last
SIZES = {  # rows, frames, symbols, ids of a label
    "small": {"loss": (8, 200, 30, 20), "beam": (8, 100, 30, 0)},
    "large": {"loss": (16, 200, 30, 30), "beam": (16, 200, 30, 0)},
    "long": {"loss": (16, 1500, 30, 100), "beam": (1, 1500, 30, 0)},
    "tiny": {"loss": (2, 7, 5, 3), "beam": (2, 5, 3, 0)},  # for the tests
}
BEAM = 16


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser, [("--parts", PARTS, "loss,beam"), ("--sizes", SIZES, "small")]
    )
    add_timing_arguments(parser, rounds=5, seconds=2.0)


def run(options):
    """Returns a table of times."""
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
        task = {"part": part, "implementation": name, "size": SIZES[size][part]}
        task |= {"jit": options.jit, "seconds": options.seconds}
        task["cpu_time"] = options.cpu_time
        own = "torch" if name == TORCH else backend
        workers[name] = Worker("benchmarks.ctc", task, own)
    medians = time_in_rounds(workers, options.rounds)
    rows, frames, symbols, _ = SIZES[size][part]
    peer = medians[PARTS[part][-1]]
    return [
        {
            "part": part,
            "size": f"{rows} rows, {frames} frames, {symbols} symbols",
            "implementation": name,
            "times the peer": times["call"] / peer["call"],
            "ms": times["call"] * 1e3,
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the function that a worker times."""
    rows, frames, symbols, length = task["size"]
    rng = np.random.default_rng(0)
    path = rng.integers(0, symbols, (rows, frames))
    path[rng.random(path.shape) < 0.6] = symbols - 1  # the blank, as in speech
    x = rng.normal(size=(rows, frames, symbols)) + 4 * np.eye(symbols)[path]
    x = x.astype("float32")
    if task["part"] == "beam":
        return {"call": beam(task["implementation"], x)}
    labels = rng.integers(0, symbols - 1, (rows, length)).astype("int32")
    return {"call": gradient(task["implementation"], x, labels, task["jit"])}


def beam(name, x):
    """Returns a function that decodes logits."""
    import keras

    from kerasseq.decoding import ctc_beam

    if name == OURS:
        return lambda: ctc_beam(x, beam=BEAM)
    lengths = np.full(len(x), x.shape[1], "int32")
    options = {"strategy": "beam_search", "beam_width": BEAM, "top_paths": 1}

    def decode():
        ids, _ = keras.ops.ctc_decode(x, lengths, **options, mask_index=x.shape[2] - 1)
        return keras.ops.convert_to_numpy(ids)[0]

    pairs = zip(decode(), ctc_beam(x, beam=BEAM).ids, strict=True)
    if any(a[a >= 0].tolist() != b[b >= 0].tolist() for a, b in pairs):
        raise SystemExit("the two beams write other texts")
    return decode


def gradient(name, x, labels, jit):
    """Returns a function that computes a loss and its gradient."""
    if name == TORCH:
        return torch_gradient(torch_loss(x, labels), x)
    import keras

    from kerasseq.training import CTC

    loss = CTC(reduction="sum")
    if name == KERAS:  # its blank is the first id
        x, labels = np.roll(x, 1, axis=-1), labels + 1
        loss = keras.losses.CTC(reduction="sum")
    labels = keras.ops.convert_to_tensor(labels)
    backend = keras.backend.backend()
    if backend == "torch":
        return torch_gradient(lambda x: loss(labels, x), x)
    if backend == "jax":
        import jax

        x = jax.numpy.asarray(x)
        step = jax.jit(jax.value_and_grad(lambda x: loss(labels, x)))
        return lambda: jax.block_until_ready(step(x))
    return tensorflow_gradient(lambda x: loss(labels, x), x, jit and name == OURS)


def torch_loss(x, labels):
    """Returns `torch.nn.CTCLoss` as a function of logits."""
    import torch

    loss = torch.nn.CTCLoss(blank=x.shape[2] - 1, reduction="sum")
    labels = torch.from_numpy(labels)
    lengths = (torch.full((len(x),), n) for n in (x.shape[1], labels.shape[1]))
    frames, counts = lengths

    def call(x):
        log_y = torch.log_softmax(x, -1).transpose(0, 1)
        return loss(log_y, labels, frames, counts)

    return call


def torch_gradient(loss, x):
    """Returns a function that computes the gradient on PyTorch."""
    import torch

    x = torch.from_numpy(x).requires_grad_()
    return lambda: torch.autograd.grad(loss(x), x)


def tensorflow_gradient(loss, x, jit):
    """Returns a function that computes the gradient on TensorFlow."""
    import tensorflow as tf

    x = tf.constant(x)

    @tf.function(jit_compile=jit)
    def step():
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x)
        return value, tape.gradient(value, x)

    return lambda: step()[1].numpy()
