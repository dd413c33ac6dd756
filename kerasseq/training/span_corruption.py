r"""T5's pre-training: spans of a text are removed, and the model predicts them.

    text    Thank you for inviting me to your party last week .
    source  Thank you <X> me to your party <Y> week .
    target  <X> for inviting <Y> last <Z>

Each removed span is replaced by another sentinel token; in the target each sentinel is
followed by the tokens of its span, and one more sentinel ends it. Of $n$ tokens
$m = \mathrm{rate} \cdot n$ are removed, in $m / \mathrm{mean\_length}$ spans, both
rounded. All ways to place such spans apart from each other are equally likely.

Raffel et al. 2020. There a text always begins with a token that is kept, and ends with
a span; here these two positions are random as well. Course slides A (T5).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from kerasseq.core import checks


class SpanCorruption:
    """Removes spans from texts of ids.

    Args:
        sentinels: Ids of the sentinels, in the order of use; T5 has the last 100 of its
            vocabulary, in descending order. A text needs one for each span, and one
            more.
        rate: Fraction of the tokens that is removed.
        mean_length: Mean length of a span.
        seed: Random seed.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is out of range, or an id occurs twice.

    Examples:
        >>> corrupt = SpanCorruption(range(99, 89, -1), rate=0.3, mean_length=2)
        >>> text = np.arange(1, 14)
        >>> source, target = corrupt(text, number=0)
        >>> corrupt.restore(source, target).tolist() == text.tolist()
        True
    """

    def __init__(
        self,
        sentinels: Iterable[int],
        *,
        rate: float = 0.15,
        mean_length: float = 3.0,
        seed: int = 0,
    ) -> None:
        ids = checks.several("sentinels", sentinels, "ids")
        ids = [checks.whole_number("an id of sentinels", i, 0) for i in ids]
        self.sentinels: np.ndarray = np.asarray(ids, "int32")
        if len(set(self.sentinels.tolist())) < max(2, len(self.sentinels)):
            raise ValueError(
                "sentinels must be at least two distinct ids, received "
                f"{self.sentinels.tolist()}"
            )
        self.rate: float = checks.fraction("rate", rate)
        if not 0 < self.rate < 1:
            raise ValueError(
                f"rate must lie between 0 and 1, both excluded, received {rate}"
            )
        checks.number("mean_length", mean_length)
        if not 1 <= mean_length < float("inf"):
            raise ValueError(f"mean_length must be at least 1, received {mean_length}")
        self.mean_length = mean_length
        self.seed: int = checks.whole_number("seed", seed, at_least=0)

    def __call__(
        self, ids: np.ndarray | Sequence[int], number: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Splits a text into source and target.

        Args:
            ids: `(tokens,)`, at least two, none of them a sentinel.
            number: The number of the text. The spans depend on it and on the seed.

        Returns:
            Arrays of int32, from which `restore` restores the text.

        Raises:
            ValueError: If the text is too short, contains a sentinel, or needs more
                sentinels than there are.
        """
        ids = self._checked(ids)
        taken, spans = self._sizes(len(ids))
        rng = np.random.default_rng([self.seed, number])
        lengths = _parts(taken, spans, rng)
        # Spans are separated by kept tokens: each gap between two kept tokens, and each
        # end of the text, has at most one span.
        kept = len(ids) - taken
        gaps = np.sort(rng.choice(kept + 1, spans, replace=False))
        starts = gaps + np.cumsum(lengths) - lengths
        marks = self.sentinels[: spans + 1]
        source, target, read = [], [], 0
        for mark, start, length in zip(marks, starts, lengths, strict=False):
            source += [ids[read:start], [mark]]
            target += [[mark], ids[start : start + length]]
            read = start + length
        source, target = [*source, ids[read:]], [*target, marks[-1:]]
        return tuple(np.concatenate(x).astype("int32") for x in (source, target))

    def _checked(self, ids: np.ndarray | Sequence[int]) -> np.ndarray:
        ids = np.asarray(ids)
        if ids.ndim != 1 or len(ids) < 2 or ids.dtype.kind not in "iu":
            raise ValueError(
                "ids must be at least two integers of shape (tokens,), received shape "
                f"{ids.shape} of {ids.dtype}"
            )
        sentinels = ids[np.isin(ids, self.sentinels)]
        if len(sentinels):
            raise ValueError(f"ids must have no sentinel, received {sentinels[0]}")
        return ids

    def _sizes(self, count: int) -> tuple[int, int]:
        """Returns the number of tokens to remove, and of spans."""
        taken = min(max(round(count * self.rate), 1), count - 1)
        spans = min(max(round(taken / self.mean_length), 1), count - taken + 1)
        if spans + 1 > len(self.sentinels):
            raise ValueError(
                f"a text of {count} tokens needs {spans + 1} sentinels for {spans} "
                f"spans, received {len(self.sentinels)}. Give more sentinels, or split "
                "the text"
            )
        return taken, spans

    def pairs(
        self, texts: Iterable[np.ndarray | Sequence[int]], start: int = 0
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Splits many texts, for `model.fit(*corrupt.pairs(texts))`.

        Args:
            texts: Texts of ids, of any lengths.
            start: Number of the first text.

        Returns:
            List of the sources, and list of the targets.
        """
        made = [self(ids, start + n) for n, ids in enumerate(texts)]
        return [source for source, _ in made], [target for _, target in made]

    def restore(
        self, source: np.ndarray | Sequence[int], target: np.ndarray | Sequence[int]
    ) -> np.ndarray:
        """Restores the text from source and target.

        Args:
            source: The source.
            target: The target, or the prediction of a model; missing spans stay empty.

        Returns:
            Array of int32.
        """
        marks, spans, mark = set(self.sentinels.tolist()), {}, None
        for i in np.asarray(target).tolist():
            if i in marks:
                mark = i
            else:
                spans.setdefault(mark, []).append(i)
        text = []
        for i in np.asarray(source).tolist():
            text += spans.get(i, []) if i in marks else [i]
        return np.array(text, "int32")


def _parts(total: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Splits an integer into a random sum of positive integers, uniformly.

    Examples:
        >>> _parts(5, 5, np.random.default_rng(0)).tolist()
        [1, 1, 1, 1, 1]
    """
    cuts = np.sort(rng.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total)
