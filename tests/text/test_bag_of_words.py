import io
import json
import math
import sys
import unicodedata

import numpy as np
import pytest
import rich.console
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.text import BagOfWords
from kerasseq.text.words import MARKS, find_words

COURSE = [
    "yes , we have no bananas",
    "say yes for bananas",
    "no bananas , we say",
]
TABLE = """
,        1 0 1
bananas  1 1 1
for      0 1 0
have     1 0 0
no       1 0 1
say      0 1 1
we       1 0 1
yes      1 1 0
"""
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = st.lists(st.sampled_from(["a", "be", "sea", ",", "don't"]), max_size=7)


def course_table():
    """The words of the table of course D, and its 8 × 3 numbers."""
    rows = [line.split() for line in TABLE.split("\n") if line]
    return [row[0] for row in rows], [list(map(int, row[1:])) for row in rows]


def test_the_table_of_the_course():
    words, numbers = course_table()
    bag = BagOfWords()
    table = bag.fit_transform(COURSE)
    assert bag.vocabulary == words
    assert table.T.tolist() == numbers
    assert table.shape == (3, 8)
    assert table.dtype == np.int32
    assert bag.documents == 3
    assert bag.document_frequency.tolist() == [2, 3, 1, 1, 2, 2, 2, 2]


def test_the_table_in_print():
    words, numbers = course_table()
    bag = BagOfWords().fit([*COURSE, "[red]"])
    screen = rich.console.Console(file=io.StringIO(), width=79)
    screen.print(bag.table(COURSE))
    lines = [line.split() for line in screen.file.getvalue().split("\n")]
    assert ["1", "2", "3"] in lines
    for word, row in zip(words, numbers, strict=True):
        assert [word, *map(str, row)] in lines
    assert ["[", "0", "0", "0"] in lines
    # A file may hold what looks like markup.
    config = BagOfWords().get_config() | {"vocabulary": ["[red]"]}
    config |= {"document_frequency": [1], "documents": 1}
    screen.print(BagOfWords.from_config(config).table(["a"]))
    assert "[red]" in screen.file.getvalue()


@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, max_size=5))
def test_equals_counting_by_hand(seen, other):
    if not any(seen):
        seen = [*seen, ["a"]]
    bag = BagOfWords().fit([" ".join(words) for words in seen])
    assert bag.vocabulary == sorted({word for words in seen for word in words})
    table = bag.transform([" ".join(words) for words in other])
    assert table.shape == (len(other), len(bag.vocabulary))
    expected = [[words.count(w) for w in bag.vocabulary] for words in other]
    assert table.tolist() == expected
    unknown = bag.unknown_words([" ".join(words) for words in other])
    flat = sum(other, [])
    assert unknown == {w: flat.count(w) for w in flat if w not in bag.vocabulary}
    assert list(unknown.values()) == sorted(unknown.values(), reverse=True)


def test_runs_of_words():
    bag = BagOfWords(n=3)
    table = bag.fit_transform(["no we no we", "we"])
    assert bag.vocabulary == ["no", "no we", "no we no", "we", "we no", "we no we"]
    assert table.tolist() == [[2, 2, 1, 2, 1, 1], [0, 0, 0, 1, 0, 0]]
    # No run goes from one text to the next.
    assert BagOfWords(n=2).fit(["a", "b"]).vocabulary == ["a", "b"]


def test_the_most_frequent_words():
    bag = BagOfWords(max_words=3).fit(["d c c b", "a b c"])
    assert bag.vocabulary == ["a", "b", "c"]  # c 3, b 2, and of a and d the first
    assert bag.document_frequency.tolist() == [1, 2, 2]
    assert bag.unknown_words(["d d e a"]) == {"d": 2, "e": 1}


