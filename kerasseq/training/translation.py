"""Scores of translations: BLEU, chrF and exact matches.

BLEU (Papineni et al., 2002) compares n-grams of words, chrF (Popović, 2015)
those of characters. Both are computed by sacrebleu, so that they are comparable with
published scores; the signature has the settings.
"""

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from kerasseq.core import packages
from kerasseq.core.checks import one_of, several, truth, whole_number

TOKENIZERS = ("13a", "char", "intl", "none", "zh")  # those that need nothing more


def bleu(
    hypotheses: Iterable[str],
    references: Iterable[str | Iterable[str]],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    signature: bool = False,
) -> float | tuple[float, str]:
    """Computes BLEU of a corpus.

    It is not a mean over sentences: n-grams of 1 to 4 words are counted over all of
    them. If no sentence has four words, BLEU is 0 even for perfect hypotheses. German
    number names are a single word: use `tokenize="char"` for them, or `chrf`.

    Args:
        hypotheses: Strings, the predictions.
        references: For each hypothesis a reference, or a list of references; all lists
            have the same length.
        tokenize: How texts are split into words: "13a", sacrebleu's default; "char",
            into characters; "intl", by Unicode; "zh", Chinese; "none", at spaces.
        lowercase: Whether case is ignored.
        signature: Whether to return sacrebleu's signature as well.

    Returns:
        BLEU, from 0 to 100; with `signature` the pair of it and a string such as
        `"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"`.

    Raises:
        ImportError: If sacrebleu is not installed.
        TypeError: If a hypothesis or a reference is not a string.
        ValueError: If there are none, or their numbers differ.

    Examples:
        >>> bleu(["the cat sat on the mat"], ["the cat sat on the mat"])
        100.0
        >>> bleu(["einundzwanzig"], ["einundzwanzig"], tokenize="char")
        100.0
    """
    one_of("tokenize", tokenize, TOKENIZERS)
    truth("lowercase", lowercase)
    hypotheses, streams = check_translations(hypotheses, references)
    metric = load_sacrebleu().BLEU(tokenize=tokenize, lowercase=lowercase)
    return _score(metric, hypotheses, streams, signature)


def chrf(
    hypotheses: Iterable[str],
    references: Iterable[str | Iterable[str]],
    *,
    word_order: int = 0,
    lowercase: bool = False,
    signature: bool = False,
) -> float | tuple[float, str]:
    """Computes chrF of a corpus: n-grams of 1 to 6 characters, without spaces.

    Args:
        hypotheses: Strings, the predictions.
        references: For each hypothesis a reference, or a list of references; all lists
            have the same length.
        word_order: Maximum length of n-grams of words, which are counted as well: 2 is
            chrF++.
        lowercase: Whether case is ignored.
        signature: Whether to return sacrebleu's signature as well.

    Returns:
        chrF, from 0 to 100; with `signature` the pair of it and a string.

    Raises:
        ImportError: If sacrebleu is not installed.
        TypeError: If a hypothesis or a reference is not a string.
        ValueError: If there are none, or their numbers differ.

    Examples:
        >>> chrf(["einundzwanzig"], ["einundzwanzig"])
        100.0
        >>> round(chrf(["zweiundzwanzig"], ["einundzwanzig"]), 1)
        73.2
    """
    truth("lowercase", lowercase)
    word_order = whole_number("word_order", word_order, at_least=0)
    hypotheses, streams = check_translations(hypotheses, references)
    metric = load_sacrebleu().CHRF(word_order=word_order, lowercase=lowercase)
    return _score(metric, hypotheses, streams, signature)


def exact_match(
    hypotheses: Iterable[str], references: Iterable[str | Iterable[str]]
) -> float:
    """Computes the percentage of hypotheses that equal a reference exactly.

    Args:
        hypotheses: Strings, the predictions.
        references: For each hypothesis a reference, or a list of references.

    Returns:
        A percentage, as `bleu`.

    Raises:
        TypeError: If a hypothesis or a reference is not a string.
        ValueError: If there are none, or their numbers differ.

    Examples:
        >>> exact_match(["2026-11-21", "2026-11-21"], ["2026-11-21", "2026-11-12"])
        50.0
    """
    hypotheses, streams = check_translations(hypotheses, references)
    answers = zip(*streams, strict=True)
    correct = [h in answer for h, answer in zip(hypotheses, answers, strict=True)]
    return 100.0 * sum(correct) / len(correct)


def check_translations(
    hypotheses: Iterable[str], references: Iterable[str | Iterable[str]]
) -> tuple[list[str], list[list[str]]]:
    """Returns the hypotheses, and a list of references for each that they have.

    Args:
        hypotheses: As for `bleu`.
        references: As for `bleu`.

    Examples:
        >>> check_translations(["a", "b"], [["a", "A"], ["b", "B"]])
        (['a', 'b'], [['a', 'b'], ['A', 'B']])
    """
    for name, given in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(given, str):
            raise TypeError(
                f"{name} must be a list of strings, received one: {given!r}"
            )
    hypotheses = several("hypotheses", hypotheses)
    references = several("references", references)
    wanted = [
        [r] if isinstance(r, str) else several(f"references[{i}]", r)
        for i, r in enumerate(references)
    ]
    if not hypotheses or len(hypotheses) != len(wanted):
        raise ValueError(
            "there must be one reference for each hypothesis, and at least one: "
            f"received {len(hypotheses)} hypotheses and {len(wanted)} references"
        )
    if len({len(answers) for answers in wanted}) > 1 or not wanted[0]:
        raise ValueError(
            "references must have equally many answers for each hypothesis, and at "
            f"least one; they have {sorted({len(answers) for answers in wanted})}"
        )
    for text in (*hypotheses, *(answer for answers in wanted for answer in answers)):
        if not isinstance(text, str):
            raise TypeError(
                f"hypotheses and references must be strings, received {text!r}"
            )
    return hypotheses, [list(stream) for stream in zip(*wanted, strict=True)]


def _score(
    metric: Any, hypotheses: list[str], streams: list[list[str]], signature: bool
) -> float | tuple[float, str]:
    score = float(metric.corpus_score(hypotheses, streams).score)
    score = min(score, 100.0)  # rounding makes it 100.00000000000004
    return (score, str(metric.get_signature())) if signature else score


def load_sacrebleu() -> ModuleType:
    """Returns the package of the scores.

    Raises:
        ImportError: If it is not installed.
    """
    return packages.load("sacrebleu", "sacrebleu", "BLEU and chrF come from")
