"""`fit` and `evaluate` of Seq2Seq: forms of pairs, batches, loss and accuracy."""

import itertools

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.datasets import Pairs, symbol_ids
from kerasseq.training import PairBatches, exact_match
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

SOURCES = ["ab", "cde", "d", "eabc", "ba", "cc", "dada", "b", "ace"]
TARGETS = ["ba", "edc", "d", "cbae", "ab", "cc", "adad", "bbbbbb", "e"]


@pytest.mark.everywhere("trained")
def test_fit_memorizes_pairs():
    made, history = toys.trained()
    translations = made.translate(toys.pairs().sources, max_length=6)
    assert exact_match([t.text for t in translations], toys.pairs().targets) == 100
    assert history["loss"][-1] < 0.1 < 1 < history["loss"][0]
    assert history["accuracy"][-1] > 0.9
    assert set(history) == {"loss", "accuracy"}
    assert made.jit_compile == (keras.backend.backend() != "torch")
    assert translations[0].source_tokens == list(toys.pairs().sources[0])
    assert translations[0].target_tokens == [*toys.pairs().targets[0], "<end>"]


class Received(Exception):
    """Holds the arguments of `keras.Model.fit`."""


@pytest.fixture
def keras_arguments(monkeypatch):
    """A function that calls `fit`, and returns the arguments of `keras.Model.fit`."""

    def fit(self, x=None, y=None, **options):
        raise Received({"x": x, "y": y, **options})

    monkeypatch.setattr(keras.Model, "fit", fit)

    def call(model, *args, **options):
        with pytest.raises(Received) as received:
            model.fit(*args, **options)
        return received.value.args[0]

    return call


def assert_same(one, other):
    for a, b in zip(*map(keras.tree.flatten, (one, other)), strict=True):
        np.testing.assert_array_equal(a, b)


def letters(texts):
    return [["abcde".index(c) + 1 for c in text] for text in texts]


