"""Bits per character of n-gram models on text they have not seen: how to smooth.

Characters of the Python reference, nine tenths to count in, the last tenth to score.
Each smoothing has the same counts: add-k with several k, of which the best on the
scored text itself is shown, back-off with absolute discounting, and modified
Kneser-Ney. The last two estimate their discounts from the counts and get no such help.
Seconds are for counting and scoring with Kneser-Ney.
"""

import argparse
import time


def add_arguments(parser):
    """What to measure, and on how much text."""
    parser.add_argument("--n", type=several(at_least(1, int)), default="1,2,3,4,5,6")
    parser.add_argument(
        "--k", type=several(at_least(0, float)), default="1,0.3,0.1,0.03,0.01,0.003"
    )
    parser.add_argument(
        "--characters", type=at_least(100, int), help="of the text; all if left out"
    )


def at_least(least, kind):
    """A type for argparse: a number not below `least`."""

    def number(text):
        if not kind(text) >= least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return kind(text)

    return number


def several(number):
    """A type for argparse: numbers with commas between them."""

    def numbers(text):
        return [number(part) for part in text.split(",")]

    return numbers


def run(options):
    """Measure, and give a table of bits per character."""
    from kerasseq.datasets import python_reference
    from kerasseq.text import CharacterTokenizer

    text = python_reference()
    if options.characters:
        text = text[: options.characters]
    cut = len(text) - len(text) // 10
    tokenizer = CharacterTokenizer().fit(text[:cut])
    return {
        "characters to count": cut,
        "characters to score": len(text) - cut,
        "vocabulary": tokenizer.vocabulary_size,
        "table": [
            row(n, options.k, tokenizer, text[:cut], text[cut:]) for n in options.n
        ],
    }


def row(n, ks, tokenizer, train, test):
    """One n, all smoothings."""
    from kerasseq.text import NGramModel

    def bits(**smoothing):
        model = NGramModel(n, tokenizer=tokenizer, **smoothing).fit(train)
        return model.bits_per_token(test)

    add_k, k = min((bits(k=k), k) for k in ks)
    backoff = bits(smoothing="backoff")
    start = time.perf_counter()
    kneser_ney = bits(smoothing="kneser_ney")
    return {
        "n": n,
        "add-k": add_k,
        "best k": str(k),
        "back-off": backoff,
        "Kneser-Ney": kneser_ney,
        "seconds": time.perf_counter() - start,
    }
