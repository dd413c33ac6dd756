"""Trains models on four devices, with divided weights, and on one; a program on JAX."""

import pathlib
import sys

import keras
import numpy as np

from kerasseq import layers, load_model, models

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6}
IDS = np.random.default_rng(0).integers(1, 10, (4, 7))
NEXT = np.roll(IDS, -1, axis=1)
PAIRS = {"source": IDS, "target": IDS}
IMAGES = np.random.default_rng(1).random((4, 6, 6, 3)).astype("float32")
CASES = {
    "gpt": (
        lambda: models.GPT(vocabulary_size=10, max_sequence_length=7, **SIZES),
        IDS,
        NEXT,
    ),
    "mamba": (
        lambda: models.Mamba(vocabulary_size=10, num_layers=1, hidden_dim=6),
        IDS,
        NEXT,
    ),
    "experts": (
        lambda: models.GPT(
            vocabulary_size=10,
            max_sequence_length=7,
            feed_forward=layers.MixtureOfExperts(2, 14),
            **SIZES,
        ),
        IDS,
        NEXT,
    ),
    "transformer": (
        lambda: models.Transformer(
            source_vocabulary_size=8, target_vocabulary_size=8, **SIZES
        ),
        PAIRS,
        NEXT,
    ),
    "t5": (lambda: models.T5(vocabulary_size=10, **SIZES), PAIRS, NEXT),
    "bart": (
        lambda: models.BART(vocabulary_size=10, max_sequence_length=16, **SIZES),
        PAIRS,
        NEXT,
    ),
    "bert": (
        lambda: models.BERT(
            vocabulary_size=10,
            max_sequence_length=7,
            head="classify",
            labels=3,
            **SIZES,
        ),
        IDS,
        np.array([0, 1, 2, 1]),
    ),
    "vit": (
        lambda: models.ViT(3, image_size=6, patch_size=2, **SIZES),
        IMAGES,
        np.array([0, 1, 2, 1]),
    ),
    "lstm": (
        lambda: models.LanguageModel("lstm", vocabulary_size=11, units=5),
        IDS,
        NEXT,
    ),
}
USUAL = ("gpt", "mamba")
DIVIDED = {"lstm": 1.0}  # the largest share of the weights on one device
MOST = 0.55


def trained(make, x, y, weights=None):
    """Trains a model for three steps; returns it, its first weights and its losses."""
    keras.utils.set_random_seed(3)
    model = make()
    if weights is not None:
        model.set_weights(weights)
    before = [np.array(w) for w in model.get_weights()]
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    losses = model.fit(x, y, batch_size=4, epochs=3, verbose=0).history["loss"]
    return model, before, losses


def share(variables):
    """The share of the numbers of variables that one device holds."""
    parts = [v.value.addressable_shards[0].data.shape for v in variables]
    return sum(map(np.prod, parts)) / sum(np.prod(v.shape) for v in variables)


def main(names):
    mesh = keras.distribution.DeviceMesh(
        (2, 2), ["batch", "model"], keras.distribution.list_devices()
    )
    for name in names:
        make, x, y = CASES[name]
        alone, weights, expected = trained(make, x, y)
        layout = type(alone).get_layout_map(mesh)
        parallel = keras.distribution.ModelParallel(
            layout_map=layout, batch_dim_name="batch"
        )
        with parallel.scope():
            model, _, found = trained(make, x, y, weights)
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=name)
            for one, other in zip(
                model.get_weights(), alone.get_weights(), strict=True
            ):
                np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name)
            most = DIVIDED.get(name, MOST)
            assert share(model.weights) <= most, (name, share(model.weights))
            assert share(model.optimizer.variables) <= most, name
            model.save("model.keras")
        again = load_model(pathlib.Path("model.keras"))  # on one device
        np.testing.assert_allclose(
            again.predict(x, verbose=0), alone.predict(x, verbose=0), atol=1e-4
        )
        print(name)


if __name__ == "__main__":
    main(CASES if sys.argv[1] == "everything" else USUAL)