FORMS = {
    "strings": (SOURCES, TARGETS),
    "tuples": (tuple(SOURCES), tuple(TARGETS)),
    "arrays of strings": (np.array(SOURCES), np.array(TARGETS)),
    "pairs": (Pairs(SOURCES, TARGETS),),
    "a tuple": ((SOURCES, TARGETS),),
    "lists of ids": (letters(SOURCES), letters(TARGETS)),
    "arrays of ids": tuple(
        [np.array(row, dtype) for row in letters(texts)]
        for texts, dtype in ((SOURCES, "int64"), (TARGETS, "uint8"))
    ),
    "padded arrays": (
        symbol_ids(SOURCES, "abcde", length=7),
        symbol_ids(TARGETS, "abcde"),
    ),
    "padding before": (
        np.fliplr(symbol_ids([s[::-1] for s in SOURCES], "abcde")),
        symbol_ids(TARGETS, "abcde"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_pairs_give_the_same_batches(form, keras_arguments):
    of_ids = "ids" in form or "padd" in form
    made = toys.ids_model() if of_ids else toys.model()
    given = keras_arguments(made, *FORMS[form], batch_size=4, seed=3)
    batches = PairBatches(
        [3 + np.array(row) - 1 for row in letters(SOURCES)],
        [3 + np.array(row) - 1 for row in letters(TARGETS)],
        4,
        3,
    )
    assert (given["steps_per_epoch"], given["y"], given["shuffle"]) == (
        2,
        None,
        False,
    )
    for n in range(5):
        assert_same(next(given["x"]), batches.batch(n))


def test_initial_epoch_skips_batches(keras_arguments):
    made = toys.model()
    batches = made.batches(SOURCES, TARGETS, batch_size=2, seed=5)
    options = {"batch_size": 2, "seed": 5, "epochs": 9, "initial_epoch": 2}
    given = keras_arguments(made, SOURCES, TARGETS, **options)
    assert batches.steps_per_epoch == given["steps_per_epoch"] == 3
    assert_same(next(given["x"]), batches.batch(6))
    given = keras_arguments(made, SOURCES, TARGETS, steps_per_epoch=5, **options)
    assert_same(next(given["x"]), batches.batch(10))
    assert (given["epochs"], given["initial_epoch"]) == (9, 2)


def test_arrays_and_streams_are_passed_to_keras(keras_arguments):
    made = toys.model()
    arrays = made.arrays(SOURCES, TARGETS)
    batches = made.batches(SOURCES, TARGETS)
    stream = batches.stream()
    callbacks = [keras.callbacks.TerminateOnNaN()]
    options = {"batch_size": 3, "callbacks": callbacks, "verbose": 2, "epochs": 4}
    given = keras_arguments(made, *arrays, validation_data=arrays, **options)
    assert (given["x"], given["y"], given["validation_data"]) == (
        *arrays,
        arrays,
    )
    assert options.items() <= given.items()
    given = keras_arguments(
        made, stream, steps_per_epoch=7, validation_data=batches.stream(), **options
    )
    for data in (given["x"], given["validation_data"]):
        for n in range(2):
            assert_same(next(data), batches.batch(n))
    assert (given["batch_size"], given["steps_per_epoch"], given["y"]) == (
        None,
        7,
        None,
    )
    held_out = Pairs(SOURCES[:2], TARGETS[:2])
    for data in (
        held_out,
        tuple(held_out),
        list(held_out),
        [*zip(*held_out, strict=True)],
    ):
        given = keras_arguments(made, stream, validation_data=data, **options)
        assert_same(given["validation_data"], made.arrays(*held_out))
    assert given["validation_batch_size"] == 3
    given = keras_arguments(
        made, SOURCES, TARGETS, validation_batch_size=2, shuffle=True
    )
    assert (given["validation_batch_size"], given["shuffle"]) == (2, False)


def test_lengths_that_change_after_two_batches():
    """TensorFlow assumes a fixed length if the first two batches have the same."""
    made = toys.trainable(toys.model("elman", attention=None))
    texts = ["ab", "ba", "cd", "de", "abcde"]
    options = {"validation_data": (texts, texts), "validation_batch_size": 5}
    history = made.fit((texts, texts), batch_size=1, verbose=0, **options).history
    assert set(history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    loss, accuracy = made.evaluate(texts, texts, verbose=0)
    assert history["val_loss"][0] == pytest.approx(loss, rel=1e-4)
    assert history["val_accuracy"][0] == pytest.approx(accuracy, rel=1e-4)
    assert made.evaluate(Pairs(texts, texts), verbose=0)[0] == pytest.approx(loss)
    # They are one batch, and its loss is the mean over target tokens and ends.
    (source, target), wanted = made.arrays(texts, texts)
    assert (wanted > 0).sum() == sum(len(text) + 1 for text in texts)
    logits = toys.array(kernels.inference(made)([source, target]))
    p = references.log_softmax(logits)
    nats = -np.take_along_axis(p, wanted[..., None], axis=-1)[..., 0]
    real = wanted > 0
    assert loss == pytest.approx(nats[real].mean(), rel=1e-4)
    right = (logits.argmax(axis=-1) == wanted)[real].mean()
    assert accuracy == pytest.approx(right, rel=1e-5)


@pytest.mark.once("numbers of the loss")
def test_the_weight_of_a_pair_is_that_of_its_tokens():
    made = toys.model("gru")
    made.compile(run_eagerly=True)
    weights = np.array([0.5, 0.0, 2.0, 1, 1, 3, 0, 0.25, 7], "float32")
    x, y = made.arrays(SOURCES, TARGETS)
    whole = np.repeat(weights[:, None], y.shape[1], axis=1)
    wanted = made.evaluate(x, y, sample_weight=whole, batch_size=9, verbose=0)
    for given in (weights, weights[:, None]):
        found = made.evaluate(x, y, sample_weight=given, batch_size=9, verbose=0)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    pairs = SOURCES, TARGETS
    found = made.evaluate(*pairs, sample_weight=weights, batch_size=9, verbose=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert wanted[0] != pytest.approx(made.evaluate(x, y, verbose=0)[0], rel=0.01)


@pytest.mark.once("numbers of the loss")
@pytest.mark.parametrize("form", ["lists", "a stream", "an endless stream", "a part"])
def test_fit_counts_the_weight_of_a_pair_as_evaluate_does(form):
    weights = [0.5, 0.0, 2.0, 1, 1, 3, 0, 0.25, 7]
    data = {"x": SOURCES, "y": TARGETS, "sample_weight": weights}
    if "stream" in form:
        rows = [*zip(SOURCES, TARGETS, weights, strict=True)]
        data = {"x": iter(rows)}
    if form == "an endless stream":
        data = {"x": itertools.cycle(rows), "steps_per_epoch": 1}
    made, expected = toys.model("gru"), toys.model("gru")
    expected.set_weights(made.get_weights())
    for model in (made, expected):
        model.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
    options = {"batch_size": 9, "verbose": 0}
    kept = slice(None)
    if form == "a part":
        kept, data["validation_split"] = slice(-3), 1 / 3
    x, y = expected.arrays(SOURCES[kept], TARGETS[kept])
    weights = np.array(weights)
    wanted = expected.evaluate(x, y, sample_weight=weights[kept], **options)
    expected.fit(x, y, sample_weight=weights[kept], **options)
    history = made.fit(**data, **options).history
    assert history["loss"] == pytest.approx(wanted[:1], rel=1e-5)
    for found, weight in zip(made.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(found, weight, atol=1e-5)
    if form == "a part":
        wanted = made.evaluate(
            SOURCES[-3:], TARGETS[-3:], sample_weight=weights[-3:], **options
        )
        assert history["val_loss"] == pytest.approx(wanted[:1], rel=1e-5)


@pytest.mark.once("arguments are checked")
@pytest.mark.parametrize(
    "weights, error, message",
    [
        ([1, 2], ValueError, "a number for each of 9 rows, received 2 in"),
        (["a"] * 9, TypeError, "sample_weight must be an array of real numbers"),
        (np.ones((9, 4)), ValueError, r"each of 9 rows, received the shape \(9, 4\)"),
        ([np.nan] * 9, ValueError, "sample_weight must be finite numbers"),
    ],
)
def test_wrong_weights_of_pairs(weights, error, message):
    with pytest.raises(error, match=message):
        toys.model("gru").fit(SOURCES, TARGETS, sample_weight=weights, verbose=0)
