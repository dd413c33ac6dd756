"""Gradient times input: a linear model, and the slope of a trained one."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.models import SequenceClassifier
from kerasseq.text import CharacterTokenizer
from kerasseq.tracing import attribution
from kerasseq.tracing.attribution import scores_of

pytestmark = pytest.mark.everywhere("gradients of each backend")


def model_of(layer, **options):
    keras.utils.set_random_seed(0)
    tokenizer = CharacterTokenizer().fit("abc")
    return SequenceClassifier(
        layer, ["x", "y"], tokenizer=tokenizer, units=3, **options
    )


def test_attributions_of_a_linear_model_sum_to_its_score():
    model = model_of(keras.layers.GlobalAveragePooling1D())
    bias = ops.convert_to_numpy(model.get_layer("output").bias)
    for k, label in enumerate(model.labels):
        found = attribution(model, "abcab", label)
        score = model.predict(["abcab"], verbose=0)[0, k]
        assert found.label == label and found.tokens == list("abcab")
        np.testing.assert_allclose(found.scores.sum() + bias[k], score, atol=1e-5)
        np.testing.assert_allclose(found.scores[0], found.scores[3], atol=1e-6)  # a


def test_attributions_are_slopes():
    """The change of the score if an embedding is scaled a little."""
    model = model_of("gru")
    label = model.classify("abcab").label
    found = attribution(model, "abcab")
    assert found.label == label
    k, step = model.labels.index(label), 1e-2
    ids = np.array([[1, 2, 3, 1, 2]])
    e = ops.convert_to_numpy(model.get_layer("embedding")(ids))
    np.testing.assert_allclose(
        *map(ops.convert_to_numpy, (scores_of(model, e), model(ids))), atol=1e-6
    )
    for t in range(5):
        scores = []
        for change in (step, -step):
            scaled = e.copy()
            scaled[0, t] *= 1 + change
            scores.append(ops.convert_to_numpy(scores_of(model, scaled))[0, k])
        slope = (scores[0] - scores[1]) / (2 * step)
        assert found.scores[t] == pytest.approx(slope, abs=1e-4)


@pytest.mark.once("messages")
def test_wrong_arguments():
    model = model_of("gru")
    with pytest.raises(ValueError, match='label="z" is not one of "x", "y"'):
        attribution(model, "ab", "z")
    with pytest.raises(TypeError, match="text must be a string"):
        attribution(model, ["ab"])
    with pytest.raises(TypeError, match="SequenceClassifier with a tokenizer"):
        attribution(SequenceClassifier("gru", 2, vocabulary_size=3), "ab")
