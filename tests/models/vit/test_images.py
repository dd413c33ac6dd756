"""`ViT` on files and folders with labels by name."""

import itertools
import os
import pathlib

import keras
import numpy as np
import pytest
from PIL import Image

import kerasseq
from kerasseq import kernels
from kerasseq.models import ViT
from kerasseq.models.vit import preprocessor
from kerasseq.training import label_report

pytestmark = pytest.mark.once("the same arrays on every backend")

SIZES = {"image_size": (4, 6), "patch_size": 2, "channels": 1, "num_layers": 1}
SIZES |= {"num_heads": 3, "hidden_dim": 12, "intermediate_dim": 17}
NAMES = ["left", "right"]
SIDES = ["left"] * 16 + ["right"] * 16


def pictures(count, seed=0):
    """Images that are brighter on one side, and the side."""
    rng = np.random.default_rng(seed)
    sides = np.arange(count) % 2
    images = rng.integers(0, 100, (count, 4, 6), "uint8")
    for image, side in zip(images, sides, strict=True):
        image[:, 3 * side : 3 * side + 3] += 150
    return images, [NAMES[side] for side in sides]


def write(folder, count=32, seed=0):
    for n, (image, name) in enumerate(zip(*pictures(count, seed), strict=True)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / name / f"{n:03}.png")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("pictures"))


@pytest.fixture
def opened(monkeypatch):
    """The files that are read, in order."""
    files = []

    def read(file, *args, **kwargs):
        files.append(file)
        return kerasseq.datasets.read_image(file, *args, **kwargs)

    monkeypatch.setattr(preprocessor, "read_image", read)
    return files


@pytest.fixture(scope="module")
def trained(folder):
    keras.utils.set_random_seed(0)
    model = ViT(**SIZES)
    model.compile(keras.optimizers.Adam(1e-2))
    model.fit(folder, epochs=8, batch_size=8, verbose=0)
    return model


@pytest.mark.full("a ViT is trained on arrays everywhere")
def test_three_lines(tmp_path):
    folder = write(tmp_path / "pictures")
    keras.utils.set_random_seed(0)
    model = ViT(**SIZES)
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(
        str(folder), epochs=8, batch_size=8, validation_split=0.25, verbose=0
    ).history
    assert model.labels == NAMES and history["val_accuracy"][-1] == 1
    model.save(tmp_path / "model.keras")
    again = kerasseq.load_model(tmp_path / "model.keras")
    new = write(tmp_path / "new", 6, seed=1)
    files = kerasseq.datasets.image_folder(new)
    found = again.classify(files.files)
    assert [each.label for each in found] == files.labels
    assert found == model.classify(new)  # the whole folder, in the same order
    one = again.classify(files.files[-1])
    assert one.label == "right" and one.probabilities["right"] == one.probability
    assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert again.evaluate(new, verbose=0)[1] == 1
    (tmp_path / "bad.png").write_bytes(b"no image")
    for use in (again.predict, again.classify):
        with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image"):
            use([*files.files, str(tmp_path / "bad.png")])
    assert again.classify(files.files) == found, "the model is as it was"
    (new / "left" / "bad.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image"):
        again.fit(new, epochs=2, batch_size=2, verbose=0)
    assert np.isfinite(again.predict(files.files, verbose=0)).all()


def is_damaged(file):
    return file.endswith(("left/000.png", "right/bad.png"))


