"""The loss of chunks of positions is that of all at once."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models, training
from kerasseq.tasks import loss_means

pytestmark = pytest.mark.once("the chunks are the same on each backend")
V = 11
RNG = np.random.default_rng(0)
IDS, NEXT = RNG.integers(0, V, (2, 5, 7)).astype("int32")
WEIGHTS = RNG.uniform(0, 1, (5, 7)).astype("float32")
WEIGHTS[0, 3:] = 0  # padding
LOSS = keras.losses.SparseCategoricalCrossentropy


def results(make, chunk, weight=None, **options):
    """The losses, metrics and weights of two epochs, and of `evaluate`."""
    keras.utils.set_random_seed(3)
    model = make()
    metrics = {
        "metrics": [training.Perplexity(name="perplexity"), "accuracy"],
        "weighted_metrics": [training.BitsPerCharacter(name="bits")],
    }
    optimizer = keras.optimizers.SGD(0.1)
    model.compile(optimizer, loss_chunk_size=chunk, **metrics, **options)
    data = {"sample_weight": weight, "batch_size": 3, "verbose": 0}
    data["batch_size"] = 5 if model.name == "with_memory" else 3
    history = model.fit(IDS, NEXT, epochs=2, shuffle=False, **data).history
    scores = model.evaluate(IDS, NEXT, return_dict=True, **data)
    assert model.predict(IDS, verbose=0).shape == (5, 7, V)
    weights = [keras.ops.convert_to_numpy(w) for w in model.weights]
    return history, scores, weights


def check_same(make, chunk=4, weight=None, **options):
    whole = results(make, None, weight, **options)
    parts = results(make, chunk, weight, **options)
    for found, expected in zip(parts[:2], whole[:2], strict=True):
        assert sorted(found) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6)
    for w, other in zip(whole[2], parts[2], strict=True):
        np.testing.assert_allclose(other, w, atol=1e-6)


def gpt(**options):
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
    return lambda: models.GPT(vocabulary_size=V, **sizes, **options)


@pytest.mark.everywhere("loops and gradients are those of the backend")
def test_weights_of_positions_and_an_untied_head_with_a_cap():
    head = {"tie_embeddings": False, "logit_soft_cap": 3.0}
    found = []
    for chunk in (None, 4):
        keras.utils.set_random_seed(3)
        model = gpt(dropout=0.2, **head)()
        model.compile(keras.optimizers.SGD(0.1), loss_chunk_size=chunk)
        scores = model.train_on_batch(IDS, NEXT, WEIGHTS, return_dict=True)
        weights = [keras.ops.convert_to_numpy(w) for w in model.weights]
        found.append([float(scores["loss"]), float(scores["bits"]), *weights])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_a_tied_head_and_a_chunk_larger_than_the_batch():
    check_same(gpt(), chunk=50)


def test_a_class_that_is_ignored():
    loss = LOSS(from_logits=True, ignore_class=2)
    check_same(gpt(), weight=WEIGHTS, loss=loss)


def test_a_gru_with_skip_and_remat():
    make = lambda: models.LanguageModel("gru", vocabulary_size=V, units=5, skip=True)  # noqa: E731
    check_same(make, weight=WEIGHTS, remat="full")


def test_a_memory_of_segments():
    check_same(gpt(position="rope", memory_length=5, name="with_memory"))


def test_a_file_keeps_the_size(tmp_path):
    model = gpt()()
    loss = LOSS(from_logits=True, ignore_class=2)
    model.compile("sgd", loss, metrics=["accuracy"], loss_chunk_size=4)
    model.train_on_batch(IDS, NEXT)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.get_compile_config()["loss_chunk_size"] == 4
    first = model.train_on_batch(IDS, NEXT, return_dict=True)
    again = loaded.train_on_batch(IDS, NEXT, return_dict=True)
    assert sorted(again) == ["accuracy", "loss"]
    np.testing.assert_allclose(float(again["loss"]), float(first["loss"]), atol=1e-6)


def test_errors_tell_what_would_be_right():
    model = gpt()()
    with pytest.raises(ValueError, match="loss_chunk_size must be at least 1"):
        model.compile(loss_chunk_size=0)
    with pytest.raises(TypeError, match="loss_chunk_size must be"):
        model.compile(loss_chunk_size=2.5)
    with pytest.raises(TypeError, match=r"loss must be a keras.losses.Loss"):
        model.compile(loss=lambda y, p: y, loss_chunk_size=4)
    with pytest.raises(ValueError, match="one number for each position"):
        model.compile(loss=keras.losses.CategoricalCrossentropy(), loss_chunk_size=4)
    with pytest.raises(TypeError, match="metrics must be names"):
        model.compile(metrics=[lambda y, p: y], loss_chunk_size=4)
    with pytest.raises(ValueError, match="without such a head"):
        gpt(head=None)().compile(loss_chunk_size=4)
    other = models.SequenceClassifier("gru", labels=3, vocabulary_size=V, units=4)
    with pytest.raises(ValueError, match="one by one, such as a GPT"):
        other.compile(loss_chunk_size=4)


def test_a_part_without_rows():
    """As on a device of TensorFlow that has none of a small batch."""
    model = gpt()()
    model.compile(loss_chunk_size=4)
    with loss_means.in_step(model):
        h = model(IDS)[:0]
        assert h.shape == (0, 7, 8)
        loss = model.compute_loss(IDS[:0], NEXT[:0], h)
    assert float(keras.ops.convert_to_numpy(loss)) == 0
