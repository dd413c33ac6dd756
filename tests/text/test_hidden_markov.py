import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.text import HiddenMarkovModel, NGramModel
from kerasseq.text.classical import markov_algorithms

HEALTH = {  # two states, three symbols; no row or column equals another
    "initial": [0.6, 0.4],
    "transition": [[0.7, 0.3], [0.4, 0.6]],
    "emission": [[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]],
}


def paths(model, ids):
    """Every sequence of states, with its probability together with the symbols."""
    if not len(ids):
        return
    pi, A, B = model.initial, model.transition, model.emission
    for s in itertools.product(range(model.states), repeat=len(ids)):
        p = pi[s[0]] * B[s[0], ids[0]]
        for t in range(1, len(ids)):
            p *= A[s[t - 1], s[t]] * B[s[t], ids[t]]
        yield s, p


def holed(model, rng):
    """Put zeros in the matrices, at random, but one value in each row stays."""
    for part in (model.initial[None], model.transition, model.emission):
        for row in part:
            hole = rng.random(len(row)) < 0.4
            hole[rng.integers(len(row))] = False
            row[hole] = 0
            row /= row.sum()
    return model


@st.composite
def problems(draw):
    S, V = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 999))
    model = HiddenMarkovModel(S, V, seed=seed)
    if draw(st.booleans()):
        model = holed(model, np.random.default_rng(seed))
    ids = draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=5))
    return model, ids


@settings(max_examples=60)
@given(problems())
def test_equals_enumeration(problem):
    model, ids = problem
    every = list(paths(model, ids))
    total = math.fsum(p for _, p in every)
    assert model.forward(ids).shape == (len(ids), model.states)
    if total == 0:
        assert model.log_likelihood(ids) == -np.inf
        for use in (model.posterior, model.viterbi, model.probabilities):
            with pytest.raises(ValueError, match="probability zero"):
                use(ids)
        return
    assert math.isclose(np.exp(model.log_likelihood(ids)), total, rel_tol=1e-9)
    gamma = np.zeros((len(ids), model.states))
    for s, p in every:
        gamma[np.arange(len(ids)), s] += p / total
    np.testing.assert_allclose(model.posterior(ids), gamma, atol=1e-9)
    states, log_p = model.viterbi(ids)
    best = max(p for _, p in every)
    assert math.isclose(np.exp(log_p), best, rel_tol=1e-9)
    assert math.isclose(dict(every)[tuple(states.tolist())], best, rel_tol=1e-9)
    # What comes next: each symbol put after the sequence.
    following = [
        math.fsum(p for _, p in paths(model, [*ids, u])) for u in range(model.symbols)
    ]
    np.testing.assert_allclose(
        model.probabilities(ids), np.array(following) / total, atol=1e-9
    )


@given(problems())
def test_forward_and_backward_are_the_sums_they_say(problem):
    model, ids = problem
    alpha, beta = np.exp(model.forward(ids)), np.exp(model.backward(ids))
    for t in range(len(ids)):
        before, after = np.zeros(model.states), np.zeros(model.states)
        for s, p in paths(model, ids[: t + 1]):
            before[s[-1]] += p
        # From each state: one step of A, and then the rest as a sequence of its own.
        for i in range(model.states):
            rest = HiddenMarkovModel(
                model.states,
                model.symbols,
                initial=model.transition[i],
                transition=model.transition,
                emission=model.emission,
            )
            after[i] = math.fsum(p for _, p in paths(rest, ids[t + 1 :]))
        if t + 1 == len(ids):
            after[:] = 1
        np.testing.assert_allclose(alpha[t], before, atol=1e-12)
        np.testing.assert_allclose(beta[t], after, atol=1e-12)


