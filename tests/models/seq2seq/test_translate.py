"""`translate`, `generate`, `stream`: greedy, beams and samplers, in batches."""

import contextlib
import functools

import keras
import numpy as np
import pytest

from kerasseq import kernels
from kerasseq.decoding import Beam, Temperature
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

LENGTH = 11
# Two of one padded length and one that is longer.
TEXTS = ["abc", "deadbeed", "cab" * 4]
# Scale and seed of weights that make targets of different lengths.
DRAWN = {"bahdanau": (2.0, 10), None: (3.0, 11)}


@functools.cache
def made(attention):
    return drawn(toys.model(attention=attention), *DRAWN[attention])


def model():
    return made("bahdanau")


def drawn(made, scale, seed):
    toys.randomize(made, scale, seed)
    return made


@contextlib.contextmanager
def biased(made, *ids, by):
    """A context in which the logits of some ids are larger by `by`."""
    bias = toys.array(made.decoder.logits.bias).copy()
    other = bias.copy()
    other[list(ids)] += by
    made.decoder.logits.bias.assign(other)
    try:
        yield made
    finally:
        made.decoder.logits.bias.assign(bias)


@functools.cache
def forced(attention):
    """A compiled function from source and target to logits."""
    return kernels.inference(made(attention))


def log_p(ids, text, attention="bahdanau"):
    """Log-probabilities `(T,)` of target ids, from one forward pass; and logits."""
    source = np.zeros((1, 16), "int32")
    target = np.zeros((1, LENGTH), "int32")
    source[0, : len(text)] = [3 + "abcde".index(c) for c in text]
    target[0, : len(ids)] = [1, *ids[:-1]]
    logits = toys.array(forced(attention)([source, target]))[0, : len(ids)].copy()
    logits[:, :2] = -99  # padding and start are never written
    p = references.log_softmax(logits)
    return p[np.arange(len(ids)), ids], logits


def ids_of(translation):
    names = {"<end>": 2, **{c: 3 + n for n, c in enumerate("abcde")}, "\ufffd": 8}
    return [names[token] for token in translation.target_tokens]


@functools.cache
def greedy(attention):
    return made(attention).translate(TEXTS, max_length=LENGTH)


@pytest.mark.parametrize("attention", DRAWN)
def test_targets_differ_in_length(attention):
    """So that the tests below cover targets with and without an end."""
    found = greedy(attention)
    assert {t.target_tokens[-1] == "<end>" for t in found} == {True, False}
    assert len({t.text for t in found}) > 1


@pytest.mark.everywhere("the compiled loop", cases=1)
@pytest.mark.parametrize("attention", DRAWN)
def test_greedy_takes_the_argmax_of_each_step(attention):
    for text, translation in zip(TEXTS, greedy(attention), strict=True):
        ids = ids_of(translation)
        p, logits = log_p(ids, text, attention)
        assert logits.argmax(axis=-1).tolist() == ids
        assert translation.score == pytest.approx(p.sum(), abs=1e-4)
        assert len(ids) == LENGTH or ids[-1] == 2
        assert 2 not in ids[:-1]
        assert translation.text == "".join(
            token for token in translation.target_tokens if token != "<end>"
        )
        assert translation.candidates == [(translation.text, translation.score)]
        assert str(translation) == translation.text


def test_alignments_equal_numpy():
    for text, translation in zip(TEXTS, greedy("bahdanau"), strict=True):
        ids = ids_of(translation)
        alpha = translation.alignment
        assert alpha.shape == (len(ids), len(text))
        assert translation.source_tokens == list(text)
        np.testing.assert_allclose(alpha.sum(axis=-1), 1, rtol=1e-5)
        source = np.zeros((1, 16 if len(text) > 8 else 8), "int32")
        source[0, : len(text)] = [3 + "abcde".index(c) for c in text]
        state = toys.arrays(model().initial_state(source, LENGTH))["source"]
        assert state["mask"][0].tolist() == (source[0] > 0).tolist()
        _, expected = references.run(
            model().decoder,
            np.array([[1, *ids[:-1]]]),
            state["memory"],
            state["summary"],
            state["mask"],
        )
        assert (expected[0, :, len(text) :] == 0).all()
        np.testing.assert_allclose(alpha, expected[0, :, : len(text)], atol=1e-5)


