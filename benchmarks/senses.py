"""The sense of a homonym inside language models: probes, and swaps that change verbs.

Models of width 32 with 4 heads and 2 blocks, of self-attention, a GRU or Mamba, learn
the sentences of `datasets.homonyms`: 200 steps of 32, Adam at 4e-3 with a warm-up and a
cosine, with the weight 1 at verbs and 0.2 elsewhere. Then, on pairs of noun and cue
that training does not have: a probe before block 0, and after it, on these pairs and on
the worst of the words if the probe has not seen them; the probe with control labels;
the share of verbs of the right sense. Last, `tracing.patch` puts `block_0/output` of
the other sense in the place of the word: how often the verb right after it is then of
the other sense, also with noise of the same norm, and the value of another sentence
with the same word and sense. With `--neutral 2` up to two words stand between noun and
verb, and two do in the swaps: of one block's output, and of the hidden states of all
layers.
"""

import numpy as np

from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.schedules import rising_then_cosine

BATCH_SIZE, RATE, WARM_UP = 32, 4e-3, 20
WIDTH, HEADS, BLOCKS, CONTEXT = 32, 4, 2, 16
ELSEWHERE = 0.2  # weight of the loss at other words than verbs
PROBED, TESTED = 400, 240  # pairs
NAMES = ("transformer", "gru", "mamba")
LAYERS = {"transformer": "multi_head"}
BARS = {  # of names with a bar, at no neutral word
    "probe before": (0.5, 0.5),
    "held-out pairs": (0.95, 1),
    "worst word": (0.95, 1),
    "control": (0, 0.65),
    "swap": (0.9, 1),
    "noise": (0, 0.1),
    "same sense": (0, 0.05),
}
WITH_BARS = ("transformer", "gru")  # of swaps; probes have them everywhere
OF_SWAPS = ("swap", "noise", "same sense")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--languages", default="en")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--neutral", type=int, default=0)
    parser.add_argument("--steps", type=positive(int), default=200)
    add_resume_arguments(parser)


def run(options):
    """Trains each model with each seed, and returns a table."""
    runs = [
        {"name": name, "language": language, "seed": int(seed),
         "neutral": options.neutral, "steps": options.steps}
        for language in options.languages.split(",")
        for name in options.names.split(",")
        for seed in options.seeds.split(",")
    ]  # fmt: skip
    rows = run_all(runs, measure, options)
    return {
        "finished": f"{len(rows)} of {len(runs)}",
        "outside of bars": ", ".join(filter(None, map(outside, rows))) or "none",
        "table": [flat(row) for row in rows],
    }


def flat(row):
    """Returns a run as a row of the table."""
    return {
        "name": row["name"],
        "language": row["language"],
        "seed": row["seed"],
        **{key: f"{x:.3f}" for key, x in row["figures"].items()},
    }


def outside(row):
    """Returns which figures of a run are outside of the bars, as text."""
    if row["neutral"] or row["language"] != "en" or row["steps"] < 200:
        return ""
    wrong = [
        key
        for key, (low, high) in BARS.items()
        if not low <= row["figures"][key] <= high
        and (row["name"] in WITH_BARS or key not in OF_SWAPS)
    ]
    return f"{row['name']} {row['seed']}: {', '.join(wrong)}" if wrong else ""


def measure(run):
    """Trains a model, and returns its figures."""
    import keras

    from kerasseq import datasets

    keras.utils.set_random_seed(run["seed"])
    corpus = datasets.homonyms(run["language"], neutral=run["neutral"])
    model = trained(corpus, run["name"], run["steps"], run["seed"])
    figures = probes(model, corpus) | swaps(model, corpus, run)
    return {"figures": figures, "weights": model.count_params()}


