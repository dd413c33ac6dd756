"""Small Transformers, with random weights also in biases and norms."""

import keras
import numpy as np
from keras import ops

from kerasseq.core.padding import START
from kerasseq.models import T5, Transformer

V, W, L, D, N, F = 11, 13, 2, 12, 3, 17
SIZES = {
    "num_layers": L,
    "num_heads": N,
    "hidden_dim": D,
    "intermediate_dim": F,
    "dropout": 0.0,
}
VARIANTS = {
    "vaswani": {},
    "bart": {
        "position": "learned",
        "feed_forward": "gelu",
        "embedding_norm": True,
        "scale_embeddings": False,
        "max_sequence_length": 19,
    },
    "modern": {
        "position": "rope",
        "norm_placement": "pre",
        "norm": "rms",
        "feed_forward": "swiglu",
        "use_bias": False,
        "num_key_value_heads": 1,
        "head_dim": 6,
        "tie_embeddings": False,
    },
    "deep": {"norm_placement": "deep", "position": "alibi"},
    "relative": {"norm_placement": "pre", "position": "relative"},
    "t5": {},
    "t5 1.1": {"feed_forward": "geglu", "tie_embeddings": False, "head_dim": 5},
}
rng = np.random.default_rng(0)


def numpy(x):
    return ops.convert_to_numpy(x)


def made(variant="vaswani", **options):
    """A model of ids, one of the `VARIANTS`."""
    options = {**SIZES, **VARIANTS[variant], **options}
    if variant.startswith("t5"):
        return T5(vocabulary_size=W, **options)
    shared = options.get("share_embeddings")
    sizes = {"source_vocabulary_size": W if shared else V, "target_vocabulary_size": W}
    return Transformer(**sizes, **options)


def fill(*models, seed=3):
    """Sets the weights of all models to the same random numbers."""
    rng = np.random.default_rng(seed)
    for weights in zip(*(model.trainable_weights for model in models), strict=True):
        scale = weights[0].path.endswith(("gamma", "scale"))
        value = scale + 0.4 * rng.normal(size=weights[0].shape)
        for weight in weights:
            weight.assign(value)
    return models[0] if len(models) == 1 else models


def some(variant="vaswani", **options):
    return fill(made(variant, **options))


def pairs(rows=5, source_time=7, target_time=6):
    """Padded sources of unequal length, and targets with their start."""
    source = rng.integers(3, V + 2, (rows, source_time)).astype("int32")
    for row in range(1, rows):
        source[row, rng.integers(2, source_time) :] = 0
    target = rng.integers(3, W + 2, (rows, target_time)).astype("int32")
    target[:, 0] = START
    return source, target


def compile_eager(model, **options):
    """Compiles a model for a few eager steps."""
    eager = keras.backend.backend() != "jax"
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=eager, **options)
    return model
