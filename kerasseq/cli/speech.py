"""`kerasseq train speech`: a model learns to write down sounds.

Train a speech recognizer on sounds and their texts, without times: messages in Morse
code, which are generated, or a folder of WAV files with a table of transcripts. A part
of the sounds is held out. There the share of characters and of words that the model
writes wrong is printed, beside that of the empty text, which is 1, and of the most
frequent text.

At first, for at least 500 to 650 steps, nothing is learned: the model writes nothing,
and the error rate is 1. A run that ends before step 750 shows that, and no error of the
model; with few sounds, or hard ones, it takes longer. A whisper needs far more: of the
messages in Morse code it has learned nothing after 2,000 steps.

Examples:
  kerasseq train speech
  kerasseq train speech --data recordings --tokenizer character --steps 5000
  kerasseq train speech --data morse --model gru --count 500 --steps 1500
  kerasseq train speech --data recordings --spec-augment --patience 10
  kerasseq train speech --data recordings --model whisper --num-layers 4
then:
  kerasseq transcribe runs/speech-conformer-1 sound.wav --align picture.png
  kerasseq evaluate runs/speech-conformer-1
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import (
    figures,
    labeled,
    options,
    runs,
    schedule,
    speech_data,
    text_models,
    verdict,
)
from kerasseq.cli.commands import SHARED, Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, set_seed, status
from kerasseq.cli.errors import refuse
from kerasseq.cli.run import Run
from kerasseq.cli.speech_data import MORSE
from kerasseq.datasets.recordings import Recordings

WHISPER = "whisper"
STRIDES, WINDOWS = 100, 40  # a second: frames, and windows beside each other
FACTOR = 4  # frames of the spectrogram that become one, for CTC
PAPER_MELS, PAPER_WIDTH = 80, 27  # of SpecAugment: bands, of which a mask has so many
TIME_SHARE = 0.2  # of the frames of a sound, at most, in a mask
FIRST_STEPS = 750  # before them a run with CTC shows nothing that is learned
MOST_SECONDS = 30  # that a Whisper reads at once
SPECIALS = 2  # ids that the decoder of a Whisper reads beside a transcript, at most
FILE = None  # `data` names the folder as well
PATHS = ("data",)
MODELS = ("conformer", WHISPER, *options.ARCHITECTURES)
NORMALIZATIONS = ("layer", "batch")
LEAST_STEPS = 2000  # if neither --epochs nor --steps is given
_DATA = "morse, which is generated, or a folder of WAV files with a table of their "
_DATA += "names and texts"
_AUDIO = "column of the names of the files (default: file, audio or path)"
_TEXT = "column of the transcripts (default: text, transcript or sentence)"
_RATE = "samples a second; others are resampled (default: 16000; 8000 for morse)"
_NORM = "of the convolution of a conformer"
_AUGMENT = "mask random bands and moments of the spectrogram in training"
_MELS = "bands of the spectrogram (default: 80; 20 for morse)"
_COUNT = "messages in Morse code"
OPTIONS = task_table(
    shared("model", "conformer", names=MODELS),
    Option("--data FOLDER", "data", str, _DATA, MORSE),
    Option("--count N", "data", options.integer(2, 10**6), _COUNT, 2000),
    Option("--audio-column COLUMN", "data", str, _AUDIO),
    Option("--text-column COLUMN", "data", str, _TEXT),
    shared("encoding", "utf-8"),
    shared("missing", "error"),
    shared("held_out", 0.1, "fraction of the sounds that is held out"),
    Option("--sampling-rate N", "data", options.integer(100, 10**6), _RATE),
    Option("--num-mels N", "data", options.integer(at_most=512), _MELS),
    shared("tokenizer", "character"),
    shared("vocabulary_size", options.VOCABULARY_SIZE),
    shared("units", 64),
    shared("num_layers", 2),
    shared("num_heads", 4, "attention heads of a conformer or a whisper"),
    shared("dropout", 0.0),
    Option("--normalization NAME", "model", NORMALIZATIONS, _NORM, "layer"),
    Option("--spec-augment", "training", None, _AUGMENT, False),
    shared("batch_size", 16, "sounds in a batch"),
    shared("learning_rate", 2e-3, "highest learning rate of AdamW"),
    shared("warm_up", 300),
    *schedule.STOPPED,
    shared(
        "patience",
        0,
        "validations without a lower loss after which training stops, with "
        "the best weights; 0 trains all steps. At first nothing is learned: choose at "
        "least 10",
    ),
    shared("loss_chunk_size", None, f"{SHARED['loss_chunk_size'].help}; of a whisper"),
    shared(
        "epochs",
        None,
        f"passes over the sounds (default: {options.EPOCHS}, or as many as "
        f"{LEAST_STEPS:,} steps take)",
    ),
)
DEFAULTS = task_defaults(OPTIONS)
SHOWN = 8  # transcripts that are printed
PART = 256  # sounds that are transcribed between two messages
EMPTY, FREQUENT = "the empty text", "the most frequent text"


def train(run: Run) -> runs.Results:
    """Trains the model, and compares its transcripts with those of no model.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    speech_data.check(settings, DEFAULTS)
    check(settings, DEFAULTS)
    rate, mels = speech_data.SIZES[settings.data == MORSE]
    settings.sampling_rate = settings.sampling_rate or rate
    settings.num_mels = settings.num_mels or mels
    sounds, data = run.read("the sounds", speech_data.read)
    learned, held_out = speech_data.split(sounds, settings)
    # All frames of the spectrogram count as one: a lower bound.
    schedule.check_memory(settings, len(learned.texts))
    with status("building the model"):
        model = build(settings, sounds, learned.texts)
    with status("reading the sounds"), speech_data.named(learned.audio):
        part, validation = speech_data.validation_part(learned, settings)
        batches = model.batches(
            part, batch_size=settings.batch_size, seed=settings.seed
        )
    keys = speech_data.keys(learned.audio)
    words = f"{data['source']}: {len(learned.texts):,} sounds to learn from, "
    words += f"{len(held_out.texts):,} held out; {settings.sampling_rate:,} samples a "
    words += f"second, {settings.num_mels} mel bands."
    run.start(data, words, keys)
    per_epoch = batches.steps_per_epoch
    steps = schedule.number_of_steps(settings, per_epoch, at_least=LEAST_STEPS)
    chunks = settings.loss_chunk_size
    model.compile(schedule.adamw(settings, steps), loss_chunk_size=chunks)
    history = run.fit(model, batches, steps, None, validation=validation)
    texts = transcripts(model, held_out.audio, settings.batch_size)
    scored = compare(settings.model, texts, learned.texts, held_out.texts)
    scored |= {"examples": examples(texts, held_out.texts)}
    scored |= {"sounds": len(sounds.texts), "held_out": len(held_out.texts)}
    scored["repeated"] = labeled.repeated(keys, speech_data.keys(held_out.audio))
    results = run.results(model, history, steps, **scored)
    show(run, results)
    run.draw(lambda: [figures.history(run.folder, history, "loss", run.title)])
    return run.finish(results)


