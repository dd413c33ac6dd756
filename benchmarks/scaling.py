"""How the loss of a GPT falls with its width, and what a power law of it is worth.

GPTs of 2 blocks and several widths learn the Python reference by characters for the
same number of steps, or a Markov source whose entropy is known. Printed are the mean
and the deviation of the held-out loss over the seeds, the exponent α of L = A N^-α + E
with its interval, at E = 0 (or the entropy of the source) and with E free, and the loss
of the widest model as predicted from the others. With `--out FILE` each run is a line
of the file, so that the same command goes on where it was stopped.
"""

import functools
import time

import numpy as np

from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all

BATCH_SIZE, LENGTH, TESTED, BLOCKS, HEADS = 16, 32, 8192, 2, 2
RATE, POWER = 0.02, -0.4  # of AdamW: rate D^power
SYMBOLS, ORDER, CONCENTRATION = 64, 2, 0.05  # of the source


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--data", choices=["python", "source"], default="python")
    parser.add_argument("--widths", default="8,16,28,48")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=220)
    add_resume_arguments(parser)


def run(options):
    """Trains each width with each seed, and returns the table and the fits."""
    widths = [int(width) for width in options.widths.split(",")]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    runs = [
        {"data": options.data, "width": width, "seed": seed, "steps": options.steps}
        for width in widths
        for seed in seeds
    ]
    rows = run_all(runs, measure, options)
    found = {"finished": f"{len(rows)} of {len(runs)}"}
    if len(rows) == len(runs):
        floor = source().optimum * np.log(2) if options.data == "source" else 0.0
        found |= fits(rows, widths, floor)
    return found


def fits(rows, widths, floor):
    """Returns the means, and the power laws, as they are printed."""
    from kerasseq.training import power_law

    losses = np.array([[r["loss"] for r in rows if r["width"] == w] for w in widths])
    sizes = [next(r["weights"] for r in rows if r["width"] == w) for w in widths]
    known = power_law(sizes, losses, floor=floor)
    smaller = power_law(sizes[:-1], losses[:-1], floor=floor)
    predicted = float(smaller.predict(sizes[-1]))
    means, deviations = losses.mean(1), losses.std(1, ddof=min(1, losses.shape[1] - 1))
    found = {
        "falls by more than the deviation": bool(
            (-np.diff(means) > np.maximum(deviations[1:], deviations[:-1])).all()
        ),
        f"exponent at E = {floor:.3f}": _with_interval(known.exponent, known.exponents),
        "widest: predicted, measured": f"{predicted:.3f}, {means[-1]:.3f}",
    }
    if len(widths) > 3:
        free = power_law(sizes, losses, floor=None)
        found["exponent with E free"] = _with_interval(free.exponent, free.exponents)
        found["E"] = _with_interval(free.floor, free.floors)
    each = zip(widths, sizes, means, deviations, strict=True)
    found["table"] = [
        {
            "width": width,
            "weights": f"{size:,}",
            "loss": f"{mean:.3f}",
            "deviation": f"{deviation:.3f}",
        }
        for width, size, mean, deviation in each
    ]
    return found


def _with_interval(value, interval):
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def measure(run):
    """Trains a model, and returns its size and its held-out loss in nats."""
    import keras

    from kerasseq import models, training

    started = time.process_time()
    keras.utils.set_random_seed(run["seed"])
    shown, tested, vocabulary_size = data(run["data"])
    model = models.GPT(
        vocabulary_size=vocabulary_size,
        num_layers=BLOCKS,
        num_heads=HEADS,
        hidden_dim=run["width"],
        max_sequence_length=LENGTH,
    )
    rate = RATE * run["width"] ** POWER
    model.compile(training.gpt_optimizer(model, rate, run["steps"]))
    rng = np.random.default_rng(run["seed"])
    for _ in range(run["steps"]):
        starts = rng.integers(len(shown) - LENGTH, size=BATCH_SIZE)
        batch = np.stack([shown[n : n + LENGTH + 1] for n in starts])
        model.train_on_batch(batch[:, :-1], batch[:, 1:])
    count = len(tested) // (LENGTH + 1)
    rows = tested[: count * (LENGTH + 1)].reshape(count, LENGTH + 1)
    loss = model.evaluate(rows[:, :-1], rows[:, 1:], verbose=0, return_dict=True)
    return {
        "loss": float(loss["loss"]),
        "weights": model.count_params(),
        "cpu_seconds": time.process_time() - started,
    }


@functools.cache
def source():
    """A source of many symbols, whose contexts are of very different frequency."""
    from kerasseq import datasets

    return datasets.markov_source(
        SYMBOLS, ORDER, concentration=CONCENTRATION, least=1e-4
    )


@functools.cache
def data(name):
    """Ids to train on and to test, and the number of ids."""
    from kerasseq import datasets, text

    if name == "source":
        ids = source().sample(1, 300_000, seed=1)[0]
        return ids[:-TESTED], ids[-TESTED:], SYMBOLS
    reference = datasets.python_reference()
    tokenizer = text.CharacterTokenizer().fit(reference)
    ids = np.asarray(tokenizer.encode(reference))
    return ids[:-TESTED], ids[-TESTED:], tokenizer.vocabulary_size
