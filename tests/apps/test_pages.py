"""Each page in both languages, each of its controls, and the code that it shows."""

import collections
import contextlib
import importlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import nbformat
import pytest

from kerasseq.cli import app
from kerasseq.cli.main import main
from parts import code, work
from tests.apps import pages
from tests.apps.test_texts import views_of
from tests.processes import ROOT

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
    "window": [{"view": view} for view in ("costs", "reach")],
    "tokens": [
        *({"view": view} for view in ("compare", "ngrams", "eliza", "vectors")),
        *({"view": "vectors", "part": part} for part in ("analogy", "plural")),
    ],
    "bert": [{"view": view} for view in ("hole", "next", "tuning", "training")],
    "count": [
        *({"model": "bert_base"}, {"model": "t5_small"}, {"model": "vit_base_16"}),
        *({"model": "mamba_130m"}, {"model": "rwkv4_169m"}),
    ],
    "gates": [{"task": "text", "cell": "peephole_lstm", "length": "10"}],
    "gradients": [{"view": "clipping"}],
    "vision": [{"view": "texts", "which": "0"}],
    "race": [{"view": "forecast", "series": "drawn", "updates": "20", "width": "8"}],
    "votes": [{"view": "train"}, {"view": "limits"}],
    "experts": [{"view": "balance"}],
    "speech": [{"view": "text"}, {"view": "paths"}, {"source": "upload"}],
    "pictures": [{"view": "batch", "kind": "sigmoid"}, {"view": "words"}],
    "chat": [{"stage": "talk"}],
    "translation": [
        *({"view": "lengths"}, {"view": "forcing"}, {"view": "beam"}),
    ],
}
OTHER = pytest.mark.full("a state more of a page that is tested", cheap=False)
CASES = [pytest.param(lab, {}, id=lab) for lab in pages.LABS]
CASES += [
    pytest.param(lab, state, id="-".join([lab, *state.values()]), marks=OTHER)
    for lab in pages.LABS
    for state in STATES.get(lab, ())
]


LONG = ("gates", "window", "translation", "positions", "language_model", "gradients")
SAME = pytest.mark.full("the controls are those of the other labs", cheap=False)
TRAINED = pytest.mark.full("a run is trained first", cheap=False)
WITHOUT_TRAINING = [
    pytest.param(lab, {}, id=lab, marks=TRAINED if lab == "translation" else ())
    for lab in pages.LABS
] + CASES[len(pages.LABS) :]
SOME = [
    pytest.param(lab, {}, id=lab, marks=SAME if lab in LONG else ())
    for lab in pages.LABS
] + CASES[len(pages.LABS) :]

Shown = collections.namedtuple("Shown", "texts code")
_english = {}  # what a page shows first: a page is drawn once for several tests


def shown(page):
    """Returns the texts and the code of a page."""
    return Shown([m.value for m in page.markdown], [c.value for c in page.code])


def english(lab, state):
    """Returns what a page shows in English."""
    key = lab, *state.items()
    if key not in _english:
        _english[key] = shown(pages.open_lab(lab, **state))
    return _english[key]


@pytest.mark.parametrize(("lab", "state"), CASES)
def test_page_in_french(lab, state, stub, models):
    french = shown(pages.open_lab(lab, lang="fr", **state))
    texts = english(lab, state).texts
    assert len(french.texts) == len(texts) and french.texts != texts


@pytest.mark.parametrize(
    ("model", "kept"), [("mamba_130m", "2.46 MiB"), ("rwkv4_169m", "0.14 MiB")]
)
def test_states_are_no_cache_that_grows(model, kept):
    texts = english("count", {"model": model}).texts
    assert any(kept in text for text in texts)
    assert not any("cache grows" in text for text in texts)


CHOICES = ("selectbox", "multiselect", "select_slider", "segmented_control")
CHOICES += ("button_group",)
LEAST = {"plurals": 2}  # options of a choice of several


