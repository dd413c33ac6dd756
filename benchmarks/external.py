"""External memories: pairs followed in two hops, and bits copied from a tape.

- "chains": a `MemoryNetwork` of width 32 answers where two pairs of 12 lead. Accuracy
  on 2,000 new lists, by ties and hops, and how often the second hop reads the pair in
  the middle.
- "copy": a `NTMCell` with a tape of 128 places of 20 numbers and a controller of 100
  units, beside an LSTM of as many weights, repeats 1 to 10 vectors of 8 bits. Both keep
  the weights that are best on a validation batch. The share of right bits for 10, 20
  and 40 vectors.

`--picture FILE` draws the tape of the last machine while it copies 10 vectors.
"""

import time

import numpy as np

from benchmarks.options import add_names_arguments
from kerasseq import datasets

PARTS = ("chains", "copy")
RUNS = (("layer", 2), ("adjacent", 2), ("layer", 1), ("adjacent", 1))
WIDTH, BATCH, RATE, CLIP = 32, 64, 1e-2, 10.0
UNITS, PLACES, COLUMNS, BITS = 100, 128, 20, 8
UPDATES = {"chains": 750, "copy": 1250}
COPY_BATCH, EVERY, LENGTHS = 16, 25, (10, 20, 40)


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(parser, [("--parts", PARTS, "chains,copy")])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, help="training steps of each part")
    parser.add_argument("--picture", help="a file for the tape, such as tape.png")


def run(options):
    """Trains the networks, and returns a table for each part."""
    seeds = [int(seed) for seed in options.seeds.split(",")]
    found = {}
    if "chains" in options.parts:
        steps = options.steps or UPDATES["chains"]
        found["chains"] = [
            {"tie": tie, "hops": hops, "seed": seed, **follow(tie, hops, seed, steps)}
            for tie, hops in RUNS
            for seed in (seeds if hops == 2 else seeds[:1])
        ]
    if "copy" in options.parts:
        steps = options.steps or UPDATES["copy"]
        found["copy"] = []
        for name in ("ntm", "lstm"):
            for seed in seeds:
                model, row = copy(name, seed, steps)
                found["copy"].append({"model": name, "seed": seed, **row})
            if name == "ntm" and options.picture:
                draw(model, options.picture)
    return found


def follow(tie, hops, seed, steps):
    """Trains a memory network on chains, and returns its scores."""
    import keras

    from kerasseq import layers

    keras.utils.set_random_seed(seed)
    symbols, start = 24, time.process_time()
    query = keras.Input((), dtype="int32")
    keys, values = (keras.Input((12,), dtype="int32") for _ in range(2))
    network = layers.MemoryNetwork(symbols, WIDTH, hops, tie)
    logits, p = network(query, keys, values, return_attention_scores=True)
    model = keras.Model([query, keys, values], logits)
    looks = keras.Model([query, keys, values], p)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE, global_clipnorm=CLIP), loss)
    data = datasets.chains(steps * BATCH, seed=seed)
    x = [data.query, data.keys, data.values]
    model.fit(x, data.answers, batch_size=BATCH, shuffle=False, verbose=0)
    new = datasets.chains(2000, seed=10_000)
    x = [new.query, new.keys, new.values]
    answers = model.predict(x, batch_size=500, verbose=0).argmax(-1)
    read = looks.predict(x, batch_size=500, verbose=0).argmax(-1)
    right = {"accuracy": float((answers == new.answers).mean())}
    if hops == 2:
        right["second hop"] = float((read[:, 1] == new.places[:, 1]).mean())
    return right | {"cpu seconds": round(time.process_time() - start, 1)}


def machine(name):
    """Builds a network that reads vectors with a mark, and writes logits of bits."""
    import keras

    from kerasseq import layers

    x = keras.Input((None, BITS + 1))
    if name == "ntm":
        cell = layers.NTMCell(UNITS, PLACES, COLUMNS)
        h = layers.RNN(cell, return_sequences=True)(x)
    else:  # as many weights, 62,280
        h = layers.LSTM(119, return_sequences=True)(x)
    return keras.Model(x, keras.layers.Dense(BITS)(h))


def copy(name, seed, steps):
    """Trains a network to copy; returns it with its best weights, and its scores."""
    import keras

    keras.utils.set_random_seed(seed)
    start, rng = time.process_time(), np.random.default_rng(seed)
    model = machine(name)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE, global_clipnorm=CLIP), loss)
    best, weights = -1.0, model.get_weights()
    for step in range(steps):
        length = int(rng.integers(1, 11))
        lengths = {"lengths": (length, length), "seed": int(rng.integers(2**31))}
        data = datasets.copy_bits(COPY_BATCH, bits=BITS, **lengths)
        model.train_on_batch(data.x, data.y, data.weights)
        if (step + 1) % EVERY == 0:
            score = right_bits(model, 10, seed=7)
            if score > best:
                best, weights = score, model.get_weights()
    model.set_weights(weights)
    scores = {f"bits of {n}": right_bits(model, n, seed=10_000) for n in LENGTHS}
    seconds = round(time.process_time() - start, 1)
    return model, {"weights": model.count_params(), **scores, "cpu seconds": seconds}


def right_bits(model, length, seed):
    """The share of the bits of 32 new sequences that are right."""
    data = datasets.copy_bits(32, bits=BITS, lengths=(length, length), seed=seed)
    found = np.asarray(model.predict_on_batch(data.x)) > 0
    return float((found == data.y)[data.weights > 0].mean())


def draw(model, file):
    """Draws the tape while 10 vectors are copied."""
    from kerasseq import tracing
    from kerasseq.tracing import plots

    data = datasets.copy_bits(1, bits=BITS, lengths=(10, 10), seed=1)
    with tracing.trace(model) as inside:
        model(data.x)
    title = "A machine copies ten vectors"
    plots.plot_tape(inside, title=title).savefig(file)
