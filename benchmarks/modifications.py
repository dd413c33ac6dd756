"""Modifications of the Transformer at equal weights: Narang's table, in small.

Narang et al. 2021 changed one thing at a time in one model, and found that most changes
gain nothing. They compared long runs at equal compute. Here each name of `attention=`
and each option of the block is trained briefly on the Python reference by characters: a
GPT of 2 blocks of width 32 with 4 heads, whose feed-forward networks are as wide as it
takes to have the weights of the first row within 1 %. Adam at a constant rate, batches
of 16 × 32, 600 steps; the run is tested after 150 and after 600.

`early` and `late` are means over the seeds, with the deviation as `±`, in nats per
character of the last 8,192 characters, at the better of two rates by the 8,192 before.
`rank correlation` is that of Spearman between the two budgets. With `--out FILE` each
run is a line of the file, and is not run again; `--part 1/14 … 14/14` share the runs.
`--figure FILE.png` draws the table.
"""

import pathlib

import numpy as np

from benchmarks.options import names_among, positive
from benchmarks.resumed import add_resume_arguments, run_all

LAYERS, WIDTH, HEADS, LENGTH, BATCH = 2, 32, 4, 32, 16
BUDGETS, RATES, CLIP = (150, 600), (3e-3, 1e-2), 1.0
HELD_OUT = 8192  # characters for the choice of the rate, and as many for the test
OF_PAIRS = {  # they need positions; at 32 characters a default window is all pairs
    "multi_head": {},
    "blockwise": {},
    "longformer": {"sliding_window": 8},
    "adaptive_span": {},
}
IN_ITS_PLACE = (  # they know the order of the characters
    *("linear_attention", "gla", "retention", "delta_net", "mlstm", "rwkv7"),
    *("min_gru", "min_lstm", "gru", "lstm", "slstm", "s4d", "mamba", "rwkv4"),
)
FEED_FORWARDS = (  # "gelu" is that of the first row
    *("relu", "gelu_tanh", "silu", "glu", "bilinear", "reglu", "geglu", "geglu_tanh"),
    *("swiglu", "none"),
)
POSITIONS = ("sinusoidal", "rope", "alibi", "relative", "transformer_xl", "none")
OTHERS = {
    "norm=rms": {"norm": "rms"},
    "norm_placement=post": {"norm_placement": "post"},
    "norm_placement=deep": {"norm_placement": "deep"},
    "query_key_norm=layer": {"query_key_norm": "layer"},
    "query_key_norm=rms": {"query_key_norm": "rms"},
    "embedding_norm": {"embedding_norm": True},
    "no biases": {"use_bias": False},
    "parallel": {"parallel": True},
    "key_value_heads=2": {"num_key_value_heads": 2},
    "key_value_heads=1": {"num_key_value_heads": 1},
    "untied embeddings": {"tie_embeddings": False},
}
# By name the arguments of GPT that differ from the first row.
VARIANTS = {
    **{name: {"attention": name, **more} for name, more in OF_PAIRS.items()},
    **{name: {"attention": name, "position": None} for name in IN_ITS_PLACE},
    **{f"feed_forward={name}": {"feed_forward": name} for name in FEED_FORWARDS},
    **{
        f"position={name}": {"position": None if name == "none" else name}
        for name in POSITIONS
    },
    **OTHERS,
}
FIRST = "multi_head"


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--names",
        type=names_among(VARIANTS),
        default=list(VARIANTS),
        help=", ".join(VARIANTS),
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=BUDGETS[1])
    parser.add_argument("--figure", type=pathlib.Path, help="FILE.png")
    add_resume_arguments(parser)


def run(options):
    """Trains the models, and returns the table."""
    runs = [
        {"name": name, "rate": rate, "seed": int(seed), "steps": options.steps}
        for seed in options.seeds.split(",")
        for name in options.names
        for rate in RATES
    ]
    rows = run_all(runs, train, options)
    names = [name for name in options.names if any(r["name"] == name for r in rows)]
    table = [summary(name, rows) for name in names]
    correlation = rank_correlation(*([row[each] for row in table] for each in MEANS))
    if options.figure is not None:
        draw(table, correlation, options.figure)
    return {"runs": len(rows), "rank correlation": correlation, "table": table}


MEANS = ("early", "late")  # columns of the table, and the figures of a run


