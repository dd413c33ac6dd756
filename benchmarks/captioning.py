"""Captions of scenes by a recurrent decoder that attends to a feature map.

Scenes of two shapes; a convolution returns a map of 6 x 6 cells of 4 pixels, and a GRU
writes the caption word by word (Xu et al., 2015), with soft attention, or with hard
attention that is trained by reinforcement. The table has, of 512 scenes that training
has not, the share whose caption is written exactly, where "A left of B" is also "B
right of A"; and for the words of color and shape of the true captions the share of the
weight that lies inside the box of the named shape, each cell spread evenly over its
pixels. `pointed` is the share of these words whose largest cell has its center in the
box. A uniform map is printed beside them. Each box covers at least one whole cell, so
that 1 is possible. AdamW as in `multimodal`, batches of 64. With `--out FILE` each run
is a line of the file, so that the same command goes on where it was stopped and prints
what is finished.
"""

import time

import numpy as np

from benchmarks.multimodal import BATCH_SIZE, EVERY, optimizer
from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.scene_rows import DRAWN, TEST_SEED

SIZE, CELL, UNITS, RATE, TESTED = 24, 4, 96, 2e-3, 512
CELLS = SIZE // CELL
ATTENTION = ("soft", "hard")


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--attention", default=",".join(ATTENTION), help="soft, hard, with commas"
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument(
        "--steps", type=positive(int), default=2000, help="steps of training"
    )
    add_resume_arguments(parser)


def run(options):
    """Trains a model of each kind with each seed, and returns tables of shares."""
    runs = [
        {"attention": kind, "seed": int(seed), "steps": options.steps}
        for kind in options.attention.split(",")
        for seed in options.seeds.split(",")
    ]
    rows = run_all(runs, measure, options)
    even = np.full((CELLS, CELLS), 1 / CELLS**2)
    uniform = shares(lambda n, word: even, test_scenes())
    return {
        "finished": f"{len(rows)} of {len(runs)}",
        "table": [flat(row) for row in rows],
        "uniform map, in box": f"{uniform['in_box']:.3f}",
    }


def flat(row):
    """Returns a run as a row of the table."""
    of_run = {name: row[name] for name in ("attention", "seed", "steps", "weights")}
    found = {name: f"{row[name]:.3f}" for name in ("exact", "in_box", "pointed")}
    return {**of_run, **found, "cpu minutes": f"{row['cpu_seconds'] / 60:.1f}"}


def measure(run):
    """Trains a model, and returns its figures."""
    import keras

    from kerasseq import datasets, models, text

    keras.utils.set_random_seed(run["seed"])
    test = test_scenes()
    words = text.WordTokenizer().fit(test.texts)
    model = models.Seq2Seq(
        convolution(),
        target_tokenizer=words,
        decoder="gru",
        attention=run["attention"],
        units=UNITS,
    )
    model.compile(optimizer(run["steps"], RATE))
    done, seconds = 0, 0.0
    while done < run["steps"]:
        steps = min(EVERY, run["steps"] - done)
        seed = 1000 * run["seed"] + done // EVERY
        data = datasets.scenes(steps * BATCH_SIZE, objects=2, seed=seed, **DRAWN)
        start = time.process_time()
        model.fit(data.images, data.texts, batch_size=BATCH_SIZE, seed=seed, verbose=0)
        seconds += time.process_time() - start
        done += steps
    texts = model.generate(list(test.images))
    exact = [text in test.true_captions(n) for n, text in enumerate(texts)]
    maps = model.attention_maps(test.images, test.texts)
    return {
        "exact": float(np.mean(exact)),
        **shares(lambda n, word: maps[n][word], test),
        "cpu_seconds": seconds,
        "weights": model.count_params(),
    }


def convolution():
    """An encoder of pictures with a map of features, which know their place."""
    import keras

    from kerasseq import layers

    conv = {"kernel_size": 3, "strides": 2, "padding": "same", "activation": "relu"}
    picture = keras.Input((SIZE, SIZE, 3))
    x = keras.layers.Rescaling(1 / 255)(picture)
    x = keras.layers.Conv2D(UNITS // 2, **conv)(x)
    x = keras.layers.Conv2D(UNITS, **conv)(x)
    x = keras.layers.Reshape((CELLS**2, UNITS))(x)
    x = x + layers.PositionEmbedding(CELLS**2)(x)
    x = keras.layers.Reshape((CELLS, CELLS, UNITS))(x)
    return keras.Model(picture, x, name="convolution")


def test_scenes():
    """Scenes of two shapes that training has not."""
    from kerasseq import datasets

    return datasets.scenes(TESTED, objects=2, seed=TEST_SEED, **DRAWN)


def shares(map_of, test):
    """Shares of the weight in the boxes of the shapes that words name.

    Args:
        map_of: Function from scene and word to a map of the cells.
        test: The scenes.
    """
    in_box, pointed = [], []
    for n in range(len(test)):
        for word, shape in test.mentions(n):
            box = test.boxes[n][shape]
            weights = map_of(n, word)
            in_box.append(float((weights * covered(box)).sum()))
            row, column = np.unravel_index(weights.argmax(), weights.shape)
            center = CELL * np.array([column, row]) + (CELL - 1) / 2
            pointed.append(bool((center >= box[:2]).all() and (center < box[2:]).all()))
    return {"in_box": float(np.mean(in_box)), "pointed": float(np.mean(pointed))}


def covered(box):
    """The share of the pixels of each cell that lie in a box, `(rows, columns)`."""
    inside = np.zeros((SIZE, SIZE))
    inside[box[1] : box[3], box[0] : box[2]] = 1
    return inside.reshape(CELLS, CELL, CELLS, CELL).mean((1, 3))
