"""A model beside the best possible one: the paired difference of their losses."""

import keras
import numpy as np
import pytest

from kerasseq import datasets, models, training

pytestmark = pytest.mark.once("one forward pass, and NumPy")
SOURCE = datasets.markov_source(3, order=1, seed=2)
IDS = SOURCE.sample(211, 13, seed=1)


def reader(logits):
    """A model that reads the logits of the next symbol from a table."""
    layer = keras.layers.Embedding(*np.shape(logits))
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([np.asarray(logits, "float32")])
    return model


def test_the_source_itself_has_no_excess():
    found = training.excess(reader(7 + np.log(SOURCE.probabilities)), SOURCE, IDS)
    assert found.excess == pytest.approx(0, abs=1e-6) and found.error < 1e-6
    assert found.bits == pytest.approx(found.optimum, abs=1e-6)
    assert not found._replace(excess=0.0, error=0.0).leaks


def test_the_excess_is_the_mean_difference_of_the_losses():
    q = np.array([[0.5, 0.25, 0.25], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    found = training.excess(reader(np.log(q)), SOURCE, IDS, batch_size=17)
    a, b = IDS[:, :-1], IDS[:, 1:]
    d = np.log2(SOURCE.probabilities[a, b] / q[a, b]).mean(axis=1)
    assert found.excess == pytest.approx(d.mean(), abs=1e-6)
    assert found.error == pytest.approx(d.std(ddof=1) / 211**0.5, abs=1e-6)
    assert found.bits - found.optimum == pytest.approx(found.excess, abs=1e-6)
    # Its mean is a divergence: positive, and far from its error.
    p = SOURCE.stationary[:, None] * SOURCE.probabilities
    divergence = np.sum(p * np.log2(SOURCE.probabilities / q))
    assert abs(found.excess - divergence) < 4 * found.error
    assert not found.leaks


@pytest.mark.everywhere("fit and predict of each backend")
def test_fit_draws_the_optimum_and_warns_of_a_leak():
    model = models.LanguageModel("gru", vocabulary_size=3, units=3)
    training_ids = SOURCE.sample(50, 13, seed=3)
    optimum = training.KnownOptimum(SOURCE, IDS)
    options = {"batch_size": 25, "callbacks": [optimum], "verbose": 0}
    x, y = training_ids[:, :-1], training_ids[:, 1:]
    history = model.fit(x, y, epochs=2, **options).history
    assert len(history["excess"]) == 2
    assert history["optimum"][1] == pytest.approx(SOURCE.bits(IDS).mean())
    found = training.excess(model, SOURCE, IDS)
    assert history["held_out_bits"][1] == pytest.approx(found.bits, rel=1e-5)
    assert history["excess"][1] == pytest.approx(found.excess, rel=1e-4)
    assert history["excess_error"][1] == pytest.approx(found.error, rel=1e-4)
    # An input that is the next symbol: the model needs no more than to repeat it.
    tells = reader(5 * np.eye(3))
    tells.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
    options["callbacks"] = [training.KnownOptimum(SOURCE, IDS, inputs=IDS[:, 1:])]
    with pytest.warns(UserWarning, match="inputs tell what it must predict"):
        tells.fit(y, y, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": IDS[:1]}, "at least 2 sequences"),
        ({"ids": IDS[0]}, "received the shape"),
        ({"ids": IDS + 1}, "ids must be from 0 to 2"),
        ({"inputs": IDS[:7, 1:]}, "211 rows, as ids, received 7"),
        ({"inputs": IDS}, "must have outputs"),
        ({"model": reader(np.zeros((3, 2)))}, "the largest is 2"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_wrong_arguments(change, message):
    options = {"ids": IDS, "model": reader(np.zeros((3, 3))), **change}
    with pytest.raises(ValueError, match=message):
        training.excess(source=SOURCE, **options)
