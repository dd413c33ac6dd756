"""`kerasseq predict` for models that draw: a PNG for each caption."""

import argparse
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from kerasseq.cli import (
    draw_pictures,
    generate,
    labeled,
    multimodal_data,
    multimodal_predict,
    runs,
)
from kerasseq.cli.console import choose_backend
from kerasseq.cli.errors import UsageError, given, refuse
from kerasseq.core.archive import read_config
from kerasseq.datasets.image_folder import SUFFIXES

PNG = ".png"
ADVICE = "Give a caption with --text"
OTHERS = ("next", "horizon", "adapter", "captions", "missing")  # of other models


def predict(
    args: argparse.Namespace, record: dict[str, Any] | None
) -> list[dict[str, str]]:
    """Draws a picture for each caption, and returns the captions with their files.

    Args:
        args: Arguments of `kerasseq predict`.
        record: The record of the run, or None.
    """
    check_arguments(args)
    check_model(args.folder)
    texts, names = captions(args, record)
    files = pictures_to_write(args, len(texts))
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    if args.text is None and args.file is None:
        texts, names = multimodal_predict.known_captions(model, texts, names)
        texts = texts[: multimodal_predict.HELD_OUT]
    else:
        multimodal_predict.check_words(model, texts, names)
    sampling = {name: getattr(args, name) for name in generate.SAMPLING}
    for part in labeled.in_parts(range(len(texts)), draw_pictures.PART, "drawing"):
        seed = None if args.seed is None else args.seed + part[0]
        images = model.draw([texts[n] for n in part], seed=seed, **sampling)
        for n, image in zip(part, images, strict=True):
            files[n].parent.mkdir(parents=True, exist_ok=True)
            draw_pictures.write_png(image, files[n])
    return [
        {"text": text, "file": str(file)}
        for text, file in zip(texts, files, strict=False)
    ]


def check_arguments(args: argparse.Namespace) -> None:
    """Raises if arguments are not those of a model that draws."""
    here = "this one draws: give captions with --text or --file"
    refuse(given(args, *OTHERS), f"is for other models; {here}")
    if None not in (args.text, args.file):
        raise UsageError("--text and --file exclude each other: give one")
    if args.file is None:
        of_table = given(args, "column", "no_header")
        refuse(of_table, "is for a table of captions: add --file")
    if args.text is not None and not args.text.strip():
        raise ValueError("--text must be a caption, received an empty one")
    file = args.file
    is_picture = file is not None and file.lower().endswith(SUFFIXES)
    if is_picture or (file is not None and os.path.isdir(file)):
        raise UsageError(
            "the model draws pictures from captions, so --file must be a file of "
            f"captions, one on each line or in a table, received {file}"
        )


def check_model(folder: str) -> None:
    """Raises a `UsageError` if this is the folder of a codebook."""
    file, _ = runs.find_model(folder)
    if (name := read_config(file).get("class_name")) != multimodal_predict.MODEL:
        raise UsageError(
            f"{folder} has the codebook of a run, {name}, which reads no captions. "
            f"Name the run: {pathlib.Path(folder).parent}"
        )


def captions(
    args: argparse.Namespace, record: dict[str, Any] | None
) -> tuple[list[str], list[str]]:
    """Returns captions to draw, and what each is called in messages.

    They are that of `--text`, those of a file, or those that were held out.
    """
    if args.text is not None:
        return [args.text], ["--text"]
    if args.file is not None:
        return multimodal_predict.read_captions(args.file, args)
    found = multimodal_data.held_out(record, args.folder, ADVICE)
    return found.texts, ["a held-out caption"] * len(found.texts)


def pictures_to_write(args: argparse.Namespace, count: int) -> list[pathlib.Path]:
    """Returns the files of the pictures, none of which exists.

    Args:
        args: The arguments. `out` is a file for one picture, or a folder, which is made
            if there is none; by default the folder of the run.
        count: The number of pictures.
    """
    if args.out is None:
        folder = runs.find_model(args.folder)[0].parent
    elif args.out.lower().endswith(PNG):
        return [_one_file(pathlib.Path(args.out), count)]
    else:
        folder = pathlib.Path(args.out)
        if folder.suffix or folder.is_file():
            raise UsageError(
                f"--out must be a file that ends in {PNG}, or a folder, received "
                f"{folder}"
            )
    free = _free_files(folder)
    return [next(free) for _ in range(count)]


def _one_file(file, count):
    if count > 1:
        raise UsageError(
            f"--out must be a folder for {count:,} captions, received {file}"
        )
    if file.exists():
        raise UsageError(f"{file} exists already, and nothing is overwritten")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"--out: there is no folder {file.parent}")
    return file


def _free_files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields drawn-1.png, drawn-2.png, … without those that exist."""
    n = 0
    while True:
        n += 1
        file = folder / f"drawn-{n}{PNG}"
        if not file.exists():
            yield file


def describe(row: dict[str, str], alone: bool) -> str:
    """Describes a picture in a line of text: its file, and its caption beside others.

    Examples:
        >>> describe({"text": "a kite", "file": "drawn-1.png"}, alone=False)
        'drawn-1.png  a kite'
    """
    return row["file"] if alone else f"{row['file']}  {row['text']}"
