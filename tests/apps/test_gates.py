"""The lab Gates: what is forced, what follows from it, and input that it refuses."""

import numpy as np
import pytest

from labs.code import gates as code
from parts import places, prepared, runs
from tests.apps import pages

pytestmark = pytest.mark.once("a page computes on one backend")

PROMPT = "ab "


@pytest.fixture
def folder(folder, models):
    """Returns the folder of a model."""
    manager = runs.Runs(places.runs())
    yield lambda name: prepared.find(manager, f"gates_{name}", "torch")
    manager.close()


def change(gate, value, first=1, last=99, units=None):
    return {
        "gate": gate,
        "value": value,
        "first": first,
        "last": last,
        "units": units,
    }


def test_reading_equals_the_model(folder):
    import kerasseq

    found = code.read(folder("race_lstm"), "(())(")
    model = kerasseq.load_model(folder("race_lstm") / "model.keras")
    ids = np.array([[1, 1, 2, 2, 0], [1, 1, 2, 2, 1]])  # 0 is padding
    p = model.probabilities(model.predict(ids, verbose=0))
    np.testing.assert_allclose(found["p"][[3, 4]], p[:, 1], atol=1e-6)
    assert found["values"]["cell_state"].shape == (5, 12)


def test_chosen_units_and_symbols_are_forced_and_what_follows_changes(folder):
    before = code.read(folder("race_lstm"), "(())()")
    forced = change("forget_gate", 0.0, 3, 4, units=[1, 5])
    after = code.read(folder("race_lstm"), "(())()", forced)
    gate, other = (found["values"]["forget_gate"] for found in (after, before))
    assert (gate[2:4, [1, 5]] == 0).all()
    assert (gate[4:] > 0).all()
    np.testing.assert_array_equal(gate[:2], other[:2])
    np.testing.assert_array_equal(gate[2, [0, 2, 3]], other[2, [0, 2, 3]])
    c = after["values"]["cell_state"]
    i, g = after["values"]["input_gate"], after["values"]["candidate"]
    np.testing.assert_allclose(c[2, 1], i[2, 1] * g[2, 1], atol=1e-6)
    np.testing.assert_array_equal(after["p"][:2], before["p"][:2])
    assert np.abs(after["p"][2:] - before["p"][2:]).max() > 0


def test_another_string_leaves_the_chosen_symbols(folder):
    page = pages.open_lab("gates", symbols="5~5")
    pages.control(page, "string").set_value("(()(()))()()").run()
    assert pages.control(page, "symbols").value == (5, 5)
    pages.checked(pages.control(page, "string").set_value("(())").run())
    assert pages.control(page, "symbols").value == (4, 4)


def test_a_closed_output_gate_leaves_the_bias(folder):
    found = code.read(folder("race_gru"), "()", change("update_gate", 1.0))
    assert (found["values"]["hidden_state"] == 0).all()  # z = 1 keeps the first state
    found = code.read(folder("race_lstm"), "(())", change("output_gate", 0.0))
    assert np.ptp(found["p"]) < 1e-6


def test_without_peepholes(folder):
    path = folder("race_peephole_lstm")
    _, layer = code.load(path, None)
    weights = np.random.default_rng(0).normal(size=(3, 12)).astype("float32")
    plain = code.read(path, "(()")
    assert (plain["values"]["peephole_forget"] == 0).all()  # as initialized
    layer.cell.peephole_kernel.assign(weights)
    values = {"x/cell_state": np.ones((2, 12), "float32")}
    found = code.named(layer, values)
    np.testing.assert_allclose(found["peephole_input"], [[0] * 12, weights[0]])
    np.testing.assert_allclose(found["peephole_forget"][1], weights[1])
    np.testing.assert_allclose(found["peephole_output"], [weights[2]] * 2)
    _, off = code.load(path, change("peepholes", 0.0, units=[2]))
    assert code.forced(off, change("peepholes", 0.0)) == {}


def test_writing_equals_generate_and_forces_absolute_characters(folder):
    import kerasseq

    path = folder("text_lstm")
    model = kerasseq.load_model(path / "model.keras")
    found = code.write(path, PROMPT, None, 7, 0.0)
    expected = model.generate(PROMPT, 7, temperature=0)
    assert "".join(found["pieces"]) == expected
    logits = np.asarray(model.predict(model.ids(expected)[None], verbose=0))[0]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    ids = model.ids(expected)
    np.testing.assert_allclose(found["p"][1:], p[range(9), ids[1:]], atol=1e-5)
    after = code.write(path, PROMPT, change("input_gate", 1.0, 5, 6), 7, 0.0)
    gate = after["values"]["input_gate"]
    assert (gate == 1).all(axis=1).tolist() == [False] * 4 + [True] * 2 + [False] * 4
    assert after["pieces"][:5] == found["pieces"][:5]


@pytest.mark.parametrize("text", ["a", "😀é", "שלום"])
def test_any_text_is_continued(folder, text):
    found = code.write(folder("text_gru"), text, None, 3, 1.0, 2)
    assert "".join(found["pieces"]).startswith(text)
    assert len(found["pieces"]) == len(found["p"]) == len(text) + 3


def test_two_texts_side_by_side(folder):
    page = pages.open_lab(
        "gates", task="text", cell="gru", prompt=PROMPT, length="10", value="1"
    )
    shown = " ".join(element.value for element in page.get("html"))
    assert shown.count("ab ") == 2
    pages.checked(pages.control(page, "prompt").set_value("שלום 😀").run())
    assert "שלום 😀" in page.get("html")[0].value


@pytest.mark.parametrize("string", ["", "(a)", "  "])
def test_other_characters_are_refused_in_a_sentence(folder, string):
    page = pages.open_lab("gates")
    pages.control(page, "string").set_value(string).run()
    assert "(()(()))" in page.error[0].value
    assert page.subheader  # the rest is drawn
    pages.control(page, "string").set_value("(").run()
    pages.checked(page)


def test_an_empty_text_is_refused(folder):
    page = pages.open_lab("gates", task="text", prompt="a", length="0")
    pages.control(page, "prompt").set_value("").run()
    assert "one character" in page.error[0].value


def test_a_long_string_in_an_address_is_cut(folder):
    page = pages.open_lab("gates", string="()" * 50_000)
    assert pages.control(page, "string").value == "()" * 30


def test_the_interval_shrinks_with_the_string(folder):
    page = pages.open_lab("gates", string="(((())))", symbols="5~8")
    pages.checked(pages.control(page, "string").set_value("()").run())
    assert pages.control(page, "symbols").value == (2, 2)


def test_another_network_has_other_gates(folder):
    page = pages.open_lab("gates", gate="output_gate")
    page.session_state["gates.cell"] = "gru"
    pages.checked(page.run())
    assert page.session_state["gates.gate"] == "update_gate"


def test_the_equations_of_the_trained_network(folder):
    page = pages.open_lab("gates", cell="gru")
    forward, backward = (found.value for found in page.get("latex")[-2:])
    _, layer = code.load(folder("race_gru"), None)
    explained = layer.explain()
    assert explained.latex("forward") in forward
    assert explained.latex("backward") in backward
    assert r"\partial z_{z}" in backward
