"""Pictures drawn token by token: masks, caches, the codebook, and what is learned."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import decoding, kernels, models
from kerasseq.core.sublayers import default_policy
from tests.models.multimodal.toys import (
    COUNT,
    PICTURES,
    SIZES,
    TEXTS,
    pictures,
    tokenizer,
)

pytestmark = pytest.mark.once("layers of other models, tested on each backend there")
K, N = 7, 4  # codes, and tokens of a picture


def numpy(x):
    return ops.convert_to_numpy(x)


def codebook(**options):
    sizes = {"num_codes": K, "hidden_dim": 13, "code_dim": 3, "seed": 1}
    return models.PictureTokenizer(**{**PICTURES, **sizes, **options})


@pytest.fixture(scope="module")
def trained():
    """A codebook that uses several codes."""
    model = codebook(decay=0.5)
    model.fit(pictures(11, seed=1), batch_size=4, epochs=2, verbose=0)
    return model


def drawing(codes, **options):
    options = {**SIZES, "head": "draw", "codebook": codes, **options}
    return models.Multimodal(tokenizer(), **options)


@pytest.fixture(scope="module")
def model(trained):
    return drawing(trained)


def check_steps(model, x, logits):
    """Compares logits of all ids at once with those of steps with caches."""
    step = kernels.compiled(lambda *given: model.step(*given), pure=True)
    state = model.initial_state({"ids": x["ids"]}, N)
    for t in range(N):
        token = ops.convert_to_tensor(x["codes"][:, t])
        found, state = step(state, token)
        found = numpy(found)
        assert np.isneginf(found[:, K]).all()  # the start is never written
        np.testing.assert_allclose(found[:, :K], logits[:, t, :K], atol=1e-4)


def test_steps_with_caches_are_the_whole(model):
    x = model.encode(pictures(), TEXTS)
    check_steps(model, x, numpy(model(x)))


def test_ids_are_those_of_the_codebook_and_see_no_later_ones(model, trained):
    images = pictures()
    x = model.encode(images, TEXTS)
    ids = trained.encode(images).reshape(COUNT, N)
    assert len({*ids.ravel()}) > 2
    np.testing.assert_array_equal(x["codes"][:, 1:], ids[:, :-1])
    assert (x["codes"][:, 0] == K).all()
    logits = numpy(model(x))
    assert logits.shape == (COUNT, N, K + 1)
    later = {**x, "codes": x["codes"].copy()}
    later["codes"][:, 2:] = (later["codes"][:, 2:] + 1) % K
    changed = numpy(model(later))
    np.testing.assert_allclose(changed[:, :2], logits[:, :2], atol=1e-5)
    assert np.abs(changed[:, 2:] - logits[:, 2:]).max() > 1e-3
    other = {**x, "ids": x["ids"].copy()}
    other["ids"][0, -1] = x["ids"][1, 0]  # a real word in place of padding
    assert np.abs(numpy(model(other))[0] - logits[0]).max() > 1e-4
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -np.take_along_axis(log_p, ids[..., None], axis=-1)
    for size in (COUNT, 2):
        loss, _ = model.evaluate(images, TEXTS, batch_size=size, verbose=0)
        assert loss == pytest.approx(nats.mean(), abs=1e-4)
    weights = np.arange(COUNT)
    loss, _ = model.evaluate(images, TEXTS, sample_weight=weights, verbose=0)
    expected = (nats.mean(axis=(1, 2)) * weights).mean()
    assert loss == pytest.approx(expected, abs=1e-4)


def test_a_picture_is_what_the_logits_say(model, trained):
    ids = np.full((COUNT, 1), K, "int32")
    words = model.preprocessor.whole_texts(TEXTS)
    for _ in range(N):  # without caches
        logits = numpy(model({"ids": words, "codes": ids}))[:, -1, :K]
        ids = np.concatenate([ids, logits.argmax(-1)[:, None]], axis=1).astype("int32")
    expected = trained.decode(ids[:, 1:].reshape(COUNT, 2, 2))
    found = model.draw(TEXTS, batch_size=3)
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(model.predict(TEXTS), found)
    for row, text in enumerate(TEXTS):  # padding changes nothing
        np.testing.assert_array_equal(model.draw(text), found[row])
    options = {"temperature": 3.0, "seed": 5}
    drawn = model.draw(TEXTS, **options)
    np.testing.assert_array_equal(drawn, model.draw(TEXTS, **options, batch_size=2))
    assert (drawn != found).any()
    assert model.draw([]).shape == (0, 6, 10, 3)
    many = model.draw([TEXTS[0]] * 100 * COUNT)
    np.testing.assert_array_equal(many[-1], found[0])


def test_it_learns_to_draw_and_the_codebook_stays(trained, tmp_path):
    keras.utils.set_random_seed(0)
    images = pictures(2, seed=1)
    texts = ["a red ball", "blue box"]
    expected = trained.decode(trained.encode(images))
    assert (expected[0] != expected[1]).any()
    before = [numpy(weight).copy() for weight in trained.weights]
    model = drawing(trained, num_layers=1)
    assert model.codebook is not trained and trained.trainable
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(images, texts, batch_size=2, epochs=40, verbose=0).history
    assert history["accuracy"][-1] == 1
    np.testing.assert_array_equal(model.draw(texts), expected)
    np.testing.assert_array_equal(model.draw(texts, sampler=decoding.Beam(3)), expected)
    own = model.codebook
    for weight, same, old in zip(trained.weights, own.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(weight), old)
        np.testing.assert_array_equal(numpy(same), old)
    model.trainable = False
    model.trainable = True
    assert not {*map(id, model.weights)} & {*map(id, own.weights)}
    assert not own.trainable
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.draw(texts), expected)
    options = {"batch_size": 2, "verbose": 0}
    losses = [each.fit(images, texts, **options).history for each in (model, loaded)]
    assert losses[0]["loss"] == pytest.approx(losses[1]["loss"], abs=1e-6)
    named = drawing(own, num_layers=1)  # frozen: shared
    assert named.codebook is own


def test_mixed_precision(trained):
    with default_policy("mixed_bfloat16"):
        model = drawing(trained, num_layers=1)
    history = model.fit(pictures(), TEXTS, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert np.isfinite(model.draw(TEXTS)).all()


def test_a_tokenizer_by_name_and_files(trained, tmp_path):
    from PIL import Image

    files = [tmp_path / f"{n}.png" for n in range(COUNT)]
    for file, array in zip(files, pictures(), strict=True):
        Image.fromarray(array).save(file)
    options = {**SIZES, "num_layers": 1, "head": "draw", "codebook": trained}
    model = models.Multimodal("word", **options)
    with pytest.raises(ValueError, match="Call fit first"):
        model.draw("a ball")
    data = {"images": files, "texts": TEXTS}
    model.fit(data, batch_size=2, validation_split=0.4, verbose=0)
    drawn = model.draw("a ball")
    assert drawn.shape == (6, 10, 3)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.draw("a ball"), drawn)
    loss = model.evaluate(data, verbose=0)
    assert loss == pytest.approx(model.evaluate(pictures(), TEXTS, verbose=0), abs=1e-5)
    files[1].write_text("no picture")
    with pytest.raises(ValueError, match=r"1\.png cannot be read as an image"):
        model.fit(files, TEXTS, verbose=0)
    with pytest.warns(UserWarning, match=r"1 of 5 images cannot be read.*1\.png"):
        model.fit(files, TEXTS, missing="skip", verbose=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codebook": None}, 'codebook must be a trained .*"draw".*received None'),
        ({"codebook": 7}, "codebook must be .*received 7"),
        ({"head": "caption"}, 'codebook must be None with head="caption"'),
        ({"image_size": 24}, 'image_size must be None with head="draw".*24. Leave it'),
        ({"num_mels": 7}, 'num_mels must be None with head="draw"'),
        ({"loss": "sigmoid"}, 'loss="sigmoid" is for head="contrastive".*"draw"'),
    ],
)
def test_wrong_arguments_are_named(trained, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        drawing(trained, **options)


def test_wrong_uses_are_named(model):
    with pytest.raises(ValueError, match='describe needs head="caption".*Use draw'):
        model.describe(pictures())
    with pytest.raises(ValueError, match='needs head="contrastive".*Use draw'):
        model.embed_texts(TEXTS)
    with pytest.raises(ValueError, match=r"texts\[0\] has .*does not know"):
        model.draw("a dog")
    with pytest.raises(TypeError, match="texts must be a list of strings, received 7"):
        model.draw(7)
    with pytest.raises(TypeError, match="texts"):
        model.draw(pictures())
    with pytest.raises(ValueError, match="draw cannot use contrastive search"):
        model.draw("a ball", sampler="contrastive")
    with pytest.raises(ValueError, match=r"images\[0\] must be .*\(6, 10, 3\)"):
        model.fit(pictures(2, (6, 15)), TEXTS[:2], verbose=0)
    with pytest.raises(ValueError, match="expected texts for the rows"):
        model.fit(pictures(), verbose=0)
    with pytest.raises(TypeError, match="received a Multimodal. Use evaluate"):
        model.report(pictures(), TEXTS)
