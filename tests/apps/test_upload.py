"""Uploads: bounds, types, names that leave a folder, and binary content."""

import pytest
from streamlit.testing.v1 import AppTest

from parts import controls

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
