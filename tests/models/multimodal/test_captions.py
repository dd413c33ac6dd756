"""Captions: the prefix mask, decoding with caches, and what is learned."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import decoding, kernels, models, text
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
)

pytestmark = pytest.mark.once("layers of other models, tested on each backend there")


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture(scope="module")
def model():
    return multimodal(head="caption", **FILMS, **SOUNDS)


@pytest.fixture(scope="module")
def whole(model):
    """The inputs of all rows, and the logits of all words at once."""
    x = model.encode(rows_of(model), TEXTS)
    return x, numpy(model(x))


def check_steps(model, x, logits):
    """Compares logits of all words at once with those of steps with caches."""
    step = kernels.compiled(lambda *given: model.step(*given), pure=True)
    state, never = model.initial_state(x, 7), [*model.preprocessor.never_written]
    kept = ~np.isin(np.arange(logits.shape[-1]), never)
    for t in range(x["ids"].shape[1]):
        token = ops.convert_to_tensor(np.maximum(x["ids"][:, t], 0))
        found, state = step(state, token)
        real = x["ids"][:, t] >= 0
        found = numpy(found)
        assert np.isneginf(found[:, never]).all()
        np.testing.assert_allclose(
            found[real][:, kept], logits[real, t][:, kept], atol=1e-4
        )


def test_steps_with_caches_are_the_whole(model, whole):
    check_steps(model, *whole)


@pytest.mark.everywhere("masks and caches of each backend")
def test_steps_of_a_small_model_are_the_whole():
    model = multimodal(head="caption", num_layers=1)
    x = model.encode(pictures(), TEXTS)
    check_steps(model, x, model.predict_on_batch(x))


def test_a_word_sees_all_before_it_and_nothing_after(model, whole):
    x, logits = whole
    later = {**x, "ids": x["ids"].copy()}
    later["ids"][:, 2:] = 0  # real words in place of others and of padding
    changed = numpy(model(later))
    np.testing.assert_allclose(changed[:, :2], logits[:, :2], atol=1e-5)
    assert np.abs(changed[:, 2:] - logits[:, 2:]).max() > 1e-3
    for kind in ("images", "audio"):
        other = numpy(model({**x, kind: x[kind][::-1].copy()}))
        assert np.abs(other[0, 0] - logits[0, 0]).max() > 1e-5, kind


def test_the_loss_is_that_of_the_next_words_alone(model, whole):
    x, logits = whole
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    own, nats = model.preprocessor, []
    for row, ids in enumerate(own.ids(TEXTS)):
        labels = [*ids, own.end]
        nats += [-log_p[row, t, label] for t, label in enumerate(labels)]
    for size in (COUNT, 2):
        found, _ = model.evaluate(rows_of(model), TEXTS, batch_size=size, verbose=0)
        assert found == pytest.approx(np.mean(nats), abs=1e-4)
    labels = len(own.ids(TEXTS)[0]) + 1  # of the first row, which alone counts
    weights = np.eye(COUNT)[0]
    found, _ = model.evaluate(rows_of(model), TEXTS, sample_weight=weights, verbose=0)
    assert found == pytest.approx(sum(nats[:labels]) / len(nats), abs=1e-4)


def test_a_caption_is_what_the_logits_say(model, whole):
    x, _ = whole
    rows = rows_of(model)
    found = model.describe(rows, max_length=4, batch_size=3)
    own, ids = model.preprocessor, np.full((COUNT, 1), model.preprocessor.start)
    for _ in range(4):  # without caches
        logits = numpy(model({**x, "ids": ids.astype("int32")}))[:, -1]
        logits[:, list(own.never_written)] = -np.inf
        ids = np.concatenate([ids, logits.argmax(-1)[:, None]], axis=1)
    for caption, row in zip(found, ids[:, 1:].tolist(), strict=True):
        row = row[: row.index(own.end)] if own.end in row else row
        assert caption == own.tokenizer.decode(row)
    one = {kind: part[3] for kind, part in rows.items()}
    assert model.describe(one, max_length=4) == found[3]  # padding changes nothing


def test_captions_have_no_special_tokens():
    words = text.WordTokenizer(special_tokens=["<pad>", "<x>"]).fit("red ball")
    model = models.Multimodal(words, head="caption", **{**SIZES, **PICTURES})
    own = model.preprocessor
    assert [words.decode([n]) for n in own.never_written[:-1]] == [
        *("<unk>", "<pad>", "<x>")
    ]
    written = []
    for seed in range(0, 40, 10):  # each id is as probable as another one
        captions = model.describe(pictures(), temperature=1e6, seed=seed)
        written += " ".join(captions).split()
    assert set(written) == {"red", "ball"} and len(written) > 9
    for kind in (text.CharacterTokenizer, text.BytePairTokenizer):
        other = kind().fit("red ball")
        own = models.Multimodal(other, head="caption", **{**SIZES, **PICTURES})
        never = own.preprocessor.never_written
        assert len(never) == 1 + (other.unknown is not None)


@pytest.mark.parametrize("kind", ["pictures", "sounds"])
def test_it_learns_to_describe(kind):
    keras.utils.set_random_seed(0)
    options = {"head": "caption", "num_layers": 1}
    texts = ["a red ball", "blue box"]
    if kind == "sounds":
        options |= {"image_size": None, "patch_size": None, **SOUNDS}
        time = np.arange(400) / 800
        x = [np.sin(2 * np.pi * f * time).astype("float32") for f in (60, 250)]
    else:
        x = np.stack([np.zeros((6, 10, 3)), np.ones((6, 10, 3))])
    model = multimodal(**options)
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(x, texts, batch_size=2, epochs=40, verbose=0)
    assert history.history["accuracy"][-1] == 1
    assert model.describe(x) == texts
    assert model.describe(x, sampler=decoding.Beam(3)) == texts
    assert model.describe(x[1], temperature=0.01, seed=3) == texts[1]


def test_captions_of_a_contrastive_model_are_refused():
    model = multimodal(num_layers=1)
    with pytest.raises(ValueError, match='describe needs head="caption".*embed_images'):
        model.describe(pictures())
    model = multimodal(num_layers=1, head="caption")
    with pytest.raises(ValueError, match='embed_texts needs head="contrastive"'):
        model.embed_texts(TEXTS)
    with pytest.raises(ValueError, match="max_length must be at most .*7, received 8"):
        model.describe(pictures(), max_length=8)
    assert isinstance(model, models.Multimodal)
