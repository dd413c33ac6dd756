"""Small decoders and models with weights that no symmetry hides."""

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
    """What a compiled function gives for arrays, as arrays."""
    args = keras.tree.map_structure(keras.ops.convert_to_tensor, args)
    return arrays(compiled(*args))


@contextlib.contextmanager
def undrawn():
    """Weights start from zeros: JAX compiles the draw of each new shape."""

    def zeros(self, shape, dtype=None, **kwargs):
        return np.zeros(shape, dtype or "float32")

    with contextlib.ExitStack() as stack:
        for name in ("VarianceScaling", "RandomUniform", "Orthogonal"):
            drawn = getattr(keras.initializers, name)
            stack.enter_context(mock.patch.object(drawn, "__call__", zeros))
        yield


def randomize(layer, scale=0.7, seed=1):
    """Fill all floating weights with normal numbers."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        if "float" in weight.dtype:
            weight.assign(scale * rng.normal(size=weight.shape))
    return layer


def model(architecture="gru", scale=0.7, **options):
    """A model of letters."""
    options = {"units": 5, "bidirectional": False, **options}
    with undrawn():
        made = Seq2Seq(architecture, LETTERS, LETTERS, **options)
    return randomize(made, scale)


def of_ids(architecture="gru", scale=0.7, **options):
    """A model of the ids 1 to 5."""
    sizes = {"source_vocabulary_size": 6, "target_vocabulary_size": 6}
    options = {"units": 5, "bidirectional": False, **sizes, **options}
    with undrawn():
        made = Seq2Seq(architecture, **options)
    return randomize(made, scale)


def same_weights(model, other):
    """Give a model the weights of another one that may have fewer variables."""
    values = {weight.path.partition("/")[2]: weight for weight in other.weights}
    for weight in model.weights:
        path = weight.path.partition("/")[2]
        if path in values:
            weight.assign(np.array(array(values[path])))  # JAX gives memory away
    return model


def trainable(model, optimizer=None):
    """Compiled for a few steps that need no speed, with a rate that moves weights."""
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
    """A model that knows 20 pairs by heart, and the history of how it learned them."""
    made = model("elman", scale=0.3, attention="bahdanau", units=16)
    made.compile(keras.optimizers.Adam(0.02, global_clipnorm=1.0))
    return made, made.fit(pairs(), batch_size=20, epochs=100, verbose=0).history