def another(lab, kind, found, before):
    """Returns another value of a control."""
    name = found.key.partition(".")[2]
    known = OPTIONS.get(lab, {}).get(name)
    if isinstance(before, list):  # AppTest has the labels, the session has the values
        new = [v for v in known if v not in before]
        return new[: LEAST.get(name, 1)] or before[:1]
    if known:
        return next(v for v in known if v != before)
    if kind == "number_input":
        if found.value is None:  # as published
            return 3072 if found.max >= 3072 else 8
        return found.value + found.step
    if kind == "slider":
        if isinstance(found.value, list | tuple):
            low, high = int(found.min), int(found.max)
            return (low, high - 1) if before == (low, high) else (low, high)
        return found.max if found.value != found.max else found.min
    if kind in ("text_input", "text_area"):
        return "((" if name == "string" else "abab cdcd abab"
    assert kind not in CHOICES, f"OPTIONS has no {name} of the lab {lab}"
    return not found.value  # of a switch


TRIED = {}  # the first state of a lab that has a control


@pytest.mark.parametrize(("lab", "state"), SOME)
def test_each_control_changes_the_address(lab, state, stub, models, monkeypatch):
    # With one backend alone there would be nothing to choose.
    backends = sorted({"jax", "torch", work.backend()})
    monkeypatch.setattr(work, "installed", lambda: backends)
    page = pages.open_lab(lab, **state)
    _english[lab, *state.items()] = shown(page)
    values = {}  # of each control, now and then; those of an earlier state are left out
    for kind in pages.KINDS:
        for found in getattr(page, kind, ()):
            own = found.key and found.key.startswith(f"{lab}.") and not found.disabled
            if own and TRIED.setdefault(found.key, state) == state:
                before = page.session_state[found.key]
                values[found.key] = before, another(lab, kind, found, before)
    last = None
    for key, (before, after) in values.items():
        if last is not None:  # one run undoes a change and makes the next
            page.session_state[last] = values[last][0]
        if isinstance(before, tuple):  # the ends of an interval follow other controls
            page.run()
        page.session_state[key] = after
        pages.checked(page.run())
        name = key.partition(".")[2]
        assert pages.query(page).get(name) != state.get(name), key
        last = key
    page.query_params.clear()  # Back
    page.query_params.update(state)
    assert pages.query(pages.checked(page.run())) == state


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
        **dict.fromkeys(("table_masked", "table_creature"), ("1 2\n3 4",)),
    },
    "positions": {
        "view": ("criteria", "maps"),
        "kinds": ("rotary", "relative"),
        "length": (16, 64),
        "width": (8, 16),
    },
    "tape": {"pattern": ("stairs", "same"), "length": (1, 33)},
    "votes": {
        "view": ("train", "limits"),
        "worth": (1.0, 0.0),
        "count": (10, 200),
        "source": ("class", "simulated"),
        "beta": (1.0, 0.1),
        "steps": (10, 50),
    },
    "experts": {
        "view": ("balance", "reads"),
        "num_experts": (4, 8),
        "top_k": (2, 1),
        "steps": (100, 200),
        "coefficient": (0.1, 0.0),
    },
    "speech": {
        "view": ("text", "frames"),
        "source": ("upload", "morse"),
        "dot": (0.05, 0.06),
        "window": (256, 128),
        "step": (200, 1200),
        "width": (2, 8),
        "table": ("1 2 1\n2 1 1", "1 1 1"),
        "label": ("BA", "B"),
    },
    "pictures": {
        "view": ("batch", "match"),
        "objects": (1, 2),
        "color": ("green", "white"),
        "shape": ("circle", "square"),
        "size": ("small", "large"),
        "place": ("center", "top"),
        "relation": ("below", "above"),
        "second_color": ("purple", "yellow"),
        "second_shape": ("triangle", "cross"),
        "noise": (0.1, 0.0),
        "which": ("shape", "color"),
        "kind": ("softmax", "sigmoid"),
        "scale": (20, 10),
        "layer": (1, 2),
        "head": (1, 2),
        **dict.fromkeys(("text", "caption"), ("a red square",)),
    },
    "window": {
        "view": ("reach", "reads"),
        "length": (16, 64),
        "block": (4, 16),
    },
    "start": {"backend": ("torch", "jax")},
    "race": {
        "view": ("race", "forecast"),
        "series": ("sunspots",),
        "updates": (100,),
        "amplitude": (1.0,),
        "trend": (2.0,),
        "noise": (0.0,),
        "horizon": (3,),
        "width": (16,),
        "cells": ("gru", "lstm"),
        "backends": ("jax", "torch"),
        "colors": (1, 2),
        "kind": ("hard", "training"),
        "flipped": (0.1, 0.2),
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
        "part": ("analogy", "nearest"),
        **dict.fromkeys(("word", "first", "second", "third"), ("queen",)),
        "plurals": ("is", "cat"),
    },
    "bert": {
        "view": ("hole", "masking"),
        "rate": (0.3, 0.5),
        "share": (0.5, 1.0),
        "hole_text": ("one _ two",),
        "task": ("mistake", "direction"),
        "data": ("python-reference", "counting"),
        "mask_rate": (0.3, 0.5),
        "steps": (300, 3000),
    },
    "count": {"model": ("bloom", "opt"), "dtype": ("float32", "bfloat16")},
    "gates": {
        "length": (20,),
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
    "language_model": {
        "view": ("next", "compare"),
        "corpus": ("own",),
        "model": ("elman",),
        "temperature": (0.5,),
        "top_k": (5,),
        "top_p": (0.9,),
        "min_p": (0.1,),
    },
    "chat": {"stage": ("talk", "read"), "temperature": (1.0,)},
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
        "radius": (0.5,),
        "forget_bias": (3.0,),
        "trained_radius": (0.5,),
        "cell": ("gru",),
        "rate": (0.1,),
        "clip": (0.1,),
    },
    "vision": {
        "view": ("texts", "image"),
        "source": ("example", "draw"),
        "token": (6, 0),
        "data": ("own", "names"),
        "which": (2, 0),
    },
}


