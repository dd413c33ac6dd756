"""Tests of generation, compiled and step by step: prompts, stops, seeds, errors."""

import collections
import functools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from kerasseq.decoding import (
    Beam,
    Contrastive,
    Greedy,
    MinP,
    Temperature,
    TopK,
    TopP,
    generate,
    stream,
)
from tests.decoding import toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

V = 11
SAMPLERS = [
    Greedy(),
    TopK(5, temperature=1.3),
    MinP(0.1),
    Contrastive(3, 0.6),
]


@functools.cache
def gru():
    return toys.Recurrent(V)


def words(written):
    return [
        toys.word_of(row[:n])
        for row, n in zip(written.ids, written.lengths, strict=True)
    ]


@pytest.mark.everywhere("the compiled loop")
@pytest.mark.parametrize("compiled", [False, True])
def test_it_spells(compiled):
    step, prompt = toys.speller(), [toys.ids_of("s"), toys.ids_of("e")]
    options = {"stop": 0, "fill": -1, "compiled": compiled}
    written = generate(step, {}, prompt, max_new_tokens=13, **options)
    assert words(written) == ["ampler.", "r."]
    assert written.ids[0, 7:].tolist() == [-1] * 6
    assert written.ids[1, 2:].tolist() == [-1] * 11
    assert (written.log_probabilities[written.ids == -1] == 0).all()
    expected = 5 - np.log(np.exp(5) + len(toys.ALPHABET) - 1)
    found = written.log_probabilities[written.ids >= 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    cut = generate(step, {}, prompt, max_new_tokens=3, **options)
    assert words(cut) == ["amp", "r."]


def test_it_ends_when_all_rows_are_done():
    calls = []
    spell = toys.speller()

    def step(state, token):
        # Runs at each call only where nothing is compiled; elsewhere it says nothing.
        calls.append(1)
        return spell(state, token)

    tokens = list(
        stream(step, {}, [toys.ids_of("l")], max_new_tokens=1000, stop=[0, 3])
    )
    assert toys.word_of(np.concatenate(tokens)) == "er."
    assert len(calls) <= 1 + 3


@pytest.mark.everywhere("the compiled loop", cases=2)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_both_loops_and_the_stream_write_the_same(sampler):
    prompt = np.array([[1, 2, 3], [4, 5, 6]])
    options = {"sampler": sampler, "max_new_tokens": 13, "stop": [0, 7], "seed": 3}
    one, whole = (
        generate(gru(), gru().start(2), prompt, compiled=compiled, **options)
        for compiled in (False, True)
    )
    np.testing.assert_array_equal(one.ids, whole.ids)
    np.testing.assert_array_equal(one.lengths, whole.lengths)
    np.testing.assert_allclose(
        one.log_probabilities, whole.log_probabilities, atol=1e-5
    )
    streamed = np.stack(list(stream(gru(), gru().start(2), prompt, **options)), axis=1)
    np.testing.assert_array_equal(streamed, one.ids[:, : one.lengths.max()])


@pytest.mark.everywhere("the compiled loop")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_state_may_be_any_tree_in_any_order(compiled):
    """The count in the inner dictionary says what comes next."""

    def step(state, token):
        inner, (other,) = state["model"], state["list"]
        after = {"a": inner["a"] + 1, "z": inner["z"]}
        return ops.one_hot(inner["a"], 13), {"list": (other,), "model": after}

    state = {
        "model": {"z": np.zeros((2, 5), "float32"), "a": np.array([3, 4], "int32")},
        "list": [np.zeros((2, 7), "float32")],
    }
    written = generate(step, state, [[1], [1]], max_new_tokens=5, compiled=compiled)
    assert written.ids.tolist() == [[3, 4, 5, 6, 7], [4, 5, 6, 7, 8]]


def test_greedy_is_the_best_token_after_each_prefix():
    written = generate(gru(), gru().start(1), [[3, 1]], max_new_tokens=7)
    ids = [3, 1, *written.ids[0]]
    logits = gru().read([ids])[0][0]
    np.testing.assert_array_equal(logits[1:-1].argmax(axis=-1), written.ids[0])
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    expected = log_p[np.arange(1, 8), written.ids[0]]
    np.testing.assert_allclose(written.log_probabilities[0], expected, atol=1e-5)
    assert written.lengths.tolist() == [7]


MASKS = st.lists(
    st.lists(st.booleans(), min_size=5, max_size=5).filter(any), min_size=3, max_size=3
)


@given(MASKS, st.sampled_from([TopP(0.9), Contrastive(3, 0.6)]))
@settings(max_examples=10)
def test_each_row_is_written_as_if_it_were_alone(mask, sampler):
    """Padded anywhere, with an id that the model does not know."""
    rng = np.random.default_rng(0)
    mask = np.array(mask)
    rows = [rng.integers(0, V, n) for n in mask.sum(axis=1)]
    prompt, mask = toys.ragged(rows, mask, fill=99)
    options = {"max_new_tokens": 5, "sampler": sampler, "stop": 2}
    together = generate(
        gru(), gru().start(3), prompt, mask=mask, seed=[13, 17, 19], **options
    )
    for row, seed in enumerate((13, 17, 19)):
        alone = generate(gru(), gru().start(1), [rows[row]], seed=[seed], **options)
        np.testing.assert_array_equal(alone.ids[0], together.ids[row])
        assert alone.lengths[0] == together.lengths[row]
        np.testing.assert_allclose(
            alone.log_probabilities[0], together.log_probabilities[row], atol=1e-5
        )


@pytest.mark.everywhere("the compiled loop")
def test_padding_does_not_matter_in_the_compiled_loop():
    rows = [[3, 1, 4], [5]]
    left = np.array([[1, 1, 1], [0, 0, 1]], bool)
    results = []
    for real in (left, left[:, ::-1]):
        prompt, mask = toys.ragged(rows, real, fill=-7)
        results.append(
            generate(
                gru(),
                gru().start(2),
                prompt,
                mask=mask,
                max_new_tokens=7,
                compiled=True,
            )
        )
    alone = generate(gru(), gru().start(1), [[5]], max_new_tokens=7)
    np.testing.assert_array_equal(results[0].ids, results[1].ids)
    np.testing.assert_array_equal(results[0].ids[1], alone.ids[0])


def test_a_seed_repeats_and_another_does_not():
    def run(seed):
        sampler = Temperature(2.0)
        prompt = [[1], [1], [1]]
        return generate(
            gru(), gru().start(3), prompt, max_new_tokens=13, seed=seed, sampler=sampler
        ).ids.tolist()

    assert run(5) == run(5) == run(np.int64(5))
    assert run(5) != run(6)
    assert run(None) != run(None)
    first, second, third = run(5)
    assert first != second != third != first  # rows draw for themselves
    same = run([7, 7, 8])
    assert same[0] == same[1] != same[2]
    generator = keras.random.SeedGenerator(5)
    again = keras.random.SeedGenerator(5)
    drawn = [run(generator), run(generator)]
    assert drawn[0] != drawn[1]
    assert drawn == [run(again), run(again)]


def test_what_is_written_does_not_depend_on_how_much():
    options = {"sampler": Temperature(), "seed": 1}
    short, long = (
        generate(gru(), gru().start(1), [[1]], max_new_tokens=n, **options)
        for n in (5, 13)
    )
    np.testing.assert_array_equal(long.ids[:, :5], short.ids)


def test_frequencies_of_what_is_written():
    """Within 0.015: four standard deviations of 4003 rows by 5 tokens at p = 1/2."""
    p = np.array([0.05, 0.5, 0.15, 0.3])
    step = toys.constant(np.log(p))
    prompt = np.zeros((4003, 1), int)
    written = generate(
        step, {}, prompt, max_new_tokens=5, sampler=Temperature(), seed=0, compiled=True
    )
    found = np.bincount(written.ids.reshape(-1)) / written.ids.size
    np.testing.assert_allclose(found, p, atol=0.015)
    pairs = np.bincount(written.ids[:, 1] * 4 + written.ids[:, 2], minlength=16) / 4003
    np.testing.assert_allclose(pairs, np.outer(p, p).reshape(-1), atol=0.03)


def test_log_probabilities_are_those_of_the_model_not_of_the_sampler():
    p = np.array([0.05, 0.5, 0.15, 0.3])
    written = generate(
        toys.constant(np.log(p)),
        {},
        [[0]] * 7,
        max_new_tokens=5,
        sampler=TopK(2, 0.5),
        seed=0,
    )
    np.testing.assert_allclose(
        written.log_probabilities, np.log(p)[written.ids], rtol=1e-5
    )


@pytest.mark.parametrize(("k", "alpha"), [(4, 0.6), (99, 1.0)])
def test_contrastive_is_its_definition(k, alpha):
    rows = [[3, 1, 4], [5]]
    prompt, mask = toys.ragged(rows, np.array([[1, 1, 1], [0, 0, 1]], bool))
    written = generate(
        gru(),
        gru().start(2),
        prompt,
        mask=mask,
        max_new_tokens=7,
        sampler=Contrastive(k, alpha),
    )
    for row, ids in enumerate(rows):
        expected = toys.contrastive(gru().read, V, ids, 7, k, alpha)
        assert written.ids[row].tolist() == expected
    greedy = generate(gru(), gru().start(2), prompt, mask=mask, max_new_tokens=7)
    assert (greedy.ids != written.ids).any()


def test_contrastive_with_alpha_0_is_greedy():
    options = {"prompt": [[3, 1]], "max_new_tokens": 7}
    one, other = (
        generate(gru(), gru().start(1), sampler=sampler, **options)
        for sampler in (Greedy(), Contrastive(4, 0.0))
    )
    np.testing.assert_array_equal(one.ids, other.ids)


@pytest.mark.everywhere("the compiled loop")
def test_weights_that_change_are_seen():
    model = toys.Recurrent(V, seed=1)
    options = {"prompt": [[1]], "max_new_tokens": 7}
    before = generate(model, model.start(1), **options)
    bias = np.zeros(V, "float32")
    bias[9] = 1e3
    model.scores.bias.assign(bias)
    after = generate(model, model.start(1), **options)
    assert before.ids.tolist() != after.ids.tolist() == [[9] * 7]


@pytest.mark.everywhere("the compiled loop")
def test_half_precision_logits():
    def step(state, token):
        logits, state = toys.speller()(state, token)
        return ops.cast(logits, "float16"), state

    written = generate(
        step, {}, [toys.ids_of("s")], max_new_tokens=7, sampler=TopP(0.5)
    )
    assert words(written) == ["ampler."]
    assert written.log_probabilities.dtype == "float32"


def broken(change, state=None):
    """A step function that does something else than it must."""

    def step(state, token):
        return change(ops.zeros((token.shape[0], 5)), state)

    return functools.partial(
        generate, step, state or {"h": np.zeros((2, 3), "float32")}
    )


PROMPT = [[1, 2], [3, 4]]
GOOD = broken(lambda logits, state: (logits, state))
CALLS = {
    "step must be a function": lambda: generate("gru", {}, PROMPT, max_new_tokens=3),
    "step must return two things": lambda: broken(lambda z, s: z)(
        PROMPT, max_new_tokens=3
    ),
    r"logits of shape \(batch, vocabulary\), here \(2, vocabulary\), received \(2,\)": (
        lambda: broken(lambda z, s: (z[:, 0], s))(PROMPT, max_new_tokens=3)
    ),
    r"here \(2, vocabulary\), received \(1, 5\)": (
        lambda: broken(lambda z, s: (z[:1], s))(PROMPT, max_new_tokens=3)
    ),
    r"it lacks state\['h'\], and has in addition state\['c'\]": (
        lambda: broken(lambda z, s: (z, {"c": s["h"]}))(PROMPT, max_new_tokens=3)
    ),
    r"step changed state\['h'\] from shape \(2, 3\), .*, to shape \(2, 2\)": (
        lambda: broken(lambda z, s: (z, {"h": s["h"][:, :2]}))(PROMPT, max_new_tokens=3)
    ),
    r"step changed state\['h'\] from .*float32.*, to .*float16": (
        lambda: broken(lambda z, s: (z, {"h": ops.cast(s["h"], "float16")}))(
            PROMPT, max_new_tokens=3
        )
    ),
    "step returned logits with NaN for row 0, new token 0": (
        lambda: broken(lambda z, s: (z * float("nan"), s))(PROMPT, max_new_tokens=3)
    ),
    r"state\['h'\] must be an array with the batch, 2, on axis 0, "
    r"received shape \(3, 2\)": (
        lambda: broken(lambda z, s: (z, s), {"h": np.zeros((3, 2))})(
            PROMPT, max_new_tokens=3
        )
    ),
    r"state\['n'\]\[0\] must be an array with the batch, 2, on axis 0, received 7": (
        lambda: broken(lambda z, s: (z, s), {"n": [7]})(PROMPT, max_new_tokens=3)
    ),
    r"prompt must be ids of shape \(batch, time\), "
    r"received shape \(2,\): .* \[prompt\]": (lambda: GOOD([1, 2], max_new_tokens=3)),
    r"at least one row and one token, received shape \(2, 0\)": (
        lambda: GOOD([[], []], max_new_tokens=3)
    ),
    "prompt must hold whole numbers, received float64": (
        lambda: GOOD([[1.0], [2.0]], max_new_tokens=3)
    ),
    "Pad rows of unequal length": lambda: GOOD([[1], [2, 3]], max_new_tokens=3),
    "prompt has id 5 in row 1 at 0, but step returns 5 logits": (
        lambda: GOOD([[1], [5]], max_new_tokens=3)
    ),
    "prompt has id -1 in row 0 at 0": lambda: GOOD([[-1], [3]], max_new_tokens=3),
    r"mask must have the shape of prompt, \(2, 2\), received \(2,\)": (
        lambda: GOOD(PROMPT, max_new_tokens=3, mask=[True, True])
    ),
    "mask must be True .real. or False": (
        lambda: GOOD(PROMPT, max_new_tokens=3, mask=[[1, 2], [1, 1]])
    ),
    "it hides all of row 1": lambda: GOOD(
        PROMPT, max_new_tokens=3, mask=[[1, 1], [0, 0]]
    ),
    "from 0 to 4.*received 5, which can never": lambda: GOOD(
        PROMPT, max_new_tokens=3, stop=5
    ),
    "from 0 to 4.*received -1, which can never": lambda: GOOD(
        PROMPT, max_new_tokens=3, stop=[2, -1]
    ),
    "stop must hold whole numbers": lambda: GOOD(PROMPT, max_new_tokens=3, stop=0.5),
    "max_new_tokens must be at least 1, received 0": lambda: GOOD(
        PROMPT, max_new_tokens=0
    ),
    "fill must be a whole number": lambda: GOOD(PROMPT, max_new_tokens=3, fill=None),
    "sampler must be a Sampler, such as Greedy": (
        lambda: GOOD(PROMPT, max_new_tokens=3, sampler="greedy")
    ),
    "seed must be a whole number, received 'one'": (
        lambda: GOOD(PROMPT, max_new_tokens=3, seed="one")
    ),
    "seed must be at least 0, received -1": lambda: GOOD(
        PROMPT, max_new_tokens=3, seed=-1
    ),
    "seed has 3 integers for 2 rows": (
        lambda: GOOD(PROMPT, max_new_tokens=3, seed=[1, 2, 3])
    ),
    r'with the key "hidden", .*; this one has \[.h.\]': (
        lambda: GOOD(PROMPT, max_new_tokens=3, sampler=Contrastive(3, 0.5))
    ),
    r'state\["hidden"\] must be \(batch, units\), received \(2,\)': (
        lambda: broken(lambda z, s: (z, s), {"hidden": np.zeros(2)})(
            PROMPT, max_new_tokens=3, sampler=Contrastive(3, 0.5)
        )
    ),
}


@pytest.mark.parametrize("message", CALLS)
def test_messages(message):
    with pytest.raises((ValueError, TypeError), match=message):
        CALLS[message]()


def test_a_stream_complains_before_its_first_token():
    with pytest.raises(ValueError, match="max_new_tokens must be at least 1"):
        stream(toys.speller(), {}, PROMPT, max_new_tokens=0)


@pytest.mark.parametrize("search", ["generate", "stream", "beam"])
def test_a_state_in_another_order_is_not_exchanged(search):
    """Of `h` and `c` with equal shapes, which come in one order and then the other."""

    def step(state, token):
        logits = ops.one_hot((token + state["h"]) % V, V) * 9
        # `c` is used, but does not change the logits.
        return logits - ops.cast(state["c"][:, None] * 0, logits.dtype), state

    def run(names):
        values = {"h": np.array([1], "int32"), "c": np.array([5], "int32")}
        state = collections.OrderedDict((name, values[name]) for name in names)
        options = {"max_new_tokens": 13}
        if search == "beam":
            return (
                Beam(2).search(step, state, [[0]], compiled=True, **options).ids[0, 0]
            )
        if search == "stream":
            return np.ravel(list(stream(step, state, [[0]], **options)))
        return generate(step, state, [[0]], compiled=True, **options).ids[0]

    expected = [(n + 1) % V for n in range(13)]
    for names in ("hc", "ch", "hc"):
        assert run(names).tolist() == expected


class Counter:
    """A step function that counts its calls, and says so."""

    calls = 0

    def __call__(self, state, token):
        self.calls += 1
        return ops.one_hot(token * 0 + self.calls % V, V) * 9, state


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="compiled elsewhere")
def test_what_a_step_function_counts_goes_on():
    written = generate(Counter(), {}, [[0]], max_new_tokens=23).ids[
        0
    ]  # the first: of the size
    assert written.tolist() == [(n + 2) % V for n in range(23)]
