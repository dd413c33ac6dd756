r"""Learn where to look: one glimpse at a feature map, trained by reinforcement.

    python examples/glimpses.py

A digit of 8 × 8 pixels is somewhere on a dark canvas of 16 × 16 pixels, among parts of
other digits. A convolution gives a feature map of 9 places, one of which sees the whole
digit, and attention reads the map: softly, or hard, one place only. Hard attention has
no gradient of its own. "straight_through" takes that of the soft weights, and
"reinforce" that of the expected loss, from sampled places. Takes a minute on a laptop.
Source: Mnih et al. 2014; Xu et al. 2015; course slides B.
"""

import argparse
import time

import kerasseq
import keras
import numpy as np
from sklearn.datasets import load_digits

KINDS = {
    "soft": {},
    "straight_through": {"hard": True},
    "reinforce": {"hard": True, "gradient": "reinforce"},
}
PLACES = [(row, column) for row in (0, 4, 8) for column in (0, 4, 8)]


def scenes(images, rng):
    """Each digit at one of 9 places on a canvas `(16, 16, 1)`, and clutter."""
    canvases = np.zeros((len(images), 16, 16, 1), "float32")
    for canvas, image in zip(canvases, images, strict=True):
        for _ in range(4):  # parts of 4 × 4 pixels of other digits
            other = images[rng.integers(len(images))]
            y, x, row, column = *rng.integers(0, 13, 2), *rng.integers(0, 5, 2)
            canvas[y : y + 4, x : x + 4, 0] = other[row : row + 4, column : column + 4]
        row, column = PLACES[rng.integers(len(PLACES))]
        canvas[row : row + 8, column : column + 8, 0] = image
    return canvases


def classifier(kind, width, seed):
    """A model that attends to a feature map."""
    image = keras.Input((16, 16, 1))
    x = keras.layers.Conv2D(width, 8, strides=4, activation="relu")(image)
    places = keras.layers.Reshape((len(PLACES), width))(x)
    query = keras.layers.GlobalAveragePooling1D(keepdims=True)(places)
    look = kerasseq.layers.BahdanauAttention(32, seed=seed, **KINDS[kind])
    glimpse = keras.layers.Flatten()(look(query, places))
    h = keras.layers.Dense(width, activation="relu")(glimpse)
    model = keras.Model(image, keras.layers.Dense(10)(h))
    return kerasseq.models.ReinforcedModel(model) if kind == "reinforce" else model


def main(arguments=None):
    """Trains each kind of attention, and prints its accuracy on held-out digits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--images", type=int, default=1797, help="number of images")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args(arguments)

    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))[: options.images]
    images, labels = images.reshape(-1, 8, 8)[order] / 16, labels[order]
    held_out = len(images) // 5
    test, test_labels = scenes(images[:held_out], rng), labels[:held_out]
    images, labels = images[held_out:], labels[held_out:]
    train = np.concatenate([scenes(images, rng) for _ in range(4)])
    targets = np.tile(labels, 4)

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for kind in KINDS:
        start, accuracies = time.process_time(), []
        for seed in range(options.seeds):
            keras.utils.set_random_seed(seed)
            model = classifier(kind, options.width, seed)
            model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
            model.fit(train, targets, batch_size=128, epochs=options.epochs, verbose=0)
            accuracies.append(model.evaluate(test, test_labels, verbose=0)[1])
        found = " ".join(f"{accuracy:.1%}" for accuracy in accuracies)
        seconds = time.process_time() - start
        print(f"{kind:16} {found} of {held_out} held-out digits, {seconds:.0f} s")


if __name__ == "__main__":
    main()
