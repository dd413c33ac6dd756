"""What sparse attention costs in accuracy and saves in memory: a map of six names.

An encoder of 2 blocks of width 32 with 4 heads reads 256 characters of the Python
reference, one of which is replaced at random by one of 16 marks, and has to say at each
place which mark it was. A window of 32 reaches 2 × 31 = 62 tokens in two layers: from
further away only guessing is left. All have the weights of dense attention within 1 %,
by the width of the feed-forward networks. Adam at 1e-2, constant, 150 steps of 8, JAX.

`longformer` and `adaptive_span` start from windows of 32; the second may learn wider
ones. `dense` and `blockwise` compute the same, so that their difference is chance.

- `loss`: mean over the seeds in nats per place of 128 texts that no model has read,
  with the deviation as `±`. Guessing is ln 16 = 2.77.
- `memory`: what XLA plans for a training step of one attention layer on a batch beside
  arguments and results, in T × T floats a head and text.
- `time`: CPU time of a training step of the whole model, as a ratio to that of dense.

`linformer` and `reformer` read all positions at once, so that no causal task could
compare them. With `--out FILE` each run is a line of the file, and is not run again;
`--figure FILE` draws the map.
"""

import math
import os
import time

import numpy as np

from benchmarks.modifications import corpus
from benchmarks.options import names_among, positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.steps import jax_step

LAYERS, WIDTH, HEADS, T, MARKS, BATCH = 2, 32, 4, 256, 16, 8
WINDOW, BLOCK, RANK, CHUNK = 32, 64, 32, 32
STEPS, RATE, CLIP, TESTED = 150, 1e-2, 1.0, 128
NAMES = ("dense", "blockwise", "longformer", "adaptive_span", "linformer", "reformer")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--names", type=names_among(NAMES), default=list(NAMES), help=", ".join(NAMES)
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=STEPS)
    parser.add_argument("--figure", help="a file for the map, such as map.png")
    add_resume_arguments(parser)


def run(options):
    """Trains the models, and returns the table."""
    if (options.backend or os.environ.get("KERAS_BACKEND")) != "jax":
        raise SystemExit(
            "the map needs JAX, whose compiler says how much memory a step takes. Pass "
            "--backend jax"
        )
    runs = [
        {"name": name, "seed": int(seed), "steps": options.steps}
        for seed in options.seeds.split(",")
        for name in options.names
    ]
    rows = run_all(runs, train, options)
    names = [name for name in options.names if any(r["name"] == name for r in rows)]
    table = [summary(name, rows) for name in names]
    for row in reversed(table):  # dense is the first
        row["time"] /= table[0]["time"]
    if options.figure:
        draw(table, options.figure)
    return {"runs": len(rows), "table": table}


def train(run):
    """Trains a model, and returns its loss, and what a step of it takes."""
    import keras

    ids, *_, vocabulary = corpus()
    ids, held_out = np.split(ids, [len(ids) - 4000])
    keras.utils.set_random_seed(run["seed"])
    model = make(run["name"], vocabulary)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE, global_clipnorm=CLIP), loss)
    x, y = examples(ids, run["steps"] * BATCH, vocabulary, run["seed"])
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    model.fit(x[:BATCH], y[:BATCH], **options)  # compiles
    start = time.process_time()
    model.fit(x, y, **options)
    seconds = (time.process_time() - start) / run["steps"]
    x, y = examples(held_out, TESTED, vocabulary, seed=10_000)
    return {
        "weights": model.count_params(),
        "loss": float(model.evaluate(x, y, batch_size=BATCH, verbose=0)),
        "memory": memory(run["name"]),
        "cpu ms": 1000 * seconds,
    }


def examples(ids, count, vocabulary, seed):
    """Draws texts with a mark: inputs `(count, 256)`, and its number at each place.

    The marks are the ids from `vocabulary` on.
    """
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(ids) - T, count)
    x = ids[starts[:, None] + np.arange(T)]
    marks = rng.integers(0, MARKS, count)
    x[np.arange(count), rng.integers(0, T, count)] = vocabulary + marks
    return x, np.repeat(marks[:, None], T, axis=1)


