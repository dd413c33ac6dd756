"""Counting: are parentheses of one color balanced? Who can keep a state of any depth.

Models are trained and tested on `datasets.parentheses(colors=1, kind="hard")`: 22 to 40
symbols, half of the strings with one wrong symbol. One layer of 32 units, Adam with
rate 5e-3, gradients clipped to norm 1, 5,000 steps of 64 new strings. The weights are
those with the best accuracy on 1,024 strings for validation, tried every 250 steps;
`accuracy` is that of 4,096 other strings. Chance is 0.5.

With `--out FILE` each model and seed is a line of the file, and is not run again.
"""

import numpy as np

from benchmarks.options import add_names_arguments, positive
from benchmarks.resumed import add_resume_arguments, run_all

NAMES = ("lstm", "slstm", "mlstm", "rwkv7", "mamba", "transformer")
UNITS, BATCH, RATE, CLIP, STEPS, EVERY = 32, 64, 5e-3, 1.0, 5000, 250
VALIDATION, TEST = 1024, 4096


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(parser, [("--names", NAMES, ",".join(NAMES))])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=STEPS)
    add_resume_arguments(parser)


def run(options):
    """Trains the models, and returns a table of accuracies."""
    runs = [
        {"name": name, "seed": int(seed), "steps": options.steps}
        for seed in options.seeds.split(",")
        for name in options.names
    ]
    return {"units": UNITS, "table": run_all(runs, train, options)}


def train(run):
    """Trains a model, and returns its accuracy on new strings."""
    import keras

    from kerasseq import models

    name, seed, steps = run["name"], run["seed"], run["steps"]
    keras.utils.set_random_seed(seed)
    model = models.SequenceClassifier(name, 2, vocabulary_size=3, units=UNITS)
    model.compile(keras.optimizers.Adam(RATE, global_clipnorm=CLIP))
    validation = strings(VALIDATION, seed=10_000)
    best, weights = -1.0, model.get_weights()
    for first in range(0, steps, EVERY):
        count = min(EVERY, steps - first)
        x, y = strings(count * BATCH, seed=(seed + 1) * 100_000 + first)
        model.fit(x, y, batch_size=BATCH, verbose=0)
        score = accuracy(model, *validation)
        if score > best:
            best, weights = score, model.get_weights()
    model.set_weights(weights)
    return {
        "weights": model.count_params(),
        "validation": best,
        "accuracy": accuracy(model, *strings(TEST, seed=20_000)),
        "backend": keras.config.backend(),
    }


def strings(size, seed):
    """Returns ids `(size, 40)` of new strings, and whether each is balanced."""
    from kerasseq import datasets

    data = datasets.parentheses(size, colors=1, kind="hard", seed=seed)
    return data.ids, data.labels


def accuracy(model, x, y):
    """The share of the strings that a model classifies rightly."""
    found = model.predict(x, batch_size=512, verbose=0).argmax(-1)
    return float(np.mean(found == y))
