"""`kerasseq prepare`: the ids of a text that is larger than memory, in files.

`train language-model --data DIR` reads these, or those of nanoGPT.
"""

import argparse
import math
import os
import pathlib
import re
import time
from typing import Any

import numpy as np

import kerasseq.text
from kerasseq.cli import options, text_models, tokenize
from kerasseq.cli.console import Console, note, print_json, progress, status
from kerasseq.cli.errors import UsageError, refuse
from kerasseq.core.files import sha256
from kerasseq.datasets import TokenShards, documents, prepare_shards, shard_writing
from kerasseq.datasets.token_shards import INDEX, NANO_GPT, TOKENIZER
from kerasseq.text.tokenizers.tokenizer import Tokenizer

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
TRAIN_ON, END = 50 * 10**6, "<|endoftext|>"
WITH_END = ("word", "bpe", "unigram")  # which take an end token
MEGABYTE = 10**6  # bytes
FOR_A_PROCESS = 4 * MEGABYTE  # from which on another process is worth its start
OF_SHARDS = ("tokenizer", "vocabulary_size", "chat")  # which the folder determines
END_OF_GPT2 = 50256  # the id of <|endoftext|>, which nanoGPT's shards have
DECODED = 2**14  # ids that are decoded at a time


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
        note(f"{others:,} other files or links of the folders are left out")
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
        wanted = getattr(tokenizer, "wanted_size", None)
        # A smaller one than wanted has learned all that the text has.
        is_full = is_sized and tokenizer.vocabulary_size == wanted
        if is_full and wanted < args.vocabulary_size:
            raise UsageError(
                f"{made} holds ids of a vocabulary of {wanted:,} tokens, and nothing "
                f"is tokenized again for --vocabulary-size {args.vocabulary_size:,}. "
                "Delete the folder or choose another --out, to prepare the files anew; "
                f"or keep the ids, with --vocabulary-size {wanted}"
            )
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


# A folder of ids as the data of a language model


def name_or_folder(names: tuple[str, ...]) -> Any:
    """Returns the type of `--data`: one of several names, or a folder."""

    def check(value):
        try:
            return (
                value if are_shards(value) else options.data_set(names, "text")(value)
            )
        except argparse.ArgumentTypeError as error:
            text = f"{error}, or give a folder of kerasseq prepare"
            raise argparse.ArgumentTypeError(text) from None

    return check


def are_shards(data: str | None) -> bool:
    """Returns whether `--data` is a folder, also one of a resumed run that is gone."""
    return data is not None and (os.path.isdir(data) or os.path.isabs(data))


def with_shards(arguments: dict[str, Any]) -> dict[str, Any]:
    """Checks the arguments that were given beside `--data`.

    Raises:
        UsageError: If one contradicts the folder, or needs one.
    """
    data = arguments.get("data")
    if not are_shards(data):
        if "documents_apart" in arguments:
            raise UsageError(
                "--documents-apart is for a folder of kerasseq prepare: give one as "
                "--data DIR, or leave it out"
            )
        return arguments
    if not os.path.isdir(data):
        raise UsageError(f"there is no folder {data} of kerasseq prepare (--data)")
    if not os.path.exists(os.path.join(data, INDEX)):
        _check_nano_gpt(data, arguments.get("tokenizer"))
        return {**arguments, "data": os.path.abspath(data)}
    refuse(
        [name for name in OF_SHARDS if name in arguments],
        f"cannot be chosen with --data {data}, whose tokenizer is there. Leave it out",
    )
    return {**arguments, "data": os.path.abspath(data)}


def _check_nano_gpt(data, tokenizer):
    if not os.path.exists(os.path.join(data, NANO_GPT["training"])):
        raise UsageError(
            f"--data {data} has neither {INDEX} of kerasseq prepare nor train.bin of "
            "nanoGPT"
        )
    if tokenizer is None or tokenizer in options.TOKENIZERS:
        raise UsageError(
            f"--data {data} has ids of nanoGPT, without their tokenizer. Add the "
            "folder of the tokenizer that made them, such as --tokenizer gpt2 for one "
            "of GPT-2"
        )
    if not os.path.exists(tokenizer):
        raise UsageError(
            f"there is no folder {tokenizer} (--tokenizer). That of GPT-2 is made by  "
            "hf download openai-community/gpt2 --local-dir gpt2"
        )


