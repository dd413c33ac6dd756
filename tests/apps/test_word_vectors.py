"""Word vectors in the lab Tokens: nearest words, analogies, and the plural."""

import numpy as np
import pytest

from parts import word_vectors
from parts.errors import Refused
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]


@pytest.fixture
def folder(models):
    """Returns the folder of the vectors."""
    return models(word_vectors.RECIPE)


def test_words_are_those_of_the_model(folder):
    import kerasseq

    model = kerasseq.load_model(folder / "model.keras")
    word, rows = word_vectors.nearest(folder, " King ")
    assert word == "king" and "king" not in [row["word"] for row in rows]
    assert [row["similarity"] for row in rows] == pytest.approx(
        [model.similarity("king", row["word"]) for row in rows], abs=1e-6
    )
    found = word_vectors.analogy(folder, "man", "woman", "king")
    assert found["answers"][0]["word"] == "queen"
    beside = [row["word"] for row in found["beside"]]
    assert beside == [
        n.word for n in model.nearest("king", 5, exclude=["man", "woman"])
    ]


@pytest.mark.parametrize(
    ("word", "key", "near"),
    [
        ("kingg", "new_word", "king"),
        ("\N{SLIGHTLY SMILING FACE}", "new_word", ""),
        (" ", "no_word", ""),
    ],
    ids=["misspelt", "strange", "empty"],
)
def test_an_unknown_word_is_refused_with_similar_ones(folder, word, key, near):
    with pytest.raises(Refused) as error:
        word_vectors.nearest(folder, word)
    assert error.value.key == key
    assert near in error.value.values.get("near", "")


def test_the_direction_of_the_plural_comes_from_other_pairs(folder):
    known = word_vectors.pairs(folder)
    assert len(known) == 28
    assert {*word_vectors.DRAWN} <= dict(known).keys()
    shown, others = known[:5], known[5:]
    found = word_vectors.plural(folder, shown, others)
    along = found["along"].reshape(5, 2)
    assert (along[:, 1] > along[:, 0]).all()
    assert found["points"].shape == (10, 2)
    changed = word_vectors.plural(folder, shown, others[:1])
    np.testing.assert_array_equal(changed["points"], found["points"])
    assert not np.allclose(changed["along"], found["along"])


def test_an_unknown_word_on_the_page(models):
    page = pages.open_lab("tokens", view="vectors")
    pages.control(page, "word").set_value("mousse").run()
    (error,) = page.error
    assert "“mousse”" in error.value and "mouse" in error.value
    assert not page.exception and page.subheader[0].value == "Try this"
