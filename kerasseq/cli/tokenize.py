"""`kerasseq tokenize`, and the tokens of texts that other commands read."""

import argparse
import array
import os

import numpy as np

from kerasseq.cli import options, text_models
from kerasseq.cli.console import Console, note, print_json, status
from kerasseq.cli.errors import truncate_word
from kerasseq.core.files import read_json
from kerasseq.datasets import python_reference, text_file
from kerasseq.text.tokenizers.tokenizer import Tokenizer

PART = 2**20  # characters that are tokenized at a time
MAX_MERGES = 20  # shown
MAX_FILE = 1_000_000  # characters of a file that are shown: each takes 200 bytes


def encode(tokenizer: Tokenizer, text: str) -> np.ndarray:
    """Returns the ids of a text, tokenized in parts to save memory.

    A part ends at the end of a line, if there is one.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> encode(CharacterTokenizer().fit("ab"), "abba").tolist()
        [0, 1, 1, 0]
    """
    ids, start = array.array("i"), 0  # it grows in place
    while start < len(text):
        end = start + PART
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        ids.frombytes(tokenizer.encode(text[start:end]).astype("int32").tobytes())
        start = end
    return np.frombuffer(ids, "int32")


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """Returns the part of the text that each token covers."""
    return [text[a:b] for a, b in tokenizer.encode_with_offsets(text).offsets.tolist()]


def note_unknown(tokenizer: Tokenizer, text: str, what: str) -> None:
    """Reports on stderr the characters or words that are not in the vocabulary."""
    has_words = hasattr(tokenizer, "unknown_words")
    unit = "words" if has_words else "characters"
    unknown = getattr(tokenizer, f"unknown_{unit}")(text)
    if unknown:
        known = "" if has_words else f" of the {len(text)}"
        shown = ", ".join(
            f"{truncate_word(c, 40)!r} ×{n}" for c, n in [*unknown.items()][:8]
        )
        more = ", …" if len(unknown) > 8 else ""
        note(
            f"{sum(unknown.values())}{known} {unit} of the {what} are not in the "
            f"training text and are read as unknown: {shown}{more}"
        )


# The command


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "tokenize",
        """\
Tokenize a text with a tokenizer that is trained on a text file or on the reference of
the Python language, or loaded from a file.""",
        """\
examples:
  kerasseq tokenize "unbelievable tokenizers" --tokenizer bpe
  kerasseq tokenize "to be" --corpus my.txt --vocabulary-size 500 --merges
  kerasseq tokenize --file my.txt --tokenizer my.json --table""",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("text", nargs="?", metavar="TEXT", help="the text")
    source.add_argument("--file", metavar="FILE", help="a text file instead")
    options.add_encoding(parser)
    add_tokenizer(parser)
    text, shown = "a text file to train on", "the reference of Python"
    options.add(parser, "--corpus", str, text, "FILE", shown=shown)
    options.add(parser, "--table", None, "print id and offsets of each token")
    options.add(parser, "--merges", None, "print the first merges of the training")
    options.add(parser, "--save", str, "save the tokenizer as JSON", "FILE")
    options.add_json(parser)


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    """Adds the tokenizer, and the size of one that is trained."""
    text = f"{', '.join(options.TOKENIZERS)}, or a file or folder"
    options.add(parser, "--tokenizer", str, text, "NAME", default="bpe")
    names = "--vocabulary-size --vocab-size"
    text, size = "maximum number of tokens in the vocabulary", options.VOCABULARY_SIZE
    options.add(parser, names, options.integer(), text, default=size)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq tokenize`."""
    text = _read_text(args)
    if args.save is not None:
        _check_overwritten(args.save)
    tokenizer, source = _make_tokenizer(args)
    if args.save is not None:
        tokenizer.save(args.save)
    with status("tokenizing the text"):
        note_unknown(tokenizer, text, "text")
        encoding = tokenizer.encode_with_offsets(text)
    if args.json:
        data = {
            "text": text,
            "tokens": encoding.tokens,
            "ids": encoding.ids.tolist(),
            "offsets": encoding.offsets.tolist(),
            "vocabulary_size": tokenizer.vocabulary_size,
        }
        print_json(data)
        return
    console = Console()
    console.write(_marked(text, encoding))
    count, size = len(encoding.ids), tokenizer.vocabulary_size
    mean = f", {len(text) / count:.2f} characters per token" if count else ""
    console.write(f"{count} tokens{mean}; {source}, vocabulary of {size:,}")
    if args.table:
        _show_table(console, text, encoding)
    if args.merges:
        _show_merges(console, tokenizer)
    if args.save is not None:
        console.write(f"The tokenizer is saved in {args.save}")


def _read_text(args):
    if args.file is not None:
        text = text_file(args.file, args.encoding)
        if len(text) > MAX_FILE:
            note(
                f"of the {len(text):,} characters the first {MAX_FILE:,} are "
                "tokenized. In Python, tokenizer.encode(text) tokenizes all"
            )
        return text[:MAX_FILE]
    if args.text is None:
        raise ValueError('expected a text, as in  kerasseq tokenize "to be"')
    return args.text


def _check_overwritten(path):
    """Raises if the path exists and is not a tokenizer that kerasseq saved."""
    if not os.path.lexists(path):
        return
    formats = {f"kerasseq.{cls}" for cls, _ in text_models.TOKENIZERS.values()}
    try:
        content = read_json(path)
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or content.get("format") not in formats:
        raise ValueError(
            f"{path} exists and is not a tokenizer of kerasseq, so it is not "
            "overwritten. Choose another file with --save, or delete it first"
        )


def _make_tokenizer(args):
    """Returns the tokenizer, and a description of its source."""
    if args.tokenizer not in text_models.TOKENIZERS:
        tokenizer = text_models.tokenizer_by_name(
            args.tokenizer, args.vocabulary_size, ""
        )
        return tokenizer, f"{args.tokenizer} as loaded"
    corpus, source = python_reference(), "python-reference"
    if args.corpus is not None:
        corpus = text_file(args.corpus, args.encoding)
        source = os.path.basename(args.corpus)
        if not corpus:
            raise ValueError(f"expected a text to train on, but {args.corpus} is empty")
    tokenizer = text_models.tokenizer_by_name(
        args.tokenizer, args.vocabulary_size, corpus
    )
    return tokenizer, f"{args.tokenizer} trained on {source}"


def _marked(text, encoding):
    """Returns the text with a bar between its tokens."""
    parts, done = [], 0
    for start, end in encoding.offsets.tolist():
        if start >= done and end > start:  # tokens may share a character or have none
            parts.append(text[start:end])
            done = end
    return "|".join(parts)


def _show_table(console, text, encoding):
    rows = [
        (i, token, repr(text[start:end]), f"{start}-{end}")
        for i, token, (start, end) in zip(
            encoding.ids, encoding.tokens, encoding.offsets.tolist(), strict=True
        )
    ]
    console.table("Tokens", (">id", "token", "text", ">offsets"), rows)


def _show_merges(console, tokenizer):
    merges = getattr(tokenizer, "trace", list)()
    if not merges or not hasattr(merges[0], "left"):
        note("this tokenizer has no merges to print")
        return
    rows = [
        (number, merge.left, merge.right, merge.token, merge.count)
        for number, merge in enumerate(merges[:MAX_MERGES], 1)
    ]
    columns = (">merge", "left", "right", "token", ">count")
    console.table(f"The first {len(rows)} of {len(merges):,} merges", columns, rows)
