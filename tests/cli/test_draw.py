"""`kerasseq train draw`; `predict` and `inspect` for its runs."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import kerasseq
from kerasseq import datasets
from kerasseq.cli import draw_scores, main, multimodal_data, multimodal_inspect
from kerasseq.datasets import captioned_images
from tests.cli.conftest import at_step, snapshot
from tests.cli.test_multimodal import SMALL, read_json, results_of, write

pytestmark = pytest.mark.once("the command line")

CODES = ["--num-codes", "7", "--codebook-steps", "4"]
SCENES = [*SMALL, *CODES, "--count", "17", "--held-out", "0.3"]
SHARE = 0.3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a folder, with figures; a held-out caption has an unknown word."""
    place = tmp_path_factory.mktemp("draw")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        table = write(place / "my pictures", count=19) / "all.csv"
        name = split(place)[1].images[-1].rpartition("/")[2]
        lines = table.read_text().splitlines()
        lines = [f"{line} zebra" if line.startswith(name) else line for line in lines]
        table.write_text("\n".join(lines))
        words = ["train", "draw", "my pictures", *SMALL, *CODES, "--run", "run"]
        words += ["--tokenizer", "word", "--num-experts", "3"]
        assert main([*words, "--steps", "3", "--held-out", f"{SHARE}"]) == 0
    return place / "run"


def split(place):
    """The pictures to learn from, and those that are held out."""
    return captioned_images(place / "my pictures").split(SHARE, 0)


@pytest.fixture(scope="module")
def model(run):
    return kerasseq.load_model(run / "model.keras")


def bits_of(model, images, texts):
    """Bits per id, as `evaluate` computes them."""
    loss = model.evaluate(images, texts, return_dict=True, verbose=0)["loss"]
    return loss / np.log(2)


@pytest.fixture(scope="module")
def text(run):
    """A caption of the training."""
    return split(run.parent)[0].texts[0]


@pytest.fixture(scope="module")
def held_out(run, model):
    """The held-out pictures whose captions have known words alone."""
    own = split(run.parent)[1]
    find = model.preprocessor.tokenizer.unknown_words
    return multimodal_data.take(
        own, [n for n, t in enumerate(own.texts) if not find(t)]
    )


def pixels_of(file):
    """The picture in a file, in the size in which the model drew it."""
    return np.asarray(Image.open(file))[7::15, 7::15]  # enlarged 15 times


def test_a_run_on_a_folder(run, model, held_out):
    results, own = results_of(run), held_out
    rows = len(own.texts)
    assert 1 < rows == results["drawn"] < len(split(run.parent)[1].texts)
    tested = multimodal_data.take(own, draw_scores.rows(own, 0))
    others = [*tested.texts[1:], tested.texts[0]]
    shuffled = results["bits"][draw_scores.SHUFFLED]
    wanted = bits_of(model, tested.images, others)
    assert shuffled == pytest.approx(wanted, abs=1e-5) != results["bits"]["the model"]
    assert results["codebook"]["steps"] == 4 and "looks" not in results
    for name in ("loss", "pictures"):
        assert (run / f"{name}.png").stat().st_size > 5000
    codebook = kerasseq.load_model(run / "codebook" / "model.keras")
    for a, b in zip(codebook.get_weights(), model.codebook.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    bits = results["bits"]
    logits = model.predict_on_batch(model.encode(own.images, own.texts))
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))
    ids = codebook.encode(own.images).reshape(rows, -1)
    found = -np.take_along_axis(log_p, ids[..., None], axis=-1).mean()
    assert bits["the model"] == pytest.approx(found / np.log(2), abs=1e-5)
    assert set(bits) == {*("the model", draw_scores.SHUFFLED, draw_scores.FREQUENCIES)}
    rebuilt = model.codebook.decode(codebook.encode(own.images))
    real = np.stack([np.asarray(Image.open(file)) for file in own.images]) / 255
    error = np.mean((rebuilt - real) ** 2)
    assert results["errors"]["rebuilt"] == pytest.approx(error, rel=1e-4)
    used = results["codes"]
    assert used["used"] == len(np.unique(ids)) and 1 <= used["perplexity"] <= 7
    assert "bits per id" in results["verdict"]["sentence"]


