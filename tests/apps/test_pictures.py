"""The lab Pictures: what it computes beside kerasseq, its networks, and its texts."""

import base64
import io
import runpy
import sys

import numpy as np
import pytest

from labs.code import pictures as code
from parts import figures_images, figures_scene, scenes
from parts.errors import Refused
from tests.apps import pages
from tests.processes import ROOT

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]
ONE = (("red", "cross", "large"),)
TWO = ("green", "square", "medium"), ("white", "circle", "medium")


@pytest.fixture(scope="module")
def shown():
    """A scene of two shapes."""
    return scenes.shown(TWO, "left of", 0, 0.0)


def test_a_scene_shows_what_was_asked_and_noise_moves_nothing(shown):
    left, right = shown["boxes"]
    assert left[2] <= right[0]
    for box, color in ((left, [26, 204, 26]), (right, [255, 255, 255])):
        x, y = (box[:2] + box[2:]) // 2
        assert shown["image"][y, x].tolist() == color
    noisy = scenes.shown(TWO, "left of", 0, 0.1)
    np.testing.assert_array_equal(noisy["boxes"], shown["boxes"])
    assert (noisy["image"] != shown["image"]).any()


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("objects", [1, 2])
def test_captions_are_those_of_the_data_set(language, objects):
    (data,) = code.captioned(60, 11, (language,), (objects,))
    for n, text in enumerate(data.texts):
        looks = zip(data.colors[n], data.shapes[n], data.sizes[n], strict=True)
        looks, where = tuple(looks), data.layouts[n]
        assert scenes.caption(looks, where, language) == text
        found = scenes.changed(looks, where)
        others = {scenes.caption(*each, language) for each in found.values()}
        assert text not in others and len(others) == len(found)
        inverse = [scenes.caption(*found["inverse"], language)] if objects == 2 else []
        assert [text, *inverse] == data.true_captions(n)


def test_words_of_a_caption_name_their_shapes():
    words = ["un", "cercle", "blanc", "à", "droite", "d'un", "carré", "vert"]
    found = scenes.shapes_of(words, TWO, "fr")
    assert found == [None, 1, 1, None, None, None, 0, 0]
    assert scenes.shapes_of(["a", "red", "square"], TWO, "en") == [None] * 3


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_the_loss_is_that_of_the_model(kind):
    from kerasseq import models

    sizes = {"image_size": 24, "patch_size": 6, "num_layers": 1, "num_heads": 1}
    model = models.Multimodal(code.words(), **sizes, hidden_dim=7, loss=kind)
    found = scenes.several(0, "en")
    cosines = model.embed_images(found["images"]) @ model.embed_texts(found["texts"]).T
    options = {"batch_size": len(cosines), "verbose": 0}
    wanted = model.evaluate(found["images"], found["texts"], **options)
    wanted = wanted[0] if isinstance(wanted, list) else wanted
    assert code.loss(cosines, model.temperature, kind) == pytest.approx(
        wanted, abs=1e-5
    )
    same = code.loss(np.ones((6, 6)), 5.0, "softmax")
    assert same == pytest.approx(np.log(6))


def test_parts_of_a_cosine_add_up_and_a_black_patch_changes_it(shown):
    text = scenes.caption(TWO, "left of", "en")
    found = scenes.added(shown["image"], text, "en")
    (cosine,) = scenes.matched(shown["image"][None], [text], "en")["cosines"][0]
    assert found["parts"].shape == (16, len(found["words"]))
    assert found["parts"].sum() == pytest.approx(cosine, abs=1e-5)
    on = np.any([code.touches(box) for box in shown["boxes"]], axis=0)
    assert abs(found["fall"][~on]).max() < 1e-6  # these are black already
    black = shown["image"].copy()
    black[6:12, 6:12] = 0  # patch 5
    (less,) = scenes.matched(black[None], [text], "en")["cosines"][0]
    assert found["fall"][5] == pytest.approx(cosine - less, abs=1e-6) != 0


def test_patches_that_touch_a_box():
    found = code.touches((5, 6, 13, 12)).reshape(4, 4)
    assert np.argwhere(found).tolist() == [[1, 0], [1, 1], [1, 2]]


def test_a_caption_is_written_as_by_the_model(shown):
    model = scenes.network("caption")
    whole = model.describe(shown["image"]).replace(" - ", "-")
    tag, _, text = whole.partition(" ")
    (language,) = (name for name, word in code.TAGS.items() if word == tag)
    assert scenes.described(shown["image"], language) == text
    found = scenes.read(shown["image"], language, text)
    assert found["weights"].shape == (2, 4, len(found["words"]), 16)
    assert (found["weights"].sum(axis=-1) < 1).all() and found["weights"].min() >= 0
    assert found["p"].min() > 1 / model.tokenizer.vocabulary_size


