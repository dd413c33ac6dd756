"""The lab BERT: its numbers are those of the model, and what it refuses."""

import numpy as np
import pytest

from labs.code import bert as code
from parts import bert_figures, work
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]

TEXT = "one two [MASK] four [MASK] six ."


@pytest.fixture
def model(models):
    return work.model(models("bert"))


@pytest.mark.parametrize(("rate", "share"), [(0.15, 0.8), (0.5, 0.0), (0.3, 1.0)])
def test_masks_are_as_often_as_expected(rate, share):
    found = code.mask("one two three four five six seven", rate, share, 3, 4000)
    assert found["selectable"] >= 7
    expected = bert_figures.expected_shares(rate, share, found["selectable"])
    for fate, observed in found["counts"].items():
        assert observed == pytest.approx(expected[fate], abs=0.01), fate
    assert expected["chosen"] == pytest.approx(
        sum(expected[fate] for fate in ("mask", "random", "kept"))
    )
    before, after = found["before"], found["after"]
    changed = [n for n in range(len(before)) if before[n] != after[n]]
    assert set(changed) <= set(found["chosen"]) <= set(range(1, len(before) - 1))
    assert before[0], before[-1] == ("[CLS]", "[SEP]")
    assert found != code.mask("one two three four five six seven", rate, share, 4, 4000)


def test_a_hole(model):
    found = code.fill(model, TEXT, 5)
    assert found["after"] == model.fill(TEXT, 5)
    assert [len(holes) for holes in found["before"]] == [5, 5]
    p = [p for _, p in found["before"][0]]
    assert p == sorted(p, reverse=True)
    seen = code.attend(model, TEXT, 1)
    expected = ["[CLS]", "one", "two", "[MASK]", "four", "[MASK]", "six", ".", "[SEP]"]
    assert seen["tokens"] == expected
    assert seen["weights"].shape == (2, 2, 9)
    np.testing.assert_allclose(seen["weights"].sum(-1), 1, atol=1e-5)  # no padding
    assert not np.allclose(seen["weights"], code.attend(model, TEXT, 0)["weights"])


def test_before_training_is_the_network_of_the_command(model):
    from kerasseq.cli import bert, options

    settings = options.Settings(
        **{**bert.DEFAULTS, "units": 8, "num_heads": 2, "num_layers": 2}
    )
    first = bert.build(settings, model.tokenizer).get_weights()
    for ours, theirs in zip(code.untrained(model).get_weights(), first, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_next_sentences(model):
    pairs = code.variants("one two .", "three four five .")
    assert pairs["swapped"] == ("three four five .", "one two .")
    assert sorted(pairs["shuffled"][1].split()) == sorted(
        ["three", "four", "five", "."]
    )
    model, rng = code.untrained(model), np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    found = code.follows(model, list(pairs.values()))
    x = model.preprocessor.rows(list(pairs.values())).arrays
    positions = np.zeros((4, 1), "int32")
    logits = model.predict({**x, "positions": positions}, verbose=0)["next"]
    p = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    np.testing.assert_allclose(found["after"], p, atol=1e-4)
    assert np.ptp(p) > 0.005
    np.testing.assert_allclose(found["before"], 0.5, atol=0.1)
    others = code.continuations("one .")
    assert len(others) == 100
    assert others[99] == ("one .", "ninety nine zero one .")


@pytest.mark.parametrize("task", ["direction", "mistake"])
def test_examples(task):
    from kerasseq.datasets import number_word

    texts, labels = code.examples(task, 5)
    assert len(set(texts)) == len(labels) == 800
    first, second = set(labels)
    assert labels[-250:].count(first) == labels[-250:].count(second) == 125
    step = {"down": -1}
    for text, label in zip(texts[:50], labels, strict=False):
        known = {
            " ".join(number_word((n + step.get(label, 1) * i) % 100) for i in range(k))
            for n in range(100)
            for k in range(4, 12)
        }
        assert (text.removesuffix(" .") in known) == (label != "wrong")


def test_fine_tuning_learns_and_keeps_the_model(model):
    before = model.get_weights()
    found = code.tune(model, "direction", 4, True, 0, 1)
    assert 0 <= found["accuracy"] <= 1
    for weight, same in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, same)
    p = code.classify(model, ["down", "up"], found["weights"], "one two")
    assert sum(p.values()) == pytest.approx(1, abs=1e-5)
    bias = found["weights"].copy()
    bias[-1] = np.array([0.0, 9.0], "float32")
    assert code.classify(model, ["down", "up"], bias, "one two")["up"] > 0.9


def test_texts_for_a_hole():
    """Each is filled, or refused in one sentence, and the page goes on working."""
    typed = "one _ three [mask] five"
    page = pages.open_lab("bert", view="hole", hole_text=typed, hole="1")
    assert pages.control(page, "hole").options == ["1", "2"]
    assert "one [MASK] three [MASK] five" in page.code[0].value
    texts = {"one two": "[MASK]", "_ " * 90: "at most"}
    for text, message in texts.items():
        pages.control(page, "hole_text").set_value(text).run()
        (error,) = page.error
        assert message in error.value
        assert not page.exception
        assert page.subheader  # the rest is drawn
    pages.control(page, "hole_text").set_value("🙂 שלום <b> $x$ _ **a**\x00")
    pages.checked(page.run())


def test_sentences_that_are_refused():
    page = pages.open_lab("bert", view="next")
    for text, message in (("", "one character"), ("one " * 60, "at most")):
        pages.control(page, "second").set_value(text).run()
        (error,) = page.error
        assert message in error.value
        assert not page.exception


def test_any_text_is_masked():
    page = pages.open_lab("bert")
    for text in ("🙂 שלום a\x00b", "one " * 10**5):
        pages.control(page, "text").set_value(text)
        pages.checked(page.run())
    pages.control(page, "text").set_value("\x00").run()
    (error,) = page.error
    assert "one character" in error.value
    assert not page.exception


def test_results_of_the_command_are_shown():
    page = pages.open_lab("bert", view="training")
    shown = str(page.table[0].value)
    assert all(number in shown for number in ("0.125", "0.750", "0.875"))
    (button,) = [b for b in page.button if b.label == "Train"]
    assert not button.disabled
