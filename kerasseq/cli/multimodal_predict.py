"""`kerasseq predict` for models of pictures and captions, also for those that draw."""

import argparse
import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.cli import (
    draw_scores,
    generate,
    image_data,
    labeled,
    multimodal_data,
    runs,
    text_tables,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.commands import MISSING
from kerasseq.cli.console import choose_backend, note, print_json, print_result, status
from kerasseq.cli.errors import (
    UsageError,
    about,
    check_new_file,
    given,
    named_rows,
    refuse,
)
from kerasseq.cli.multimodal_data import CAPTIONS, CONTRASTIVE, DRAW, Captioned
from kerasseq.core.archive import read_config
from kerasseq.core.checks import short
from kerasseq.datasets import text_file
from kerasseq.datasets.captioned_images import TEXT
from kerasseq.datasets.image_folder import SUFFIXES

if TYPE_CHECKING:
    from kerasseq.models import Multimodal

Rows = list[dict[str, Any]]
MODEL = "Multimodal"  # the class of the model in a .keras file
KINDS = (CONTRASTIVE, CAPTIONS, DRAW, MODEL)
HEADS = {"caption": CAPTIONS, "draw": DRAW}  # the tasks of models without a run
HELD_OUT = 8  # pictures that are shown, if none is named
NEAREST = 5  # pictures that are shown for a caption
DIGITS = 4  # of a cosine
PNG = ".png"
GIVE_TEXT = "Give a caption with --text"
OTHERS = ("next", "horizon", "adapter", "captions", "missing")  # not for one that draws


def task_of(folder: str, record: dict[str, Any] | None) -> str:
    """Returns the task of a model: that of its run, or by its head."""
    if record is not None:
        return record["task"]
    config = read_config(runs.find_model(folder)[0])["config"]
    return HEADS.get(config.get("head"), CONTRASTIVE)


def draws(folder: str, record: dict[str, Any] | None) -> bool:
    """Returns whether a model draws pictures."""
    kind = runs.kind(folder, record)
    return kind in KINDS and task_of(folder, record) == DRAW


def predict(args: argparse.Namespace, record: dict[str, Any] | None) -> Rows:
    """Describes pictures, or finds the nearest captions or pictures."""
    task = task_of(args.folder, record)
    check_arguments(args, task)
    own = given = None
    if args.file is not None:
        files = image_data.files(args.file, args.missing)
    else:
        own = multimodal_data.held_out(record, args.folder)
    if task == CONTRASTIVE and args.text is None:
        given = captions(args, record)
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    if own is None:
        check_files(model, args.file, task)
        names = [{"file": image_data.printable(file)} for file in files]
        pictures: Any = files
    else:
        if args.text is None:
            own = multimodal_data.take(own, range(min(HELD_OUT, len(own.texts))))
        names, pictures = described_names(own), own.images
    if task == CAPTIONS:
        pictures = files if own is None else multimodal_data.inputs(own)
        return describe_all(model, pictures, names)
    if given is None:
        return nearest_pictures(model, pictures, names, args)
    if args.captions is None:
        given = known_captions(model, *given)
    else:
        check_words(model, *given)
    return nearest_captions(model, pictures, names, given)


def described_names(pictures: Captioned) -> Rows:
    """Returns the name of each picture with its caption."""
    names = multimodal_data.names(pictures)
    return [
        {**name, "caption": text}
        for name, text in zip(names, pictures.texts, strict=True)
    ]


def check_arguments(args: argparse.Namespace, task: str) -> None:
    """Raises a `UsageError` if arguments are not those of the task."""
    if args.text is not None and args.captions is not None:
        raise UsageError("--text and --captions exclude each other: give one")
    if args.text is not None and not args.text.strip():
        raise ValueError("--text must be a caption, received an empty one")
    if task == CAPTIONS:
        refuse(
            given(args, "text", "captions"),
            "is for a contrastive model; this one writes captions: name pictures with "
            "--file, or leave it out for those that were held out",
        )
    check_others(args)


def check_others(args: argparse.Namespace) -> None:
    """Raises a `UsageError` if arguments are for other models, or need another one."""
    others = given(args, "next", "horizon", "adapter")
    refuse(others, "is for other models: leave it out")
    if args.captions is None:
        of_table = given(args, "column", "no_header")
        refuse(of_table, "is for a table: add --captions")
    if args.missing is None:
        return
    if args.file is None or args.missing not in MISSING:
        expected = " or ".join(MISSING)
        raise UsageError(
            f"--missing is for damaged pictures of --file: expected {expected}, "
            f"received {args.missing}"
        )


def check_files(model: "Multimodal", file: str | None, task: str) -> None:
    """Raises a `UsageError` if a model cannot read pictures from files."""
    what = None
    if "images" not in model.kinds:
        what = "sounds"
    elif len(model.get_config()["image_size"]) > 2:
        what = "films"
    elif task == CAPTIONS and "audio" in model.kinds:
        what = "pictures with sounds"
    if what is not None:
        raise UsageError(
            f"the model reads {what}, which are no files of pictures, received --file "
            f"{file}. Leave it out, for those that were held out"
        )


def captions(
    args: argparse.Namespace, record: dict[str, Any] | None
) -> tuple[list[str], list[str]]:
    """Returns captions to choose from, and what each is called in messages.

    They are those of a file, or all different ones of the run.
    """
    if args.captions is None:
        return of_run(record, args.folder, "Give captions with --captions")
    return read_captions(args.captions, args)


def read_captions(file: str, args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns the captions of a file, each once, and what each is called in messages.

    Args:
        file: A table, or a text with one on each line.
        args: The arguments, with `column`, `no_header` and `encoding`.
    """
    if file.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".jsonl")):
        table = text_tables.read_texts(file, args.encoding, not args.no_header)
        with about(file):
            name = text_tables.column(table, args.column, "--column", TEXT)
        rows = enumerate(table.columns[name], start=1)
        word = "row"
    else:
        rows = enumerate(text_file(file, args.encoding).split("\n"), start=1)
        word = "line"
    places = {text.strip(): f"{file}, {word} {n}" for n, text in rows if text.strip()}
    if not places:
        raise ValueError(f"{file} must have captions, one on each line, but is empty")
    return list(places), list(places.values())


def of_run(
    record: dict[str, Any] | None, folder: str, advice: str
) -> tuple[list[str], list[str]]:
    """Returns the different captions of a run, as `captions`."""
    try:
        pictures, _ = multimodal_data.of_run(record, folder)
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}. {advice}") from error
    texts = list(dict.fromkeys(pictures.texts))
    return texts, ["a caption of the run"] * len(texts)


def check_words(
    model: "Multimodal", texts: Sequence[str], names: Sequence[str]
) -> None:
    """Raises if captions are too long, or have words that the model has not learned."""
    tokenizer, longest = model.preprocessor.tokenizer, model.preprocessor.longest
    find = models.unknown_finder(tokenizer)
    for text, name in zip(texts, names, strict=True):
        if unknown := find(text):
            raise ValueError(
                f"{name} has {short([*unknown][:8])}, which the model has not learned, "
                f"received {short(text)}. Use words of the captions that it was "
                "trained on"
            )
        if (count := len(tokenizer.encode(text))) > longest:
            raise ValueError(
                f"{name} must have at most {longest} tokens, as the longest caption of "
                f"the training, received {count}. Shorten it"
            )


def known_captions(
    model: "Multimodal", texts: list[str], names: list[str]
) -> tuple[list[str], list[str]]:
    """Returns the captions of a run whose words the model has learned."""
    find = models.unknown_finder(model.preprocessor.tokenizer)
    known = [n for n, text in enumerate(texts) if not find(text)]
    return [texts[n] for n in known], [names[n] for n in known]


def describe_all(model: "Multimodal", pictures: Any, names: Rows) -> Rows:
    """Writes a caption for each picture."""
    if isinstance(pictures, list):
        texts = []
        for part, which in image_data.parts(pictures):
            with status(f"describing pictures {which}"):
                texts += model.describe(part)
    else:
        with status("describing the pictures"):
            texts = model.describe(pictures)
    return [{**name, "written": text} for name, text in zip(names, texts, strict=True)]


def picture_vectors(model: "Multimodal", pictures: Any) -> np.ndarray:
    """Computes the unit vectors of files or arrays, some at a time."""
    parts = []
    for part, which in image_data.parts(pictures):
        with status(f"reading pictures {which}"):
            parts.append(model.embed_images(part))
    return np.concatenate(parts)


def text_vectors(
    model: "Multimodal", texts: Sequence[str], names: Sequence[str]
) -> np.ndarray:
    """Computes the unit vectors of captions; messages name them."""
    with named_rows(names, "texts"):
        return model.embed_texts(list(texts))


def nearest_captions(
    model: "Multimodal", pictures: Any, names: Rows, given: tuple[list[str], list[str]]
) -> Rows:
    """Finds the nearest caption of each picture."""
    texts, places = given
    vectors = text_vectors(model, texts, places)  # (captions, D)
    cosines = picture_vectors(model, pictures) @ vectors.T
    best = cosines.argmax(axis=1)
    return [
        {
            **name,
            "nearest_caption": texts[n],
            "cosine": round(float(cosines[row, n]), DIGITS),
        }
        for row, (name, n) in enumerate(zip(names, best, strict=True))
    ]


def nearest_pictures(
    model: "Multimodal", pictures: Any, names: Rows, args: argparse.Namespace
) -> Rows:
    """Sorts pictures by the cosine with `--text`; on a terminal some are shown."""
    check_words(model, [args.text], ["--text"])
    (vector,) = text_vectors(model, [args.text], ["--text"])
    cosines = picture_vectors(model, pictures) @ vector
    order = np.argsort(-cosines, kind="stable").tolist()
    if not (args.json or args.out) and len(order) > NEAREST:
        note(
            f"the nearest {NEAREST} of {len(order):,} pictures are shown; --json or "
            "--out has all"
        )
        order = order[:NEAREST]
    return [{**names[n], "cosine": round(float(cosines[n]), DIGITS)} for n in order]


def describe(row: dict[str, Any]) -> str:
    """Describes a prediction in a line of text, without its file.

    Examples:
        >>> describe({"scene": "scene 3", "caption": "a kite", "written": "a sea"})
        'scene 3  a sea  (a kite)'
        >>> describe({"file": "a.png", "nearest_caption": "a kite", "cosine": 0.25})
        '0.250  a kite'
    """
    parts = [row["scene"]] if "scene" in row else []
    if "cosine" in row:
        parts.append(f"{row['cosine']:.3f}")
    if (text := row.get("written", row.get("nearest_caption"))) is not None:
        parts.append(text or "∅")
    if "caption" in row:
        parts.append(f"({row['caption']})")
    return "  ".join(parts)


# A model that draws


def draw(args: argparse.Namespace, record: dict[str, Any] | None) -> None:
    """Draws a picture for each caption, and prints the files.

    Args:
        args: Arguments of `kerasseq predict`.
        record: The record of the run, or None.
    """
    check_drawing(args)
    check_no_codebook(args.folder)
    if args.text is not None:
        texts, names = [args.text], ["--text"]
    elif args.file is not None:
        texts, names = read_captions(args.file, args)
    else:
        texts = multimodal_data.held_out(record, args.folder, GIVE_TEXT).texts
        names = ["a held-out caption"] * len(texts)
    files = pictures_to_write(args, len(texts))
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    if args.text is None and args.file is None:
        texts = known_captions(model, texts, names)[0][:HELD_OUT]
    else:
        check_words(model, texts, names)
    sampling = {name: getattr(args, name) for name in generate.SAMPLING}
    for part in labeled.in_parts(range(len(texts)), draw_scores.PART, "drawing"):
        seed = None if args.seed is None else args.seed + part[0]
        images = model.draw([texts[n] for n in part], seed=seed, **sampling)
        for n, image in zip(part, images, strict=True):
            files[n].parent.mkdir(parents=True, exist_ok=True)
            draw_scores.write_png(image, files[n])
    pairs = list(zip(texts, map(str, files), strict=False))
    if args.json:
        print_json([{"text": text, "file": file} for text, file in pairs])
        return
    for text, file in pairs:  # the caption beside those of others
        print_result(f"{file}  {text}" if len(pairs) > 1 else file)


def check_drawing(args: argparse.Namespace) -> None:
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


def check_no_codebook(folder: str) -> None:
    """Raises a `UsageError` if this is the folder of a codebook."""
    file, _ = runs.find_model(folder)
    if (name := read_config(file).get("class_name")) != MODEL:
        raise UsageError(
            f"{folder} has the codebook of a run, {name}, which reads no captions. "
            f"Name the run: {pathlib.Path(folder).parent}"
        )


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
        if count > 1:
            raise UsageError(
                f"--out must be a folder for {count:,} captions, received {args.out}"
            )
        check_new_file("--out", args.out, (PNG,))
        return [pathlib.Path(args.out)]
    else:
        folder = pathlib.Path(args.out)
        if folder.suffix or folder.is_file():
            raise UsageError(
                f"--out must be a file that ends in {PNG}, or a folder, received "
                f"{folder}"
            )
    numbered = (folder / f"drawn-{n}{PNG}" for n in itertools.count(1))
    free = (file for file in numbered if not file.exists())
    return [*itertools.islice(free, count)]
