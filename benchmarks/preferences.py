"""Preferences: a small GPT that writes eight digits learns to write even ones.

The GPT learns to write random digits, so half of them are even. Then it is trained by
400 steps of 64 pairs or answers, with Adam.

Method "dpo", direct preference optimization on pairs of its own answers, at two rates:

- best: the answer with more even digits is chosen, beta 0.1. The share of even digits
  goes to 1. The divergence from the reference, KL, is then at least 8 ln 2 nats if the
  reference has half of each.
- votes: each even digit is worth r = 0.3, and votes are drawn by Bradley and Terry,
  beta 0.3. At the optimum the share is sigma(r / beta) = 0.731.

Method "reward", a reward model of the same GPT, on the pairs of "best"; `right pairs`
is the share of 2,000 new pairs that it puts into the right order.

Method "grpo", on 16 answers to each of four prompts, rewarded by the share of even
digits, at the rate 1e-3 and beta 0.04:

- unscaled: `scale_rewards=False`. The share tends to sigma(15 / 16 / (8 beta)) = 0.949.
- no ratio: also `use_bias_correction_kl=False`. It tends to 0.858, where the gradients
  of reward and KL(reference, model) are equal.
- scaled: `scale_rewards=True` has no such limit.

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
METHODS = ("dpo", "reward", "grpo")
GENERATIONS, GRPO_BETA = 16, 0.04
GRPO = {
    "unscaled": {"scale_rewards": False},
    "no ratio": {"scale_rewards": False, "use_bias_correction_kl": False},
    "scaled": {"scale_rewards": True},
}
PROMPT = ":"


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--method", choices=METHODS, nargs="+", default=list(METHODS))
    parser.add_argument("--steps", type=positive(int), default=400)
    parser.add_argument(
        "--pretraining", type=at_least(0, int), default=300, help="steps before"
    )
    add_resume_arguments(parser)


def run(options):
    """Trains by each method, and returns a table of shares."""
    common = {"steps": options.steps, "pretraining": options.pretraining}
    settings = {
        "dpo": [(name, rate) for name in BETAS for rate in RATES],
        "reward": [("best", "1e-3")],
        "grpo": [(name, "1e-3") for name in GRPO],
    }
    runs = [
        {"method": method, "of": name, "rate": rate, "seed": int(seed), **common}
        for seed in options.seeds.split(",")
        for method in options.method
        for name, rate in settings[method]
    ]
    pull = (1 - 1 / GENERATIONS) / (DIGITS * GRPO_BETA)
    return {
        "bound of KL": DIGITS * math.log(2),
        "share at the optimum of votes": 1 / (1 + math.exp(-R / BETAS["votes"])),
        "share at the optimum of GRPO, unscaled": 1 / (1 + math.exp(-pull)),
        "share at the optimum of GRPO, no ratio": without_ratio(pull),
        "table": run_all(runs, train, options),
    }


def without_ratio(pull):
    """The share p at which (p - 1/2) / (p (1 - p)) equals the pull of the reward."""
    return (pull - 1 + math.hypot(1, pull)) / (2 * pull)


def train(run):
    """Trains a model, and returns what it writes or how it judges."""
    import keras

    seed = run["seed"]
    keras.utils.set_random_seed(seed)
    model = writer(run["pretraining"], seed)
    found = {"right pairs": None, "even before": None, "even": None, "KL": None}
    if run["method"] == "reward":
        return {**found, **judge(model, run), "backend": keras.config.backend()}
    before = share(answers(model, ASKED, seed=seed + 1))
    trained, history = (dpo if run["method"] == "dpo" else grpo)(model, run)
    after = answers(model, ASKED, seed=seed + 2)
    return {
        **found,
        "even before": before,
        "even": share(after),
        "KL": divergence(trained, after),
        "loss": history["loss"][-1],
        "backend": keras.config.backend(),
    }


def adam(run):
    """The optimizer of a run."""
    import keras

    return keras.optimizers.Adam(float(run["rate"]), global_clipnorm=1.0)


def dpo(model, run):
    """Trains on preferences, and returns the `DPO` and its history."""
    from kerasseq import training

    pairs = judged(model, run["of"], run["steps"] * PAIRS, run["seed"])
    trained = training.DPO(model, BETAS[run["of"]])
    trained.compile(adam(run))
    options = {"batch_size": PAIRS, "steps_per_epoch": run["steps"], "verbose": 0}
    return trained, trained.fit(pairs, **options).history


def grpo(model, run):
    """Trains on rewards, and returns the `GRPO` and its history."""
    from kerasseq import training

    prompts = [PROMPT] * (64 // GENERATIONS)
    trained = training.GRPO(
        model,
        lambda prompts, answers: [even(answer) / DIGITS for answer in answers],
        GENERATIONS,
        GRPO_BETA,
        max_new_tokens=DIGITS,
        **GRPO[run["of"]],
    )
    trained.compile(adam(run))
    options = {"batch_size": len(prompts), "steps_per_epoch": run["steps"]}
    history = trained.fit(prompts, seed=run["seed"], verbose=0, **options).history
    return trained, history


def judge(model, run):
    """Trains a reward model, and returns the share of new pairs in the right order."""
    seed = run["seed"]
    pairs = judged(model, "best", run["steps"] * PAIRS, seed)
    others = judged(model, "best", ASKED, seed + 1)
    rewards = model.with_head("reward")
    rewards.compile(adam(run))
    history = rewards.fit(
        pairs, batch_size=PAIRS, steps_per_epoch=run["steps"], verbose=0
    ).history
    found = rewards.evaluate(others, batch_size=500, verbose=0, return_dict=True)
    return {"right pairs": found["accuracy"], "loss": history["loss"][-1]}


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


def divergence(trained, rows):
    """KL of the model from the reference, in nats an answer, over sampled answers."""
    from keras import ops

    ids = trained.model.encode([PROMPT + row for row in rows])[:, :-1]
    own, fixed = (
        ops.convert_to_numpy(ops.log_softmax(model.predict(ids, verbose=0)))
        for model in (trained.model, trained.reference)
    )
    return float(np.mean(np.sum(np.exp(own) * (own - fixed), axis=(1, 2))))
