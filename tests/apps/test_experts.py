"""The lab Experts: loads, who reads what, training on the page, and its program."""

import runpy
import sys

import numpy as np
import pytest

from kerasseq import tracing
from labs.code import experts as code
from parts import routing
from parts.routing import Settings
from tests.apps import pages
from tests.processes import ROOT

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]
TEXT = "for x in (7, 11):"


@pytest.mark.parametrize("top_k", routing.CHOSEN)
def test_the_balance_loss_keeps_all_experts_busy(top_k):
    busiest = []
    for coefficient in routing.COEFFICIENTS:
        settings = Settings(top_k=top_k, coefficient=coefficient)
        loads = routing.curves(*settings)["load"]
        np.testing.assert_allclose(loads.sum(axis=1), 1, atol=2e-3)  # half floats
        assert loads.max() < 1 / top_k + 1e-3
        busiest.append(routing.busiest(loads))
        counted = routing.counted(*settings)
        np.testing.assert_allclose(counted["load"], loads[-1], atol=0.01)
        assert counted["load"].sum() == pytest.approx(1)
    none, weak, strong = busiest
    assert strong < weak < none and strong < 0.2
    assert none > (0.7 if top_k == 1 else 0.3)
    assert loads.min(axis=1)[1:].mean() > 0.03  # of the strong one none is idle


@pytest.mark.everywhere("stored weights on another backend", cases=2)
@pytest.mark.parametrize("top_k", routing.CHOSEN)
def test_gates_are_those_of_the_equation(top_k):
    settings = Settings(top_k=top_k)
    model, *_ = routing.run(settings)
    with tracing.trace(model) as inside:
        model(model.tokenizer.encode(TEXT)[None])
    p = np.asarray(inside["block_0/experts/router"])[0]
    best = np.argsort(-p)[:, :top_k]
    g = np.take_along_axis(p, best, 1)
    g = g / g.sum(axis=1, keepdims=True) if top_k > 1 else g
    wanted = np.full(p.shape, np.nan)
    np.put_along_axis(wanted, best, g, 1)
    gates = routing.read(TEXT, *settings)
    np.testing.assert_allclose(gates, wanted.T, atol=1e-6)
    load = np.asarray(inside["block_0/experts/load"])
    np.testing.assert_allclose((gates > 0).sum(axis=1) / best.size, load, atol=1e-6)


def test_characters_are_counted():
    settings = Settings(top_k=2)
    model, *_ = routing.run(settings)
    _, ids = code.reference(model)
    counted = routing.counted(*settings)
    found = counted["counts"].sum(axis=0)
    size = len(counted["characters"])
    np.testing.assert_array_equal(
        found, 2 * np.bincount(ids[:, :-1].ravel(), None, size)
    )
    load, _ = code.measure(model, ids)
    np.testing.assert_allclose(counted["load"], load, atol=1e-6)
    assert 1 / 8 < counted["told"] <= 1


def test_training_measures_on_the_way():
    model, loads, losses = code.train(5, 1, 0.0, 20, 3)
    assert loads.shape == (3, 5) and losses.shape == (3,)
    np.testing.assert_allclose(loads.sum(axis=1), 1, atol=1e-6)
    assert losses[-1] < losses[0] - 0.5 and loads[-1].max() > 0.5
    text, ids = code.reference(model)
    load, loss = code.measure(model, ids)
    np.testing.assert_allclose([*load, loss], [*loads[-1], losses[-1]], atol=1e-6)
    assert not any(row in text for row in model.tokenizer.decode(ids))


def facts(page):
    """What a page shows in large type."""
    return " ".join(html.proto.body for html in page.get("html"))


def test_the_page_says_how_busy_the_experts_are():
    page = pages.open_lab("experts", coefficient="0.0")
    assert ">74 %<" in facts(page) and ">3<" in facts(page)  # below 1 %
    assert len(page.table[0].value) == 8
    assert "expert" in page.code[0].value
    page = pages.open_lab("experts", view="balance", lang="fr")
    shown = facts(page).replace("\N{NARROW NO-BREAK SPACE}", " ")
    shown = shown.replace("\N{NO-BREAK SPACE}", " ")
    assert all(f">{share} %<" in shown for share in (72, 21, 19))


def test_other_settings_are_trained_on_a_button(monkeypatch):
    monkeypatch.setattr(code, "EVERY", 50)
    page = pages.open_lab("experts", num_experts="4", steps="50", text="a~é")
    assert any("Models to train: 1," in text.value for text in page.markdown)
    assert not page.table
    [found] = [b for b in page.button if b.key == "experts.train.button"]
    page = pages.checked(found.click().run())
    assert len(page.table[0].value) == 4 and not page.button
    pages.control(page, "seed").set_value(7).run()
    assert not pages.checked(page).table and len(page.button) == 1


def test_a_text_is_needed():
    page = pages.open_lab("experts", text="x")
    page.text_input[0].set_value("").run()
    assert "empty" in page.error[0].value and page.subheader


def test_the_program_that_trains_the_models(tmp_path, monkeypatch, capsys):
    file = tmp_path / "experts.npz"
    monkeypatch.setattr(sys, "argv", ["prepare_experts.py", str(file), "--steps", "10"])
    runpy.run_path(str(ROOT / "apps" / "prepare_experts.py"), run_name="__main__")
    assert "1_0.01: busiest" in capsys.readouterr().out
    with np.load(file) as made, np.load(routing.FILE) as kept:
        assert made.files == kept.files
        weights = [n for n in made.files if not n.startswith("lo")]
        assert [made[n].shape for n in weights] == [kept[n].shape for n in weights]
