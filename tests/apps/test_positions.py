"""The lab Positions: its numbers, and the answers that it gives."""

import numpy as np
import pytest

from parts import encodings, work
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]

LENGTH, WIDTH = 32, 8


def test_the_sinusoid_is_that_of_the_equation():
    found = encodings.measure("sine", LENGTH, WIDTH)
    p, i = np.arange(LENGTH)[:, None], np.arange(WIDTH // 2)
    angles = p / 10000 ** (2 * i / WIDTH)
    code = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(LENGTH, WIDTH)
    np.testing.assert_allclose(found["code"], code, atol=1e-5)
    np.testing.assert_allclose(found["product"], code @ code.T, atol=1e-4)


def test_which_products_depend_on_the_distance_alone():
    spreads = {
        k: encodings.measure(k, LENGTH, WIDTH)["spread"] for k in encodings.KINDS
    }
    alone = {kind for kind, spread in spreads.items() if spread < 1e-3}
    assert alone == {"sine", "rotary", *encodings.BIASES}
    assert spreads["amplitude"] > 100  # though its distances do not vary


def test_which_encodings_meet_which_criteria():
    found = {k: encodings.criteria(k, 64, 16) for k in encodings.KINDS}
    meet = {
        k: {name for name, (holds, _) in c.items() if holds} for k, c in found.items()
    }
    assert {kind for kind, names in meet.items() if len(names) == 5} == {
        "sine",
        "alibi",
    }
    assert "relation" in meet["amplitude"]
    assert "length" in meet["binary"] and "length" not in meet["learned"]
    assert not encodings.criteria("binary", 128, 8)["length"][0]


def test_the_loss_beyond_the_trained_length_is_that_of_the_model(models):
    found = encodings.beyond(models("positions_alibi"))
    assert found["trained"] == 16
    assert len(found["bits"]) == encodings.FACTOR * 16 // encodings.BIN
    model = work.model(models("positions_alibi"))
    vocabulary = np.log2(model.tokenizer.vocabulary_size)
    assert np.allclose(found["bits"], vocabulary, atol=1)  # it is not trained


def test_learned_positions_end():
    page = pages.open_lab("positions", view="beyond")
    rows = page.dataframe[0].value
    last = rows.groupby(rows.columns[0])[rows.columns[1]].max()
    assert last["learned"] == 16 and last["ALiBi"] == 128


def test_no_encoding_is_a_sentence():
    for view in ("maps", "relation"):
        page = pages.open_lab("positions", view=view)
        pages.control(page, "kinds").set_value([]).run()
        pages.checked(page)
        assert any("at least one" in m.value for m in page.markdown)
