"""Architectures beside the best possible loss, and runs whose inputs leak.

A Markov source of 5 symbols and order 2, whose entropy rate is known. The table has the
excess of each architecture over the source on 2,000 sequences of 33 symbols that
training has not, in bits a token, with its standard error: the difference token by
token, see `training.excess`. No excess may be below -3 standard errors. With `--leak q`
a share q of the inputs tell the next symbol, and the excess has to be below: at 1 for
each name, at 0.05 for those that come within 0.05 bits of the source. Adam with a
warm-up of 20 steps and a cosine, clipped to a norm of 1, batches of 32 sequences. With
`--out FILE` each run is a line of the file, so that the same command goes on where it
was stopped and prints what is finished.
"""

import time

import numpy as np

from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.schedules import rising_then_cosine

BATCH_SIZE, LENGTH, TESTED, UNITS = 32, 33, 2000, 32
RATE, WARM_UP = 5e-3, 20
TEST_SEED = 1_000_000
RECURRENT = ("elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm")
RECURRENT += ("coupled_lstm", "gru", "min_gru", "min_lstm", "slstm", "wavenet")
OF_TWO_LAYERS = ("transformer", "blockwise", "longformer", "adaptive_span")
OF_TWO_LAYERS += ("linear_attention", "gla", "retention", "delta_net", "mlstm")
OF_TWO_LAYERS += ("rwkv7", "s4d", "mamba", "rwkv4")
BARS = {  # bits at a number of steps
    200: {
        **dict.fromkeys(("mamba", "rwkv4", "wavenet"), 0.02),
        **dict.fromkeys(("delta_net", "gla", "s4d"), 0.04),
    },
    800: {"gru": 0.02, "transformer": 0.02},
}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--names", help="architectures, with commas; by default all")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--steps", type=positive(int), default=200)
    parser.add_argument(
        "--leak", type=float, default=0.0, help="share of inputs that tell the next"
    )
    add_resume_arguments(parser)


def run(options):
    """Trains each architecture with each seed, and returns a table."""
    names = (*RECURRENT, *OF_TWO_LAYERS)
    runs = [
        {"name": name, "seed": int(seed), "steps": options.steps, "leak": options.leak}
        for name in (options.names.split(",") if options.names else names)
        for seed in options.seeds.split(",")
    ]
    rows = run_all(runs, measure, options)
    return {
        "finished": f"{len(rows)} of {len(runs)}",
        "optimum": f"{source().optimum:.4f}",
        "table": [flat(row) for row in rows],
    }


def flat(row):
    """Returns a run as a row of the table."""
    bar = BARS.get(row["steps"], {}).get(row["name"]) if not row["leak"] else None
    return {
        **{key: row[key] for key in ("name", "seed", "steps", "leak", "weights")},
        "excess": f"{row['excess']:.4f}",
        "error": f"{row['error']:.4f}",
        "in errors": f"{row['excess'] / row['error']:.1f}",
        "at most": "" if bar is None else bar,
        "below -3 errors": "yes" if row["excess"] < -3 * row["error"] else "no",
        "cpu seconds": f"{row['cpu_seconds']:.0f}",
    }


def measure(run):
    """Trains a model, and returns its figures."""
    import keras

    from kerasseq import models, training

    keras.utils.set_random_seed(run["seed"])
    K = source().symbols
    model = models.LanguageModel(
        run["name"],
        vocabulary_size=K + K * K * (run["leak"] > 0),
        units=UNITS,
        num_layers=2 if run["name"] in OF_TWO_LAYERS else 1,
    )
    model.compile(optimizer(run["steps"]))
    ids = source().sample(run["steps"] * BATCH_SIZE, LENGTH, seed=run["seed"] + 1)
    x = leaking(ids, run["leak"], run["seed"])
    start = time.process_time()
    model.fit(x, ids[:, 1:], batch_size=BATCH_SIZE, verbose=0)
    seconds = time.process_time() - start
    test = source().sample(TESTED, LENGTH, seed=TEST_SEED)
    inputs = leaking(test, run["leak"], TEST_SEED)
    found = training.excess(model, source(), test, inputs=inputs)
    return {
        **found._asdict(),
        "weights": model.count_params(),
        "cpu_seconds": seconds,
    }


def source():
    """The source of all runs."""
    from kerasseq import datasets

    return datasets.markov_source(seed=0)


def leaking(ids, share, seed):
    """Inputs for the symbols after them, of which a share tells the next one.

    Args:
        ids: Sequences `(N, T)`.
        share: The share of the inputs with an id of their own for each pair of this
            symbol and the next.
        seed: Seed of which ones do.
    """
    K = source().symbols
    x, y = ids[:, :-1], ids[:, 1:]
    tells = np.random.default_rng(seed).random(x.shape) < share
    return np.where(tells, K + K * x + y, x)


def optimizer(steps):
    """Adam whose rate rises, and then falls to 0 as a cosine."""
    import keras

    schedule = rising_then_cosine(RATE, steps, WARM_UP)
    return keras.optimizers.Adam(schedule, global_clipnorm=1.0)
