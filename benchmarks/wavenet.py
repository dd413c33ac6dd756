"""WaveNet sample by sample: with its state, beside reading the receptive field again.

Both compute the output after one new sample, in batches of 1: `advance` from the last
inputs of each convolution, or a call with as many samples as an output depends on. They
run in one process, in rounds (see `benchmarks.rounds`), compiled by tf.function or
jax.jit, after a check that their outputs agree. The ratio says how many times faster
the state is.
"""

import os

import numpy as np

from benchmarks.options import add_timing_arguments, names_among
from benchmarks.rounds import Worker, report, time_in_rounds
from benchmarks.steps import compiled

SIZES = {  # units, dilations, stacks
    "one stack": (128, [2**n for n in range(10)], 1),
    "three stacks": (128, [2**n for n in range(10)], 3),
    "tiny": (3, [1, 2], 2),  # for the tests
}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--sizes",
        type=names_among(SIZES),
        default=["one stack", "three stacks"],
        help=",".join(SIZES),
    )
    add_timing_arguments(parser, rounds=5, seconds=2.0)


def run(options):
    """Returns a table with a row for each size."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    table = [measure(size, backend, options) for size in options.sizes]
    return report(options, backend, table)


def measure(size, backend, options):
    """Returns the row of one size."""
    task = {"size": SIZES[size], "seconds": options.seconds}
    task["cpu_time"] = options.cpu_time
    worker = Worker("benchmarks.wavenet", task, backend)
    times = time_in_rounds({size: worker}, options.rounds)[size]
    units, dilations, stacks = SIZES[size]
    return {
        "size": f"{size}: {units} units, {stacks} × {len(dilations)} blocks",
        "receptive field": receptive_field(dilations, stacks),
        "state, ms": times["state"] * 1e3,
        "again, ms": times["again"] * 1e3,
        "again / state": times["again"] / times["state"],
    }


def receptive_field(dilations, stacks):
    """Returns how many samples an output depends on, with kernels of two samples."""
    return 2 + stacks * sum(dilations)


def functions(task):
    """Returns the functions that a worker times, after a check that they agree."""
    import keras

    import kerasseq

    units, dilations, stacks = task["size"]
    keras.utils.set_random_seed(0)
    layer = kerasseq.layers.WaveNet(units, dilations=dilations, stacks=stacks)
    layer.build((1, None, 1))
    field = receptive_field(dilations, stacks)
    x = np.random.default_rng(0).normal(size=(1, field, 1)).astype("float32")
    window = keras.ops.convert_to_tensor(x)
    sample = window[:, -1:]
    read_again = compiled(lambda x: layer(x, training=False)[:, -1])
    advance = compiled(layer.advance)
    carried = {"states": advance(window[:, :-1], layer.get_initial_state(1))[1]}

    def again():
        return keras.ops.convert_to_numpy(read_again(window))

    def state():
        y, carried["states"] = advance(sample, carried["states"])
        return keras.ops.convert_to_numpy(y[:, -1])

    difference = np.abs(state() - again()).max() / np.abs(again()).max()
    if not difference < 1e-4:
        raise SystemExit(f"the outputs differ by {difference:.1e} of the largest")
    return {"state": state, "again": again}
