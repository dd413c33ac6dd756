"""The state of a lab and its address: links, the menu, Back and reload."""

import pytest

from parts import address
from tests.apps import pages

pytestmark = pytest.mark.once("state of pages")


def test_a_control_goes_into_the_address_and_comes_back_on_reload():
    page = pages.open_lab("tokens")
    assert pages.query(page) == {}
    pages.control(page, "merges").set_value(7).run()
    assert pages.query(page) == {"merges": "7"}
    again = pages.open_lab("tokens", **pages.query(page))
    assert pages.control(again, "merges").value == 7


def test_a_default_is_not_in_the_address():
    page = pages.open_lab("tokens", merges="7", view="merges")
    assert pages.query(page) == {"merges": "7"}
    pages.control(page, "merges").set_value(0).run()
    assert pages.query(page) == {}


def test_the_menu_keeps_the_state_of_each_lab():
    page = pages.open_lab("tokens", merges="7")
    pages.go(page, "count")
    assert pages.query(page) == {}
    pages.control(page, "model").set_value("bloom").run()
    pages.go(page, "tokens")
    assert pages.query(page) == {"merges": "7"}
    assert pages.control(page, "merges").value == 7
    pages.go(page, "count")
    assert pages.query(page) == {"model": "bloom"}


def test_a_link_has_the_state_and_the_language_of_its_lab():
    # Otherwise the page would add a second address to the history, and Back would
    # have to be pressed twice.
    page = pages.open_lab("tokens", merges="7", lang="fr")
    pages.follow(page, "count")
    pages.control(page, "model").set_value("bloom").run()
    pages.follow(page, "tokens")
    assert dict(page.query_params) == {"merges": "7", "lang": "fr", "projector": "0"}
    pages.control(page, "text").set_value("to be or not " * 140).run()
    pages.control(page, "merges").set_value(3).run()
    before = dict(page.query_params)
    assert before["merges"] == "3"
    pages.follow(page, "count")
    assert pages.control(page, "model").value == "bloom"
    pages.follow(page, "tokens")  # its text is too long for an address
    assert len(pages.control(page, "text").value) > 1500
    assert dict(page.query_params) == before


def test_back_wins_over_the_controls():
    page = pages.open_lab("tokens")
    pages.control(page, "merges").set_value(3).run()
    pages.control(page, "merges").set_value(5).run()
    page.query_params["merges"] = "3"  # what the browser sends after Back
    page.run()
    assert pages.control(page, "merges").value == 3
    del page.query_params["merges"]
    page.run()
    assert pages.control(page, "merges").value == 0


def test_a_moved_control_wins_over_an_older_address():
    page = pages.open_lab("tokens")
    pages.control(page, "merges").set_value(3).run()
    # A second click before the browser has the new address.
    del page.query_params["merges"]
    pages.control(page, "merges").set_value(5).run()
    assert pages.control(page, "merges").value == 5
    assert pages.query(page) == {"merges": "5"}


def test_a_control_that_is_moved_before_the_page_is_complete_keeps_its_value(
    monkeypatch,
):
    with monkeypatch.context() as unfinished:
        unfinished.setattr(address.Address, "publish", lambda self: None)
        page = pages.open_lab("tokens", merges="7")
    pages.control(page, "merges").set_value(5).run()
    assert pages.control(page, "merges").value == 5
    assert pages.query(page) == {"merges": "5"}
    page.query_params["merges"] = "7"  # the link again
    page.run()
    assert pages.control(page, "merges").value == 7


@pytest.mark.parametrize("value", ["-1", "x", "", "1e9", "9" * 400, "nan", "3.5"])
def test_an_invalid_value_is_the_default(value):
    page = pages.open_lab("count", batch=value)
    assert pages.control(page, "batch").value == 1
    assert pages.query(page) == {}


def test_unknown_names_and_options_are_dropped():
    page = pages.open_lab("count", model="gpt99", nonsense="1", dtype="float32")
    assert pages.control(page, "model").value == "gpt3"
    assert pages.query(page) == {"dtype": "float32"}


def test_language_and_size_stay_on_every_page():
    page = pages.open_lab("count", lang="fr", projector="1")
    assert page.title[0].value == "Compter"
    pages.go(page, "tokens")
    assert page.query_params["lang"] == "fr"
    assert page.query_params["projector"] == "1"
    page.session_state["app.lang"] = "en"
    page.run()
    assert page.query_params["lang"] == "en"
    page.query_params["lang"] = "fr"  # Back
    page.run()
    assert page.session_state["app.lang"] == "fr"


def test_a_view_keeps_the_controls_that_the_other_does_not_have():
    page = pages.open_lab("race", units="8", lengths="20~30", cells="gru")
    pages.control(page, "view").set_value("forecast").run()
    assert pages.query(page) == {"view": "forecast", "cells": "gru"}
    pages.control(page, "horizon").set_value(3).run()
    pages.go(page, "count")
    pages.go(page, "race")
    pages.control(page, "view").set_value("race").run()
    expected = {"units": "8", "lengths": "20~30", "cells": "gru"}
    assert pages.query(page) == expected
    assert pages.control(page, "units").value == 8
    pages.control(page, "units").set_value(32).run()  # the default
    pages.control(page, "view").set_value("forecast").run()
    assert pages.control(page, "horizon").value == 3
    pages.control(page, "view").set_value("race").run()
    assert pages.query(page) == {"lengths": "20~30", "cells": "gru"}


def test_a_listed_number_is_read_however_it_is_written():
    page = pages.open_lab("race", view="forecast", series="drawn", amplitude="4")
    assert pages.control(page, "amplitude").value == 4.0
    assert pages.query(page)["amplitude"] == "4.0"
    for value in ("4.2", "nan", "x", "-1"):
        page = pages.open_lab("race", view="forecast", series="drawn", noise=value)
        assert pages.control(page, "noise").value == 0.5


def test_a_long_text_stays_in_the_session():
    page = pages.open_lab("tokens")
    text = "to be or not " * 140
    pages.control(page, "text").set_value(text).run()
    assert pages.query(page) == {}
    pages.go(page, "count")
    pages.go(page, "tokens")
    assert pages.control(page, "text").value == text


def test_the_key_of_the_browser_is_in_no_address():
    page = pages.open_lab("race", browser="ab" * 16)
    assert "ab" * 8 not in str(dict(page.query_params))
