"""Hard attention with `gradient="reinforce"`: an unbiased estimate of the gradient."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import kernels
from kerasseq.attention import choices
from kerasseq.layers import AlignmentAttention, LuongAttention
from kerasseq.models import ReinforcedModel

pytestmark = pytest.mark.once("equations of one layer and one model")

T, S, D = 2, 3, 5  # two glimpses at three positions
rng = np.random.default_rng(0)
query, value = (rng.normal(size=(1, n, D)).astype("float32") for n in (T, S))
query *= 0.3
target = rng.normal(size=(1, T * D)).astype("float32")
real = np.array([[False, True, True]])


def numpy(x):
    return ops.convert_to_numpy(x)


def attention(**options):
    return LuongAttention("general", hard=True, gradient="reinforce", **options)


def classifier(seed=0, mask=False, **options):
    """A model that looks at one of its steps; rows of zeros are padding."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((None, D))
    places = keras.layers.Masking()(inputs) if mask else inputs
    mean = keras.layers.GlobalAveragePooling1D(keepdims=True)(places)
    glimpse = attention(seed=1, name="look")(mean, places)
    outputs = keras.layers.Dense(2)(keras.layers.Reshape((D,))(glimpse))
    return ReinforcedModel(keras.Model(inputs, outputs), **options)


def compiled(model, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, **options)
    return model


def squared_errors(c):
    c = ops.reshape(c, (-1, T * D))
    return ops.sum(ops.square(c - ops.convert_to_tensor(target)), axis=-1)


def gradient(loss, q):
    return numpy(kernels.gradients(lambda x: loss(x[0]), [ops.convert_to_tensor(q)])[0])


def estimate(seed, size, baseline):
    """The gradient of the expected loss with respect to the queries, by sampling."""
    layer = AlignmentAttention(
        score="dot", hard=True, gradient="reinforce", seed=seed, dtype="float32"
    )
    v, mask = (ops.convert_to_tensor(np.repeat(x, size, 0)) for x in (value, real))

    def surrogate(q):
        with choices.collect() as collected:
            q = ops.repeat(q, size, axis=0)
            c = layer(q, v, mask=mask, training=True)
        loss = ops.stop_gradient(squared_errors(c))
        return ops.mean((loss - baseline) * choices.log_probability(collected))

    return gradient(surrogate, query)


def expected_loss(q):
    """The loss by enumeration of all pairs of positions."""
    e = ops.matmul(q, ops.convert_to_tensor(value[0].T))
    allowed = ops.convert_to_tensor(real)[:, None]
    alpha = ops.softmax(ops.where(allowed, e, -1e9))
    total = 0.0
    for i, j in itertools.product(np.flatnonzero(real[0]), repeat=T):
        error = squared_errors(ops.convert_to_tensor(value[:, [i, j]]))[0]
        total = total + alpha[0, 0, i] * alpha[0, 1, j] * error
    return total


@pytest.mark.everywhere("gradients of the backend")
@pytest.mark.parametrize("baseline", [0.0, 9.0])
def test_the_mean_over_samples_is_the_exact_gradient(baseline):
    found = np.stack([estimate(seed, 512, baseline) for seed in range(24)])
    wanted = gradient(expected_loss, query)
    error = found.std(0, ddof=1) / len(found) ** 0.5
    assert np.abs(wanted).max() > 10 * error.max()
    assert (np.abs(found.mean(0) - wanted) < 3 * error + 1e-5).all()


def test_log_probabilities_and_masked_queries():
    layer = attention(seed=1)
    masks = {"mask": real, "query_mask": np.array([[True, False]])}
    with choices.collect() as collected, kerasseq.tracing.trace(layer) as inside:
        c, one = layer(
            query, value, **masks, training=True, return_attention_scores=True
        )
    one, log_p = numpy(one), numpy(collected[0])
    soft = LuongAttention("general")
    soft.build(query.shape, value.shape)
    soft.W.assign(layer.W)
    _, alpha = soft(query, value, **masks, return_attention_scores=True)
    assert one[0, 0, 0] == 0 and one[0, 0].sum() == 1
    wanted = np.log((one * numpy(alpha)).sum(-1)[0, 0])
    np.testing.assert_allclose(log_p, [[wanted, 0]], atol=1e-5)
    np.testing.assert_allclose(inside["log_probability"], log_p)
    assert (numpy(c)[0, 1] == 0).all()


def gradient_terms(model, x, y):
    """The changes of the weights in a step of gradient descent, with rate 1."""
    before = [numpy(weight).copy() for weight in model.trainable_variables]
    model.train_on_batch(x, y)
    after = [numpy(weight).copy() for weight in model.trainable_variables]
    for weight, value in zip(model.trainable_variables, before, strict=True):
        weight.assign(value)
    model.baseline.assign(-0.3)
    return [a - b for a, b in zip(after, before, strict=True)]


def test_terms_depend_neither_on_the_batch_nor_on_padding():
    """The gradient of a batch is the mean of those of its rows, padded or not."""
    model = compiled(classifier(mask=True))
    model.compile(keras.optimizers.SGD(1.0), model.loss, run_eagerly=True)
    model.baseline.assign(-0.3)
    look = model.model.get_layer("look")

    def last_real(alpha, sampled):  # the same choice in each of the calls
        real = ops.cast(alpha > 0, "int32")
        at = ops.argmax(ops.cumsum(real, axis=-1), axis=-1)
        return ops.one_hot(at, ops.shape(alpha)[-1], dtype=alpha.dtype)

    look._position = last_real
    x = rng.normal(size=(3, 4, D)).astype("float32")
    y = np.array([0, 1, 1])
    batch = gradient_terms(model, x, y)
    rows = [gradient_terms(model, x[n : n + 1], y[n : n + 1]) for n in range(3)]
    for whole, *each in zip(batch, *rows, strict=True):
        np.testing.assert_allclose(whole, np.mean(each, 0), atol=1e-5)
    for padding in ((0, 2), (3, 0)):
        padded = np.pad(x, ((0, 0), padding, (0, 0)))
        for whole, other in zip(batch, gradient_terms(model, padded, y), strict=True):
            np.testing.assert_allclose(whole, other, atol=1e-5)
    assert np.abs(batch[0]).max() > 1e-4  # W of the attention


