"""`kerasseq train images`: a classifier of images, compared with simple models."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import (
    figures,
    gaps,
    image_baselines,
    image_data,
    labeled,
    options,
    runs,
    training_rows,
)
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.image_data import DATA, LARGEST_SIZE, PATCHES
from kerasseq.datasets import image_reading, splitting

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

FILE = "file"  # the argument that names the user's data
DEFAULTS = {
    "model": "vit",
    "file": None,
    "data": None,
    "missing": "error",
    "held_out": 0.2,
    "balanced": False,
    "image_size": None,
    "patch_size": None,
    "channels": None,
    "resize": "crop",
    "shift": 0.1,
    "flip": False,
    "units": 64,
    "num_layers": 3,
    "num_heads": 4,
    "dropout": 0.1,
    "batch_size": 128,
    "learning_rate": 3e-3,
    "epochs": None,
    "steps": None,
    "checkpoint_every": 100,
    "seed": 0,
}
MODELS = ("vit",)
LEAST_STEPS = 900  # if neither --epochs nor --steps is given
WEIGHT_DECAY = 0.05
WARMUP = 0.1  # share of the steps
HARDEST = 16  # drawn


def add_task(add: options.Add) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    parser = add(
        "images",
        """\
Train a Vision Transformer on a folder of images: the name of each subfolder is the
class of the images in it. The files are read batch by batch. A part of each class is
held out. There precision, recall and F1 of each class are printed, with the accuracy of
two simple models: the most frequent class, and logistic regression on the pixels.""",
        """\
examples:
  kerasseq train images
  kerasseq train images pictures --image-size 64 --flip
