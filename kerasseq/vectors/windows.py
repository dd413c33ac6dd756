r"""The contexts of words in a text: dynamic windows, in blocks for matrix products.

A word at position $t$ has the words at $t + o$ with $1 \le |o| \le b_t$ of its sentence
as contexts, where $b_t$ is drawn from 1 to the window. So near words count more.

The centers of a block are consecutive, and so are all words that may be their contexts.
A mask says which center has which context: the scores of a block are one product of
matrices, and each vector is read once for the block.

From: Mikolov et al., "Efficient Estimation of Word Representations in Vector Space",
2013.
"""

from typing import NamedTuple

import numpy as np

BLOCK = 32  # centers


class Windows(NamedTuple):
    """Blocks of centers and their contexts. Letters: N blocks, L centers, w window.

    Attributes:
        centers: Ids `(N, L)`.
        contexts: Ids `(N, L + 2w)`: the words from w before the first center to w after
            the last.
        mask: Booleans `(N, L, L + 2w)`: whether a word is a context of a center.
        slots: Booleans `(N * L, 2w + 1)`: the same for each center alone, by offset.
        neighbors: Ids `(N * L, 2w + 1)`: the words at these offsets.
    """

    centers: np.ndarray
    contexts: np.ndarray
    mask: np.ndarray
    slots: np.ndarray
    neighbors: np.ndarray


def windows(
    ids: np.ndarray, sentences: np.ndarray, reach: np.ndarray, window: int
) -> Windows:
    """Finds the contexts of consecutive words.

    Args:
        ids: `(T + 2w,)`: w words, T centers, w words. T is a multiple of `BLOCK`.
        sentences: `(T + 2w,)`: the number of the sentence of each word. Those before
            and after the text have another number than all sentences.
        reach: `(T,)`: for each center the largest distance of a context, at most w.
        window: w.

    Returns:
        The `Windows`.

    Examples:
        >>> ids = np.arange(2, 2 + BLOCK + 2)
        >>> pairs = windows(ids, np.zeros_like(ids), np.ones(BLOCK, int), window=1)
        >>> pairs.centers[0, 0], pairs.contexts[0, pairs.mask[0, 0]].tolist()
        (np.int64(3), [2, 4])
    """
    w, L = window, BLOCK
    centers = ids[w : len(ids) - w].reshape(-1, L)
    N = len(centers)
    view = np.lib.stride_tricks.sliding_window_view
    neighbors = view(ids, 2 * w + 1)  # (T, 2w + 1)
    offsets = np.abs(np.arange(-w, w + 1))
    slots = view(sentences, 2 * w + 1) == sentences[w : len(ids) - w, None]
    slots &= (offsets <= reach[:, None]) & (offsets > 0)
    # Center i of a block has its slots in columns i to i + 2w. Rows that are longer by
    # one, read as rows of the right length, are moved by one each.
    long = np.zeros((N, L, L + 2 * w + 1), bool)
    long[:, :, : 2 * w + 1] = slots.reshape(N, L, -1)
    mask = long.reshape(N, -1)[:, : L * (L + 2 * w)].reshape(N, L, L + 2 * w)
    contexts = view(ids, L + 2 * w)[::L]
    return Windows(centers, contexts, mask, slots, neighbors)
