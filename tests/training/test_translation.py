import sys

import pytest

from kerasseq.training import bleu, chrf, exact_match

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

sacrebleu = pytest.importorskip("sacrebleu")

# The example of sacrebleu's README, with its scores.
SYSTEM = [
    "The dog bit the man.",
    "It wasn't surprising.",
    "The man had just bitten him.",
]
FIRST = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
SECOND = [
    "The dog had bit the man.",
    "No one was surprised.",
    "The man had bitten the \
dog.",
]
BOTH = list(zip(FIRST, SECOND, strict=True))


def test_the_example_of_sacrebleu():
    assert bleu(SYSTEM, BOTH) == pytest.approx(48.53, abs=0.005)
    assert chrf(SYSTEM, BOTH) == pytest.approx(59.73, abs=0.005)
    ours = bleu(SYSTEM, FIRST, lowercase=True, tokenize="intl")
    theirs = sacrebleu.BLEU(lowercase=True, tokenize="intl")
    assert ours == theirs.corpus_score(SYSTEM, [FIRST]).score
    ours = chrf(SYSTEM, FIRST, word_order=2, lowercase=True)
    theirs = sacrebleu.CHRF(word_order=2, lowercase=True)
    assert ours == theirs.corpus_score(SYSTEM, [FIRST]).score


def test_the_options_matter():
    shout = [text.upper() for text in SYSTEM]
    assert bleu(shout, BOTH, lowercase=True) > bleu(shout, BOTH)
    assert chrf(shout, BOTH, lowercase=True) > chrf(shout, BOTH)
    assert bleu(SYSTEM, BOTH, tokenize="char") != bleu(SYSTEM, BOTH)
    assert chrf(SYSTEM, BOTH, word_order=2) != chrf(SYSTEM, BOTH)


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
def test_identical_is_a_hundred_and_nothing_right_is_zero(metric):
    assert metric(FIRST, FIRST) == 100.0
    assert metric(SECOND, BOTH) == 100.0
    assert metric(["zzzz", ""], ["aaaa", "bb"]) == 0.0
    assert isinstance(metric(FIRST, FIRST), float)


def test_words_that_are_whole_sentences():
    """The docstring's warning: without 4-grams, BLEU calls what is right wrong."""
    right = ["einundzwanzig", "zweiundvierzig"]
    assert bleu(right, right) == 0.0
    assert bleu(right, right, tokenize="char") == chrf(right, right) == 100.0


def test_signatures():
    score, signature = bleu(SYSTEM, BOTH, signature=True)
    assert score == bleu(SYSTEM, BOTH)
    expected = "nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    assert signature == expected + sacrebleu.__version__
    score, signature = chrf(SYSTEM, FIRST, word_order=2, signature=True)
    assert score == chrf(SYSTEM, FIRST, word_order=2)
    assert signature.startswith(
        "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:"
    )


def test_exact_match_counts():
    assert exact_match(iter(["a", "b", "c"]), ["a", "B", "c "]) == pytest.approx(
        100 / 3
    )
    assert exact_match(["a", "b"], [["x", "a"], ["y", "z"]]) == 50.0


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
@pytest.mark.parametrize(
    "hypotheses, references, error, message",
    [
        ([], [], ValueError, "at least one: received 0 hypotheses and 0"),
        (["a"], ["a", "b"], ValueError, "received 1 hypotheses and 2 references"),
        (["a", "b"], [["a"], ["b", "c"]], ValueError, r"they have \[1, 2\]"),
        (["a"], [[]], ValueError, r"they have \[0\]"),
        (
            "a",
            ["a"],
            TypeError,
            "hypotheses must be a list of strings, received one: 'a'",
        ),
        (["a"], "a", TypeError, "references must be a list of strings"),
        ([1], ["a"], TypeError, "must be strings, received 1"),
        (["a"], [[None]], TypeError, "must be strings, received None"),
    ],
)
def test_refused(metric, hypotheses, references, error, message):
    with pytest.raises(error, match=message):
        metric(hypotheses, references)


def test_options_refused():
    with pytest.raises(ValueError, match='tokenize="chars".*Did you mean "char"'):
        bleu(["a"], ["a"], tokenize="chars")
    with pytest.raises(ValueError, match="word_order must be at least 0"):
        chrf(["a"], ["a"], word_order=-1)


def test_without_sacrebleu(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    for metric in (bleu, chrf):
        with pytest.raises(ImportError, match="pip install sacrebleu"):
            metric(["a"], ["a"])
    assert exact_match(["a"], ["a"]) == 100.0
