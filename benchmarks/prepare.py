"""Tokenizing a text into shards: speed by tokenizer and processes, and memory by size.

The text is that of Python's reference, in which a share of the words are new ones of
random letters, as a large text always has: words that were seen come from a cache. A
process of its own prepares each text, so that its peak of memory is known, with those
of the processes that encode.
"""

import json
import multiprocessing
import pathlib
import random
import re
import resource
import string
import tempfile
import time

from benchmarks.options import positive
from kerasseq import datasets, text

NAMES = ("character", "word", "bpe", "wordpiece", "unigram")
END = "<|endoftext|>"
PART = 2**20  # characters that are written at a time
UNIT = 2**10  # bytes of a unit of `ru_maxrss` on Linux


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--names", default="bpe")
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--megabytes", default="40", help="sizes of the text")
    parser.add_argument("--new-words", type=float, default=0.05)
    parser.add_argument("--vocabulary-size", type=positive(int), default=4096)


def run(options):
    """Prepares each text with each tokenizer, and returns a table."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for megabytes in map(float, options.megabytes.split(",")):
            source = folder / "text.txt"
            write_text(source, megabytes, options.new_words)
            for name in options.names.split(","):
                tokenizer, trained = make(name, options.vocabulary_size)
                for processes in map(int, options.processes.split(",")):
                    found = measure(source, tokenizer, processes)
                    size = source.stat().st_size / 1e6
                    rows.append(
                        {
                            "tokenizer": name,
                            "MB": megabytes,
                            "processes": processes,
                            "MB/s": size / found["seconds"],
                            "peak MB": found["peak"],
                            "training MB/s": trained,
                        }
                    )
    return {"table": rows}


def write_text(file, megabytes, share):
    """Writes a text of a size, in which a share of the words are new."""
    words = re.findall(r"\s*\S+", datasets.python_reference())
    draw, count = random.Random(0), 0
    with file.open("w", encoding="utf-8") as stream:
        while count < megabytes * 1e6:
            start = draw.randrange(len(words) - 300)
            part = [
                new_word(draw) if draw.random() < share else word
                for word in words[start : start + 300]
            ]
            count += stream.write("".join(part) + "\n")


def new_word(draw):
    """A word of 4 to 10 random letters, behind a space."""
    length = draw.randint(4, 10)
    return " " + "".join(draw.choices(string.ascii_lowercase, k=length))


def make(name, vocabulary_size):
    """A tokenizer trained on the reference, and how many MB a second it read."""
    special = {"special_tokens": (END,)} if name in ("word", "bpe", "unigram") else {}
    sizes = () if name == "character" else (vocabulary_size,)
    cls = {
        "character": text.CharacterTokenizer,
        "word": text.WordTokenizer,
        "bpe": text.BytePairTokenizer,
        "wordpiece": text.WordPieceTokenizer,
        "unigram": text.UnigramTokenizer,
    }[name]
    reference, start = datasets.python_reference(), time.perf_counter()
    tokenizer = cls(*sizes, **special).fit(reference)
    return tokenizer, len(reference) / 1e6 / (time.perf_counter() - start)


def measure(source, tokenizer, processes):
    """Prepares a text in a new process; returns seconds, and its peak of memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    words = sender, source, tokenizer, processes
    process = context.Process(target=prepare, args=words)
    process.start()
    sender.close()
    found = json.loads(receiver.recv())
    process.join()
    return found


def prepare(sender, source, tokenizer, processes):
    """Prepares a text, and sends how long it took and how much memory it had."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        datasets.prepare_shards(
            source, tokenizer, pathlib.Path(folder, "ids"), processes=processes
        )
        seconds = time.perf_counter() - start
    peaks = [
        resource.getrusage(who).ru_maxrss * UNIT / 1e6
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    # That of children is the largest of one of them.
    peak = peaks[0] + (processes * peaks[1] if processes > 1 else 0)
    sender.send(json.dumps({"seconds": seconds, "peak": peak}))
    sender.close()
