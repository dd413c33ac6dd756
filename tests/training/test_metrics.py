"""Perplexity and bits per character against NumPy."""

import keras
import numpy as np
import pytest

from kerasseq.training import BitsPerCharacter, Perplexity, TokenAccuracy

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, V = 3, 5, 7
rng = np.random.default_rng(0)
logits = rng.normal(size=(B, T, V)).astype("float32")
y = rng.integers(0, V, (B, T))
mask = rng.uniform(size=(B, T)) < 0.6
UNITS = {Perplexity: np.exp, BitsPerCharacter: lambda nats: nats / np.log(2)}


def nats(weight):
    log_p = logits - np.log(np.exp(logits.astype("float64")).sum(-1, keepdims=True))
    each = -np.take_along_axis(log_p, y[..., None], axis=-1)[..., 0]
    return np.sum(each * weight) / np.sum(weight)


def masked(predictions, mask):
    predictions = keras.ops.convert_to_tensor(predictions)
    predictions._keras_mask = keras.ops.convert_to_tensor(mask)
    return predictions


@pytest.mark.parametrize("metric", UNITS)
@pytest.mark.parametrize(
    "weight", [None, rng.uniform(size=B), rng.uniform(size=(B, T)), np.array([0, 2, 0])]
)
def test_the_mean_over_tokens(metric, weight):
    ours = metric()
    ours.update_state(y, logits, sample_weight=weight)
    full = np.ones((B, T)) if weight is None else weight
    full = full[:, None] * np.ones((1, T)) if full.ndim == 1 else full
    expected = UNITS[metric](nats(full))
    assert float(ours.result()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.everywhere("compiled sums", cases=1)
@pytest.mark.parametrize("metric", UNITS)
def test_masks_leave_tokens_out_and_batches_add_up(metric):
    ours, at_once = metric(), metric()
    for row in range(B):
        ours.update_state(
            y[row : row + 1], masked(logits[row : row + 1], mask[row : row + 1])
        )
    at_once.update_state(y, masked(logits, mask))
    expected = UNITS[metric](nats(mask))
    assert float(ours.result()) == pytest.approx(expected, rel=1e-5)
    assert float(at_once.result()) == pytest.approx(expected, rel=1e-5)
    ours.reset_state()
    assert float(ours.result()) == UNITS[metric](0.0)


@pytest.mark.everywhere("where a traced tensor keeps its mask")
def test_masks_in_a_compiled_evaluation():
    inputs = keras.Input((None, V))
    model = keras.Model(inputs, keras.layers.Masking(-9.0)(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, metrics=[Perplexity()])
    x = np.where(mask[..., None], logits, -9.0)
    _, found = model.evaluate(x, y, verbose=0)
    assert found == pytest.approx(np.exp(nats(mask)), rel=1e-5)


def test_probabilities_and_configs():
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for metric in UNITS:
        ours = metric(from_logits=False, name="own")
        ours.update_state(y, p)
        expected = UNITS[metric](nats(np.ones((B, T))))
        assert float(ours.result()) == pytest.approx(expected, rel=1e-4)
        copy = keras.metrics.deserialize(keras.metrics.serialize(ours))
        assert (copy.from_logits, copy.name) == (False, "own")


def test_perplexity_of_a_uniform_model():
    metric = Perplexity()
    metric.update_state(y, np.zeros((B, T, V)))
    assert float(metric.result()) == pytest.approx(V, rel=1e-5)


@pytest.mark.parametrize(
    "weight", [None, rng.uniform(size=B), rng.uniform(size=(B, T)), np.array([0, 2, 0])]
)
@pytest.mark.parametrize("ignored", [0, 3])
def test_the_accuracy_of_tokens(weight, ignored):
    wanted = np.where(rng.uniform(size=y.shape) < 0.4, ignored, logits.argmax(axis=-1))
    wanted[0, :2] = (logits[0, :2].argmax(axis=-1) + 1) % V  # wrong ones
    ours, in_parts = (TokenAccuracy(ignore_class=ignored) for _ in range(2))
    ours.update_state(wanted, logits, sample_weight=weight)
    full = np.ones((B, T)) if weight is None else weight
    full = full[:, None] * np.ones((1, T)) if full.ndim == 1 else full
    counted = full * (wanted != ignored)
    right = logits.argmax(axis=-1) == wanted
    expected = (right * counted).sum() / counted.sum()
    assert expected > 0
    assert float(ours.result()) == pytest.approx(expected, rel=1e-5)
    for row in range(B):
        some = None if weight is None else weight[row : row + 1]
        at = slice(row, row + 1)
        in_parts.update_state(wanted[at], logits[at], sample_weight=some)
    assert float(in_parts.result()) == pytest.approx(expected, rel=1e-5)
    ours.reset_state()
    assert float(ours.result()) == 0


def test_the_config_of_token_accuracy():
    ours = TokenAccuracy(name="own", ignore_class=3)
    copy = keras.metrics.deserialize(keras.metrics.serialize(ours))
    assert (copy.ignore_class, copy.name) == (3, "own")


def test_clipping_by_the_global_norm():
    w = keras.Variable(np.zeros(2, "float32")), keras.Variable(np.zeros(1, "float32"))
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1.0)
    gradients = [np.array([30.0, 0.0], "float32"), np.array([-40.0], "float32")]
    optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients], w)
    moved = [-keras.ops.convert_to_numpy(v) for v in w]
    np.testing.assert_allclose(moved[0], [0.6, 0], atol=1e-6)  # norm 50 becomes 1
    np.testing.assert_allclose(moved[1], [-0.8], atol=1e-6)


def test_a_model_clips_what_training_changes():
    from kerasseq.models import Forecaster

    model = Forecaster("elman", units=3)
    model.compile(keras.optimizers.SGD(1.0, global_clipnorm=1.0))
    x = rng.normal(size=(4, 7, 1))
    before = [keras.ops.convert_to_numpy(w) for w in model.trainable_variables]
    model.train_on_batch(x, np.full((4, 1), 1e4))
    after = [keras.ops.convert_to_numpy(w) for w in model.trainable_variables]
    change = np.sqrt(
        sum(np.sum((a - b) ** 2) for a, b in zip(after, before, strict=True))
    )
    assert change == pytest.approx(1.0, rel=1e-3)
