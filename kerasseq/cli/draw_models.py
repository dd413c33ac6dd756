"""The two trainings of `kerasseq train draw`: the codebook, and the model that draws.

The codebook has a folder of its own inside that of the run, with its checkpoints, its
history and its model. So a run that was stopped goes on in the training in which it
was, and a codebook is trained once.
"""

from typing import TYPE_CHECKING, Any

import kerasseq
from kerasseq.cli import multimodal_data, options, runs, schedule
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.cli.reporting import phase
from kerasseq.cli.run import Run
from kerasseq.cli.runs import CODEBOOK
from kerasseq.cli.schedule import set_patience
from kerasseq.core.files import read_json, write_json

if TYPE_CHECKING:
    from kerasseq.models import Multimodal, PictureTokenizer

LABEL = "codebook"


def fit(run: Run) -> models.Trained:
    """Reads the pictures, and trains a codebook and a model on a part of them.

    Args:
        run: The run.
    """
    settings, task = run.settings, run.task
    multimodal_data.check(settings, task)
    set_patience(settings, settings.file is not None)
    pictures, data = run.read(
        "the pictures", lambda given: multimodal_data.read(given, task)
    )
    learned, held_out = multimodal_data.split(pictures, settings, task)
    patches = (settings.image_size // settings.patch_size) ** 2
    with about(settings.table):
        check_codes(settings, multimodal_data.number_of(learned), patches)
    sizes = {"vocabulary_size": settings.num_codes, "patches": patches}
    schedule.check_memory(settings, len(learned.texts), **sizes)
    with status("building the codebook"):
        tokenizer, held_out, longest = models.tokenizer_for(settings, learned, held_out)
        codebook = build_codebook(settings)
    parts, keys = (learned, held_out), models.keys_of(learned)
    run.start(data, models.described(data, settings, parts, patches, longest), keys)
    if not run.dry:
        codebook = train_codebook(run, codebook, learned)
    with status("building the model"):
        model = build(settings, tokenizer, longest, codebook)
    part, validation = multimodal_data.validation_part(learned, settings, task)
    with status("writing the pictures as ids"):
        sizes = {"batch_size": settings.batch_size, "seed": settings.seed}
        batches = model.batches(part, **sizes)
    steps = models.compile_for(model, settings, batches.steps_per_epoch)
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
    models.compile_with(codebook, settings, steps)
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


def codebook_results(run: Run) -> dict[str, Any]:
    """Returns the results of the training of the codebook."""
    return read_json(run.folder / CODEBOOK / runs.RESULTS)


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
