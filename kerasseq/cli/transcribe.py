"""`kerasseq transcribe`: the texts of WAV files, by the model of a run.

Write down the speech, or the Morse code, of WAV files, with a model that  kerasseq
train speech  trained. The files may have any sampling rate and length. --align draws
the spectrogram, with each character above the moment at which the model writes it; a
sound of more than two minutes takes several pictures. --text finds the moments of a
text that is known. With --beam an n-gram model of the same characters, which its method
`save` wrote, makes likely texts more likely.

RUN may also be a folder with the weights of a Whisper, of Hugging Face or of KerasHub.
It finds the language, or translates into English.

Examples:
  kerasseq transcribe runs/speech-conformer-1 sound.wav
  kerasseq transcribe runs/speech-conformer-1 one.wav two.wav --beam 16 --json
  kerasseq transcribe runs/speech-conformer-1 sound.wav --beam 16 \
    --language-model words.json --weight 0.6 --bonus 1
  kerasseq transcribe runs/speech-conformer-1 sound.wav --align picture.png
  kerasseq transcribe runs/speech-conformer-1 sound.wav --text SOS --align picture.png
  kerasseq transcribe whisper-tiny speech.wav --language French --timestamps
"""

import argparse
import os
import pathlib
from typing import Any

import numpy as np

from kerasseq.cli import figures, options, runs, speech_data, text_models
from kerasseq.cli.console import (
    choose_backend,
    clock,
    note,
    print_json,
    print_result,
    progress,
    status,
)
from kerasseq.cli.errors import UsageError, given, refuse
from kerasseq.core import checks
from kerasseq.datasets import read_wave
from kerasseq.text import NGramModel

