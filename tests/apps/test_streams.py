"""Texts that are generated while the page shows them: write, stop, continue."""

import itertools

import pytest
from streamlit.testing.v1 import AppTest

from parts import streams

pytestmark = pytest.mark.once("a page without a lab")


def numbers(count, first):
    """Yields the text of `count` numbers."""
    for number in itertools.islice(itertools.count(first), count):
        yield f"{number},"


def script():
    """A page with a text of 14 pieces."""
    import streamlit as st

    from parts import streams
    from parts.address import Address
    from parts.controls import Controls
    from parts.style import Style
    from tests.apps.test_streams import numbers

    class Page(Controls):
        def __init__(self):
            self.texts, self.address = self, Address("page")
            self.name, self.style = "page", Style()

        def text(self, key, **values):
            return key

        def has(self, key):
            return False

    first = st.session_state.get("first", 1)
    streams.draw(Page(), "<b>", numbers, 14, first)


def shown(page):
    """What the page shows after the text that was given."""
    (found,) = [html.value for html in page.get("html")]
    given, _, text = found.rpartition("<span")
    assert "&lt;b&gt;</span>" in given
    return text.partition(">")[2].removesuffix("</span></div>")


def press(page, name):
    next(button for button in page.button if button.label == name).click().run()
    assert [e.message for e in page.exception] == []
    return shown(page)


def labels(page):
    return [button.label for button in page.button]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setattr(streams, "MOST", 5)
    monkeypatch.setattr(streams, "FEWEST", 5)
    return AppTest.from_function(script, default_timeout=60).run()


def test_a_text_stops_continues_and_ends(page):
    assert (shown(page), labels(page)) == ("", ["write"])
    assert press(page, "write") == "1,2,3,4,5,"
    assert labels(page) == ["write", "stop"]
    assert shown(page.run()) == "1,2,3,4,5,6,7,8,9,10,"
    assert press(page, "stop") == "1,2,3,4,5,6,7,8,9,10,"
    assert labels(page) == ["write", "go_on"]
    assert shown(page.run()) == "1,2,3,4,5,6,7,8,9,10,"
    whole = "".join(numbers(14, 1))
    assert press(page, "go_on") == whole
    assert labels(page.run()) == ["write"]
    assert shown(page) == whole
    assert press(page, "write") == "1,2,3,4,5,"  # from the beginning


def test_another_text_begins_with_a_click(page):
    press(page, "write")
    page.session_state["first"] = 7
    assert (shown(page.run()), labels(page)) == ("", ["write"])
    assert press(page, "write") == "7,8,9,10,11,"


def test_the_speed_does_not_depend_on_that_of_the_page(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(streams.time, "monotonic", lambda: now[0])
    stream = streams.Stream(iter, "a" * 500)
    for later, length in ((0, 4), (0.5, 34), (0.25, 49), (99, 109)):
        now[0] += later
        stream.advance()
        assert len(stream.text) == length
    stream.running = False
    now[0] += 60
    stream.go_on()
    stream.advance()
    assert len(stream.text) == 113
