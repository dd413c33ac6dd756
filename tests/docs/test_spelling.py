"""The check of the spelling finds planted errors."""

import pytest

from docs import spelling
from docs.spelling.prose import of_page

pytestmark = pytest.mark.once("the documentation")

needs_hunspell = pytest.mark.skipif(
    not spelling.available(),
    reason="hunspell is missing: apt-get install hunspell hunspell-en-us hunspell-fr",
)


@needs_hunspell
@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "A netwrok with a hidden state.", ["netwrok"]),
        ("fr", "Un réseau réccurent et l’état caché.", ["réccurent"]),
        ("fr", "Un reseau.", ["reseau"]),
        (
            spelling.EITHER,
            "Bengio, *Long-term dependancies*, réseau.",
            ["dependancies"],
        ),
        ("en", "The LSTM of `netwrok` and $netwrok$ in Keras.", []),
    ],
)
def test_planted_errors(language, text, words):
    page = [(language, "page.md", of_page(text))]
    assert spelling.problems(page) == ({"page.md": words} if words else {})


@needs_hunspell
def test_pages_and_docstrings():
    assert spelling.problems() == {}


def test_words_are_sorted_and_unique():
    words = spelling.WORDS.read_text(encoding="utf-8").split()
    assert words == sorted(set(words), key=lambda word: (word.casefold(), word))
