"""Ratings of Bradley and Terry, and of Elo."""

import json
import sys

import numpy as np
import pytest

from kerasseq.training import elo, ratings

pytestmark = pytest.mark.once("computed by NumPy")

TRUTH = {"a": 0.9, "b": 0.2, "c": -0.3, "d": -0.8}  # natural logarithms, mean 0


def drawn(count, seed, ties=0.0):
    """Votes between the players of `TRUTH`, of which a part is replaced by ties."""
    rng = np.random.default_rng(seed)
    names, rating = [*TRUTH], np.array([*TRUTH.values()])
    i = rng.integers(0, 4, count)
    j = (i + rng.integers(1, 4, count)) % 4
    wins = 1.0 * (rng.random(count) < 1 / (1 + np.exp(rating[j] - rating[i])))
    score = np.where(rng.random(count) < ties, 0.5, wins)
    return [(names[a], names[b], s) for a, b, s in zip(i, j, score, strict=True)]


def by_name(found):
    return dict(zip(found.players, found.values, strict=True))


def test_ratings_and_intervals_of_synthetic_players():
    close = covered = 0
    for seed in range(20):
        found = ratings(drawn(5000, seed), samples=500, seed=seed)
        truth = np.array([TRUTH[name] for name in found.players])
        close += np.abs(found.values - truth).max() < 0.1
        low, high = found.interval.T
        covered += ((low <= truth) & (truth <= high)).sum()
    assert close >= 18
    assert covered >= 0.9 * 80


