"""The data of `kerasseq train contrastive`, `captions` and `draw`: scenes or a folder.

A folder has pictures and a table of their captions. Loads no Keras.
"""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from kerasseq import datasets
from kerasseq.cli import classify, image_data, labeled, options
from kerasseq.cli.commands import SHARED, Option, shared, task_defaults
from kerasseq.cli.console import noted_warnings, status
from kerasseq.cli.errors import UsageError, about, refuse
from kerasseq.core.files import sha256, sha256_of
from kerasseq.datasets import image_reading
from kerasseq.datasets.captioned_images import CaptionedImages
from kerasseq.datasets.scene_set import Scenes
from kerasseq.datasets.scenes import SMALLEST

Captioned: TypeAlias = Scenes | CaptionedImages

SCENES = "scenes"
CONTRASTIVE, CAPTIONS, DRAW = "contrastive", "captions", "draw"  # the tasks
SIZE = 24  # of scenes, if --image-size is not given
PATCH = {CONTRASTIVE: 4, CAPTIONS: 6, DRAW: 3}  # of scenes, if it divides their size
SAMPLING_RATE = 8000  # of the sounds of scenes
# Of scenes, as in the benchmark. A codebook learns clean pictures.
LIGHTING = {CONTRASTIVE: 0.25, CAPTIONS: 0.25, DRAW: 0.0}
NOISE = {CONTRASTIVE: 0.05, CAPTIONS: 0.05, DRAW: 0.0}
# Pictures in a part: a contrastive model compares a right and a wrong one.
LEAST = {CONTRASTIVE: 2, CAPTIONS: 1, DRAW: 1}
OF_SCENES = ("count", "objects", "frames", "sound", "language", "noise")
OF_FOLDER = (
    "table",
    "image_column",
    "text_column",
    "resize",
    "channels",
    "max_characters",
)
_FOLDER = "a folder of pictures with a table of their names and captions (default: "
_FOLDER += "scenes of colored shapes, which are generated)"
_DATA = f"which are generated, {SHARED['data'].help}"
_SIZE = f"height and width of the pictures (default: {SIZE} for scenes, else from the "
_SIZE += f"files, at most {image_data.LARGEST_SIZE})"
_PATCH = "height and width of a patch (default: for at most about 8 × 8)"
_CHANNELS = "1 for gray, 3 for color, 4 with transparency (default: from the files)"
_IMAGE = "column of the names of the files (default: image, file, path or file_name)"
_TEXT = "column of the captions (default: text, caption or sentence)"
_TABLE = "the table, csv, tsv or jsonl (default: the only one in the folder)"
_FRAMES = "frames of a film of one moving shape; 1 for pictures"
_SOUND = "scenes have a sound as well, tones that tell what there is to see"
_TOKENIZER = SHARED["tokenizer"].help + " (default: word for scenes, else bpe)"
OPTIONS = (
    Option("file FOLDER", "data", str, _FOLDER),
    Option("--file FOLDER", "data", str, "the same"),
    shared("data", None, _DATA, (SCENES,)),
    Option(
        "--count N", "scenes", options.integer(4, 10**6), "number of scenes", 10_000
    ),
    Option("--objects N", "scenes", options.integer(1, 2), "shapes in a picture", 1),
    Option("--frames N", "scenes", options.integer(1, 64), _FRAMES, 1),
    Option("--sound", "scenes", None, _SOUND, False),
    Option("--language NAME", "scenes", ("en", "fr"), "of the captions", "en"),
    Option(
        "--noise X", "scenes", options.rate, "of the pixels of scenes", NOISE[CAPTIONS]
    ),
    Option("--table FILE", "data", str, _TABLE),
    Option("--image-column COLUMN", "data", str, _IMAGE),
    Option("--text-column COLUMN", "data", str, _TEXT),
    shared("encoding", "utf-8"),
    shared("missing", "error"),
    shared("max_characters", 300),
    Option("--held-out X", "data", options.fraction, "fraction that is held out", 0.1),
    Option("--image-size N", "data", options.integer(at_most=4096), _SIZE),
    Option("--patch-size N", "data", options.integer(at_most=4096), _PATCH),
    Option("--channels N", "data", options.integer(at_most=4), _CHANNELS),
    Option(
        "--resize NAME", "data", image_reading.RESIZE, "for other aspect ratios", "crop"
    ),
    shared("tokenizer", None, _TOKENIZER),
    shared("vocabulary_size", options.VOCABULARY_SIZE),
)
DEFAULTS = task_defaults(OPTIONS)


