"""`PictureTokenizer`: its equations, what it reads, and what it learns."""

import math
import types

import keras
import numpy as np
import pytest
from keras import ops
from PIL import Image

import kerasseq
from kerasseq import models, tracing
from kerasseq.core.sublayers import default_policy

pytestmark = pytest.mark.once("layers of other models, and the quantizer's tests")

COUNT, HEIGHT, WIDTH, C = 11, 6, 10, 3
P, Q, K, D = 2, 5, 7, 3
GRID = (HEIGHT // P, WIDTH // Q)
SIZES = {"num_codes": K, "hidden_dim": 13, "code_dim": D, "seed": 1}


def tokenizer(**options):
    return models.PictureTokenizer((HEIGHT, WIDTH), (P, Q), **{**SIZES, **options})


def pictures(count=COUNT, size=(HEIGHT, WIDTH), channels=C, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *size, channels)).astype("uint8")


def numpy(x):
    return ops.convert_to_numpy(x)


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2


@pytest.fixture(scope="module")
def model():
    made = tokenizer()
    made.fit(pictures(), batch_size=4, epochs=2, verbose=0)
    return made


def rebuilt(model, images):
    """The ids of pictures, and the pictures of the ids, in NumPy."""
    weights = {w.path: numpy(w).astype("float64") for w in model.weights}

    def dense(name, x):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    x = images / 255 * 2 - 1
    ids = np.zeros((len(x), *GRID), int)
    y = np.zeros_like(x)
    e = weights["quantizer/codes"]
    for b, r, s in np.ndindex(*ids.shape):
        patch = (b, slice(P * r, P * r + P), slice(Q * s, Q * s + Q))
        z = dense("encoder_output", gelu(dense("encoder_hidden", x[patch].ravel())))
        k = ids[b, r, s] = ((z - e) ** 2).sum(-1).argmin()
        q = dense("decoder_output", gelu(dense("decoder_hidden", e[k])))
        y[patch] = q.reshape(P, Q, C)
    return ids, y


@pytest.mark.everywhere("a compiled step of training, and compiled ids and pictures")
def test_pictures_and_ids_are_those_of_the_equations(model):
    images = pictures(seed=1)
    ids, y = rebuilt(model, images)
    found = model.encode(images, batch_size=7)
    np.testing.assert_array_equal(found, ids)
    assert found.dtype == "int32"
    expected = np.clip((y + 1) / 2, 0, 1)
    drawn = model.decode(ids, batch_size=7)
    np.testing.assert_allclose(drawn, expected, atol=1e-5)
    assert drawn.dtype == "float32"
    np.testing.assert_allclose(
        model.predict(images, batch_size=7, verbose=0), expected, atol=1e-5
    )
    loss = (2 * (expected - images / 255)) ** 2
    p = np.bincount(ids.ravel(), minlength=K) / ids.size
    p = p[p > 0]
    found = model.evaluate(images, batch_size=7, return_dict=True, verbose=0)
    assert {*found} == {"loss", "perplexity"}
    assert found["loss"] == pytest.approx(loss.mean(), abs=1e-5)
    assert found["perplexity"] == pytest.approx(np.exp(-(p * np.log(p)).sum()), 1e-4)


def test_the_loss_does_not_depend_on_the_batch_size(model):
    images = pictures(seed=1)
    losses = [
        model.evaluate(images, batch_size=n, verbose=0)[0] for n in (1, 4, 7, COUNT)
    ]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
    weights = np.arange(COUNT) % 2  # 0 for the first, the third …
    weighted = model.evaluate(images, sample_weight=weights, batch_size=4, verbose=0)
    odd = model.evaluate(images[1::2], verbose=0)
    assert weighted[0] == pytest.approx(odd[0] * weights.mean(), rel=1e-5)
    many = np.tile(images, (100, 1, 1, 1))
    np.testing.assert_array_equal(model.encode(many)[-COUNT:], model.encode(images))


