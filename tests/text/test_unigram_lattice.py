import collections
import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerasseq.text import UnigramTokenizer
from kerasseq.text.tokenizers import unigram_lattice as lattices
from kerasseq.text.tokenizers.unigram_lattice import Lattices
from kerasseq.text.tokenizers.unigram_training import (
    expected_uses,
    learn,
    losses,
    seed_pieces,
)
from tests.text.unigram_examples import log_total, tokenizer, ways

LETTERS = ("a", "b", "c")
# Whole numbers as weights: many ways are equally good.
VOCABULARIES = st.dictionaries(
    st.text("abc", min_size=2, max_size=4), st.integers(-9, -1), max_size=9
).map(lambda longer: {**dict.fromkeys(LETTERS, -4), **longer})
WORDS = st.text("abc", min_size=1, max_size=8)


def trie_of(score):
    return lattices.build_trie(
        (s, i, float(w)) for i, (s, w) in enumerate(score.items())
    )


def lattices_of(words, score):
    trie = trie_of(score)
    built = Lattices.of(words, lambda word: lattices.edges(word, trie, -99.0))
    return built, np.array(list(score.values()), "float64")[built.piece]


def slow_uses(score, words):
    """Expected uses of each piece, and the log-likelihood, over all ways."""
    uses, likelihood = dict.fromkeys(score, 0.0), 0.0
    for word, times in words.items():
        every = ways(word, score)
        total = log_total(weight for _, weight in every)
        likelihood += times * total
        for cut, weight in every:
            for piece in cut:
                uses[piece] += times * math.exp(weight - total)
    return uses, likelihood


def slow_loss(x, score, f):
    if len(x) == 1:
        return math.inf
    rest = {piece: weight for piece, weight in score.items() if piece != x}
    y = [x[s:e] for s, e, _ in lattices.best_path(x, trie_of(rest), -99.0)]
    N = sum(f.values())
    moved = sum(math.log((f[z] + f[x]) / (N + (len(y) - 1) * f[x])) for z in y)
    return f[x] * (math.log(f[x] / N) - moved)


def normal(uses):
    total = sum(uses.values())
    return {piece: math.log(n / total) for piece, n in uses.items()}


@given(VOCABULARIES, WORDS)
def test_viterbi_finds_the_best_of_all_ways(score, word):
    path = lattices.best_path(word, trie_of(score), -99.0)
    pieces = [word[start:end] for start, end, _ in path]
    assert "".join(pieces) == word
    assert [list(score)[number] for _, _, number in path] == pieces
    best = max(weight for _, weight in ways(word, score))
    assert sum(score[piece] for piece in pieces) == best
    # Of equals, the one whose last piece is longest, then the one before it, ...
    equals = [cut for cut, weight in ways(word, score) if weight == best]
    assert pieces == max(equals, key=lambda cut: [len(piece) for piece in cut[::-1]])


@given(VOCABULARIES, st.lists(WORDS, min_size=1, max_size=7))
@example(dict.fromkeys(LETTERS, -4), ["a"])
def test_all_words_at_once_are_cut_as_one_by_one(score, words):
    built, w = lattices_of(words, score)
    expected = []
    for number, word in enumerate(words):
        before = sum(map(len, words[:number])) + number
        path = lattices.best_path(word, trie_of(score), -99.0)
        expected += [(before + start, before + end, k) for start, end, k in path]
    best = built.best(w)
    rows = np.stack([built.start[best], built.end[best], built.piece[best]], axis=1)
    assert list(map(tuple, rows.tolist())) == expected


@given(VOCABULARIES, WORDS, st.integers(1, 9))
def test_the_n_best_of_all_ways(score, word, n):
    every = sorted((weight for _, weight in ways(word, score)), reverse=True)
    edges = lattices.edges(word, trie_of(score), -99.0)
    found = lattices.best_paths(edges, len(word), n)
    assert [weight for weight, _ in found] == every[:n]
    cuts = [tuple(word[s:e] for s, e, _ in path) for _, path in found]
    assert len(set(cuts)) == len(cuts)
    assert [sum(score[piece] for piece in cut) for cut in cuts] == every[:n]
    assert found[0][1] == lattices.best_path(word, trie_of(score), -99.0)


@given(VOCABULARIES, st.dictionaries(WORDS, st.integers(1, 7), min_size=1, max_size=5))
def test_expected_uses_over_all_ways(score, words):
    expected, likelihood = slow_uses(score, words)
    built, _ = lattices_of(list(words), score)
    scores = np.array(list(score.values()), "float64")
    uses, found = expected_uses(built, scores, np.array(list(words.values()), float))
    np.testing.assert_allclose(uses, [expected[s] for s in score], rtol=0, atol=1e-9)
    assert found == pytest.approx(likelihood, abs=1e-9)


