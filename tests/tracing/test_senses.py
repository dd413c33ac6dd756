"""Words in context: the terms of a block, probes, and their controls."""

import keras
import numpy as np
import pytest

from kerasseq import datasets, layers, models, text, tracing
from kerasseq.tracing.listeners import located
from kerasseq.tracing.probe import RIDGE, probe_accuracy
from tests.tracing.test_trace import array, randomize

pytestmark = pytest.mark.once("NumPy on values that are traced everywhere")

CORPUS = datasets.homonyms(neutral=1)
TOKENIZER = text.WordTokenizer().fit(CORPUS.vocabulary)
KNOWN, HELD_OUT = (
    [s for pair in CORPUS.pairs(count, held_out=held_out) for s in pair]
    for count, held_out in ((64, False), (24, True))
)
MOLES, NEW_MOLES = (
    [s for s in sentences if s.word == "mole"] for sentences in (KNOWN, HELD_OUT)
)


def gpt(attention="multi_head", **options):
    position = "learned" if attention == "multi_head" else None
    model = models.GPT(
        TOKENIZER,
        num_heads=3,
        hidden_dim=6,
        max_sequence_length=13,
        attention=attention,
        **{"num_layers": 2, "position": position, **options},
    )
    randomize(model)
    return model


# Terms


OF_POST = ["self_attention_residual", "feed_forward_residual"]


@pytest.mark.everywhere("heads and kernels of the backend")
def test_terms_add_up_on_each_backend():
    model = gpt(num_layers=1)
    rows = [s for s in KNOWN if len(s.text.split()) == 6][:12]  # one shape to compile
    found = tracing.senses(model, rows, CORPUS.words, rows)
    terms = [row.vector for row in found if row.part_of == "output"]
    assert len(terms) == 1 + 3 + 1 + 1
    np.testing.assert_allclose(sum(terms), found[-1].vector, atol=1e-5)
    # `patch` in the same shape: embeddings of other tokens are those of their text.
    x = np.stack([model.ids(s.text) for s in rows])
    at = np.arange(len(x)), np.arange(len(x)) % 5
    spliced, other = x.copy(), np.roll(x, 1, axis=0)
    spliced[at] = other[at]
    y = tracing.patch(model, x, other, "block_0/input", at[1])
    np.testing.assert_allclose(y, array(model(spliced)), atol=1e-5)


@pytest.mark.parametrize(
    ("attention", "options", "sums"),
    [
        ("multi_head", {}, ["output"]),
        ("multi_head", {"norm_placement": "post"}, OF_POST),
        ("multi_head", {"norm_placement": "deep"}, OF_POST),
        ("multi_head", {"parallel": True}, ["output"]),
        ("gru", {}, ["output"]),
        ("mamba", {"norm_placement": "post"}, OF_POST),
        ("gla", {}, ["output"]),
        ("rwkv4", {}, ["output"]),
    ],
)
def test_terms_add_up_to_their_sum(attention, options, sums):
    model = gpt(attention, **options)
    found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
    by_sum = {}
    for row in found:
        assert row.vector.shape == (len(HELD_OUT), 6)
        if row.part_of is not None:
            by_sum.setdefault((row.layer, row.part_of), []).append(row.vector)
    for (layer, total), vectors in by_sum.items():
        value = found.row(layer, total).vector
        np.testing.assert_allclose(sum(vectors), value, atol=1e-5)
    names = [total for layer, total in by_sum if layer == "block_0"]
    assert names == sums
    heads = [row.term for row in found if row.term.startswith("head")]
    assert len(heads) == (6 if attention == "multi_head" else 0)


def test_a_head_is_its_part_of_the_output_projection():
    model = gpt()
    found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
    layer = located(model)["block_1/self_attention"]
    W, b = array(layer.output_dense.kernel), array(layer.output_dense.bias)
    for n, sentence in enumerate(HELD_OUT[:5]):
        with tracing.trace(model) as inside:
            model(model.ids(sentence.text)[None])  # alone, without padding
        t = sentence.position
        H = inside["block_1/self_attention/heads"][0, :, t]
        for head in range(3):
            v = found.row("block_1", f"head {head}").vector[n]
            np.testing.assert_allclose(v, H[head] @ W[head], atol=1e-5)
        np.testing.assert_array_equal(found.row("block_1", "bias").vector[n], b)
        f = inside["block_1/feed_forward/output"][0, t]
        v = found.row("block_1", "feed_forward").vector[n]
        np.testing.assert_allclose(v, f, atol=1e-5)
        y = found.row("block_1").vector[n]
        np.testing.assert_allclose(y, inside["block_1/output"][0, t], atol=1e-5)


def test_heads_with_a_gate_are_one_term():
    gated = layers.MultiHeadAttention(2, 3, use_gate=True)
    for attention, terms in ((gated, 1), (layers.MultiHeadAttention(2, 3), 3)):
        model = gpt(attention, position=None)  # which has no order of the tokens
        found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
        names = [row.term for row in found if row.layer == "block_0"]
        assert names[0] == "input" and names[-2:] == ["feed_forward", "output"]
        assert len(names) == 3 + terms
        total = sum(found.row("block_0", name).vector for name in names[:-1])
        np.testing.assert_allclose(total, found.row("block_0").vector, atol=1e-5)