def test_padding_has_zero_attention_weight():
    source = np.array([[4, 3, 5, 0, 0, 0, 0, 0], [0, 0, 4, 0, 3, 5, 6, 7]])
    target = np.array([[1, 4, 3], [1, 7, 5]]).repeat([6, 5, 5], axis=1)
    alpha = toys.array(model().align([source, target]))
    assert ((alpha == 0) == (source == 0)[:, None]).all()
    np.testing.assert_allclose(alpha.sum(axis=-1), 1, rtol=1e-5)


def assert_same(one, other):
    assert one.text == other.text
    assert one.score == pytest.approx(other.score, abs=1e-5)
    assert one.target_tokens == other.target_tokens
    assert one.source_tokens == other.source_tokens
    assert [c[0] for c in one.candidates] == [c[0] for c in other.candidates]
    np.testing.assert_allclose(one.alignment, other.alignment, atol=1e-5)


@pytest.mark.everywhere("the compiled loop", cases=1)
@pytest.mark.parametrize("sampler", [None, Beam(5, n_best=3)])
def test_batch_equals_single_sources(sampler):
    options = {"sampler": sampler, "max_length": LENGTH}
    together = model().translate(TEXTS, **options)
    assert_same(model().translate(TEXTS[0], **options), together[0])
    alone = model().translate(TEXTS, batch_size=1, **options)
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)


def test_default_max_length_depends_on_the_source():
    with biased(model(), 2, by=-99):
        found = model().translate(["a" * 9, "abc"], alignments=False)
    assert [len(t.text) for t in found] == [3 * 16 + 32, 3 * 8 + 32]


def test_empty_list():
    assert model().translate([]) == []
    assert len(model().translate(TEXTS[:1], max_length=LENGTH)) == 1


def test_beam_of_width_1_is_greedy():
    for one, other in zip(
        model().translate(TEXTS[:2], sampler=Beam(1), max_length=LENGTH),
        greedy("bahdanau"),
        strict=False,
    ):
        assert_same(one, other)


def test_candidates_of_a_beam():
    beam = Beam(5, n_best=3)
    found = model().translate(TEXTS[:2], sampler=beam, max_length=LENGTH)
    for text, translation in zip(TEXTS, found, strict=False):
        texts, scores = zip(*translation.candidates, strict=True)
        assert len(set(texts)) == 3
        assert list(scores) == sorted(scores, reverse=True)
        assert (translation.text, translation.score) == translation.candidates[0]
        assert (
            translation.score >= model().translate(text, max_length=LENGTH).score - 1e-5
        )
        for said, score in translation.candidates:
            ids = [3 + "abcde\ufffd".index(c) for c in said]
            ids += [2] if len(ids) < LENGTH else []
            assert score == pytest.approx(log_p(ids, text)[0].sum(), abs=1e-4)


def test_seed_of_a_sampler():
    options = {"sampler": Temperature(3.0), "max_length": LENGTH, "alignments": False}

    def draw(**more):
        found = model().translate(["abc"] * 4, batch_size=2, **options, **more)
        return [t.text for t in found]

    one = draw(seed=5)
    assert one[:2] != one[2:]  # batches draw different numbers
    assert [t.text for t in model().translate(["abc"] * 2, **options, seed=5)] == (
        one[:2]
    )
    assert draw(seed=5) == one
    assert draw(seed=6) != one
    assert draw() != draw()
    for translation in model().translate(["abc"] * 2, **options, seed=5):
        assert translation.alignment is None
        ids = ids_of(translation)
        total = log_p(ids, "abc")[0].sum()  # at temperature 1
        assert translation.score == pytest.approx(total, abs=1e-4)