def test_all_kinds_of_pictures_are_read_alike(model, tmp_path):
    arrays = pictures(3)
    images = [Image.fromarray(array) for array in arrays]
    files = [tmp_path / f"{n}.png" for n in range(3)]
    for file, image in zip(files, images, strict=True):
        image.save(file)
    expected, loss = model.encode(arrays), model.evaluate(arrays, verbose=0)
    data = types.SimpleNamespace(images=arrays, texts=["a", "b", "c"])
    fractions = arrays.astype("float32") / 255
    for given in (files, images, fractions, tmp_path, data, ops.array(arrays)):
        np.testing.assert_array_equal(model.encode(given), expected)
        assert model.evaluate(given, verbose=0) == pytest.approx(loss, abs=1e-5)
        assert model.predict(given, verbose=0).shape == arrays.shape
    for one in (files[1], images[1], fractions[1]):
        np.testing.assert_array_equal(model.encode(one), expected[1])
    np.testing.assert_array_equal(model.decode(expected[1]), model.decode(expected)[1])
    trained = tokenizer()
    options = {"validation_split": 0.34, "batch_size": 2, "shift": 0.2, "flip": True}
    history = trained.fit(files, **options, validation_data=None, verbose=0).history
    assert {"loss", "perplexity", "val_loss", "val_perplexity"} == {*history}
    trained.fit(arrays, validation_data=files, patience=1, verbose=0)
    files[1].write_text("no picture")
    for use in (model.encode, model.predict, model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"1\.png cannot be read as an image"):
            use(files)
    with pytest.warns(UserWarning, match=r"1 of 3 images cannot be read.*1\.png"):
        found = model.predict(files, missing="skip", verbose=0)
    assert np.isnan(found[1]).all() and np.isfinite(found[::2]).all()
    with pytest.warns(UserWarning, match=r"1 of 3 images cannot be read.*1\.png"):
        trained.fit(tmp_path, missing="skip", verbose=0)


def test_other_sizes_and_gray_pictures():
    gray = tokenizer(channels=1)
    small = pictures(4, channels=1)[..., 0]
    gray.fit(small, verbose=0)
    assert gray.encode(small).shape == (4, *GRID)
    assert gray.encode(small[0]).shape == GRID
    large = pictures(2, (2 * HEIGHT, 3 * WIDTH), channels=1)
    ids = gray.encode(large)
    assert ids.shape == (2, 2 * GRID[0], 3 * GRID[1])
    assert gray.decode(ids).shape == large.shape
    corner = gray.encode(large[:, :HEIGHT, :WIDTH])
    np.testing.assert_array_equal(ids[:, : GRID[0], : GRID[1]], corner)
    shifted = np.roll(large, (P, Q), axis=(1, 2))
    np.testing.assert_array_equal(
        gray.encode(shifted), np.roll(ids, (1, 1), axis=(1, 2))
    )


def test_rare_patches_get_codes_of_their_own():
    """Five kinds of patches, four of them rare, have an id each."""
    keras.utils.set_random_seed(0)
    kinds = np.random.default_rng(0).random((5, P, Q, C)).astype("float32")
    shares = [0.92, 0.02, 0.02, 0.02, 0.02]
    which = np.random.default_rng(1).choice(5, (256, *GRID), p=shares)
    images = kinds[which].transpose(0, 1, 3, 2, 4, 5).reshape(256, HEIGHT, WIDTH, C)
    model = tokenizer(hidden_dim=32, decay=0.9)
    rate = keras.optimizers.schedules.CosineDecay(1e-2, 120)
    model.compile(keras.optimizers.Adam(rate))
    model.fit(images, batch_size=32, epochs=15, verbose=0)
    pairs = {*zip(which.ravel(), model.encode(images).ravel(), strict=True)}
    assert len(pairs) == 5  # an id for each kind
    p = np.bincount(which.ravel()) / which.size
    expected = np.exp(-(p * np.log(p)).sum())
    loss, perplexity = model.evaluate(images, verbose=0)
    mean = np.average(kinds, axis=0, weights=p)
    of_one_code = 4 * np.average((kinds - mean) ** 2, axis=0, weights=p).mean()
    assert loss < 0.5 * of_one_code
    assert perplexity == pytest.approx(expected, rel=1e-4)


