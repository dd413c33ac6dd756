"""`kerasseq prepare`: the ids of a text that is larger than memory, in files."""

import argparse
import math
import os
import pathlib
import re
import time

import kerasseq.text
from kerasseq.cli import options, text_models, tokenize
from kerasseq.cli.console import Console, note, print_json, progress, status
from kerasseq.cli.errors import UsageError
from kerasseq.datasets import TokenShards, documents, prepare_shards, shard_writing
from kerasseq.datasets.token_shards import INDEX, TOKENIZER
from kerasseq.text.tokenizers.tokenizer import Tokenizer

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
TRAIN_ON, END = 50 * 10**6, "<|endoftext|>"
WITH_END = ("word", "bpe", "unigram")  # which take an end token
MEGABYTE = 10**6  # bytes
FOR_A_PROCESS = 4 * MEGABYTE  # from which on another process is worth its start


def size(word: str) -> int:
    """Parses a size of text: a number of bytes, with kB, MB or GB.

    Examples:
        >>> size("50MB"), size("1.5 kB")
        (50000000, 1500)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?b?)", word.strip().lower())
    unit = UNITS[match[2].removesuffix("b")] if match else 0
    count = round(float(match[1]) * unit) if match else 0
    if count < 1:
        raise argparse.ArgumentTypeError(
            f"expected a size such as 50MB, received {word!r}"
        )
    return count


def separator(word: str) -> str:
    r"""Parses a separator, in which `\n` is written for the end of a line.

    Examples:
        >>> separator(r"\n\n") == "\n" * 2
        True
    """
    return word.replace(r"\n", "\n").replace(r"\t", "\t")


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add(
        "prepare",
        """\
Tokenize texts of any size into a folder of ids, from which  kerasseq train
language-model --data DIR  trains without reading the text into memory. Documents are
the lines of .jsonl, the rows of .parquet, and the texts of .txt, or their parts between
separators; .txt and .jsonl may be compressed (.gz). When it is stopped, the same
command goes on where it was.""",
        """\
