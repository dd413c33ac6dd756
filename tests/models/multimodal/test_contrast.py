"""Contrastive models: the losses and vectors of the equations, of each kind."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import models
from kerasseq.models.multimodal.contrast import (
    ContrastiveLoss,
    PairScores,
    SigmoidLoss,
)
from tests.models.multimodal.toys import (
    COUNT,
    FILMS,
    SOUNDS,
    TEXTS,
    D,
    multimodal,
    pictures,
    rows_of,
)

pytestmark = pytest.mark.once("layers of other models, tested on each backend there")
GROUPS = np.array([0, 1, 0, 2, 3])  # of TEXTS


def numpy(x):
    return ops.convert_to_numpy(x)


def softmax_loss(s, groups):
    """CLIP's loss of scores (B, B), row by row."""
    total = 0.0
    for scores in (s, s.T):
        for i, row in enumerate(scores):
            kept = (groups != groups[i]) | (np.arange(len(s)) == i)
            total += np.log(np.exp(row[kept]).sum()) - row[i]
    return total / (2 * len(s))


def sigmoid_loss(s, groups):
    """SigLIP's loss of scores (B, B)."""
    y = np.where(groups[:, None] == groups[None], 1, -1)
    return np.log1p(np.exp(-y * s)).sum() / len(s)


@pytest.fixture(scope="module")
def model():
    return multimodal(**FILMS, **SOUNDS)


LOSSES = {"softmax": (ContrastiveLoss, softmax_loss)}
LOSSES |= {"sigmoid": (SigmoidLoss, sigmoid_loss)}


@pytest.mark.everywhere("sums and logarithms of each backend")
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_the_equations(name):
    loss, expected = LOSSES[name]
    s = np.random.default_rng(1).normal(size=(COUNT, 3, COUNT)).astype("float32")
    found = float(loss()(GROUPS, s))
    wanted = np.mean([expected(s[:, p], GROUPS) for p in range(3)])
    assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", ["CLIP", "Siglip"])
def test_losses_are_those_of_hugging_face(name):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 1, "projection_dim": 8}
    config = getattr(transformers, f"{name}Config")(
        text_config={**small, "vocab_size": 11, "max_position_embeddings": 3},
        vision_config={**small, "image_size": 4, "patch_size": 4},
    )
    peer = getattr(transformers, f"{name}Model")(config)
    ids = torch.arange(9).reshape(3, 3)
    with torch.no_grad():
        y = peer(ids, 9 * torch.randn(3, 3, 4, 4), return_loss=True)
    loss = LOSSES["softmax" if name == "CLIP" else "sigmoid"][0]
    scores = y.logits_per_image.numpy()
    assert np.abs(scores - scores.T).max() > 1e-3
    found = float(loss()(np.arange(3), scores[:, None]))
    assert found == pytest.approx(float(y.loss), abs=1e-5)


def test_one_vector_for_all_costs_the_logarithm_of_the_batch():
    model = multimodal(num_layers=1)
    for kind in model.kinds:
        kernel = model.get_layer(f"{kind}_projection").kernel
        kernel.assign(0 * kernel)
    blind = model.evaluate(pictures(3), ["red", "blue", "box"], verbose=0)
    assert blind == pytest.approx(np.log(3), abs=1e-3)


@pytest.mark.everywhere("masks, pooling and scores of each backend")
def test_kinds_in_one_sequence_see_themselves_alone():
    model = multimodal(num_layers=1, loss="sigmoid")
    images, scale = pictures(), model.temperature
    assert scale == pytest.approx(10, rel=1e-5)
    v = model.predict({"images": images, "texts": TEXTS})
    s = scale * v["images"] @ v["texts"].T - 10
    found = model.evaluate(images, TEXTS, batch_size=COUNT, verbose=0)
    assert found == pytest.approx(sigmoid_loss(s, GROUPS), abs=1e-4)


