"""The lab Vision: drawings like the data set, the model, a table of one’s own."""

import io
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image, ImageDraw

from labs.code import vision as code
from parts import canvas, run_panel, vision
from parts.errors import Refused
from tests.apps import pages
from tests.apps.drawings import SHAPES, drawing
from tests.apps.test_runs import until

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]


@pytest.fixture(scope="module")
def images():
    """The ten drawings as images."""
    return [code.image_of_strokes(drawing(digit)) for digit in SHAPES]


def test_a_drawing_has_rows_place_ink_and_levels_as_the_data_set(images):
    from sklearn.datasets import load_digits

    data = load_digits().images
    for image in images:
        ink = image / 255
        assert ink.shape == (8, 8) and image.dtype == np.uint8
        assert (ink.max(axis=1) > 0.1).all()  # all eight rows, as every digit
        columns = np.flatnonzero(ink.max(axis=0) > 0.1)
        assert abs((columns[0] + columns[-1]) / 2 - 3.5) <= 0.5
        assert len(columns) <= 6
        assert abs(ink.mean() - data.mean() / 16) < 0.02
        levels = image / (255 / 16)
        assert np.abs(levels - np.rint(levels)).max() < 0.05
        assert len(np.unique(image)) > 4  # not black and white alone


@pytest.mark.parametrize("digit", SHAPES)
def test_place_and_size_of_a_drawing_do_not_matter(digit, images):
    strokes = drawing(digit)
    for scale, shift in ((1, [37, -11]), (0.25, [0, 0]), (7.5, [-300, 90])):
        changed = [scale * stroke + shift for stroke in strokes]
        np.testing.assert_array_equal(code.image_of_strokes(changed), images[digit])


def test_proportions_are_kept_up_to_the_width_of_the_data_set():
    def width(share):
        box = [(0, 0), (9 * share, 0), (9 * share, 9), (0, 9), (0, 0)]
        ink = code.image_of_strokes([box]).sum(axis=0) / 255
        return np.sqrt(ink @ (np.arange(8) - 3.5) ** 2 / ink.sum())

    narrow, middle, square, wide = map(width, (0.2, 0.4, 1, 9))
    assert narrow < 0.8 * middle < 0.8 * square
    assert square == pytest.approx(wide, abs=0.03)


@pytest.mark.parametrize("points", [[(5, 5)], [(5, 5), (5, 5)], [(5, 5), (90, 5)]])
def test_a_dot_and_a_dash_are_images(points):
    assert code.image_of_strokes([points]).max() == 255


@pytest.mark.parametrize("strokes", [[], [[]]])
def test_nothing_is_no_drawing(strokes):
    with pytest.raises(Refused):
        code.image_of_strokes(strokes)


def scan(digit, kind="PNG", paper=240, ink=30, size=(400, 300), at=(60, 20)):
    """A picture of a drawing, as from a scanner."""
    picture = Image.new("L", size, paper)
    for stroke in drawing(digit):
        line = [tuple(point) for point in (stroke + at).tolist()]
        ImageDraw.Draw(picture).line(line, fill=ink, width=10, joint="curve")
    file = io.BytesIO()
    picture.convert("RGB").save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("digit", [2, 5, 8])
def test_an_uploaded_picture_is_read_as_the_drawing_is(digit, images):
    found = code.image_of_file("a.png", scan(digit))
    light = code.image_of_file("a.jpg", scan(digit, "JPEG", paper=20, ink=230))
    moved = code.image_of_file("a.png", scan(digit, size=(800, 900), at=(300, 500)))
    np.testing.assert_array_equal(moved, found)
    for image in (found, light):
        apart = np.abs(image.astype("float64") - images[digit]).mean()
        others = [np.abs(image.astype("float64") - other).mean() for other in images]
        assert apart == min(others) and apart < 25


def large():
    file = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (lambda: b"\x00\x01binary", "no_picture"),
        (lambda: scan(3)[:200], "no_picture"),
        (lambda: scan(3, ink=240), "no_ink"),
        (large, "too_many_pixels"),
    ],
)
def test_a_bad_picture_is_refused(content, key):
    with pytest.raises(Refused) as refused:
        code.image_of_file("a.png", content())
    assert refused.value.key == key


def test_weights_and_roll_out_follow_from_each_other(models, images):
    folder = models("vision_digits")
    found, other = (vision.look(folder, images[3], token) for token in (0, 6))
    for token, each in ((0, found), (6, other)):
        assert each["weights"].shape == (3, 2, 17)  # (layers, heads, keys)
        np.testing.assert_allclose(each["weights"].sum(axis=-1), 1, rtol=1e-5)
        np.testing.assert_allclose(each["rollout"].sum(axis=-1), 1, rtol=1e-5)
        first = (each["weights"][0].mean(axis=0) + np.eye(17)[token]) / 2
        np.testing.assert_allclose(each["rollout"][0], first, atol=1e-6)
        # Each later layer keeps one half, and what the query gives to itself.
        assert (each["rollout"][1:, token] > [0.25, 0.125]).all()
    assert np.abs(found["weights"] - other["weights"]).max() > 1e-4
    assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert np.all(found["pixels"][images[3] == 0] == 0)  # no ink, nothing moved
    assert np.any(found["pixels"])


