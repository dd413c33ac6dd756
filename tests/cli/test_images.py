"""`kerasseq train images`, and `predict`, `evaluate` and `inspect` for images."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

import kerasseq
from kerasseq.cli import image_data, images, labeled
from tests.cli.conftest import at_step, snapshot

pytestmark = pytest.mark.once("the command line")

TINY = ["--units", "12", "--num-layers", "1", "--num-heads", "3", "--batch-size", "8"]
TINY += ["--checkpoint-every", "10"]
NAMES = ["left", "right"]


def write(folder, count=40, seed=0, size=(8, 8)):
    """Images that are brighter on one side, in a subfolder for each."""
    rng = np.random.default_rng(seed)
    for n in range(count):
        image = rng.integers(0, 100, size, "uint8")
        half = size[1] // 2
        image[:, n % 2 * half : (n % 2 + 1) * half] += 150
        place = folder / NAMES[n % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{n:02}.png")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, its results and its images."""
    from kerasseq.cli import main

    folder = tmp_path_factory.mktemp("images")
    pictures = write(folder / "pictures")
    words = ["train", "images", pictures, *TINY, "--steps", "60", "--run", folder / "r"]
    words += ["--learning-rate", "0.01"]
    assert main([str(word) for word in words]) == 0
    results = json.loads((folder / "r" / "results.json").read_text())
    return folder / "r", results, pictures


