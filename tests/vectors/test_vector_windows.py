"""Windows and co-occurrences: equal to plain loops over a text."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.vectors.cooccurrences import cooccurrences
from kerasseq.vectors.windows import BLOCK, windows

pytestmark = pytest.mark.once("NumPy alone")


def pairs_of_loop(ids, sentences, reach, w):
    """Center and context by position, and the distance."""
    for t in range(w, len(ids) - w):
        b = reach[t - w]
        for s in range(t - b, t + b + 1):
            if s != t and sentences[s] == sentences[t]:
                yield t - w, s, abs(s - t)


@given(
    st.integers(1, 7),
    st.integers(1, 3),
    st.lists(st.integers(0, 9), min_size=1, max_size=19),
    st.integers(0, 99),
)
def test_windows_are_those_of_a_loop(w, blocks, lengths, seed):
    rng = np.random.default_rng(seed)
    T = blocks * BLOCK
    sentences = np.resize(np.repeat(np.arange(len(lengths)), lengths), T)
    if not sum(lengths):
        sentences = np.zeros(T, int)
    sentences = np.concatenate([np.full(w, -1), sentences, np.full(w, -2)])
    ids = rng.integers(0, 23, T + 2 * w).astype("int32")
    reach = rng.integers(1, w + 1, T)
    found = windows(ids, sentences, reach, w)
    expected = sorted(pairs_of_loop(ids, sentences, reach, w))
    n, i, j = np.nonzero(found.mask)
    positions = sorted(zip(n * BLOCK + i, n * BLOCK + j, strict=True))
    assert positions == [(t, s) for t, s, _ in expected]
    assert found.centers.ravel().tolist() == ids[w : w + T].tolist()
    for block in range(blocks):
        first = block * BLOCK
        last = first + BLOCK + 2 * w
        assert found.contexts[block].tolist() == ids[first:last].tolist()
    t, o = np.nonzero(found.slots)
    assert sorted(zip(t, t + o, strict=True)) == positions
    assert (found.neighbors[t, o] == ids[t + o]).all()


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=9), min_size=1, max_size=5),
    st.integers(1, 4),
    st.booleans(),
)
def test_cooccurrences_are_those_of_a_loop(texts, w, at_once):
    expected = defaultdict(float)
    for ids in texts:
        for t, i in enumerate(ids):
            for s in range(max(0, t - w), min(len(ids), t + w + 1)):
                if s != t:
                    expected[i, ids[s]] += 1 / abs(s - t)
    chunks = [(np.array(ids, int), np.full(len(ids), n)) for n, ids in enumerate(texts)]
    if at_once:
        chunks = [tuple(np.concatenate(part) for part in zip(*chunks, strict=True))]
    if not expected:
        with pytest.raises(ValueError, match="no two words of the vocabulary occur in"):
            cooccurrences(chunks, 5, w)
        return
    found = cooccurrences(chunks, 5, w)
    assert list(map(tuple, found.pairs.tolist())) == sorted(expected)
    np.testing.assert_allclose(found.counts, [expected[p] for p in sorted(expected)])


def test_counts_are_merged_in_parts(monkeypatch):
    from kerasseq.vectors import cooccurrences as module

    ids = np.random.default_rng(0).integers(0, 7, 200)
    chunks = [(part, np.zeros(20)) for part in ids.reshape(10, 20)]
    whole = cooccurrences(chunks, 7, 3)
    monkeypatch.setattr(module, "PENDING", 50)
    parts = cooccurrences(chunks, 7, 3)
    assert (whole.pairs == parts.pairs).all()
    np.testing.assert_allclose(whole.counts, parts.counts)
