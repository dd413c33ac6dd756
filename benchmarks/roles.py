"""Heads with the name of a role, beside the heads that a model needs for it.

A GPT of 2 blocks with 4 heads and width 64 learns `datasets.role_sentences` in 500
steps of 64: AdamW at 3e-3 with a warm-up of 100 steps and a cosine, with the weight 1
at nouns, verbs and adverbs and 0.3 elsewhere. For each role of `tracing.head_roles` the
table has the head with the highest score on 300 other texts, the rise of the loss
without it in nats, the median of all 8 heads, and its rank among them. Only "pronoun to
noun" has bars: a score of 0.9, ten times the median, and rank 1.
"""

import numpy as np

from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.schedules import rising_then_cosine

BATCH_SIZE, RATE, WARM_UP, DECAY = 64, 3e-3, 100, 0.1
WIDTH, HEADS, BLOCKS, CONTEXT = 64, 4, 2, 32
ELSEWHERE = 0.3  # weight of the loss at words that no role tells
TESTED, TEST_SEED = 300, 1_000_000
WITH_BARS, SCORE, FACTOR = "pronoun to noun", 0.9, 10


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=500)
    parser.add_argument("--position", default="learned", choices=["learned", "rope"])
    add_resume_arguments(parser)


def run(options):
    """Trains a model with each seed, and returns a table."""
    runs = [
        {"seed": int(seed), "steps": options.steps, "position": options.position}
        for seed in options.seeds.split(",")
    ]
    rows = run_all(runs, measure, options)
    return {
        "finished": f"{len(rows)} of {len(runs)}",
        "table": [
            flat(row["seed"], role, best)
            for row in sorted(rows, key=lambda row: row["seed"])
            for role, best in row["best"].items()
        ],
    }


def flat(seed, role, best):
    """Returns a role of a run as a row of the table."""
    is_reached = (
        best["score"] >= SCORE
        and best["effect"] >= FACTOR * best["median"]
        and best["rank"] == 1
    )
    return {
        "seed": seed,
        "role": role,
        "head": f"{best['layer'].partition('/')[0]} {best['head']}",
        "score": f"{best['score']:.3f}",
        "effect": f"{best['effect']:+.4f}",
        "median": f"{best['median']:+.4f}",
        "rank": best["rank"],
        "loss": f"{best['loss']:.3f}",
        "bars": ("reached" if is_reached else "missed") if role == WITH_BARS else "",
    }


def measure(run):
    """Trains a model, and returns the best head of each role."""
    import keras

    from kerasseq import datasets, models, text, tracing

    keras.utils.set_random_seed(run["seed"])
    steps = run["steps"]
    sentences = datasets.role_sentences(steps * BATCH_SIZE, seed=run["seed"] + 1)
    tokenizer = text.WordTokenizer().fit(sentence.text for sentence in sentences)
    model = models.GPT(
        tokenizer,
        num_layers=BLOCKS,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        max_sequence_length=CONTEXT,
        position=run["position"],
    )
    model.compile(optimizer(steps))
    x, y, weights = batches(model, sentences)
    model.fit(x, y, sample_weight=weights, batch_size=BATCH_SIZE, verbose=0)
    test = datasets.role_sentences(TESTED, seed=TEST_SEED)
    found = tracing.head_roles(model, test)
    losses = of_roles(model, test, found.roles)
    return {
        "best": {
            role: {**found.best(role)._asdict(), "loss": losses[role]}
            for role in found.roles
        }
    }


def batches(model, sentences):
    """Inputs, targets and weights of texts, `(rows, T)` each."""
    rows = [model.ids(sentence.text) for sentence in sentences]
    ids = np.full((len(rows), max(map(len, rows))), -1)
    told = set()  # the ids of nouns, verbs and adverbs
    for n, (row, sentence) in enumerate(zip(rows, sentences, strict=True)):
        ids[n, : len(row)] = row
        told.update(row[[t for of in sentence.targets.values() for t in of]].tolist())
    weights = np.where(np.isin(ids, [*told]), 1.0, ELSEWHERE) * (ids >= 0)
    ids = np.maximum(ids, 0)
    return ids[:, :-1], ids[:, 1:], weights[:, 1:].astype("float32")


def of_roles(model, sentences, roles):
    """The loss at the targets of each role, in nats."""
    x, y, _ = batches(model, sentences)
    z = np.asarray(model.predict(x, verbose=0), "float64")
    z -= z.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    loss = -np.take_along_axis(log_p, y[..., None], axis=-1)[..., 0]
    return {
        role: float(
            np.mean(
                [
                    loss[n, t - 1]
                    for n, sentence in enumerate(sentences)
                    for t in sentence.targets[role]
                ]
            )
        )
        for role in roles
    }


def optimizer(steps):
    """AdamW whose rate rises, and then falls to 0 as a cosine."""
    import keras

    schedule = rising_then_cosine(RATE, steps, WARM_UP)
    return keras.optimizers.AdamW(schedule, weight_decay=DECAY, global_clipnorm=1.0)
