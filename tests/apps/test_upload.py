"""Uploads: bounds, types, names that leave a folder, and binary content."""

import json
import os

import pytest
from streamlit.testing.v1 import AppTest

from parts import browser, controls, uploads
from parts.errors import Refused

pytestmark = pytest.mark.once("a page without a lab")


def script():
    """A page with one upload."""
    import streamlit as st

    from parts.address import Address
    from parts.controls import Controls
    from parts.errors import Refused

    class Page(Controls):
        def __init__(self):
            self.texts, self.address = self, Address("page")

        def text(self, key, **values):
            return key

        def has(self, key):
            return False

    try:
        st.write(f"read: {Page().upload_text('file', most=100)}")
    except Refused as error:
        st.write(f"refused: {error.key} {error.values['name']}")


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("a.txt", b"to be", "read: to be"),
        ("a.TXT", "\ufeffé🙂".encode(), "read: é🙂"),
        ("a.txt", b"x" * 101, "refused: too_large a.txt"),
        ("a.txt", b"", "refused: empty_file a.txt"),
        ("a.txt", b"\xff\xfe\x00", "refused: not_text a.txt"),
        ("a.txt", b"a\x00b", "refused: not_text a.txt"),
        ("../../b.txt", b"to be", "read: to be"),
        ("..\\..\\b.txt", b"", "refused: empty_file b.txt"),
    ],
)
def test_uploads(name, content, shown):
    page = AppTest.from_function(script, default_timeout=60).run()
    page.file_uploader[0].upload(name, content, "text/plain").run()
    assert [e.message for e in page.exception] == []
    assert page.markdown[0].value == shown


def test_nothing_uploaded():
    page = AppTest.from_function(script, default_timeout=60).run()
    assert page.markdown[0].value == "read: None"
    assert controls.SEPARATOR not in page.query_params


@pytest.fixture
def browsers(monkeypatch, folder):
    """Names the browser that uploads; returns the folder of uploads."""
    current = {"name": "a"}
    monkeypatch.setattr(browser, "owner", lambda: current["name"])
    return current, folder / "uploads"


def files(place):
    return sorted(file.read_bytes() for file in place.rglob("*") if file.is_file())


def use(folder, file, owner="a"):
    """A record of a run that names a file."""
    record = folder / "runs" / owner / "vision-1.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"words": [f"--file={file}"]}))
    return record


def test_uploads_that_no_run_uses_are_replaced(folder, browsers):
    _, place = browsers
    for n in range(3):
        kept = uploads.keep(bytes([n]) * 100, "csv")
    assert files(place) == [b"\2" * 100]
    record = use(folder, kept)
    uploads.keep(b"of another page", "txt")
    assert len(files(place)) == 2
    for file in place.rglob("*.*"):
        os.utime(file, (0, 0))
    uploads.sweep()
    assert files(place) == [b"\2" * 100]
    record.unlink()
    uploads.sweep()
    assert files(place) == []


def test_uploads_have_a_quota_of_a_browser_and_of_all(folder, browsers, monkeypatch):
    current, place = browsers
    monkeypatch.setattr(uploads, "QUOTA", 150)
    monkeypatch.setattr(uploads, "ALL", 250)
    use(folder, uploads.keep(b"a" * 100, "csv"))
    assert uploads.keep(b"a" * 100, "csv").exists()  # it is there already
    with pytest.raises(Refused, match="uploads_full"):
        uploads.keep(b"b" * 51, "csv")
    current["name"] = "b"
    use(folder, uploads.keep(b"c" * 100, "csv"), "b")
    current["name"] = "c"
    with pytest.raises(Refused, match="uploads_full"):
        uploads.keep(b"d" * 51, "csv")
    uploads.keep(b"d" * 50, "csv")
    assert len(files(place)) == 3