def test_damaged_files_are_left_out(tmp_path):
    folder = write(tmp_path / "new", 6)
    for name in ("left/000.png", "right/bad.png"):
        (folder / name).write_bytes(b"no image")
    with pytest.warns(
        UserWarning, match=r"^2 of 7 images cannot .*000\.png .*bad\.png"
    ):
        found = kerasseq.datasets.image_folder(folder, missing="skip")
    assert found.labels == ["left"] * 2 + ["right"] * 3
    listed = kerasseq.datasets.image_folder(folder)
    labels = [*listed.labels[:-2], None, "right"]
    for data in ([folder], [listed], [listed.files, labels]):
        model, weights = ViT(**SIZES), np.ones(7)
        with pytest.raises(
            ValueError, match="cannot be read as an image|1 row with one"
        ):
            model.fit(*data, verbose=0)
        with pytest.warns(UserWarning) as warned:
            history = model.fit(
                *data,
                sample_weight=weights,
                validation_data=listed,
                missing="skip",
                verbose=0,
            )
        assert np.isfinite(history.history["val_loss"]).all()
        assert sum("2 of 7 images" in str(each.message) for each in warned) >= 1
        with pytest.warns(UserWarning, match=r" of \d (images|rows)"):
            loss = model.evaluate(*data, missing="skip", verbose=0)[0]
        assert np.isfinite(loss)
        with pytest.warns(UserWarning, match=r" of \d (images|rows)"):
            assert model.report(*data, missing="skip").confusion.sum() == 5 - len(
                data[1:]
            )
        with pytest.warns(UserWarning, match="2 of 7 images"):
            scores = model.predict(data[0], missing="skip", verbose=0)
        gaps = [row for row, file in enumerate(listed.files) if is_damaged(file)]
        assert np.flatnonzero(np.isnan(scores).all(axis=1)).tolist() == gaps
        with pytest.warns(UserWarning, match="2 of 7 images"):
            classes = model.classify(data[0], missing="skip")
        assert [row for row in range(7) if classes[row] is None] == gaps
    (tmp_path / "all" / "a").mkdir(parents=True)
    (tmp_path / "all" / "a" / "a.png").write_bytes(b"")
    with pytest.raises(ValueError, match="1 of 1 images cannot be read, and none is"):
        kerasseq.datasets.image_folder(tmp_path / "all", missing="skip")


def test_files_equal_arrays(trained, folder):
    files = kerasseq.datasets.image_files(folder)
    arrays = np.stack([np.asarray(Image.open(file)) for file in files])
    wanted = trained.predict(arrays, verbose=0)
    assert np.ptp(wanted, axis=0).min() > 1
    for images in (files, folder, np.array(files), tuple(files)):
        found = trained.predict(images, batch_size=5, verbose=0)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_array_equal(trained.read(files[:3])[..., 0], arrays[:3])
    classified = trained.classify(arrays)
    assert trained.classify(arrays[3]).label == classified[3].label
    assert trained.classify(arrays[3, ..., None]).label == classified[3].label
    assert trained.classify(files[3]) == trained.classify(files[3:4])[0]
    for name in ("attention_map", "attribution"):
        function = getattr(trained, name)
        np.testing.assert_allclose(function(files[:3]), function(arrays[:3]), atol=1e-5)


def test_images_of_pillow_are_those_of_their_files(trained, folder):
    files = kerasseq.datasets.image_files(folder)
    pictures = []
    for file in files:
        with Image.open(file) as picture:
            pictures.append(picture.copy())
    expected = trained.predict(files, verbose=0)
    np.testing.assert_allclose(trained.predict(pictures, verbose=0), expected)
    assert trained.classify(pictures[3]) == trained.classify(files[3])
    np.testing.assert_array_equal(trained.encode(pictures), trained.read(files))
    assert trained.classify([pictures[3], files[5]]) == trained.classify(files[3:6:2])
    sides = [trained.labels[0]] * len(files)
    pairs = [*zip(pictures, sides, strict=True)]
    read_to_its_end = trained.evaluate(iter(pairs), verbose=0)
    assert read_to_its_end == pytest.approx(trained.evaluate(files, sides, verbose=0))
    rows = [{"image": picture, "label": "right"} for picture in pictures]
    model = ViT(NAMES, **SIZES)
    endless = itertools.cycle(rows)  # batch by batch
    history = model.fit(endless, steps_per_epoch=3, batch_size=5, verbose=0)
    assert len(history.history["loss"]) == 1
    loss = trained.evaluate(pictures, [trained.labels[0]] * len(files), verbose=0)
    again = trained.evaluate(files, [trained.labels[0]] * len(files), verbose=0)
    assert loss == pytest.approx(again)


