"""IBM Model 1, against the sum over all alignments, and alignments that are known."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from kerasseq import datasets
from kerasseq.text import IBMModel1

pytestmark = pytest.mark.once("loads no Keras")
SOURCES = ["a b", "b c a", "c", "b b d"]
TARGETS = ["x y z", "y x", "z z", "x w"]


def by_enumeration(sources, targets, iterations, empty):
    """Brown et al. 1993, with each alignment of a pair by itself."""
    x = [[*s.split(), *([""] if empty else [])] for s in sources]
    y = [t.split() for t in targets]
    words = {word for row in y for word in row}
    t = {(a, b): 1 / len(words) for row in x for a in row for b in words}
    bits = []
    for _ in range(iterations + 1):
        counts, total, logs = dict.fromkeys(t, 0.0), 0, 0.0
        for s, target in zip(x, y, strict=True):
            ways = list(itertools.product(range(len(s)), repeat=len(target)))
            p = [
                np.prod([t[s[i], b] / len(s) for i, b in zip(way, target, strict=True)])
                for way in ways
            ]
            for way, share in zip(ways, p / np.sum(p), strict=True):
                for i, b in zip(way, target, strict=True):
                    counts[s[i], b] += share
            logs, total = logs + np.log2(np.sum(p)), total + len(target)
        bits.append(-logs / total)
        if len(bits) <= iterations:
            sums = {a: sum(c for (k, _), c in counts.items() if k == a) for a, _ in t}
            t = {(a, b): c / sums[a] for (a, b), c in counts.items()}
    return t, bits


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("iterations", [1, 4])
def test_translations_are_those_of_all_alignments(iterations, empty):
    model = IBMModel1(iterations=iterations, empty_word=empty).fit(SOURCES, TARGETS)
    t, bits = by_enumeration(SOURCES, TARGETS, iterations, empty)
    np.testing.assert_allclose(model.bits, bits)
    for word in ["a", "b", "c", "d", *([""] if empty else [])]:
        found = model.translations(word, top=9)
        assert dict(found) == pytest.approx(
            {b: p for (a, b), p in t.items() if a == word and b in dict(found)}
        )
        assert sum(p for _, p in found) == pytest.approx(1)
    source, target = SOURCES[1].split() + [""] * empty, TARGETS[1].split()
    table = np.array([[t[a, b] for a in source] for b in target])
    expected = table / table.sum(1, keepdims=True)
    np.testing.assert_allclose(model.weights(SOURCES[1], TARGETS[1]), expected)


def test_known_alignments_are_found():
    training, test = (datasets.aligned_sentences(n, seed=n) for n in (300, 200))
    model = IBMModel1().fit(*zip(*[pair[:2] for pair in training], strict=True))
    found = [model.align(pair.source, pair.target) == pair.alignment for pair in test]
    assert np.concatenate(found).mean() >= 0.95
    assert model.translations("cheval", 1)[0][0] == "horse"
    swapped = [pair.target for pair in training[1:] + training[:1]]  # of other pairs
    wrong = IBMModel1().fit([pair.source for pair in training], swapped)
    found = [wrong.align(pair.source, pair.target) == pair.alignment for pair in test]
    assert np.concatenate(found).mean() < 0.4


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(
    pairs=st.lists(
        st.tuples(*[st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)] * 2),
        min_size=1,
        max_size=5,
    )
)
def test_the_loss_never_rises_and_rows_sum_to_one(pairs):
    sources, targets = (
        [" ".join(words) for words in side] for side in zip(*pairs, strict=True)
    )
    model = IBMModel1(iterations=7).fit(sources, targets)
    assert (np.diff(model.bits) <= 1e-9).all()
    weights = model.weights(sources[0], targets[0])
    assert weights.shape == (len(pairs[0][1]), len(pairs[0][0]) + 1)
    np.testing.assert_allclose(weights.sum(1), 1)


def test_unknown_words_and_the_empty_word():
    model = IBMModel1().fit(["a", "a b"], ["x", "x y"])
    np.testing.assert_array_equal(model.align("q a", "z x"), [-1, 1])
    np.testing.assert_allclose(model.weights("q a", "z")[0], 1 / 3)
    # In half of the pairs "of" comes from nothing that is in the others.
    sources = ["a b", "c d", "a d", "c b", "e", "f", "e f"]
    targets = ["A o B", "C o D", "A o D", "C o B", "E", "F", "E F"]
    found = IBMModel1(iterations=30).fit(sources, targets)
    assert found.translations("")[0][0] == "o"
    np.testing.assert_array_equal(found.align("a b", "A o B"), [0, -1, 1])


def test_a_file_restores_it(tmp_path):
    model = IBMModel1(iterations=3, lowercase=False).fit(SOURCES, TARGETS)
    model.save(tmp_path / "model.json")
    again = IBMModel1.load(tmp_path / "model.json")
    assert again.get_config() == model.get_config()
    np.testing.assert_array_equal(
        again.weights("a c", "x z q"), model.weights("a c", "x z q")
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m.fit(["a"], ["x", "y"]), ValueError, "same length"),
        (lambda m: m.fit(["a", " "], ["x", "y"]), ValueError, r"sources\[1\]"),
        (lambda m: m.fit(["a"], [None]), TypeError, "targets"),
        (lambda m: m.fit([], []), ValueError, "at least one text"),
        (lambda m: m.fit("a", ["x"]), TypeError, "sources"),
        (lambda m: m.align("a", "x"), ValueError, "fit"),
        (lambda m: m.fit(["a"], ["x"]).translations("q"), ValueError, "word must be"),
        (lambda m: m.fit(["a"], ["x"]).align("", "x"), ValueError, "source must"),
        (lambda m: m.fit(["a"], ["x"]).weights("a", 3), TypeError, "str"),
        (lambda m: IBMModel1(iterations=0), ValueError, "iterations"),
        (lambda m: IBMModel1(empty_word=2), TypeError, "empty_word"),
    ],
)
def test_wrong_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(IBMModel1())


def test_a_hundred_times_the_example():
    training = datasets.aligned_sentences(5000, seed=3)
    model = IBMModel1(iterations=2).fit(*zip(*[p[:2] for p in training], strict=True))
    words = {word for pair in training for word in pair.source.split()}
    assert model.source_words == sorted(words)