then:
  kerasseq predict runs/images-vit-1 --file new.png
  kerasseq evaluate runs/images-vit-1 --file other-pictures
  kerasseq inspect runs/images-vit-1 --file new.png""",
    )
    options.add_resume(parser)
    _add_data(parser)
    group = options.add_model(parser, DEFAULTS, MODELS)
    text = "attention heads of each layer"
    options.add(group, DEFAULTS, "--num-heads --heads", options.heads, text)
    text = "training steps, instead of --epochs"
    group = options.add_training(parser, DEFAULTS, text)
    group.add_argument(
        "--epochs",
        type=options.positive,
        metavar="X",
        help="passes over the images, such as 2.5 (default: "
        f"{options.EPOCHS}, or as many as {LEAST_STEPS:,} steps take)",
    )
    options.add_location(parser, "runs/images-MODEL-N")


def _add_data(parser):
    group = parser.add_argument_group("data")
    text = "a folder with a subfolder for each class"
    group.add_argument(
        "file", nargs="?", metavar="FOLDER", default=options.SUPPRESS, help=text
    )
    group.add_argument("--file", metavar="FOLDER", help="the same")
    group.add_argument(
        "--data",
        type=options.one_of("data set", DATA),
        metavar="NAME",
        help=f"{', '.join(DATA)}, if there is no folder (default: {DATA[0]})",
    )
    gaps.add_gaps(group, "damaged files")
    text = "fraction of each class that is held out"
    options.add(group, DEFAULTS, "--held-out", options.fraction, text, "X")
    text = "give all classes the same share of the loss"
    group.add_argument("--balanced", action="store_true", default=None, help=text)
    group.add_argument(
        "--image-size",
        type=options.integer(at_most=4096),
        metavar="N",
        help="height and width that images are resized to (default: 8 for digits, else "
        f"from the images, at most {LARGEST_SIZE})",
    )
    group.add_argument(
        "--patch-size",
        type=options.integer(at_most=4096),
        metavar="N",
        help=f"height and width of a patch (default: for about {PATCHES} × {PATCHES})",
    )
    group.add_argument(
        "--channels",
        type=options.integer(at_most=4),
        metavar="N",
        help="1 for gray, 3 for color, 4 with transparency (default: from the images)",
    )
    kinds = image_reading.RESIZE
    text = f"how other aspect ratios are treated: {', '.join(kinds)}"
    kind = options.one_of("value", kinds)
    options.add(group, DEFAULTS, "--resize", kind, text, "NAME")
    text = "largest random shift, as a share of the size; 0 for none"
    options.add(group, DEFAULTS, "--shift", options.rate, text, "X")
    text = "mirror half of the training images from left to right"
    group.add_argument("--flip", action="store_true", default=None, help=text)


def train(job: "Job") -> runs.Results:
    """Trains the model, evaluates it beside simple models and draws the figures.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data.
    """
    from kerasseq.cli.fitting import check_memory  # loads Keras

    settings = job.settings
    pictures = image_data.read(settings)
    job.check_data(pictures.data)
    rows, tested = splitting.split_by_class(
        pictures.labels, settings.held_out, settings.seed
    )
    if not len(tested):
        raise ValueError(
            f"{pictures.data['source']} must have two images of a class, to hold one "
            "out, received one of each"
        )
    patches = (settings.image_size // settings.patch_size) ** 2
    check_memory(settings, len(rows), patches=patches)
    x, y = pictures.take(rows)
    with status("building the model"):
        model = build(settings, sorted(set(pictures.labels)))
    batches = model.batches(
        *(x, y),
        batch_size=settings.batch_size,
        class_weight="balanced" if settings.balanced else None,
        shift=settings.shift,
        flip=settings.flip,
        seed=settings.seed,
    )
    job.start(pictures.data)
    keys = image_data.keys(x)
    training_rows.keep(job.folder, keys)
    job.console.write(
        f"{pictures.data['source']}: {len(x):,} images with {len(model.labels)} "
        f"labels, {len(tested):,} held out. {patches:,} patches of an image: "
        f"--image-size {settings.image_size} --patch-size {settings.patch_size} "
        f"--channels {settings.channels}."
    )
    start = time.perf_counter()
    steps = compile_for(model, settings, batches.steps_per_epoch)
    with batches.reader.original_errors():
        history = job.fit(model, batches, steps, "accuracy")
    seconds = time.perf_counter() - start
    image_data.check_unchanged(pictures, settings)
    chosen = labeled.bounded(tested, settings.seed)
    held_out = pictures.take(chosen)
    names = [pictures.names[n] for n in chosen]
    results, hardest = evaluate(model, *held_out, names)
    results |= {
        "task": job.task,
        "model": settings.model,
        "parameters": model.count_params(),
        "steps": steps,
        "loss": history[-1]["loss"],
        "run": str(job.folder),
        "baselines": image_baselines.baselines(x, y, *held_out, settings),
        "repeated": labeled.repeated(keys, image_data.keys(held_out[0])),
    }
    heading = labeled.title_of(len(chosen), len(tested), "images")
    labeled.show_report(job.console, results, heading)
    labeled.show_hardest(job.console, results["hardest"], "file")
    labeled.show_baselines(job.console, results, seconds, len(x))
    labeled.show_repeated(job.console, results["repeated"], len(chosen), "images")
    title = f"{settings.model} on {pictures.data['source']}"
    labeled.draw(
        job.console,
        job.folder,
        lambda: draw(job, model, history, results, hardest, title),
    )
    job.finish(results)
    return results


# The model


def build(settings: options.Settings, labels: list[str]) -> "kerasseq.models.ViT":
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


def compile_for(
    model: "kerasseq.models.ViT", settings: options.Settings, steps_per_epoch: int
) -> int:
    """Compiles a model with AdamW: warmup, then a cosine to 0.

    Args:
        model: The model.
        settings: Arguments of the run.
        steps_per_epoch: Batches in an epoch.

    Returns:
        The number of training steps.
    """
    import keras

    from kerasseq.cli.fitting import cosine

    steps = options.number_of_steps(settings, steps_per_epoch)
    if settings.steps is None and settings.epochs is None:
        steps = max(steps, LEAST_STEPS)
    warmup = round(WARMUP * steps)
    first = settings.learning_rate / (warmup + 1)
    rate = cosine(settings.learning_rate, steps, warmup, first=first)
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=WEIGHT_DECAY, global_clipnorm=1.0)
    )
    return steps


def classify(model: "kerasseq.models.ViT", images: Any) -> list[Any]:
    """Classifies files or arrays, some at a time."""
    found = []
    for part, which in image_data.parts(images):
        with status(f"classifying images {which}"):
            found += model.classify(part)
    return found


def evaluate(
    model: "kerasseq.models.ViT", images: Any, labels: list[str], names: list[str]
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
    found = classify(model, images)
    result = labeled.scores(labels, [each.label for each in found], model.labels)
    shown = [image_data.printable(name) for name in names]
    p = [each.probabilities.get(y, 0) for each, y in zip(found, labels, strict=True)]
    order = np.argsort(p, kind="stable")[:HARDEST]
    results = {**result, "hardest": labeled.hardest(shown, labels, found, "file")}
    return results, [(images[n], labels[n], found[n]) for n in order]


def draw(
    job: "Job",
    model: "kerasseq.models.ViT",
    history: runs.History,
    results: runs.Results,
    hardest: list[Any],
    title: str,
) -> list[Any]:
    """Draws the training, the confusion matrix and the hardest images."""
    lines = {name: each["accuracy"] for name, each in results["baselines"].items()}
    file = job.folder / "confusion.png"
    return [
        figures.history(job.folder, history, "accuracy", title, lines),
        figures.confusion(file, results["confusion"], results["labels"], title),
        draw_hardest(job.folder / "hardest.png", model, hardest, title),
    ]


def draw_hardest(
    file: Any, model: "kerasseq.models.ViT", hardest: list[Any], title: str
) -> Any:
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
