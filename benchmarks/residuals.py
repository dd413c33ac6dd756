"""What residual connections change: training, the loss around the weights, and states.

Networks of 10 to 30 dense layers of 32 units learn scikit-learn's pictures of digits,
with and without residual connections; then the loss along 8 random lines through the
weights, normalized filter by filter, says how sharp the minimum is (He et al. 2016; Li
et al. 2018). Transformers of six blocks learn a Markov source: without residual
connections the states of all positions are nearly the same at the start (Dong et al.
2021), and nothing is learned. With `--out FILE` each run is a line of the file, so that
the same command goes on where it was stopped and prints what is finished.
"""

import time

import numpy as np

from benchmarks.resumed import add_resume_arguments, run_all

UNITS, ROWS, BATCH_SIZE, STEPS, RATE = 32, 1200, 64, 300, 1e-3
LINES, POINTS = 8, 21
DISTANCES = {"rise": 0.5, "rise at 1": 1.0}  # at 1 a filter moves by its own length
BLOCKS, LENGTH, GPT_BATCH, GPT_STEPS, GPT_RATE = 6, 24, 16, 120, 3e-3
SOURCE_SEED, TESTED = 0, 500


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--depths", default="10,20,30", help="of the dense networks")
    parser.add_argument("--seeds", default="0,1,2")
    add_resume_arguments(parser)


def run(options):
    """Trains each network with each seed, and returns both tables and the bars."""
    depths = [int(depth) for depth in options.depths.split(",") if depth]
    runs = [
        {"model": model, "depth": depth, "residual": residual, "seed": int(seed)}
        for model, at in (("dense", depths), ("transformer", [BLOCKS]))
        for depth in at
        for residual in (True, False)
        for seed in options.seeds.split(",")
    ]
    rows = run_all(runs, measure, options)
    return {
        "finished": f"{len(rows)} of {len(runs)}",
        **bars(rows),
        "table": [flat(row) for row in rows],
    }


def flat(row):
    """Returns a run as a row of the table."""
    figures = ("accuracy", "curvature", *DISTANCES, "first", "last")
    figures += ("spread", "bits", "above order 0")
    return {
        **{key: row[key] for key in ("model", "depth", "residual", "seed")},
        **{key: f"{row[key]:.4g}" if key in row else "" for key in figures},
        "cpu seconds": f"{row['cpu_seconds']:.0f}",
    }


def bars(rows):
    """Returns the least ratio over the pairs of seeds for each claim."""
    found = {}

    def of(model, depth, residual, key):
        wanted = (model, depth, residual)
        chosen = [r for r in rows if (r["model"], r["depth"], r["residual"]) == wanted]
        return [row[key] for row in chosen]

    for depth in sorted({row["depth"] for row in rows if row["model"] == "dense"}):
        for key in ("curvature", *DISTANCES):
            with_it, without = (of("dense", depth, r, key) for r in (True, False))
            if with_it and without:
                found[f"{key} without / with, depth {depth}"] = round(
                    min(without) / max(with_it), 1
                )
        trained = [
            f"{sum(a >= 0.9 for a in of('dense', depth, r, 'accuracy'))}"
            for r in (True, False)
        ]
        found[f"trained to 0.9, depth {depth}"] = " with, ".join(trained) + " without"
    with_it, without = (of("transformer", BLOCKS, r, "spread") for r in (True, False))
    if with_it and without:
        found["spread of the states with / without"] = round(
            min(with_it) / max(without), 1
        )
    return found


def measure(run):
    """Trains a network, and returns its figures."""
    started = time.process_time()
    measured = dense_network if run["model"] == "dense" else transformer
    found = measured(run["depth"], run["residual"], run["seed"])
    return {**found, "cpu_seconds": time.process_time() - started}


def dense_network(depth, residual, seed):
    """Trains $x + relu(W x)$, or $relu(W x)$, on digits."""
    import keras

    from kerasseq import tracing

    x, labels = digits()
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((x.shape[1],))
    he = keras.initializers.HeNormal
    h = keras.layers.Dense(UNITS, "relu", kernel_initializer=he(), name="first")(inputs)
    for n in range(depth):
        # Variance 2 / D, and 2 / (D depth) for what is added to its input.
        scale = 2 / depth if residual else 2.0
        initializer = keras.initializers.VarianceScaling(scale, "fan_in", "normal")
        layer = keras.layers.Dense(
            *(UNITS, "relu"), kernel_initializer=initializer, name=f"layer_{n}"
        )
        h = h + layer(h) if residual else layer(h)
    model = keras.Model(inputs, keras.layers.Dense(10, name="output")(h))
    model.compile(
        keras.optimizers.Adam(RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    x_train, y_train = x[:ROWS], labels[:ROWS]
    of_layers = list(tracing.gradient_by_depth(model, x_train, y_train).values())
    rng = np.random.default_rng(seed)
    for _ in range(STEPS):
        rows = rng.integers(ROWS, size=BATCH_SIZE)
        model.train_on_batch(x_train[rows], y_train[rows])
    lines = [
        tracing.loss_surface(
            *(model, x_train, y_train), directions=1, points=POINTS, seed=line
        )
        for line in range(LINES)
    ]
    accuracy = model.evaluate(x_train, y_train, verbose=0, return_dict=True)["accuracy"]
    return {
        "accuracy": float(accuracy),
        "curvature": float(np.median([line.curvature for line in lines])),
        **{
            name: float(np.median([line.rise(distance) for line in lines]))
            for name, distance in DISTANCES.items()
        },
        "first": of_layers[1],  # of the hidden layers, at the start
        "last": of_layers[-2],
    }


def digits():
    """Scikit-learn's pictures of digits in a random order, from -1 to 1."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = (found.data[order] / 8 - 1).astype("float32")
    return x, found.target[order].astype("int32")


def transformer(blocks, residual, seed):
    r"""Trains a GPT on a Markov source; its loss, and the spread of its states.

    A model that knows the frequencies of the symbols alone is at 0 above order 0.

    The spread of the states h of the last block is how much they differ between
    positions: $\sum_t \|h_t - \bar h\|^2 / \sum_t \|h_t\|^2$.
    """
    import keras

    from kerasseq import datasets, models, tracing, training

    source = datasets.markov_source(5, order=2, seed=SOURCE_SEED)
    keras.utils.set_random_seed(seed)
    model = models.GPT(
        vocabulary_size=5,
        num_layers=blocks,
        num_heads=4,
        hidden_dim=UNITS,
        position="rope",
        max_sequence_length=LENGTH,
        residual=residual,
    )
    model.compile(keras.optimizers.Adam(GPT_RATE))
    sequences = source.sample(GPT_STEPS * GPT_BATCH, LENGTH + 1, seed=seed + 1)
    with tracing.trace(model) as trace:
        model(sequences[:GPT_BATCH, :-1])
    h = trace[f"block_{blocks - 1}/feed_forward_residual"]
    spread = ((h - h.mean(1, keepdims=True)) ** 2).sum() / (h**2).sum()
    for n in range(GPT_STEPS):
        batch = sequences[n * GPT_BATCH : (n + 1) * GPT_BATCH]
        model.train_on_batch(batch[:, :-1], batch[:, 1:])
    tested = source.sample(TESTED, LENGTH + 1, seed=1_000_000)
    found = training.excess(model, source, tested)
    p = source.stationary.sum(axis=tuple(range(source.order - 1)))
    return {
        "spread": float(spread),
        "bits": found.bits,
        "above order 0": found.bits + float(p @ np.log2(p)),
    }
