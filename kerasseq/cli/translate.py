"""`kerasseq translate`: translations by the model of a run.

Translate texts with the model of a translation run. Characters that the training data
did not contain are marked and translated as unknown.

Examples:
  kerasseq translate "twenty-one"
  kerasseq translate "twenty-one" "one hundred" --beam-width 4 --candidates 3
  kerasseq translate --file lines.txt --run runs/translation-gru-1
  kerasseq translate "twenty-one" --align alignment.png
"""

import argparse
import pathlib
import sys
from typing import Any

import kerasseq
from kerasseq.cli import figures, options, runs
from kerasseq.cli.console import choose_backend, note, print_json, print_result, status
from kerasseq.cli.errors import UsageError
from kerasseq.datasets import text_file
from kerasseq.text.tokenizers.tokenizer import Tokenizer

RUNS = "runs"  # default folder of runs
BATCH = 256  # texts that are translated before they are printed
MAX_PIPED = 10**7  # characters from a pipe
MAX_CHARACTERS = 10_000  # of a text, which takes as many steps and more
Translations = list[Any]  # as from the method `translate` of a model


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("translate")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text")
    source.add_argument("--file", metavar="FILE", help="a file with a text per line")
    options.add_encoding(parser)
    text = f"folder of a run (default: the newest translation run in {RUNS}/)"
    options.add(parser, "--run", str, text, "RUN")
    text = "width of the beam search (default: greedy search)"
    options.add(parser, "--beam-width --beam", options.integer(at_most=1000), text)
    text = "with --beam-width: print the N best translations with log-probabilities"
    options.add(parser, "--candidates", options.integer(), text, default=1)
    text = "maximum number of tokens (default: depends on the length of the text)"
    options.add(parser, "--max-length --length", options.length, text)
    options.add(parser, "--align", str, "draw the alignments as PNG", "FILE")
    options.add_json(parser)
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq translate`."""
    if args.candidates > 1 and (args.beam_width or 1) < args.candidates:
        raise UsageError(
            f"--candidates {args.candidates} needs a --beam-width of at least "
            f"{args.candidates}"
        )
    folder = args.run or newest_run()
    runs.find_model(folder)
    texts = read_texts(args)
    if args.align and len(texts) > BATCH:
        raise UsageError(
            f"--align draws at most {BATCH} texts, received {len(texts):,}: give fewer"
        )
    choose_backend(args.backend)
    model, _ = runs.load_model(folder)
    _check_model(model, args, folder)
    results = []
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        translations = _translate(model, batch, start, args)
        if args.json:
            results += map(as_json, batch, translations)
        else:
            for translation in translations:
                print_translation(translation, args.candidates)
            sys.stdout.flush()
    if args.json:
        print_json(results)


def _check_model(model, args, folder):
    if not hasattr(model, "translate"):
        raise ValueError(
            f"expected a translation model, received {type(model).__name__} in "
            f"{folder}, which does not translate. Train one with  "
            "kerasseq train translation"
        )
    if args.align and model.alignment_model is None:
        raise ValueError(
            f"the model in {folder} has no alignments to draw: it was trained with "
            "--attention none"
        )


def _translate(model, texts, start, args):
    """Translates the texts from number `start` on, and draws their alignments."""
    for text in texts:
        note_unknown(model.source_tokenizer, text)
    beam = None
    if args.beam_width is not None:
        beam = kerasseq.decoding.Beam(args.beam_width, n_best=args.candidates)
    with status(f"translating texts {start + 1:,} to {start + len(texts):,}"):
        translations = model.translate(
            texts, max_length=args.max_length, sampler=beam, alignments=bool(args.align)
        )
    if args.align:
        draw_alignments(args.align, translations)
    return translations


def read_texts(args: argparse.Namespace) -> list[str]:
    """Reads the texts from the command line, a file or a pipe."""
    if args.file is not None:
        lines = text_file(args.file, args.encoding).splitlines()
    elif args.texts:
        lines = args.texts
    elif not sys.stdin.isatty():
        piped = sys.stdin.read(MAX_PIPED + 1)
        if len(piped) > MAX_PIPED:
            raise ValueError(
                f"expected at most {MAX_PIPED:,} characters from the pipe, received "
                "more: translate the text in parts"
            )
        lines = piped.splitlines()
    else:
        raise UsageError('expected a text, as in  kerasseq translate "ten"')
    texts = [line for line in lines if line.strip()]
    if not texts or (args.texts and len(texts) < len(lines)):
        raise ValueError("expected texts to translate, received an empty text")
    longest = max(texts, key=len)
    if len(longest) > MAX_CHARACTERS:
        raise ValueError(
            f"{args.file or 'the input'} must have texts of at most "
            f"{MAX_CHARACTERS:,} characters, received one of {len(longest):,}, which "
            f"begins with {longest[:20]!r}. Give each sentence a line of its own"
        )
    return texts


def newest_run() -> pathlib.Path:
    """Returns the newest translation run that has a model.

    Raises:
        FileNotFoundError: If there is none.
    """
    folders = []
    for file in pathlib.Path(RUNS).glob(f"*/{runs.MODEL}"):
        record = file.parent / runs.RUN
        if record.exists() and runs.read(file.parent)["task"] == "translation":
            folders.append((file.stat().st_mtime, file.parent))
    if not folders:
        raise FileNotFoundError(
            f"there is no translation run in {RUNS}/: train one with  "
            "kerasseq train translation  or choose one with --run"
        )
    return max(folders)[1]


def note_unknown(tokenizer: Tokenizer, text: str) -> None:
    """Marks the characters that the training data did not contain, on stderr."""
    count = getattr(tokenizer, "unknown_characters", None)
    unknown = count(text) if count else {}
    if unknown:
        marked = "".join(f"[{c}]" if c in unknown else c for c in text)
        note(f"not in the training data, and read as unknown: {marked}")


def draw_alignments(path: str, translations: Translations) -> None:
    """Draws the alignments to a file."""
    figures.require()
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures.alignments(path, translations)
    note(f"alignments: {path}")


def as_json(text: str, translation: Any) -> dict[str, Any]:
    """Returns a translation as plain data."""
    return {
        "source": text,
        "translation": translation.text,
        "score": translation.score,
        "candidates": [list(one) for one in translation.candidates],
        "unknown": translation.unknown,
    }


def print_translation(translation: Any, candidates: int) -> None:
    """Prints a translation, or its candidates with their scores."""
    if candidates == 1:
        print_result(translation.text)
        return
    for text, score in translation.candidates:
        print_result(f"{score:8.3f}  {text}")
