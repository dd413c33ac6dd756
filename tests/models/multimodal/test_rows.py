"""Rows of a Multimodal: what users pass, and what is wrong with it."""

import types

import keras
import numpy as np
import pytest
from PIL import Image

import kerasseq
from kerasseq import models, tracing
from kerasseq.core.sublayers import default_policy
from tests.models.multimodal.toys import (
    COUNT,
    FILMS,
    PICTURES,
    SIZES,
    SOUNDS,
    TEXTS,
    multimodal,
    pictures,
    rows_of,
    sounds,
)

pytestmark = pytest.mark.once("rows and messages are made of NumPy arrays")


@pytest.fixture(scope="module")
def model():
    return multimodal(num_layers=1)


@pytest.fixture(scope="module")
def both():
    return multimodal(num_layers=1, **FILMS, **SOUNDS)


def test_files_pictures_and_arrays_are_the_same(model, tmp_path):
    arrays = pictures(3)
    images = [Image.fromarray(array) for array in arrays]
    files = []
    for n, image in enumerate(images):
        files.append(tmp_path / f"{n}.png")
        image.save(files[-1])
    expected = model.embed_images(arrays)
    fractions = arrays.astype("float32") / 255
    for given in (files, images, fractions, [*arrays], tmp_path):
        found = model.embed_images(given)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    texts = TEXTS[:3]
    loss = model.evaluate(arrays, texts, verbose=0)
    data = types.SimpleNamespace(images=arrays, texts=texts)
    for given in (data, {"images": files, "texts": texts}):
        assert model.evaluate(given, verbose=0) == pytest.approx(loss, abs=1e-5)
    (tmp_path / "1.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"1\.png cannot be read as an image"):
        model.fit(files, texts, verbose=0)
    with pytest.warns(UserWarning, match=r"1 of 3 images cannot be read.*1\.png"):
        model.fit(files, texts, missing="skip", verbose=0)


def test_wrong_pictures_are_named(model, both):
    arrays = [*pictures(3)]
    wrong = {
        "another size": np.zeros((6, 11, 3)),
        "four channels": np.zeros((6, 10, 4)),
        "no channels": np.zeros((6, 10)),
    }
    advice = ["Resize it, or pass its file", "Convert its colors", "Resize it"]
    for image, hint in zip(wrong.values(), advice, strict=True):
        with pytest.raises(
            ValueError, match=r"images\[2\] must be .*\(6, 10, 3\).*" + hint
        ):
            model.fit([*arrays[:2], image], TEXTS[:3], verbose=0)
    films = [*pictures(2, (4, 6, 10)), pictures(1, (1, 6, 10))[0]]
    with pytest.raises(ValueError, match=r"images\[2\].*received.*Choose 4 of its fra"):
        both.embed_images(films)
    with pytest.raises(
        ValueError, match=r"images\[0\] must be a film .*\(4, 6, 10, 3\)"
    ):
        both.embed_images(pictures(2))
    with pytest.raises(ValueError, match="floats in images must be from 0 to 1"):
        model.embed_images(pictures(2).astype("float32"))
    with pytest.raises(TypeError, match="images must be films.*received files"):
        both.embed_images(["film.gif"])
    with pytest.raises(TypeError, match="images must be an array of pictures"):
        model.embed_images(7)


def test_wrong_texts_and_kinds_are_named(model, both):
    images = pictures()
    for text, message in [
        ("", r"texts\[1\] must have at least one word, received ''.*missing"),
        (None, r"texts\[1\] must have at least one word, received None"),
        (7, r"texts\[1\] must be a string, received 7"),
        ("a " * 8, r"texts\[1\] must have 1 to 7 tokens.*received 8"),
        ("a dog", r"texts\[1\] has .*, which the tokenizer does not know"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            model.fit(images, [TEXTS[0], text, *TEXTS[2:]], verbose=0)
    with pytest.raises(ValueError, match="images: 5, texts: 4. Each row is one"):
        model.fit(images, TEXTS[:4], verbose=0)
    with pytest.raises(ValueError, match='kind "audio". Build it with num_mels'):
        model.fit({"images": images, "audio": sounds()}, TEXTS, verbose=0)
    with pytest.raises(ValueError, match='received the kind "image". Did you mean "im'):
        model.fit({"image": images}, TEXTS, verbose=0)
    with pytest.raises(ValueError, match='kind "audio"'):
        model.embed_audio(sounds())
    with pytest.raises(ValueError, match='expected "images" and "audio" for each row'):
        both.evaluate({"audio": sounds()}, TEXTS, verbose=0)
    with pytest.raises(
        TypeError, match='expected a dictionary of "images" and "audio"'
    ):
        both.fit(images, TEXTS, verbose=0)
    with pytest.raises(ValueError, match="images: 5, audio: 4"):
        both.fit({**rows_of(both), "audio": sounds(4)}, TEXTS, verbose=0)
    with pytest.raises(ValueError, match=r"audio\[0\] must have at most 800 samples"):
        both.embed_audio([np.zeros(801)])
    with pytest.raises(
        ValueError, match="expected texts for the rows, received y=None"
    ):
        model.fit(images, verbose=0)
    with pytest.raises(TypeError, match="y must be a list of texts, received 3"):
        model.fit(images, 3)
    waiting = models.Multimodal(
        "word", image_size=(6, 10), patch_size=2, num_layers=1, num_heads=1
    )
    with pytest.raises(TypeError, match=r"y\[1\] must be a text, received None"):
        waiting.fit(images, [TEXTS[0], None, *TEXTS[2:]])
    with pytest.raises(ValueError, match="texts must be given once"):
        model.fit({"images": images, "texts": TEXTS}, TEXTS, verbose=0)
    with pytest.warns(UserWarning, match="1 of 5 rows without text are left out"):
        model.fit(images, ["", *TEXTS[1:]], missing="skip", verbose=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch_size": 4}, "patch_size must divide image_size=.6, 10."),
        ({"patch_size": (2, 3, 5)}, "as many numbers as image_size"),
        ({"patch_size": None}, "image_size and patch_size must be given together"),
        ({"image_size": None, "patch_size": None}, "received none of them"),
        ({"image_size": (1, 2, 3, 4)}, "image_size must be a whole number"),
        ({"head": "draws"}, 'head="draws" is not one of "contrastive", "caption"'),
        ({"loss": "hinge"}, 'loss="hinge" is not one of "softmax", "sigmoid"'),
        ({"head": "caption", "loss": "sigmoid"}, 'loss="sigmoid" is for head="contr'),
        ({"num_experts": 1}, "num_experts must be at least 2"),
        ({"tokenizer": None}, "tokenizer must be a fitted tokenizer or the name"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    arguments = {"tokenizer": "word", **SIZES, **PICTURES, **options}
    with pytest.raises((TypeError, ValueError), match=message):
        models.Multimodal(**arguments)


def test_experts_are_in_the_last_block_and_can_be_traced():
    model = multimodal(num_experts=3)
    assert isinstance(model.network.stack.blocks[0].feed_forward, str)
    x = model.encode(pictures(), TEXTS)
    with tracing.trace(model) as found:
        model(x)
    chosen = found["block_1/feed_forward/chosen"]
    patches, words = 4, x["ids"].shape[1]
    assert chosen.shape == (COUNT, patches + words, 2)
    assert ((chosen[:, patches:] == 3).all(-1) == (x["ids"] < 0)).all()  # padding
    with tracing.trace(model) as found:
        model.embed_texts(TEXTS[0])
    alone = found["block_1/feed_forward/chosen"][0, :5]
    np.testing.assert_array_equal(alone, chosen[0, patches : patches + 5])
    history = model.fit(pictures(), TEXTS, batch_size=COUNT, verbose=0)
    loss = multimodal(num_experts=3).evaluate(pictures(), TEXTS, verbose=0)
    assert np.isfinite([history.history["loss"][0], loss]).all()


def test_a_tokenizer_is_trained_and_a_model_saved(tmp_path):
    model = models.Multimodal("word", **SIZES, **PICTURES, head="caption")
    with pytest.raises(ValueError, match="tokenizer"):
        model.describe(pictures())
    model.fit(pictures(), TEXTS, validation_split=0.4, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.describe(pictures()) == model.describe(pictures())
    options = {"batch_size": COUNT, "verbose": 0, "epochs": 1}
    losses = [each.fit(pictures(), TEXTS, **options) for each in (model, loaded)]
    a, b = (each.history["loss"][0] for each in losses)
    assert a == pytest.approx(b, abs=1e-5)
    weights = loaded.evaluate(
        pictures(), TEXTS, sample_weight=[1, 0, 0, 0, 0], verbose=0
    )
    assert np.isfinite(weights[0])


@pytest.mark.parametrize("head", ["contrastive", "caption"])
def test_mixed_precision(head):
    with default_policy("mixed_bfloat16"):
        model = multimodal(head=head, num_experts=3)
    history = model.fit(pictures(), TEXTS, batch_size=COUNT, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    y = model(model.encode(pictures(), TEXTS))
    assert keras.backend.standardize_dtype(y.dtype) == "float32"


def test_no_rows_and_one_row(model):
    assert model.embed_images([]).shape == model.embed_texts([]).shape == (0, 14)
    for method in ("fit", "evaluate"):
        with pytest.raises(ValueError, match=f"{method} needs at least one row"):
            getattr(model, method)([], [], verbose=0)
    with pytest.raises(ValueError, match="encode needs at least one row"):
        model.encode([])
    with pytest.raises(ValueError, match="compares at least 2 rows.*batch_size=1"):
        model.fit(pictures(), TEXTS, batch_size=1, verbose=0)
    with pytest.raises(ValueError, match="received nothing. Add what is missing"):
        model.fit({}, TEXTS, verbose=0)
    many = pictures(1000)
    found = model.embed_images(many)
    np.testing.assert_allclose(found[-2:], model.embed_images(many[-2:]), atol=1e-5)