@pytest.mark.parametrize(
    "text, words",
    [
        ("Don't, DON’T!", ["don't", ",", "don't", "!"]),
        ("'tis the dogs' 'l'eau'", ["'", "tis", "the", "dogs", "'", "'", "l'eau", "'"]),
        ("caf\u00e9 cafe\u0301", ["caf\u00e9"] * 2),
        ("Straße GROẞ", ["straße", "groß"]),
        ("x\u0302y", ["x\u0302y"]),  # no composed form
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs are marks
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("日本 3.14 a_b", ["日本", "3", ".", "14", "a_b"]),
        ("😀!? ", ["😀", "!", "?"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("", []),
    ],
)
def test_where_words_are(text, words):
    assert find_words(text, lowercase=True, punctuation=True) == words
    only = [word for word in words if any(c.isalnum() for c in word)]
    assert find_words(text, lowercase=True, punctuation=False) == only
    if words:
        assert BagOfWords().fit([text]).vocabulary == sorted(set(words))


def test_capitals_can_be_kept():
    assert BagOfWords(lowercase=False).fit(["No no"]).vocabulary == ["No", "no"]
    assert BagOfWords(punctuation=False).fit(["No, no"]).vocabulary == ["no"]


@given(TEXT)
def test_no_character_is_lost(text):
    words = find_words(text, lowercase=False, punctuation=True)
    kept = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    assert "".join(words) == "".join(kept.split())


def test_all_marks_of_unicode_belong_to_words():
    known = {point for part in MARKS for point in part}
    points = range(sys.maxunicode + 1)
    assert {p for p in points if unicodedata.category(chr(p))[0] == "M"} <= known


def test_tf_idf():
    pytest.importorskip("sklearn")
    bag = BagOfWords().fit(COURSE)
    texts = ["yes yes we", "bananas", "unheard of"]
    weights = bag.tf_idf(texts)
    assert weights.shape == (3, 8)
    # Each of the two is in 2 of 3 texts, so that only the counts matter.
    expected = np.zeros((3, 8))
    expected[0, [7, 6]] = 2 / math.sqrt(5), 1 / math.sqrt(5)
    expected[1, 1] = 1
    np.testing.assert_allclose(weights, expected)
    # "for" is in 1 text, "bananas" in all 3.
    rare, common = math.log(4 / 2) + 1, math.log(4 / 4) + 1
    row = bag.tf_idf(["for bananas"])[0]
    assert math.isclose(row[2] / row[1], rare / common)
    assert math.isclose(np.linalg.norm(row), 1)


def test_tf_idf_equals_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    theirs = text.TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2))
    expected = theirs.fit(COURSE).transform(COURSE[::-1]).toarray()
    bag = BagOfWords(n=2).fit(COURSE)
    assert bag.vocabulary == theirs.get_feature_names_out().tolist()
    np.testing.assert_allclose(bag.tf_idf(COURSE[::-1]), expected)
    again = BagOfWords.from_config(bag.get_config())
    np.testing.assert_allclose(again.tf_idf(COURSE[::-1]), expected)
    assert bag.tf_idf([]).shape == (0, len(bag.vocabulary))


def test_without_scikit_learn_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(
        ImportError, match="In this environment: pip install scikit-learn"
    ):
        BagOfWords().fit(COURSE).tf_idf(COURSE)


def test_the_file_brings_all_back(tmp_path):
    bag = BagOfWords(lowercase=False, punctuation=False, n=2, max_words=7)
    bag.fit([*COURSE, "É No"]).save(tmp_path / "b.json")
    loaded = BagOfWords.load(tmp_path / "b.json")
    assert loaded.get_config() == bag.get_config()
    texts = ["no bananas É yes", "No no"]
    assert loaded.transform(texts).tolist() == bag.transform(texts).tolist()
    assert repr(loaded) == "<BagOfWords: 7 words of 4 texts>"
    fresh = BagOfWords.from_config(BagOfWords().get_config())
    assert repr(fresh) == "<BagOfWords: not fitted>"
    with pytest.raises(ValueError, match="Call `fit"):
        fresh.save(tmp_path / "c.json")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"vocabulary": ["b", "a"]}, "distinct words, sorted"),
        ({"vocabulary": ["a", "a"]}, "distinct words, sorted"),
        ({"vocabulary": "ab"}, "vocabulary: expected a list"),
        ({"vocabulary": ["a", 1]}, r"vocabulary\[1\]: expected a string"),
        ({"document_frequency": [1]}, "one for each word"),
        ({"document_frequency": [1, -1]}, "of 'b' must be at least 1, received -1"),
        ({"document_frequency": [1, 3]}, "of 'b' is 3, of 2 texts"),
        ({"documents": 1.5}, "documents: expected a whole number"),
        ({"lowercase": 1}, "lowercase: expected true or false"),
        ({"vocabulary": [], "document_frequency": []}, "Call `fit"),
        ({"extra": 1}, "expected the key"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "b.json"
    BagOfWords().fit(["a", "a b"]).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"b.json is damaged: .*{message}"):
        BagOfWords.load(path)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="`lowercase` must be a bool, received 'no'"):
        BagOfWords(lowercase="no")
    with pytest.raises(ValueError, match="^n must be at least 1"):
        BagOfWords(n=0)
    with pytest.raises(ValueError, match="^max_words must be at least 1, received -5"):
        BagOfWords(max_words=-5)
    bag = BagOfWords()
    for use in (bag.transform, bag.unknown_words, bag.tf_idf, bag.table):
        with pytest.raises(ValueError, match="Call `fit"):
            use(["a"])
    for texts, count in (([], 0), (["", " \n"], 2)):
        with pytest.raises(ValueError, match=f"received {count} texts"):
            bag.fit(texts)
    for use in (bag.fit, bag.fit_transform):
        for texts, kind in (("a text", "str"), (None, "NoneType")):
            with pytest.raises(TypeError, match=rf"received {kind}.*\[text\]"):
                use(texts)
        with pytest.raises(TypeError, match=r"`texts\[1\]` must be .*, received int"):
            use(["a", 1])
        with pytest.raises(ValueError, match=r"`texts\[1\]` .*ud83d', at position 2"):
            use(["a", "b \ud83d"])
    assert bag.fit_transform(iter(["a b", "a"])).tolist() == [[1, 1], [1, 0]]
    assert bag.transform([]).shape == (0, 2)