def test_generate_and_stream_equal_translate():
    texts = [t.text for t in greedy("bahdanau")]
    assert model().generate(TEXTS, max_length=LENGTH) == texts
    assert model().generate(TEXTS[0], LENGTH) == texts[0]
    assert model().generate(TEXTS[:1], max_length=LENGTH, sampler="greedy") == texts[:1]
    for text, expected in zip(TEXTS, texts, strict=True):
        assert "".join(model().stream(text, LENGTH)) == expected
    beam = model().translate(TEXTS, LENGTH, sampler=Beam(5))
    assert model().generate(TEXTS, LENGTH, sampler="beam") == [t.text for t in beam]
    numbers = {"temperature": 3.0, "top_k": 5, "top_p": 0.9, "min_p": 0.01, "seed": 5}
    drawn = model().generate(TEXTS, LENGTH, **numbers)
    assert drawn == [t.text for t in model().translate(TEXTS, LENGTH, **numbers)]
    assert drawn != texts


def test_stop_ends_a_target():
    text = next(t for t in model().generate(TEXTS, LENGTH) if len(set(t)) > 1)
    source = TEXTS[model().generate(TEXTS, LENGTH).index(text)]
    stop = text[-1]
    expected = text[: text.index(stop) + 1]
    assert model().generate(source, LENGTH, stop=stop) == expected
    index = model().target_tokenizer.encode(stop)[0]
    assert model().generate(source, LENGTH, stop=[int(index)]) == expected
    with pytest.raises(ValueError, match="stream cannot use Beam"):
        model().stream(source, LENGTH, sampler="beam")


def test_unknown_characters_are_counted():
    found = model().translate(["aXbXé", "abc"], max_length=LENGTH, alignments=False)
    assert found[0].unknown == {"X": 2, "é": 1}
    assert found[0].source_tokens == ["a", "\ufffd", "b", "\ufffd", "\ufffd"]
    assert found[1].unknown == {}


def test_ids_without_tokenizers():
    made = toys.ids_model(attention=None)
    rows = [[1, 5, 2], np.array([3, 0, 0])]
    found = made.translate(rows, max_length=7)
    assert [t.source_tokens for t in found] == [["1", "5", "2"], ["3"]]
    for translation in found:
        assert translation.text.dtype.kind == "i"
        assert [str(i) for i in translation.text] == [
            token for token in translation.target_tokens if token.isdigit()
        ]
        assert set(translation.text.tolist()) <= set(range(1, 6))
        assert translation.unknown == {}
    padded = np.array([[1, 5, 2, 0, 0], [3, 0, 0, 0, 0]])
    for one, other in zip(made.translate(padded, max_length=7), found, strict=True):
        np.testing.assert_array_equal(one.text, other.text)


def test_second_call_compiles_nothing(monkeypatch):
    model().translate(TEXTS[:1], max_length=LENGTH)
    calls = []
    inference = kernels.inference
    monkeypatch.setattr(kernels, "inference", lambda m: calls.append(m) or inference(m))
    model().translate(TEXTS[:1], max_length=LENGTH)
    assert calls == []


@pytest.mark.everywhere("the compiled loop")
def test_translate_uses_new_weights():
    before = model().translate("abc", max_length=LENGTH)
    weights = model().get_weights()
    try:
        after = drawn(model(), 1.0, 9).translate("abc", max_length=LENGTH)
        assert after.score != before.score
        total = log_p(ids_of(after), "abc")[0].sum()
        assert after.score == pytest.approx(total, abs=1e-4)
    finally:
        model().set_weights(weights)


def test_inputs_and_outputs():
    assert isinstance(model(), keras.Model)
    assert model().output_shape == (None, None, 9)
    assert [x.name for x in model().inputs] == ["source", "target"]
