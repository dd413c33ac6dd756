r"""Prefix beam search: the most probable text instead of the most probable path.

A beam holds prefixes of texts. For each prefix $l$ two probabilities sum over its paths
so far: of those that end with a blank, $p_b$, and of the others, $p_n$. With a frame
whose distribution is $y$, and the last token $e$ of $l$:

$$
p_b'(l) = y(\varnothing)\, (p_b(l) + p_n(l)) \qquad
p_n'(l) = y(e)\, p_n(l) \qquad
p_n'(l\,c) = y(c) \begin{cases}
p_b(l) & c = e \\
p_b(l) + p_n(l) & \text{else}
\end{cases}
$$

Where $l\,c$ is in the beam as well, its probabilities are added. The prefixes with the
best scores are kept:

$$
\mathrm{score}(l) = \log (p_b(l) + p_n(l)) + w \log p_{\mathrm{LM}}(l) + b\, |l|
$$

A beam that holds all texts gives the most probable one; a narrow one may lose it.

From: Hannun et al., "First-Pass Large Vocabulary Continuous Speech Recognition using
Bi-Directional Recurrent DNNs", 2014, arXiv:1408.2873. There the language model scores
words; here it scores tokens.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import Tensor
from kerasseq.decoding.ctc import CTCResult, Scores, as_scores, padded
from kerasseq.decoding.ctc_align import align
from kerasseq.decoding.inputs import at_least_zero
from kerasseq.text.classical.ngram import NGramModel
from kerasseq.text.probabilities import log

KEPT = 2**22  # numbers that the cache of a language model has at most
# The scores of each next token after some nodes, `(len(nodes), V)`.
NextScores = Callable[[np.ndarray], np.ndarray]


def ctc_beam(
    logits: Tensor,
    lengths: Sequence[int] | None = None,
    beam: int = 16,
    language_model: NGramModel | None = None,
    weight: float = 0.5,
    bonus: float = 0.0,
    blank: int = -1,
) -> CTCResult:
    """Searches the most probable text of each row by prefix beam search.

    A text is not affected by the other rows of the batch, nor by frames after its own.

    Args:
        logits: `(batch, frames, symbols)`.
        lengths: Number of real frames of each row, `(batch,)`. All are real if None.
        beam: Number of prefixes to keep at each frame.
        language_model: A fitted `text.NGramModel` whose ids are those of the symbols
            without the blank, which is then the last; or of all symbols.
        weight: w, how much the language model counts.
        bonus: b, added for each token: a language model favors short texts.
        blank: The id of the blank, from the end if negative.

    Returns:
        A `CTCResult`. Log-probabilities are sums over the paths in the beam, without
        the language model; frames are those of `ctc_align`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If shapes do not fit, a real frame has NaN, a number is out of
            range, or the language model is not fitted or has another vocabulary.

    Examples:
        >>> p = np.array([[[0.4, 0.6], [0.4, 0.6]]])  # of A; two blanks have 0.36
        >>> result = ctc_beam(np.log(p))
        >>> result.ids.tolist(), np.exp(result.log_probabilities).round(2).tolist()
        ([[0]], [0.64])
    """
    scores = as_scores(logits, lengths, blank)
    beam = checks.size("beam", beam)
    checks.fits_memory("beam", beam, scores.log_y[:, 0].size, 8)
    at_least_zero("weight", weight)
    checks.finite("bonus", bonus)
    B, _, V = scores.log_y.shape
    tree = Prefixes(B, V)
    next_scores = None
    if language_model is not None:
        check_language_model(language_model, V, scores.blank)
        if weight > 0:
            next_scores = language_scores(language_model, weight, tree)
    search = Search(scores, beam, tree, next_scores, bonus)
    best, log_p = search.run()
    rows = [np.array(tree.read(node), "int64") for node in best.tolist()]
    frames, _ = align(scores, rows)
    counts = np.array([len(ids) for ids in rows], "int32")
    return CTCResult(padded(rows), counts, log_p, frames)


class Prefixes:
    """All prefixes that were in a beam, as the nodes of a tree for each row.

    Args:
        batch: Number of rows; their empty prefixes are the first nodes.
        num_symbols: V.

    Attributes:
        parent: The node that each node extends; -1 for an empty prefix.
        token: The id by which it does.

    Examples:
        >>> tree = Prefixes(1, 5)
        >>> node = tree.extend(tree.extend([0], [3]), [1])[0]
        >>> tree.read(node)
        [3, 1]
    """

    def __init__(self, batch: int, num_symbols: int) -> None:
        self.num_symbols: int = num_symbols
        self.parent: list[int] = [-1] * batch
        self.token: list[int] = [-1] * batch
        self._by_key: dict[int, int] = {}

    def extend(self, parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Returns the nodes that extend others by a token, the old one if there is."""
        nodes = []
        for parent, token in zip(parents, tokens, strict=True):
            key = parent * self.num_symbols + token
            node = self._by_key.get(key)
            if node is None:
                node = self._by_key[key] = len(self.parent)
                self.parent.append(parent)
                self.token.append(token)
            nodes.append(node)
        return nodes

    def read(self, node: int, most: int | None = None) -> list[int]:
        """Returns the ids of a prefix, or its last ones, as many as `most`."""
        ids = []
        while self.parent[node] >= 0 and len(ids) != most:
            ids.append(self.token[node])
            node = self.parent[node]
        return ids[::-1]


