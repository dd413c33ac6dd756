r"""Smoothing of n-gram models: add-k, back-off and Kneser–Ney.

$c$ is a context of $m$ tokens, $c'$ the same without its first token, $N$ are counts,
$N_+(c)$ is the number of distinct tokens after $c$, and $V$ the vocabulary size.

**Add-k.** $p(u \mid c) = (N(c\,u) + k) / (N(c) + k V)$.

**Back-off.** The counts of tokens seen after $c$ are discounted, and the others share
the discounted mass in proportion to their probability after the shorter context:

$$
p(u \mid c) = \begin{cases}
(N(c\,u) - D) / N(c) & N(c\,u) > 0 \\
\alpha(c)\, p(u \mid c') & \text{else}
\end{cases}
\qquad
\alpha(c) = \frac{D\, N_+(c) / N(c)}{\sum_{u:\, N(c\,u) = 0} p(u \mid c')}
$$

The scheme is Katz's; the discount is absolute, Ney's $D = n_1 / (n_1 + 2 n_2)$, where
$n_i$ n-grams of the level occur $i$ times. Katz used Good–Turing estimates for counts
up to 5, which need smooth counts of counts up to 6; in a short text they give negative
or growing discounts. A single $D$ needs only $n_1$ and $n_2$, and is always between 0
and 1. If all $V$ tokens followed $c$, there is no discount.

**Kneser–Ney**, interpolated and modified: every token gets a share of the discounted
mass,

$$
p(u \mid c) = \frac{a(c\,u) - D(a(c\,u))}{\sum_v a(c\,v)} + \gamma(c)\, p(u \mid c')
\qquad
\gamma(c) = \frac{\sum_v D(a(c\,v))}{\sum_v a(c\,v)}
$$

with $a = N$ for the full context and, for the shorter ones, the continuation count
$a(g) = |\{v : N(v\,g) > 0\}|$: the number of distinct tokens before it. ("Francisco" is
frequent, but only after "San".) The discounts of counts 1, 2, and 3 or more, with
$Y = n_1 / (n_1 + 2 n_2)$, are

$$
D_1 = 1 - 2 Y \frac{n_2}{n_1} \qquad
D_2 = 2 - 3 Y \frac{n_3}{n_2} \qquad
D_{3+} = 3 - 4 Y \frac{n_4}{n_3}
$$

In both, the empty context falls back to $1 / V$, and an unseen context to the shorter
one. If a discount of a level cannot be estimated, because an $n_i$ is 0, or is not
positive, all discounts of the level become ½ for back-off, and ½, 1 and 1½ for
Kneser–Ney, as with `--discount_fallback` of KenLM.

From: Katz, "Estimation of Probabilities from Sparse Data", 1987; Ney, Essen and Kneser,
"On structuring probabilistic dependences in stochastic language modelling", 1994;
Kneser and Ney, "Improved backing-off for m-gram language modeling", 1995; Chen and
Goodman, "An empirical study of smoothing techniques for language modeling", 1999.

Left out: Good–Turing, Witten–Bell, weights learned on held-out text, pruning.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kerasseq.text.classical.ngram_counts import NGramCounts

Smooth = Callable[[np.ndarray, np.ndarray], np.ndarray]
FALLBACK = {"backoff": (0.5, 0.5, 0.5), "kneser_ney": (0.5, 1.0, 1.5)}


class AddK:
    """Add-k smoothing.

    Args:
        counts: The n-grams.
        smooth: Function from counts and totals to probabilities.
    """

    def __init__(self, counts: NGramCounts, smooth: Smooth):
        self.counts: NGramCounts = counts
        self.smooth: Smooth = smooth

    def after(self, context: np.ndarray) -> np.ndarray:
        """Returns the distribution after at most n - 1 tokens, `(V,)`."""
        counts, size, m = self.counts, self.counts.size, len(context)
        rank = counts.find(context)
        if rank < 0:
            return np.full(size, 1 / size)
        tokens, grams = counts.followers(m, rank)
        row = np.zeros(size)
        row[tokens] = counts.counts[m][grams]
        return self.smooth(row, np.full(size, counts.totals[m][rank]))

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Returns the probability of each token of a text, `(time,)`."""
        p = np.zeros(len(ids))
        for m, (context, gram) in enumerate(self.counts.walk(ids)):
            here = _here(m, self.counts.n)
            seen = np.where(gram < 0, 0, self.counts.counts[m][gram])[here]
            total = np.where(context < 0, 0, self.counts.totals[m][context])[here]
            p[m : m + len(seen)] = self.smooth(seen, total)
        return p