def show(run: Run, results: runs.Results) -> None:
    """Prints transcripts, the error rates and the sentences about them."""
    console, tested = run.console, results["held_out"]
    show_examples(console, results["examples"], "Held-out sounds")
    rows = {**results["baselines"], results["model"]: results}
    title = f"Errors on {tested:,} held-out sounds, per character and per word"
    show_rates(console, title, rows)
    console.write(results["verdict"]["sentence"])
    if results["character_error_rate"] >= 1:
        console.write(late(results["model"]))
    labeled.show_repeated(console, results["repeated"], tested, "sounds")


# The models


def check(settings: options.Settings, defaults: dict[str, Any]) -> None:
    """Raises a `UsageError` if an option is for another model."""
    is_whisper = settings.model == WHISPER
    others = ("spec_augment", "normalization") if is_whisper else ("loss_chunk_size",)
    there = "models with CTC" if is_whisper else f"--model {WHISPER}"
    refuse(
        [name for name in others if getattr(settings, name) != defaults[name]],
        f"is for {there}, received --model {settings.model}. Leave it out",
    )


def late(model: str) -> str:
    """Says how long nothing is learned, for a run that ended before."""
    if model == WHISPER:
        return (
            "A whisper learns late where to listen: of Morse code nothing in 2,000 "
            "steps. Train many more, with more sounds, or use --model conformer."
        )
    return (
        "At first nothing is learned, in Morse code for at least 500 to 650 steps: "
        f"train at least {FIRST_STEPS} steps, and better more."
    )