def test_heads_in_half_precision_are_terms():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = gpt()
    finally:
        keras.config.set_dtype_policy(policy)
    found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
    assert [row.term for row in found][1:4] == ["head 0", "head 1", "head 2"]
    assert found[0].vector.dtype == "float32"
    assert found[0].probe_accuracy == 0.5


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_states_of_recurrent_layers(name):
    model = models.LanguageModel(name, TOKENIZER, units=5, num_layers=2)
    found = tracing.senses(model, MOLES, "mole", NEW_MOLES)
    assert [row.layer for row in found] == ["embedding", f"{name}_1", f"{name}_2"]
    assert found[0].probe_accuracy == 0.5
    with tracing.trace(model) as inside:
        model(model.ids(NEW_MOLES[0].text)[None])
    h = inside[f"{name}_2/hidden_state"][0, NEW_MOLES[0].position]
    np.testing.assert_allclose(found[2].vector[0], h, atol=1e-5)


# Probes


def test_the_probe_is_ridge_regression():
    rng = np.random.default_rng(0)
    V, test = rng.normal(size=(37, 5)), rng.normal(size=(19, 5))
    labels, test_labels = rng.choice(list("abc"), 37), rng.choice(list("abc"), 19)
    Z = (V - V.mean(0)) / V.std(0)
    Y = (labels[:, None] == np.array(list("abc"))).astype(float)
    above = np.concatenate([Z, np.sqrt(RIDGE) * np.eye(5)])
    W = np.linalg.lstsq(
        above, np.concatenate([Y - Y.mean(0), np.zeros((5, 3))]), rcond=None
    )[0]
    scores = (test - V.mean(0)) / V.std(0) @ W + Y.mean(0)
    expected = np.mean(np.array(list("abc"))[scores.argmax(1)] == test_labels)
    assert probe_accuracy(V, labels, test, test_labels) == expected


def test_embeddings_tell_nothing_and_cues_tell_all():
    """The vector of the cue itself is a second check: there the sense is read."""
    model = gpt()
    found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
    before = found.row("block_0", "input")
    assert before.probe_accuracy == 0.5
    assert found.row("block_0", "bias").probe_accuracy == 0.5
    cues = [cue for of_sense in CORPUS.cues.values() for cue in of_sense]
    at_cue = tracing.senses(model, KNOWN, cues, KNOWN).row("block_0", "input")
    assert at_cue.probe_accuracy > 0.6 > before.probe_accuracy


def test_control_labels_are_those_of_word_and_cue():
    """With the sentences of training as the test a probe remembers them."""
    model = models.LanguageModel("gru", TOKENIZER, units=67)
    randomize(model)
    new = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT, seed=3)
    old = tracing.senses(model, KNOWN, CORPUS.words, KNOWN, seed=3)
    assert old[1].control_accuracy > 0.8 > new[1].control_accuracy
    again = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT, seed=3)
    assert [row[-2:] for row in again] == [row[-2:] for row in new]


def test_some_cues_are_set_aside_without_a_test():
    model = gpt()
    found = tracing.senses(model, KNOWN, CORPUS.words)
    cues = {(s.sense, s.cue) for s in KNOWN}
    rows = len(found[0].vector)
    assert 0 < rows < len(KNOWN)
    assert len(cues) > 6
    assert str(found).startswith("layer")
    assert "<table>" in found._repr_html_()


def test_a_word_of_several_tokens_ends_at_its_last_one():
    sentences = [s.text for s in KNOWN]
    tokenizer = text.CharacterTokenizer().fit("".join(sentences))
    model = models.GPT(tokenizer, num_layers=1, num_heads=2, hidden_dim=4)
    found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
    first = HELD_OUT[0]
    with tracing.trace(model) as inside:
        model(model.ids(first.text)[None])
    end = first.text.index(first.word) + len(first.word) - 1
    expected = inside["block_0/output"][0, end]
    np.testing.assert_allclose(found.row("block_0").vector[0], expected, atol=1e-5)


def test_messages():
    model, rows = gpt(), KNOWN[:2]
    plain = keras.Sequential([keras.layers.Dense(3)])
    for wrong, error, message in (
        (lambda: tracing.senses(plain, MOLES, "mole"), TypeError, "with a tokenizer"),
        (lambda: tracing.senses(model, "mole", "mole"), TypeError, "received 'mole'"),
        (lambda: tracing.senses(model, ["a mole"], "mole"), TypeError, "'a mole' at 0"),
        (lambda: tracing.senses(model, rows, "zebra"), ValueError, "word 'zebra'"),
        (lambda: tracing.senses(model, rows[:1], "mole"), ValueError, "two senses"),
        (lambda: tracing.senses(model, rows, "mole"), ValueError, "two cues"),
        (lambda: tracing.senses(model, rows, [None]), ValueError, r"received \[None\]"),
        (lambda: tracing.senses(model, rows, ""), ValueError, "received ''"),
        (lambda: tracing.senses(model, rows, 5), TypeError, "`word` must be"),
        (lambda: tracing.senses(model, [], "mole"), ValueError, "received 0 rows"),
    ):
        with pytest.raises(error, match=message):
            wrong()
    found = tracing.senses(model, KNOWN, CORPUS.words, HELD_OUT)
    with pytest.raises(KeyError, match="no 'head 7' of 'block_0'"):
        found.row("block_0", "head 7")
