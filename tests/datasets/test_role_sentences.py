"""Texts labeled by their grammar: each label is what the words say."""

import pytest

from kerasseq import datasets

pytestmark = pytest.mark.once("loads no Keras")


def test_labels_are_those_of_the_words():
    texts = datasets.role_sentences(200, seed=2)
    verb_of, words = {}, []
    for text, _, _ in texts:
        words = text.split()
        verb_of[words[-3]] = words[-2]
    assert len(verb_of) == 16
    assert len({*verb_of.values()}) == 8
    for text, edges, targets in texts:
        words = text.split()
        assert {*edges} == {*targets}
        for (q, k), t in zip(
            edges["pronoun to noun"], targets["pronoun to noun"], strict=True
        ):
            assert words[q] in ("he", "she")
            assert (words[q + 1], t) == (verb_of[words[k]], q + 1)
            # The adverb is that of the noun; the noun is of the pronoun's gender.
            assert words[q + 2] == f"{words[k - 1]}ly"
        assert len({words[q] for q, _ in edges["pronoun to noun"]}) == 2
        [(q, k)] = edges["induction"]
        assert (words[q], words[q + 1]) == (words[k - 1], words[k])
        assert targets["induction"] == targets["previous token"] == [q + 1]
        assert all(words[q] == words[k] and k < q for q, k in edges["same token"])
        assert targets["same token"] == [q + 2]
        assert all(words[t].endswith("ly") for t in targets["adjective to noun"])
        assert all(q - k == 1 for q, k in edges["adjective to noun"])
        assert len(edges["previous token"]) == len(words) - 1


def test_seeds_and_messages():
    assert datasets.role_sentences(5) == datasets.role_sentences(5)
    assert datasets.role_sentences(5) != datasets.role_sentences(5, seed=1)
    with pytest.raises(ValueError, match="count must be"):
        datasets.role_sentences(-1)
    with pytest.raises(TypeError, match="`seed` must be"):
        datasets.role_sentences(1, seed=0.5)
