r"""Where translations are good: BLEU by length and with intervals, and names.

$$\mathrm{BLEU}^{(b)} = \mathrm{BLEU}\Bigl(\sum_n w_n^{(b)} c_n\Bigr)$$

where $c_n$ are the counts of sentence n, its n-grams that are right, all its n-grams
and the lengths, and $w_n^{(b)}$ is how often the sentence was drawn.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, several, whole_number
from kerasseq.text.words import find_words
from kerasseq.training.translation import (
    bleu,
    check_translations,
    load_sacrebleu,
)

PART = 2**24  # counts that are drawn at a time
ORDER = 4  # of the n-grams
UNKNOWN = "<unk>"  # of the tokenizers of words


class LengthBleu(NamedTuple):
    """BLEU of the sentences whose sources have a length.

    Attributes:
        shortest: Words of the shortest source.
        longest: Words of the longest one.
        count: Number of sentences.
        bleu: Their BLEU, from 0 to 100.
    """

    shortest: int
    longest: int
    count: int
    bleu: float


class NameScores(NamedTuple):
    """What became of names in translations.

    Attributes:
        count: Number of names.
        copied: Number of those that the translations have.
        unknown: Number of those in whose place there is an unknown token.
    """

    count: int
    copied: int
    unknown: int


def bleu_by_length(
    sources: Iterable[str],
    hypotheses: Iterable[str],
    references: Iterable[str | Iterable[str]],
    *,
    bins: int = 4,
    tokenize: str = "13a",
) -> list[LengthBleu]:
    """Computes BLEU of short sentences, and of longer and longer ones.

    The sentences are in order of the words of their sources, and cut at the quantiles.
    Sources of the same length are in the same bin.

    Args:
        sources: Strings.
        hypotheses: The translation of each.
        references: As for `bleu`.
        bins: Number of bins; there are fewer if too many sources have the same length.
        tokenize: As for `bleu`.

    Returns:
        A `LengthBleu` for each bin.

    Raises:
        ImportError: If sacrebleu is not installed.
        TypeError: If a text is not a string.
        ValueError: If there are none, or their numbers differ.

    Examples:
        >>> sources = ["a b", "a b c", "a b c d", "a b c d e"]
        >>> hypotheses = ["the cat sat on a mat"] * 2 + ["the cat sat on"] * 2
        >>> for part in bleu_by_length(sources, hypotheses, hypotheses[:1] * 4, bins=2):
        ...     print(part.shortest, part.longest, round(part.bleu, 1))
        2 3 100.0
        4 5 60.7

    References:
        Bahdanau et al. 2015, figure 2.
    """
    bins = whole_number("bins", bins)
    hypotheses, streams = check_translations(hypotheses, references)
    sources = several("sources", sources)
    if len(sources) != len(hypotheses):
        raise ValueError(
            f"sources must have as many texts as hypotheses, received {len(sources)} "
            f"and {len(hypotheses)}"
        )
    lengths = np.array([len(_words("sources", source)) for source in sources])
    bounds = np.quantile(lengths, np.arange(1, bins) / bins)
    which, parts = np.searchsorted(bounds, lengths), []
    for n in range(bins):
        rows = np.flatnonzero(which == n)
        if len(rows):
            chosen = [hypotheses[row] for row in rows]
            answers = [[stream[row] for stream in streams] for row in rows]
            score = bleu(chosen, answers, tokenize=tokenize)
            inside = lengths[rows]
            parts.append(
                LengthBleu(int(inside.min()), int(inside.max()), len(rows), score)
            )
    return parts


def bootstrap_bleu(
    hypotheses: Iterable[str],
    references: Iterable[str | Iterable[str]],
    *,
    samples: int = 1000,
    seed: int | None = 0,
    tokenize: str = "13a",
) -> np.ndarray:
    """Computes BLEU on samples of the test set, drawn with replacement.

    With the same seed all translations of a test set are scored on the same samples, so
    that the differences of two models have an interval, too (Koehn 2004).

    Args:
        hypotheses: As for `bleu`.
        references: As for `bleu`.
        samples: Number of samples, each of as many sentences as there are.
        seed: Random seed.
        tokenize: As for `bleu`.

    Returns:
        Array `(samples,)`, from 0 to 100. Between the quantiles 0.025 and 0.975 is the
        interval of 95 %.

    Raises:
        ImportError: If sacrebleu is not installed.
        TypeError: If an argument has the wrong type.
        ValueError: If there are no texts, their numbers differ, or `samples` is below
            1.

    Examples:
        >>> references = ["the cat sat on the mat", "a dog ran in the park"] * 9
        >>> hypotheses = ["the cat sat on a mat", "a dog ran in the park"] * 9
        >>> scores = bootstrap_bleu(hypotheses, references)
        >>> scores.shape, bool(scores.min() < bleu(hypotheses, references))
        ((1000,), True)
    """
    samples = whole_number("samples", samples)
    draw = random_generator(seed)
    hypotheses, streams = check_translations(hypotheses, references)
    bleu(hypotheses[:1], streams[0][:1], tokenize=tokenize)  # checks `tokenize`
    # With the effective order sacrebleu does not warn; the counts are the same.
    metric = load_sacrebleu().BLEU(tokenize=tokenize, effective_order=True)
    statistics = [
        metric.sentence_score(hypothesis, list(answers))
        for hypothesis, *answers in zip(hypotheses, *streams, strict=True)
    ]
    rows = [[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in statistics]
    counts = np.array(rows)
    size, scores = len(counts), []
    for start in range(0, samples, max(1, PART // size)):
        part = min(samples - start, max(1, PART // size))
        weights = draw.multinomial(size, np.full(size, 1 / size), part)
        for row in (weights @ counts).tolist():
            right, all_of_them, lengths = row[:ORDER], row[ORDER:-2], row[-2:]
            each = metric.compute_bleu(right, all_of_them, *lengths, "exp")
            scores.append(min(each.score, 100.0))
    return np.array(scores)


def unseen_names(
    sources: Iterable[str], targets: Iterable[str], known: Iterable[str]
) -> list[list[str]]:
    """Finds the names that a text has, and that other texts do not have.

    A name is a word with a capital first letter that source and target both have.

    Args:
        sources: Strings.
        targets: The translation of each.
        known: Strings, such as all texts of the training.

    Returns:
        For each source the names that no text of `known` has, in their order.

    Raises:
        TypeError: If a text is not a string.
        ValueError: If the numbers of sources and targets differ.

    Examples:
        >>> unseen_names(["Hier Ada Lovelace"], ["Ada Lovelace yesterday"], ["Ada ."])
        [['Lovelace']]
    """
    sources, targets = several("sources", sources), several("targets", targets)
    if len(sources) != len(targets):
        raise ValueError(
            f"targets must have as many texts as sources, received {len(targets)} and "
            f"{len(sources)}"
        )
    seen = {word for text in several("known", known) for word in _words("known", text)}
    names = []
    for source, target in zip(sources, targets, strict=True):
        both = set(_words("targets", target)) - seen
        words = dict.fromkeys(_words("sources", source))
        names.append([word for word in words if word in both and word[0].isupper()])
    return names


def name_scores(
    hypotheses: Iterable[str],
    names: Iterable[Collection[str]],
    *,
    unknown: str = UNKNOWN,
) -> NameScores:
    """Counts which names translations have, and which became the unknown token.

    An unknown token of a translation stands for one of the names that it lacks.

    Args:
        hypotheses: Strings, the translations.
        names: The names that each should have, as from `unseen_names`.
        unknown: The unknown token.

    Returns:
        `NameScores`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the numbers of hypotheses and names differ.

    Examples:
        >>> name_scores(["Ada <unk> met Carl"], [["Ada", "Lovelace", "Karl"]])
        NameScores(count=3, copied=1, unknown=1)

    References:
        Luong et al. 2015, "Addressing the rare word problem". Slides D.
    """
    hypotheses = several("hypotheses", hypotheses)
    names = [
        several(f"names[{n}]", each)
        for n, each in enumerate(several("names", names, "lists of strings"))
    ]
    if len(hypotheses) != len(names):
        raise ValueError(
            f"names must have a list for each of the {len(hypotheses)} hypotheses, "
            f"received {len(names)}"
        )
    if not isinstance(unknown, str) or not unknown:
        raise TypeError(f"unknown must be a token, received {unknown!r}")
    count = copied = replaced = 0
    for text, wanted in zip(hypotheses, names, strict=True):
        words = Counter(_words("hypotheses", text))
        kept = sum(name in words for name in wanted)
        count += len(wanted)
        copied += kept
        replaced += min(text.count(unknown), len(wanted) - kept)
    return NameScores(count, copied, replaced)


def _words(name: str, text: str) -> list[str]:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be strings, received {text!r}")
    return find_words(text, lowercase=False, punctuation=True)