@given(VOCABULARIES)
def test_what_leaving_out_a_piece_would_cost(score):
    f = {piece: 2.0 + len(piece) - weight for piece, weight in score.items()}
    names, trie = list(score), trie_of(score)
    others = Lattices.of(
        names,
        lambda x: [
            edge
            for edge in lattices.edges(x, trie, -99.0)
            if len(x) == 1 or edge[1] - edge[0] < len(x)
        ],
    )
    scores = np.array(list(score.values()), "float64")
    found = losses(others, np.array(list(f.values())), scores)
    for x, loss in zip(names, found, strict=True):
        assert loss == pytest.approx(slow_loss(x, score, f), abs=1e-9)


def test_no_step_lowers_the_likelihood():
    words = collections.Counter(
        {" banana": 5, " bandana": 3, " ananas": 2, " band": 4, " and": 9, "na": 1}
    )
    rng = np.random.default_rng(0)
    seeds = list(seed_pieces(words, 7))
    built, _ = lattices_of(list(words), dict.fromkeys(seeds, 0.0))
    times = np.array(list(words.values()), "float64")
    p, history = rng.dirichlet(np.ones(len(seeds))), []
    for _ in range(50):
        uses, log_likelihood = expected_uses(
            built, np.log(np.maximum(p, 1e-300)), times
        )
        history.append(log_likelihood)
        p = uses / uses.sum()
    assert (np.diff(history) > -1e-9).all()
    assert history[-1] - history[0] > 10


def test_training_is_what_a_slow_one_does():
    words = collections.Counter({" banana": 5, " bandana": 3, " ananas": 2, " band": 4})
    uses, history, size = seed_pieces(words, 5), [], 11
    while True:
        for _ in range(2):
            pieces = len(uses)
            uses, likelihood = slow_uses(normal(uses), words)
            history.append((pieces, likelihood))
        if pieces <= size:
            break
        loss = {x: slow_loss(x, normal(uses), uses) for x in uses}
        stay = sorted(uses, key=lambda x: -loss[x])[: max(size, int(0.75 * pieces))]
        uses = {piece: n for piece, n in uses.items() if piece in stay}
    assert len(set(history)) > 6
    learned = learn(words, size, 5)
    assert [step.pieces for step in learned.history] == [n for n, _ in history]
    np.testing.assert_allclose([h[1] for h in learned.history], [h[1] for h in history])
    seen = {x: max(n, 0.5) if len(x) == 1 else n for x, n in uses.items()}
    found = dict(zip(learned.pieces, learned.scores.tolist(), strict=True))
    assert found == pytest.approx(normal(seen))


def test_long_words_are_learned_from_to_their_end():
    learned = learn(collections.Counter({"a" * 300 + "b" * 300 + "c": 1}), 9, 4)
    assert {"a", "b", "c"} <= set(learned.pieces)


def test_the_history_of_a_training():
    words = collections.Counter(
        {f" {a}{b}": 3 for a in ("un", "re", "") for b in ("lock", "load", "pack")}
    )
    learned = learn(words, 16, 16)
    history = learned.history
    assert [len(learned.pieces), history[-1].pieces] == [16, 16]
    for one, other in zip(history, history[1:], strict=False):
        if one.pieces == other.pieces:
            assert other.log_likelihood >= one.log_likelihood - 1e-9
        else:
            assert max(16, int(0.75 * one.pieces)) == other.pieces
    assert np.exp(learned.scores).sum() == pytest.approx(1)
    assert (np.diff(learned.scores) <= 0).all()
    assert {piece for piece in learned.pieces if len(piece) == 1} == set("".join(words))


def test_frequent_substrings():
    words = {"abcab": 2, "xab": 1, "abc": 1}
    count = collections.Counter()
    for word, times in words.items():
        for start in range(len(word)):
            for end in range(start + 1, len(word) + 1):
                count[word[start:end]] += times
    seeds = seed_pieces(collections.Counter(words), 4)
    for piece, times in count.items():
        goes_on = any(len(s) == len(piece) + 1 and s[:-1] == piece and n == times
                      for s, n in count.items() if len(s) <= 4)  # fmt: skip
        frequent = times > 1 and len(piece) <= 4 and not goes_on
        expected = times * len(piece) if frequent or len(piece) == 1 else None
        assert seeds.get(piece) == expected
    assert "ab" not in seed_pieces(collections.Counter(words), 4, taken={"ab"})


