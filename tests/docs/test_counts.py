"""Numbers that a text counts are those of what it counts."""

import importlib
import re

import pytest

from kerasseq import layers
from tests.docs.site import PAGES, ROOT, documented

pytestmark = pytest.mark.once("the documentation")

WORDS = dict(seven=7, twelve=12, douze=12, thirteen=13, treize=13, fourteen=14)
WORDS |= dict(quatorze=14, fifteen=15, quinze=15, eight=8, nine=9, ten=10)
WORDS |= {"sixteen": 16, "seize": 16, "seventeen": 17, "dix-sept": 17}
WORDS |= {"eighteen": 18, "dix-huit": 18, "nineteen": 19, "dix-neuf": 19}


def models_of_the_app():
    """The number of models that `app --prepare` trains."""
    pytest.importorskip("streamlit")
    return len(importlib.import_module("parts.prepared").recipes())


def files(pattern):
    return len([path for path in ROOT.glob(pattern) if path.name != "__init__.py"])


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("howto/lecture.md", r"`0 of (\w+) models are ready", models_of_the_app),
        ("index.md", r"(\w+) labs in the browser", lambda: files("apps/labs/*.py")),
        ("../fr/index.md", r"([\w-]+) laboratoires", lambda: files("apps/labs/*.py")),
        ("../../../README.md", r"opens (\w+) labs", lambda: files("apps/labs/*.py")),
        ("index.md", r"(\w+) tutorials", lambda: files("docs/tutorials/*.py")),
        ("../fr/index.md", r"(\w+) tutoriels", lambda: files("docs/tutorials/*.py")),
        ("../../../CONTRIBUTING.md", r"plants (\w+) faults",
         lambda: files("tests/faults/*.patch")),
        ("howto/own_attention_score.md", r"has (\w+) scores",
         lambda: len(scores())),
        ("looking_inside.md", r"all (\w+) scores", lambda: len(scores())),
        ("app.md", r"the (\w+) scores", lambda: len(scores())),
    ],
)  # fmt: skip
def test_counts(path, text, count):
    found = re.findall(text, (PAGES / "en" / path).read_text(encoding="utf-8"))
    assert found
    for word in found:
        assert WORDS.get(word.lower()) == count() or word == str(count())


def scores():
    """The names of the scores of `AlignmentAttention`, as its error lists them."""
    with pytest.raises(ValueError) as error:
        layers.AlignmentAttention(2, score="none of them")
    return re.findall(r'"(\w+)"', str(error.value).partition("is not one of")[2])


def test_each_name_has_a_page_on_file_systems_that_ignore_the_case():
    from docs.hooks import reference

    pages = {}
    for topic in sorted((PAGES / "en" / "reference").glob("*.md")):
        made = reference.pages_of(topic.name, topic.read_text(encoding="utf-8"))
        assert all(path == path.lower() for path in made)
        pages |= made
    text = "\n".join(pages.values())
    assert sorted(re.findall(r"^::: (\S+)$", text, re.MULTILINE)) == sorted(
        documented()
    )