def em_step(model, sequences):
    """One step of Baum and Welch by enumeration of all paths."""
    pi, A = np.zeros(model.states), np.zeros((model.states, model.states))
    B = np.zeros((model.states, model.symbols))
    for ids in sequences:
        every = list(paths(model, ids))
        total = math.fsum(p for _, p in every)
        for s, p in every:
            pi[s[0]] += p / total
            for t, symbol in enumerate(ids):
                B[s[t], symbol] += p / total
                if t:
                    A[s[t - 1], s[t]] += p / total
    return [m / m.sum(axis=-1, keepdims=True) for m in (pi, A, B)]


@pytest.mark.parametrize("block", [1, 2**20])
def test_one_step_of_baum_welch_equals_enumeration(block, monkeypatch):
    monkeypatch.setattr(markov_algorithms, "BLOCK", block)  # one time step, or all
    sequences = [[2, 1, 0, 0, 4], [1, 3], [4]]
    model = HiddenMarkovModel(3, 5, seed=0)
    expected = em_step(model, sequences)
    history = model.fit(sequences, max_iterations=1)
    assert len(history) == 2
    found = (model.initial, model.transition, model.emission)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    total = sum(model.log_likelihood(ids) for ids in sequences)
    assert math.isclose(history[-1], total)


@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_never_falls(seed):
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, 5, n) for n in (17, 1, 29)]
    model = HiddenMarkovModel(3, 5, seed=seed)
    first = sum(model.log_likelihood(ids) for ids in sequences)
    history = model.fit(sequences, tolerance=0, max_iterations=211)
    assert history == sorted(history)
    assert math.isclose(history[0], first)
    assert history[-1] > first + 1
    assert math.isclose(history[-1], sum(map(model.log_likelihood, sequences)))
    for rows in (model.initial, model.transition, model.emission):
        np.testing.assert_allclose(rows.sum(axis=-1), 1)


def test_at_the_summit_rounding_makes_nothing_worse():
    for seed in (8, 12, 19, 24, 29):  # where one more step loses some last bits
        rng = np.random.default_rng(seed)
        sequences = [rng.integers(0, 3, n) for n in (7, 3)]
        model = HiddenMarkovModel(2, 3, seed=seed)
        history = model.fit(sequences, tolerance=0, max_iterations=400)
        assert history == sorted(history)
        assert history[-1] == sum(map(model.log_likelihood, sequences))


def test_it_stops_when_nothing_is_gained():
    ids = HiddenMarkovModel(2, 3, **HEALTH).sample(97, seed=0).ids
    model = HiddenMarkovModel(2, 3, seed=1)
    history = model.fit(ids, tolerance=0.01, max_iterations=1009)
    gains = np.diff(history)
    assert len(history) < 1009
    assert gains[-1] <= 0.01 < gains[:-1].min()
    before = model.get_config()
    assert len(model.fit(ids, max_iterations=0)) == 1
    assert model.get_config() == before


def test_baum_welch_finds_the_states_behind_a_sample():
    truth = HiddenMarkovModel(
        2, 3, initial=[1, 0],
        transition=[[0.95, 0.05], [0.1, 0.9]],
        emission=[[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]],
    )  # fmt: skip
    ids, states = truth.sample(4001, seed=0)
    model = HiddenMarkovModel(2, 3, seed=3)
    model.fit(ids, max_iterations=60)
    if model.emission[0, 0] < model.emission[1, 0]:  # which is which is not known
        states = 1 - states
        expected = truth.transition[::-1, ::-1]
    else:
        expected = truth.transition
    np.testing.assert_allclose(model.transition, expected, atol=0.03)
    assert (model.viterbi(ids).states == states).mean() > 0.93
    # What hides has a memory that pairs of symbols do not show.
    bigrams = NGramModel(2, k=0).fit(ids, 3)
    assert -model.log_likelihood(ids) / len(ids) < bigrams.cross_entropy(ids) - 0.01


def test_a_zero_stays_and_an_idle_state_keeps_its_rows():
    model = HiddenMarkovModel(
        3, 2, initial=[1, 0, 0],
        transition=[[0.5, 0.5, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]],
        emission=[[0.5, 0.5], [0.25, 0.75], [0.3, 0.7]],
    )  # fmt: skip
    model.fit([[0, 1, 1, 0, 1]], max_iterations=7)
    assert model.initial.tolist() == [1, 0, 0]
    assert model.transition[:2, 2].tolist() == [0, 0]
    assert model.transition[2].tolist() == [0.2, 0.3, 0.5]
    assert model.emission[2].tolist() == [0.3, 0.7]


