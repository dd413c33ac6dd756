"""`kerasseq tokens`: how a tokenizer cuts a text."""

import json
import os
import sys

from kerasseq.cli import runs, tokenizing
from kerasseq.cli.console import Console, note
from kerasseq.cli.waiting import waiting
from kerasseq.datasets import python_reference, text_file

MERGES = 20  # shown of the training
LONGEST = 1_000_000  # characters of a file: each token takes some 200 bytes


def run(args):
    """Run `kerasseq tokens`."""
    text = _text(args)
    if args.save is not None:
        _check_free(args.save)
    tokenizer, source = _tokenizer(args)
    if args.save is not None:
        tokenizer.save(args.save)
    with waiting("tokenizing the text"):
        tokenizing.tell_unknown(tokenizer, text, "text")
        encoding = tokenizer.encode_with_offsets(text)
    if args.json:
        _print_json(text, tokenizer, encoding)
        return
    console = Console()
    console.say(_line(text, encoding))
    count, size = len(encoding.ids), tokenizer.vocabulary_size
    each = f", {len(text) / count:.2f} characters each" if count else ""
    console.say(f"{count} tokens{each}; {source}, with a vocabulary of {size:,}")
    if args.table:
        _table(console, text, encoding)
    if args.trace:
        _trace(console, tokenizer)
    if args.save is not None:
        console.say(f"The tokenizer is kept in {args.save}")


def _text(args):
    if args.file is not None:
        text = text_file(args.file, args.encoding)
        if len(text) > LONGEST:
            note(
                f"of the {len(text):,} characters the first {LONGEST:,} are tokenized. "
                "In Python, tokenizer.encode(text) takes all"
            )
        return text[:LONGEST]
    if args.text is None:
        raise ValueError('there is no text: give one, as in  kerasseq tokens "to be"')
    return args.text


def _check_free(path):
    """Raise unless a tokenizer may be written there: over another of ours at most."""
    if not os.path.lexists(path):
        return
    ours = {f"kerasseq.{name}" for name, _ in tokenizing.KINDS.values()}
    try:
        content = runs.read_json(path)
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or content.get("format") not in ours:
        raise ValueError(
            f"{path} exists and is no tokenizer that kerasseq saved, so it is not "
            "overwritten. Name another file with --save, or delete it first"
        )


def _tokenizer(args):
    """The tokenizer, and a few words on where it comes from."""
    if args.tokenizer not in tokenizing.KINDS:
        tokenizer = tokenizing.make(args.tokenizer, args.vocabulary_size, "")
        return tokenizer, f"{args.tokenizer} as loaded"
    corpus, source = python_reference(), "python-reference"
    if args.corpus is not None:
        corpus, source = text_file(args.corpus), os.path.basename(args.corpus)
        if not corpus:
            raise ValueError(f"{args.corpus} is empty: there is nothing to learn from")
    tokenizer = tokenizing.make(args.tokenizer, args.vocabulary_size, corpus)
    return tokenizer, f"{args.tokenizer} learned from {source}"


def _line(text, encoding):
    """The text with a bar wherever it is cut."""
    parts, done = [], 0
    for start, end in encoding.offsets.tolist():
        if start >= done and end > start:  # tokens may share one character, or none
            parts.append(text[start:end])
            done = end
    return "|".join(parts)


def _table(console, text, encoding):
    rows = [
        (i, token, repr(text[start:end]), f"{start}-{end}")
        for i, token, (start, end) in zip(
            encoding.ids, encoding.tokens, encoding.offsets.tolist(), strict=True
        )
    ]
    console.table("Tokens", (">id", "token", "from", ">place"), rows)


def _trace(console, tokenizer):
    """How the vocabulary came about, where there is something to tell."""
    merges = getattr(tokenizer, "trace", list)()
    if not merges or not hasattr(merges[0], "left"):
        note("this tokenizer was not made by merges: there is no trace of them")
        return
    rows = [
        (number, merge.left, merge.right, merge.token, merge.count)
        for number, merge in enumerate(merges[:MERGES], 1)
    ]
    columns = (">merge", "left", "right", "token", ">count")
    console.table(f"The first {len(rows)} of {len(merges):,} merges", columns, rows)


def _print_json(text, tokenizer, encoding):
    found = {
        "text": text,
        "tokens": encoding.tokens,
        "ids": encoding.ids.tolist(),
        "offsets": encoding.offsets.tolist(),
        "vocabulary_size": tokenizer.vocabulary_size,
    }
    json.dump(found, sys.stdout, ensure_ascii=False, indent=1)
    print()
