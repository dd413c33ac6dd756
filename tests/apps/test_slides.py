"""The worked examples of the slides in the labs, and a deck of one's own."""

import itertools

import pytest

from kerasseq import datasets
from parts import slides
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]
BY_LAB = {
    lab: [*found]
    for lab, found in itertools.groupby(
        sorted(datasets.slides(), key=lambda example: example.lab),
        key=lambda example: example.lab,
    )
}
OTHER = pytest.mark.full("an example more of a lab that is tested", cheap=False)
CASES = [
    pytest.param(example, id=example.id, marks=OTHER if n else ())
    for examples in BY_LAB.values()
    for n, example in enumerate(examples)
]


@pytest.mark.parametrize("example", CASES)
def test_an_address_opens_the_example(example, stub):
    page = pages.open_lab(example.lab, example=example.id)
    query = pages.query(page)
    assert query["example"] == example.id
    for name, value in example.state.items():  # defaults are not in the address
        shown = str(page.session_state[f"{example.lab}.{name}"])
        assert query.get(name, shown) == value
    assert any(f"**{example.title}** · " in m.value for m in page.markdown)
    assert {*example.sentences} <= {t.value for t in page.text}
    if example.numbers:
        assert len(page.table[0].value) == len(example.numbers)
    assert not page.warning


def test_a_moved_control_keeps_the_example_and_leaves_its_state(stub):
    page = pages.open_lab("tokens", example="E:1038")
    pages.checked(page.run())  # the address that the page has written
    page.session_state["tokens.merges"] = 0  # the default, which no address has
    pages.checked(page.run())
    assert pages.query(pages.checked(page.run())) == {"example": "E:1038"}
    assert page.session_state["tokens.merges"] == 0


def test_an_example_of_another_lab_is_ignored(stub):
    page = pages.open_lab("count", example="E:575")
    assert pages.query(page) == {}


def test_numbers_in_both_languages(stub):
    texts = {}
    for language in ("en", "fr"):
        page = pages.open_lab("attention", example="E:575", lang=language)
        texts[language] = page.table[0].value.values.tolist()
        links = [link.proto.label for link in page.get("page_link")]
        assert sum(label.startswith("E:575 · ") for label in links) == 1
    (_, stated, given), (_, _, computed) = texts["en"]
    assert (stated, given) == ("0.42  0.58", "from the slide")
    assert computed.split() == ["0", "0.401", "0.599", "0"]
    assert texts["fr"][1][2].split() == ["0", "0,401", "0,599", "0"]


DECK = """
[[examples]]
id = "mine"
title = "Two scores"
kind = "scores"
lab = "attention"
state = {view = "slide", preset = "creature", table_creature = "1\\n2"}
recipe = "softmax"
[[examples.numbers]]
name = "w"
value = [[0.27], [0.73]]
mark = "computed"
result = "weights"
[examples.inputs]
scores = [[1], [2]]
"""


def test_a_deck_of_ones_own(stub, folder, monkeypatch):
    file = folder / "deck.toml"
    file.write_text(DECK, encoding="utf-8")
    monkeypatch.setenv(slides.OPTION, str(file))
    page = pages.open_lab("attention", example="mine")
    assert page.session_state["attention.table_creature"] == "1\n2"
    assert "**Two scores** · mine" in [m.value for m in page.markdown]
    assert page.table[0].value.values.tolist() == [
        ["w", "0.27  \n0.73", "0.269  \n0.731"]
    ]
    assert "E:575" in slides.of_lab("attention")


COUNT = """
[[examples]]
id = "mine"
title = "A count"
kind = "counts"
lab = "count"
state = {model = "gpt33", modell = "gpt3", batch = "1"}
recipe = "count"
inputs = {model = "mamba_130m"}
numbers = [{name = "n", value = 1, mark = "computed", result = "all"}]
"""


def opened(folder, monkeypatch, text):
    """The page of the lab Count, with an example of a deck."""
    file = folder / "deck.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv(slides.OPTION, str(file))
    page = pages.AppTest.from_file(pages.SCRIPT, default_timeout=pages.TIMEOUT)
    page.session_state["browser.key"] = "0" * 32
    page.query_params.update({"example": "mine"})
    return page.switch_page("labs/count.py").run()


def test_a_result_that_an_example_does_not_have_is_a_sentence(
    stub, folder, monkeypatch
):
    page = opened(folder, monkeypatch, COUNT.replace('"all"', '"up"'))
    (error,) = page.error
    assert "no result up" in error.value and "total" in error.value


def test_settings_that_a_lab_does_not_take_are_named(stub, folder, monkeypatch):
    page = pages.checked(opened(folder, monkeypatch, COUNT))
    for _ in range(2):  # also when the page is drawn again
        refused, unknown = [w.value for w in page.warning]
        assert "sets model to gpt33" in refused
        assert "control modell" in unknown and "batch, " in unknown
        pages.checked(page.run())
    pages.go(page, "tokens")
    assert not page.warning


def test_controls_that_are_drawn_later_are_set_too(stub):
    """As those of a page whose model is trained first."""
    page = pages.open_lab("attention", view="slide", text="two words or three")
    assert "attention.text" not in page.session_state
    page.session_state["attention.view"] = "heads"
    pages.checked(page.run())
    assert page.session_state["attention.text"] == "two words or three"
