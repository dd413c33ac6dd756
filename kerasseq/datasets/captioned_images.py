"""Folders of images with a table of captions; an image is read when it is needed."""

from typing import NamedTuple

from kerasseq.core.checks import one_of
from kerasseq.core.types import FilePath
from kerasseq.datasets.file_tables import Column, Kind, files_and_texts
from kerasseq.datasets.files import existing_folder
from kerasseq.datasets.image_reading import check_image, image_header
from kerasseq.datasets.splitting import split_at_random

IMAGE = ("image", "file", "path", "file_name", "filename", "image_path", "img")
TEXT = ("text", "caption", "sentence", "description", "title")
KIND = Kind(
    "images",
    "an image",
    "captions",
    "A table has a row for each image, such as  a.png,a red kite  below  image,text",
)


class CaptionedImages(NamedTuple):
    """Files of images and their captions.

    Attributes:
        images: Paths, which models read when they need them. An image with several
            captions occurs once for each.
        texts: The caption of each.
    """

    images: list[str]
    texts: list[str]

    def split(
        self, test: float = 0.2, seed: int | None = 0
    ) -> tuple["CaptionedImages", "CaptionedImages"]:
        """Splits the images at random, all captions of an image into the same part.

        Args:
            test: Share of the images in the test set, of which there is at least one.
            seed: Random seed.

        Returns:
            Training set and test set, in the order of the table.

        Raises:
            ValueError: If a part would be empty.

        Examples:
            >>> data = CaptionedImages(["a", "a", "b", "c"], ["kite", "sky", "sea", ""])
            >>> [part.images for part in data.split(0.4)]
            [['a', 'a', 'b'], ['c']]
        """
        different = list(dict.fromkeys(self.images))
        _, rows = split_at_random(
            len(different), test, seed, "an image", "different images"
        )
        held_out = {different[row] for row in rows}
        training, other = (
            self._take(
                [n for n, f in enumerate(self.images) if (f in held_out) is part]
            )
            for part in (False, True)
        )
        return training, other

    def _take(self, rows: list[int]) -> "CaptionedImages":
        return CaptionedImages(*([column[row] for row in rows] for column in self))


def captioned_images(
    path: FilePath,
    table: FilePath | None = None,
    *,
    image_column: str | None = None,
    text_column: str | None = None,
    encoding: str = "utf-8",
    missing: str = "error",
) -> CaptionedImages:
    r"""Lists the images of a table of captions.

    Of each file the header is read, not the pixels. Images can be of any format, mode
    and size that `read_image` reads: transparent pixels are drawn on white.

    Args:
        path: The folder.
        table: The table: comma or semicolon separated (`.csv`), tab separated (`.tsv`),
            or one JSON object a line (`.jsonl`), each with the names of its columns. A
            relative path is one in the folder. By default the only such file there.
        image_column: Name of the column of files, whose paths start at the folder. By
            default "image", "file", "path", "file_name", "filename", "image_path" or
            "img".
        text_column: Name of the column of captions. By default "text", "caption",
            "sentence", "description" or "title". An image may have several rows with
            different captions.
        encoding: Name of the encoding of the table.
        missing: What is done with rows that have no file or no caption, that name a
            file that does not exist or is not an image, or that repeat an earlier row:
            "error", or "skip", which opens all images, leaves such rows and those of
            damaged images out, and warns.

    Returns:
        `CaptionedImages`.

    Raises:
        FileNotFoundError: If there is no such folder or table.
        ImportError: If pillow is not installed.
        NotADirectoryError: If the folder is a file.
        TypeError: If an argument is of the wrong type.
        ValueError: If there is no table or several, it has not these columns or no
            rows, or a row is wrong. The message names file and line.

    Examples:
        >>> import pathlib, tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (5, 3), "red").save(f"{folder}/a.png")
        ...     file = pathlib.Path(folder, "all.csv")
        ...     _ = file.write_text("image,text\na.png,a red sheet\n")
        ...     data = captioned_images(folder)
        >>> data.texts
        ['a red sheet']
    """
    one_of("missing", missing, ("error", "skip"))
    check = check_image if missing == "skip" else image_header
    pairs: set[tuple[str, str]] = set()

    def problem(file: str, text: str) -> str:
        if (file, text) in pairs:
            return f"repeats an earlier row: {file} with the same text"
        pairs.add((file, text))
        try:
            check(file)
        except ValueError as error:
            return f"names a file that is no image: {error}"
        return ""

    files, texts = files_and_texts(
        existing_folder(path, "images"),
        table,
        (
            Column("image_column", image_column, IMAGE),
            Column("text_column", text_column, TEXT),
        ),
        encoding,
        kind=KIND,
        missing=missing,
        problem=problem,
    )
    return CaptionedImages(files, texts)