def check(settings: options.Settings, task: str) -> None:
    """Raises a `UsageError` if an option of scenes is given for a folder."""
    if settings.file is None:
        settings.data = SCENES
        return
    defaults = {**DEFAULTS, "noise": NOISE[task]}
    others = [n for n in OF_SCENES if getattr(settings, n, defaults[n]) != defaults[n]]
    refuse(others, f"is for scenes, received the folder {settings.file}. Leave it out")


def read(settings: options.Settings, task: str) -> tuple[Captioned, dict[str, Any]]:
    """Reads pictures with captions; completes the settings that depend on them.

    Args:
        settings: Arguments of the run.
        task: Its name.

    Returns:
        The pictures, and their source with a checksum.
    """
    settings.tokenizer = settings.tokenizer or ("bpe" if settings.file else "word")
    if settings.file is None:
        return _scenes(settings, task)
    settings.file = os.path.abspath(settings.file)  # to resume from any folder
    pictures = _folder(settings)
    different = list(dict.fromkeys(pictures.images))
    if settings.missing == "skip":  # then each picture has been opened
        headers = [image_reading.image_header(file) for file in different]
    else:
        headers = image_data.headers(different, settings.missing)
    sizes, grays = zip(*headers, strict=True)
    image_data.complete(settings, sizes, all(grays))
    return pictures, _with_checksum(settings.file, pictures)


def _scenes(settings, task):
    settings.image_size = size = settings.image_size or SIZE
    if size < SMALLEST:
        raise UsageError(
            f"--image-size must be at least {SMALLEST} for scenes, received {size}: in "
            "smaller ones small shapes look the same"
        )
    if settings.patch_size is None and not size % PATCH[task]:
        settings.patch_size = PATCH[task]
    image_data.complete(settings, [(size, size)], is_gray=False)
    scenes = datasets.scenes(
        settings.count,
        size=size,
        lighting=LIGHTING[task],
        sampling_rate=SAMPLING_RATE,
        seed=settings.seed,
        **{
            name: getattr(settings, name, DEFAULTS[name])
            for name in OF_SCENES
            if name != "count"
        },
    )
    lines = [str(scenes.images.shape), sha256(scenes.images.tobytes())]
    data = {"source": SCENES, "rows": len(scenes)}
    return scenes, {**data, "sha256": sha256_of([*lines, *scenes.texts])}


def _folder(settings):
    """Lists the pictures of a folder, and notes how many rows are left out."""
    names = ("table", "image_column", "text_column", "encoding", "missing")
    table = settings.table
    inside = os.path.join(settings.file, table or "")
    if table and not os.path.exists(inside) and os.path.exists(table):
        settings.table = os.path.abspath(table)
    arguments = {name: getattr(settings, name) for name in names}
    with noted_warnings(), about(settings.file):
        try:
            captioned = datasets.captioned_images(settings.file, **arguments)
        except ValueError as error:
            raise ValueError(str(error).replace("`table`", "--table")) from error
    texts = classify.cut(captioned.texts, settings.max_characters)
    return CaptionedImages(captioned.images, texts)


def _with_checksum(folder, pictures):
    """Returns the source, with a checksum of names, sizes and captions."""
    lines = [
        f"{os.path.relpath(file, folder)}\t{os.path.getsize(file)}\t{text}"
        for file, text in zip(*pictures, strict=True)
    ]
    source = os.path.basename(folder) or folder
    return {"source": source, "rows": len(lines), "sha256": sha256_of(lines)}


def check_unchanged(
    pictures: Captioned, data: dict[str, Any], settings: options.Settings
) -> None:
    """Raises if files have vanished or changed since they were listed."""
    if settings.file is None:
        return
    try:
        same = _with_checksum(settings.file, pictures) == data
    except FileNotFoundError:
        same = False
    if not same:
        raise ValueError(
            f"{settings.file} has changed during the training, so that results could "
            "not be repeated. Restore the old data and resume the run, or start "
            "another one"
        )


def number_of(pictures: Captioned) -> int:
    """Returns how many different pictures there are, not how many captions."""
    is_list = isinstance(pictures, CaptionedImages)
    return len(set(pictures.images)) if is_list else len(pictures)


