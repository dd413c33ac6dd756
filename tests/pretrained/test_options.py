"""Tests of model options for pretrained checkpoints, against NumPy."""

import keras
import numpy as np
import pytest

from kerasseq import models
from kerasseq.transformer.feed_forward import gelu_tanh
from tests.pretrained.helpers import SIZES, inputs_of, outputs_of, shuffle

pytestmark = pytest.mark.once("arguments, messages and files")


def by_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_gelu_tanh():
    x = np.linspace(-4, 4, 41)
    found = keras.ops.convert_to_numpy(gelu_tanh(keras.ops.convert_to_tensor(x)))
    np.testing.assert_allclose(found, by_tanh(x), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "norms"),
    [
        (lambda **e: models.GPT(vocabulary_size=29, **SIZES, **e), 5),
        (lambda **e: models.BERT(vocabulary_size=29, **SIZES, **e), 5),
        (
            lambda **e: models.BERT(vocabulary_size=29, head="tokens", **SIZES, **e),
            6,
        ),
        (lambda **e: models.T5(vocabulary_size=29, **SIZES, **e), 12),
        (lambda **e: models.ViT(3, image_size=6, patch_size=2, **SIZES, **e), 5),
    ],
)
def test_every_norm_has_the_epsilon(make, norms):
    model = make(layer_norm_epsilon=0.25)
    found = [
        layer.epsilon
        for layer in model._flatten_layers()
        if type(layer).__name__ in ("LayerNormalization", "RMSNormalization")
    ]
    assert found == [0.25] * norms
    assert type(model).from_config(model.get_config())._arguments == model._arguments


def test_the_activation_of_bert():
    x, outputs = None, []
    for activation in ("gelu_tanh", "gelu", "relu"):
        model = models.BERT(
            vocabulary_size=29, head="tokens", activation=activation, **SIZES
        )
        shuffle(model.trainable_weights)
        x = inputs_of(model)
        outputs.append(outputs_of(model, x)[0])
    assert 1e-6 < np.abs(outputs[0] - outputs[1]).max() < 1e-2
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-2
    dense = model.get_layer("token_dense")
    assert dense.activation is keras.activations.relu
    with pytest.raises(ValueError, match='activation="silu" is not one of'):
        models.BERT(vocabulary_size=29, activation="silu")


def test_the_head_of_masked_words_is_that_of_pretraining():
    model = models.BERT(vocabulary_size=29, head="pretraining", **SIZES)
    shuffle(model.trainable_weights)
    other = model.with_head("tokens")
    inputs = inputs_of(model)
    found = other(inputs)
    assert list(found) == ["tokens"]
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(found["tokens"]),
        keras.ops.convert_to_numpy(model(inputs)["tokens"]),
    )


def test_a_vit_without_a_classifier():
    model = models.ViT(include_top=False, image_size=6, patch_size=2, **SIZES)
    x = inputs_of(model)
    assert model.output_shape == (None, 10)
    last = keras.Model(model.inputs[0], model.get_layer("final_norm").output)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(model(x)),
        keras.ops.convert_to_numpy(last(x))[:, 0],
        atol=1e-6,
    )
    assert model.predict(x, verbose=0).shape == (3, 10)
    with pytest.raises(ValueError, match="without classifier, .* labels"):
        model.fit(x, np.array([0, 1, 0]))
