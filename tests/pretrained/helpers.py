"""Small models of each family, with weights that leave no part without effect."""

import functools

import keras
import numpy as np

from kerasseq import models
from kerasseq.positions.rotary import RotaryEmbedding

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 10, "intermediate_dim": 17}
LLAMA = {
    **SIZES,
    "vocabulary_size": 29,
    "num_heads": 6,
    "hidden_dim": 24,
    "num_key_value_heads": 3,
    "norm": "rms",
    "feed_forward": "swiglu",
    "use_bias": False,
    "tie_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3",
    "scaling_factor": 4.0,
    "original_max_position_embeddings": 16,
    "low_freq_factor": 1.0,
    "high_freq_factor": 2.0,
}
MAKE = {
    "gpt2": lambda: models.GPT(
        vocabulary_size=29, max_sequence_length=13, feed_forward="gelu_tanh", **SIZES
    ),
    "gpt2_wide": lambda: models.GPT(  # the width that KerasHub takes for granted
        vocabulary_size=29,
        max_sequence_length=13,
        feed_forward="gelu_tanh",
        **{**SIZES, "intermediate_dim": None},
    ),
    "llama": lambda: models.GPT(
        **LLAMA, position=RotaryEmbedding(500.0), layer_norm_epsilon=1e-6
    ),
    "llama3": lambda: models.GPT(
        **{**LLAMA, "tie_embeddings": True},
        position=RotaryEmbedding(100.0, **LLAMA3),
        layer_norm_epsilon=1e-6,
    ),
    "mamba": lambda: models.Mamba(
        vocabulary_size=29, num_layers=2, hidden_dim=10, state_size=3, use_bias=True
    ),
    "rwkv": lambda: models.RWKV(
        vocabulary_size=29, num_layers=2, hidden_dim=10, attention_dim=12
    ),
    "xlstm": lambda: models.XLSTM(
        vocabulary_size=29,
        num_layers=2,
        num_heads=3,
        hidden_dim=10,
        query_dim=6,
        value_dim=15,
        intermediate_dim=7,
    ),
    "rwkv7": lambda: models.RWKV(
        vocabulary_size=29,
        num_layers=3,
        hidden_dim=12,
        intermediate_dim=17,
        version=7,
        gate_rank=5,
    ),
    "bert": lambda: models.BERT(vocabulary_size=29, max_sequence_length=13, **SIZES),
    "bert_classify": lambda: models.BERT(
        vocabulary_size=29,
        max_sequence_length=13,
        num_segments=3,
        head="classify",
        labels=5,
        **SIZES,
    ),
    "t5": lambda: models.T5(vocabulary_size=29, published_ids=True, **SIZES),
    "t5_1_1": lambda: models.T5(
        vocabulary_size=29,
        head_dim=3,
        feed_forward="geglu_tanh",
        tie_embeddings=False,
        published_ids=True,
        **SIZES,
    ),
    "vit": lambda: models.ViT(include_top=False, image_size=6, patch_size=2, **SIZES),
    "vit_classify": lambda: models.ViT(
        5, image_size=(6, 4), patch_size=(3, 2), **SIZES
    ),
}


@functools.cache
def made(name):
    """The model, with random weights that are all different; leave it as it is."""
    return fresh(name)


def fresh(name):
    """One of your own."""
    model = MAKE[name]()
    shuffle(model.trainable_weights)
    return model


def shuffle(weights, seed=0):
    rng = np.random.default_rng(seed)
    for weight in weights:
        base = 1.0 if len(weight.shape) == 1 else 0.0
        weight.assign(base + 0.3 * rng.normal(size=weight.shape))


def inputs_of(model):
    """Something that the model reads, with padding where it knows of it."""
    rng = np.random.default_rng(1)
    ids = rng.integers(2, 29, (3, 7)).astype("int32")
    if isinstance(model, models.ViT):
        (height, width), B = model.patches.image_size, model.inputs[0].shape[-1]
        return rng.uniform(size=(3, height, width, B)).astype("float32")
    if isinstance(model, models.GPT):
        return ids
    ids[1, 5:] = 0
    if isinstance(model, models.T5):
        return [ids, rng.integers(2, 29, (3, 5)).astype("int32")]
    segments = np.repeat([[0, 0, 0, 1, 1, 1, 1]], 3, axis=0).astype("int32")
    inputs = {"ids": ids, "segments": segments}
    if model.head in ("tokens", "pretraining"):
        inputs["positions"] = np.array([[0, 4], [3, 2], [6, 1]], "int32")
    return inputs


def outputs_of(model, inputs=None):
    """All outputs as arrays, zero where the input is padding."""
    inputs = inputs_of(model) if inputs is None else inputs
    found = model(inputs, training=False)
    found = keras.tree.map_structure(keras.ops.convert_to_numpy, found)
    if isinstance(found, dict) and "sequence" in found:
        found["sequence"] = found["sequence"] * (inputs["ids"] != 0)[..., None]
    return keras.tree.flatten(found)


def assert_same(one, other, tolerance=1e-5):
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
