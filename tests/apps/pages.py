"""Opens pages of the app without a browser."""

import urllib.parse

from streamlit.testing.v1 import AppTest

import labs
from tests.processes import ROOT

SCRIPT = ROOT / "apps" / "kerasseq_app.py"
LABS = [n for n in labs.COURSE if (ROOT / "apps" / "labs" / f"{n}.py").exists()]
TIMEOUT = 120
KINDS = (
    "selectbox",
    "multiselect",
    "slider",
    "select_slider",
    "number_input",
    "toggle",
)
KINDS += ("text_input", "text_area", "segmented_control", "button_group")


def open_lab(lab="start", browser="0" * 32, **address):
    """Opens a lab at an address, as a browser with this key."""
    page = AppTest.from_file(SCRIPT, default_timeout=TIMEOUT)
    page.session_state["browser.key"] = browser
    page.query_params.update(address)
    if lab != LABS[0]:
        page.switch_page(f"labs/{lab}.py")
    return checked(page.run())


def go(page, lab):
    """Changes the page by the menu, which drops the query parameters."""
    page.query_params.clear()
    page.switch_page(f"labs/{lab}.py").run()
    return checked(page)


def follow(page, lab):
    """Changes the page by a click on its link in the menu, with the link's address."""
    (link,) = [
        found.proto.query_string
        for found in page.sidebar.get("page_link")
        if found.proto.page == lab
    ]
    address = dict(urllib.parse.parse_qsl(link))
    page.query_params.clear()
    page.query_params.update(address)
    page.switch_page(f"labs/{lab}.py").run()
    assert dict(page.query_params) == address  # no second entry in the history
    return checked(page)


def checked(page):
    """Returns the page; an exception or an error on it fails the test."""
    assert [e.message for e in page.exception] == []
    assert [e.value for e in page.error] == []
    return page


def query(page):
    """Returns the query parameters of the lab, without those that all pages have."""
    return {
        k: v for k, v in page.query_params.items() if k not in ("lang", "projector")
    }


def control(page, name):
    """Returns the control of a lab by its name."""
    for kind in KINDS:
        for found in getattr(page, kind, ()):
            if found.key and found.key.endswith(f".{name}"):
                return found
    raise KeyError(name)