DRAWN = 120  # seconds of a picture
MOST_WEIGHT = 1000  # of the log-probability of a language model
WEIGHT, BONUS = 0.5, 0.0  # of a language model, as for `transcribe` of the model
DIGITS = 4  # of seconds and log-probabilities
KINDS = ("whisper", "WhisperBackbone")  # of folders
WHISPERS = ("whisper", "Whisper")  # the model of a run, or the class of a file
TASKS = ("transcribe", "translate")
OWN = ("language", "task", "timestamps")  # options for a Whisper alone
OF_CTC = ("language_model", "text")  # and for a recognizer alone


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("transcribe")
    options.add_run(parser)
    text = "a WAV file"
    parser.add_argument("files", nargs="+", metavar="FILE", help=text)
    text = "prefixes that a search keeps (default: the best path, without a search)"
    options.add(parser, "--beam", options.integer(at_most=1000), text)
    text = "a file that text.NGramModel wrote, with the tokenizer of the model"
    options.add(parser, "--language-model", str, text, "FILE")
    text = f"how much the language model counts (default: {WEIGHT})"
    weight = options.bounded(
        lambda x: 0 <= x <= MOST_WEIGHT, f"from 0 to {MOST_WEIGHT}"
    )
    options.add(parser, "--weight", weight, text, "X")
    text = "what each character adds, as a language model favors short texts (default: "
    options.add(parser, "--bonus", options.real, f"{text}{BONUS:g})", "X")
    text = "the text of the file, if it is known: find when each character comes"
    options.add(parser, "--text", str, text, "TEXT")
    text = "draw the spectrogram with the time of each character, as PNG; a-1.png, "
    text += f"a-2.png … of {DRAWN} seconds each if the sound is longer"
    options.add(parser, "--align", str, text, "FILE")
    text = "of a Whisper: the language, by code or name (default: it is found)"
    options.add(parser, "--language", str, text, "NAME")
    text = "of a Whisper: translate writes English (default: transcribe)"
    options.add(parser, "--task", options.one_of("task", TASKS), text, "NAME")
    text = "of a Whisper: write when each segment begins and ends"
    options.add(parser, "--timestamps", None, text)
    options.add_json(parser)
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq transcribe`."""
    check_arguments(args)
    is_whisper = check_run(args.folder)
    check_kind(args, is_whisper)
    for file in args.files:  # before Keras is loaded
        read_wave(file)
    searched = search(args)
    choose_backend(args.backend)
    model = load(args.folder)
    results = transcripts(model, args, searched, is_whisper)
    if args.align is not None:
        draw(args.align, model, args.files[0], results[0])
    show(args, results, is_whisper)


def load(folder: str) -> Any:
    """Loads the model of a run, or of a folder of published weights."""
    if is_checkpoint(folder):
        files = "vocab.json and merges.txt, and"
        return text_models.load_with_tokenizer(folder, folder, files)
    return runs.load_model(folder)[0]


def show(args: argparse.Namespace, results: list[Any], is_whisper: bool) -> None:
    """Prints the transcripts."""
    pairs = list(zip(args.files, results, strict=True))
    if args.json:
        plain = whisper_json if is_whisper else as_json
        print_json([plain(file, each) for file, each in pairs])
        return
    for file, each in pairs:
        if args.timestamps:
            name = f"{file}\n" if len(results) > 1 else ""
            print_result(f"{name}{lines(each)}")
        else:
            name = f"{file}  " if len(results) > 1 else ""
            print_result(f"{name}{each.text}")


def check_arguments(args: argparse.Namespace) -> None:
    """Raises a `UsageError` if arguments do not go together."""
    if (count := len(args.files)) > 1:
        of_one = given(args, "align", "text")
        refuse(of_one, f"is for one file, received {count}: give one")
    if args.text is not None and args.beam is not None:
        raise UsageError("--beam and --text exclude each other: give one")
    if args.text is not None and not args.text:
        raise UsageError('--text must be the text of the file, received ""')
    check_search(args)
    if args.align is not None:
        figures.require()


def check_search(args: argparse.Namespace) -> None:
    """Raises a `UsageError` if options of a language model come without it."""
    if args.language_model is None:
        refuse(given(args, "weight", "bonus"), "needs a --language-model: give one")
    if args.language_model is not None and args.beam is None:
        raise UsageError("--language-model needs a search: give --beam, such as 16")


def check_run(folder: str) -> bool:
    """Returns whether the model is a Whisper, without loading Keras.

    Raises:
        ValueError: If the model reads no sounds.
    """
    if is_checkpoint(folder):
        check_checkpoint(folder)
        return True
    _, record = runs.find_model(folder)
    kind = runs.kind(folder, record)
    if kind not in runs.SPEECH:
        raise ValueError(
            f"expected a run of  kerasseq train speech,  received {kind} in {folder}"
        )
    model = kind if record is None else record["arguments"]["model"]
    return model in WHISPERS


def search(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the search, with the language model."""
    if args.language_model is None:
        return {"beam": args.beam}
    return {
        "beam": args.beam,
        "language_model": NGramModel.load(args.language_model),
        "weight": WEIGHT if args.weight is None else args.weight,
        "bonus": BONUS if args.bonus is None else args.bonus,
    }


def transcripts(
    model: Any, args: argparse.Namespace, searched: dict[str, Any], is_whisper: bool
) -> list[Any]:
    """Returns the transcript of each file."""
    results = []
    for number, file in enumerate(args.files, start=1):
        where = f" {number} of {len(args.files)}" if len(args.files) > 1 else ""
        what = f"transcribing file{where}"
        if is_whisper:
            with speech_data.named([file]):
                results.append(transcribe_whisper(model, file, what, args))
            continue
        with status(what), speech_data.named([file]):
            if args.text is None:
                results += transcribe(model, file, searched, args.language_model)
            else:
                results.append(align(model, file, args.text))
    return results


def transcribe(
    model: Any, file: str, searched: dict[str, Any], language_file: str | None
) -> list[Any]:
    """Transcribes a file; errors about the language model name its file."""
    try:
        return model.transcribe([file], **searched)
    except ValueError as error:
        if not str(error).startswith("language_model"):
            raise
        raise ValueError(f"{language_file}: {error}") from error


def align(model: Any, file: str, text: str) -> Any:
    """Finds when each token of a known text is said."""
    try:
        return model.align(file, text)
    except ValueError as error:
        words = str(error).removeprefix("y[0] ").removeprefix("labels[0] ")
        raise ValueError(f"--text {checks.short(text)} and {file}: {words}") from error


def as_json(file: str, transcript: Any) -> dict[str, Any]:
    """Returns a transcript as plain data, with the seconds of each character."""
    times = np.round(transcript.times, DIGITS).tolist()
    return {
        "file": file,
        "text": transcript.text,
        "log_probability": round(transcript.log_probability, DIGITS),
        "characters": [
            {"character": token, "start": start, "end": end}
            for token, (start, end) in zip(transcript.tokens, times, strict=True)
        ],
    }


def draw(path: str, model: Any, file: str, transcript: Any) -> None:
    """Draws the spectrogram of a file with the time of each character, by pages."""
    from keras import ops  # here, as the help loads no Keras

    from kerasseq.tracing.transcript_plot import plot_transcript

    sound, rate = model.preprocessor.read(file), model.preprocessor.sampling_rate
    to, every = pathlib.Path(path), pages(len(sound), rate, transcript)
    to.parent.mkdir(parents=True, exist_ok=True)
    with status("drawing the figure"):
        for number, (start, end, shown) in enumerate(every, start=1):
            part = sound[start:end]
            frames = ops.convert_to_numpy(model.get_layer("log_mel")(part[None]))[0]
            title, name = f"{os.path.basename(file)}: {shown.text}", to
            if len(every) > 1:
                title = f"{title}, from {start // rate:,} s on"
                name = to.with_stem(f"{to.stem}-{number}")
            words = shown.tokens, shown.times, len(part) / rate, title
            figures.save(plot_transcript(frames, *words), name)
    if len(every) > 1:
        note(f"alignment: {len(every)} pictures, {name} is the last")
    else:
        note(f"alignment: {path}")


def pages(samples: int, rate: int, transcript: Any) -> list[tuple[int, int, Any]]:
    """Cuts a sound into pages.

    Args:
        samples: Its length.
        rate: Samples a second.
        transcript: Its `Transcript`.

    Returns:
        For each page the first sample, the one after the last, and the `Transcript` of
        the tokens whose middle it has, in seconds from its start.
    """
    size, middles = DRAWN * rate, transcript.times.mean(axis=1) * rate
    parts = []
    # The end of a second that is only begun belongs to the page before.
    for start in range(0, max(samples - rate, 1), size):
        end = samples if start + size >= samples - rate else start + size
        last = np.inf if end == samples else end
        kept = np.flatnonzero((start <= middles) & (middles < last))
        tokens = [transcript.tokens[n] for n in kept]
        is_part = len(kept) < len(transcript.tokens)
        text = "".join(tokens) if is_part else transcript.text
        times = transcript.times[kept] - start / rate
        shown = transcript._replace(text=text, tokens=tokens, times=times)
        parts.append((start, end, shown))
    return parts


# A Whisper: of a run, or of a folder of published weights


def is_checkpoint(folder: str) -> bool:
    """Returns whether a folder holds published weights, and no run."""
    path = pathlib.Path(folder)
    return (path / text_models.CONFIG).is_file() and not (path / runs.MODEL).exists()


def check_checkpoint(folder: str) -> None:
    """Raises a `ValueError` unless a folder of published weights holds a Whisper."""
    if (kind := text_models.name_in(pathlib.Path(folder))) not in KINDS:
        raise ValueError(
            f"{folder} holds a model of the kind {kind!r}, expected one of "
            f"{', '.join(KINDS)}, or a run of  kerasseq train speech"
        )


def check_kind(args: argparse.Namespace, is_whisper: bool) -> None:
    """Raises a `UsageError` if an option is for the other kind of model."""
    kinds = ("a Whisper", "a model with CTC")
    here, there = kinds if is_whisper else kinds[::-1]
    others = OF_CTC if is_whisper else OWN
    refuse(
        [name for name in others if getattr(args, name) not in (None, False)],
        f"is for {there}, but {args.folder} holds {here}. Leave it out",
    )


def transcribe_whisper(
    model: Any, file: str, what: str, args: argparse.Namespace
) -> Any:
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
        (transcript,) = model.transcribe(
            [sound],
            language=args.language,
            task=args.task or TASKS[0],
            timestamps=bool(args.timestamps),
            beam=args.beam,
            align=args.json or args.align is not None,
            seed=0,
            progress=lambda done, _: show(min(int(done), seconds)),
        )
    return transcript


def lines(transcript: Any) -> str:
    """Returns a transcript with a line for each segment, with its times."""
    return "\n".join(
        f"[{moment(part.start)} – {moment(part.end)}] {part.text}"
        for part in transcript.segments
    )


def moment(seconds: float) -> str:
    """Formats a moment as minutes, seconds and hundredths, as times are of 20 ms.

    Examples:
        >>> moment(83.04)
        '1:23.04'
    """
    whole, hundredths = divmod(round(100 * seconds), 100)
    return f"{clock(whole)}.{hundredths:02d}"


def whisper_json(file: str, transcript: Any) -> dict[str, Any]:
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
        for part in transcript.segments
    ]
    times = np.round(transcript.times, DIGITS).tolist()
    tokens = [
        {"token": token, "start": start, "end": end}
        for token, (start, end) in zip(transcript.tokens, times, strict=True)
    ]
    text = {"file": file, "text": transcript.text, "language": transcript.language}
    return {**text, "segments": segments, "tokens": tokens}