def split(
    pictures: Captioned, settings: options.Settings, task: str
) -> tuple[Captioned, Captioned]:
    """Splits pictures into those to learn from and those that are held out.

    All captions of a picture are in the same part.
    """
    least, count = LEAST[task], number_of(pictures)
    where = settings.table or settings.file or SCENES
    if count < 2 * least:
        why = "2 are compared in training and 2 held out"
        why = "1 is held out" if least == 1 else why
        raise ValueError(
            f"{where} must have at least {2 * least} pictures with captions, as {why}, "
            f"received {count}. Add pictures"
        )
    if least > 1 and len(set(pictures.texts)) < 2:
        raise ValueError(
            f"{where} must have at least two different captions to tell apart, "
            f"received {pictures.texts[0]!r} for all pictures"
        )
    share = min(max(settings.held_out, least / count), 1 - least / count)
    return pictures.split(share, settings.seed)


def validation_part(
    pictures: Captioned, settings: options.Settings, task: str
) -> tuple[Captioned, Captioned | None]:
    """Splits the pictures of the training: some choose the step at which it stops.

    Args:
        pictures: The pictures.
        settings: Arguments of the run, with `patience`; 0 trains on all pictures.
        task: The name of the task.

    Returns:
        The pictures to learn from, and those for validation or None.
    """
    least, count = LEAST[task], number_of(pictures)
    if not settings.patience or count < 2 * least:
        return pictures, None
    share = min(labeled.VALIDATION, labeled.MAX_VALIDATION / count)
    share = min(max(share, least / count), 1 - least / count)
    return pictures.split(share, settings.seed)


def take(pictures: Captioned, rows: Sequence[int]) -> Captioned:
    """Returns some of the rows."""
    if isinstance(pictures, Scenes):
        return pictures.take(rows)
    return CaptionedImages(*([column[n] for n in rows] for column in pictures))


def true_captions(pictures: Captioned) -> list[list[str]]:
    """Returns for each row all captions that are true of its picture.

    Examples:
        >>> true_captions(CaptionedImages(["a", "a", "b"], ["sky", "sea", "kite"]))
        [['sky', 'sea'], ['sky', 'sea'], ['kite']]
    """
    if isinstance(pictures, Scenes):
        return [pictures.true_captions(n) for n in range(len(pictures))]
    by_file: dict[str, list[str]] = {}
    for file, text in zip(*pictures, strict=True):
        by_file.setdefault(file, []).append(text)
    return [by_file[file] for file in pictures.images]


def inputs(pictures: Captioned) -> Any:
    """Returns what a model reads beside the captions."""
    if getattr(pictures, "audio", None) is None:
        return pictures.images
    return {"images": pictures.images, "audio": [*pictures.audio]}


def names(pictures: Captioned) -> list[dict[str, str]]:
    """Returns the file of each picture, or the number of each scene."""
    if isinstance(pictures, Scenes):
        return [{"scene": f"scene {n + 1}"} for n in range(len(pictures))]
    return [{"file": image_data.printable(file)} for file in pictures.images]


def of_run(
    record: dict[str, Any] | None,
    folder: str,
    advice: str = "Name pictures with --file",
) -> tuple[Captioned, options.Settings]:
    """Returns the pictures of a run, and its settings.

    Args:
        record: The record of the run, or None for a model without one.
        folder: What the user named, for messages.
        advice: What to do without them, for messages.

    Raises:
        ValueError: If there is no run, or its pictures have changed.
    """
    if record is None or record["task"] not in LEAST:
        raise UsageError(
            f"{folder} is a model without its run, so the pictures and captions of the "
            f"training are not known. {advice}"
        )
    settings = options.Settings(**record["arguments"])
    with status("reading the pictures of the run"):
        pictures, data = read(settings, record["task"])
    if data["sha256"] != record["data"]["sha256"]:
        raise ValueError(
            f"{data['source']} has changed since the run in {folder} was started. "
            f"{advice}"
        )
    return pictures, settings


def held_out(
    record: dict[str, Any] | None,
    folder: str,
    advice: str = "Name pictures with --file",
) -> Captioned:
    """Returns the held-out pictures of a run, as `of_run`."""
    pictures, settings = of_run(record, folder, advice)
    return split(pictures, settings, record["task"])[1]