def train(run):
    """Trains a model, and returns its losses after both budgets."""
    import keras

    train_ids, *held_out, vocabulary = corpus()
    keras.utils.set_random_seed(run["seed"])
    model = make(run["name"], vocabulary)
    model.compile(keras.optimizers.Adam(run["rate"], global_clipnorm=CLIP))
    late = run["steps"]
    early = max(1, late * BUDGETS[0] // BUDGETS[1])
    x, y = examples(train_ids, late * BATCH, run["seed"])
    found, done = {"weights": model.count_params()}, 0
    for name, steps in zip(MEANS, (early, late), strict=True):
        part = slice(done * BATCH, steps * BATCH)
        model.fit(x[part], y[part], batch_size=BATCH, shuffle=False, verbose=0)
        done = steps
        for kind, ids in zip(("validation", "test"), held_out, strict=True):
            found[f"{name} {kind}"] = nats(model, ids)
    return {**found, "backend": keras.config.backend()}


def corpus():
    """Returns the ids for training, validation and test, and how many ids there are."""
    from kerasseq import datasets, text

    source = datasets.python_reference()
    tokenizer = text.CharacterTokenizer(unknown=None).fit(source)
    ids = tokenizer.encode(source)
    parts = np.split(ids, [len(ids) - 2 * HELD_OUT, len(ids) - HELD_OUT])
    return *parts, tokenizer.vocabulary_size


def examples(ids, count, seed):
    """Draws places in the text: inputs `(count, 32)` and the characters after them."""
    starts = np.random.default_rng(seed).integers(0, len(ids) - LENGTH, count)
    rows = ids[starts[:, None] + np.arange(LENGTH + 1)]
    return rows[:, :-1], rows[:, 1:]


def nats(model, ids):
    """The mean of −ln p over characters, each row of 32 by itself."""
    count = (len(ids) - 1) // LENGTH * LENGTH
    x, y = (ids[n : n + count].reshape(-1, LENGTH) for n in (0, 1))
    found = model.evaluate(x, y, batch_size=64, verbose=0, return_dict=True)
    return float(found["loss"])


def make(name, vocabulary):
    """Makes a model that has as many weights as the first row, within 1 %."""
    wanted = build(FIRST, vocabulary, 4 * WIDTH).count_params()
    if VARIANTS[name].get("feed_forward") == "none":  # more blocks, wider heads
        made = (
            build(name, vocabulary, None, num_layers=n, head_dim=width)
            for n in range(LAYERS, 3 * LAYERS + 1)
            for width in range(WIDTH // HEADS, WIDTH // 2)
        )
        return min(made, key=lambda model: abs(model.count_params() - wanted))
    few, more = (build(name, vocabulary, n).count_params() for n in (1, 2))
    width = 1 + round((wanted - few) / (more - few))
    return build(name, vocabulary, max(width, 1))


def build(name, vocabulary, width, **sizes):
    """Builds a model of a variant with feed-forward networks of a width."""
    from kerasseq import models

    changes = {"num_layers": LAYERS, "position": "learned", **VARIANTS[name], **sizes}
    return models.GPT(
        vocabulary_size=vocabulary,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=width,
        max_sequence_length=LENGTH,
        **changes,
    )


def summary(name, rows):
    """Returns the row of the table of one variant."""
    rows = [row for row in rows if row["name"] == name]
    found = {"name": name, "weights": rows[0]["weights"]}
    for budget in MEANS:
        rates = sorted({row["rate"] for row in rows})

        def validation(rate, budget=budget):
            of_rate = [r[f"{budget} validation"] for r in rows if r["rate"] == rate]
            return np.mean(of_rate)

        best = min(rates, key=validation)
        losses = [row[f"{budget} test"] for row in rows if row["rate"] == best]
        found[f"{budget} rate"] = best
        found[budget] = float(np.mean(losses))
        found[f"{budget} ±"] = float(np.std(losses, ddof=1)) if losses[1:] else 0.0
    return found


def rank_correlation(a, b):
    """Spearman's correlation between the ranks of two lists without ties.

    Examples:
        >>> round(rank_correlation([0.1, 0.2, 0.9], [1, 3, 2]), 3)
        0.5
    """
    if len(a) < 2:
        return float("nan")
    ranks = [np.argsort(np.argsort(each)) for each in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def draw(table, correlation, file):
    """Draws the losses of all variants after both budgets, the best ones on top."""
    from matplotlib.figure import Figure

    table = sorted(table, key=lambda row: -row["late"])
    figure = Figure(figsize=(7, 1.2 + 0.19 * len(table)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(table))
    for name, color, steps in zip(MEANS, ("0.6", "C0"), BUDGETS, strict=True):
        axes.errorbar(
            [row[name] for row in table],
            places,
            xerr=[row[f"{name} ±"] for row in table],
            fmt="o",
            markersize=4,
            color=color,
            label=f"{steps} steps",
        )
    first = next((row for row in table if row["name"] == FIRST), None)
    if first is not None:
        axes.axvline(first["late"], color="C0", linewidth=0.8, linestyle=":")
    axes.set_yticks(places, [row["name"] for row in table], fontsize=8)
    axes.margins(y=0.01)
    axes.set_xlabel("nats per character")
    axes.set_title(f"Rank correlation between the budgets: {correlation:.2f}")
    axes.legend(loc="upper right")
    figure.savefig(file, dpi=150)
