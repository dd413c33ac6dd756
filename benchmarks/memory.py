"""Two tasks of memory: which symbols came, and which value belongs to a key.

- "copying" (selective copying, Gu and Dao 2023): 6 symbols of 8 kinds stand at random
  among 32 places, the others are blank. After the places the model writes the symbols
  in order. What to keep depends on the input: a fixed recurrence cannot choose.
- "recall" (associative recall, Arora et al. 2023): pairs of a key and a value, then
  each key once, in another order. The model answers with the value of each.

`accuracy` is that of the answers in new examples; chance is 1/8 and 1/32. All models
have two blocks of width 64. Queries, keys and values of layers with heads have a short
convolution over 4 steps, since a pair has to be bound. `--pairs` may ask for more than
the state can hold.
"""

import functools
import time

import numpy as np

from benchmarks.options import add_names_arguments

WIDTH, HEADS, LAYERS, TEST = 64, 2, 2, 1024
BATCH_SIZES = {"copying": 32, "recall": 64}
KINDS, SYMBOLS, PLACES = 8, 6, 32  # of copying
KEYS = VALUES = 32  # of recall
LEARNING_RATE = 3e-3
STEPS = {"copying": 2500, "recall": 700}
MODELS = (  # delta_rule is DeltaNet with gated=False: it forgets nothing
    *("mamba", "s4d", "rwkv4", "min_gru", "min_lstm", "lstm", "multi_head"),
    *("linear_attention", "gla", "retention", "delta_net", "delta_rule"),
    *("slstm", "mlstm"),
)


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser,
        [("--tasks", STEPS, "copying,recall"), ("--models", MODELS, ",".join(MODELS))],
    )
    parser.add_argument("--seeds", default="0")
    parser.add_argument(
        "--pairs", type=int, default=8, help="pairs of recall, up to 32"
    )
    parser.add_argument("--steps", type=int, help="training steps (default: as above)")


def run(options):
    """Trains the models, and returns a table of accuracies."""
    table = []
    for task in options.tasks:
        steps = STEPS[task] if options.steps is None else options.steps
        for seed in map(int, options.seeds.split(",")):
            for name in options.models:
                start = time.perf_counter()
                accuracy = train(task, name, steps, seed, options.pairs)
                seconds = round(time.perf_counter() - start)
                row = {"task": task, "model": name, "seed": seed}
                table.append({**row, "accuracy": accuracy, "seconds": seconds})
    return {"pairs": options.pairs, "width": WIDTH, "blocks": LAYERS, "table": table}


def train(task, name, steps, seed, pairs):
    """Trains a model, and returns the accuracy of its answers in new examples."""
    import keras

    keras.utils.set_random_seed(seed)
    vocabulary = KINDS + 2 if task == "copying" else KEYS + VALUES
    model = make(name, vocabulary)
    rng = np.random.default_rng(seed)
    warm_up = steps // 10
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=LEARNING_RATE / 100,
        decay_steps=steps - warm_up,
        alpha=0.05,
        warmup_target=LEARNING_RATE,
        warmup_steps=warm_up,
    )
    model.compile(keras.optimizers.AdamW(schedule, global_clipnorm=1.0))

    def batches():
        while True:
            yield examples(task, rng, BATCH_SIZES[task], pairs)

    model.fit(batches(), steps_per_epoch=steps, shuffle=False, verbose=0)
    x, y, asked = examples(task, np.random.default_rng(10_000), TEST, pairs)
    found = np.concatenate(
        [
            np.asarray(model.predict_on_batch(part)).argmax(-1)
            for part in np.split(x, TEST // 64)
        ]
    )
    return float((found == y)[asked > 0].mean())


def make(name, vocabulary):
    """Makes a model by the name of its layer."""
    from kerasseq import layers, models

    sizes = {"vocabulary_size": vocabulary, "num_layers": LAYERS, "hidden_dim": WIDTH}
    if name == "mamba":
        return models.Mamba(**sizes)
    if name == "rwkv4":
        return models.RWKV(**sizes)
    position, layer = None, name
    if name == "multi_head":
        position = "learned"
    with_heads = {
        "linear_attention": layers.LinearAttention,
        "gla": layers.GatedLinearAttention,
        "retention": layers.Retention,
        "delta_net": layers.DeltaNet,
        "mlstm": layers.MLSTM,
        "delta_rule": functools.partial(layers.DeltaNet, gated=False),
    }
    if name in with_heads:
        layer = with_heads[name](HEADS, WIDTH // HEADS, conv_kernel=4)
    return models.GPT(**sizes, num_heads=HEADS, attention=layer, position=position)


def examples(task, rng, count, pairs=8):
    """Draws examples of a task.

    Args:
        task: "copying" or "recall".
        rng: NumPy's random generator.
        count: Number of examples.
        pairs: Pairs of recall.

    Returns:
        Ids, targets and a float32 mask of the steps with an answer, each `(count, T)`.
    """
    if task == "copying":
        return copying(rng, count)
    return recall(rng, count, pairs)


def copying(rng, count):
    """Examples of "copying": blank is 8, and 9 asks for the next symbol."""
    x = np.full((count, PLACES + SYMBOLS), KINDS, "int32")
    symbols = rng.integers(0, KINDS, (count, SYMBOLS))
    order = rng.permuted(np.tile(np.arange(PLACES), (count, 1)), axis=1)
    places = np.sort(order[:, :SYMBOLS], axis=1)
    np.put_along_axis(x, places, symbols, axis=1)
    x[:, PLACES:] = KINDS + 1
    y = np.zeros_like(x)
    y[:, PLACES:] = symbols
    return x, y, np.repeat((np.arange(x.shape[1]) >= PLACES)[None], count, 0) * 1.0


def recall(rng, count, pairs):
    """Examples of "recall": keys are 0 to 31, values 32 to 63."""
    keys = rng.permuted(np.tile(np.arange(KEYS), (count, 1)), axis=1)[:, :pairs]
    values = KEYS + rng.integers(0, VALUES, (count, pairs))
    x = np.stack([keys, values], axis=2).reshape(count, 2 * pairs)
    order = rng.permuted(np.tile(np.arange(pairs), (count, 1)), axis=1)
    asked = np.take_along_axis(keys, order, axis=1)
    x = np.concatenate([x, asked], axis=1).astype("int32")
    y = np.zeros_like(x)
    y[:, 2 * pairs :] = np.take_along_axis(values, order, axis=1)
    return x, y, np.repeat((np.arange(3 * pairs) >= 2 * pairs)[None], count, 0) * 1.0
