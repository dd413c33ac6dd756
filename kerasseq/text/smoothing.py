r"""What an n-gram that never occurred is given: add-k, back-off and Kneser–Ney.

$c$ is a context of $m$ tokens, $c'$ the same without its first, $N$ counts, $N_+(c)$ is
how many different tokens followed $c$, $V$ the size of the vocabulary.

**Add-k.** $p(u \mid c) = (N(c\,u) + k) / (N(c) + k V)$.

**Back-off.** A token seen after $c$ loses a discount, and the others share what was
taken in proportion to what the shorter context says of them:

$$
p(u \mid c) = \begin{cases}
(N(c\,u) - D) / N(c) & N(c\,u) > 0 \\
\alpha(c)\, p(u \mid c') & \text{else}
\end{cases}
\qquad
\alpha(c) = \frac{D\, N_+(c) / N(c)}{\sum_{u:\, N(c\,u) = 0} p(u \mid c')}
$$

The scheme is Katz's, the discount is absolute, Ney's $D = n_1 / (n_1 + 2 n_2)$, where
$n_i$ grams of the level were seen $i$ times. Katz took Good and Turing's estimate for
counts up to 5, which needs counts of counts up to 6 that are smooth; few are in a short
text, and then it gives negative or growing discounts. A single $D$ needs $n_1$ and
$n_2$ alone, and always lies between 0 and 1. If all $V$ tokens followed $c$, there is
nobody to give to, and nothing is taken.

**Kneser–Ney**, interpolated and modified: every token gets a share of what was taken,

$$
p(u \mid c) = \frac{a(c\,u) - D(a(c\,u))}{\sum_v a(c\,v)} + \gamma(c)\, p(u \mid c')
\qquad
\gamma(c) = \frac{\sum_v D(a(c\,v))}{\sum_v a(c\,v)}
$$

with $a = N$ for the context that is asked for and, for the shorter ones below it, the
continuation count $a(g) = |\{v : N(v\,g) > 0\}|$: before how many different tokens it
stands, since "Francisco" is frequent, but after "San" alone. Discounts of counts 1, 2,
and 3 or more, with $Y = n_1 / (n_1 + 2 n_2)$:

$$
D_1 = 1 - 2 Y \frac{n_2}{n_1} \qquad
D_2 = 2 - 3 Y \frac{n_3}{n_2} \qquad
D_{3+} = 3 - 4 Y \frac{n_4}{n_3}
$$

In both the context of no tokens falls back on $1 / V$, and a context that was never
followed by anything on the shorter one, as if it were not there. Where an estimate
cannot be made, since an $n_i$ is 0, or is not positive, all those of the level are
replaced: by ½ for back-off, and by ½, 1 and 1½ for Kneser–Ney, as KenLM does when
asked to.

From: Katz, "Estimation of Probabilities from Sparse Data", 1987; Ney, Essen and Kneser,
"On structuring probabilistic dependences in stochastic language modelling", 1994;
Kneser and Ney, "Improved backing-off for m-gram language modeling", 1995; Chen and
Goodman, "An empirical study of smoothing techniques for language modeling", 1999.

Left out: Good–Turing, Witten–Bell, weights learned on held-out text, pruning.
"""

from typing import NamedTuple

import numpy as np

from kerasseq.text.ngram_counts import NGramCounts

FALLBACK = {"backoff": (0.5, 0.5, 0.5), "kneser_ney": (0.5, 1.0, 1.5)}