def test_labeled_sequences_are_counted():
    sequences, states = [[2, 0, 0, 1], [1, 1]], [[1, 1, 0, 1], [0, 0]]
    model = HiddenMarkovModel(3, 5, seed=0).fit_labeled(sequences, states)
    assert model.initial.tolist() == [0.5, 0.5, 0]
    third = [1 / 3] * 3
    assert model.transition.tolist() == [[0.5, 0.5, 0], [0.5, 0.5, 0], third]
    assert model.emission[0].tolist() == [1 / 3, 2 / 3, 0, 0, 0]
    assert model.emission[1].tolist() == [1 / 3, 1 / 3, 1 / 3, 0, 0]
    assert model.emission[2].tolist() == [0.2] * 5
    model.fit_labeled(sequences, states, k=1)
    np.testing.assert_allclose(model.initial, [2 / 5, 2 / 5, 1 / 5])
    np.testing.assert_allclose(model.transition[0], [2 / 5, 2 / 5, 1 / 5])
    np.testing.assert_allclose(model.emission[0], np.array([2, 3, 1, 1, 1]) / 8)
    one = HiddenMarkovModel(2, 2).fit_labeled([0, 1, 1], [0, 0, 1])
    assert one.transition.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert one.emission.tolist() == [[0.5, 0.5], [0, 1]]
    around = HiddenMarkovModel(3, 1).fit_labeled([0] * 4, [0, 1, 2, 0])
    assert around.transition.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_samples_are_as_frequent_as_probable():
    model = HiddenMarkovModel(2, 3, **HEALTH)
    ids, states = model.sample(10_007, seed=0)
    assert ids.dtype == states.dtype == np.int32
    counted = HiddenMarkovModel(2, 3).fit_labeled(ids, states)
    np.testing.assert_allclose(counted.transition, model.transition, atol=0.02)
    np.testing.assert_allclose(counted.emission, model.emission, atol=0.02)
    starts = [model.sample(1, seed=seed).states[0] for seed in range(997)]
    assert abs(np.mean(starts) - 0.4) < 0.05
    again = model.sample(10_007, seed=0)
    np.testing.assert_array_equal(ids, again.ids)
    assert (ids[:101] != model.sample(101, seed=1).ids).any()
    assert model.sample(0).ids.shape == (0,)


def test_a_long_sequence_underflows_nowhere():
    model = HiddenMarkovModel(2, 3, **HEALTH)
    ids = model.sample(5003, seed=0).ids
    assert -6000 < model.log_likelihood(ids) < -5000  # exp of it is 0 in a float
    np.testing.assert_allclose(model.posterior(ids).sum(axis=1), 1, rtol=1e-12)
    assert -np.inf < model.viterbi(ids).log_probability < model.log_likelihood(ids)


def test_the_seed_decides_and_float32_rows_will_do():
    one, same = HiddenMarkovModel(3, 5, seed=7), HiddenMarkovModel(3, 5, seed=7)
    assert one.get_config() == same.get_config()
    assert one.get_config() != HiddenMarkovModel(3, 5, seed=8).get_config()
    rows = np.full((7, 7), 1 / 7, "float32")  # sums to 1.0000001
    model = HiddenMarkovModel(7, 7, transition=rows)
    np.testing.assert_allclose(model.transition.sum(axis=1), 1, rtol=1e-15)
    model.sample(17, seed=0)


