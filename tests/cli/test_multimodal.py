"""`kerasseq train contrastive` and `captions`; `predict` and `inspect` for them."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

import kerasseq
from kerasseq import datasets
from kerasseq.cli import captions as describing
from kerasseq.cli import contrastive as retrieval
from kerasseq.cli import main, multimodal_data
from kerasseq.datasets import captioned_images
from tests.cli.conftest import at_step, snapshot

pytestmark = pytest.mark.once("the command line")

TINY = ["--units", "6", "--num-layers", "1", "--num-heads", "2", "--batch-size", "5"]
SMALL = [*TINY, "--image-size", "16", "--patch-size", "8"]
SCENES = [*SMALL, "--count", "17", "--held-out", "0.3"]
NAMES = "image,text"


def write(folder, count=13, seed=1):
    """A folder of pictures whose names have spaces, with a table."""
    folder.mkdir()
    scenes = datasets.scenes(count, seed=seed, size=16)
    lines = [NAMES]
    for n, (image, text) in enumerate(zip(scenes.images, scenes.texts, strict=True)):
        Image.fromarray(image).save(folder / f"my picture {n}.png")
        lines.append(f"my picture {n}.png,{text}")
    (folder / "all.csv").write_text("\n".join(lines))
    return folder


def train(place, task, *words):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        if task == "contrastive":  # the figures are the same for both
            patch.setattr("kerasseq.cli.figures.available", lambda: False)
        write(place / "my pictures")
        words = ["train", task, "my pictures", *SMALL, *words, "--run", "run"]
        assert main([*words, "--steps", "3", "--held-out", "0.4"]) == 0
    return place / "run"


@pytest.fixture(scope="module")
def captions(tmp_path_factory):
    """A run of captions on a folder, with figures."""
    return train(tmp_path_factory.mktemp("captions"), "captions")


@pytest.fixture(scope="module")
def contrastive(tmp_path_factory):
    """A contrastive run with experts on a folder."""
    place = tmp_path_factory.mktemp("contrastive")
    return train(place, "contrastive", "--num-experts", "3", "--loss", "sigmoid")


def results_of(run):
    return json.loads((run / "results.json").read_text())


def read_json(done):
    return json.loads(done.out)


def test_captions_of_a_folder(captions, command, tmp_path):
    results = results_of(captions)
    assert results["described"] == len(results["examples"]) == 5
    assert results["repeated"] == 0 and not results["verdict"]["better"]
    assert set(results["baselines"]) == {
        *(describing.FREQUENT, describing.PLACES, describing.NEAREST)
    }
    for name in ("loss", "pictures"):
        assert (captions / f"{name}.png").stat().st_size > 5000
    arguments = json.loads((captions / "run.json").read_text())["arguments"]
    assert arguments["tokenizer"] == "bpe" and arguments["patience"] == 5
    model = kerasseq.load_model(captions / "model.keras")
    pictures = captions.parent / "my pictures"
    file = pictures / "my picture 2.png"
    written = model.describe(str(file))
    assert command("predict", captions, "--file", file).out == f"{written or '∅'}\n"
    own = read_json(command("predict", captions, "--json"))
    assert len(own) == 5 and all(f"{pictures}" in each["file"] for each in own)
    texts = dict(zip(*captioned_images(pictures), strict=True))
    assert all(texts[each["file"]] == each["caption"] for each in own)
    command("predict", captions, "--file", pictures, "--out", "out.csv")
    with open(tmp_path / "out.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 13 and {*rows[0]} == {"file", "written"}
    right = {each["file"]: each["written"] for each in own}
    assert right.items() <= {row["file"]: row["written"] for row in rows}.items()


def test_contrastive_of_a_folder(contrastive, command, tmp_path):
    results = results_of(contrastive)
    assert results["candidates"] == 5 and set(results["scores"]) == {
        *("picture → caption", "caption → picture")
    }
    assert all(each["chance"] == 0.2 for each in results["scores"].values())
    pictures = contrastive.parent / "my pictures"
    files, texts = captioned_images(pictures)
    model = kerasseq.load_model(contrastive / "model.keras")
    vectors = model.embed_images(files)
    (vector,) = model.embed_texts(["a red square"])
    words = ["--file", pictures, "--text", "a red square"]
    rows = read_json(command("predict", contrastive, *words, "--json"))
    order = np.argsort(-(vectors @ vector), kind="stable")
    assert [row["file"] for row in rows] == [files[n] for n in order]
    assert rows[0]["cosine"] == pytest.approx(float(np.max(vectors @ vector)), abs=1e-4)
    done = command("predict", contrastive, *words)
    assert len(done.out.splitlines()) == 5 and "5 of 13" in done.err
    (tmp_path / "given.txt").write_text("a red square\n\na small blue cross\n")
    for file in ("given.txt", pictures / "all.csv"):
        words = ["--file", files[3], "--captions", file]
        given = texts if file != "given.txt" else ["a red square", "a small blue cross"]
        row = read_json(command("predict", contrastive, *words, "--json"))[0]
        given = list(dict.fromkeys(given))
        cosines = model.embed_texts(given) @ vectors[3]
        assert row["nearest_caption"] == given[cosines.argmax()]
    words = ["predict", contrastive / "model.keras", "--file", files[3]]
    row = read_json(command(*words, "--captions", pictures / "all.csv", "--json"))[0]
    assert row["nearest_caption"] == given[cosines.argmax()]
    found = read_json(command("predict", contrastive, "--json"))
    assert len(found) == 5 and found[0]["nearest_caption"] in texts


def test_inspect_a_contrastive_run(contrastive, command, tmp_path, drawn):
    pictures = contrastive.parent / "my pictures"
    file = pictures / "my picture 2.png"
    words = ["--file", file, "--out", "figures", "--json"]
    found = read_json(command("inspect", contrastive, *words))
    assert found["caption"] in captioned_images(pictures).texts  # the nearest one
    model = kerasseq.load_model(contrastive / "model.keras")
    cosine = model.embed_images(str(file)) @ model.embed_texts(found["caption"]).T
    assert found["cosine"] == pytest.approx(cosine.item(), abs=1e-5)
    assert sum(row["adds"] for row in found["words"]) == pytest.approx(found["cosine"])
    for row in found["experts"]:
        shares = [value for name, value in row.items() if name.startswith("expert")]
        assert sum(shares) == pytest.approx(1) and len(shares) == 3
        low, high = row["bits of a token"], row["bits of their mean"]
        assert 0 < low <= high <= np.log2(3)
    assert 0 <= found["information"] <= 1
    assert (tmp_path / "figures" / "words.png").stat().st_size > 5000


def test_inspect_captions(captions, command, tmp_path, drawn):
    words = ["--text", "a red square", "--out", "figures", "--json"]
    found = read_json(command("inspect", captions, *words))
    rows = {row["from"]: row for row in found["attention"]}
    assert rows["patches"]["to words"] == 0
    for row in rows.values():
        assert row["to patches"] + row["to words"] == pytest.approx(1, abs=1e-5)
    assert (tmp_path / "figures" / "attention.png").stat().st_size > 5000
    assert "Caption: " in command("inspect", captions, "--out", "figures").out


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("captions", ["--frames", "4", "--sound", "--num-experts", "2"]),
        ("contrastive", ["--sound", "--objects", "2", "--language", "fr"]),
    ],
)
def test_films_and_sounds(task, words, command, tmp_path, drawn):
    command("train", task, *SCENES, *words, "--steps", "2", "--run", "run")
    results = results_of(tmp_path / "run")
    if task == "contrastive":
        assert len(results["scores"]) == 6
    lines = command("predict", "run").out.splitlines()
    assert len(lines) == 5 and lines[0].startswith("scene 1  ")
    found = read_json(command("inspect", "run", "--json"))
    names = {row["from"] for row in found.get("attention", ())}
    if task == "captions":
        assert names == {"patches", "words", "sound"}
        Image.new("RGB", (9, 9)).save("a.png")
        done = command("predict", "run", "--file", "a.png", code=2)
        assert "the model reads films" in done.err


def test_a_run_that_was_stopped_goes_on(command, tmp_path):
    words = ["train", "contrastive", *SCENES, "--steps", "4", "--checkpoint-every", "2"]
    command(*words, "--run", "whole")
    with at_step(3):
        command(*words, "--run", "stopped", code=130)
    command("train", "--resume", "stopped")
    whole, stopped = (
        kerasseq.load_model(tmp_path / name / "model.keras").get_weights()
        for name in ("whole", "stopped")
    )
    for a, b in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(a, b)


def knows_all(model, pictures):
    """Returns true captions, as a model spells them."""
    own = model.preprocessor.tokenizer
    return [own.decode(own.encode(text)) for text in pictures.texts]


def test_pictures_in_both_parts_and_captions_of_several_pictures(
    command, tmp_path, monkeypatch
):
    monkeypatch.setattr(describing, "describe", knows_all)
    folder = write(tmp_path / "p", count=4)
    lines = [NAMES]
    for n in range(9):  # the same picture under two names, with two captions
        shutil.copy(folder / f"my picture {n % 4}.png", folder / f"{n}.png")
        lines += [f"{n}.png,a shape-to-see", f"{n}.png,one-shape"]
    (folder / "all.csv").write_text("\n".join(lines))
    words = ["train", "captions", "p", *SMALL, "--steps", "1", "--held-out", "0.5"]
    words += ["--tokenizer", "word"]
    out = command(*words, "--run", "run").out
    assert "held-out pictures are in the training part, too" in out
    results = results_of(tmp_path / "run")
    assert results["described"] == 4
    # A tokenizer of words writes "a shape - to - see".
    assert results["exact"] == results["words"] == 1
    pictures = captioned_images(folder)
    learned, held_out = pictures.split(0.5)
    assert not set(learned.images) & set(held_out.images)
    truths = multimodal_data.true_captions(held_out)
    assert all(len(each) == 2 for each in truths)
    assert len(retrieval.candidates(held_out, 0)) <= 4


def test_words_that_training_does_not_have(command, refused, tmp_path):
    folder = write(tmp_path / "p", count=9)
    lines = (folder / "all.csv").read_text().splitlines()
    lines = [lines[0], *(f"{row} x{n % 3}" for n, row in enumerate(lines[1:]))]
    (folder / "all.csv").write_text("\n".join(lines))
    words = ["train", "captions", "p", *SMALL, "--steps", "1", "--tokenizer", "word"]
    assert "Raise --vocabulary-size 5" in refused(*words, "--vocabulary-size", "5")
    lines = [lines[0], *(f"{row} y{n}" for n, row in enumerate(lines[1:]))]
    (folder / "all.csv").write_text("\n".join(lines))
    assert "--tokenizer bpe knows parts of words" in refused(*words)


def test_scores_by_hand():
    found = {
        "images": np.array([[1, 0], [0, 1.0]]),
        "texts": np.array([[0, 1], [1, 0.0]]),
    }
    both = retrieval.scores(found)
    assert both["picture → caption"]["right"] == both["caption → picture"]["right"] == 0
    same = retrieval.scores({"images": np.ones((40, 2)), "texts": np.ones((40, 2))})
    assert same["picture → caption"]["right"] == 0  # one vector for all finds nothing
    assert not retrieval.judge(same)["better"]
    eye = np.eye(40)
    assert retrieval.judge(retrieval.scores({"images": eye, "texts": eye}))["better"]
    one = retrieval.scores({"images": eye[:1], "texts": eye[:1]})
    assert "nothing to choose from" in retrieval.judge(one)["sentence"]


def test_wrong_arguments(captions, contrastive, refused, tmp_path):
    write(tmp_path / "three", count=3)
    for name, n in (("damaged", 2), ("missing", 3)):
        folder = write(tmp_path / name, count=5)
        if name == "damaged":
            (folder / f"my picture {n}.png").write_text("no picture")
        else:
            (folder / f"my picture {n}.png").unlink()
    (write(tmp_path / "empty", count=5) / "all.csv").write_text(
        f"{NAMES}\nmy picture 0.png,\n"
    )
    same = write(tmp_path / "same", count=5)
    table = "\n".join([NAMES, *(f"my picture {n}.png,a shape" for n in range(5))])
    (same / "all.csv").write_text(table)
    latin = write(tmp_path / "latin", count=5)
    (latin / "all.csv").write_bytes(table.replace("a shape", "à").encode("latin-1"))
    shutil.copy(same / "all.csv", write(tmp_path / "two", count=5) / "other.csv")
    (tmp_path / "given.txt").write_text("a red square")
    before = set(snapshot(tmp_path))
    folder = str(contrastive)
    for words, message in (
        (["train", "captions", "no"], "there is no folder"),
        (
            ["train", "captions", "--data", "three"],
            "or give your own data as --file three",
        ),
        (["train", "captions", "three", "--frames", "4"], "--frames is for scenes"),
        (["train", "captions", "--table", "a.csv"], "--table is for --file"),
        (["train", "contrastive", "three"], "at least 4 pictures"),
        (["train", "contrastive", "same"], "two different captions"),
        (["train", "captions", "damaged"], "all.csv, line 4 names a file that is no"),
        (["train", "captions", "missing"], "all.csv, line 5 names my picture 3.png"),
        (["train", "captions", "empty"], "all.csv, line 2 has no text"),
        (["train", "captions", "latin"], "Try --encoding cp1252"),
        (["train", "captions", "two"], "Name it with --table"),
        (["train", "captions", "--patch-size", "5"], "Try 3"),
        (["train", "captions", "--image-size", "8"], "at least 16"),
        (["train", "captions", "--objects", "2", "--frames", "4"], "--frames 4"),
        (["train", "contrastive", *SCENES, "--batch-size", "1"], "--batch-size 1"),
        (["train", "contrastive", "--num-experts", "1"], "at least 2"),
        (["predict", captions, "--text", "a"], "--text is for a contrastive model"),
        (["predict", captions, "--file", "given.txt"], "given.txt cannot be read"),
        (["predict", captions, "--missing", "skip"], "--missing is for damaged"),
        (["predict", folder, "--text", " "], "--text must be a caption"),
        (["predict", folder, "--text", "a" * 99], "tokens"),
        (["predict", folder, "--text", "a", "--captions", "b"], "exclude each other"),
        (["predict", folder, "--captions", "no.txt"], "no.txt"),
        (["predict", folder, "--column", "text"], "add --captions"),
        (["predict", folder, "--next", "a"], "--next is for other models"),
        (["predict", f"{folder}/model.keras"], "without its run"),
        (["inspect", folder, "--layer", "a"], "--layer is for other models"),
        (["inspect", folder, "--file", "no.png"], "no.png"),
        (["evaluate", folder, "--file", "same"], "received contrastive"),
        (["generate", captions], "does not generate text"),
    ):
        assert message in refused(*words), words
    assert set(snapshot(tmp_path)) == before, "nothing is left"


def test_a_folder_that_has_changed(command, refused, tmp_path):
    folder = write(tmp_path / "p", count=6)
    words = ["train", "captions", "p", *SMALL, "--steps", "1", "--run", "run"]
    command(*words)
    (folder / "my picture 0.png").unlink()
    (folder / "all.csv").write_text(f"{NAMES}\nmy picture 1.png,a shape\n")
    assert "has changed" in refused("predict", "run")
    command("predict", "run", "--file", folder / "my picture 1.png")
