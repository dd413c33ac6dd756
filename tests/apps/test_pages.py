"""Each page in both languages, each of its controls, and the code that it shows."""

import contextlib
import importlib
import io

import pytest

from parts import work
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]

# Other states of a lab with other controls or other code.
STATES = {
    "attention": [
        *({"step": "logits"}, {"step": "softmax"}, {"view": "heads"}),
        *({"view": "scores", "learning": "0"}, {"view": "cross"}, {"view": "slide"}),
        {"view": "slide", "preset": "creature"},
    ],
    "positions": [{"view": view} for view in ("criteria", "relation", "beyond")],
    "tokens": [{"view": view} for view in ("compare", "ngrams", "eliza")],
    "count": [{"model": "bert_base"}, {"model": "t5_small"}, {"model": "vit_base_16"}],
    "gates": [{"task": "text", "cell": "peephole_lstm", "length": "10"}],
    "gradients": [{"view": "clipping"}],
    "race": [{"view": "forecast", "series": "drawn", "updates": "20", "width": "8"}],
    "translation": [
        *({"view": "lengths"}, {"view": "forcing"}, {"view": "beam"}),
    ],
}
CASES = [(lab, state) for lab in pages.LABS for state in ({}, *STATES.get(lab, ()))]
IDS = ["-".join([lab, *state.values()]) for lab, state in CASES]


@pytest.mark.parametrize(("lab", "state"), CASES, ids=IDS)
def test_page_in_french(lab, state, stub, models):
    page = pages.open_lab(lab, lang="fr", **state)
    english = pages.open_lab(lab, lang="en", **state)
    assert page.title[0].value != english.title[0].value or lab == "tokens"
    assert len(page.markdown) == len(english.markdown)


CHOICES = ("selectbox", "multiselect", "select_slider", "segmented_control")
CHOICES += ("button_group",)


def another(found):
    """Returns another value of a control."""
    kind = type(found).__name__
    if kind == "NumberInput":
        if found.value is None:  # as published
            return 3072 if found.max >= 3072 else 8
        return found.value + found.step
    if kind == "Slider":
        if isinstance(found.value, list | tuple):
            whole = found.min, found.max
            return whole if tuple(found.value) != whole else (found.min, found.min)
        return found.max if found.value != found.max else found.min
    if kind in ("TextInput", "TextArea"):
        return "((" if found.key.endswith("string") else "abab cdcd abab"
    return not found.value  # of a switch


@pytest.mark.parametrize(("lab", "state"), CASES, ids=IDS)
def test_each_control_changes_the_address(lab, state, stub, models, monkeypatch):
    # With one backend alone there would be nothing to choose.
    monkeypatch.setattr(work, "installed", lambda: ["jax", "torch"])
    page = pages.open_lab(lab, **state)
    keys = [
        (kind, found.key)
        for kind in pages.KINDS
        for found in getattr(page, kind, ())
        if found.key and found.key.startswith(f"{lab}.") and not found.disabled
    ]
    for kind, key in keys:
        found = next(f for f in getattr(page, kind) if f.key == key)
        before, name = page.session_state[key], key.partition(".")[2]
        if kind in CHOICES:  # AppTest has the labels, the session has the values
            page.session_state[key] = other_option(OPTIONS[lab][name], before)
        else:
            found.set_value(another(found))
        pages.checked(page.run())
        assert pages.query(page).get(name) != state.get(name), key
        page.query_params.clear()  # Back
        page.query_params.update(state)
        assert pages.query(pages.checked(page.run())) == state


def other_option(known, before):
    """Returns another option of a choice, or of several."""
    if isinstance(before, list):
        return [v for v in known if v not in before][:1]
    return next(v for v in known if v != before)


OPTIONS = {
    "attention": {
        "view": ("slide", "steps"),
        "layer": (1, 2),
        "head": (1, 2),
        "of_head": (0, 2),
        "step": ("qkv", "output"),
        "token": (0, 1),
        "temperature": (0.5, 1.0),
        "task": ("other", "same"),
        "learning": (0, 10),
        "preset": ("creature", "masked"),
    },
    "positions": {
        "view": ("criteria", "maps"),
        "kinds": ("rotary", "relative"),
        "length": (16, 64),
        "width": (8, 16),
    },
    "start": {"backend": ("torch", "jax")},
    "race": {
        "view": ("race", "forecast"),
        "series": ("sunspots",),
        "updates": (100,),
        "horizon": (3,),
        "width": (16,),
        "cells": ("gru", "lstm"),
        "backends": ("jax", "torch"),
        "colors": (1, 2),
        "kind": ("hard", "training"),
        "steps": (100, 700),
        "units": (4, 32),
        "learning_rate": (0.001, 0.005),
        "batch_size": (16, 64),
    },
    "tokens": {
        "view": ("compare", "merges", "eliza"),
        "size": (500, 1000),
        "width": (64, 768),
        "unit": ("word", "character"),
    },
    "count": {"model": ("bloom", "opt"), "dtype": ("float32", "bfloat16")},
    "gates": {
        "task": ("race", "text"),
        "cell": ("lstm", "gru"),
        "temperature": (0.0, 1.0),
        "gate": ("output_gate", "peepholes"),
        "value": (0, 1),
        "units": (2,),
        "unit": (0, 3),
        "quantity": ("candidate", "hidden_state"),
        "side": ("after", "before"),
    },
    "translation": {
        "view": ("align", "beam"),
        "data": ("numbers", "dates"),
        "attention": ("none", "bahdanau"),
        "example": (1,),
        "penalty": (0.6,),
    },
    "gradients": {
        "view": ("clipping", "distance"),
        "cells": ("lstm",),
        "state": ("cell_state",),
        "activation": ("linear",),
        "cell": ("gru",),
        "rate": (0.1,),
        "clip": (0.1,),
    },
}


@pytest.mark.parametrize(("lab", "state"), CASES, ids=IDS)
def test_the_code_of_the_page_runs(lab, state, stub, models):
    page = pages.open_lab(lab, **state)
    (shown,) = [code.value for code in page.code]
    quick = getattr(importlib.import_module(f"labs.{lab}"), "QUICK", {})
    for old, new in quick.items():
        assert old in shown or state  # other states have other code
        shown = shown.replace(old, new)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(shown, lab, "exec"), {})
    assert printed.getvalue()


def test_gpt3_has_the_parameters_of_the_slide():
    page = pages.open_lab("count")
    shown = " ".join(element.value for element in page.get("html"))
    assert "175,181,291,520" in shown
    assert "27,938" in shown


def test_an_error_is_a_sentence_and_the_page_goes_on():
    page = pages.open_lab("count")
    pages.control(page, "num_heads").set_value(7).run()
    assert "7" in page.error[0].value
    assert page.subheader  # "try this" is drawn all the same
    pages.control(page, "num_heads").set_value(8).run()
    pages.checked(page)