def build(
    settings: options.Settings, sounds: Recordings, learned: list[str]
) -> "kerasseq.models.SpeechRecognizer | kerasseq.models.Whisper":
    """Builds the model, with a tokenizer that is trained on the texts to learn from.

    Args:
        settings: Arguments of the run.
        sounds: All sounds: a Whisper reads the longest of them, up to 30 seconds.
        learned: The texts to learn from.
    """
    mark = "" if settings.tokenizer == "character" else "\n"  # not one to learn
    tokenizer = text_models.trained_tokenizer(settings, mark.join(learned))
    of_both = {
        "num_layers": settings.num_layers,
        "num_heads": settings.num_heads,
        "dropout": settings.dropout,
        "num_mels": settings.num_mels,
        "num_fft_bins": max(2, settings.sampling_rate // WINDOWS),
        "stride": settings.sampling_rate // STRIDES,
        "sampling_rate": settings.sampling_rate,
    }
    if settings.model == WHISPER:
        sizes = whisper_sizes(settings, sounds, map(tokenizer.encode, learned))
        set_seed(settings.seed)
        return kerasseq.models.Whisper(
            tokenizer, hidden_dim=settings.units, **sizes, **of_both
        )
    set_seed(settings.seed)
    return kerasseq.models.SpeechRecognizer(
        settings.model,
        tokenizer,
        units=settings.units,
        factor=FACTOR,
        normalization=settings.normalization,
        spec_augment=spec_augment(settings) if settings.spec_augment else None,
        **of_both,
    )


def spec_augment(settings: options.Settings) -> "kerasseq.layers.SpecAugment":
    """Returns the masks of the paper, for fewer bands and shorter sounds as well."""
    return kerasseq.layers.SpecAugment(
        freq_mask_width=round(settings.num_mels * PAPER_WIDTH / PAPER_MELS),
        max_time_share=TIME_SHARE,
        seed=settings.seed,
    )


def whisper_sizes(
    settings: options.Settings, sounds: Recordings, learned: Iterable[list[int]]
) -> dict[str, Any]:
    """Returns the seconds of the longest sound, and the most ids to read.

    Args:
        settings: Arguments of the run.
        sounds: All sounds.
        learned: The tokens of the texts to learn from: no position is used that is not
            trained.
    """
    longest = max(len(sound) for sound in sounds.audio) / settings.sampling_rate
    return {
        "window": float(min(math.ceil(longest), MOST_SECONDS)),
        "max_length": max(map(len, learned)) + SPECIALS,
    }


# Scores, beside those of two transcripts that need no model


def transcripts(model: Any, audio: Sequence[Any], batch_size: int) -> list[str]:
    """Writes down sounds.

    Args:
        model: A `SpeechRecognizer` or a `Whisper`.
        audio: The sounds.
        batch_size: How many are read at once.
    """
    texts, options = [], {"batch_size": batch_size}
    if isinstance(model, kerasseq.models.Whisper):  # it samples where it is unsure
        options["seed"] = 0
    for part in labeled.in_parts(audio, PART, "transcribing the sounds"):
        with speech_data.named(part):
            transcribed = model.transcribe(part, **options)
        texts += [each.text for each in transcribed]
    return texts


def rates(texts: list[str], references: list[str]) -> dict[str, float]:
    """Returns the error rates of transcripts, as plain data.

    Examples:
        >>> result = rates(["SOS", "HELP ME"], ["SOS", "HELP US"])
        >>> result["character_error_rate"], round(result["word_error_rate"], 2)
        (0.2, 0.33)
    """
    training = kerasseq.training
    return {
        "character_error_rate": training.character_error_rate(texts, references),
        "word_error_rate": training.word_error_rate(texts, references),
    }


def compare(
    name: str, texts: list[str], learned: list[str], references: list[str]
) -> dict[str, Any]:
    """Compares transcripts with those that need no model, as plain data.

    Args:
        name: The model.
        texts: Its transcripts of the held-out sounds.
        learned: The texts of the training.
        references: The right transcripts.
    """
    most = Counter(learned).most_common(1)[0][0]
    simple = {EMPTY: [""] * len(texts), FREQUENT: [most] * len(texts)}
    judged = verdict.compare(
        *(name, distances(texts, references)),
        {other: distances(each, references) for other, each in simple.items()},
        "character error rate on the held-out sounds",
        ["more --steps", "more sounds"],
        sizes=np.array([*map(len, references)]),
        rows="held-out sounds",
        lowest=True,
    )
    scores = {other: rates(each, references) for other, each in simple.items()}
    return {**rates(texts, references), "baselines": scores, "verdict": judged}


def distances(texts: list[str], references: list[str]) -> np.ndarray:
    """Returns the characters that are wrong in each transcript, `(texts,)`."""
    edit_distance = kerasseq.training.error_rates.edit_distance
    pairs = zip(texts, references, strict=True)
    return np.array([edit_distance(a, b) for a, b in pairs])


def examples(texts: list[str], references: list[str]) -> list[dict[str, str]]:
    """Returns the first transcripts beside the right texts, as plain data."""
    pairs = zip(references[:SHOWN], texts, strict=False)
    return [{"text": text, "transcript": written} for text, written in pairs]


def show_examples(console: Console, rows: list[dict[str, str]], title: str) -> None:
    """Prints transcripts beside the right texts.

    Args:
        console: Where to print.
        rows: What `examples` returns.
        title: The title of the table.
    """
    cells = [(row["text"], row["transcript"] or "∅") for row in rows]
    console.table(title, ("text", "written down"), cells)


def show_rates(console: Console, title: str, rows: dict[str, dict[str, float]]) -> None:
    """Prints error rates by the name of a model.

    Args:
        console: Where to print.
        title: The title of the table.
        rows: What `rates` returns, by name.
    """
    cells = [
        (name, *(f"{each[f'{unit}_error_rate']:.3f}" for unit in ("character", "word")))
        for name, each in rows.items()
    ]
    console.table(title, ("model", ">characters wrong", ">words wrong"), cells)
