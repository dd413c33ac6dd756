"""Small inputs, position encodings, and random weights."""

import keras
import numpy as np
from keras import ops

from kerasseq import layers

B, T, S, D, E, F, N, K = 2, 5, 7, 12, 13, 11, 3, 4


def numpy(x):
    return ops.convert_to_numpy(x)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


X, Y, MEMORY = normal(B, T, D), normal(B, T, D, seed=1), normal(B, S, E, seed=2)


def fill(*filled, seed=3):
    """Gives all layers the same random weights."""
    rng = np.random.default_rng(seed)
    values = [0.5 * rng.normal(size=w.shape) for w in filled[0].weights]
    for layer in filled:
        layer.set_weights(values)
    return filled[0] if len(filled) == 1 else filled


def built(layer, *shapes):
    """The layer with random weights."""
    layer.build(*(shapes or [(None, None, D)]))
    return fill(layer)


@keras.saving.register_keras_serializable("tests.transformer")
class Turn(layers.AttentionPosition):
    """Rotates the first two features of each head by its position."""

    def rotate(self, x, positions):
        angle = ops.cast(positions, x.dtype)[:, :, None, None]
        a, b = x[..., :1], x[..., 1:2]
        rotated = [a * ops.cos(angle) - b * ops.sin(angle)]
        rotated += [a * ops.sin(angle) + b * ops.cos(angle), x[..., 2:]]
        return ops.concatenate(rotated, -1)


@keras.saving.register_keras_serializable("tests.transformer")
class Near(layers.AttentionPosition):
    """Biases the scores by the distance."""

    def bias(self, query_positions, key_positions, queries=None, scale=1.0):
        distance = query_positions[:, :, None] - key_positions[:, None, :]
        return -ops.cast(ops.abs(distance), "float32")[:, None]