def make(name, vocabulary):
    """Makes a model that has as many weights as that of dense attention, within 1 %."""
    wanted = build("dense", vocabulary, 4 * WIDTH).count_params()
    few, more = (build(name, vocabulary, n).count_params() for n in (1, 2))
    return build(name, vocabulary, 1 + round((wanted - few) / (more - few)))


def build(name, vocabulary, width):
    """Builds a model with feed-forward networks of a width."""
    import keras

    from kerasseq import layers

    x = keras.Input((T,), dtype="int32")
    h = keras.layers.Embedding(vocabulary + MARKS, WIDTH)(x)
    h = h + layers.PositionEmbedding(T)(h)
    for _ in range(LAYERS):
        options = {"norm_placement": "pre", "attention": attention(name)}
        h = layers.TransformerEncoder(width, HEADS, **options)(h)
    h = keras.layers.LayerNormalization()(h)
    return keras.Model(x, keras.layers.Dense(MARKS)(h))


def attention(name):
    """Makes an attention layer by its name."""
    from kerasseq import layers

    sizes = HEADS, WIDTH // HEADS
    if name == "dense":
        return layers.MultiHeadAttention(*sizes)
    if name == "blockwise":
        return layers.BlockwiseAttention(*sizes, block_size=BLOCK)
    if name == "longformer":
        return layers.LongformerAttention(*sizes, sliding_window=WINDOW)
    if name == "adaptive_span":
        return layers.AdaptiveSpanAttention(*sizes, max_span=T, ramp=WINDOW)
    if name == "linformer":
        options = {"rank": RANK, "max_length": T, "share": "key_value"}
        return layers.LinformerAttention(*sizes, **options)
    buckets = 2 * T // CHUNK
    return layers.ReformerAttention(*sizes, num_buckets=buckets, chunk_length=CHUNK)


def memory(name):
    """What XLA plans for a training step of one layer, in T × T floats a head."""
    import keras

    layer = attention(name)
    x = keras.Input((T, WIDTH))
    model = keras.Model(x, layer(x, x))
    step, w = jax_step(model, np.zeros((BATCH, T, WIDTH), "float32"))
    analysis = step.lower(w).compile().memory_analysis()
    return analysis.temp_size_in_bytes / (4 * BATCH * HEADS * T * T)


def summary(name, rows):
    """Returns the row of the table of one name."""
    rows = [row for row in rows if row["name"] == name]
    losses = [row["loss"] for row in rows]
    return {
        "name": name,
        "weights": rows[0]["weights"],
        "loss": float(np.mean(losses)),
        "±": float(np.std(losses, ddof=1)) if losses[1:] else 0.0,
        "memory": float(np.median([row["memory"] for row in rows])),
        "time": float(np.median([row["cpu ms"] for row in rows])),
    }


def draw(table, file):
    """Draws memory against loss; the area of a mark is the time of a step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    for row in table:
        area = 300 * row["time"]
        axis.errorbar(row["memory"], row["loss"], row["±"], color="0.4", capsize=3)
        (mark,) = axis.plot(row["memory"], row["loss"], "o", ms=math.sqrt(area))
        mark.set_alpha(0.6)
        label = f"{row['name']}, time {row['time']:.2f}"
        radius = math.sqrt(area) / 2 + 4
        place, offset, side = row["loss"] + row["±"], (0, radius), ("center", "bottom")
        if row["name"] == "dense":  # the learned span, as wide as the text, is close
            place, offset, side = row["loss"], (-radius, 0), ("right", "center")
        axis.annotate(
            label,
            (row["memory"], place),
            offset,
            textcoords="offset points",
            ha=side[0],
            va=side[1],
        )
    axis.margins(0.2)
    axis.set(
        xlabel="memory of a training step of the layer (T × T floats a head)",
        ylabel="loss (nats a place)",
        title="Which mark stands among 256 characters? The area is the time",
    )
    figure.savefig(file, dpi=120)
