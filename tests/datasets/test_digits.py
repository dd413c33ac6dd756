import sys

import numpy as np
import pytest

from kerasseq.datasets import digits_folder

Image = pytest.importorskip("PIL.Image")
sklearn_datasets = pytest.importorskip("sklearn.datasets")


def test_images_are_the_digits(tmp_path):
    data = sklearn_datasets.load_digits()
    folder = digits_folder(tmp_path / "new" / "digits", count=37)
    assert folder == tmp_path / "new" / "digits"
    assert sorted(path.name for path in folder.iterdir()) == list("0123456789")
    assert [path.name for path in folder.parent.iterdir()] == ["digits"]
    files = sorted(folder.glob("*/*.png"), key=lambda path: path.name)
    assert len(files) == 37
    for i, file in enumerate(files):
        assert file.parent.name == str(data.target[i])
        with Image.open(file) as image:
            assert (image.mode, image.size) == ("L", (8, 8))
            pixels = np.asarray(image)
        np.testing.assert_array_equal(np.rint(pixels * (16 / 255)), data.images[i])


def test_nothing_is_overwritten(tmp_path):
    folder = digits_folder(tmp_path / "mine", count=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="must name a file or a folder, received ''"):
        digits_folder("")
    for path in (__file__, "."):
        with pytest.raises(FileExistsError, match="nothing is overwritten"):
            digits_folder(path)
    with pytest.raises(FileExistsError, match="Name a new folder"):
        digits_folder(folder, count=2)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interrupted_call_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("disk is full")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="full"):
        digits_folder(tmp_path / "digits", count=3)
    assert list(tmp_path.iterdir()) == []


def test_refused(tmp_path):
    with pytest.raises(ValueError, match="`count` must be at most 1,797"):
        digits_folder(tmp_path / "a", count=2000)
    with pytest.raises(TypeError, match="`path` must be a path, received 3"):
        digits_folder(3)


@pytest.mark.parametrize(
    ("module", "package"), [("PIL", "pillow"), ("sklearn.datasets", "scikit-learn")]
)
def test_without_packages(monkeypatch, tmp_path, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        digits_folder(tmp_path / "digits", count=1)
    assert list(tmp_path.iterdir()) == []