@pytest.mark.everywhere("stored weights on another backend", cases=1)
def test_attention_to_patches_is_that_of_the_token_before_a_word(shown):
    model = scenes.network("caption")
    texts = ("a small red cross", "the small red cross")
    a, b = (code.attention(model, shown["image"], text, "en") for text in texts)
    weights = abs(a[0] - b[0]).max(axis=(1, 3))  # (layers, words)
    # The first word is written before it is read, and is read for each later one.
    assert (weights[:, 0] < 1e-6).all() and (weights[:, 1:] > 1e-6).all(axis=1)[-1]
    p = abs(a[1] - b[1])
    assert (p[1:] > 1e-7).any()


def test_the_networks_have_learned():
    image = scenes.shown(ONE, "top left", 0, 0.0)["image"]
    english, french = (scenes.caption(ONE, "top left", each) for each in ("en", "fr"))
    assert scenes.described(image, "fr") == french
    wrong = english.replace("red", "blue")
    texts = [wrong, english, french]
    (cosines,) = scenes.matched(image[None], texts, "en")["cosines"]
    assert cosines[1:].min() > cosines[0] + 0.1
    found = scenes.quality()
    assert min(found[f"exact_1_{each}"] for each in ("en", "fr")) > 0.9


@pytest.mark.parametrize(
    ("text", "message"),
    [(" . ", "no_text"), ("a red dragon", "unknown_words"), ("red " * 14, "too_many")],
)
def test_what_the_network_cannot_read(text, message, shown):
    with pytest.raises(Refused, match=message) as refused:
        scenes.matched(shown["image"][None], [text], "en")
    if message == "unknown_words":
        assert refused.value.values["wrong"] == "dragon"
        assert "triangle" in refused.value.values["known"]


def test_a_picture_is_a_png_and_squares_are_weights():
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype("uint8")
    data = base64.b64decode(figures_scene.png(pixels, 2).partition(",")[2])
    with image.open(io.BytesIO(data)) as read:
        np.testing.assert_array_equal(np.asarray(read)[::2, ::2], pixels)
    from parts.style import Style

    parts = figures_images.patches(1, 2, [0.5, 0, -0.125, 0.25])
    options = {"across": 2, "peak": 0.5, "titles": {"patch": "p", "weight": "w"}}
    spec = figures_scene.picture(
        Style(), np.zeros((4, 4, 3), "uint8"), parts, boxes=[(0, 1, 2, 3)], **options
    )
    rows = spec["layer"][1]["data"]["values"]
    areas = [(row["x2"] - row["x"]) * (row["y2"] - row["y"]) for row in rows]
    assert np.array(areas) / areas[0] == pytest.approx([1, 0, 0.25, 0.5])
    assert spec["layer"][2]["data"]["values"] == [{"x": 0, "y": 1, "x2": 2, "y2": 3}]


def facts(page):
    """What a page shows in large type, and in boxes."""
    return " ".join(html.proto.body for html in page.get("html"))


def test_the_page_of_one_caption():
    page = pages.open_lab("pictures", text="rouge")
    assert ">true<" in facts(page)
    assert "rouge" in page.table[0].value["caption"].tolist()
    pages.control(page, "text").set_value("a red dragon").run()
    assert "dragon" in page.error[0].value and page.subheader
    pages.control(page, "text").set_value("").run()
    pages.control(page, "objects").set_value(2).run()
    pages.control(page, "second_color").set_value("red").run()
    assert not page.error
    pages.control(page, "second_shape").set_value("cross").run()
    assert "another color" in page.error[0].value


def test_the_page_of_words():
    page = pages.open_lab("pictures", view="words", lang="fr", objects="1")
    caption = scenes.caption(ONE, "top left", "fr")
    assert f">{caption}<" in facts(page) and ">oui<" in facts(page)
    pages.control(page, "caption").set_value("une").run()
    assert any("Aucun mot" in text.value for text in pages.checked(page).markdown)
    pages.control(page, "noise").set_value(0.3).run()
    assert ">non<" in facts(pages.checked(page))


def test_the_program_that_trains_the_networks(tmp_path, monkeypatch, capsys):
    kept = [scenes.network(head).get_weights() for head in code.STEPS]
    for name, value in (("EVERY", 1), ("BATCH", 4)):
        monkeypatch.setattr(code, name, value)
    monkeypatch.setattr(code, "STEPS", dict.fromkeys(code.STEPS, 2))
    file = tmp_path / "pictures.npz"
    monkeypatch.setattr(sys, "argv", ["prepare_pictures.py", str(file)])
    path = ROOT / "apps" / "prepare_pictures.py"
    names = runpy.run_path(str(path))
    monkeypatch.setitem(names["main"].__globals__, "COUNT", 3)
    names["main"]()
    assert "caption, 2 steps: loss" in capsys.readouterr().out
    with np.load(file) as made:
        for head, weights in zip(code.STEPS, kept, strict=True):
            found = [made[f"{head}_{n}"].shape for n in range(len(weights))]
            assert found == [weight.shape for weight in weights]
        assert scenes.quality().keys() <= set(
            name.removeprefix("quality_") for name in made
        )
