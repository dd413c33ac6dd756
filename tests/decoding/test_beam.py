"""Beam search against trying everything, and against itself."""

import functools
import itertools

import numpy as np
import pytest
from keras import ops

from kerasseq.decoding import Beam, generate
from tests.decoding import toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

V, L = 3, 4
FULL = V ** (L - 1)


@functools.cache
def gru():
    return toys.Recurrent(11)


def everything(log_p, prompt, stop, alpha):
    """Every sequence with its score, best first; NumPy, by definition."""
    found = {}
    for ids in itertools.product(range(V), repeat=L):
        ends = [t for t, i in enumerate(ids) if i in stop]
        ids = ids[: ends[0] + 1] if ends else ids
        text = (0, *prompt, *ids)
        total = sum(
            log_p[text[t - 2], text[t - 1], text[t]]
            for t in range(len(prompt) + 1, len(text))
        )
        found[ids] = total / ((5 + len(ids)) / 6) ** alpha
    return sorted(found.items(), key=lambda item: -item[1])


def as_pairs(result, row):
    parts = zip(result.ids[row], result.lengths[row], result.scores[row], strict=True)
    return [(tuple(ids[:n].tolist()), score) for ids, n, score in parts]


@pytest.mark.parametrize(
    ("alpha", "stop", "compiled"),
    [
        (0.0, (), False),
        (0.0, (0, 2), False),
        (0.6, (0,), False),
        (3.0, (0,), False),
        (3.0, (0, 2), False),
        (0.6, (0,), True),
    ],
)
def test_a_full_beam_is_exhaustive_search(alpha, stop, compiled):
    rows = [[2, 1], [1], [2, 1], [2], [0, 0], [2, 2], [1]]
    real = np.array([[len(ids) == 2, True] for ids in rows])
    prompt, mask = toys.ragged(rows, real)
    log_p = toys.tables(range(7), V)
    found = Beam(FULL, length_penalty=alpha, n_best=5).search(
        toys.look_up,
        toys.first_look(log_p),
        prompt,
        mask=mask,
        max_new_tokens=L,
        stop=stop,
        compiled=compiled,
    )
    lengths = set()
    for row, ids in enumerate(rows):
        expected = everything(log_p[row], ids, stop, alpha)[:5]
        pairs = as_pairs(found, row)
        assert [p[0] for p in pairs] == [e[0] for e in expected]
        np.testing.assert_allclose(
            [p[1] for p in pairs], [e[1] for e in expected], atol=1e-5
        )
        lengths |= {len(p[0]) for p in pairs}
    assert len(lengths) > 1 or not stop  # early stops are among the best


def test_where_there_are_fewer_sequences_the_rest_is_empty():
    log_p = toys.tables([0], V)
    found = Beam(FULL, n_best=FULL).search(
        toys.look_up,
        toys.first_look(log_p),
        [[1]],
        max_new_tokens=L,
        stop=(0, 2),
        fill=-1,
    )
    expected = everything(log_p[0], [1], (0, 2), 0.0)
    assert len(expected) == 9  # two ways to end at each place, or not to
    assert [ids for ids, _ in as_pairs(found, 0)[:9]] == [e[0] for e in expected]
    assert (found.lengths[0, 9:] == 0).all()
    assert (found.scores[0, 9:] == -np.inf).all()
    assert (found.ids[0, 9:] == -1).all()
    assert found.trees is None


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_width_1_is_greedy(alpha):
    prompt = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    options = {"max_new_tokens": 13, "stop": [0, 2, 7], "fill": -1}
    greedy = generate(gru(), gru().start(5), prompt, **options)
    found = Beam(1, length_penalty=alpha).search(
        gru(), gru().start(5), prompt, **options
    )
    np.testing.assert_array_equal(found.ids[:, 0], greedy.ids)
    np.testing.assert_array_equal(found.lengths[:, 0], greedy.lengths)
    np.testing.assert_allclose(
        found.scores[:, 0] * ((5 + greedy.lengths) / 6) ** alpha,
        greedy.log_probabilities.sum(axis=1),
        rtol=1e-4,
    )
    assert len(set(greedy.lengths.tolist())) > 1


