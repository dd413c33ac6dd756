"""A name that no argument has: Keras ignores it in models made from a graph."""

import pytest

from kerasseq import models

pytestmark = pytest.mark.once("arguments of Python alone")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: models.GPT(vocabulary_size=7, num_layers=1, hiden_dim=8),
            r'GPT has no argument hiden_dim, received hiden_dim=8\. Did you mean "hidd',
        ),
        (
            lambda: models.Mamba(vocabulary_size=7, num_layers=1, state_dim=8),
            r"Mamba has no argument state_dim",
        ),
        (
            lambda: models.LanguageModel("gru", vocabulary_size=7, unit=3),
            r'LanguageModel has no argument unit, .* Did you mean "units"',
        ),
        (
            lambda: models.SequenceClassifier(
                "gru", 2, vocabulary_size=7, bidirectionnal=True
            ),
            'Did you mean "bidirectional"',
        ),
        (
            lambda: models.SequenceTagger("gru", 2, vocabulary_size=7, train=True),
            'Did you mean "trainable"',
        ),
    ],
)
def test_a_wrong_name_raises(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: models.SequenceClassifier("gru", tokenizer="character", unit=3),
        lambda: models.Forecaster("gru", known=["a"], categories=["a"], unit=3),
    ],
)
def test_a_wrong_name_in_a_model_that_awaits_fit(make):
    with pytest.raises(TypeError, match='no argument unit, .* Did you mean "units"'):
        make()


def test_a_wrong_name_in_fit():
    model = models.SequenceClassifier("gru", 2, vocabulary_size=7, units=3)
    with pytest.raises(TypeError, match='no argument bach_size, .*"batch_size"'):
        model.fit([[1], [2]], [0, 1], bach_size=3)
    model = models.LanguageModel("gru", vocabulary_size=7, units=3)
    with pytest.raises(TypeError, match='"sequence_length"'):
        model.fit(list(range(7)) * 20, sequence_len=2)


def test_the_names_of_keras_are_known():
    model = models.LanguageModel(
        "gru", vocabulary_size=7, units=3, name="mine", trainable=False
    )
    assert model.name == "mine" and not model.trainable_variables
