"""`kerasseq translate`: translate texts with a trained model."""

import json
import pathlib
import sys

from kerasseq.cli import runs
from kerasseq.cli.console import note
from kerasseq.cli.errors import UsageError
from kerasseq.cli.loading import find, load
from kerasseq.cli.train import choose_backend
from kerasseq.cli.waiting import waiting

RUNS = "runs"  # where runs are kept if nothing else is said
TOGETHER = 256  # texts that are translated before they are printed
LARGEST = 10**7  # characters from a pipe


def run(args):
    """Run `kerasseq translate`."""
    if args.candidates > 1 and (args.beam or 1) < args.candidates:
        raise UsageError(
            f"--candidates {args.candidates} needs a --beam of at least as many"
        )
    texts = read_texts(args)
    if args.align and len(texts) > TOGETHER:
        raise UsageError(
            f"--align draws at most {TOGETHER} texts, received {len(texts):,}"
        )
    folder = args.run or newest_run()
    find(folder)
    choose_backend(args.backend)
    model, _ = load(folder)
    _check(model, args, folder)
    listed = []
    for start in range(0, len(texts), TOGETHER):
        part = texts[start : start + TOGETHER]
        found = _translate(model, part, start, args)
        if args.json:
            listed += map(as_json, part, found)
        else:
            for translation in found:
                say(translation, args.candidates)
            sys.stdout.flush()
    if args.json:
        json.dump(listed, sys.stdout, indent=1, ensure_ascii=False)
        print()


def _check(model, args, folder):
    """Raise unless the model can do what was asked for."""
    if not hasattr(model, "translate"):
        raise ValueError(
            f"the model in {folder} does not translate. Train one with  "
            "kerasseq train translation"
        )
    if args.align and model.alignment_model is None:
        raise ValueError(
            f"the model in {folder} has no alignments to draw: it was trained with "
            "--attention none"
        )


def _translate(model, texts, start, args):
    """Translate the texts from number `start` on, and draw their alignments."""
    for text in texts:
        mark_unknown(model.source_side.tokenizer, text)
    with waiting(f"translating texts {start + 1:,} to {start + len(texts):,}"):
        found = model.translate(
            texts, beam=beam(args), length=args.length, alignments=bool(args.align)
        )
    if args.align:
        draw(args.align, found)
    return found


def read_texts(args) -> list[str]:
    """The texts, from the command line, a file, or what is piped in."""
    if args.file is not None:
        from kerasseq.datasets import text_file

        lines = text_file(args.file, args.encoding).splitlines()
    elif args.texts:
        lines = args.texts
    elif not sys.stdin.isatty():
        lines = _piped().splitlines()
    else:
        raise UsageError('say what to translate, such as  kerasseq translate "ten"')
    texts = [line for line in lines if line.strip()]
    if not texts or (args.texts and len(texts) < len(lines)):
        raise ValueError("there is an empty text: nothing can be translated")
    return texts


def _piped() -> str:
    """What is piped in."""
    text = sys.stdin.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(
            f"what is piped in must have at most {LARGEST:,} characters: translate it "
            "in parts"
        )
    return text


def newest_run() -> pathlib.Path:
    """The newest run of the task that has a model.

    Raises:
        FileNotFoundError: If there is none.
    """
    found = []
    for file in pathlib.Path(RUNS).glob(f"*/{runs.MODEL}"):
        record = file.parent / runs.RUN
        if record.exists() and runs.read(file.parent)["task"] == "translation":
            found.append((file.stat().st_mtime, file.parent))
    if not found:
        raise FileNotFoundError(
            f"there is no translation run below {RUNS}/: train one with  "
            "kerasseq train translation  or name one with --run"
        )
    return max(found)[1]


def beam(args):
    """The beam that was asked for, or None."""
    if args.beam is None:
        return None
    from kerasseq.decoding import Beam

    return Beam(args.beam, n_best=args.candidates)


def mark_unknown(tokenizer, text):
    """Show on stderr which characters of a text the model has never seen."""
    count = getattr(tokenizer, "unknown_characters", None)
    unknown = count(text) if count else {}
    if unknown:
        marked = "".join(f"[{c}]" if c in unknown else c for c in text)
        note(f"never seen, and read as unknown: {marked}")


def draw(path, translations):
    """Draw the alignments."""
    from kerasseq.cli import figures

    figures.require()
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures.alignments(path, translations)
    note(f"alignments: {path}")


def as_json(text, translation):
    """A translation as plain data."""
    return {
        "source": text,
        "translation": translation.text,
        "score": translation.score,
        "candidates": [list(one) for one in translation.candidates],
        "unknown": translation.unknown,
    }


def say(translation, candidates):
    """Print a translation, or its candidates with their scores."""
    if candidates == 1:
        print(translation.text)
        return
    for text, score in translation.candidates:
        print(f"{score:8.3f}  {text}")
