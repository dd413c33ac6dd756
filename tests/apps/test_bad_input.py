"""What users type by mistake: one sentence on the page, and the page goes on."""

import pytest

from parts import errors
from tests.apps import pages
from tests.processes import run_python

pytestmark = pytest.mark.once("pages and texts")

TEXTS = {
    "empty": "",
    "space": " ",
    "one": "a",
    "emoji": "🙂👩‍👩‍👧 🏳️‍🌈" * 3,
    "right to left": "שלום עולם مرحبا",
    "markup": "<script>alert(1)</script> **b** $x$ [a](b) `c` {d} :red[x]",
    "control": "a\x00b\x1b[31mc\u202e\ufeff",
    "long": "to be " * 200_000,
}
BOXES = [
    ("tokens", {}, "text"),
    ("tokens", {"view": "compare"}, "sentence"),
    ("tokens", {"view": "eliza"}, "said"),
]


OTHER = pytest.mark.full("the same box on another page", cheap=False)
PAGES = [
    pytest.param(*box, id=box[1].get("view", "merges"), marks=[OTHER] if n else [])
    for n, box in enumerate(BOXES)
]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(("lab", "state", "name"), PAGES)
def test_any_text(lab, state, name, text):
    page = pages.open_lab(lab, **state)
    pages.control(page, name).set_value(text).run()
    assert [e.message for e in page.exception] == []
    assert all("wrong here" not in error.value for error in page.error)
    assert page.subheader[0].value == "Try this"
    pages.control(page, name).set_value("abab cdcd").run()
    pages.checked(page)


@pytest.mark.parametrize(
    ("error", "key"),
    [
        (OSError(28, "No space left on device", "/x"), "error_disk"),
        (MemoryError(), "error_memory"),
        (ModuleNotFoundError("No module named 'jax'"), "error_backend"),
        (ValueError("a\nb " + "c" * 9999), "error_input"),
        (RuntimeError("bug"), "error_other"),
        (errors.Refused("too_short", most=3), "too_short"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_are_one_sentence(error, key):
    found = errors.sentence(error, lambda name, **values: f"{name} {values}")
    assert found.startswith(f"{key} ")
    assert "\n" not in found
    assert len(found) < 500


def test_the_first_page_loads_no_backend(tmp_path):
    code = """
import sys
from streamlit.testing.v1 import AppTest
page = AppTest.from_file(sys.argv[1], default_timeout=60).run()
assert not page.exception, page.exception[0].message
loaded = {"keras", "torch", "jax", "tensorflow", "matplotlib"} & {*sys.modules}
assert not loaded, loaded
"""
    run_python(code, pages.SCRIPT, KERASSEQ_APP_RUNS=str(tmp_path))