def test_a_text_is_explained_for_the_decision_and_for_the_label(models):
    folder = models("vision_names")
    found = vision.read(folder, "Praha", ["cs", "unknown"])
    best = max(found["probabilities"], key=found["probabilities"].get)
    assert list(found["moved"])[0] == best
    assert set(found["moved"]) == {best, "cs"}
    assert found["tokens"] == list("Praha")
    assert all(scores.shape == (5,) for scores in found["moved"].values())


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"text,label\nto be,a\nor not,b\n", [("to be", "a"), ("or not", "b")]),
        ("\ufefftext;label\n\"é;🙂\";a\n".encode(), [("é;🙂", "a")]),
        ("text\tlabel\nà\ta\n".encode("cp1252"), [("à", "a")]),
        (b"text,label\nonly\n", [("only", "")]),
        (b"text\nto be\n", None),
        (b"text,label\n", None),
        (b"\x00\x01\x02,\x00\n1,2", None),
        (b",\n1,2", None),
        (b"text,text\n1,2", None),
    ],
)  # fmt: skip
def test_the_first_rows_of_a_table(content, rows):
    if rows is None:
        with pytest.raises(Refused, match="no_table"):
            vision.table_head("a.csv", content)
    else:
        found = vision.table_head("a.csv", content)
        assert found == [{"text": t, "label": y} for t, y in rows]


def test_an_own_table_is_trained_on_and_its_results_are_drawn(stub, models):
    from kerasseq.cli.main import parse

    page = pages.open_lab("vision", view="texts", data="own", tokenizer="word")
    content = b"review,stars\ngood,5\nbad,1\n"
    page.file_uploader[0].upload("../my reviews.csv", content, "text/csv").run()
    train = next(b for b in pages.checked(page).button if b.label == "Train")
    train.click().run()
    manager = run_panel.manager()
    (record,) = manager.root.glob("*/vision-1.json")
    until(lambda: manager.run(record.parent.name, "vision-1").state == "finished")
    words = json.loads(record.read_text())["words"]
    parsed = parse(["train", *words, "--run", "x"])
    assert (parsed.text, parsed.label, parsed.tokenizer) == ("review", "stars", "word")
    kept = pathlib.Path(parsed.file)
    assert kept.read_bytes() == content
    assert kept.parent.name == record.parent.name  # of this browser alone
    folder = models("vision_names")
    for name in ("model.keras", "results.json"):  # the stub has none
        shutil.copy(folder / name, record.with_suffix("") / name)
    pages.checked(page.run())
    assert "my reviews.csv · GRU (vision-1)" in pages.control(page, "of_run").options
    assert "Praha" in pages.control(page, "which").options
    pages.control(page, "label_column").set_value("review").run()
    (error,) = page.error
    assert "two different" in error.value
    assert pages.control(page, "of_run")  # the results are drawn all the same


def test_a_drawing_is_in_the_address():
    text = canvas.write(drawing(4))
    page = pages.open_lab("vision", drawing=text)
    assert pages.query(page)["drawing"] == text
    found = canvas.strokes(text)
    assert [s.tolist() for s in found] == [s.tolist() for s in drawing(4)]
    page.session_state["vision.drawing"] = ""  # cleared
    page.run()
    assert any("no picture yet" in text.value for text in pages.checked(page).markdown)


@pytest.mark.parametrize("text", ["zz", "010", "010203", "é"])
def test_an_address_without_a_drawing_is_an_error(text):
    with pytest.raises(ValueError):  # and the page has its own drawing then
        canvas.strokes(text)


def test_a_browser_may_send_anything():
    strange = [[[1, 2], [3]], "ab", None, [float("nan"), 1], [1e9, -5], {}, [1, 2, 3]]
    assert [s.tolist() for s in canvas.checked(strange)] == [[[255, 0]]]
    assert canvas.checked("strokes") == []
    assert len(canvas.write(canvas.checked([[1, 2] * 900] * 9))) <= canvas.MOST


def test_any_text_of_ones_own():
    page = pages.open_lab("vision", view="texts", which="0")
    for text in (" ", "🙂👩‍👩‍👧 שלום <b>$x$", "x" * 10**6):
        pages.control(page, "name").set_value(text).run()
        assert not page.exception
        empty = ["Write at least one character."] * (not text.strip())
        assert [e.value for e in page.error] == empty


def test_examples_hard_ones_and_uploads():
    from sklearn.datasets import load_digits

    data = load_digits()

    def shown(page):
        (source,) = [element.value for element in pages.checked(page).code]
        rows = re.findall(r"^        \[(.*)\],$", source, re.MULTILINE)
        return np.array([row.split(", ") for row in rows], "int64")

    def of_data(n):
        return np.rint(data.images[n] * (255 / 16))

    page = pages.open_lab("vision", source="example", digit="4", number="3", lang="fr")
    fours = np.flatnonzero(data.target == 4)
    np.testing.assert_array_equal(shown(page), of_data(fours[2]))
    pages.control(page, "number").set_value(174).run()
    np.testing.assert_array_equal(shown(page), of_data(fours[173]))
    page.session_state["vision.source"] = "hard"
    page.session_state["vision.which_image"] = 1
    np.testing.assert_array_equal(shown(page.run()), of_data(7))
    page.session_state["vision.source"] = "upload"
    page.run()
    page.file_uploader[0].upload("a.png", b"\x00binary", "image/png").run()
    (error,) = page.error
    assert "PNG" in error.value and not page.exception
    page.file_uploader[0].upload("b.png", scan(7), "image/png").run()
    np.testing.assert_array_equal(shown(page), code.image_of_file("b", scan(7)))
