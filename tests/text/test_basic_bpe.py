"""The teaching BPE: examples by hand, and equality with the fast tokenizer."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerasseq.datasets import python_reference
from kerasseq.text import BasicBPE, BytePairTokenizer
from kerasseq.text.tokenizers.bpe import learn
from kerasseq.text.tokenizers.byte_alphabet import read
from kerasseq.text.tokenizers.splitting import split

pytestmark = pytest.mark.once("plain Python")

TEXTS = {
    "python_reference": python_reference()[10_000:16_000],
    "accents": "Où est l'été ? L'été est là, déjà là, là-bas. 東京 と 東京都 " * 5,
}


def test_merges_by_hand():
    # ab occurs 4 times, then (ab)a and a(ab) tie with b: the first one wins.
    bpe = BasicBPE().train(["abab", "abc", "cab"], num_merges=2)
    assert bpe.merges == {(97, 98): 256, (256, 256): 257}
    assert bpe.encode(["ababab"]) == [257, 256]


def test_training_stops_without_pairs():
    bpe = BasicBPE().train(["ab", "c"], num_merges=10)
    assert bpe.merges == {(97, 98): 256}
    assert bpe.encode([]) == [] and bpe.decode([]) == ""


@pytest.mark.parametrize("name", TEXTS)
def test_fast_tokenizer_learns_the_same_merges_and_ids(name):
    text, num_merges = TEXTS[name], 30 if name == "accents" else 80
    words = split(text, "gpt2")
    basic = BasicBPE().train(words, num_merges)
    fast = BytePairTokenizer(256 + num_merges, min_count=1).fit(text)
    merges = [(read(m.left), read(m.right)) for m in fast.trace()]
    spelled = [tuple(basic.vocabulary[i] for i in pair) for pair in basic.merges]
    assert merges == spelled and len(merges) == num_merges
    # Merged ids are equal; the fast tokenizer orders the 256 bytes as GPT-2 does.
    other = text + python_reference()[:3_000]
    byte_ids = [read(token)[0] for token in fast.vocabulary[:256]]
    ids = [byte_ids[i] if i < 256 else i for i in fast.encode(other).tolist()]
    assert basic.encode(split(other, "gpt2")) == ids
    assert basic.decode(ids) == other


@given(words=st.lists(st.text("abcd", min_size=1, max_size=12), max_size=5))
@example(words=["ababcdab", "cdab"])  # cd and dab tie, after two merges before cd
def test_any_words_give_the_same_merges(words):
    """Also where earlier merges in a word move later pairs to the left."""
    basic = BasicBPE().train(words, 7)
    spelled = [[basic.vocabulary[i].decode() for i in pair] for pair in basic.merges]
    counts, letters = Counter(words), sorted({*"".join(words)})
    kept = {word: word for word in counts}
    _, merges = learn(kept, counts.values(), letters, len(letters) + 7, 1)
    assert [[m.left, m.right] for m in merges][: len(spelled)] == spelled
