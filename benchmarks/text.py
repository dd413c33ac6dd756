"""Tokenizers: learning and encoding, beside the package tokenizers and a plain loop.

Both learn a vocabulary of the same size from the same text, on one thread, and then
encode all of it; they take turns, A B A B …, and medians are compared. Encoding is
measured from nothing and again, when a tokenizer remembers the words it has met. The
plain loop is byte-pair encoding as it is usually explained: all pairs are counted anew
for each merge. It makes `--plain-merges` merges only, and its time is taken in
proportion; early merges are its slowest, as words still have all their symbols, by some
tens of per cent.
"""

import os
import re
import time
from collections import Counter
from itertools import pairwise

import numpy as np


def add_arguments(parser):
    """What to measure, and on which text."""
    parser.add_argument("--corpus", help="a text file (default: Python's reference)")
    parser.add_argument("--vocabulary-size", type=int, default=1256)
    parser.add_argument("--plain-merges", type=int, default=50)
    parser.add_argument("--turns", type=int, default=3)


def run(options):
    """Measure, and give a table of ratios."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from kerasseq.datasets import python_reference, text_file

    text = text_file(options.corpus) if options.corpus else python_reference()
    megabytes = len(text.encode()) / 1e6
    table = []
    for kind in ("bpe", "wordpiece", "unigram"):
        makers = {"kerasseq": ours(kind, options), "tokenizers": peer(kind, options)}
        times = {who: [] for who in makers}
        for _ in range(options.turns):
            for who, make in makers.items():
                times[who].append(measure(make, text))
        medians = {who: np.median(rows, axis=0) for who, rows in times.items()}
        for who, (learning, first, again) in medians.items():
            table.append(
                {
                    "tokenizer": kind,
                    "who": who,
                    "learning": learning / medians["tokenizers"][0],
                    "encoding": first / medians["tokenizers"][1],
                    "encoding again": again / medians["tokenizers"][2],
                    "MB/s": megabytes / first,
                }
            )
        if kind == "bpe":
            plain = plain_loop(text, options.plain_merges)
            plain *= (options.vocabulary_size - 256) / options.plain_merges
            ratio = float(plain / medians["kerasseq"][0])
    return {
        "text": f"{megabytes:.2f} MB",
        "vocabulary": options.vocabulary_size,
        "one core": "times relative to the package tokenizers",
        "plain loop to ours": ratio,
        "table": table,
    }


def measure(make, text):
    """Seconds of learning, of encoding, and of encoding again."""
    start = time.perf_counter()
    encode = make(text)
    learned = time.perf_counter()
    encode(text)
    first = time.perf_counter()
    encode(text)
    return learned - start, first - learned, time.perf_counter() - first


def ours(kind, options):
    """A function that learns from a text and gives the function that encodes."""
    from kerasseq import text as tools

    names = {"bpe": "BytePair", "wordpiece": "WordPiece", "unigram": "Unigram"}
    cls = getattr(tools, f"{names[kind]}Tokenizer")
    return lambda text: cls(options.vocabulary_size).fit(text).encode


def peer(kind, options):
    """The same for the package tokenizers."""
    from tokenizers import (
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    shared = {"vocab_size": options.vocabulary_size, "show_progress": False}

    def make(text):
        if kind == "bpe":
            tokenizer = Tokenizer(models.BPE())
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **shared)
        elif kind == "wordpiece":
            tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
            tokenizer.normalizer = normalizers.BertNormalizer()
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            trainer = trainers.WordPieceTrainer(special_tokens=["[UNK]"], **shared)
        else:
            tokenizer = Tokenizer(models.Unigram())
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
            trainer = trainers.UnigramTrainer(
                special_tokens=["<unk>"], unk_token="<unk>", **shared
            )
        tokenizer.train_from_iterator([text], trainer)
        return tokenizer.encode

    return make


def plain_loop(text, merges):
    """Seconds of byte-pair encoding that counts all pairs anew for each merge."""
    start = time.perf_counter()
    numbers = Counter(re.findall(r" ?\w+| ?[^\w\s]+|\s+", text))
    words = {word: list(word) for word in numbers}
    for _ in range(merges):
        count = Counter()
        for word, symbols in words.items():
            for pair in pairwise(symbols):
                count[pair] += numbers[word]
        left, right = max(count, key=count.get)
        for word, symbols in words.items():
            merged = []
            for symbol in symbols:
                if symbol == right and merged and merged[-1] == left:
                    merged[-1] = left + right
                else:
                    merged.append(symbol)
            words[word] = merged
    return time.perf_counter() - start
