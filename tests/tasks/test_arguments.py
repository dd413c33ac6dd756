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


def test_the_names_of_keras_are_known():
    model = models.LanguageModel(
        "gru", vocabulary_size=7, units=3, name="mine", trainable=False
    )
    assert model.name == "mine" and not model.trainable_variables
