r"""Error rates of transcripts: edit distance per character or word of the references.

$$
\mathrm{rate} = \frac{\sum_i d(h_i, r_i)}{\sum_i |r_i|}
$$

$d$ is the smallest number of insertions, deletions and substitutions that turn the
hypothesis $h$ into the reference $r$. The rate of a corpus is no mean over texts, and
is above 1 where hypotheses are much longer.

From: Levenshtein, "Binary codes capable of correcting deletions, insertions, and
reversals", 1966; Wagner and Fischer, "The String-to-String Correction Problem", 1974.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kerasseq.core.checks import several, short


def character_error_rate(texts: Iterable[str], references: Iterable[str]) -> float:
    """Computes the edit distance per character of the references, over a corpus.

    Args:
        texts: Strings, the hypotheses.
        references: Strings, one for each hypothesis.

    Returns:
        The rate, 0 if all are equal. Spaces and case count.

    Raises:
        TypeError: If a text is not a string.
        ValueError: If there are none, their numbers differ, or a reference is empty.

    Examples:
        >>> character_error_rate(["morse", "cod"], ["morse", "code"])
        0.1111111111111111
    """
    return _rate(texts, references, list, "character")


def word_error_rate(texts: Iterable[str], references: Iterable[str]) -> float:
    """Computes the edit distance per word of the references, over a corpus.

    Args:
        texts: Strings, the hypotheses. Words are separated by white space.
        references: Strings, one for each hypothesis.

    Returns:
        The rate, 0 if all words are equal. Case and punctuation count.

    Raises:
        TypeError: If a text is not a string.
        ValueError: If there are none, their numbers differ, or a reference has no word.

    Examples:
        >>> word_error_rate(["a morse key"], ["the morse key"])
        0.3333333333333333
    """
    return _rate(texts, references, str.split, "word")


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Counts the insertions, deletions and substitutions from one sequence to another.

    Args:
        a: Strings.
        b: Strings.

    Examples:
        >>> edit_distance("kitten", "sitting")
        3
    """
    ids = {unit: n for n, unit in enumerate({*a, *b})}
    a, b = (np.array([ids[unit] for unit in x], "int64") for x in (a, b))
    steps = np.arange(len(b) + 1)
    row = steps  # from the empty sequence to each beginning of b
    for n, unit in enumerate(a, start=1):
        kept = np.minimum(row[:-1] + (b != unit), row[1:] + 1)
        row = np.concatenate([[n], kept])
        # An insertion adds 1 to the distance of the beginning before.
        row = np.minimum.accumulate(row - steps) + steps
    return int(row[-1])


def _rate(
    texts: Iterable[str],
    references: Iterable[str],
    split: Callable[[str], list[str]],
    unit: str,
) -> float:
    """Divides the sum of the distances by that of the lengths."""
    texts, references = _strings("texts", texts), _strings("references", references)
    if not texts or len(texts) != len(references):
        raise ValueError(
            "there must be one reference for each text, and at least one: received "
            f"{len(texts)} texts and {len(references)} references"
        )
    wanted = [split(text) for text in references]
    for i, units in enumerate(wanted):
        if not units:
            raise ValueError(
                f"references[{i}] must have at least one {unit}, received "
                f"{references[i]!r}. Leave the row out"
            )
    pairs = zip(map(split, texts), wanted, strict=True)
    return sum(edit_distance(a, b) for a, b in pairs) / sum(map(len, wanted))


def _strings(name: str, values: Iterable[str]) -> list[str]:
    values = several(name, values)
    for i, text in enumerate(values):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{i}] must be a string, received {short(text)}")
    return values