@pytest.mark.parametrize("alpha", [0, 0.5, 2])
def test_samples_are_drawn_by_probability(alpha):
    score = {"▁": -2.0, "n": -1.5, "a": -1.0, "na": -2.2, "an": -2.9, "▁nana": -6.0}
    n = 20_000
    inside = {s.replace("▁", " "): alpha * w for s, w in score.items()}
    every = ways(" nana", inside)
    total = log_total(weight for _, weight in every)
    ours = tokenizer(score, add_prefix_space=False)
    tokens = [ours.vocabulary[i] for i in ours.sample(" nana" * n, alpha=alpha, seed=1)]
    drawn = collections.Counter(re.split(" (?=▁)", " ".join(tokens)))
    assert drawn.total() == n
    for cut, weight in every:
        p = math.exp(weight - total)
        often = drawn.pop(" ".join(cut).replace(" ", "▁", 1))
        assert abs(often - n * p) < 5 * math.sqrt(n * p * (1 - p)) + 1
    assert not drawn


def test_samples_repeat_and_go_on():
    ours = tokenizer({"▁": -2.0, "a": -1.0, "aa": -1.5, "▁aa": -3.0})
    text = "aaaa aa aaaa a"
    one = ours.sample(text, seed=3)
    assert one.dtype == np.int32
    np.testing.assert_array_equal(one, ours.sample(text, seed=3))
    rng = np.random.default_rng(3)
    several = {tuple(ours.sample(text, alpha=0, seed=rng)) for _ in range(20)}
    assert len(several) > 10
    assert {ours.decode(ids) for ids in several} == {text}
    # A large alpha leaves the best way only.
    best = ours.encode(text)
    np.testing.assert_array_equal(best, ours.sample(text, alpha=1e6, seed=0))
    assert ours.sample("").shape == (0,)


def test_the_lattice_of_a_text():
    score = {"▁": -2.0, "n": -1.5, "a": -1.0, "na": -2.2, "▁a": -2.5, "an": -2.9}
    ours = tokenizer(score, special_tokens=["<s>"])
    text = "<s>a nana☃"
    lattice = ours.lattice(text)
    assert lattice.text == "<s>▁a▁nana☃"
    inside = {**score, "<s>": 0.0, "☃": -12.9}
    every = [(cut, w) for cut, w in ways("<s>▁a▁nana☃", inside)]
    total = log_total(weight for _, weight in every)
    assert lattice.log_probability == pytest.approx(total)
    posterior = collections.Counter()
    for cut, weight in every:
        end = 0
        for piece in cut:
            end += len(piece)
            posterior[end - len(piece), end] += math.exp(weight - total)
    assert len(posterior) == len(lattice.pieces)
    for piece in lattice.pieces:
        assert piece.piece == lattice.text[piece.start : piece.end]
        assert piece.posterior == pytest.approx(posterior[piece.start, piece.end])
        assert piece.log_probability == inside[piece.piece]
        tokens = [ours.vocabulary[i] for i in piece.ids]
        expected = (
            ["<0xE2>", "<0x98>", "<0x83>"] if piece.piece == "☃" else [piece.piece]
        )
        assert tokens == expected
    best = [i for piece in lattice.pieces if piece.best for i in piece.ids]
    assert best == ours.encode(text).tolist()
    assert sorted(p[2:4] for p in lattice.pieces) == [p[2:4] for p in lattice.pieces]
    assert ours.lattice("") == ("", [], 0.0)


def test_a_special_token_costs_nothing_whatever_its_score():
    ours = UnigramTokenizer.from_pieces(
        ["<s>", "a", "▁"], [-3, -1, -2], special_tokens=["<s>"], unknown=None,
        byte_fallback=False,
    )  # fmt: skip
    for text, total in (("<s>", 0), ("a<s>a", -6)):
        assert ours.score(text) == ours.lattice(text).log_probability == total


def test_why_one_way_wins():
    score = {"▁": -2.0, "n": -1.5, "a": -1.0, "na": -2.2, "an": -2.9}
    ours = tokenizer(score)
    first, second = ours.n_best("na", 2)
    assert first.tokens == ["▁", "na"]
    assert second.tokens == ["▁", "n", "a"]
    assert [first.log_probability, second.log_probability] == [-4.2, -4.5]
    assert ours.score("na") == -4.2
    assert ours.score("na☃") == pytest.approx(-4.2 - 2.9 - 10)
    assert ours.score("") == 0
    np.testing.assert_array_equal(first.ids, ours.encode("na"))
    assert len(ours.n_best("na", 9)) == 2