def test_training_on_files_equals_training_on_arrays(folder):
    files, labels = kerasseq.datasets.image_folder(folder)
    arrays = np.stack([np.asarray(Image.open(file)) for file in files])
    weights = []
    for images in (files, arrays):
        keras.utils.set_random_seed(3)
        model = ViT(**SIZES)
        options = {"shift": 0.3, "flip": True, "seed": 5, "sample_weight": [2.0] * 32}
        model.fit(images, labels, batch_size=8, epochs=2, verbose=0, **options)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_files_are_not_read_before_they_are_needed(folder, opened):
    model = ViT(NAMES, **SIZES)
    batches = model.batches(folder, batch_size=4)
    assert not opened
    batches.batch(0)
    assert len(opened) == 4
    model.fit(folder, batch_size=4, steps_per_epoch=2, epochs=1, verbose=0)
    # The first batch, two that are trained on, and those ahead of them.
    assert len(opened) <= 4 + 2 * 4 + 2 * 4
    opened.clear()
    model.evaluate(folder, batch_size=4, verbose=0)
    assert sorted(set(opened)) == sorted(kerasseq.datasets.image_files(folder))


def test_value_range_and_channels_first(folder):
    files = kerasseq.datasets.image_files(folder)[:5]
    keras.utils.set_random_seed(0)
    plain = ViT(2, **SIZES)
    wide = ViT(2, **SIZES, value_range=(-3, 13))
    turned = ViT(2, **SIZES, data_format="channels_first")
    for model in (wide, turned):
        model.set_weights(plain.get_weights())
        found = model.predict(files, verbose=0)
        np.testing.assert_allclose(found, plain.predict(files, verbose=0), atol=1e-5)
        np.testing.assert_allclose(
            model.attribution(files), plain.attribution(files), atol=1e-5
        )
    assert wide.read(files).min() >= -3 and wide.read(files).max() > 10
    assert turned.read(files).shape == (5, 1, 4, 6)
    images = turned.read(files)
    for use in (turned.fit, lambda x, y: turned.fit(x, y, shift=0.2)):
        assert np.isfinite(use(images, [0, 1, 0, 1, 0]).history["loss"][0])


