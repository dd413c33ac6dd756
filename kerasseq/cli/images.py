"""`kerasseq train images`: a classifier of images, compared with simple models.

Train a Vision Transformer on a folder of images: the name of each subfolder is the
class of the images in it. The files are read batch by batch. A part of each class is
held out. There precision, recall and F1 of each class are printed, with the accuracy of
two simple models: the most frequent class, and logistic regression on the pixels.

Examples:
  kerasseq train images
  kerasseq train images pictures --image-size 64 --flip
then:
  kerasseq predict runs/images-vit-1 --file new.png
  kerasseq evaluate runs/images-vit-1 --file other-pictures
  kerasseq inspect runs/images-vit-1 --file new.png
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, image_data, labeled, options, runs, schedule
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.image_data import DATA, LARGEST_SIZE, PATCHES
from kerasseq.cli.run import Run
from kerasseq.datasets import image_reading, splitting

if TYPE_CHECKING:
    from kerasseq.models import ViT

FILE = "file"  # the argument that names the user's data
MODELS = ("vit",)
LEAST_STEPS = 900  # if neither --epochs nor --steps is given
WEIGHT_DECAY = 0.05  # of AdamW
WARM_UP = 0.1  # share of the steps
HARDEST = 16  # drawn
BASELINE_SIZE = 16  # pixels in a row, at most, that logistic regression is fitted to
BASELINE_ROWS = 5000  # training images, at most


_SIZE = "height and width that images are resized to (default: 8 for digits, else from "
_SIZE += f"the images, at most {LARGEST_SIZE})"
_PATCH = f"height and width of a patch (default: for about {PATCHES} × {PATCHES})"
_CHANNELS = "1 for gray, 3 for color, 4 with transparency (default: from the images)"
_SHIFT = "largest random shift, as a share of the size; 0 for none"
_FLIP = "mirror half of the training images from left to right"
OPTIONS = task_table(
    shared("model", "vit", names=MODELS),
    Option("file FOLDER", "data", str, "a folder with a subfolder for each class"),
    Option("--file FOLDER", "data", str, "the same"),
    shared("data", names=DATA),
    shared("missing", "error", "for damaged files"),
    shared("held_out", 0.2),
    shared("balanced", False),
    Option("--image-size N", "data", options.integer(at_most=4096), _SIZE),
    Option("--patch-size N", "data", options.integer(at_most=4096), _PATCH),
    Option("--channels N", "data", options.integer(at_most=4), _CHANNELS),
    Option(
        "--resize NAME", "data", image_reading.RESIZE, "for other aspect ratios", "crop"
    ),
    Option("--shift X", "data", options.rate, _SHIFT, 0.1),
    Option("--flip", "data", None, _FLIP, False),
    shared("units", 64),
    shared("num_layers", 3),
    shared("num_heads", 4, "attention heads of each layer"),
    shared("dropout", 0.1),
    shared("batch_size", 128),
    shared("learning_rate", 3e-3),
    *schedule.STOPPED,
    shared(
        "epochs",
        None,
        f"passes over the images, such as 2.5 (default: {options.EPOCHS}, or as "
        f"many as {LEAST_STEPS:,} steps take)",
    ),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, evaluates it beside simple models and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    pictures = image_data.read(settings)
    source = pictures.data["source"]
    run.check_data(pictures.data)
    rows, tested = splitting.split_by_class(
        pictures.labels, settings.held_out, settings.seed
    )
    if not len(tested):
        raise ValueError(
            f"{source} must have two images of a class, to hold one out, received one "
            "of each"
        )
    patches = (settings.image_size // settings.patch_size) ** 2
    schedule.check_memory(settings, len(rows), patches=patches)
    x, y = pictures.take(rows)
    with status("building the model"):
        model = build(settings, sorted(set(pictures.labels)))
    learned, validated = labeled.validation_part(y, settings)
    batches = model.batches(
        *pictures.take(rows[learned]),
        batch_size=settings.batch_size,
        class_weight="balanced" if settings.balanced else None,
        shift=settings.shift,
        flip=settings.flip,
        seed=settings.seed,
    )
    keys = image_data.keys(x)
    run.start(
        pictures.data,
        f"{source}: {len(x):,} images with {len(model.labels)} labels, "
        f"{len(tested):,} held out. {patches:,} patches of an image: --image-size "
        f"{settings.image_size} --patch-size {settings.patch_size} --channels "
        f"{settings.channels}.",
        keys,
    )
    steps = compile_for(model, settings, batches.steps_per_epoch)
    with batches.reader.original_errors():
        validation = pictures.take(rows[validated]) if len(validated) else None
        history = run.fit(model, batches, steps, "accuracy", validation=validation)
    image_data.check_unchanged(pictures, settings)
    chosen = labeled.bounded(tested, settings.seed)
    held_out = pictures.take(chosen)
    names = [pictures.names[n] for n in chosen]
    results, hardest = evaluate(model, *held_out, names)
    results |= {
        "baselines": baselines(x, y, *held_out, settings),
        "repeated": labeled.repeated(keys, image_data.keys(held_out[0])),
    }
    return labeled.report(
        *(run, model, history, results),
        rows=len(x),
        tested=len(chosen),
        held_out=len(tested),
        what="images",
        name="file",
        advice=[
            "more images",
            "--flip" if not settings.flip else "a larger --image-size",
        ],
        more=lambda title: [
            draw_hardest(run.folder / "hardest.png", model, hardest, title)
        ],
    )


# The model


def build(settings: options.Settings, labels: list[str]) -> "ViT":
    """Builds the model."""
    set_seed(settings.seed)
    return kerasseq.models.ViT(
        labels,
        image_size=settings.image_size,
        patch_size=settings.patch_size,
        channels=settings.channels,
        hidden_dim=settings.units,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        dropout=settings.dropout,
        resize=settings.resize,
    )


def compile_for(model: "ViT", settings: options.Settings, steps_per_epoch: int) -> int:
    """Compiles a model with AdamW: warm-up, then a cosine to 0.

    Args:
        model: The model.
        settings: Arguments of the run.
        steps_per_epoch: Batches in an epoch.

    Returns:
        The number of training steps.
    """
    steps = schedule.number_of_steps(settings, steps_per_epoch, at_least=LEAST_STEPS)
    warm_up, rate = round(WARM_UP * steps), settings.learning_rate
    first = rate / (warm_up + 1)
    model.compile(
        schedule.adam(rate, steps, warm_up, first=first, weight_decay=WEIGHT_DECAY)
    )
    return steps


def classify(model: "ViT", images: Any) -> list[Any]:
    """Classifies files or arrays, some at a time."""
    predictions = []
    for part, which in image_data.parts(images):
        with status(f"classifying images {which}"):
            predictions += model.classify(part)
    return predictions


def evaluate(
    model: "ViT", images: Any, labels: list[str], names: list[str]
) -> tuple[runs.Results, list[Any]]:
    """Classifies images with known labels.

    Args:
        model: The model.
        images: Files or arrays.
        labels: Their labels.
        names: Their names, for the results.

    Returns:
        The scores as plain data; and for the hardest images, those whose label has the
        lowest probability, tuples of the image, its label and its `Classification`.
    """
    predictions = classify(model, images)
    result = labeled.scores(labels, [each.label for each in predictions], model.labels)
    shown = [image_data.printable(name) for name in names]
    p = [c.probabilities.get(y, 0) for c, y in zip(predictions, labels, strict=True)]
    order = np.argsort(p, kind="stable")[:HARDEST]
    right = [str(c.label) == y for c, y in zip(predictions, labels, strict=True)]
    results = {**result, "hardest": labeled.hardest(shown, labels, predictions, "file")}
    results["right"] = np.array(right, int)
    return results, [(images[n], labels[n], predictions[n]) for n in order]


def draw_hardest(file: Any, model: "ViT", hardest: list[Any], title: str) -> Any:
    """Draws the images whose label has the lowest probability."""
    images = [
        model.read(image)[0] if isinstance(image, str) else image
        for image, _, _ in hardest
    ]
    titles = [
        f"{label}\nas {each.label} {each.probability:.2f}" for _, label, each in hardest
    ]
    title = f"{title}, the hardest images: label, and as what it was classified"
    return figures.images(file, images, titles, title)


# Simple models


def baselines(
    images: Any,
    labels: Sequence[str],
    tested: Any,
    y: Sequence[str],
    settings: options.Settings,
) -> dict[str, dict[str, float]]:
    """Computes the accuracy of simple models on held-out images.

    Args:
        images: Files or arrays of the training images.
        labels: Their labels.
        tested: Files or arrays of the held-out images.
        y: Their labels.
        settings: Arguments of the run.

    Returns:
        For each model what `labeled.scored` returns.
    """
    results = {"majority": labeled.majority(labels, y)}
    if not labeled.has_sklearn():
        return results
    start = time.perf_counter()
    rng = np.random.default_rng(settings.seed)
    rows = rng.permutation(len(images))[:BASELINE_ROWS]
    name = "logistic regression, pixels"
    with status("reading the images for logistic regression"):
        x = pixels([images[n] for n in rows], settings)
        x_tested = pixels(tested, settings)
    with status("training logistic regression to compare with"):
        right = labeled.logistic_regression(
            x, [labels[n] for n in rows], x_tested, list(y)
        )
    seconds = time.perf_counter() - start
    results[name] = labeled.scored(right, seconds, len(rows))
    return results


def pixels(images: Sequence[Any], settings: options.Settings) -> np.ndarray:
    """Returns images as rows of pixels from 0 to 1, of at most 16 × 16 pixels."""
    size = (min(BASELINE_SIZE, settings.image_size),) * 2
    options_of_reading = {"channels": settings.channels, "resize": settings.resize}
    rows = [
        image_reading.read_image(image, size, **options_of_reading)
        if isinstance(image, str)
        else image
        for image in images
    ]
    return np.reshape(np.stack(rows), (len(rows), -1)) / np.float32(255)
