"""What is documented once, for the cell and all others, `help` shows for each layer."""

import inspect
import pathlib
import re

import pytest

from kerasseq import layers
from kerasseq.rnn.docstrings import completed, entries, sections

pytestmark = pytest.mark.once("docstrings")

LAYERS = ["ElmanRNN", "SimpleRNN", "GatedRNN", "LSTM", "GRU", "MinGRU", "MinLSTM"]
CELLS = ["ElmanCell", "GatedCell", "LSTMCell", "GRUCell", "MinGRUCell", "MinLSTMCell"]
HOOK = pathlib.Path(__file__).parents[2] / "docs" / "hooks" / "docstrings.py"


@pytest.mark.parametrize("name", LAYERS + CELLS)
def test_each_argument_is_documented_once_in_the_order_of_the_signature(name):
    cls = getattr(layers, name)
    found = re.findall(r"^    (\S+?): \S", sections(cls.__doc__)["Args"], re.MULTILINE)
    names = [*inspect.signature(cls).parameters]
    assert found == [*names[:-1], "**kwargs"] and names[-1] == "kwargs"


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_shows_one_equation_its_own_or_that_of_its_cell(name):
    cls = getattr(layers, name)
    parts = re.findall(r"\$\$.+?\$\$", cls.__doc__, re.DOTALL)
    assert len(parts) == 1
    assert (parts[0] in cls.Cell.__doc__) == (name != "SimpleRNN")
    assert (
        sections(cls.__doc__)["References"] == sections(cls.Cell.__doc__)["References"]
    )


def test_the_nearest_entry_is_shown():
    """Those of the class, of its base classes, and of its cell, in this order."""

    def docstring(words):
        return "A.\n\nArgs:\n" + "".join(f"    {n}: {w}\n" for n, w in words.items())

    whole = completed(
        docstring({"a": "own"}),
        "abcd",
        [docstring({"a": "near", "b": "near"}), docstring({"b": "far", "c": "far"})],
        docstring({"c": "cell", "d": "cell"}),
    )
    found = entries(sections(whole)["Args"])
    assert [found[n].split()[1] for n in "abcd"] == ["own", "near", "far", "cell"]


def test_docstrings_of_a_subclass_are_its_own():
    class Mine(layers.LSTM):
        """Mine."""

    assert Mine.__doc__ == "Mine."


def test_the_site_shows_what_help_shows():
    griffe = pytest.importorskip("griffe", reason="the site needs the extra docs")
    package = griffe.load(
        "kerasseq.rnn",
        search_paths=[HOOK.parents[2]],
        extensions=griffe.load_extensions(HOOK),
    )
    for name in LAYERS + CELLS:
        cls = getattr(layers, name)
        shown = package[f"{cls.__module__.rpartition('.')[2]}.{name}"].docstring.value
        assert shown == cls.__doc__
