"""`kerasseq transcribe` with a Whisper: of a run, or a folder of published weights."""

import argparse
import pathlib
from typing import Any

import numpy as np

from kerasseq.cli import options, runs, text_models
from kerasseq.cli.console import clock, progress
from kerasseq.cli.errors import refuse
from kerasseq.core.files import read_json

CONFIG = "config.json"
KINDS = ("whisper", "WhisperBackbone")  # of folders
WHISPERS = ("whisper", "Whisper")  # the model of a run, or the class of a file
TASKS = ("transcribe", "translate")
OWN = ("language", "task", "timestamps")  # options for a Whisper alone
OF_CTC = ("language_model", "text")  # and for a recognizer alone
DIGITS = 4  # of seconds and log-probabilities


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for a Whisper alone."""
    text = "of a Whisper: the language, by code or name (default: it is found)"
    options.add(parser, "--language", str, text, "NAME")
    text = "of a Whisper: translate writes English (default: transcribe)"
    options.add(parser, "--task", options.one_of("task", TASKS), text, "NAME")
    text = "of a Whisper: write when each segment begins and ends"
    options.add(parser, "--timestamps", None, text)


def is_checkpoint(folder: str) -> bool:
    """Returns whether a folder holds published weights, and no run."""
    path = pathlib.Path(folder)
    return (path / CONFIG).is_file() and not (path / runs.MODEL).exists()


def check_checkpoint(folder: str) -> None:
    """Raises a `ValueError` unless a folder of published weights holds a Whisper."""
    settings = read_json(pathlib.Path(folder) / CONFIG)
    kind = None
    if isinstance(settings, dict):
        kind = settings.get("model_type", settings.get("registered_name"))
    if str(kind).rpartition(">")[2] not in KINDS:  # of KerasHub: keras_hub>Whisper…
        raise ValueError(
            f"{folder} holds a model of the kind {kind!r}, expected one of "
            f"{', '.join(KINDS)}, or a run of  kerasseq train speech"
        )


def check_options(args: argparse.Namespace, is_whisper: bool) -> None:
    """Raises a `UsageError` if an option is for the other kind of model."""
    kinds = ("a Whisper", "a model with CTC")
    here, there = kinds if is_whisper else kinds[::-1]
    others = OF_CTC if is_whisper else OWN
    refuse(
        [name for name in others if getattr(args, name) not in (None, False)],
        f"is for {there}, but {args.folder} holds {here}. Leave it out",
    )


def load_checkpoint(folder: str) -> Any:
    """Loads a Whisper of a folder of published weights, with its tokenizer."""
    files = "vocab.json and merges.txt, and"
    return text_models.load_with_tokenizer(folder, folder, files)


def transcribe(model: Any, file: str, what: str, args: argparse.Namespace) -> Any:
    """Returns the `WhisperTranscript` of a file.

    Args:
        model: A `Whisper`.
        file: A WAV file.
        what: What is done, for the progress.
        args: The arguments of the command.
    """
    sound = model.preprocessor.read(file)
    seconds = len(sound) // model.preprocessor.sampling_rate
    with progress(f"{what}, seconds", max(seconds, 1)) as show:
        (found,) = model.transcribe(
            [sound],
            language=args.language,
            task=args.task or TASKS[0],
            timestamps=bool(args.timestamps),
            beam=args.beam,
            align=args.json or args.align is not None,
            seed=0,
            progress=lambda done, _: show(min(int(done), seconds)),
        )
    return found


def lines(found: Any) -> str:
    """Returns a transcript with a line for each segment, with its times."""
    return "\n".join(
        f"[{moment(part.start)} – {moment(part.end)}] {part.text}"
        for part in found.segments
    )


def moment(seconds: float) -> str:
    """Formats a moment as minutes, seconds and hundredths, as times are of 20 ms.

    Examples:
        >>> moment(83.04)
        '1:23.04'
    """
    whole, hundredths = divmod(round(100 * seconds), 100)
    return f"{clock(whole)}.{hundredths:02d}"


def as_json(file: str, found: Any) -> dict[str, Any]:
    """Returns a `WhisperTranscript` as plain data, with the seconds of each token."""
    segments = [
        {
            "start": round(part.start, DIGITS),
            "end": round(part.end, DIGITS),
            "text": part.text,
            "log_probability": round(part.log_probability, DIGITS),
            "temperature": part.temperature,
            "no_speech_probability": part.no_speech_probability,
        }
        for part in found.segments
    ]
    times = np.round(found.times, DIGITS).tolist()
    tokens = [
        {"token": token, "start": start, "end": end}
        for token, (start, end) in zip(found.tokens, times, strict=True)
    ]
    text = {"file": file, "text": found.text, "language": found.language}
    return {**text, "segments": segments, "tokens": tokens}
