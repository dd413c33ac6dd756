"""`kerasseq transcribe`: the texts of WAV files, by the model of a run.

Write down the speech, or the Morse code, of WAV files, with a model that  kerasseq
train speech  trained. The files may have any sampling rate and length. --align draws
the spectrogram, with each character above the moment at which the model writes it;
--text finds the moments of a text that is known.

Examples:
  kerasseq transcribe runs/speech-conformer-1 sound.wav
  kerasseq transcribe runs/speech-conformer-1 one.wav two.wav --beam 16 --json
  kerasseq transcribe runs/speech-conformer-1 sound.wav --align picture.png
  kerasseq transcribe runs/speech-conformer-1 sound.wav --text SOS --align picture.png
"""

import argparse
import os
import pathlib
from typing import Any

import numpy as np

from kerasseq.cli import figures, options, runs, speech_data
from kerasseq.cli.console import (
    choose_backend,
    note,
    print_json,
    print_result,
    status,
)
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks
from kerasseq.datasets import read_wave

MOST_DRAWN = 120  # seconds
DIGITS = 4  # of seconds and log-probabilities


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("transcribe")
    options.add_run(parser)
    text = "a WAV file"
    parser.add_argument("files", nargs="+", metavar="FILE", help=text)
    text = "prefixes that a search keeps (default: the best path, without a search)"
    options.add(parser, "--beam", options.integer(at_most=1000), text)
    text = "the text of the file, if it is known: find when each character comes"
    options.add(parser, "--text", str, text, "TEXT")
    text = "draw the spectrogram with the time of each character, as PNG"
    options.add(parser, "--align", str, text, "FILE")
    options.add_json(parser)
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq transcribe`."""
    check_arguments(args)
    check_run(args.folder)
    for file in args.files:  # before Keras is loaded
        read_wave(file)
    choose_backend(args.backend)
    model, _ = runs.load_model(args.folder)
    found = transcripts(model, args)
    if args.align is not None:
        draw(args.align, model, args.files[0], found[0])
    if args.json:
        pairs = zip(args.files, found, strict=True)
        print_json([as_json(file, each) for file, each in pairs])
        return
    for file, each in zip(args.files, found, strict=True):
        name = f"{file}  " if len(found) > 1 else ""
        print_result(f"{name}{each.text}")


def check_arguments(args: argparse.Namespace) -> None:
    """Raises a `UsageError` if arguments do not go together."""
    for name in ("align", "text"):
        if getattr(args, name) is not None and len(args.files) > 1:
            raise UsageError(
                f"--{name} is for one file, received {len(args.files)}: give one"
            )
    if args.text is not None and args.beam is not None:
        raise UsageError("--beam and --text exclude each other: give one")
    if args.text is not None and not args.text:
        raise UsageError('--text must be the text of the file, received ""')
    if args.align is not None:
        figures.require()


def check_run(folder: str) -> None:
    """Raises a `ValueError` if a run has another task, without loading Keras."""
    _, record = runs.find_model(folder)
    kind = runs.kind(folder, record)
    if kind not in runs.SPEECH:
        raise ValueError(
            f"expected a run of  kerasseq train speech,  received {kind} in {folder}"
        )


def transcripts(model: Any, args: argparse.Namespace) -> list[Any]:
    """Returns the `Transcript` of each file."""
    found = []
    for number, file in enumerate(args.files, start=1):
        where = f" {number} of {len(args.files)}" if len(args.files) > 1 else ""
        with status(f"transcribing file{where}"), speech_data.named([file]):
            if args.text is None:
                found += model.transcribe([file], beam=args.beam)
            else:
                found.append(align(model, file, args.text))
    return found


def align(model: Any, file: str, text: str) -> Any:
    """Finds when each token of a known text is said."""
    try:
        return model.align(file, text)
    except ValueError as error:
        words = str(error).removeprefix("y[0] ").removeprefix("labels[0] ")
        raise ValueError(f"--text {checks.short(text)} and {file}: {words}") from error


def as_json(file: str, found: Any) -> dict[str, Any]:
    """Returns a transcript as plain data, with the seconds of each character."""
    times = np.round(found.times, DIGITS).tolist()
    return {
        "file": file,
        "text": found.text,
        "log_probability": round(found.log_probability, DIGITS),
        "characters": [
            {"character": token, "start": start, "end": end}
            for token, (start, end) in zip(found.tokens, times, strict=True)
        ],
    }


def draw(path: str, model: Any, file: str, found: Any) -> None:
    """Draws the spectrogram of a file with the time of each character."""
    from keras import ops  # here, as the help loads no Keras

    sound = model.preprocessor.read(file)
    seconds = len(sound) / model.preprocessor.sampling_rate
    if seconds > MOST_DRAWN:
        raise UsageError(
            f"--align draws at most {MOST_DRAWN} seconds, received {seconds:,.0f} in "
            f"{file}. Cut the file into parts"
        )
    with status("drawing the figure"):
        frames = ops.convert_to_numpy(model.get_layer("log_mel")(sound[None]))[0]
        to = pathlib.Path(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        title = f"{os.path.basename(file)}: {found.text}"
        figures.transcript(to, frames, found, seconds, title)
    note(f"alignment: {path}")
