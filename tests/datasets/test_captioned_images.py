"""Folders of captioned images: tables in every form, and what is refused."""

import os

import numpy as np
import pytest

from kerasseq.datasets import CaptionedImages, captioned_images, read_image

Image = pytest.importorskip("PIL.Image")

TABLES = {
    "all.csv": 'image,text\na.png,a kite\nmore/b.jpg,"a sea, blue"\n',
    "semicolon.csv": "file;caption\r\na.png;a kite\r\n\r\nmore/b.jpg;a sea, blue\r\n",
    "all.tsv": "img\tsentence\na.png\ta kite\nmore/b.jpg\ta sea, blue\n",
    "all.jsonl": '{"image": "a.png", "text": "a kite"}\n'
    '{"image": "more/b.jpg", "text": "a sea, blue"}\n',
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "more").mkdir()
    Image.new("RGB", (5, 3), (255, 0, 0)).save(tmp_path / "a.png")
    Image.new("RGB", (7, 11), (0, 0, 255)).save(tmp_path / "more/b.jpg")
    return tmp_path


@pytest.mark.parametrize("name", TABLES)
def test_tables(folder, name):
    (folder / name).write_text(TABLES[name], encoding="utf-8")
    data = captioned_images(folder)
    assert data.texts == ["a kite", "a sea, blue"]
    assert data == captioned_images(str(folder), name)
    assert [os.path.relpath(f, folder) for f in data.images] == ["a.png", "more/b.jpg"]
    assert [read_image(file).shape for file in data.images] == [(3, 5, 3), (11, 7, 3)]


def test_columns_and_encoding(folder):
    (folder / "all.csv").write_text("picture,said\na.png,un été\n", encoding="cp1252")
    options = {"image_column": "picture", "text_column": "said", "encoding": "cp1252"}
    assert captioned_images(folder, **options).texts == ["un été"]
    with pytest.raises(ValueError, match=r"all\.csv is not utf-8 .*encoding='cp1252'"):
        captioned_images(folder)
    with pytest.raises(
        ValueError, match='line 2 must have the column "image" or .*img'
    ):
        captioned_images(folder, encoding="cp1252")
    options["text_column"] = "sad"
    with pytest.raises(ValueError, match='Did you mean "said".*`text_column`'):
        captioned_images(folder, **options)


ROWS = {
    "c.png,a sea": r"line 3 names c\.png, which is not a file",
    "more/b.jpg,": r"line 3 has no text for more/b\.jpg",
    ",a sea": "line 3 has no file",
    "notes.txt,a sea": r"line 3 names a file that is no image: .*notes\.txt cannot be",
    "a.png,a kite": r"line 3 repeats an earlier row: .*a\.png with the same text",
    "../a.png,a sea": r"line 3 names \.\./a\.png, which is not a file",
}


@pytest.mark.parametrize("row", ROWS)
def test_wrong_rows(folder, row):
    (folder / "notes.txt").write_text("a kite")
    (folder / "all.csv").write_text(f"image,text\na.png,a kite\n{row}\n")
    with pytest.raises(ValueError, match=rf"all\.csv, {ROWS[row]}.*missing=.skip"):
        captioned_images(folder)
    with pytest.warns(UserWarning, match=f"1 of 2 images are left out: .*{ROWS[row]}"):
        data = captioned_images(folder, missing="skip")
    assert data.texts == ["a kite"]


def test_damaged_images_are_found_when_read_or_skipped(folder):
    noise = np.random.default_rng(0).integers(0, 256, (67, 61, 3), "uint8")
    Image.fromarray(noise).save(folder / "more/b.jpg")
    data = (folder / "more/b.jpg").read_bytes()
    (folder / "more/b.jpg").write_bytes(data[: len(data) // 2])
    (folder / "all.csv").write_text(TABLES["all.csv"])
    images = captioned_images(folder).images
    with pytest.raises(ValueError, match=r"b\.jpg cannot be read as an image"):
        read_image(images[1])
    with pytest.warns(UserWarning, match="line 3 names a file that is no image"):
        assert captioned_images(folder, missing="skip").texts == ["a kite"]


def test_four_channels_are_drawn_on_white(folder):
    Image.new("RGBA", (3, 2), (255, 0, 0, 0)).save(folder / "a.png")
    Image.new("CMYK", (3, 2), (0, 0, 0, 0)).save(folder / "more/b.jpg")
    (folder / "all.csv").write_text(TABLES["all.csv"])
    for file in captioned_images(folder).images:
        image = read_image(file)
        assert image.shape == (2, 3, 3) and (image == 255).all()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "image,text\n", "has no rows with an image. A table has a row for"),
        ("a.csv", "image,text\na.png,x,y\n", "line 2 must have 2 columns.*received 3"),
        ("a.csv", "image,text\na.png\n", "line 2 must have 2 columns.*received 1"),
        ("a.csv", "", "is empty"),
        ("a.jsonl", "[]\n", r"line 1 must be an object, received \[\]"),
        ("a.txt", "image,text", "must have one table of captions.* received none"),
    ],
)
def test_refused_tables(folder, name, text, words):
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        captioned_images(folder)


def test_other_errors(folder):
    (folder / "all.csv").write_text(TABLES["all.csv"])
    with pytest.raises(FileNotFoundError, match=r"b\.csv"):
        captioned_images(folder, "b.csv")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        captioned_images(folder / "none")
    with pytest.raises(NotADirectoryError, match="expected a folder of images"):
        captioned_images(folder / "a.png")
    with pytest.raises(ValueError, match='missing="skp".*Did you mean "skip"'):
        captioned_images(folder, missing="skp")


def test_captions_of_an_image_stay_together():
    rng = np.random.default_rng(0)
    images = [f"{n}.png" for n in rng.integers(0, 31, 97)]
    data = CaptionedImages(images, [str(n) for n in range(97)])
    training, test = data.split(0.25, seed=3)
    assert len(set(test.images)) == round(len(set(images)) / 4)
    assert not set(training.images) & set(test.images)
    rows = sorted(zip(*training, strict=True)) + sorted(zip(*test, strict=True))
    assert sorted(rows) == sorted(zip(*data, strict=True))
    assert data.split(0.25, seed=3) == (training, test)
    with pytest.raises(ValueError, match="received test=0.2 and 1 different images"):
        CaptionedImages(["a", "a"], ["b", "c"]).split()