def test_a_folder_of_images(trained, command, tmp_path):
    run, results, pictures = trained
    assert results["accuracy"] == 1 and results["labels"] == NAMES
    assert np.sum(results["confusion"]) == 8  # a fifth of each class
    assert results["baselines"]["majority"]["accuracy"] == 0.5
    assert results["baselines"]["logistic regression, pixels"]["accuracy"] == 1
    for name in ("loss", "confusion", "hardest"):
        assert (run / f"{name}.png").stat().st_size > 5000
    record = json.loads((run / "run.json").read_text())
    found = {name: record["arguments"][name] for name in ("image_size", "channels")}
    assert found == {"image_size": 8, "channels": 1}
    assert record["arguments"]["patch_size"] == 2
    new = write(tmp_path / "new", 10, seed=1, size=(11, 13))
    out = command("evaluate", run, "--file", new).out
    assert "Accuracy: 1.000" in out and "are in the training part" not in out
    count = len(image_data.files(str(pictures)))
    done = command("evaluate", run, "--file", pictures, "--json")
    held_out = int(np.sum(results["confusion"]))
    assert json.loads(done.out)["repeated"] == count - held_out
    command("predict", run, "--file", new, "--out", "out.csv")
    with open(tmp_path / "out.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 10
    assert all(row["label"] in row["file"] for row in rows)
    out = command("predict", run, "--file", new / "left" / "00.png").out
    assert out.startswith("left  ") and out.count("\n") == 1
    lines = command("predict", run, "--file", new / "right").out.splitlines()
    assert len(lines) == 5 and all("right  " in line for line in lines)
    model = run / "model.keras"
    one = json.loads(
        command("predict", model, "--file", new / "left" / "00.png", "--json").out
    )[0]
    assert one["label"] == "left" and sum(one["probabilities"].values()) > 0.999


def test_damaged_images_are_counted_or_left_out(command, refused, tmp_path):
    folder = write(tmp_path / "p", count=12, size=(16, 16))
    whole = image_data.listed(folder, None)[0]
    (folder / "left" / "a.png").write_text("no image")
    data = (folder / "right" / "01.png").read_bytes()
    (folder / "right" / "b.png").write_bytes(data[: len(data) // 2])  # cut
    line = refused("train", "images", folder)
    assert "2 of 14 images cannot be read: " in line and "--missing skip" in line
    assert "a.png cannot be" in line and "b.png cannot be" in line
    found, headers = image_data.listed(folder, "skip")
    assert found == whole and len(headers) == 12
    words = [*TINY, "--steps", "1", "--run", "r", "--missing", "skip"]
    done = command("train", "images", folder, *words)
    assert "2 of 14 images cannot be read: left out" in done.err
    predicted = command("predict", "r", "--file", folder, "--missing", "skip", "--json")
    assert len(json.loads(predicted.out)) == 12
    assert "2 of 14" in refused("evaluate", "r", "--file", folder)


def test_equal_images_in_both_parts(tmp_path):
    folder = write(tmp_path / "p", count=6)
    files = image_data.files(str(folder))
    shutil.copy(files[0], tmp_path / "copy.png")
    parts = files[:4], [*files[4:], str(tmp_path / "copy.png")]
    assert labeled.repeated(*map(image_data.keys, parts)) == 1
    large = [str(tmp_path / f"{n}.bin") for n in range(3)]
    for n, file in enumerate(large):  # of one size; they differ at the end
        with open(file, "wb") as stream:
            stream.write(bytes(300_000) + bytes([n % 2]))
    assert (
        labeled.repeated(*(image_data.keys(part) for part in (large[:2], large))) == 3
    )
    assert len(set(image_data.keys(large))) == 2


def test_labels_that_the_training_does_not_have(trained, command, tmp_path):
    new = write(tmp_path / "new", 4)
    (new / "left").rename(new / "top")
    found = json.loads(command("evaluate", trained[0], "--file", new, "--json").out)
    assert found["accuracy"] == 0.5 and found["labels"] == [*NAMES, "top"]
    assert found["hardest"][0]["file"].startswith("top")


def test_inspect_draws_attention_and_gradient(trained, command, tmp_path, drawn):
    run, _, pictures = trained
    done = command("inspect", run, "--file", pictures / "left" / "00.png", "--out", "o")
    assert "Most probable labels" in done.out and "patch_embedding" in done.out
    files = {"attention.png", "gradient_input.png"}
    assert {file.name for file in (tmp_path / "o").iterdir()} == files
    command("inspect", run, "--out", "of-the-training")
    assert {file.name for file in (tmp_path / "of-the-training").iterdir()} == files


def test_a_run_that_was_stopped_goes_on(command, tmp_path):
    pictures = write(tmp_path / "pictures", 24)
    words = ["train", "images", pictures, *TINY, "--steps", "25", "--flip"]
    command(*words, "--run", "whole")
    with at_step(14):
        command(*words, "--run", "stopped", code=130)
    command("train", "--resume", "stopped")
    whole, stopped = (
        kerasseq.load_model(tmp_path / name / "model.keras")
        for name in ("whole", "stopped")
    )
    for a, b in zip(whole.get_weights(), stopped.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_digits_without_a_folder(command, tmp_path):
    words = ["train", "images", *TINY, "--steps", "10", "--run", "r", "--balanced"]
    words += ["--channels", "3", "--image-size", "12"]
    results = json.loads(command(*words, "--json").out)
    assert len(results["labels"]) == 10 and np.sum(results["confusion"]) > 350
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    assert record["arguments"]["data"] == "digits"
    file = kerasseq.datasets.digits_folder(tmp_path / "d", count=3) / "1" / "0001.png"
    assert len(command("predict", "r", "--file", file).out.split()) == 2


def test_sizes_that_are_chosen(tmp_path, command):
    settings = images.options.Settings(**images.DEFAULTS)
    image_data.complete(settings, [(300, 200), (90, 41), (45, 90)], is_gray=False)
    chosen = settings.image_size, settings.patch_size, settings.channels
    assert chosen == (40, 5, 3)
    settings = images.options.Settings(**{**images.DEFAULTS, "image_size": 28})
    image_data.complete(settings, [(300, 200)], is_gray=True)
    assert (settings.patch_size, settings.channels) == (4, 1)
    pictures = write(tmp_path / "pictures", 6, size=(30, 25))
    words = ["train", "images", "--file", pictures, *TINY, "--steps", "1"]
    assert "--image-size 24 --patch-size 3 --channels 1" in command(*words).out


def test_files_that_change_during_the_training(refused, tmp_path, monkeypatch):
    pictures = write(tmp_path / "pictures", 12)
    words = ["train", "images", pictures, *TINY, "--steps", "3"]
    compile_for = images.compile_for

    def and_then(change):
        def compiled(*args):
            change(pictures)
            return compile_for(*args)

        monkeypatch.setattr(images, "compile_for", compiled)

    and_then(lambda folder: (folder / "left" / "00.png").write_bytes(b"no image"))
    message = refused(*words, "--run", "a")
    assert "left/00.png cannot be read as an image" in message
    assert not (tmp_path / "a" / "results.json").exists()
    write(pictures, 12)
    and_then(lambda folder: shutil.copy(folder / "left/02.png", folder / "left/x.png"))
    message = refused(*words, "--run", "b")
    assert "has changed during the training: left/x.png" in message
    assert not (tmp_path / "b" / "results.json").exists()
    assert "has changed since the run" in refused("train", "--resume", "b")
    (pictures / "left" / "x.png").unlink()
    and_then(lambda folder: (folder / "left" / "04.png").unlink())
    assert "left/04.png" in refused(*words, "--run", "c", "--steps", "9")


def test_wrong_folders(refused, trained, tmp_path):
    run, _, pictures = trained
    one = write(tmp_path / "one", 4)
    shutil.rmtree(one / "left")
    loose = write(tmp_path / "loose", 4)
    shutil.copy(loose / "left" / "00.png", loose)
    bad = write(tmp_path / "bad", 4)
    (bad / "left" / "03.png").write_bytes(b"no image")
    single = write(tmp_path / "single", 2)
    (tmp_path / "empty").mkdir()
    before = set(snapshot(tmp_path))
    for words, message in (
        (["train", "images", "no"], "there is no folder"),
        (["train", "images", "empty"], "a folder without subfolders"),
        (["train", "images", one], "at least two subfolders with images"),
        (["train", "images", loose], "the image 00.png beside them"),
        (["train", "images", bad], "03.png cannot be read as an image"),
        (["train", "images", single], "must have two images of a class"),
        (["train", "images", bad / "left" / "03.png"], "expected a folder of images"),
        (["train", "images", pictures, "--data", "digits"], "exclude each other"),
        (["train", "images", "--image-size", "9", "--patch-size", "2"], "Try 3"),
        (["train", "images", "--num-heads", "5"], "--num-heads must divide"),
        (["train", "images", "--channels", "2"], "--channels must be 1, 3 or 4"),
        (["train", "images", "--resize", "cut"], 'unknown value "cut"'),
        (["train", "images", "--units", "1000000"], "Choose smaller sizes"),
        (["predict", run, "--text", "a"], "expected --file with an image"),
        (["predict", run, "--file", "no.png"], "no.png"),
        (["predict", run, "--file", "empty"], "empty has no images"),
        (["predict", run, "--file", bad], "03.png cannot be read as an image"),
        (["predict", run, "--file", bad, "--out", "o.csv"], "03.png cannot be read"),
        (["evaluate", run, "--file", "empty"], "a folder without subfolders"),
        (["evaluate", run, "--file", "no"], "there is no folder no"),
        (["inspect", run, "--text", "a"], "leave out --text"),
        (["inspect", run, "--file", bad / "left" / "03.png"], "cannot be read as an"),
        (["inspect", run / "model.keras"], "name one with --file"),
    ):
        assert message in refused(*words), words
    assert set(snapshot(tmp_path)) == before, "nothing is left"
