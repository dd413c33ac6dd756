"""Sentences with homonyms: what training lacks, and minimal pairs."""

import numpy as np
import pytest

from kerasseq import datasets
from kerasseq.datasets.homonym_sentences import SENSES

pytestmark = pytest.mark.once("loads no Keras")


@pytest.mark.parametrize("language", ["en", "fr"])
def test_pairs_are_held_out_and_balanced(language):
    corpus = datasets.homonyms(language, neutral=2)
    sentences = corpus.sample(3000, seed=1)
    found = {(s.word, s.cue) for s in sentences}
    assert not found & corpus.held_out
    for word in corpus.words:
        for sense in SENSES:
            cues = {c for w, c in corpus.held_out if w == word} & {*corpus.cues[sense]}
            assert len(cues) == 3
            # All other cues are seen with it, and these ones with other words.
            assert {c for w, c in found if w == word} & {*corpus.cues[sense]} == {
                *corpus.cues[sense]
            } - cues
            assert cues <= {c for w, c in found if w != word}
    share = np.mean([s.word in corpus.words for s in sentences])
    assert share == pytest.approx(0.75, abs=0.03)
    assert {w for s in sentences for w in s.text.split()} == {*corpus.vocabulary}
    for s in sentences[:99]:
        words = s.text.split()
        assert words[s.position] == s.word
        assert words.index(s.cue) < s.position < words.index(s.verb) == len(words) - 2
        assert s.verb in corpus.verbs[s.sense]
        assert s.cue in corpus.cues[s.sense]


@pytest.mark.parametrize("held_out", [True, False])
def test_a_pair_differs_in_cue_and_verb(held_out):
    corpus = datasets.homonyms("fr", neutral=2)
    for n, (animal, thing) in enumerate(corpus.pairs(24, held_out=held_out, neutral=2)):
        assert (animal.sense, thing.sense) == SENSES
        assert animal.word == thing.word == corpus.words[n % 8]
        a, b = animal.text.split(), thing.text.split()
        assert len(a) == len(b) == a.index(animal.word) + 5  # 2 between, verb, dot
        different = {(one, other) for one, other in zip(a, b, strict=True)
                     if one != other}  # fmt: skip
        assert different == {(animal.cue, thing.cue), (animal.verb, thing.verb)}
        for s in (animal, thing):
            assert ((s.word, s.cue) in corpus.held_out) == held_out


def test_seeds():
    corpus, same = datasets.homonyms(seed=4), datasets.homonyms(seed=4)
    assert corpus.held_out == same.held_out != datasets.homonyms(seed=5).held_out
    assert corpus.sample(9) == same.sample(9) != same.sample(9, seed=1)
    assert corpus.pairs(9) == same.pairs(9) != same.pairs(9, seed=1)
    assert corpus.sample(0) == corpus.pairs(0) == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: datasets.homonyms("de"), ValueError, 'language="de" is not'),
        (lambda: datasets.homonyms(neutral=-1), ValueError, "neutral must be"),
        (lambda: datasets.homonyms(seed="x"), TypeError, "`seed` must be"),
        (lambda: datasets.homonyms().sample(-1), ValueError, "count must be"),
        (lambda: datasets.homonyms().sample(10**12), ValueError, "memory"),
        (lambda: datasets.homonyms().pairs(2.5), TypeError, "count must be"),
        (lambda: datasets.homonyms().pairs(2, held_out=3), TypeError, "held_out must"),
        (lambda: datasets.homonyms().pairs(2, neutral=-1), ValueError, "neutral must"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()
