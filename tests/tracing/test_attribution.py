"""Gradient times input: a linear model, and the slope of a trained one."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.models import BERT, GPT, SequenceClassifier
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer
from kerasseq.tracing import attribution
from kerasseq.tracing.attribution import after_embedding, embeddings_of

pytestmark = pytest.mark.everywhere("gradients of each backend")

SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "dropout": 0.0}


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


def bert():
    tokenizer = WordPieceTokenizer(30).fit("ab abc bc ab ca")
    return BERT(tokenizer, **SMALL, head="classify", labels=["x", "y"])


def gpt():
    tokenizer = CharacterTokenizer().fit("abc ")
    return GPT(tokenizer, **SMALL).with_head("entail", ["x", "y"])


@pytest.mark.everywhere("gradients outside of training", cases=1)
@pytest.mark.parametrize(
    ("make", "text", "tokens"),
    [
        (lambda: model_of("gru", pooling="mean"), "abcab", list("abcab")),
        (gpt, ("ab", "c"), list("abc")),
        (bert, "ab ca", ["ab", "c", "a"]),
        (bert, ("ab", "ca"), ["ab", "c", "a"]),
    ],
)
def test_attributions_are_slopes(make, text, tokens):
    """The change of the score if the embedding of a token is scaled a little."""
    model = make()
    label = model.classify(text).label
    found = attribution(model, text)
    assert found.label == label and found.tokens == tokens
    k, step = model.labels.index(label), 1e-2
    inputs, _, places = model.token_inputs(text)
    e = ops.convert_to_numpy(embeddings_of(model, inputs))
    after = after_embedding(model)
    np.testing.assert_allclose(
        *map(ops.convert_to_numpy, (after(e, inputs), model(inputs))), atol=1e-6
    )
    for score, t in zip(found.scores, places, strict=True):
        scores = []
        for change in (step, -step):
            scaled = e.copy()
            scaled[0, t] *= 1 + change
            scores.append(ops.convert_to_numpy(after(scaled, inputs))[0, k])
        slope = (scores[0] - scores[1]) / (2 * step)
        assert score == pytest.approx(slope, abs=2e-4)


@pytest.mark.once("messages")
def test_wrong_arguments():
    model = model_of("gru")
    with pytest.raises(ValueError, match='label="z" is not one of "x", "y"'):
        attribution(model, "ab", "z")
    with pytest.raises(TypeError, match="text must be a string"):
        attribution(model, ["ab"])
    with pytest.raises(TypeError, match="classifier of texts with a tokenizer"):
        attribution(SequenceClassifier("gru", 2, vocabulary_size=3), "ab")
    with pytest.raises(TypeError, match="reads one row, received several"):
        attribution(gpt().with_head("compare", ["x", "y"]), ("ab", "c"), "x")
    with pytest.raises(ValueError, match="classify is not available for head='tag'"):
        attribution(bert().with_head("tag", 2), "ab")
