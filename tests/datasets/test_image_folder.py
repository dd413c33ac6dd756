"""Folders of images: what is listed, and what is refused."""

import os

import pytest

from kerasseq.datasets import image_files, image_folder


@pytest.fixture
def folder(tmp_path):
    """Names alone: no file is an image, and none is opened."""
    for name in (
        *("cat/2.png", "cat/10.JPG", "cat/more/1.webp", "cat/notes.txt"),
        *("dog/1.jpeg", "dog/.hidden.png", ".git/1.png", "labels.csv"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def test_files_and_labels(folder):
    images = image_folder(folder)
    names = [os.path.relpath(file, folder) for file in images.files]
    assert names == ["cat/10.JPG", "cat/2.png", "cat/more/1.webp", "dog/1.jpeg"]
    assert images.labels == ["cat"] * 3 + ["dog"] and images.names == ["cat", "dog"]
    assert image_files(str(folder)) == images.files


def test_a_split_has_each_class(folder):
    images = image_folder(folder)
    training, test = images.split(0.34, seed=1)
    assert sorted(training.files + test.files) == sorted(images.files)
    assert (training.labels, test.labels) == (["cat", "cat", "dog"], ["cat"])
    assert images.split(0.34, seed=1) == (training, test)
    splits = {tuple(images.split(0.34, seed=n)[1].files) for n in range(9)}
    assert len(splits) == 3
    with pytest.raises(ValueError, match="a class with two images"):
        test.split()
    with pytest.raises(ValueError, match="test must lie between 0 and 1"):
        images.split(1.5)


def test_refused_folders(folder, tmp_path):
    (folder / "5.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"received the image 5\.png beside them"):
        image_folder(folder)
    (folder / "5.png").unlink()
    (folder / "bird").mkdir()
    with pytest.raises(ValueError, match="bird has no images"):
        image_folder(folder)
    empty = folder / "bird"
    with pytest.raises(ValueError, match="a folder without subfolders"):
        image_folder(empty)
    with pytest.raises(ValueError, match=r"bird has no images, that is"):
        image_files(empty)
    for name in ("Train", "test"):
        (empty / name / "cat").mkdir(parents=True)
        (empty / name / "cat" / "1.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"parts of a data set: Train, test\. Choose"):
        image_folder(empty)
    with pytest.raises(ValueError, match="must name a file or a folder, received ''"):
        image_folder("")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        image_folder(folder / "no")
    with pytest.raises(NotADirectoryError, match=r"labels\.csv"):
        image_files(folder / "labels.csv")
    with pytest.raises(TypeError, match="`path` must be a path"):
        image_folder(3)