examples:
  kerasseq prepare articles/ --tokenizer bpe --vocabulary-size 4096 --out ids
  kerasseq prepare a.jsonl.gz b.parquet --column body --tokenizer my.json --out ids
  kerasseq train language-model --data ids --model gpt --steps 1000""",
    )
    parser.add_argument("source", nargs="*", metavar="FILE", help="files, or folders")
    text = "the folder of the ids, to be made"
    options.add(parser, "--out", str, text, "DIR")
    tokenize.add_tokenizer(parser)
    text = "text that a tokenizer by name is trained on, drawn from all"
    shown = {"default": TRAIN_ON, "shown": "50MB"}
    options.add(parser, "--train-on", size, text, "SIZE", **shown)
    text = "fraction of the documents that is held out"
    options.add(parser, "--held-out", options.fraction, text, "X", default=0.005)
    text = "key of the text in .jsonl, column in .parquet"
    options.add(parser, "--column", str, text, "NAME", default="text")
    text = r'what separates the documents of a .txt, such as "\n\n" for empty lines '
    text += f'(default: {END}); "" for none'
    options.add(parser, "--separator", separator, text, "TEXT", default=END)
    options.add_encoding(parser)
    number, default = options.integer(), shard_writing.SHARD
    shown = {"default": default, "shown": f"{default:,}"}
    options.add(parser, "--shard-tokens", number, "tokens of a file", **shown)
    number = options.integer(at_most=1024)
    shown = {"default": os.cpu_count() or 1, "shown": "one for each core"}
    text = "processes that tokenize"
    options.add(parser, "--processes", number, text, **shown)
    options.add_seed(parser, 0)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq prepare`."""
    if not args.source or not args.out:
        raise UsageError(
            "expected files and a folder, as in  kerasseq prepare articles/ --out ids"
        )
    files, others = documents.find_files(map(pathlib.Path, args.source))
    if others:
        note(f"{others:,} other files of the folders are left out")
    encoding = args.encoding or "utf-8"
    text = documents.Source(tuple(files), args.column, encoding, args.separator)
    tokenizer = _tokenizer(args, text)
    total, start = text.size, time.perf_counter()
    made = pathlib.Path(args.out)
    index = shard_writing.read_index(made) if (made / INDEX).exists() else {}
    is_finished = index.get("finished", False)
    enough = max(math.ceil(total / FOR_A_PROCESS), 1)
    try:
        with progress("tokenizing, in MB", max(total // MEGABYTE, 1)) as show:
            shards = prepare_shards(
                files,
                tokenizer,
                args.out,
                held_out=args.held_out,
                column=args.column,
                separator=args.separator,
                encoding=encoding,
                shard_tokens=args.shard_tokens,
                processes=min(args.processes, enough),
                seed=args.seed,
                progress=lambda read: show(max(read // MEGABYTE, 1)),
            )
    except KeyboardInterrupt:
        note("to go on where it stopped, run the same command")
        raise
    seconds = time.perf_counter() - start
    if is_finished:
        note(f"the folder {made} is finished: nothing is tokenized again")
    _show(args, shards, None if is_finished else total / MEGABYTE / seconds)


def _tokenizer(args, text) -> Tokenizer:
    """Loads or trains the tokenizer; that of the folder, if there are ids in it."""
    if args.tokenizer not in text_models.TOKENIZERS:
        return text_models.tokenizer_by_name(args.tokenizer, args.vocabulary_size, "")
    cls, is_sized = text_models.TOKENIZERS[args.tokenizer]
    made = pathlib.Path(args.out)
    if (made / INDEX).exists() and (made / TOKENIZER).exists():
        tokenizer = kerasseq.text.load_tokenizer(made / TOKENIZER)
        is_larger = is_sized and tokenizer.vocabulary_size > args.vocabulary_size
        if type(tokenizer).__name__ != cls or is_larger:
            raise ValueError(
                f"{made} holds shards of another tokenizer, {tokenizer!r}. Choose "
                "another folder, or delete this one first"
            )
        note(f"the tokenizer is the one in {made}, {tokenizer!r}")
        return tokenizer
    if made.exists() and (not made.is_dir() or any(made.iterdir())):
        raise ValueError(
            f"{made} is not empty, and holds no shards: choose a new folder"
        )
    with status("reading the text that the tokenizer is trained on"):
        sample = documents.sampled(text, args.train_on, args.seed)
    if not sample:
        raise ValueError(f"the files have no text: {', '.join(args.source[:3])}")
    special = (shard_writing.END_TOKENS[0],) if args.tokenizer in WITH_END else ()
    start = time.perf_counter()
    tokenizer = text_models.train_tokenizer(
        args.tokenizer, args.vocabulary_size, sample, special
    )
    speed = len(sample) / MEGABYTE / (time.perf_counter() - start)
    note(
        f"the tokenizer is trained on {len(sample):,} characters, {speed:.2f} million "
        "a second"
    )
    return tokenizer


def _show(args, shards, speed):
    """Prints what is in the folder, and how many MB of files were read a second."""
    folder, end = pathlib.Path(args.out), shard_writing.end_token(shards.tokenizer)
    parts, index = {"training": shards}, shard_writing.read_index(folder)
    if index["parts"]["held_out"]:
        # With documents apart it may be a single token.
        parts["held_out"] = TokenShards(folder, "held_out", documents_apart=True)
    counts = {
        name: {"tokens": len(part.ids), "documents": len(part.ends)}
        for name, part in parts.items()
    }
    if args.json:
        about = {"vocabulary_size": shards.vocabulary_size, "end_token": end}
        print_json(
            {"folder": str(folder), **about, **counts, "megabytes_per_second": speed}
        )
        return
    console = Console()
    rows = [
        (name.replace("_", " "), f"{part['tokens']:,}", f"{part['documents']:,}")
        for name, part in counts.items()
    ]
    console.table(str(folder), ("part", ">tokens", ">documents"), rows)
    if index["held_out_is_end"]:
        console.write(
            "No document was drawn to be held out, as there are few: the end of the "
            "text is held out instead."
        )
    console.write(
        f"{shards.vocabulary_size:,} kinds of tokens; "
        + (f"{end} ends a document" if end else "no token ends a document")
        + (f"; {speed:.1f} MB of files a second." if speed else ".")
    )
    console.write(f"To train:  kerasseq train language-model --data {folder}")