@pytest.mark.everywhere("trained, saved, loaded")
def test_fit_learns_where_to_look(tmp_path):
    """The label is in the step whose first feature is 3; others are noise."""
    random = np.random.default_rng(1)
    x = random.normal(size=(256, 4, D)).astype("float32")
    x[..., 0] = 0
    at, y = random.integers(0, 4, 256), random.integers(0, 2, 256)
    x[np.arange(256), at, 0], x[np.arange(256), at, 1] = 3, 4 * y - 2
    model = compiled(classifier(), metrics=["accuracy"])
    before = numpy(model.model.get_layer("look").W).copy()
    model.fit(x, y, batch_size=32, epochs=25, verbose=0)
    assert np.abs(numpy(model.model.get_layer("look").W) - before).max() > 0.1
    assert -0.8 < float(numpy(model.baseline)) < 0
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy > 0.9
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-5
    )
    assert loaded.baseline_decay == 0.9
    assert loaded.evaluate(x, y, verbose=0)[0] == pytest.approx(loss, abs=1e-5)


def test_mixed_precision_follows_float32():
    """One step of both from the same weights, at the place that scores highest."""
    x = rng.normal(size=(7, 4, D)).astype("float32")
    y = rng.integers(0, 2, 7)
    policy = keras.config.dtype_policy()
    exact = compiled(classifier(), run_eagerly=True)
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        rounded = compiled(classifier(), run_eagerly=True)
    finally:
        keras.config.set_dtype_policy(policy)
    rounded.set_weights(exact.get_weights())
    changes = []
    for model in (exact, rounded):
        model.compile(keras.optimizers.SGD(1.0), model.loss, run_eagerly=True)
        model.baseline.assign(-0.3)
        look = model.model.get_layer("look")
        look._position = lambda alpha, sampled: ops.one_hot(
            ops.argmax(alpha, axis=-1), ops.shape(alpha)[-1], dtype=alpha.dtype
        )
        changes.append(gradient_terms(model, x, y))
    assert look.compute_dtype == "bfloat16"
    assert rounded.baseline.dtype == "float32"
    for a, b in zip(*changes, strict=True):
        np.testing.assert_allclose(b, a, atol=0.03)
    assert max(np.abs(a).max() for a in changes[0]) > 0.1


def test_what_is_frozen_stays_frozen(tmp_path):
    model = classifier()
    model.model.get_layer("look").trainable = False
    compiled(model)
    x, y = rng.normal(size=(7, 4, D)).astype("float32"), rng.integers(0, 2, 7)
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    names = [v.path.split("/")[1] for v in loaded.trainable_variables]
    assert names == ["kernel", "bias"]  # of the dense layer
    look = loaded.model.get_layer("look")
    before = [numpy(w).copy() for w in look.weights]
    loaded.fit(x, y, verbose=0)
    for old, new in zip(before, look.weights, strict=True):
        np.testing.assert_array_equal(numpy(new), old)


def test_the_reported_loss_is_the_loss_and_rewards_may_be_accuracies():
    x, y = rng.normal(size=(7, 4, D)).astype("float32"), rng.integers(0, 2, 7)
    model = compiled(classifier(reward="accuracy", weight=0.5, baseline_decay=0.0))
    outputs = model(x, training=True)
    loss = float(numpy(model.compute_loss(x, y, outputs, training=True)))
    wanted = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, outputs)
    assert loss == pytest.approx(float(numpy(wanted)), abs=1e-6)
    accuracy = (numpy(outputs).argmax(-1) == y).mean()
    assert float(numpy(model.baseline)) == pytest.approx(accuracy, abs=1e-6)
    weights = np.linspace(0, 1, 7)
    history = model.fit(x, y, sample_weight=weights, verbose=0).history
    assert np.isfinite(history["loss"][0])


def test_wrong_uses():
    with pytest.raises(ValueError, match='gradient="reinforce" needs hard=True'):
        AlignmentAttention(3, gradient="reinforce")
    with pytest.raises(ValueError, match='gradient="soft" is not one of "straight_thr'):
        AlignmentAttention(3, hard=True, gradient="soft")
    with pytest.raises(ValueError, match="needs a reward in training.*ReinforcedModel"):
        attention()(query, value, training=True)
    with pytest.raises(TypeError, match="model must be a keras.Model, received 3"):
        ReinforcedModel(3)
    for options in ({"reward": "bleu"}, {"weight": 0}, {"baseline_decay": 1.5}):
        with pytest.raises(ValueError, match=next(iter(options))):
            classifier(**options)
    x, y = np.ones((2, 3, D)), np.ones((2, 2))
    for loss, error in (
        (["mse"], TypeError),
        (keras.losses.MeanSquaredError(reduction="sum"), ValueError),
    ):
        model = classifier()
        model.compile(loss=loss)
        with pytest.raises(error, match="loss must "):
            model.fit(x, y, verbose=0)
    inputs = keras.Input((None, D))
    steps = ReinforcedModel(keras.Model(inputs, attention()(inputs, inputs)))
    steps.compile(loss="mse")
    with pytest.raises(ValueError, match="one number for each example"):
        steps.fit(np.ones((2, 3, D)), np.ones((2, 3, D)), verbose=0)
