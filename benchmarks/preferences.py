"""Preferences: direct preference optimization of a small GPT that writes eight digits.

The GPT learns to write random digits, so half of them are even. Then it is trained on
pairs of its own answers, 400 steps of 64 pairs, with Adam at each of the rates:

- best: the answer with more even digits is chosen, beta 0.1. The share of even digits
  goes to 1. The divergence from the reference, KL, is then at least 8 ln 2 nats if the
  reference has half of each.
- votes: each even digit is worth r = 0.3, and votes are drawn by Bradley and Terry,
  beta 0.3. At the optimum the share is sigma(r / beta) = 0.731.

`even` is the share in 2,000 new answers; `KL` is summed over the tokens of these, with
the exact divergence of each. With `--out FILE` each run is a line of the file.
"""

import math

import numpy as np

from benchmarks.options import at_least, positive
from benchmarks.resumed import add_resume_arguments, run_all

DIGITS, PAIRS, ASKED, R = 8, 64, 2000, 0.3
BETAS = {"best": 0.1, "votes": 0.3}
VOTES = {"best": "best", "votes": "bradley_terry"}
RATES = ("1e-4", "1e-3")
PROMPT = ":"


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--steps", type=positive(int), default=400)
    parser.add_argument(
        "--pretraining", type=at_least(0, int), default=300, help="steps before"
    )
    add_resume_arguments(parser)


def run(options):
    """Trains on both kinds of preferences, and returns a table of shares."""
    common = {"steps": options.steps, "pretraining": options.pretraining}
    runs = [
        {"preferences": name, "rate": rate, "seed": int(seed), **common}
        for seed in options.seeds.split(",")
        for name in BETAS
        for rate in RATES
    ]
    return {
        "bound of KL": DIGITS * math.log(2),
        "share at the optimum of votes": 1 / (1 + math.exp(-R / BETAS["votes"])),
        "table": run_all(runs, train, options),
    }


def train(run):
    """Trains a model on preferences, and returns what it writes."""
    import keras

    from kerasseq import training

    name, seed = run["preferences"], run["seed"]
    keras.utils.set_random_seed(seed)
    model = writer(run["pretraining"], seed)
    pairs = judged(model, name, run["steps"] * PAIRS, seed)
    before = share(answers(model, ASKED, seed=seed + 1))
    dpo = training.DPO(model, BETAS[name])
    dpo.compile(keras.optimizers.Adam(float(run["rate"]), global_clipnorm=1.0))
    history = dpo.fit(
        pairs, batch_size=PAIRS, steps_per_epoch=run["steps"], verbose=0
    ).history
    after = answers(model, ASKED, seed=seed + 2)
    return {
        "even before": before,
        "even": share(after),
        "KL": divergence(dpo, after),
        "loss": history["loss"][-1],
        "backend": keras.config.backend(),
    }


def writer(steps, seed):
    """Returns a GPT that has learned to write random digits."""
    import keras

    from kerasseq import models, text

    tokenizer = text.CharacterTokenizer(unknown=None).fit(PROMPT + "0123456789")
    model = models.GPT(
        tokenizer, num_layers=2, num_heads=2, hidden_dim=32, max_sequence_length=16
    )
    if not steps:
        return model
    model.compile(keras.optimizers.Adam(3e-3, global_clipnorm=1.0))
    rng = np.random.default_rng(seed)
    digits = rng.integers(10, size=(steps * PAIRS, DIGITS))
    rows = [PROMPT + "".join(map(str, row)) for row in digits.tolist()]
    ids = np.stack(tokenizer.encode(rows))
    model.fit(ids[:, :-1], ids[:, 1:], batch_size=PAIRS, verbose=0)
    return model


def judged(model, name, count, seed):
    """Returns `count` preferences between answers of a model."""
    from kerasseq import datasets

    drawn = answers(model, 3 * count, seed=seed)  # a fifth of the pairs are ties
    pairs = [list(pair) for pair in zip(drawn[::2], drawn[1::2], strict=True)]
    found = datasets.preferences(
        [PROMPT] * len(pairs),
        pairs,
        lambda prompt, answer: R * even(answer),
        votes=VOTES[name],
        seed=seed,
    )
    return datasets.Preferences(*(column[:count] for column in found))


def answers(model, count, seed, at_once=4000):
    """Samples answers of a model."""
    rows = []
    for n in range(0, count, at_once):
        prompts = [PROMPT] * min(at_once, count - n)
        rows += model.generate(prompts, DIGITS, seed=1_000_000 * seed + n)
    return [row.removeprefix(PROMPT) for row in rows]


def even(answer):
    """The number of even digits."""
    return sum(digit in "02468" for digit in answer)


def share(rows):
    """The share of even digits."""
    return float(np.mean([even(row) for row in rows])) / DIGITS


def divergence(dpo, rows):
    """KL of the model from the reference, in nats an answer, over sampled answers."""
    from keras import ops

    ids = dpo.model.encode([PROMPT + row for row in rows])[:, :-1]
    own, fixed = (
        ops.convert_to_numpy(ops.log_softmax(model.predict(ids, verbose=0)))
        for model in (dpo.model, dpo.reference)
    )
    return float(np.mean(np.sum(np.exp(own) * (own - fixed), axis=(1, 2))))
