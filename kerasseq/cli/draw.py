"""`kerasseq train draw`: a model learns to draw pictures from captions.

First a codebook learns to write pictures as ids of their patches and to draw them
again. Then a Transformer learns to write the ids of a picture after its caption. The
data are scenes of colored shapes, which are generated; or a folder of your own pictures
with a table, such as captions.csv with the columns image and text. A part of the
pictures is held out. There the loss is printed in bits per id, beside the frequencies
of the ids and the same model with shuffled captions, and the error of rebuilt pictures
beside the mean picture. For scenes of one shape the nearest real picture tells color
and shape of real, rebuilt and drawn ones.

Examples:
  kerasseq train draw
  kerasseq train draw --num-codes 128 --codebook-steps 1000 --steps 1000
  kerasseq train draw pictures --image-size 32 --patch-size 4
then:
  kerasseq predict runs/draw-1 --text "a small red circle at the top left"
  kerasseq predict runs/draw-1 --file captions.txt --temperature 0.7 --seed 1
  kerasseq inspect runs/draw-1
"""

from typing import TYPE_CHECKING, Any

import kerasseq
from kerasseq.cli import (
    draw_scores,
    figures,
    image_data,
    labeled,
    multimodal_data,
    options,
    runs,
    schedule,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.control import phase
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.cli.run import Run
from kerasseq.cli.runs import CODEBOOK
from kerasseq.core.files import read_json, write_json

if TYPE_CHECKING:
    from kerasseq.models import Multimodal, PictureTokenizer

LABEL = "codebook"
FILE = "file"  # the argument that names the user's data
OF_FILE = multimodal_data.OF_FOLDER
NOT_DRAWN = ("frames", "sound")  # what scenes for other tasks have
_CODES = "ids of the codebook, which patches are written with"
_STEPS = "training steps of the codebook, before those of the model"
_MINUTES = (
    "minutes after which training stops, at the next checkpoint; at most half of "
)
_MINUTES += "them are for the codebook"
_PATCH = "height and width of a patch, which is one id (default: 3 for scenes of "
_PATCH += f"{multimodal_data.SIZE} pixels, else for at most about 8 × 8)"
_NOISE = "of the pixels of scenes; the codebook needs clean pictures"
OPTIONS = task_table(
    *(row for row in multimodal_data.OPTIONS if row.argument not in NOT_DRAWN),
    Option("--noise X", "scenes", options.rate, _NOISE, 0.0),
    Option("--patch-size N", "data", options.integer(at_most=4096), _PATCH),
    Option("--num-codes --codes N", "model", options.integer(2, 2**16), _CODES, 256),
    Option("--codebook-steps N", "training", options.integer(), _STEPS, 1500),
    *models.OPTIONS,
    shared("max_minutes", None, _MINUTES),
    shared("learning_rate", 2e-3, f"{models.RATE}, for both trainings"),
)
DEFAULTS = task_defaults(OPTIONS)
REPEATED = "Scenes without noise repeat: they differ by what captions say, and a little"
REPEATED += " by place"
_ONLY_PICTURES = "kerasseq train draw writes single pictures, so scenes have no "
UNKNOWN = {
    "--frames": f"{_ONLY_PICTURES}films. For films: kerasseq train captions --frames 4",
    "--sound": f"{_ONLY_PICTURES}sounds. For sounds: kerasseq train contrastive "
    "--sound",
}


def train(run: "Run") -> runs.Results:
    """Trains codebook and model, and compares them with what needs no model.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    trained = fit(run)
    model, console = trained.model, run.console
    rows = draw_scores.rows(trained.held_out, run.settings.seed)
    tested = multimodal_data.take(trained.held_out, rows)
    pictures = draw_scores.draw_all(model, tested.images, tested.texts)
    scores = draw_scores.scores(model, trained.learned, tested, pictures)
    judged = draw_scores.judge(scores)
    repeated = labeled.repeated(trained.keys, image_data.keys(tested.images))
    results = run.results(
        *(model, trained.history, trained.steps),
        **draw_scores.plain(scores),
        verdict=judged,
        codebook=read_json(run.folder / CODEBOOK / runs.RESULTS),
        drawn=len(rows),
        repeated=repeated,
    )
    draw_scores.show(console, scores)
    console.write(judged["sentence"])
    advice = {} if run.settings.file else {"advice": REPEATED}
    labeled.show_repeated(console, repeated, len(rows), "pictures", **advice)
    title = f"draw on {image_data.printable(run.settings.file or 'scenes')}"
    run.draw(
        lambda: [
            figures.history(run.folder, trained.history, "loss", title),
            draw_scores.save(run.folder, tested.texts, pictures),
        ]
    )
    return run.finish(results)


# The two trainings


def fit(run: Run) -> models.Trained:
    """Reads the pictures, and trains a codebook and a model on a part of them.

    Args:
        run: The run.
    """
    settings, task = run.settings, run.task
    pictures, data, (learned, held_out) = models.read_parts(run)
    patches = (settings.image_size // settings.patch_size) ** 2
    with about(settings.table):
        check_codes(settings, multimodal_data.number_of(learned), patches)
    sizes = {"vocabulary_size": settings.num_codes, "patches": patches}
    schedule.check_memory(settings, len(learned.texts), **sizes)
    with status("building the codebook"):
        tokenizer, held_out, longest = models.tokenizer_for(settings, learned, held_out)
        codebook = build_codebook(settings)
    parts, keys = (learned, held_out), image_data.keys(learned.images)
    run.start(data, models.described(data, settings, parts, patches, longest), keys)
    if not run.dry:
        codebook = train_codebook(run, codebook, learned)
    with status("building the model"):
        model = build(settings, tokenizer, longest, codebook)
    part, validation = multimodal_data.validation_part(learned, settings, task)
    with status("writing the pictures as ids"):
        sizes = {"batch_size": settings.batch_size, "seed": settings.seed}
        batches = model.batches(part, **sizes)
    steps = models.compile_model(model, settings, batches)
    history = run.fit(model, batches, steps, "accuracy", validation=validation)
    multimodal_data.check_unchanged(pictures, data, settings)
    return models.Trained(model, history, steps, learned, held_out, keys)


def check_codes(settings: options.Settings, pictures: int, patches: int) -> None:
    """Raises a `UsageError` if there are more codes than patches to learn them from.

    Args:
        settings: Arguments of the run.
        pictures: The number of pictures to learn from.
        patches: The number of patches of each.
    """
    if settings.num_codes > pictures * patches:
        raise UsageError(
            f"--num-codes must be at most {pictures * patches:,}, the number of "
            f"patches in the {pictures:,} pictures to learn from, received "
            f"{settings.num_codes:,}. Choose fewer codes, or add pictures"
        )


def build_codebook(settings: options.Settings) -> "PictureTokenizer":
    """Builds the codebook, before its training."""
    set_seed(settings.seed)
    return kerasseq.models.PictureTokenizer(
        settings.image_size,
        settings.patch_size,
        channels=settings.channels,
        num_codes=settings.num_codes,
        resize=settings.resize,
        seed=settings.seed,
    )


def train_codebook(
    run: Run, codebook: "PictureTokenizer", learned: Captioned
) -> "PictureTokenizer":
    """Trains the codebook in its own folder, or loads it if it was trained before.

    Args:
        run: The run.
        codebook: The codebook, before its training.
        learned: The pictures to learn from.
    """
    settings, folder = run.settings, run.folder / CODEBOOK
    if (folder / runs.RESULTS).exists():
        with status("loading the codebook"):
            return kerasseq.load_model(folder / runs.MODEL)
    images = learned.images
    if isinstance(images, list):  # each picture once, whatever its captions
        images = list(dict.fromkeys(images))
    batches = codebook.batches(
        images, batch_size=settings.batch_size, seed=settings.seed
    )
    steps = settings.codebook_steps
    codebook.compile(schedule.adamw(settings, steps))
    minutes = settings.max_minutes and settings.max_minutes / 2
    own = {"checkpoint_every": settings.checkpoint_every, "max_minutes": minutes}
    part = Run(run.task, own, folder, run.console, record={})
    run.console.info(
        f"{LABEL}: {codebook.count_params():,} parameters, {settings.num_codes:,} "
        f"codes. It is trained first, and saved in {folder}"
    )
    training = phase("training the codebook")
    with training, part.reporter, codebook.reading(batches):
        history = part.fit(codebook, batches, steps, "perplexity", LABEL)
    results = {"parameters": codebook.count_params(), **part.stop}
    results |= {name: history[-1][name] for name in ("loss", "perplexity")}
    write_json(folder / runs.RESULTS, results)
    return codebook


def build(
    settings: options.Settings,
    tokenizer: Any,
    longest: int,
    codebook: "PictureTokenizer",
) -> "Multimodal":
    """Builds the model that draws.

    Args:
        settings: Arguments of the run.
        tokenizer: That of the captions.
        longest: Tokens of the longest caption.
        codebook: The trained codebook.
    """
    set_seed(settings.seed)
    own = {"head": "draw", "codebook": codebook, **models.sizes(settings, longest)}
    return kerasseq.models.Multimodal(tokenizer, **own)
