"""The texts in two languages: complete, used, and set as in print."""

import ast
import re
import runpy
import string

import pytest

from parts import prepared, texts
from tests.apps.pages import LABS
from tests.processes import ROOT

pytestmark = pytest.mark.once("reads texts and sources")

APPS = ROOT / "apps"
CATALOGUES = ("common", *LABS)
FRAME = re.compile(
    r"title|(question|look)(_[a-z]+)?|(try|answer)_\d+"
)  # what `lab.show` draws
METHODS = {  # of a lab, whose first argument is a key
    "text",
    "say",
    "picture",
    "strip",
    "details",
    "choice",
    "several",
    "slider",
    "interval",
    "stepper",
    "steps",
    "number",
    "switch",
    "line",
    "passage",
    "button",
}
SAME = {"backend", "token", "LSTM", "GRU"}  # may be equal in both languages


def placeholders(line):
    return sorted(name for _, name, _, _ in string.Formatter().parse(line) if name)


def sources(lab):
    """The sources in which the texts of a catalogue are used."""
    parts = [*(APPS / "parts").glob("*.py"), APPS / "kerasseq_app.py"]
    if lab == "common":
        return [*parts, *(APPS / "labs").glob("*.py")]
    return [*(APPS / "labs").rglob(f"{lab}.py"), *parts]


def strings_in(paths):
    """The constant strings, and the beginnings of formatted ones."""
    constants, beginnings = set(), set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                constants.add(node.value)
            if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
                first = node.values[0]
                if isinstance(first, ast.Constant):
                    beginnings.add(first.value)
    return constants, {b for b in beginnings if b.endswith("_")}


def is_used(key, constants, beginnings):
    stems = {key, key.removesuffix("_help"), key.removesuffix("_about")}
    # The option `lstm` of the choice `cell` is `cell_lstm`.
    option = any(
        key[:n] in constants and key[n + 1 :] in constants
        for n, letter in enumerate(key)
        if letter == "_"
    )
    return (
        bool(FRAME.fullmatch(key))
        or bool(stems & constants)
        or option
        or any(key.startswith(b) for b in beginnings)
    )


@pytest.mark.parametrize("lab", CATALOGUES)
def test_both_languages_have_the_same_keys_and_placeholders(lab):
    english, french = (texts.catalogue(language, lab) for language in ("en", "fr"))
    assert list(english) == list(french)
    for key in english:
        if "{" in english[key] and "}" in english[key]:
            assert placeholders(english[key]) == placeholders(french[key]), key


@pytest.mark.parametrize("lab", CATALOGUES)
def test_every_text_is_used(lab):
    found = strings_in(sources(lab))
    assert [k for k in texts.catalogue("en", lab) if not is_used(k, *found)] == []


@pytest.mark.parametrize("lab", LABS)
def test_every_text_that_a_lab_names_exists(lab):
    known = {*texts.catalogue("en", lab), *texts.catalogue("en", "common")}
    tree = ast.parse((APPS / "labs" / f"{lab}.py").read_text("utf-8"))
    named = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "here"
        and node.func.attr in METHODS
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert named <= known


def views_of(lab):
    """The views of a lab, and how it sets the page for what can be tried."""
    found = {}

    def show(name, body, *, views=(), control="view", tries=(), **options):
        found.update(views=views, control=control, tries=tries)

    with pytest.MonkeyPatch.context() as changes:
        changes.setattr("parts.lab.show", show)
        runpy.run_path(str(APPS / "labs" / f"{lab}.py"), run_name="__main__")
    return found


@pytest.mark.parametrize("lab", LABS)
def test_each_view_has_a_question_a_hint_and_something_to_try(lab):
    keys, shown = set(texts.catalogue("en", lab)), views_of(lab)
    views, tries = shown["views"], shown["tries"]
    assert {"title", "question", "look"} <= keys
    own = {f"{key}_{view}" for view in views[1:] for key in ("question", "look")}
    assert {k for k in keys if k.startswith(("question_", "look_"))} == own
    for key in ("try", "answer"):
        assert {k for k in keys if k.startswith(f"{key}_")} == {
            f"{key}_{n}" for n in range(1, len(tries) + 1)
        }
    of_views = [t.get(shown["control"], views[0]) for t in tries if views]
    assert set(of_views) == set(views)


def test_stored_pictures_are_of_views_and_in_both_languages():
    for language, other in (("en", "fr"), ("fr", "en")):
        for file in (prepared.PICTURES / language).glob("*"):
            assert (prepared.PICTURES / other / file.name).exists(), file
            assert file.stat().st_size < 60_000, file
            views = [f"{lab}_{v}" for lab in LABS for v in views_of(lab)["views"]]
            assert file.stem in views


def test_a_missing_text_is_an_error():
    with pytest.raises(KeyError, match="no text 'nothing'"):
        texts.text("common", "nothing", "en")


@pytest.mark.parametrize("lab", CATALOGUES)
def test_french_typography(lab):
    for key, line in texts.catalogue("fr", lab).items():
        assert not re.search(r" [;?!%»]|« ", line), key
        assert not re.search(r"\w[;?!»]", line), key  # a space is missing
        assert "'" not in line or key.endswith("_default"), key  # ’ in print
        assert "..." not in line, key


@pytest.mark.parametrize("lab", CATALOGUES)
def test_sentences_are_translated(lab):
    english, french = (texts.catalogue(language, lab) for language in ("en", "fr"))
    same = [k for k in english if english[k] == french[k] and " " in english[k]]
    assert [k for k in same if len(english[k].split()) > 3] == []


def test_numbers():
    thin = texts.THIN
    assert texts.number(1234567, "en") == "1,234,567"
    assert texts.number(1234567, "fr") == f"1{thin}234{thin}567"
    assert texts.number(0.5, "fr") == "0,5"
    assert texts.number(0.5, "en", 3) == "0.500"
    assert texts.short(1.078e12, "fr") == f"1,08{thin}T"