@pytest.mark.parametrize(("lab", "state"), WITHOUT_TRAINING)
def test_the_notebook_of_the_page_runs_elsewhere(
    lab, state, stub, models, tmp_path, monkeypatch, training
):
    (source,) = english(lab, state).code
    module = importlib.import_module(f"labs.{lab}")
    quick = getattr(module, "QUICK", {})
    quick = quick | (getattr(module, "QUICK_LATER", {}) if state else {})
    for old, new in quick.items():
        assert old in source or state  # other states have other code
        source = source.replace(old, new)
    notebook = nbformat.reads(code.notebook("A", "b", source).decode(), 4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert not re.search(r"""['"=]/\w""", source)  # no path of the server
    empty = tmp_path / "student"
    empty.mkdir()
    monkeypatch.chdir(empty)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for cell in cells:
            exec(compile(cell, lab, "exec"), names)
    assert printed.getvalue()


TRIES = [
    pytest.param(lab, n, id=f"{lab}-{n}")
    for lab in pages.LABS
    for n in range(len(views_of(lab)["tries"]))
]


def links_of_the_documentation():
    """The addresses of labs in the documentation, as lab and parameters."""
    pattern = re.compile(r"\]\(lab:([^)\s]*)\)")
    pages_ = (ROOT / "docs" / "pages").rglob("*.md")
    found = {m for page in pages_ for m in pattern.findall(page.read_text("utf-8"))}
    parts = [urllib.parse.urlsplit(address) for address in sorted(found)]
    return [(part.path, dict(urllib.parse.parse_qsl(part.query))) for part in parts]


LINKS = links_of_the_documentation()


def opened(lab, query):
    """Opens a page; each parameter sets a control, to this value or to its default."""
    page = pages.open_lab(lab, **query)
    for name, value in query.items():  # a default is not written into the address
        assert f"{lab}.{name}" in page.session_state, name
        assert pages.query(page).get(name) in (value, None), name
    return page


def link_of(page, query):
    """Whether a page has a link to try something, with these parameters at least."""
    links = [
        dict(urllib.parse.parse_qsl(link.proto.query_string))
        for link in page.main.get("page_link")
    ]
    return any(query.items() <= link.items() for link in links)


@pytest.mark.full("links that are built alike", cheap=False)
@pytest.mark.parametrize(("lab", "n"), TRIES)
def test_what_can_be_tried_sets_the_page(lab, n, stub, models):
    found = views_of(lab)["tries"][n]
    target, query = found if isinstance(found, tuple) else (lab, found)
    page = opened(target, query)
    if target == lab:
        assert link_of(page, query)


@pytest.mark.full("the address sets a page as any does", cheap=False)
@pytest.mark.parametrize(("lab", "query"), [link for link in LINKS if link[1]])
def test_links_of_the_documentation_set_the_page(lab, query, stub, models):
    opened(lab, query)


def test_links_of_the_documentation_name_labs_and_views():
    assert len(LINKS) > 20
    for lab, query in LINKS:
        found = views_of(lab)
        view = query.get(found["control"])
        assert view is None or view in found["views"], (lab, query)
    address = f"http://{app.HOST}:{app.PORT}"
    assert f"  app: {address}  #" in (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs" / "pages").rglob("*.md"):
        assert "localhost" not in page.read_text("utf-8"), page


def test_title_question_and_links_follow_the_view(stub, models):
    page = pages.open_lab("tokens", lang="fr", view="eliza")
    assert page.title[0].value == "Tokens · ELIZA : des règles, pas de nombres".replace(
        " :", "\N{NO-BREAK SPACE}:"
    )
    assert "sans rien comprendre" in page.markdown[0].value
    assert page.get("latex") == [] and "mot-clé" in page.info[0].value
    shown = [m.value for m in page.markdown if m.value.startswith(("1. ", "2. "))]
    assert len(shown) == 1 and "1966" in shown[0]
    assert link_of(page, {"view": "eliza", "lang": "fr"})
    pages.control(page, "view").set_value("ngrams").run()
    assert "n-grammes" in pages.checked(page).title[0].value
    assert not link_of(page, {"view": "eliza"}) and link_of(page, {"view": "ngrams"})


SMALL = {  # options of `kerasseq train`
    **{"--steps": "2", "--epochs": "1", "--units": "8", "--examples": "64"},
    **{"--test-examples": "10", "--held-out": "2000", "--vocabulary-size": "300"},
    **{"--ngram-characters": "2000", "--batch-size": "4"},
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folders of small runs, by their words."""
    return collections.defaultdict(lambda: tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def training(monkeypatch, trained):
    """A notebook trains in this process, few steps, and each model once."""

    def run(command, check):
        assert command[:4] == [sys.executable, "-m", "kerasseq", "train"] and check
        *words, option, folder = command[4:]
        assert option == "--run" and not pathlib.Path(folder).exists()
        for before, n in zip(words, range(1, len(words)), strict=False):
            words[n] = SMALL.get(before, words[n])
        more = ["--steps", "2", "--held-out", "0.02"] if words[0] == "classify" else []
        words += more
        kept = trained[tuple(words)]
        if not kept.exists():
            assert main(["train", *words, "--run", str(kept)]) == 0
        shutil.copytree(kept, folder)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("kerasseq.cli.figures.available", lambda: False)


def test_a_notebook_needs_no_file_of_the_server(tmp_path, monkeypatch):
    """An own file is looked for beside it; a run is trained once, or continued."""
    file = tmp_path / "0123.csv"
    run = code.Trained("own-1", ["classify", f"--file={file}", "--text", "a b"])
    source = code.fill("load({run}, {file})", run=run, file=file)
    assert str(tmp_path) not in source
    assert source.splitlines()[0].endswith("save them beside this as my_data.csv")
    ran, names = [], {"load": lambda *files: files}
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command))
    monkeypatch.chdir(tmp_path)
    exec(source, names)
    words = ["classify", "--file=my_data.csv", "--text", "a b"]
    (tmp_path / "own-1").mkdir()
    (tmp_path / "own-1" / "run.json").touch()
    exec(source, names)
    (tmp_path / "own-1" / "results.json").touch()
    exec(source, names)
    assert [command[4:] for command in ran] == [
        [*words, "--run", "own-1"],
        ["--resume", "own-1"],
    ]


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