@pytest.mark.everywhere("constraints of the optimizer of each backend")
def test_the_factor_of_the_scores_is_at_most_100_and_can_fall_from_there():
    angles = np.array([0, 0.3], "float32")
    v = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    kinds = [keras.Input((2,)), keras.Input((2,))]
    scores = PairScores()
    model = keras.Model(kinds, scores(kinds))
    model.compile(keras.optimizers.SGD(5.0), ContrastiveLoss())
    scores.log_scale.assign(np.log(99))
    model.fit([v, v], np.arange(2), verbose=0)
    assert float(numpy(scores.scale)) == pytest.approx(100, rel=1e-5)
    model.fit([v, v[::-1]], np.arange(2), verbose=0)
    assert float(numpy(scores.scale)) < 1


def test_the_loss_of_a_model_is_that_of_its_vectors(model):
    x = rows_of(model)
    v = model.predict({**x, "texts": TEXTS}, batch_size=2)
    assert [*v] == ["images", "audio", "texts"]
    for each in v.values():
        np.testing.assert_allclose(np.linalg.norm(each, axis=1), 1, atol=1e-5)
        assert each.shape == (COUNT, D)
    pairs = [("images", "audio"), ("images", "texts"), ("audio", "texts")]
    scale = model.temperature
    assert scale == pytest.approx(1 / 0.07, rel=1e-5)
    each = [softmax_loss(scale * v[a] @ v[b].T, GROUPS) for a, b in pairs]
    options = {"batch_size": COUNT, "verbose": 0}
    found = model.evaluate(x, TEXTS, **options)
    assert found == pytest.approx(np.mean(each), abs=1e-4)
    # Kinds in one sequence see themselves alone, and padding changes nothing.
    scores = numpy(model(model.encode(x, TEXTS)))
    for p, (a, b) in enumerate(pairs):
        np.testing.assert_allclose(scores[:, p], scale * v[a] @ v[b].T, atol=1e-4)
    longer = model.encode(x, TEXTS)
    longer["ids"] = np.pad(longer["ids"], ((0, 0), (0, 1)), constant_values=-1)
    np.testing.assert_allclose(numpy(model(longer)), scores, atol=1e-4)


def test_a_row_alone_is_as_in_a_batch(model):
    x = rows_of(model)
    all_texts, all_sounds = model.embed_texts(TEXTS), model.embed_audio(x["audio"])
    films = model.embed_images(x["images"])
    np.testing.assert_allclose(model.embed_texts(TEXTS[3]), all_texts[3:4], atol=1e-5)
    alone = model.embed_audio(x["audio"][3])  # the shortest
    np.testing.assert_allclose(alone, all_sounds[3:4], atol=1e-5)
    alone = model.embed_images(x["images"][1])
    np.testing.assert_allclose(alone, films[1:2], atol=1e-5)


def test_it_learns_which_text_belongs_to_which_picture():
    keras.utils.set_random_seed(0)
    model = multimodal(loss="sigmoid", num_layers=1)
    images = np.zeros((4, 6, 10, 3), "float32")
    for n in range(4):
        images[n, ..., n % 3] = 1.0 - 0.5 * (n == 3)
    texts = ["red", "blue", "box", "a ball"]
    model.compile(keras.optimizers.Adam(1e-2))
    first = model.evaluate(images, texts, verbose=0)
    model.fit(images, texts, batch_size=4, epochs=40, verbose=0)
    assert model.evaluate(images, texts, verbose=0) < first / 3
    v = model.embed_images(images) @ model.embed_texts(texts).T
    assert v.argmax(axis=1).tolist() == [0, 1, 2, 3] == v.argmax(axis=0).tolist()
    assert isinstance(model, models.Multimodal)


def test_rows_of_an_evaluation_are_split_evenly(model):
    x = rows_of(model)
    rows = model.rows_of(x)
    assert [len(part) for part in rows.in_order(4).parts] == [3, 2]
    losses, sizes = [], []
    for part in (slice(0, 3), slice(3, 5)):
        some = {kind: values[part] for kind, values in x.items()}
        losses.append(model.evaluate(some, TEXTS[part], verbose=0))
        sizes.append(len(TEXTS[part]))
    found = model.evaluate(x, TEXTS, batch_size=4, verbose=0)
    assert found == pytest.approx(np.average(losses, weights=sizes), abs=1e-4)
