"""Tokenizers: training and encoding, beside `tokenizers` and a naive loop.

kerasseq and the package `tokenizers` train a vocabulary of the same size on the same
text, on one thread, and encode the whole text twice; the second time the tokenizer's
cache of words is filled. Figures are medians over rounds A B A B … as ratios to
`tokenizers`.

The naive loop is byte-pair encoding that counts all pairs again for each merge. It runs
`--naive-merges` merges, and its time is extrapolated to all of them. That overestimates
it by some tens of percent: early merges are the slowest, as words are then longest.
"""

import os
import re
import time
from collections import Counter
from itertools import pairwise

import numpy as np

from benchmarks.options import positive


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--corpus", help="a text file (default: the Python language reference)"
    )
    parser.add_argument("--vocabulary-size", type=int, default=1256)
    parser.add_argument("--naive-merges", type=int, default=50)
    parser.add_argument("--rounds", type=positive(int), default=3)


def run(options):
    """Returns a table of ratios."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from kerasseq.datasets import python_reference, text_file

    text = text_file(options.corpus) if options.corpus else python_reference()
    megabytes = len(text.encode()) / 1e6
    table = []
    for kind in ("bpe", "wordpiece", "unigram"):
        trainers = {
            "kerasseq": kerasseq_trainer(kind, options),
            "tokenizers": peer_trainer(kind, options),
        }
        times = {name: [] for name in trainers}
        for _ in range(options.rounds):
            for name, train in trainers.items():
                times[name].append(measure(train, text))
        medians = {name: np.median(rows, axis=0) for name, rows in times.items()}
        for name, (training, first, second) in medians.items():
            table.append(
                {
                    "tokenizer": kind,
                    "implementation": name,
                    "training": training / medians["tokenizers"][0],
                    "encoding": first / medians["tokenizers"][1],
                    "encoding again": second / medians["tokenizers"][2],
                    "MB/s": megabytes / first,
                }
            )
        if kind == "bpe":
            naive = naive_loop(text, options.naive_merges)
            naive *= (options.vocabulary_size - 256) / options.naive_merges
            ratio = float(naive / medians["kerasseq"][0])
    return {
        "text": f"{megabytes:.2f} MB",
        "vocabulary": options.vocabulary_size,
        "unit": "times of the package tokenizers, one thread",
        "naive loop to kerasseq": ratio,
        "table": table,
    }


def measure(train, text):
    """Returns the seconds of training, encoding, and encoding again."""
    start = time.perf_counter()
    encode = train(text)
    trained = time.perf_counter()
    encode(text)
    first = time.perf_counter()
    encode(text)
    return trained - start, first - trained, time.perf_counter() - first


def kerasseq_trainer(kind, options):
    """Returns a function that trains a tokenizer on a text and returns its `encode`."""
    from kerasseq import text as namespace

    names = {"bpe": "BytePair", "wordpiece": "WordPiece", "unigram": "Unigram"}
    cls = getattr(namespace, f"{names[kind]}Tokenizer")
    return lambda text: cls(options.vocabulary_size).fit(text).encode


def peer_trainer(kind, options):
    """Returns such a function for the package `tokenizers`."""
    from tokenizers import (
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    shared = {"vocab_size": options.vocabulary_size, "show_progress": False}

    def train(text):
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

    return train


def naive_loop(text, merges):
    """Returns the seconds of a byte-pair encoding that recounts pairs at each merge."""
    start = time.perf_counter()
    word_counts = Counter(re.findall(r" ?\w+| ?[^\w\s]+|\s+", text))
    words = {word: list(word) for word in word_counts}
    for _ in range(merges):
        pairs = Counter()
        for word, symbols in words.items():
            for pair in pairwise(symbols):
                pairs[pair] += word_counts[word]
        left, right = max(pairs, key=pairs.get)
        for word, symbols in words.items():
            merged = []
            for symbol in symbols:
                if symbol == right and merged and merged[-1] == left:
                    merged[-1] = left + right
                else:
                    merged.append(symbol)
            words[word] = merged
    return time.perf_counter() - start