class Search:
    """The beams of all rows.

    Args:
        scores: The checked logits.
        beam: W, the number of prefixes of a row.
        tree: The prefixes.
        next_scores: The scores of a language model, or None.
        bonus: What each token adds to the score.
    """

    def __init__(
        self,
        scores: Scores,
        beam: int,
        tree: Prefixes,
        next_scores: NextScores | None,
        bonus: float,
    ) -> None:
        B, _, V = scores.log_y.shape
        self.scores: Scores = scores
        self.tree: Prefixes = tree
        self.next_scores: NextScores | None = next_scores
        self.bonus: float = bonus
        # Rows with more frames come first, so that those in work are a slice.
        self.order: np.ndarray = np.argsort(-scores.lengths, kind="stable")
        shape = (B, beam)
        never = np.full(shape, -np.inf)
        self.node: np.ndarray = np.full(shape, -1)
        self.parent: np.ndarray = np.full(
            shape, -2
        )  # no node is the parent of an empty prefix
        self.last: np.ndarray = np.full(shape, scores.blank)
        self.p_b: np.ndarray = never.copy()
        self.p_n: np.ndarray = never.copy()
        self.prior: np.ndarray = np.zeros(shape)
        self.node[:, 0], self.p_b[:, 0] = self.order, 0.0
        self.after: np.ndarray | None = (
            None  # scores of the next token from the language model
        )
        if next_scores is not None:
            self.after = np.zeros((B, beam, V))
            self.after[:, 0] = next_scores(self.node[:, 0])

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the best node of each row, and its log-probability."""
        log_y, lengths = self.scores.log_y[self.order], self.scores.lengths[self.order]
        for t in range(log_y.shape[1]):
            n = int((lengths > t).sum())
            if n:
                self.step(log_y[:n, t])
        total = np.logaddexp(self.p_b, self.p_n)
        best = (total + self.prior).argmax(axis=1)[:, None]
        nodes, log_p = np.zeros(len(best), int), np.zeros(len(best))
        nodes[self.order] = np.take_along_axis(self.node, best, axis=1)[:, 0]
        log_p[self.order] = np.take_along_axis(total, best, axis=1)[:, 0]
        return nodes, log_p

    def step(self, y: np.ndarray) -> None:
        """Reads a frame, log-probabilities `(n, V)`, in the first n rows."""
        n, V = y.shape
        rows = np.arange(n)[:, None]
        last, p_b, p_n, prior = (
            x[:n] for x in (self.last, self.p_b, self.p_n, self.prior)
        )
        blank = self.scores.blank
        total = np.logaddexp(p_b, p_n)  # (n, W)
        y_last = y[rows, last]
        stay_b, stay_n = total + y[:, blank, None], p_n + y_last
        longer = total[:, :, None] + y[:, None]  # (n, W, V)
        slots = np.arange(longer.shape[1])
        longer[rows, slots, last] = p_b + y_last
        longer[:, :, blank] = -np.inf
        # The extension of a prefix that is in the beam is that prefix.
        row, child, parent = np.nonzero(self.parent[:n, :, None] == self.node[:n, None])
        token = last[row, child]
        same = longer[row, parent, token]
        stay_n[row, child] = np.logaddexp(stay_n[row, child], same)
        longer[row, parent, token] = -np.inf

        ranked = longer + prior[:, :, None] + self.bonus
        if self.after is not None:
            ranked += self.after[:n]
        stayed = np.logaddexp(stay_b, stay_n) + prior
        W = stayed.shape[1]
        ranked = np.concatenate([stayed, ranked.reshape(n, W * V)], axis=1)
        kept = np.argpartition(-ranked, W - 1, axis=1)[:, :W]  # (n, W)
        self._keep(kept, np.take_along_axis(ranked, kept, 1), stay_b, stay_n, longer)

    def _keep(self, kept, ranked, stay_b, stay_n, longer):
        """Replaces the beams by the kept prefixes."""
        n, W, V = longer.shape
        rows = np.arange(n)[:, None]
        extended = kept >= W
        slot, token = np.divmod(np.where(extended, kept - W, kept * V), V)
        dead = ranked == -np.inf
        p_b = np.where(extended, -np.inf, stay_b[rows, slot])
        p_n = np.where(extended, longer[rows, slot, token], stay_n[rows, slot])
        node, prior = self.node[rows, slot], self.prior[rows, slot]
        parent = np.where(extended, node, self.parent[rows, slot])
        last = np.where(extended, token, self.last[rows, slot])
        new = extended & ~dead
        node[new] = self.tree.extend(node[new].tolist(), token[new].tolist())
        prior = np.where(dead, 0.0, prior + self.bonus * extended)
        if self.after is not None:
            after = self.after[rows, slot]
            prior[new] += after[new, token[new]]
            if new.any():
                after[new] = self.next_scores(node[new])
            self.after[:n] = after
        node[dead], parent[dead] = -1, -2
        p_b[dead] = p_n[dead] = -np.inf
        self.node[:n], self.parent[:n], self.last[:n] = node, parent, last
        self.p_b[:n], self.p_n[:n], self.prior[:n] = p_b, p_n, prior


def language_scores(model: NGramModel, weight: float, tree: Prefixes) -> NextScores:
    """Returns a function from nodes to the weighted scores of each next token.

    Args:
        model: A fitted n-gram model.
        weight: w.
        tree: The prefixes of the nodes.
    """
    V = tree.num_symbols

    @functools.lru_cache(maxsize=max(1024, KEPT // V))
    def after(context: tuple[int, ...]) -> np.ndarray:
        row = np.zeros(V)  # the blank, if the model has none, extends no text
        p = model.probabilities(context)
        row[: len(p)] = weight * log(p)
        return row

    def next_scores(nodes: np.ndarray) -> np.ndarray:
        reads = (tree.read(node, model.n - 1) for node in nodes.tolist())
        return np.stack([after(tuple(context)) for context in reads])

    return next_scores


def check_language_model(model: NGramModel, num_symbols: int, blank: int) -> None:
    """Raises unless the ids of a language model are those of the symbols."""
    if not isinstance(model, NGramModel):
        raise TypeError(
            "language_model must be a text.NGramModel or None, received "
            f"{checks.short(model)}"
        )
    size = model.vocabulary_size
    if size is None:
        raise ValueError(
            "language_model must be fitted, received one that is not. Call its `fit` "
            "with a text of the same tokens"
        )
    if size != num_symbols and (size, blank) != (num_symbols - 1, num_symbols - 1):
        raise ValueError(
            f"language_model must have the ids of the {num_symbols} symbols, or of all "
            f"but a blank at the end, received vocabulary_size={size} and "
            f"blank={blank}. Fit it on ids of the same tokenizer"
        )
