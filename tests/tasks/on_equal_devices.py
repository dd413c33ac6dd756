"""Trains models on several devices and on one, and compares; for each backend."""

import sys

import keras
import numpy as np

from kerasseq import models, training

RNG = np.random.default_rng(0)
ROWS, STEPS = 9, 7  # batches of 4, 4 and 1: on two devices one is left without rows
LENGTHS = np.array([7, 2, 1, 5, 3, 7, 1, 4, 2])
IDS = RNG.integers(1, 11, (ROWS, STEPS)) * (np.arange(STEPS) < LENGTHS[:, None])
WEIGHTS = RNG.random(ROWS).astype("float32") + 0.1
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "vocabulary_size": 11}


CASES = {
    "tagger": (
        lambda: models.SequenceTagger("lstm", 5, vocabulary_size=11, units=3),
        {"x": IDS, "y": IDS % 5},
    ),
    "classifier": (
        lambda: models.SequenceClassifier("gru", 3, vocabulary_size=11, units=5),
        {"x": IDS, "y": np.arange(ROWS) % 3, "sample_weight": WEIGHTS},
    ),
    "gpt": (
        lambda: models.GPT(max_sequence_length=STEPS, **SIZES),
        {"x": IDS, "y": np.roll(IDS, -1, axis=1), "sample_weight": (IDS > 0) * 1.0},
    ),
}


def trained(make, data, **options):
    """Returns the losses of epochs, scores, outputs and weights after ten steps."""
    keras.utils.set_random_seed(3)
    model = make()
    model.compile(keras.optimizers.SGD(0.2, momentum=0.9), **options)
    losses = model.fit(**data, batch_size=4, epochs=4, shuffle=False, verbose=0).history
    losses = np.array([losses[name] for name in sorted(losses)])
    scores = model.evaluate(**data, batch_size=4, verbose=0)
    outputs = model.predict(data["x"], batch_size=4, verbose=0)
    return losses, scores, outputs, *map(np.array, model.get_weights())


def main(devices, names):
    with training.on_devices(devices):
        found = {name: trained(*CASES[name]) for name in names}
    if not training.is_first_process():
        return
    for name, several in found.items():
        one = trained(*CASES[name])
        for a, b in zip(several, one, strict=True):
            print(name, np.shape(a), np.abs(np.array(a) - np.array(b)).max())
            np.testing.assert_allclose(a, b, atol=1e-5, err_msg=name)
        print(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or CASES)
