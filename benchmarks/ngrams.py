"""Bits per character of n-gram models on held-out text, by smoothing.

The models are trained on the characters of the first nine tenths of the Python language
reference and evaluated on the last tenth. The smoothings are add-k (several values of
k; the table has the one that is best on the held-out text), back-off with absolute
discounting, and modified Kneser-Ney. The last two estimate their discounts from the
training counts. Seconds are for training and evaluation with Kneser-Ney.
"""

import time

from benchmarks.options import at_least, comma_separated


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--n", type=comma_separated(at_least(1, int)), default="1,2,3,4,5,6"
    )
    parser.add_argument(
        "--k",
        type=comma_separated(at_least(0, float)),
        default="1,0.3,0.1,0.03,0.01,0.003",
    )
    parser.add_argument(
        "--characters",
        type=at_least(100, int),
        help="length of the text (default: all)",
    )


def run(options):
    """Returns a table of bits per character."""
    from kerasseq.datasets import python_reference
    from kerasseq.text import CharacterTokenizer

    text = python_reference()
    if options.characters:
        text = text[: options.characters]
    cut = len(text) - len(text) // 10
    tokenizer = CharacterTokenizer().fit(text[:cut])
    return {
        "training characters": cut,
        "test characters": len(text) - cut,
        "vocabulary": tokenizer.vocabulary_size,
        "table": [
            row(n, options.k, tokenizer, text[:cut], text[cut:]) for n in options.n
        ],
    }


def row(n, ks, tokenizer, train, test):
    """Returns the row of one n, with all smoothings."""
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