def test_the_file_brings_every_bit_back(tmp_path):
    model = HiddenMarkovModel(3, 5, seed=0)
    model.fit([[0, 1, 2, 4, 3, 0]], max_iterations=3)
    model.save(tmp_path / "h.json")
    loaded = HiddenMarkovModel.load(tmp_path / "h.json")
    assert loaded.get_config() == model.get_config()
    assert loaded.log_likelihood([0, 4, 2]) == model.log_likelihood([0, 4, 2])
    assert repr(loaded) == "<HiddenMarkovModel: 3 states, 5 symbols>"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"initial": [0.5, 0.6]}, "`initial` must sum to 1, received 1.1"),
        ({"initial": None}, "initial: expected a list"),
        (
            {"transition": [[0.7, 0.3], [1.5, -0.5]]},
            "must not be negative, received -0.5",
        ),
        ({"emission": [[0.1, 0.9], [0.6, 0.4]]}, "2 rows of 3 probabilities"),
        ({"emission": [[0.1], [0.6, 0.4]]}, "2 rows of 3 probabilities"),
        (
            {"emission": [[math.nan, 0.5, 0.5], [1, 0, 0]]},
            r"emission\[0\]\[0\]: expected .* nan",
        ),
        ({"states": 2.5}, "states: expected a whole number"),
        ({"extra": 1}, "expected the key"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "h.json"
    HiddenMarkovModel(2, 3, **HEALTH).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"h.json is damaged: .*{message}"):
        HiddenMarkovModel.load(path)


def test_wrong_arguments():
    model = HiddenMarkovModel(2, 3, **HEALTH)
    with pytest.raises(ValueError, match="^states must be at least 1"):
        HiddenMarkovModel(0, 3)
    with pytest.raises(TypeError, match="^symbols must be a whole"):
        HiddenMarkovModel(2, 3.5)
    with pytest.raises(ValueError, match=r"`transition\[1\]` must sum to 1, .* 0.9"):
        HiddenMarkovModel(2, 3, transition=[[0.5, 0.5], [0.5, 0.4]])
    with pytest.raises(ValueError, match="`emission` must sum|must be 2 rows"):
        HiddenMarkovModel(2, 3, emission=np.eye(2))
    with pytest.raises(ValueError, match="must sum to 1, received inf"):
        HiddenMarkovModel(2, 3, initial=[math.inf, 0])
    for use in (model.forward, model.backward, model.log_likelihood, model.viterbi):
        with pytest.raises(ValueError, match="`ids` is empty"):
            use([])
        with pytest.raises(ValueError, match="holds 3 at position 1"):
            use([0, 3])
        with pytest.raises(TypeError, match="whole numbers"):
            use("ab")
    with pytest.raises(TypeError, match="`sequences` must be rows of ids, received 5"):
        model.fit(5)
    with pytest.raises(ValueError, match="`sequences` is empty"):
        model.fit([])
    with pytest.raises(ValueError, match=r"`sequences\[1\]` is empty"):
        model.fit([[0], []])
    with pytest.raises(ValueError, match=r"`sequences\[1\]` holds 7"):
        model.fit([[0], [7]])
    with pytest.raises(ValueError, match="`tolerance` must be zero or a positive"):
        model.fit([0], tolerance=-1)
    with pytest.raises(TypeError, match="`k`.*'1'"):
        model.fit_labeled([0], [0], k="1")
    with pytest.raises(ValueError, match="`k` must be zero.*-1"):
        model.fit_labeled([0], [0], k=-1)
    with pytest.raises(ValueError, match=r"rows of \[1\] labels.*\[2\] symbols"):
        model.fit_labeled([0, 1], [0])
    with pytest.raises(ValueError, match="`states` holds 2"):
        model.fit_labeled([0, 2], [0, 2])
    with pytest.raises(ValueError, match="length must be at least 0"):
        model.sample(-1)
    assert model.probabilities().tolist() == pytest.approx([0.3, 0.36, 0.34])


def test_fit_says_which_sequence_is_impossible():
    model = HiddenMarkovModel(2, 3, emission=[[1, 0, 0], [0, 1, 0]], seed=0)
    with pytest.raises(ValueError, match=r"`sequences\[1\]` has probability zero"):
        model.fit([[0, 1], [0, 2, 1]])