def open_shards(settings: options.Settings) -> tuple[TokenShards, dict[str, Any]]:
    """Opens the training part, and describes it."""
    shards = part_of(settings, "training")
    index = os.path.join(settings.data, INDEX)
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            checksum = sha256(file.read())
    else:
        checksum = sha256(f"{len(shards.ids)} {shards.fingerprint}")
    source = os.path.basename(settings.data)
    return shards, {"source": source, "tokens": len(shards.ids), "sha256": checksum}


def part_of(settings: options.Settings, part: str) -> TokenShards:
    """Opens a part of the folder, with blocks as the run reads them."""
    of_nano_gpt, index = {}, os.path.join(settings.data, INDEX)
    if os.path.isdir(settings.data) and not os.path.exists(index):
        name = settings.tokenizer
        tokenizer = text_models.tokenizer_by_name(name, settings.vocabulary_size, "")
        of_nano_gpt = {"tokenizer": tokenizer, "end": END_OF_GPT2}
    return TokenShards(
        settings.data,
        part,
        sequence_length=settings.sequence_length if part == "training" else 1,
        documents_apart=settings.documents_apart,
        **of_nano_gpt,
    )


def texts(settings: options.Settings, shards: TokenShards) -> tuple[str, str]:
    """Returns the held-out text, and the one that n-gram models are fitted to.

    Both are limited by the arguments of the run, and decoded from the ids.
    """
    held_out = part_of(settings, "held_out")
    first = decoded(shards.tokenizer, held_out.ids, settings.held_out)
    last = decoded(
        shards.tokenizer, shards.ids, settings.ngram_characters, from_end=True
    )
    return first, last


def decoded(
    tokenizer: Tokenizer, ids: Any, characters: int, *, from_end: bool = False
) -> str:
    """Decodes the first ids, or the last ones, to at most so many characters.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer().fit("abc")
        >>> ids = tokenizer.encode("abcabc")
        >>> decoded(tokenizer, ids, 4), decoded(tokenizer, ids, 2, from_end=True)
        ('abca', 'bc')
    """
    count = min(DECODED, len(ids))
    while True:
        part = ids[len(ids) - count :] if from_end else ids[:count]
        text = tokenizer.decode(np.asarray(part))
        if len(text) >= characters or count == len(ids):
            return text[-characters:] if from_end else text[:characters]
        count = min(2 * count, len(ids))


def describe(
    data: dict[str, Any], tokenizer: Tokenizer, held_out: str, ngram_text: str
) -> str:
    """Describes the ids and their parts."""
    return (
        f"{data['source']}: {data['tokens']:,} tokens, "
        f"{tokenizer.vocabulary_size:,} kinds of tokens; {len(held_out):,} characters "
        "of the held-out documents are tested (--held-out); the n-gram models are "
        f"fitted to the last {len(ngram_text):,} characters (--ngram-characters)."
    )


def batches_apart(
    model: Any, settings: options.Settings, validation: tuple[np.ndarray, ...] | None
) -> tuple[Any, Any]:
    """Returns batches of blocks that end where documents end, and validation.

    Args:
        model: The language model.
        settings: Arguments of the run.
        validation: The blocks on which the best step would be chosen if the documents
            were joined, of which there are as many here; None for none.
    """
    shards = part_of(settings, "training")
    if validation is not None:
        last = min(len(validation[0]), len(shards) // 2)
        batches = model.answer_batches(shards[-last:], batch_size=last)
        shards, validation = shards[:-last], batches.batch(0)
    words = {"batch_size": settings.batch_size, "seed": settings.seed}
    return model.answer_batches(shards, **words), validation
