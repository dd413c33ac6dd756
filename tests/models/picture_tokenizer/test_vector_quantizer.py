"""`VectorQuantizer` beside its equations in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing, training
from kerasseq.models.picture_tokenizer import codebook

pytestmark = pytest.mark.once("the same operations as those run everywhere")

K, D, B, T = 7, 3, 5, 11
MASKED = 9.0  # what `keras.layers.Masking` masks
BETA, GAMMA, EPSILON, THETA = 0.3, 0.8, 1e-4, 0.7


def numpy(x):
    return ops.convert_to_numpy(x)


def batch(seed):
    """Vectors around a few centers, and which of them are real."""
    rng = np.random.default_rng(seed)
    centers = 2 * np.random.default_rng(0).normal(size=(4, D))
    x = centers[rng.integers(0, 4, (B, T))] + 0.3 * rng.normal(size=(B, T, D))
    return x.astype("float32"), rng.random((B, T)) < 0.7


def quantizer(**options):
    options = {"commitment": BETA, "decay": GAMMA, "seed": 5, **options}
    return layers.VectorQuantizer(K, D, epsilon=EPSILON, threshold=THETA, **options)


def squared_distances(z, e):
    return ((z[:, None] - e) ** 2).sum(-1)  # (n, K)


class Reference:
    """The equations of `codebook` in float64."""

    def __init__(self, layer):
        self.N, self.M = (
            numpy(w).astype("float64") for w in (layer.counts, layer.sums)
        )
        self.e = numpy(layer.codes).astype("float64")
        self.seeds = keras.random.SeedGenerator(layer.seed)

    def step(self, x, real):
        """Moves the codes; returns vectors of codes, ids, and the loss."""
        z = x[real].astype("float64")
        d = squared_distances(z, self.e)
        k, w = d.argmin(1), d.min(1)
        q = self.e[k]
        for j in range(K):
            self.N[j] = GAMMA * self.N[j] + (1 - GAMMA) * (k == j).sum()
            self.M[j] = GAMMA * self.M[j] + (1 - GAMMA) * z[k == j].sum(0)
        u = float(keras.random.uniform((), seed=self.seeds))
        usual = self.N.mean()
        dead = np.flatnonzero(self.N / usual < THETA)
        for r, j in enumerate(dead):
            i = np.searchsorted(w.cumsum(), (r + u) / len(dead) * w.sum(), "right")
            self.N[j], self.M[j] = usual, usual * z[i]
        total = self.N.sum()
        smooth = (self.N + EPSILON) / (total + K * EPSILON) * total
        self.e = self.M / smooth[:, None]
        return q, k, BETA * ((z - q) ** 2).mean(), len(dead)


@pytest.mark.everywhere("variables that a compiled step of training assigns")
def test_averages_are_those_of_the_equations():
    layer = quantizer()
    dense = keras.layers.Dense(D, use_bias=False, kernel_initializer="identity")
    masking = keras.layers.Masking(MASKED)
    model = keras.Sequential([keras.Input((T, D)), masking, dense, layer])
    # XLA on TensorFlow draws other numbers than an eager call, as in the reference.
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False)
    reference, replaced = Reference(layer), 0
    for seed in range(6):
        x, real = batch(seed)
        if seed == 4:
            real[:] = False
        x[~real] = MASKED
        before = [numpy(w).copy() for w in layer.weights]
        loss = float(model.train_on_batch(x, np.zeros_like(x)))
        if not real.any():
            for weight, old in zip(layer.weights, before, strict=True):
                np.testing.assert_array_equal(numpy(weight), old)
            reference.seeds.next()
            continue
        q, k, commitment, dead = reference.step(x, real)
        replaced += dead
        assert loss - commitment == pytest.approx((q**2).mean(), abs=1e-5)
        for name, expected in (("counts", "N"), ("sums", "M"), ("codes", "e")):
            np.testing.assert_allclose(
                *(numpy(getattr(layer, name)), getattr(reference, expected)),
                rtol=1e-6,
                atol=1e-6,
                err_msg=f"{name} after {seed + 1} batches",
            )
    assert replaced >= K
    x, real = batch(9)
    ids = numpy(layer.encode(x, real))
    expected = squared_distances(x[real], numpy(layer.codes)).argmin(1)
    np.testing.assert_array_equal(ids[real], expected)
    assert (ids[~real] == -1).all()
    p = reference.N / reference.N.sum()
    assert float(layer.perplexity) == pytest.approx(np.exp(-(p * np.log(p)).sum()))


@pytest.mark.everywhere("gradients of each backend")
def test_the_gradient_is_straight_through_with_the_commitment():
    layer = quantizer()
    layer.build((None, None, D))
    x, real = batch(0)
    x[~real] = np.nan
    w = np.random.default_rng(1).normal(size=x.shape).astype("float32")

    def total(x):
        with keras.StatelessScope(collect_losses=True) as scope:
            y = layer(x, mask=real, training=True)
        (loss,) = scope.losses
        return ops.sum(ops.convert_to_tensor(w) * y) + loss

    gradient = numpy(kernels.gradients(total, x))
    y = numpy(layer(x, mask=real))
    expected = w + 2 * BETA * (x - y) / (D * real.sum())
    np.testing.assert_allclose(gradient[real], expected[real], atol=1e-6)
    assert not gradient[~real].any() and not y[~real].any()


def test_the_draw_is_in_proportion_to_the_error():
    rng = np.random.default_rng(0)
    z, w = rng.normal(size=(13, D)), rng.random(13)
    w[[2, 12]] = 0
    N = np.array([0.1, 5, 0, 6, 5, 0.1, 5])
    averages = codebook.Averages(*map(ops.convert_to_tensor, (N, np.ones((K, D)))))
    dead, drawn = N < 0.5, np.zeros(13)
    points = (np.arange(1000) + 0.5) / 1000
    for u in points:
        new = codebook.replaced(
            averages, *map(ops.convert_to_tensor, (z, w)), 0.5, float(u)
        )
        e = numpy(new.M) / numpy(new.N)[:, None]
        np.testing.assert_allclose(numpy(new.N)[dead], N.mean())
        np.testing.assert_allclose(numpy(new.M)[~dead], 1)
        rows = squared_distances(e[dead], z).argmin(1)
        np.testing.assert_allclose(e[dead], z[rows], atol=1e-12)
        drawn[rows] += 1
    expected = dead.sum() * w / w.sum()
    np.testing.assert_allclose(drawn / len(points), expected, atol=2e-3)
    assert (drawn[[2, 12]] == 0).all()
    perfect = codebook.replaced(
        averages, *map(ops.convert_to_tensor, (z, 0 * w)), 0.5, 0.5
    )
    np.testing.assert_array_equal(numpy(perfect.N), N)


def test_padding_and_batch_size_change_nothing():
    x, real = batch(3)
    rows = x[real]
    garbage = np.where(real[..., None], x, np.nan)
    one, other, twice = (quantizer() for _ in range(3))
    y, ids = one(garbage, mask=real, training=True, return_ids=True)
    expected, expected_ids = other(rows, training=True, return_ids=True)
    np.testing.assert_array_equal(numpy(y)[real], numpy(expected))
    np.testing.assert_array_equal(numpy(ids)[real], numpy(expected_ids))
    for weight, same in zip(one.weights, other.weights, strict=True):
        np.testing.assert_allclose(numpy(weight), numpy(same), atol=1e-6)
    twice(np.concatenate([rows, rows]), training=True)
    losses = [float(layer.losses[0]) for layer in (one, other, twice)]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)
    metric = training.CodePerplexity(K)
    metric.update_state(ids)
    seen = np.bincount(numpy(expected_ids), minlength=K) / len(rows)
    seen = seen[seen > 0]
    entropy = -(seen * np.log(seen)).sum()
    assert float(metric.result()) == pytest.approx(np.exp(entropy), rel=1e-6)
    metric.update_state(ids, sample_weight=np.zeros(B))
    assert float(metric.result()) == pytest.approx(np.exp(entropy), rel=1e-6)


def test_frozen_and_outside_training_nothing_moves():
    x, _ = batch(0)
    layer = quantizer()
    layer(x)
    assert not layer.losses
    before = [numpy(w).copy() for w in layer.variables]
    layer(x, training=False)
    layer.trainable = False
    layer(x, training=True)
    assert len(layer.losses) == 1  # an encoder may be trained for fixed codes
    for variable, old in zip(layer.variables, before, strict=True):
        np.testing.assert_array_equal(numpy(variable), old)
    assert not layer.trainable_weights
    layer.trainable = True
    assert not layer.trainable_weights  # codes have no gradient
    layer(x, training=True)
    moved = zip(layer.variables, before, strict=True)
    assert all((numpy(variable) != old).any() for variable, old in moved)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_codes_are_float32_in_mixed_precision(policy):
    layer = quantizer(dtype=policy)
    x, _ = batch(0)
    y, ids = layer(x, training=True, return_ids=True)
    assert {w.dtype for w in layer.weights} == {"float32"}
    compute = keras.DTypePolicy(policy).compute_dtype
    assert keras.backend.standardize_dtype(y.dtype) == compute
    same = quantizer()
    rounded = numpy(ops.cast(ops.cast(x, compute), "float32"))
    same(rounded, training=True)
    for weight, expected in zip(layer.weights, same.weights, strict=True):
        np.testing.assert_allclose(numpy(weight), numpy(expected), atol=1e-6)
    assert keras.backend.standardize_dtype(layer.decode(ids).dtype) == compute


def test_ids_and_codes_go_both_ways():
    x, real = batch(0)
    layer = quantizer()
    y, ids = layer(x, mask=real, return_ids=True)
    np.testing.assert_array_equal(numpy(layer.decode(ids)), numpy(y))
    np.testing.assert_array_equal(numpy(layer.encode(x, real)), numpy(ids))
    np.testing.assert_array_equal(numpy(layer.encode(y, real)), numpy(ids))
    model = keras.Sequential([keras.Input((T, D)), layer])
    with tracing.trace(model) as inside:
        model(x)
    np.testing.assert_array_equal(inside[f"{layer.name}/ids"], numpy(layer.encode(x)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_codes": 0}, "num_codes must be at least 1, received 0"),
        ({"dim": 2.5}, "dim must be a whole number"),
        ({"commitment": -1}, "commitment must not be negative, received -1"),
        ({"decay": 1.5}, "decay must lie between 0 and 1, received 1.5"),
        ({"epsilon": 0}, "epsilon must be .*received 0"),
        ({"threshold": "low"}, "threshold must be .*received 'low'"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        layers.VectorQuantizer(**{"num_codes": K, "dim": D, **options})


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match=r"dim=3 features.*\(2, 5\).*dim=5"):
        quantizer()(np.ones((2, 5)))
    layer = quantizer()
    with pytest.raises(ValueError, match=r"mask must have shape \(batch, time\)"):
        layer(np.ones((2, 5, D)), mask=np.ones((2, 4), bool))
    with pytest.raises(TypeError, match="x must hold numbers, received booleans"):
        layer.encode(np.ones((2, D), bool))
