"""The code box and its notebook."""

import nbformat
import pytest

from parts import code

pytestmark = pytest.mark.once("text")


def test_values_are_written_as_python():
    template = """
    text = {text}
    f = f"{text!r}"
    d = {{}}
    """
    filled = code.fill(template, text='a "b"\n{size}', size=3)
    assert filled.splitlines()[0] == r"""text = 'a "b"\n{size}'"""
    assert 'f = f"{text!r}"' in filled


def test_a_notebook_is_valid_and_has_the_code():
    source = "import a\n\n\ndef f():\n\n    return 1\n\nprint(f())\n"
    book = nbformat.reads(code.notebook("Title", "Question?", source).decode(), 4)
    nbformat.validate(book)
    assert [cell.source for cell in book.cells] == [
        "# Title\n\nQuestion?",
        "import a",
        "def f():\n\n    return 1",
        "print(f())",
    ]