def test_saved_and_trained_on(model, tmp_path):
    images = pictures()
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.encode(images), model.encode(images))
    options = {"batch_size": 4, "epochs": 2, "verbose": 0}
    a, b = (each.fit(images, **options).history for each in (model, loaded))
    assert a["loss"] == pytest.approx(b["loss"], abs=1e-6)
    for weight, same in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_allclose(numpy(weight), numpy(same), atol=1e-6)


def test_a_frozen_tokenizer_stays_as_it_is(model):
    images = pictures()
    frozen = tokenizer()
    frozen.set_weights(model.get_weights())
    frozen.trainable = False
    before = [numpy(w).copy() for w in frozen.weights]
    reads = keras.layers.Embedding(K, 5)
    pixels = keras.Input((HEIGHT, WIDTH, C))
    x = keras.layers.Flatten()(reads(frozen(pixels)[1]))
    outer = keras.Model(pixels, keras.layers.Dense(1)(x))
    outer.compile("adam", "mse")
    outer.fit(images / 255.0, np.ones((COUNT, 1)), verbose=0)
    for weight, old in zip(frozen.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(weight), old)


def test_a_trace_has_the_ids(model):
    images = pictures(2)
    with tracing.trace(model) as inside:
        model(images)
    np.testing.assert_array_equal(inside["quantizer/ids"], model.encode(images))
    with tracing.trace(model) as inside:
        ids = model.encode(images)
        model.decode(ids)
    np.testing.assert_array_equal(inside["quantizer/ids"], ids)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    with default_policy(policy):
        model = tokenizer()
    history = model.fit(pictures(), verbose=0).history
    assert np.isfinite(history["loss"]).all()
    images, ids = model(pictures())
    assert keras.backend.standardize_dtype(images.dtype) == "float32"
    np.testing.assert_array_equal(numpy(ids), model.encode(pictures()))
    np.testing.assert_allclose(model.decode(numpy(ids)), numpy(images), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch_size": 4}, "patch_size must divide the image size 6 × 10.*4 × 4"),
        ({"image_size": (1, 2, 3)}, "image_size must be a whole number or"),
        ({"num_codes": 0}, "num_codes must be at least 1, received 0"),
        ({"code_dim": -3}, "code_dim must be .*received -3"),
        ({"commitment": -0.1}, "commitment must not be negative, received -0.1"),
        ({"resize": "squeeze"}, 'resize="squeeze" is not one of "crop"'),
        ({"codes": 7}, "has no argument codes"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    arguments = {"image_size": (HEIGHT, WIDTH), "patch_size": (P, Q), **options}
    with pytest.raises((TypeError, ValueError), match=message):
        models.PictureTokenizer(**arguments)


def test_wrong_pictures_and_ids_are_named(model):
    images = pictures()
    for given, message in [
        (images[..., :2], r"images must have shape .*channels=3.*\(11, 6, 10, 2\)"),
        (images[:, :5], "patch_size must divide the image size 5 × 10"),
        (images.astype("float32"), "floats in images must be from 0 to 1"),
        (
            np.where(images > 9, np.nan, 0.5),
            "images must be finite numbers.* nan",
        ),
        ("missing.png", "missing.png"),
        (["missing.png"], "missing.png"),
        (7, "received 7"),
        ([], "at least one row"),
    ]:
        for use in (model.fit, model.encode):
            with pytest.raises((TypeError, ValueError, OSError), match=message):
                use(given)
    with pytest.raises(TypeError, match="y must be None, as the pictures are their"):
        model.fit(images, images, verbose=0)
    with pytest.raises(TypeError, match="report needs a model with labels"):
        model.report(images)
    for ids, message in [
        ([[0, 7]], "expected ids from 0 to 6, as num_codes=7, received 7"),
        ([[0, -1]], "expected ids from 0 to 6, as num_codes=7, received -1"),
        ([[0.5, 1]], "ids must be integers"),
        ([3, 2], r"ids must have shape \(pictures, rows, columns\).*\(2,\)"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            model.decode(ids)
    empty = model.predict(images[:0], verbose=0)
    assert empty.shape == (0, HEIGHT, WIDTH, C)
