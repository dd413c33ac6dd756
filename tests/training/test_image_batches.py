"""Batches of images: order, augmentation, and files that are read when needed."""

import numpy as np
import pytest

from kerasseq.training import ImageBatches
from kerasseq.training.image_batches import augmented, images_in_order

pytestmark = pytest.mark.once("NumPy alone")

FILES = [f"{n}.png" for n in range(23)]


class Read:
    """Counts what is read; the pixels are the number in the name."""

    def __init__(self):
        self.files = []

    def __call__(self, file):
        self.files.append(file)
        return np.full((3, 2, 1), int(file.removesuffix(".png")), "uint8")


def test_files_are_read_batch_by_batch():
    read = Read()
    batches = ImageBatches(FILES, np.arange(23), batch_size=5, read=read)
    assert batches.steps_per_epoch == 4 and not read.files
    stream = batches.stream()
    for n in range(1, 3):
        x, y = next(stream)
        assert (x == y[:, None, None, None]).all() and x.shape == (5, 3, 2, 1)
        assert len(read.files) <= 5 * (n + 1), "at most one batch ahead"
    stream.close()


def test_an_epoch_has_each_file_once_in_another_order():
    batches = ImageBatches(FILES, np.arange(23), batch_size=5, read=Read())
    epochs = [
        np.concatenate([batches.batch(n)[1] for n in range(start, start + 4)])
        for start in (0, 4)
    ]
    assert all(len(set(rows)) == 20 for rows in epochs)
    assert (epochs[0] != epochs[1]).any()


@pytest.mark.parametrize("files", [True, False])
def test_a_stream_goes_on_where_another_ended(files):
    images = FILES if files else np.random.default_rng(0).random((23, 3, 2, 1))
    options = {"read": Read() if files else None, "shift": 0.4, "flip": True}
    made = [ImageBatches(images, np.arange(23), None, 5, 7, **options) for _ in "ab"]
    first, second = made[0].stream(), made[1].stream(start=5)
    for _ in range(5):
        next(first)
    for _ in range(4):
        for one, other in zip(next(first), next(second), strict=True):
            np.testing.assert_array_equal(one, other)


def test_evaluation_has_every_row_and_its_weight():
    data = images_in_order(FILES, np.arange(23), np.arange(23) / 2, 5, Read())
    assert len(data) == 5
    parts = [data[n] for n in range(5)]
    x, y, weights = (np.concatenate(values) for values in zip(*parts, strict=True))
    assert x[:, 0, 0, 0].tolist() == y.tolist() == list(range(23))
    assert (weights == y / 2).all()


def test_shifts_and_flips():
    image = np.arange(1, 7).reshape(1, 2, 3, 1)
    many = np.repeat(image, 400, axis=0)
    found = augmented(many, np.random.default_rng(0), 0.3, False)
    kinds = {tuple(map(tuple, one[..., 0])) for one in found}
    wanted = set()
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            padded = np.pad(image[0, ..., 0], 1, mode="edge")
            part = padded[1 - down : 3 - down, 1 - right : 4 - right]
            wanted.add(tuple(map(tuple, part)))
    assert kinds == wanted
    found = augmented(many, np.random.default_rng(0), 0, True)
    mirrored = (found[..., 0] == image[0, :, ::-1, 0]).all(axis=(1, 2))
    assert 150 < mirrored.sum() < 250
    assert (found[~mirrored] == image).all()


def test_each_epoch_shifts_anew():
    images = np.arange(25).reshape(1, 5, 5, 1)
    batches = ImageBatches(images, np.zeros(1, int), shift=0.4)
    assert len({batches.batch(n)[0].tobytes() for n in range(20)}) > 5


def test_channels_first_is_shifted_along_height_and_width():
    images = np.random.default_rng(0).random((6, 5, 4, 3))
    options = {"batch_size": 6, "shift": 0.3, "flip": True}
    last = ImageBatches(images, np.arange(6), **options).batch(3)[0]
    first = ImageBatches(
        images.transpose(0, 3, 1, 2), np.arange(6), channels_first=True, **options
    ).batch(3)[0]
    np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))


def test_the_error_of_a_file_is_kept():
    def broken(file):
        raise ValueError(f"{file} is broken")

    data = images_in_order(FILES, np.arange(23), read=broken)
    with pytest.raises(ValueError, match=r"0\.png is broken"), \
            data.reader.original_errors():  # fmt: skip
        try:
            data[0]
        except ValueError as error:
            raise RuntimeError("of a backend") from error
    with pytest.raises(RuntimeError, match="other"), \
            images_in_order(FILES).reader.original_errors():  # fmt: skip
        raise RuntimeError("other")


def test_wrong_arguments():
    for options, message in (
        ({"shift": 1}, "shift must be a share of the size"),
        ({"flip": "yes"}, "flip must be True or False"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            ImageBatches(np.zeros((3, 2, 2, 1)), np.arange(3), **options)
    with pytest.raises(ValueError, match="the same number of rows"):
        ImageBatches(FILES, np.arange(3))
