"""Scenes drawn from their captions, and a classifier that reads what they show.

A codebook learns clean pictures of one shape, and a `Multimodal` learns to write its
ids. The judge is a ViT, trained on real pictures with some noise. Its share of real
ones says how far it can be trusted; that of rebuilt ones is the most that drawn ones
can reach.
"""

import time

import numpy as np

CODEBOOK = {"image_size": 24, "patch_size": 3, "num_codes": 256, "hidden_dim": 64}
JUDGE = {"image_size": 24, "patch_size": 4, "pooling": "mean"}
BEFORE = 1.25  # steps of codebook and judge for each of the model that draws
TEST_SEED, BATCH_SIZE, EVERY = 1_000_000, 64, 250


def measure(run, sizes, rate, tested, optimizer):
    """Trains a codebook, a model that draws, and a judge; returns their figures.

    Args:
        run: The run, with "steps" and "seed".
        sizes: The sizes of both Transformers.
        rate: The learning rate of all three.
        tested: How many pictures the judge reads.
        optimizer: A function of steps and rate.
    """
    from kerasseq import datasets, models

    steps, seed = run["steps"], run["seed"]
    before = round(BEFORE * steps)
    codebook, judge = models.PictureTokenizer(**CODEBOOK), models.ViT(**JUDGE, **sizes)
    codebook.compile(optimizer(before, rate))
    seconds = train(codebook, before, seed, lambda data: (data.images,))
    options = {"codebook": codebook, "max_sequence_length": 10, **sizes}
    model = models.Multimodal("word", head="draw", **options)
    model.compile(optimizer(steps, rate))
    seconds += train(model, steps, seed, lambda data: (data,))
    judge.compile(optimizer(before, rate))
    seconds += train(
        judge, before, seed, lambda data: (data.images, looks(data)), noise=0.05
    )
    test = datasets.scenes(tested, seed=TEST_SEED)
    ids = codebook.encode(test.images)
    shares = {"codes used": len(np.unique(ids)) / codebook.num_codes}
    for name, images in (
        ("real", test.images),
        ("rebuilt", codebook.decode(ids)),
        ("drawn", model.draw(test.texts, batch_size=BATCH_SIZE)),
    ):
        read = [each.label for each in judge.classify(images)]
        shares[name] = float(np.mean(np.array(read) == looks(test)))
    return {
        "shares": shares,
        "share": shares["drawn"],
        "cpu_seconds": seconds,
        "weights": model.count_params(),
    }


def train(model, steps, seed, read, **scenes):
    """Trains on new scenes, and returns CPU seconds; `read` makes data for `fit`."""
    from kerasseq import datasets

    done, seconds = 0, 0.0
    while done < steps:
        count = min(EVERY, steps - done) * BATCH_SIZE
        data = datasets.scenes(count, seed=1000 * seed + done // EVERY, **scenes)
        start = time.process_time()
        model.fit(*read(data), batch_size=BATCH_SIZE, seed=seed, verbose=0)
        seconds += time.process_time() - start
        done += EVERY
    return seconds


def looks(data):
    """Color and shape of each scene of one shape."""
    pairs = zip(data.colors, data.shapes, strict=True)
    return np.array([f"{color} {shape}" for (color,), (shape,) in pairs])
