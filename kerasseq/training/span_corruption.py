r"""T5's pre-training: spans of a text are missing, and the model says what they were.

    text    Thank you for inviting me to your party last week .
    source  Thank you <X> me to your party <Y> week .
    target  <X> for inviting <Y> last <Z>

A gap is marked by a token of its own, a sentinel; the target has behind each sentinel
what was there, and one more at its end. Of $n$ tokens $m = \mathrm{rate} \cdot n$ are
taken, in $m / \mathrm{mean\_length}$ spans, both rounded; of all ways to place such
spans apart from each other each is as likely as any other.

Raffel et al. 2020. There a text always begins with a token that stays, and ends with a
span; here also those two places are random. Course slides A (T5).
"""

import numpy as np

from kerasseq.core import checks


class SpanCorruption:
    """Take spans out of texts of ids.

    Args:
        sentinels: Ids that stand for gaps, in the order in which they are used; T5
            takes the last 100 of its vocabulary, downwards. Longer texts need more:
            one for each gap, and one more.
        rate: The share of the tokens that is taken.
        mean_length: The mean length of a span.
        seed: Seed of what is taken.

    Raises:
        TypeError: If a number is none.
        ValueError: If a number is out of range, or an id is there twice.

    Examples:
        >>> corrupt = SpanCorruption(range(99, 89, -1), rate=0.3, mean_length=2)
        >>> text = np.arange(1, 14)
        >>> source, target = corrupt(text, number=0)
        >>> corrupt.restore(source, target).tolist() == text.tolist()
        True
    """

    def __init__(self, sentinels, *, rate=0.15, mean_length=3.0, seed=0):
        ids = checks.several("sentinels", sentinels, "ids")
        ids = [checks.whole_number("an id of sentinels", i, 0) for i in ids]
        self.sentinels = np.asarray(ids, "int32")
        if len(set(self.sentinels.tolist())) < max(2, len(self.sentinels)):
            raise ValueError(
                "sentinels must be two ids at least, and no id twice, got "
                f"{self.sentinels.tolist()}"
            )
        self.rate = checks.fraction("rate", rate)
        if not 0 < self.rate < 1:
            raise ValueError(
                f"rate={rate} would take {'all' if rate else 'nothing'}: it must lie "
                "between 0 and 1"
            )
        checks.number("mean_length", mean_length)
        if not 1 <= mean_length < float("inf"):
            raise ValueError(f"mean_length must be at least 1, got {mean_length}")
        self.mean_length = mean_length
        self.seed = checks.whole_number("seed", seed, at_least=0)

    def __call__(self, ids, number=0):
        """One text as source and target.

        Args:
            ids: `(tokens,)`, two at least, none of them a sentinel.
            number: Of the text, or of the time that it is read: with another number
                other spans are taken, with the same seed and number the same.

        Returns:
            Arrays of int32, of which `restore` makes the text again.

        Raises:
            ValueError: If the text is too short, has a sentinel in it, or needs more
                sentinels than there are.
        """
        ids = self._checked(ids)
        taken, spans = self._sizes(len(ids))
        rng = np.random.default_rng([self.seed, number])
        lengths = _parts(taken, spans, rng)
        # Between two spans stands a token that stays: of all gaps between those that
        # stay, both ends among them, each holds one span at most.
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

    def _checked(self, ids):
        ids = np.asarray(ids)
        if ids.ndim != 1 or len(ids) < 2 or ids.dtype.kind not in "iu":
            raise ValueError(
                "ids must be two whole numbers at least, of shape (tokens,), got shape "
                f"{ids.shape} of {ids.dtype}"
            )
        found = ids[np.isin(ids, self.sentinels)]
        if len(found):
            raise ValueError(f"ids has {found[0]} in it, which is a sentinel")
        return ids

    def _sizes(self, count):
        """How many of so many tokens are taken, and in how many spans."""
        taken = min(max(round(count * self.rate), 1), count - 1)
        spans = min(max(round(taken / self.mean_length), 1), count - taken + 1)
        if spans + 1 > len(self.sentinels):
            raise ValueError(
                f"a text of {count} tokens gets {spans} gaps and needs {spans + 1} "
                f"sentinels, but there are {len(self.sentinels)}: give more, or cut "
                "the text"
            )
        return taken, spans

    def pairs(self, texts, start=0):
        """Many texts at once, for `model.fit(*corrupt.pairs(texts))`.

        Args:
            texts: Texts of ids, of any lengths.
            start: Number of the first; the others count on.

        Returns:
            List of the sources, and list of the targets.
        """
        made = [self(ids, start + n) for n, ids in enumerate(texts)]
        return [source for source, _ in made], [target for _, target in made]

    def restore(self, source, target):
        """The text, from what is left of it and what was taken.

        Args:
            source: As this gives it.
            target: The same, or what a model says; what it does not say is left out.

        Returns:
            Array of int32.
        """
        marks, said, mark = set(self.sentinels.tolist()), {}, None
        for i in np.asarray(target).tolist():
            if i in marks:
                mark = i
            else:
                said.setdefault(mark, []).append(i)
        text = []
        for i in np.asarray(source).tolist():
            text += said.get(i, []) if i in marks else [i]
        return np.array(text, "int32")


def _parts(total, count, rng):
    """A whole number as a sum of so many, each 1 at least, all sums equally likely.

    Examples:
        >>> _parts(5, 5, np.random.default_rng(0)).tolist()
        [1, 1, 1, 1, 1]
    """
    cuts = np.sort(rng.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total)
