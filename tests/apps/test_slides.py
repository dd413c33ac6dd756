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
