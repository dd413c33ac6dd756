"""The model of `kerasseq train contrastive` and `captions`, and how it is trained.

`draw_models` trains the model that draws, with what is the same here.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import (
    figures,
    image_data,
    multimodal_data,
    options,
    runs,
    schedule,
    text_models,
)
from kerasseq.cli.commands import Option, shared
from kerasseq.cli.console import note, set_seed, status
from kerasseq.cli.multimodal_data import CAPTIONS, Captioned
from kerasseq.cli.run import Run
from kerasseq.core import checks

# Of the sounds of scenes: bands, samples of a frame and of a step, the longest sound.
SOUNDS = {"num_mels": 20, "num_fft_bins": 200, "stride": 80, "window": 1.5}
TUBE = 2  # frames of a patch of a film
LEAST_STEPS = 1500  # if neither --epochs nor --steps is given
_EXPERTS = "experts in the last layer, of half the width, of which two read each token "
_EXPERTS += "(default: none)"
_EPOCHS = f"passes over the pictures (default: {options.EPOCHS}, or as many as "
_EPOCHS += f"{LEAST_STEPS:,} steps take)"
_PATIENCE = (
    "validations without a lower loss after which training stops, with the best "
)
_PATIENCE += (
    f"weights; 0 trains all steps (default: {schedule.PATIENCE} for a folder, else "
)
_PATIENCE += "0)"
RATE = "highest learning rate of AdamW"
OPTIONS = (
    shared("units", 64, "width of the tokens"),
    shared("num_layers", 2),
    shared("num_heads", 4, "attention heads of each layer"),
    Option("--num-experts --experts N", "model", options.integer(2, 1024), _EXPERTS),
    shared("dropout", 0.0, "dropout rate in each layer"),
    shared("batch_size", 64, "pictures in a batch"),
    shared("warm_up", 100),
    *schedule.STOPPED,
    shared("epochs", None, _EPOCHS),
    shared("patience", None, _PATIENCE),
)


class Trained(NamedTuple):
    """What a task gets after the training.

    Attributes:
        model: The model.
        history: The history of its training.
        steps: Its steps.
        learned: The pictures that it was trained on.
        held_out: Those that were held out, with captions that it can read.
        keys: What tells equal pictures, of `learned`.
    """

    model: "kerasseq.models.Multimodal"
    history: runs.History
    steps: int
    learned: Captioned
    held_out: Captioned
    keys: list[bytes]


def fit(run: Run, **options_of_head: Any) -> Trained:
    """Reads the pictures, and trains a model on a part of them.

    Args:
        run: The run.
        **options_of_head: `head`, and `loss` for "contrastive".
    """
    settings, task = run.settings, run.task
    pictures, data, (learned, held_out) = read_parts(run)
    of_frame = (settings.image_size // settings.patch_size) ** 2
    patches = of_frame * (settings.frames // tube(settings.frames))
    schedule.check_memory(settings, len(learned.texts), patches=patches)
    with status("building the model"):
        model, held_out = build(settings, learned, held_out, **options_of_head)
    part, validation = multimodal_data.validation_part(learned, settings, task)
    batches = model.batches(part, batch_size=settings.batch_size, seed=settings.seed)
    keys, longest = image_data.keys(learned.images), model.preprocessor.longest
    parts = (learned, held_out)
    run.start(data, described(data, settings, parts, patches, longest), keys)
    steps = compile_model(model, settings, batches)
    metric = "accuracy" if task == CAPTIONS else None
    with model.reading(batches):
        history = run.fit(model, batches, steps, metric, validation=validation)
    multimodal_data.check_unchanged(pictures, data, settings)
    return Trained(model, history, steps, learned, held_out, keys)


def read_parts(
    run: Run,
) -> tuple[Captioned, dict[str, Any], tuple[Captioned, Captioned]]:
    """Reads the pictures, and returns them, their record, and their two parts."""
    settings, task = run.settings, run.task
    multimodal_data.check(settings, task)
    schedule.set_patience(settings, settings.file is not None)
    pictures, data = run.read(
        "the pictures", lambda given: multimodal_data.read(given, task)
    )
    return pictures, data, multimodal_data.split(pictures, settings, task)


def described(
    data: dict[str, Any],
    settings: options.Settings,
    parts: tuple[Captioned, Captioned],
    patches: int,
    longest: int,
) -> str:
    """Returns a sentence about the data of a run.

    Args:
        data: Their source.
        settings: Arguments of the run.
        parts: The pictures to learn from, and those that are held out.
        patches: The number of patches of a picture.
        longest: Tokens of the longest caption.
    """
    counts = [multimodal_data.number_of(each) for each in parts]
    return (
        f"{data['source']}: {counts[0]:,} pictures with captions to learn from, "
        f"{counts[1]:,} held out. {patches:,} patches of each: --image-size "
        f"{settings.image_size} --patch-size {settings.patch_size} --channels "
        f"{settings.channels}; at most {longest:,} tokens of a caption."
    )


def tube(frames: int) -> int:
    """Returns the number of frames of a patch.

    Examples:
        >>> tube(1), tube(4), tube(5)
        (1, 2, 1)
    """
    return 1 if frames % TUBE else TUBE


def build(
    settings: options.Settings,
    learned: Captioned,
    held_out: Captioned,
    **options_of_head: Any,
) -> tuple["kerasseq.models.Multimodal", Captioned]:
    """Builds the model, with a tokenizer that is trained on the captions to learn from.

    Args:
        settings: Arguments of the run.
        learned: The pictures to learn from.
        held_out: The others.
        **options_of_head: `head`, and `loss` for "contrastive".

    Returns:
        The model, and the held-out pictures whose captions its tokenizer knows.
    """
    tokenizer, held_out, longest = tokenizer_for(settings, learned, held_out)
    size, patch = settings.image_size, settings.patch_size
    films = settings.frames > 1
    set_seed(settings.seed)
    model = kerasseq.models.Multimodal(
        tokenizer,
        image_size=(settings.frames, size, size) if films else size,
        patch_size=(tube(settings.frames), patch, patch) if films else patch,
        channels=settings.channels,
        sampling_rate=multimodal_data.SAMPLING_RATE,
        resize=settings.resize,
        **sizes(settings, longest),
        **(SOUNDS if settings.sound else {}),
        **options_of_head,
    )
    return model, held_out


def sizes(settings: options.Settings, longest: int) -> dict[str, Any]:
    """Returns the sizes of a model, as arguments of `Multimodal`.

    Args:
        settings: Arguments of the run.
        longest: Tokens of the longest caption.
    """
    return {
        "num_layers": settings.num_layers,
        "num_heads": settings.num_heads,
        "hidden_dim": settings.units,
        "dropout": settings.dropout,
        "max_sequence_length": longest,
        "num_experts": settings.num_experts,
    }


def tokenizer_for(
    settings: options.Settings, learned: Captioned, held_out: Captioned
) -> tuple[Any, Captioned, int]:
    """Trains the tokenizer on the captions to learn from.

    Args:
        settings: Arguments of the run.
        learned: The pictures to learn from.
        held_out: The others.

    Returns:
        The tokenizer, the held-out pictures whose captions it knows, and the tokens of
        the longest caption.
    """
    tokenizer = text_models.trained_tokenizer(settings, "\n".join(learned.texts))
    check_known(tokenizer, learned.texts, settings)
    held_out = with_known_words(tokenizer, held_out)
    texts = dict.fromkeys([*learned.texts, *held_out.texts])
    return tokenizer, held_out, max(len(tokenizer.encode(text)) for text in texts)


def unknown_finder(tokenizer: Any) -> Callable[[str], dict[str, int]]:
    """Returns what finds the words or characters that a tokenizer does not know.

    Examples:
        >>> tokenizer = kerasseq.text.WordTokenizer().fit("a kite")
        >>> list(unknown_finder(tokenizer)("a red kite"))
        ['red']
    """
    has_words = hasattr(tokenizer, "unknown_words")
    return tokenizer.unknown_words if has_words else tokenizer.unknown_characters


def check_known(tokenizer: Any, texts: Iterable[str], settings: Any) -> None:
    """Raises if captions to learn from have words that the tokenizer lacks."""
    find, texts = unknown_finder(tokenizer), list(dict.fromkeys(texts))
    unknown = [text for text in texts if find(text)]
    if unknown:
        words = checks.short([*find(unknown[0])])
        raise ValueError(
            f"{len(unknown):,} of {len(texts):,} different captions have words that "
            f"the tokenizer does not know, such as {words}. Raise --vocabulary-size "
            f"{settings.vocabulary_size}, or use --tokenizer bpe, which knows parts of "
            "words"
        )


def with_known_words(tokenizer: Any, pictures: Captioned) -> Captioned:
    """Returns the pictures whose captions have only words that a tokenizer knows.

    Raises:
        ValueError: If there is none.
    """
    find, count = unknown_finder(tokenizer), len(pictures.texts)
    rows = [row for row, text in enumerate(pictures.texts) if not find(text)]
    advice = "--tokenizer bpe knows parts of words"
    if not rows:
        raise ValueError(
            f"all {count:,} held-out captions have words that the training captions do "
            f"not have: {advice}"
        )
    if len(rows) < count:
        note(
            f"{count - len(rows):,} of {count:,} held-out captions have words that the "
            f"training captions do not have, and are left out: {advice}"
        )
    return multimodal_data.take(pictures, rows)


def compile_model(model: Any, settings: options.Settings, batches: Any) -> int:
    """Compiles a model for the steps of its training, and returns their number."""
    per_epoch = batches.steps_per_epoch
    steps = schedule.number_of_steps(settings, per_epoch, at_least=LEAST_STEPS)
    model.compile(schedule.adamw(settings, steps))
    return steps


def draw(run: Run, trained: Trained, rows: list[int], titles: list[str]) -> None:
    """Draws the loss, and some held-out pictures with a title each."""
    source = run.settings.file or multimodal_data.SCENES
    title = f"{run.task} on {image_data.printable(source)}"
    images = [shown(trained.model, trained.held_out.images[row]) for row in rows]
    words = "Held-out pictures"
    run.draw(
        lambda: [
            figures.history(run.folder, trained.history, "loss", title),
            figures.images(run.folder / "pictures.png", images, titles, words),
        ]
    )


def shown(model: "kerasseq.models.Multimodal", image: Any) -> Any:
    """Returns a picture to draw, in the size of the model; of a film its frames.

    Args:
        model: The model.
        image: A file, a picture or a film.
    """
    read = model.preprocessor.pictures.reader([image])
    with read.original_errors():
        pixels = read(np.array([0]))[0]
    if pixels.ndim == 4:  # frames beside each other
        pixels = side_by_side(pixels)
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels[..., :3]


def side_by_side(frames: Any) -> Any:
    """Returns frames `(T, H, W, C)` beside each other, `(H, T W, C)`."""
    T, H, W, C = frames.shape
    return frames.transpose(1, 0, 2, 3).reshape(H, T * W, C)