class AddK:
    """Add k to every count.

    Args:
        counts: The n-grams.
        smooth: Turns counts and totals into probabilities.
    """

    def __init__(self, counts: NGramCounts, smooth):
        self.counts, self.smooth = counts, smooth

    def after(self, context: np.ndarray) -> np.ndarray:
        """Return the distribution after at most n - 1 tokens, `(V,)`."""
        counts, size, m = self.counts, self.counts.size, len(context)
        rank = counts.find(context)
        if rank < 0:
            return np.full(size, 1 / size)
        tokens, grams = counts.followers(m, rank)
        row = np.zeros(size)
        row[tokens] = counts.counts[m][grams]
        return self.smooth(row, np.full(size, counts.totals[m][rank]))

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Return the probability of each token of a text, `(time,)`."""
        p = np.zeros(len(ids))
        for m, (context, gram) in enumerate(self.counts.walk(ids)):
            here = _here(m, self.counts.n)
            seen = np.where(gram < 0, 0, self.counts.counts[m][gram])[here]
            total = np.where(context < 0, 0, self.counts.totals[m][context])[here]
            p[m : m + len(seen)] = self.smooth(seen, total)
        return p


class Level(NamedTuple):
    r"""Probabilities after contexts of one length.

    Both methods end in this form: $p(u \mid c)$ is written down for the grams that were
    seen, and is $\alpha(c)\, p(u \mid c')$ for the others.

    Attributes:
        p: `(grams,)`: $p(u \mid c)$ of each gram seen.
        alpha: `(contexts,)`: the weight of the shorter context for tokens unseen.
        D: `(4,)`: what was taken from counts of 0, 1, 2, and 3 or more.
    """

    p: np.ndarray
    alpha: np.ndarray
    D: np.ndarray

    def score(self, context, gram, shorter):
        """Return p for ranks of contexts and grams, -1 where unseen, `(time,)`."""
        alpha = np.where(context < 0, 1.0, self.alpha[context])
        return np.where(gram < 0, alpha * shorter, self.p[gram])


class Discounted:
    """Back-off or Kneser–Ney, computed once for all grams seen.

    Args:
        counts: The n-grams.
        smoothing: `"backoff"` or `"kneser_ney"`.
        discount: The discount of every count at every level; None estimates it.

    Attributes:
        top: Per level, for a context that is asked for.
        lower: Per level, for a context that a longer one falls back on.
    """

    def __init__(self, counts: NGramCounts, smoothing: str, discount: float | None):
        self.counts = counts
        if smoothing == "backoff":
            self.top = self.lower = _backoff(counts, discount)
        else:
            self.top, self.lower = _kneser_ney(counts, discount)

    def after(self, context: np.ndarray) -> np.ndarray:
        """Return the distribution after at most n - 1 tokens, `(V,)`."""
        p, longest = np.full(self.counts.size, 1 / self.counts.size), len(context)
        for m in range(longest + 1):
            rank = self.counts.find(context[longest - m :])
            if rank < 0:  # what is longer is unseen, too
                break
            level = self.top[m] if m == longest else self.lower[m]
            tokens, grams = self.counts.followers(m, rank)
            p *= level.alpha[rank]
            p[tokens] = level.p[grams]
        return p

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Return the probability of each token of a text, `(time,)`."""
        p, result = np.full(len(ids), 1 / self.counts.size), np.zeros(len(ids))
        for m, (context, gram) in enumerate(self.counts.walk(ids)):
            here = _here(m, self.counts.n)
            scores = self.top[m].score(context[here], gram[here], p[m:][here])
            result[m : m + len(scores)] = scores
            if m < self.counts.n - 1:
                p[m:] = self.lower[m].score(context, gram, p[m:])
        return result


def discounts(a: np.ndarray, smoothing: str, discount: float | None) -> np.ndarray:
    """Return what is taken from counts of 0, 1, 2, and 3 or more.

    Args:
        a: The counts of a level.
        smoothing: `"backoff"` or `"kneser_ney"`.
        discount: The same for all of them; None estimates.

    Examples:
        >>> discounts(np.array([1, 1, 1, 1, 2, 2, 3, 3, 4]), "kneser_ney", None)
        array([0. , 0.5, 0.5, 2. ])
        >>> discounts(np.array([2, 2]), "kneser_ney", None)  # nothing was seen once
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
    """Return the levels of back-off with absolute discounting."""
    levels, V, suffixes = [], counts.size, counts.suffixes()
    below = np.zeros(1)  # per context c': what was taken from each of its tokens
    for m, (N, totals) in enumerate(zip(counts.counts, counts.totals, strict=True)):
        context = counts.grams[m] // V
        followers = np.bincount(context, minlength=len(totals))  # N+(c)
        D = discounts(N, "backoff", discount)
        taken = np.where(followers < V, D[1], 0.0)
        # The sum of p(u|c') over the tokens unseen after c. One minus the sum over the
        # others would lose its digits where little is left; counts lose none.
        if m == 0:
            unseen = 1 - followers / V
        else:
            shorter = suffixes[m - 1]
            seen = np.bincount(context, counts.counts[m - 1][suffixes[m]], len(totals))
            # Where c' is followed by nothing, neither is c, and alpha stays 1.
            N_shorter = np.maximum(counts.totals[m - 1][shorter], 1)
            unseen = (N_shorter - seen + below[shorter] * followers) / N_shorter
        alpha = np.ones(len(totals))
        some = (totals > 0) & (followers < V)
        left = taken * followers
        np.divide(left, totals * unseen, out=alpha, where=some)
        levels.append(Level((N - taken[context]) / totals[context], alpha, D))
        below = taken
    return levels


def _kneser_ney(counts: NGramCounts, discount: float | None):
    """Return the levels of Kneser–Ney for contexts asked for and for those below."""
    suffixes = counts.suffixes()
    top, lower, p = [], [], np.full(1, 1 / counts.size)
    for m in range(counts.n):
        context, below = counts.grams[m] // counts.size, p[suffixes[m]]
        arguments = (context, below, len(counts.totals[m]), discount)
        top.append(_interpolated(counts.counts[m], *arguments))
        if m < counts.n - 1:
            # Each longer gram is there once: as many as a gram ends, so many tokens
            # stand before it.
            ends = np.bincount(suffixes[m + 1], minlength=len(context))
            lower.append(_interpolated(ends, *arguments))
            p = lower[m].p
    return top, lower


def _interpolated(a, context, below, contexts: int, discount) -> Level:
    """Return a level of Kneser–Ney.

    Args:
        a: `(grams,)`: the counts.
        context: `(grams,)`: the rank of each gram's context.
        below: `(grams,)`: what the shorter context says of the token.
        contexts: How many there are.
        discount: As in `discounts`.
    """
    D = discounts(a, "kneser_ney", discount)
    taken = D[np.minimum(a, 3)]
    total = np.bincount(context, a, contexts)
    gamma = np.ones(contexts)  # where nothing was counted the shorter context decides
    np.divide(np.bincount(context, taken, contexts), total, out=gamma, where=total > 0)
    own = np.zeros(len(a))
    np.divide(a - taken, total[context], out=own, where=total[context] > 0)
    return Level(own + gamma[context] * below, gamma, D)


def _here(m: int, n: int) -> slice:
    """All positions for contexts of n - 1 tokens; the first one for shorter ones."""
    return slice(None) if m == n - 1 else slice(1)
