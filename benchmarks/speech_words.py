"""English words in Morse code and noise: what a character n-gram mends in the beam.

A Conformer of `benchmarks speech`, trained on random letters and digits at 10 to 25 dB,
writes down English words from their sound. The words are those of the Python reference
and of the docstrings of the standard library, of 3 to 12 letters, that occur at least
twice. 500 of them are for the test and 200 for validation; the n-gram model reads each
of the others once, with the blank of CTC between them, and none of the 700. The noise
is the level in whole decibels at which greedy decoding errs in about 15 % of the
characters of the validation words, and weight and bonus are those with the fewest
errors there. `mended` is the share of greedy decoding's errors that are gone.

`--model FILE` takes a model that `benchmarks speech --save` wrote; without it one is
trained.
"""

import ast
import collections
import itertools
import pathlib
import re
import sysconfig
import time

from benchmarks import speech
from benchmarks.options import positive

WORD = re.compile(r"(?<![\w`.'/\-])[a-z]{3,12}(?![\w`.(=/\-])")
NO_TEXT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
TESTED, VALIDATED, TEST_SEED, VALIDATION_SEED = 500, 200, 2_000_000, 3_000_000
WANTED, NOISY, CLEAR = 0.15, -10, 16  # errors, and decibels with more and with fewer
WEIGHTS, BONUSES = (0.3, 0.6, 0.9, 1.2), (0.0, 1.0, 2.0, 3.0)


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--model", type=pathlib.Path, help="a trained model")
    parser.add_argument("--n", type=positive(int), default=4, help="of the n-grams")
    parser.add_argument("--beam", type=positive(int), default=16)
    parser.add_argument("--seed", type=int, default=0, help="of the split of the words")


def run(options):
    """Returns a table of errors on the test words, and what was chosen on others."""
    import numpy as np

    import kerasseq

    if options.model is None:
        given = {"model": "conformer", "seed": 0, "steps": 2000, "every": 250}
        model, _ = speech.train(given)
    else:
        model = kerasseq.load_model(options.model)
    words = np.random.default_rng(options.seed).permutation(known_words()).tolist()
    test, rest = words[:TESTED], words[TESTED:]
    validation, learned = rest[:VALIDATED], rest[VALIDATED:]
    language = language_model(options.n, model.tokenizer, learned)
    level, by_level, scores = choose_level(model, validation)
    weight, bonus = choose_weights(
        scores, model.tokenizer, validation, language, options.beam
    )
    scores = scores_of(model, test, level, TEST_SEED)
    searches = {
        "greedy": {},
        f"beam of {options.beam}": {"beam": options.beam},
        f"and {options.n}-gram": {
            "beam": options.beam,
            "language_model": language,
            "weight": weight,
            "bonus": bonus,
        },
    }
    return {
        "words of the n-gram model": len(learned),
        "validation words": len(validation),
        "test words": len(test),
        "greedy errors by dB": by_level,
        "decibels": level,
        "weight": weight,
        "bonus": bonus,
        "bits per character": bits(language, model.tokenizer, test),
        "table": table(scores, model.tokenizer, test, searches),
    }


def known_words():
    """Returns the words that occur at least twice, in capitals, sorted."""
    from kerasseq.datasets import python_reference

    counts = collections.Counter(WORD.findall(python_reference()))
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    for file in sorted(folder.rglob("*.py")):
        if not NO_TEXT & {*file.relative_to(folder).parts}:
            for text in docstrings(file):
                counts.update(WORD.findall(text))
    return sorted(word.upper() for word, count in counts.items() if count > 1)


def docstrings(file):
    """Yields the docstrings of a file in Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # a file of another version of Python
        return
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def language_model(n, tokenizer, words):
    """Returns an n-gram model of the words, with the blank between them."""
    from kerasseq.text import NGramModel

    blank = tokenizer.vocabulary_size
    ids = [i for word in words for i in (*tokenizer.encode(word), blank)]
    return NGramModel(n, smoothing="kneser_ney").fit(ids, blank + 1)


def bits(language, tokenizer, words):
    """Returns the bits per character of the words, each after its own letters."""
    import numpy as np

    found = [language.log_probabilities(tokenizer.encode(word)) for word in words]
    return float(-np.concatenate(found).mean() / np.log(2))


def scores_of(model, words, level, seed):
    """Returns the scores of each word's sound at a level of noise, one sound a word."""
    from kerasseq import datasets

    rate = model.get_config()["sampling_rate"]
    options = {"sampling_rate": rate, "snr": (level, level)}
    sounds = [
        datasets.morse(1, text=[word], seed=seed + n, **options).audio[0]
        for n, word in enumerate(words)
    ]
    return model.predict(sounds, verbose=0)


def choose_level(model, words):
    """Returns the level with about 15 % of errors, all tried, and the scores there."""
    by_level, scores, low, high = {}, {}, NOISY, CLEAR
    while high - low > 1:  # errors fall as the tone becomes louder
        level = (low + high) // 2
        scores[level] = scores_of(model, words, level, VALIDATION_SEED)
        texts = transcripts(scores[level], model.tokenizer)
        by_level[level] = round(errors(texts, words)[0], 4)
        if by_level[level] > WANTED:
            low = level
        else:
            high = level
    best = min(by_level, key=lambda level: abs(by_level[level] - WANTED))
    return best, by_level, scores[best]


def choose_weights(scores, tokenizer, words, language, beam):
    """Returns the weight and the bonus with the fewest errors."""

    def wrong(weight_and_bonus):
        weight, bonus = weight_and_bonus
        search = {"language_model": language, "weight": weight, "bonus": bonus}
        return errors(transcripts(scores, tokenizer, beam=beam, **search), words)[0]

    return min(itertools.product(WEIGHTS, BONUSES), key=wrong)


def transcripts(scores, tokenizer, **search):
    """Returns the texts of scores, by a search if there are options of one."""
    import numpy as np

    from kerasseq import decoding

    lengths = [len(each) for each in scores]
    logits = np.zeros((len(scores), max(lengths), scores[0].shape[-1]), "float32")
    for row, each in zip(logits, scores, strict=True):
        row[: len(each)] = each
    decode = decoding.ctc_beam if search else decoding.ctc_greedy
    result = decode(logits, lengths, **search)
    rows = zip(result.ids, result.lengths, strict=True)
    return [tokenizer.decode(ids[:length]) for ids, length in rows]


def errors(texts, words):
    """Returns the share of wrong characters, and of wrong words."""
    from kerasseq import training

    return (
        training.character_error_rate(texts, words),
        training.word_error_rate(texts, words),
    )


def table(scores, tokenizer, words, searches):
    """Returns a row for each search."""
    rows = []
    for name, search in searches.items():
        start = time.process_time()
        texts = transcripts(scores, tokenizer, **search)
        seconds = time.process_time() - start
        characters, whole = errors(texts, words)
        first = rows[0]["characters wrong"] if rows else characters
        rows.append(
            {
                "decoding": name,
                "characters wrong": characters,
                "words wrong": whole,
                "mended": 1 - characters / first,
                "cpu seconds": seconds,
            }
        )
    return rows
