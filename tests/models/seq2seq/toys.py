"""Small models, with random weights also in biases and norms."""

import contextlib
import functools
from unittest import mock

import keras
import numpy as np

import kerasseq
from kerasseq.models import Seq2Seq
from kerasseq.text import CharacterTokenizer

LETTERS = CharacterTokenizer().fit("abcde")


def array(value):
    return keras.ops.convert_to_numpy(value)


def arrays(structure):
    return keras.tree.map_structure(array, structure)


def run(compiled, *args):
    """Calls a compiled function with arrays, and returns arrays."""
    args = keras.tree.map_structure(keras.ops.convert_to_tensor, args)
    return arrays(compiled(*args))


@contextlib.contextmanager
def zero_initializers():
    """A context in which weights are zeros: JAX compiles each random shape."""

    def zeros(self, shape, dtype=None, **kwargs):
        return np.zeros(shape, dtype or "float32")

    with contextlib.ExitStack() as stack:
        for name in ("VarianceScaling", "RandomUniform", "Orthogonal"):
            initializer = getattr(keras.initializers, name)
            stack.enter_context(mock.patch.object(initializer, "__call__", zeros))
        yield


def randomize(layer, scale=0.7, seed=1):
    """Sets all floating weights to normal numbers."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        if "float" in weight.dtype:
            weight.assign(scale * rng.normal(size=weight.shape))
    return layer


def model(architecture="gru", scale=0.7, **options):
    """A model of strings."""
    options = {"units": 5, "bidirectional": False, **options}
    with zero_initializers():
        made = Seq2Seq(architecture, LETTERS, LETTERS, **options)
    return randomize(made, scale)


def ids_model(architecture="gru", scale=0.7, **options):
    """A model of the ids 1 to 5."""
    sizes = {"source_vocabulary_size": 6, "target_vocabulary_size": 6}
    options = {"units": 5, "bidirectional": False, **sizes, **options}
    with zero_initializers():
        made = Seq2Seq(architecture, **options)
    return randomize(made, scale)


def same_weights(model, other):
    """Copies the weights of a model to one that may have more variables."""
    values = {weight.path.partition("/")[2]: weight for weight in other.weights}
    for weight in model.weights:
        path = weight.path.partition("/")[2]
        if path in values:
            weight.assign(np.array(array(values[path])))  # a copy: JAX donates buffers
    return model


def trainable(model, optimizer=None):
    """Compiles a model for a few eager steps with a large learning rate."""
    model.compile(
        optimizer or keras.optimizers.SGD(0.1),
        run_eagerly=keras.backend.backend() != "jax",
    )
    return model


@functools.cache
def pairs():
    return kerasseq.datasets.reverse_task(20, symbols="abc", min_length=2, max_length=4)


@functools.cache
def trained():
    """A model trained to memorize 20 pairs, and its history."""
    made = model("elman", scale=0.3, attention="bahdanau", units=16)
    made.compile(keras.optimizers.Adam(0.02, global_clipnorm=1.0))
    return made, made.fit(pairs(), batch_size=20, epochs=100, verbose=0).history
