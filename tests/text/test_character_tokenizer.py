import json
import os

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kerasseq.text import CharacterTokenizer
from kerasseq.text.files import write_vocabulary

# All of Unicode, halves of surrogate pairs included.
ANY_TEXT = st.text(st.characters(exclude_categories=()), min_size=1)
# The 65 characters of Tiny Shakespeare, whose order gives the ids of course E.
ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_ids_of_the_course():
    tokenizer = CharacterTokenizer().fit(ALPHABET)
    assert len(tokenizer.characters) == 65
    assert tokenizer.vocabulary_size == 66
    expected = [46, 47, 47, 1, 58, 46, 43, 56, 43]
    assert tokenizer.encode("hii there").tolist() == expected
    assert tokenizer.decode([18, 47, 56, 57, 58, 1, 15, 47, 58]) == "First Cit"


@settings(deadline=None, max_examples=50, derandomize=True)
@given(ANY_TEXT)
@example("\ud83d\ude00 \U0001f600 \0")
def test_round_trip_of_any_text(text):
    for unknown in (None, "\ufffd", "<unk>"):
        tokenizer = CharacterTokenizer(unknown=unknown).fit(text)
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int32
        assert ids.shape == (len(text),)
        assert tokenizer.decode(ids) == text
        config = json.loads(json.dumps(tokenizer.get_config()))
        assert CharacterTokenizer.from_config(config) == tokenizer


@settings(deadline=None, max_examples=50, derandomize=True)
@given(ANY_TEXT, ANY_TEXT)
def test_ids_agree_with_a_dictionary(seen, text):
    tokenizer = CharacterTokenizer().fit(seen)
    ids = {c: i for i, c in enumerate(sorted(set(seen)))}
    expected = [ids.get(c, len(ids)) for c in text]
    assert tokenizer.encode(text).tolist() == expected
    unseen = {c: text.count(c) for c in text if c not in ids}
    assert tokenizer.unknown_characters(text) == unseen


@pytest.mark.parametrize("unseen", ["a", "m", "z", "\U0010ffff", "\0"])
def test_unseen_character(unseen):
    marked = CharacterTokenizer(unknown="?").fit("bcy")
    assert marked.encode("b" + unseen).tolist() == [0, 3]
    assert marked.decode([0, 3]) == "b?"
    strict = CharacterTokenizer(unknown=None).fit("bcy")
    assert strict.vocabulary_size == 3
    assert strict.unknown_characters(unseen * 2) == {unseen: 2}
    with pytest.raises(ValueError, match="at position 2 .*Fit on a text"):
        strict.encode("bc" + unseen)


def test_surrogate_halves_survive_the_file(tmp_path):
    text = "\ud83d\ude00 \U0001f600 \0"  # two halves are not the whole
    tokenizer = CharacterTokenizer().fit(text)
    tokenizer.save(tmp_path / "t.json")
    loaded = CharacterTokenizer.load(tmp_path / "t.json")
    assert loaded == tokenizer
    assert loaded.decode(loaded.encode(text)) == text


def test_decode_takes_any_integers():
    tokenizer = CharacterTokenizer().fit("ab")
    for ids in ([1, 0], (1, 0), np.array([1, 0], "uint8"), np.array([1, 0])):
        assert tokenizer.decode(ids) == "ba"
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode("").shape == (0,)


@pytest.mark.parametrize(
    "ids, error, message",
    [
        ([0, 3], ValueError, "holds 3 at position 1.* 0 to 2"),
        ([-1], ValueError, "holds -1 at position 0"),
        ([0.5], TypeError, "float64"),
        ([True], TypeError, "bool"),
        ("ab", TypeError, "whole numbers"),
    ],
)
def test_wrong_ids(ids, error, message):
    with pytest.raises(error, match=message):
        CharacterTokenizer().fit("ab").decode(ids)


def test_wrong_arguments():
    tokenizer = CharacterTokenizer()
    for use in (tokenizer.encode, tokenizer.decode, tokenizer.unknown_characters):
        with pytest.raises(ValueError, match="Call `fit"):
            use("a")
    with pytest.raises(ValueError, match="empty"):
        tokenizer.fit("")
    with pytest.raises(
        TypeError, match="must be a string or a list of strings, received bytes"
    ):
        tokenizer.fit(b"a")
    with pytest.raises(TypeError, match="`unknown`"):
        CharacterTokenizer(unknown=0)
    with pytest.raises(ValueError, match="`unknown`"):
        CharacterTokenizer(unknown="")
    for characters in (["b", "a"], ["a", "a"], ["ab"], "ab", [1]):
        with pytest.raises((TypeError, ValueError), match="characters"):
            CharacterTokenizer.from_config({"unknown": None, "characters": characters})


def test_equality_and_words():
    one, other = CharacterTokenizer().fit("ab"), CharacterTokenizer().fit("ba")
    assert one == other
    assert one != CharacterTokenizer().fit("abc")
    assert one != CharacterTokenizer(unknown=None).fit("ab")
    assert repr(one) == "<CharacterTokenizer: 2 characters, unknown='\ufffd'>"
    assert "not fitted" in repr(CharacterTokenizer())
    fresh = CharacterTokenizer.from_config(CharacterTokenizer().get_config())
    assert fresh.fit("ab") == one


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "damaged"),
        (b"[1]", "format None"),
        (b'{"format": "kerasseq.Other"}', "format 'kerasseq.Other'"),
        (b'{"format": "kerasseq.CharacterTokenizer", "version": 9}', "version 9"),
        (b'{"format": "kerasseq.CharacterTokenizer", "version": 1}', "damaged"),
    ],
)
def test_strange_files(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"t.json.*{message}"):
        CharacterTokenizer.load(path)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_file_cut_short_is_refused(tmp_path, cut):
    path = tmp_path / "t.json"
    CharacterTokenizer().fit("abcdefg").save(path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ValueError, match="t.json"):
        CharacterTokenizer.load(path)


def test_a_failed_write_harms_nothing(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    CharacterTokenizer().fit("ab").save(path)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_vocabulary(path, "kerasseq.CharacterTokenizer", {"unknown": None})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["t.json"]


def test_an_unfitted_tokenizer_writes_no_file(tmp_path):
    with pytest.raises(ValueError, match="Call `fit"):
        CharacterTokenizer().save(tmp_path / "t.json")
    assert os.listdir(tmp_path) == []