def test_equals_logistic_regression():
    """A row for each vote, and two of weight 1/2 for a tie."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    votes = drawn(307, seed=5, ties=0.2)
    number = {name: n for n, name in enumerate(TRUTH)}
    x, y, weights = [], [], []
    for first, second, score in votes:
        for label, weight in ((1, score), (0, 1 - score)):
            x.append(np.eye(4)[number[first]] - np.eye(4)[number[second]])
            y.append(label)
            weights.append(weight)
    model = linear_model.LogisticRegression(C=1e9, fit_intercept=False, tol=1e-9)
    weight = model.fit(x, y, weights).coef_[0]
    found = by_name(ratings(votes, samples=1))
    for name, n in number.items():
        assert abs(found[name] - (weight[n] - weight.mean())) < 1e-4


def test_prior_is_ties_between_all_players():
    votes = [*drawn(101, seed=6), ("e", "a")]
    names = [*TRUTH, "e"]
    ties = [(a, b, 0.5) for a in names for b in names if a < b]
    expected = by_name(ratings([*votes, *ties * 3], samples=1))
    found = by_name(ratings(votes, prior=3, samples=1))
    assert found == pytest.approx(expected, abs=1e-9)


def test_two_players_in_closed_form():
    found = ratings([("a", "b")] * 7 + [("b", "a")] * 3, samples=1)
    assert found.players == ["a", "b"] and found.votes.tolist() == [10, 10]
    np.testing.assert_allclose(found.values, np.array([1, -1]) * np.log(7 / 3) / 2)
    np.testing.assert_allclose(np.diff(found.elo), -400 * np.log10(7 / 3))


def test_large_differences():
    """Each of 13 players wins 499 of 500 games against the next: far from the start."""
    votes = [(f"{n:02}", f"{n + 1:02}") for n in range(12)] * 499
    votes += [(f"{n + 1:02}", f"{n:02}") for n in range(12)]
    found = ratings(votes, samples=1)
    np.testing.assert_allclose(-np.diff(found.values), np.log(499))


def test_order_of_votes_matters_for_elo_only():
    votes = drawn(211, seed=7)
    reverse = votes[::-1]
    first, second = ratings(votes, samples=11), ratings(reverse, samples=11)
    assert first.players == second.players
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.interval, second.interval)
    one, other = elo(votes), elo(reverse)
    assert max(abs(one[name] - other[name]) for name in TRUTH) > 10


def test_elo_is_its_equation():
    votes, table = drawn(53, seed=8, ties=0.3), dict.fromkeys(TRUTH, 1500.0)
    for i, j, s in votes:
        expected = 1 / (1 + 10 ** ((table[j] - table[i]) / 400))
        table[i] += 24 * (s - expected)
        table[j] -= 24 * (s - expected)
    found = elo(votes, k=24, start=1500)
    assert found == pytest.approx(table)
    assert [*found.values()] == sorted(found.values(), reverse=True)


def test_bootstrap_draws_votes_with_replacement(monkeypatch):
    votes = drawn(59, seed=9, ties=0.2)
    whole = ratings(votes, samples=41, seed=3).interval
    monkeypatch.setattr(sys.modules[ratings.__module__], "PART", 32 * 7)
    parts = ratings(votes, samples=41, seed=3).interval
    np.testing.assert_allclose(parts, whole)
    assert (ratings(votes, samples=41, seed=4).interval != whole).any()
    # By the definition: rows that are drawn, with the ratings of each sample.
    rng, rows = np.random.default_rng(0), range(59)
    samples = [
        by_name(ratings([votes[n] for n in rng.choice(rows, 59)], prior=1, samples=1))
        for _ in range(300)
    ]
    found = ratings(votes, prior=1, samples=4000)
    for name, bounds in zip(found.players, found.interval, strict=True):
        values = [sample[name] for sample in samples]
        np.testing.assert_allclose(
            np.quantile(values, [0.025, 0.975]), bounds, atol=0.2
        )


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([("a", "b"), ("b", "c"), ("c", "b")], "a never lost to the others"),
        ([("a", "b"), ("b", "a"), ("b", "c")], "c never won against the others"),
        ([*"ab", *"ba", *"cd", *"dc", *"de", *"ed"], "a, b never met the others"),
    ],
)
def test_infinite_ratings(votes, message):
    if isinstance(votes[0], str):
        votes = [*zip(votes[::2], votes[1::2], strict=True)]
    with pytest.raises(ValueError, match=message):
        ratings(votes)
    assert np.isfinite(ratings(votes, prior=1).interval).all()
    assert np.isfinite(ratings([*votes, ("c", "a", 0.5)] * 2, prior=0.001).values).all()


def test_rows_and_files(tmp_path):
    rows = [{"chosen_model": "b", "rejected_model": "a", "prompt": "x"},
            {"chosen_model": "a", "rejected_model": "b", "tie": True},
            {"chosen_model": "a", "rejected_model": "c"}]  # fmt: skip
    file = tmp_path / "votes.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    plain = [("b", "a"), ("b", "a", 0.5), ("c", "a", 0)]
    expected = str(ratings(plain, prior=1))
    for votes in (rows, file, str(file), iter(plain)):
        assert str(ratings(votes, prior=1)) == expected
    assert elo(file) == elo(plain)
    wins = [("b", "a"), ("a", "c")]
    assert elo(np.array(wins)) == elo(wins)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"chosen_model": "a"', "line 2 is damaged: it is not JSON"),
        ('["a"]', r"line 2: expected \(winner, loser\).* received \['a'\]"),
        ('{"prompt": "x"}', """line 2: .*"rejected_model", received .'prompt'"""),
        ('{"chosen_model": "a", "rejected_model": 3}', "strings, received {'chosen"),
        ('["a", "a"]', "two different players, received 'a' twice"),
        ('["a", "b", 0.3]', "1, 0 or 0.5 for a tie, received 0.3"),
        ('["a", "b", true]', "must be a number, received True"),
        ('{"chosen_model": "a", "rejected_model": "b", "tie": "no"}',
         """line 2: "tie" must be True or False, received 'no'"""),
    ],
)  # fmt: skip
def test_wrong_lines(tmp_path, line, message):
    file = tmp_path / "votes.jsonl"
    file.write_text(f'["a", "b"]\n{line}\n["b", "a"]\n')
    with pytest.raises((ValueError, TypeError), match=message):
        ratings(file)
    row = json.loads(line) if line.endswith(("}", "]")) else line
    with pytest.raises((ValueError, TypeError), match=r"votes\[1\]"):
        elo([("a", "b"), row])


def test_wrong_arguments(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"at least one vote, .*empty.jsonl is empty"):
        ratings(tmp_path / "empty.jsonl")
    with pytest.raises(ValueError, match=r"at least one vote, received \[\]"):
        elo([])
    with pytest.raises(ValueError, match="prior must be 0 or at least 0.001, received"):
        ratings([("a", "b")], prior=1e-9)
    with pytest.raises(ValueError, match="k must be a number above 0, received 0"):
        elo([("a", "b")], k=0)


def test_shown_as_a_table():
    found = ratings([("<a>", "b")] * 3 + [("b", "<a>")], samples=101)
    head, first, last = str(found).splitlines()
    assert head.split() == ["rating", "95", "%", "Elo", "votes"]
    assert first.split()[:2] == ["<a>", "0.55"] and first.split()[-2:] == ["1095", "4"]
    assert last.split()[:2] == ["b", "-0.55"]
    assert "<td>&lt;a&gt;</td><td>0.55</td>" in found._repr_html_()