def trained(corpus, name, steps, seed):
    """A language model that has learned the sentences of a corpus."""
    import keras

    from kerasseq import models, text

    tokenizer = text.WordTokenizer().fit(corpus.vocabulary)
    model = models.GPT(
        tokenizer,
        num_layers=BLOCKS,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        max_sequence_length=CONTEXT,
        attention=LAYERS.get(name, name),
        position="learned" if name == "transformer" else None,
    )
    rate = rising_then_cosine(RATE, steps, WARM_UP)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    sentences = corpus.sample(steps * BATCH_SIZE, seed=seed + 1)
    ids = encoded(model, [sentence.text for sentence in sentences])
    verbs = model.ids(" ".join(verb for of in corpus.verbs.values() for verb in of))
    y = np.maximum(ids[:, 1:], 0)
    weights = np.where(np.isin(y, verbs), 1.0, ELSEWHERE) * (ids[:, 1:] >= 0)
    model.fit(
        *(np.maximum(ids[:, :-1], 0), y),
        sample_weight=weights.astype("float32"),
        batch_size=BATCH_SIZE,
        verbose=0,
    )
    return model


def encoded(model, texts):
    """Ids `(rows, T)`, -1 after the end of a text."""
    rows = [model.ids(text) for text in texts]
    ids = np.full((len(rows), max(map(len, rows))), -1)
    for n, row in enumerate(rows):
        ids[n, : len(row)] = row
    return ids


def probes(model, corpus):
    """Accuracies of probes before and after the first block."""
    from kerasseq import tracing

    def of_pairs(held_out):
        count = TESTED if held_out else PROBED
        pairs = corpus.pairs(count, held_out=held_out, seed=5)
        return [sentence for pair in pairs for sentence in pair]

    known, new = of_pairs(False), of_pairs(True)
    found = tracing.senses(model, known, corpus.words, new)
    before, after = found.row("block_0", "input"), found.row("block_0")
    of_words = []
    for word in corpus.words:
        others = [sentence for sentence in known if sentence.word != word]
        test = [sentence for sentence in new if sentence.word == word]
        each = tracing.senses(model, others, corpus.words, test)
        of_words.append(each.row("block_0").probe_accuracy)
    return {
        "probe before": before.probe_accuracy,
        "held-out pairs": after.probe_accuracy,
        "worst word": min(of_words),
        "control": after.control_accuracy,
    }


def swaps(model, corpus, run):
    """Shares of the verbs that are of the other sense after a swap at the word."""
    from kerasseq import tracing

    pairs = corpus.pairs(TESTED, neutral=run["neutral"], seed=7)
    sentences = [pair[n] for n in (0, 1) for pair in pairs]
    x = np.maximum(encoded(model, [sentence.text for sentence in sentences]), 0)
    words = np.array([sentence.position for sentence in sentences])
    verbs = words + run["neutral"]  # the step that predicts the verb
    expected = np.arange(len(x)) >= len(pairs)

    def is_thing(logits):
        z = np.asarray(logits)[np.arange(len(x)), verbs]
        p = np.exp(z - z.max(axis=-1, keepdims=True))
        animal, thing = (
            p[:, model.ids(" ".join(corpus.verbs[sense]))].sum(axis=-1)
            for sense in ("animal", "thing")
        )
        return thing > animal

    before = is_thing(model.predict(x, verbose=0))
    # The other sentence of the pair, or one of the same word and sense 8 pairs on.
    other = np.roll(np.arange(len(x)), len(pairs))
    same = np.concatenate([np.roll(half, 8) for half in np.split(np.arange(len(x)), 2)])

    def changed(key, rows=other, **options):
        y = tracing.patch(
            model, x, x[rows], key, words, other_positions=words[rows], **options
        )
        return float(np.mean(is_thing(y) != before))

    block = "block_0/output"
    found = {
        "right": float(np.mean(before == expected)),
        "swap": changed(block),
        "noise": changed(block, noise_seed=0),
        "same sense": changed(block, same),
    }
    if run["name"] != "transformer":
        states = [f"block_{n}/{run['name']}/hidden_state" for n in range(BLOCKS)]
        return found | {"all states": changed(states)}
    return found | {"all states": float("nan")}