def test_pictures_of_captions(run, model, text, held_out, command, tmp_path):
    file = command("predict", run, "--text", text).out.strip()
    assert file == str(run / "drawn-1.png")
    drawn = np.round(model.draw(text) * 255)
    np.testing.assert_array_equal(pixels_of(file), drawn)
    texts = [text, held_out.texts[0]]
    (tmp_path / "texts.txt").write_text("\n\n".join(texts))
    words = ["--file", "texts.txt", "--out", "new", "--temperature", "0.7"]
    words += ["--top-k", "5", "--seed", "3"]
    rows = read_json(command("predict", run, *words, "--json"))
    assert [row["text"] for row in rows] == texts
    sampled = model.draw(texts, temperature=0.7, top_k=5, seed=3)
    for row, image in zip(rows, sampled, strict=True):
        np.testing.assert_array_equal(pixels_of(row["file"]), np.round(image * 255))
    lines = command("predict", run).out.splitlines()  # what was held out
    own = [f"{run / f'drawn-{n}.png'}  {t}" for n, t in enumerate(held_out.texts, 2)]
    assert lines == own
    words = ["predict", run / "model.keras", "--text", text, "--out", "one.png"]
    command(*words)
    assert (tmp_path / "one.png").exists()


def test_inspect(run, model, text, held_out, command, tmp_path, drawn):
    found = read_json(command("inspect", run, "--out", "figures", "--json"))
    assert found["caption"] == held_out.texts[0]
    rows = {row["from"]: row for row in found["attention"]}
    assert rows["words"]["to patches"] == 0  # words come first
    for row in rows.values():
        assert row["to patches"] + row["to words"] == pytest.approx(1, abs=1e-5)
    (codes,) = found["codes"]
    assert codes["codes"] == 7 and codes["used"] <= 7
    assert [row["tokens"] for row in found["experts"]] == ["patches", "words"]
    for name in ("attention", "rebuilt"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 5000
    file, (word, *_) = held_out.images[1], text.split()
    words = ["--text", word, "--file", file, "--out", "figures", "--json"]
    found = read_json(command("inspect", run, *words))
    assert found["caption"] == word
    pixels = np.asarray(Image.open(file))[None] / 255
    rebuilt = model.codebook.decode(model.codebook.encode(pixels))
    error = found["codes"][0]["error of rebuilt pixels"]
    assert error == pytest.approx(np.mean((rebuilt - pixels) ** 2), rel=1e-4)


def test_the_picture_that_is_inspected_is_drawn(model, text):
    args = SimpleNamespace(text=text, file=None, layer=None)
    example = multimodal_inspect.make_example(model, None, args)
    np.testing.assert_array_equal(example.inputs[0], model.draw(text))


def test_a_run_that_was_stopped_goes_on_in_either_training(command, refused, tmp_path):
    words = ["train", "draw", *SCENES, "--steps", "6", "--checkpoint-every", "2"]
    out = command(*words, "--run", "whole").out
    assert "codes. It is trained first" in out and "color and shape" in out
    with at_step(3):  # of 4 of the codebook
        command(*words, "--run", "stopped", code=130)
    assert "has no model.keras yet" in refused("predict", "stopped", "--text", "a")
    with at_step(5):  # of 6 of the model
        command("train", "--resume", "stopped", code=130)
    written = tmp_path / "stopped/codebook"
    before = {file: file.stat().st_mtime_ns for file in written.iterdir()}
    assert written / "results.json" in before
    command("train", "--resume", "stopped")
    assert {file: file.stat().st_mtime_ns for file in written.iterdir()} == before
    whole, stopped = (
        kerasseq.load_model(tmp_path / name / "model.keras")
        for name in ("whole", "stopped")
    )
    for get in (lambda model: model, lambda model: model.codebook):
        weights = (get(model).get_weights() for model in (whole, stopped))
        for a, b in zip(*weights, strict=True):
            np.testing.assert_array_equal(a, b)
    results = results_of(tmp_path / "stopped")
    assert results["looks"] == results_of(tmp_path / "whole")["looks"]
    assert set(results["looks"]) > {
        "real",
        "drawn",
        draw_scores.FREQUENT_LOOK,
        draw_scores.SHUFFLED_LOOK,
    }


def test_the_nearest_real_picture_reads_scenes():
    learned, tested = datasets.scenes(700, seed=1).split(0.3)
    asked, known = draw_scores.looks_of(tested), draw_scores.looks_of(learned)
    images = [each.images.astype("float32") / 255 for each in (learned, tested)]
    read = [known[n] for n in draw_scores.nearest(*images)]
    assert draw_scores.right(read, asked)["both"].mean() == 1
    middle = np.array([each == "center" for each in tested.layouts])
    moved = np.roll(images[1][middle], (3, -2), axis=(1, 2))
    read = [known[n] for n in draw_scores.nearest(images[0], moved)]
    asked = [look for look, is_middle in zip(asked, middle, strict=True) if is_middle]
    assert len(asked) > 9 and read == asked
    assert not draw_scores.has_looks(datasets.scenes(2, objects=2))
    perfect = draw_scores.right(asked, asked)
    never = {name: ~each for name, each in perfect.items()}
    found = {
        "drawn": perfect,
        draw_scores.SHUFFLED_LOOK: never,
        draw_scores.FREQUENT_LOOK: never,
    }
    assert draw_scores.judge({"looks": found})["better"]
    assert not draw_scores.judge({"looks": {**found, "drawn": never}})["better"]


def test_scenes_of_two_shapes_and_nothing_written_when_dry(command, tmp_path):
    words = ["train", "draw", *SCENES, "--objects", "2", "--steps", "1"]
    assert "would be trained" in command(*words, "--dry-run").out
    assert not snapshot(tmp_path)
    command(*words, "--language", "fr", "--run", "run")
    results = results_of(tmp_path / "run")
    assert "looks" not in results and "bits" in results["verdict"]["sentence"]


def test_wrong_arguments(run, text, refused, tmp_path):
    folder = write(tmp_path / "three", count=3)
    (tmp_path / "long.txt").write_text(f"{text}\n{text} {text}\n")
    (tmp_path / "empty.txt").write_text("\n \n")
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    shutil.copytree(folder, tmp_path / "sounds")
    (tmp_path / "sounds" / "my picture 1.png").write_bytes(b"RIFF....WAVEfmt ")
    before = set(snapshot(tmp_path))
    given = ["--text", text]
    for words, message in (
        (["train", "draw", "no"], "there is no folder"),
        (["train", "draw", "three", "--noise", "0.1"], "--noise is for scenes"),
        (["train", "draw", "--frames", "4"], "no films"),
        (["train", "draw", "--sound"], "no sounds"),
        (["train", "draw", "sounds"], "line 3 names a file that is no"),
        (["train", "draw", "--patch-size", "5"], "Try 3"),
        (
            ["train", "draw", "three", *SMALL, "--num-codes", "9"],
            "at most 8, the",
        ),
        (["train", "draw", "--num-codes", "1"], "at least 2"),
        (["train", "draw", "--codebook-steps", "0"], "at least 1"),
        (["predict", run, "--text", " "], "--text must be a caption"),
        (["predict", run, "--text", f"{text} zebra"], "['zebra'], which the model"),
        (["predict", run, "--text", f"{text} {text}"], "--text must have at most 8"),
        (["predict", run, "--file", "long.txt"], "long.txt, line 2 must have at most"),
        (["predict", run, "--file", "empty.txt"], "empty.txt must have text"),
        (["predict", run, "--file", "a.png"], "draws pictures from captions"),
        (["predict", run, "--file", "three"], "draws pictures from captions"),
        (["predict", run, *given, "--file", "long.txt"], "exclude each other"),
        (["predict", run, *given, "--captions", "long.txt"], "--captions is for other"),
        (["predict", run, *given, "--column", "text"], "add --file"),
        (["predict", run, *given, "--top-k", "0"], "at least 1"),
        (["predict", run, *given, "--out", "a.png"], "nothing is overwritten"),
        (["predict", run, *given, "--out", "a.csv"], "ends in .png, or a folder"),
        (["predict", run, "--out", "b.png"], "--out must be a folder for 6"),
        (["predict", f"{run}/codebook", *given], "the codebook of a run"),
        (["predict", f"{run}/model.keras"], "Give a caption with --text"),
        (["inspect", f"{run}/codebook"], "the codebook of a run"),
        (["inspect", run, "--file", "a.png"], "add --text"),
        (["inspect", run, "--text", "zebra"], "zebra"),
        (["inspect", run, "--layer", "a"], "--layer is for other models"),
        (["evaluate", run, "--file", "three"], "received draw"),
        (["generate", run], "does not generate text"),
    ):
        assert message in refused(*words), words
    assert set(snapshot(tmp_path)) == before, "nothing is left"