def test_shifts_of_channels_first_are_those_of_channels_last():
    images, sides = pictures(7)
    last, first = (
        ViT(NAMES, **SIZES, data_format=f"channels_{name}")
        for name in ("last", "first")
    )
    options = {"batch_size": 5, "shift": 0.4, "flip": True, "seed": 3}
    x, y = last.batches(images[..., None], sides, **options).batch(0)
    again, same = first.batches(images[:, None], sides, **options).batch(0)
    np.testing.assert_array_equal(again, x.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(same, y)


@pytest.mark.everywhere("TensorFlow replaces errors that are raised in data")
def test_errors_of_files_are_the_original(tmp_path):
    folder = write(tmp_path, count=6)
    files = kerasseq.datasets.image_files(folder)
    pathlib.Path(files[5]).write_bytes(b"no image")
    model = ViT(NAMES, **SIZES)
    for use in (
        lambda: model.predict(files, batch_size=2, verbose=0),
        lambda: model.evaluate(files, ["left"] * 6, batch_size=2, verbose=0),
    ):
        with pytest.raises(ValueError, match="cannot be read as an image"):
            use()


def test_unequal_sizes_and_colors(tmp_path):
    rng = np.random.default_rng(0)
    for n, shape in enumerate([(9, 5, 3), (3, 8), (50, 40, 4), (4, 6, 3)]):
        image = Image.fromarray(rng.integers(0, 256, shape, "uint8"))
        image.save(tmp_path / f"{n}.png")
    files = kerasseq.datasets.image_files(tmp_path)
    options = {**SIZES, "channels": 3}
    found = [
        ViT(2, **options, resize=r).read(files) for r in ("crop", "pad", "stretch")
    ]
    assert {each.shape for each in found} == {(4, 4, 6, 3)}
    assert (found[0][0] != found[1][0]).any() and (found[1][0] != found[2][0]).any()
    for each in found:
        np.testing.assert_array_equal(each[3], np.asarray(Image.open(files[3])))
    model = ViT(2, **options, resize="pad")
    again = ViT.from_config(model.get_config())
    np.testing.assert_array_equal(again.read(files), found[1])


def test_class_weights_and_split(folder, opened, monkeypatch):
    """Balanced weights, a split of each class, and validation by a folder."""
    files, labels = kerasseq.datasets.image_folder(folder)
    keep = [n for n, name in enumerate(labels) if name == "left"] + [16, 17, 18, 19]
    files, labels = [files[n] for n in keep], [labels[n] for n in keep]
    model = ViT(NAMES, **SIZES)
    _, y, weights = model.batches(
        files, labels, class_weight="balanced", batch_size=20
    ).batch(0)
    assert weights[y == 0] == pytest.approx(20 / (2 * 16))
    assert weights[y == 1] == pytest.approx(20 / (2 * 4))
    opened.clear()
    history = model.fit(
        folder, validation_split=0.25, epochs=1, batch_size=12, verbose=0
    ).history
    last = opened[-8:]  # those of the validation
    assert sum("left" in file for file in last) == 4 and "val_loss" in history
    training, test = kerasseq.datasets.image_folder(folder).split(0.25)
    history = model.fit(training, validation_data=test, epochs=1, verbose=0).history
    wanted = model.evaluate(test, verbose=0)
    assert history["val_accuracy"][-1] == pytest.approx(wanted[1], abs=1e-6)
    assert history["val_loss"][-1] == pytest.approx(wanted[0], abs=1e-6)
    assert len(model.classify(test)) == len(test.files) == 8


def test_several_labels(tmp_path, folder):
    """Bright on the left, on the right, on both sides or on none."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 100, (48, 4, 6), "uint8")
    labels = []
    for n, image in enumerate(images):
        sides = [side for side in (0, 1) if n >> side & 1]
        for side in sides:
            image[:, 3 * side : 3 * side + 3] += 150
        labels.append([NAMES[side] for side in sides])
    keras.utils.set_random_seed(0)
    model = ViT(**SIZES, multi_label=True)
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(images, labels, epochs=16, batch_size=8, verbose=0).history
    assert history["f1"][-1] > 0.95
    model.save(tmp_path / "model.keras")
    found = kerasseq.load_model(tmp_path / "model.keras").classify(images)
    assert np.mean([a.label == b for a, b in zip(found, labels, strict=True)]) > 0.95
    ones = np.array([[name in row for name in NAMES] for row in labels], "int32")
    assert model.evaluate(images, ones, verbose=0)[1] > 0.95
    with pytest.raises(TypeError, match=r"y\[0\] must be a list of labels"):
        model.evaluate(folder)


@pytest.mark.full("slopes of attributions are tested everywhere")
def test_attribution_is_the_gradient_times_the_input():
    """By differences: a pixel that becomes darker, and the score of its label."""
    keras.utils.set_random_seed(0)
    model = ViT(NAMES, **SIZES)
    images = (pictures(3)[0][..., None] / 255).astype("float32")
    found = model.attribution(images, ["right"] * 3)
    assert found.shape == (3, 4, 6)
    step, compiled = 1e-2, kernels.compiled(model)
    for n, (row, column) in enumerate([(0, 0), (2, 4), (3, 5)]):
        scores = []
        for sign in (1, -1):
            moved = images.copy()
            moved[n, row, column] += sign * step
            scores.append(keras.ops.convert_to_numpy(compiled(moved))[n, 1])
        slope = (scores[0] - scores[1]) / (2 * step)
        wanted = slope * images[n, row, column, 0]
        assert found[n, row, column] == pytest.approx(wanted, rel=0.02, abs=1e-3)
    assert np.abs(found).max() > 0.05
    best = [each.label for each in model.classify(images)]
    np.testing.assert_allclose(
        model.attribution(images, batch_size=2),
        model.attribution(images, best),
        atol=1e-5,
    )
    black = np.zeros((1, 4, 6, 1), "float32")
    assert not model.attribution(black).any()


def test_before_the_labels_are_known(folder):
    model = ViT(**SIZES)
    assert model.labels is None
    images, labels = pictures(4)
    for use in (
        model.predict,
        model.classify,
        model.attention_map,
        model.attribution,
        model.read,
        lambda x: model.evaluate(x, labels),
    ):
        with pytest.raises(ValueError, match=r"not learned its labels\. Call fit"):
            use(images)
    with pytest.raises(ValueError, match="expected labels y for the inputs, or"):
        model.fit(images)
    with pytest.raises(ValueError, match="at least two labels"):
        model.fit(images, ["left"] * 4)
    with pytest.raises(ValueError, match="not been learned"):
        kerasseq.models.save_pretrained(model, folder / "pretrained")


def test_without_classifier():
    model = ViT(include_top=False, **SIZES)
    images, labels = pictures(4)
    assert model.predict(images, verbose=0).shape == (4, 12)
    assert model.labels is None
    with pytest.raises(ValueError, match="include_top=False"):
        model.classify(images)
    with pytest.raises(ValueError, match="a model with classifier"):
        model.attribution(images)
    with pytest.raises(ValueError, match="labels must be None with include_top=False"):
        ViT(NAMES, include_top=False, **SIZES)
    with pytest.raises(ValueError, match="without classifier"):
        model.fit(images, labels)


def test_wrong_inputs(trained, folder, tmp_path):
    files = kerasseq.datasets.image_files(folder)
    colored = ViT(2, **{**SIZES, "channels": 3})
    for use, message in (
        (lambda: trained.fit(folder, ["left"]), "labels must be None for the folder"),
        (
            lambda: trained.fit(files, ["left"]),
            "same number of rows, received 32 and 1",
        ),
        (lambda: trained.fit(files), "expected labels y"),
        (lambda: trained.fit(files, ["top"] * 32), "one of the labels 'left', 'right'"),
        (lambda: trained.fit(files, ["left"] * 32, sample_weight=[1]), "sample_weight"),
        (lambda: trained.fit(files, SIDES, validation_split=0.01), "leave (im|ro)"),
        (lambda: trained.fit([], []), "fit needs at least one row of x, received"),
        (lambda: trained.classify(files, threshold=2), "threshold"),
        (lambda: colored.predict(np.ones((4, 6, 3))), r"One image is images\[None"),
        (lambda: colored.predict(np.ones((2, 4, 6, 4))), "out the fourth channel"),
        (lambda: trained.attribution(files[:2], ["left"]), "for each of 2 images"),
        (
            lambda: ViT(2, **{**SIZES, "channels": 2}).predict(files),
            "channels=2 is not",
        ),
        (lambda: ViT(2, **SIZES, resize="cut"), 'resize="cut" is not one of "crop"'),
    ):
        with pytest.raises(ValueError, match=message):
            use()
    for use, error, message in (
        (lambda: trained.classify("no.png"), FileNotFoundError, r"no\.png"),
        (lambda: trained.fit("no"), FileNotFoundError, "there is no folder no"),
        (lambda: trained.predict(["a.png", 3]), TypeError, r"images\[1\]=3"),
        (lambda: trained.fit(files[0]), NotADirectoryError, os.path.basename(files[0])),
    ):
        with pytest.raises(error, match=message):
            use()


def test_the_report_is_that_of_the_classified_images(trained, folder, tmp_path):
    images, names = pictures(13, seed=3)
    found = [each.label for each in trained.classify(images)]
    report = trained.report(images, names)
    assert report.scores == label_report(names, found, NAMES).scores
    right = sum(a == b for a, b in zip(found, names, strict=True))
    assert report.accuracy == pytest.approx(right / 13)
    lefts = trained.report(images, ["left"] * 13)
    assert lefts.scores == label_report(["left"] * 13, found, NAMES).scores
    assert lefts.confusion[1].tolist() == [0, 0]
    of_folder = trained.report(str(folder))
    assert of_folder.confusion.sum(axis=1).tolist() == [16, 16]
    _, accuracy = trained.evaluate(str(folder), verbose=0)
    assert of_folder.accuracy == pytest.approx(accuracy)
    (folder_of_others := tmp_path / "up").mkdir()
    write(tmp_path, 2)
    Image.fromarray(images[0]).save(folder_of_others / "0.png")
    with pytest.raises(ValueError, match="must be one of the labels 'left', 'right'"):
        trained.report(str(tmp_path))