def test_each_row_is_searched_as_if_it_were_alone():
    rows = [[1, 2, 3], [0], [8, 9]]
    real = np.array([[1, 1, 1], [0, 0, 1], [1, 1, 0]], bool)
    prompt, mask = toys.ragged(rows, real, fill=99)
    beam = Beam(5, length_penalty=0.7, n_best=2)
    options = {"max_new_tokens": 7, "stop": [2, 7], "return_trees": True}
    together = beam.search(gru(), gru().start(3), prompt, mask=mask, **options)
    turns = set()
    for row, ids in enumerate(rows):
        alone = beam.search(gru(), gru().start(1), [ids], **options)
        np.testing.assert_array_equal(alone.ids[0], together.ids[row])
        np.testing.assert_allclose(alone.scores[0], together.scores[row], atol=1e-5)
        for one, other in zip(alone.trees[0], together.trees[row], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
        turns.add(int(alone.trees[0].step.max()) + 1)
    assert len(turns) > 1  # a row that is done earlier shows no more


@pytest.mark.everywhere("the compiled loop")
def test_both_loops_find_the_same():
    beam = Beam(3, n_best=2, length_penalty=1.0)
    options = {"max_new_tokens": 7, "stop": 0, "return_trees": True}
    one, whole = (
        beam.search(
            gru(), gru().start(2), [[1, 2], [3, 4]], compiled=compiled, **options
        )
        for compiled in (False, True)
    )
    np.testing.assert_array_equal(one.ids, whole.ids)
    np.testing.assert_allclose(one.scores, whole.scores, atol=1e-5)
    for a, b in zip(one.trees, whole.trees, strict=True):
        for column, other in zip(a, b, strict=True):
            np.testing.assert_allclose(column, other, atol=1e-5)


def test_scores_are_those_of_the_model():
    found = Beam(3, n_best=3).search(gru(), gru().start(1), [[1, 2]], max_new_tokens=5)
    for ids, score in as_pairs(found, 0):
        logits = gru().read([[1, 2, *ids]])[0][0]
        log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        expected = log_p[np.arange(1, 6), ids].sum()
        np.testing.assert_allclose(score, expected, atol=1e-5)
    assert (np.diff(found.scores[0]) <= 0).all()


def chooser(rows):
    """A step function from a dictionary of probabilities after each letter."""
    p = np.full((len(toys.ALPHABET), len(toys.ALPHABET)), 1e-9)
    for letter, after in rows.items():
        for other, value in after.items():
            p[toys.ALPHABET.index(letter), toys.ALPHABET.index(other)] = value
    logits = np.log(p).astype("float32")

    def step(state, token):
        return ops.take(logits, token, axis=0), state

    return step


def test_a_beam_finds_the_word_that_greedy_misses():
    step = chooser(
        {
            "s": {"e": 0.55, "a": 0.45},
            "e": {"r": 0.5, "l": 0.4, ".": 0.1},
            "a": {"m": 1.0},
            "m": {"p": 1.0},
            "p": {".": 1.0},
            "r": {".": 1.0},
            "l": {".": 1.0},
        }
    )
    prompt = [toys.ids_of("s")]
    greedy = generate(step, {}, prompt, max_new_tokens=7, stop=0)
    assert toys.word_of(greedy.ids[0, : greedy.lengths[0]]) == "er."
    found = Beam(2).search(
        step, {}, prompt, max_new_tokens=7, stop=0, return_trees=True
    )
    assert toys.word_of(found.ids[0, 0, : found.lengths[0, 0]]) == "amp."
    tree = found.trees[0]
    lines = [
        (
            int(s),
            toys.ALPHABET[i],
            round(float(np.exp(score)), 3),
            bool(end),
            bool(kept),
        )
        for s, i, score, end, kept in zip(
            tree.step, tree.token, tree.score, tree.finished, tree.kept, strict=True
        )
    ]
    assert lines[:6] == [
        (0, "e", 0.55, False, True),
        (0, "a", 0.45, False, True),
        (1, "r", 0.275, False, True),
        (1, "l", 0.22, False, False),
        (1, "m", 0.45, False, True),
        (1, ".", 0.0, False, False),
    ]
    assert tree.parent[:6].tolist() == [-1, -1, 0, 0, 1, 1]


def test_the_tree_holds_every_sequence_that_was_found():
    found = Beam(5, n_best=3).search(
        gru(), gru().start(2), [[1], [6]], max_new_tokens=7, stop=0, return_trees=True
    )
    for row, tree in enumerate(found.trees):
        assert tree.kept[tree.finished].all()
        inner = np.unique(tree.parent[tree.parent >= 0])
        assert tree.kept[inner].all()
        assert not tree.finished[inner].any()
        np.testing.assert_array_equal(tree.step[inner].min(), 0)
        for t in range(tree.step.max() + 1):
            assert tree.kept[tree.step == t].sum() == 5
        ends = {}
        for node in np.flatnonzero(tree.finished):
            ids, up = [], node
            while up >= 0:
                ids.append(int(tree.token[up]))
                assert tree.step[up] == tree.step[node] - len(ids) + 1
                up = tree.parent[up]
            ends[tuple(ids[::-1])] = tree.score[node]
        for ids, score in as_pairs(found, row):
            np.testing.assert_allclose(ends[ids], score, atol=1e-6)


def test_equal_scores_have_an_order():
    """Sooner, from the better beginning, then by id: here by id alone."""
    level = toys.constant(np.zeros(53))
    found = Beam(29, n_best=29).search(level, {}, [[0]], max_new_tokens=1)
    assert found.ids[0, :, 0].tolist() == list(range(29))
    found = Beam(3, n_best=3).search(level, {}, [[0]], max_new_tokens=2)
    assert found.ids[0].tolist() == [[0, 0], [0, 1], [0, 2]]


def test_of_equal_scores_the_one_that_ended_first_is_better():
    step = chooser({"s": {".": 0.5, "a": 0.5}, "a": {".": 1.0}})
    found = Beam(2, n_best=2).search(
        step, {}, [toys.ids_of("s")], max_new_tokens=5, stop=0
    )
    ends = [
        toys.word_of(i[:n]) for i, n in zip(found.ids[0], found.lengths[0], strict=True)
    ]
    assert ends == [".", "a."]


@pytest.mark.parametrize(
    ("alpha", "word", "turns"), [(0.0, ".", 1), (3.0, "ampler.", 7)]
)
def test_it_stops_as_soon_as_nothing_can_win_and_no_sooner(alpha, word, turns):
    """At once "." has 0.6, and the long word 0.4: its penalty can make it better."""
    step = chooser(
        {
            "s": {".": 0.6, "a": 0.4},
            **{a: {b: 1.0} for a, b in itertools.pairwise("ampler.")},
        }
    )
    found = Beam(2, length_penalty=alpha).search(
        step, {}, [toys.ids_of("s")], max_new_tokens=7, stop=0, return_trees=True
    )
    assert toys.word_of(found.ids[0, 0, : found.lengths[0, 0]]) == word
    assert found.trees[0].step.max() + 1 == turns


def test_tokens_that_cannot_come_are_never_found():
    logits = np.array([0.0, -np.inf, 1.0])
    found = Beam(9, n_best=9).search(toys.constant(logits), {}, [[0]], max_new_tokens=2)
    assert sorted(map(tuple, found.ids[0, :4].tolist())) == [
        (0, 0),
        (0, 2),
        (2, 0),
        (2, 2),
    ]
    assert (found.scores[0, 4:] == -np.inf).all()


def search(beam=None, step=None, prompt=((0,),), **options):
    step = step or toys.constant(np.zeros(3))
    return (beam or Beam(2)).search(
        step, {}, prompt, **{"max_new_tokens": 2, **options}
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Beam(0), "width must be at least 1, received 0"),
        (lambda: Beam(2.5), "width must be a whole number, received 2.5"),
        (lambda: Beam(3, n_best=0), "n_best must be at least 1, received 0"),
        (lambda: Beam(3, n_best=5), "n_best must be at most width, 3, received 5"),
        (
            lambda: Beam(3, -0.5),
            "length_penalty must be finite and 0 or more, received -0.5",
        ),
        (lambda: Beam(3, float("inf")), "length_penalty must be finite"),
        (lambda: Beam(3, "long"), "length_penalty must be a number"),
        (
            lambda: search(Beam(10)),
            "width must be at most 9, received 10: .* 2 out of 3",
        ),
        (lambda: search(max_new_tokens=0), "max_new_tokens must be at least 1"),
        (lambda: search(stop=3), "from 0 to 2.*received 3, which can never"),
        (lambda: search(prompt=[[3]]), "prompt has id 3 in row 0 at 0"),
        (lambda: search(mask=[[False]]), "it hides all of row 0"),
        (lambda: search(fill="."), "fill must be a whole number"),
        (
            lambda: search(step=toys.constant(np.full(3, np.nan))),
            "step returned logits with NaN",
        ),
        (
            lambda: search(step=lambda state, token: (ops.zeros((1, 3)), state)),
            r"logits of shape .*here \(2, vocabulary\), received \(1, 3\)",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