class Level(NamedTuple):
    r"""Probabilities after contexts of one length.

    Both methods have this form: $p(u \mid c)$ is stored for seen n-grams, and is
    $\alpha(c)\, p(u \mid c')$ for the others.

    Attributes:
        p: `(grams,)`: $p(u \mid c)$ of each seen n-gram.
        alpha: `(contexts,)`: weight of the shorter context for unseen tokens.
        D: `(4,)`: discounts of counts 0, 1, 2, and 3 or more.
    """

    p: np.ndarray
    alpha: np.ndarray
    D: np.ndarray

    def score(
        self, context: np.ndarray, gram: np.ndarray, shorter: np.ndarray
    ) -> np.ndarray:
        """Returns p for ranks of contexts and n-grams, -1 if unseen, `(time,)`."""
        alpha = np.where(context < 0, 1.0, self.alpha[context])
        return np.where(gram < 0, alpha * shorter, self.p[gram])


class Discounted:
    """Back-off or Kneser–Ney smoothing, precomputed for all seen n-grams.

    Args:
        counts: The n-grams.
        smoothing: `"backoff"` or `"kneser_ney"`.
        discount: The discount of every count at every level; None estimates it.

    Attributes:
        top: For each level, probabilities for a full context.
        lower: For each level, probabilities for a context of back-off.
    """

    def __init__(self, counts: NGramCounts, smoothing: str, discount: float | None):
        self.counts = counts
        if smoothing == "backoff":
            top = lower = _backoff(counts, discount)
        else:
            top, lower = _kneser_ney(counts, discount)
        self.top: list[Level] = top
        self.lower: list[Level] = lower

    def after(self, context: np.ndarray) -> np.ndarray:
        """Returns the distribution after at most n - 1 tokens, `(V,)`."""
        p, longest = np.full(self.counts.size, 1 / self.counts.size), len(context)
        for m in range(longest + 1):
            rank = self.counts.find(context[longest - m :])
            if rank < 0:  # longer contexts are unseen as well
                break
            level = self.top[m] if m == longest else self.lower[m]
            tokens, grams = self.counts.followers(m, rank)
            p *= level.alpha[rank]
            p[tokens] = level.p[grams]
        return p

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Returns the probability of each token of a text, `(time,)`."""
        p, result = np.full(len(ids), 1 / self.counts.size), np.zeros(len(ids))
        for m, (context, gram) in enumerate(self.counts.walk(ids)):
            here = _here(m, self.counts.n)
            scores = self.top[m].score(context[here], gram[here], p[m:][here])
            result[m : m + len(scores)] = scores
            if m < self.counts.n - 1:
                p[m:] = self.lower[m].score(context, gram, p[m:])
        return result


def discounts(a: np.ndarray, smoothing: str, discount: float | None) -> np.ndarray:
    """Returns the discounts of counts 0, 1, 2, and 3 or more.

    Args:
        a: The counts of a level.
        smoothing: `"backoff"` or `"kneser_ney"`.
        discount: One discount for all counts; None estimates them.

    Examples:
        >>> discounts(np.array([1, 1, 1, 1, 2, 2, 3, 3, 4]), "kneser_ney", None)
        array([0. , 0.5, 0.5, 2. ])
        >>> discounts(np.array([2, 2]), "kneser_ney", None)  # no count of 1
        array([0. , 0.5, 1. , 1.5])
    """
    n1, n2, n3, n4 = (int((a == i).sum()) for i in (1, 2, 3, 4))
    if discount is not None:
        D = [discount] * 3
    elif smoothing == "backoff" and n1 * n2:
        D = [n1 / (n1 + 2 * n2)] * 3
    elif smoothing == "kneser_ney" and n1 * n2 * n3 * n4:
        Y = n1 / (n1 + 2 * n2)
        D = [1 - 2 * Y * n2 / n1, 2 - 3 * Y * n3 / n2, 3 - 4 * Y * n4 / n3]
    else:
        D = FALLBACK[smoothing]
    return np.array([0.0, *(D if min(D) > 0 else FALLBACK[smoothing])])


def _backoff(counts: NGramCounts, discount: float | None) -> list[Level]:
    """Returns the levels of back-off with absolute discounting."""
    levels, V, suffixes = [], counts.size, counts.suffixes()
    below = np.zeros(1)  # for each context c': the discount of each of its tokens
    for m, (N, totals) in enumerate(zip(counts.counts, counts.totals, strict=True)):
        context = counts.grams[m] // V
        followers = np.bincount(context, minlength=len(totals))  # N+(c)
        D = discounts(N, "backoff", discount)
        taken = np.where(followers < V, D[1], 0.0)
        # The sum of p(u|c') over the tokens unseen after c, from counts: one minus the
        # sum over the others would cancel.
        if m == 0:
            unseen = 1 - followers / V
        else:
            shorter = suffixes[m - 1]
            seen = np.bincount(context, counts.counts[m - 1][suffixes[m]], len(totals))
            # If nothing follows c', nothing follows c, and alpha stays 1.
            N_shorter = np.maximum(counts.totals[m - 1][shorter], 1)
            unseen = (N_shorter - seen + below[shorter] * followers) / N_shorter
        alpha = np.ones(len(totals))
        some = (totals > 0) & (followers < V)
        left = taken * followers
        np.divide(left, totals * unseen, out=alpha, where=some)
        levels.append(Level((N - taken[context]) / totals[context], alpha, D))
        below = taken
    return levels


def _kneser_ney(
    counts: NGramCounts, discount: float | None
) -> tuple[list[Level], list[Level]]:
    """Returns the levels of Kneser–Ney for full and for shorter contexts."""
    suffixes = counts.suffixes()
    top, lower, p = [], [], np.full(1, 1 / counts.size)
    for m in range(counts.n):
        context, below = counts.grams[m] // counts.size, p[suffixes[m]]
        arguments = (context, below, len(counts.totals[m]), discount)
        top.append(_interpolated(counts.counts[m], *arguments))
        if m < counts.n - 1:
            # The longer n-grams are distinct, so those that end with this one count
            # the distinct tokens before it.
            ends = np.bincount(suffixes[m + 1], minlength=len(context))
            lower.append(_interpolated(ends, *arguments))
            p = lower[m].p
    return top, lower


def _interpolated(a, context, below, contexts: int, discount) -> Level:
    """Returns a level of Kneser–Ney.

    Args:
        a: `(grams,)`: the counts.
        context: `(grams,)`: rank of the context of each n-gram.
        below: `(grams,)`: probability of the token after the shorter context.
        contexts: Number of contexts.
        discount: As in `discounts`.
    """
    D = discounts(a, "kneser_ney", discount)
    taken = D[np.minimum(a, 3)]
    total = np.bincount(context, a, contexts)
    gamma = np.ones(contexts)  # of contexts without counts
    np.divide(np.bincount(context, taken, contexts), total, out=gamma, where=total > 0)
    own = np.zeros(len(a))
    np.divide(a - taken, total[context], out=own, where=total[context] > 0)
    return Level(own + gamma[context] * below, gamma, D)


def _here(m: int, n: int) -> slice:
    """Returns all positions for full contexts, the first one for shorter contexts."""
    return slice(None) if m == n - 1 else slice(1)
