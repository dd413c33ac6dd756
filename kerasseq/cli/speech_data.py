"""The sounds of `kerasseq train speech`: messages in Morse code, or a folder.

A folder has WAV files and a table of their transcripts. Loads no Keras.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from kerasseq import datasets
from kerasseq.cli import image_data, labeled, options
from kerasseq.cli.console import noted_warnings
from kerasseq.cli.errors import about, named_rows, refuse
from kerasseq.core.files import sha256
from kerasseq.datasets.recordings import Recordings

MORSE = "morse"
# Samples a second and mel bands, if they are not given: a tone of Morse code is below
# 4,000 Hz, where 20 bands tell tones apart.
SIZES = {True: (8_000, 20), False: (16_000, 80)}
OF_FOLDER = ("encoding", "missing", "audio_column", "text_column")


def check(settings: options.Settings, defaults: dict[str, Any]) -> None:
    """Raises a `UsageError` if an option is for data of the other kind."""
    is_morse = settings.data == MORSE
    others = OF_FOLDER if is_morse else ("count",)
    there = "a folder of sounds" if is_morse else "--data morse"
    refuse(
        [name for name in others if getattr(settings, name) != defaults[name]],
        f"is for {there}, received --data {settings.data}. Leave it out",
    )


def read(settings: options.Settings) -> tuple[Recordings, dict[str, Any]]:
    """Returns the sounds with their transcripts, and their source with a checksum."""
    if settings.data == MORSE:
        sounds = messages(settings, settings.count)
        lines = [f"{settings.sampling_rate} {settings.seed}", *sounds.texts]
        source = MORSE
    else:
        settings.data = os.path.abspath(settings.data)  # to resume from any folder
        sounds = folder(settings.data, settings)
        sizes = map(os.path.getsize, sounds.audio.files)
        lines = [
            f"{os.path.relpath(file, settings.data)}\t{size}\t{text}"
            for file, size, text in zip(
                sounds.audio.files, sizes, sounds.texts, strict=True
            )
        ]
        source = os.path.basename(settings.data)
    data = {"source": source, "rows": len(sounds.texts)}
    return sounds, {**data, "sha256": sha256("\n".join(lines))}


def messages(settings: options.Settings, count: int) -> Recordings:
    """Generates messages in Morse code."""
    rate, seed = settings.sampling_rate, settings.seed
    return datasets.morse(count, sampling_rate=rate, seed=seed)


def folder(path: str, settings: options.Settings) -> Recordings:
    """Lists the sounds of a folder, and notes how many rows are left out."""
    names = {name: getattr(settings, name) for name in OF_FOLDER}
    rate = settings.sampling_rate
    with noted_warnings(), about(path):
        return datasets.audio_folder(path, sampling_rate=rate, **names)


def split(
    sounds: Recordings, settings: options.Settings
) -> tuple[Recordings, Recordings]:
    """Splits the sounds into those to learn from and those that are held out."""
    if len(sounds.texts) < 2:
        raise ValueError(
            f"{settings.data} must have at least two sounds, as one is held out, "
            "received one"
        )
    count = len(sounds.texts)
    share = min(settings.held_out, 1 - 1 / count)  # one is left to learn from
    return sounds.split(share, settings.seed)


def validation_part(
    sounds: Recordings, settings: options.Settings
) -> tuple[Recordings, Recordings | None]:
    """Splits the sounds of the training: some choose the step at which it stops.

    Args:
        sounds: The sounds.
        settings: Arguments of the run, with `patience`; 0 trains on all sounds.

    Returns:
        The sounds to learn from, and those for validation or None.
    """
    count = len(sounds.texts)
    if not settings.patience or count < 2:
        return sounds, None
    share = min(labeled.VALIDATION, labeled.MAX_VALIDATION / count)
    return sounds.split(share, settings.seed)


def keys(audio: Sequence[Any]) -> list[bytes]:
    """Returns what tells equal sounds: checksums of samples, or of parts of a file."""
    return image_data.keys(getattr(audio, "files", audio))


def named(audio: Sequence[Any]) -> AbstractContextManager[None]:
    """Names the file in place of its number in a `ValueError`, as for "x[3]".

    Args:
        audio: The sounds: `WaveFiles`, paths, or arrays, which have no names.

    Examples:
        >>> with named(["a.wav", "b.wav"]):
        ...     raise ValueError("x[1] must have at least 160 samples, received 7")
        Traceback (most recent call last):
        ValueError: b.wav must have at least 160 samples, received 7
    """
    return named_rows(getattr(audio, "files", audio), "x|y|labels")
