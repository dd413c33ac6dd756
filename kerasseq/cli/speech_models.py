"""The models of `kerasseq train speech`: a `SpeechRecognizer`, or a `Whisper`."""

import math
from collections.abc import Iterable
from typing import Any

import kerasseq
from kerasseq.cli import heads, options
from kerasseq.cli.console import set_seed
from kerasseq.cli.errors import UsageError
from kerasseq.datasets.recordings import Recordings

WHISPER = "whisper"
STRIDES, WINDOWS = 100, 40  # a second: frames, and windows beside each other
FACTOR = 4  # frames of the spectrogram that become one, for CTC
PAPER_MELS, PAPER_WIDTH = 80, 27  # of SpecAugment: bands, of which a mask has so many
TIME_SHARE = 0.2  # of the frames of a sound, at most, in a mask
FIRST_STEPS = 750  # before them a run with CTC shows nothing that is learned
MOST_SECONDS = 30  # that a Whisper reads at once
SPECIALS = 2  # ids that the decoder of a Whisper reads beside a transcript, at most


def check(settings: options.Settings, defaults: dict[str, Any]) -> None:
    """Raises a `UsageError` if an option is for another model."""
    if settings.model != WHISPER:
        return
    for name in ("spec_augment", "normalization"):
        if getattr(settings, name) != defaults[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} is for models with CTC, received --model "
                "whisper. Leave it out"
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
    tokenizer = heads.trained_tokenizer(settings, mark.join(learned))
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
