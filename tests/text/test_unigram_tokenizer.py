import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerasseq.text import UnigramTokenizer
from kerasseq.text.tokenizers import unigram_pieces
from tests.text.unigram_examples import BYTES, tokenizer

TEXT = "She sells sea shells\nby the sea shore.\tThe shells she sells are sea shells.\n"
PREFIXES = (True, False, "first")
# What is special here, besides all of Unicode but halves of surrogate pairs.
ANY_TEXT = st.lists(
    st.text(max_size=4)
    | st.sampled_from([" ", "  ", "▁", "\n", "shells", "<pad>", "<unk>", "<0x41>", "☃"])
).map("".join)
TRICKY = " ▁ \r\n\0<0x41>e\u0301👩‍🚀<pad> <unk>▁<pad><pad>  "


@pytest.fixture(scope="module")
def fitted():
    return {
        prefix: UnigramTokenizer(
            288, special_tokens=["<pad>"], add_prefix_space=prefix
        ).fit(TEXT)
        for prefix in PREFIXES
    }


def shown(token):
    return token.replace("▁", " ")


@given(ANY_TEXT)
@example("")
@example(TRICKY)
def test_every_text_comes_back(fitted, text):
    for ours in fitted.values():
        ids = ours.encode(text)
        assert ids.dtype == np.int32
        assert ours.decode(ids) == text
        assert ours.decode(ours.sample(text, seed=0)) == text
        assert ours.decode(ours.n_best(text, 3)[-1].ids) == text
        np.testing.assert_array_equal(ids, ours.n_best(text, 1)[0].ids)


@given(ANY_TEXT)
@example(TRICKY)
def test_offsets_say_where_each_token_comes_from(fitted, text):
    for ours in fitted.values():
        encoding = ours.encode_with_offsets(text)
        np.testing.assert_array_equal(encoding.ids, ours.encode(text))
        assert encoding.tokens == ours.tokenize(text)
        spans, done = list(map(tuple, encoding.offsets.tolist())), 0
        for token, (start, end) in zip(encoding.tokens, spans, strict=True):
            if (start, end) == (done, done):
                assert token == "▁"  # the space that was put before
            elif token in BYTES and token != text[start:end]:
                same = [t for t, s in zip(encoding.tokens, spans, strict=True)
                        if s == (start, end)]  # fmt: skip
                spelled = bytes(int(t[3:5], 16) for t in same)
                assert spelled.decode() == text[start:end]
                assert start in (done, done - 1)
            else:
                assert start == done
                assert text[start:end] in (shown(token), shown(token)[1:], token)
            done = end
        assert done == len(text)


def test_the_vocabulary_in_order(fitted):
    ours = fitted[True]
    assert ours.vocabulary[:2] == ["<unk>", "<pad>"]
    assert ours.vocabulary[2:258] == BYTES
    pieces = ours.vocabulary[258:]
    assert ours.vocabulary_size == 288
    assert {c.replace(" ", "▁") for c in TEXT} <= set(pieces)
    assert max(map(len, pieces)) > 3
    assert "▁shells" in pieces
    assert not [piece for piece in pieces if "\n" in piece and len(piece) > 1]
    assert not [piece for piece in pieces if "▁" in piece[1:]]
    assert not ours.scores[:258].any()
    assert np.exp(ours.scores[258:]).sum() == pytest.approx(1)
    assert (np.diff(ours.scores[258:]) <= 0).all()


def test_sizes_and_lengths():
    fixed = set(TEXT)
    smallest = UnigramTokenizer(257 + len(fixed)).fit(TEXT)
    assert smallest.vocabulary_size == 257 + len(fixed)
    with pytest.raises(ValueError, match=rf"at least {257 + len(fixed)}"):
        UnigramTokenizer(256 + len(fixed)).fit(TEXT)
    everything = UnigramTokenizer().fit(TEXT)  # 8000 are not to be had
    assert 288 < everything.vocabulary_size < 500
    short = UnigramTokenizer(300, max_piece_length=2).fit(TEXT)
    assert max(map(len, short.vocabulary[257:])) == 2
    without = UnigramTokenizer(100, byte_fallback=False, unknown=None).fit(TEXT)
    assert "<0x00>" not in without.vocabulary
    assert without.decode(without.encode(TEXT)) == TEXT


def test_a_second_fit_replaces_the_first_and_repeats():
    one, other = UnigramTokenizer(290).fit("papa mama"), UnigramTokenizer(290).fit(TEXT)
    one.encode(TEXT)
    assert one != other
    one.fit([TEXT[:20], TEXT[20:]])
    assert one == UnigramTokenizer(290).fit([TEXT[:20], TEXT[20:]])
    np.testing.assert_array_equal(
        one.encode(TEXT), UnigramTokenizer.from_config(one.get_config()).encode(TEXT)
    )


def test_special_tokens_are_not_learned_from():
    text = "<sep>tick<sep>tock<0x41> <0x41> <0x41>▁a ▁a ▁a" * 5
    ours = UnigramTokenizer(400, special_tokens=["<sep>", "▁x"]).fit(text + " x" * 9)
    assert ours.vocabulary[:3] == ["<unk>", "<sep>", "▁x"]
    assert not [piece for piece in ours.vocabulary[3:] if "sep" in piece]
    assert len(set(ours.vocabulary)) == len(ours.vocabulary)
    assert ours.decode(ours.encode(text)) == text
    assert ours.decode(ours.encode("a<sep>b"), skip_special=True) == "ab"


def test_where_a_space_is_put():
    score = {"▁": -2.0, "▁a": -1.0, "a": -1.0}
    expected = {
        True: ["▁a", "<s>", "▁a", "<s>", "▁", "▁a"],
        "first": ["▁a", "<s>", "a", "<s>", "▁a"],
        False: ["a", "<s>", "a", "<s>", "▁a"],
    }
    for prefix, tokens in expected.items():
        ours = tokenizer(score, special_tokens=["<s>"], add_prefix_space=prefix)
        assert ours.tokenize("a<s>a<s> a") == tokens
        offsets = [[0, 1], [1, 4], [4, 5], [5, 8], [8, 8], [8, 10]]
        if prefix is not True:
            del offsets[4]
        found = ours.encode_with_offsets("a<s>a<s> a").offsets.tolist()
        assert found == offsets
        first = "▁a" if prefix is True else "a"
        assert ours.tokenize("<s>a") == ["<s>", first]
        assert ours.tokenize(" a") == (["▁a"] if prefix is False else ["▁", "▁a"])


def test_a_space_is_read_as_hugging_face_does():
    score = {"▁": -2.0, "▁a": -1.0, "a": -1.0}
    for bytes_too in (True, False):
        ours = tokenizer(score, byte_fallback=bytes_too, lossless=False)
        assert ours.tokenize("a▁a") == ["▁a", "▁a"]
        assert ours.tokenize(" a") == ours.tokenize("▁a") == ["▁a"]
        assert ours.decode(ours.encode(" a▁a")) == "a a"


def test_unknown_characters():
    score = {"▁": -2.0, "▁a": -1.0, "a": -1.0, "ab": -1.0}
    ours = tokenizer(score, byte_fallback=False)
    text = "a☃☃a ☃▁a<unk>a b"
    assert ours.tokenize(text) == [
        "▁a", "<unk>", "a", "▁", "<unk>", "▁a", "<unk>", "▁a", "▁", "<unk>"
    ]  # fmt: skip
    offsets = ours.encode_with_offsets(text).offsets.tolist()
    assert offsets[1] == [1, 3]
    assert ours.decode(ours.encode("a☃☃a ☃▁a")) == "a<unk>a <unk> a"
    assert ours.unknown_characters("a☃☃b ☃") == {"☃": 3, "b": 1}
    assert tokenizer(score).unknown_characters("a☃") == {}
    np.testing.assert_array_equal(ours.sample(text, alpha=99), ours.encode(text))
    strict = tokenizer(score, byte_fallback=False, unknown=None)
    with pytest.raises(ValueError, match="'☃'.*byte_fallback=True"):
        strict.encode("a ☃")
    # A line end that is unknown goes with its neighbors.
    assert ours.tokenize("a\n☃\na") == ["▁a", "<unk>", "a"]


def test_bytes_that_are_no_text():
    ours = tokenizer({"▁": -2.0, "a": -1.0})
    ids = [ours.id_of(token) for token in ("<0xE2>", "<0x98>", "a", "<0x98>")]
    assert ours.decode(ids) == "\ufffda\ufffd"
    assert ours.tokenize("☃") == ["▁", "<0xE2>", "<0x98>", "<0x83>"]


def test_pieces_in_any_order():
    pieces = ["a", *BYTES[::-1], "</s>", "▁", "<unk>", "b c", "▁a", "<pad>"]
    scores = np.r_[-1, np.zeros(256), 0, -2, 0, -0.1, -1.5, 0]
    ours = UnigramTokenizer.from_pieces(
        pieces, scores, special_tokens=["<pad>", "</s>"], unknown="<unk>"
    )
    assert ours.vocabulary == pieces
    assert ours.special_tokens == ("</s>", "<unk>", "<pad>")
    assert ours.encode("aa<pad>b").tolist() == [261, 0, 262, 258, 256 - ord("b")]
    assert ours.decode(ours.encode("b c</s>▁☃")) == "b c</s>▁☃"
    np.testing.assert_array_equal(ours.scores, scores)
    assert ours.get_config()["vocabulary_size"] == len(pieces)
    batch = ours.encode_batch(["a", "aa"])
    assert batch.ids.tolist() == [[261, 262], [261, 0]]
    assert batch.mask.tolist() == [[True, False], [True, True]]


def test_a_text_without_spaces_takes_a_time_that_grows_as_its_length():
    ours = UnigramTokenizer(300).fit(TEXT)
    text = "seashells☃" * 10_000
    assert ours.decode(ours.encode(text)) == text
    long = UnigramTokenizer(300).fit(text)
    assert max(len(piece) for piece in long.vocabulary) == 16


def test_the_memory_for_words_is_bounded(monkeypatch):
    monkeypatch.setattr(unigram_pieces, "CACHED", 3)
    ours = UnigramTokenizer(300).fit(TEXT)
    for text in (TEXT, TEXT[::-1], "shells" * 99):
        assert ours.decode(ours.encode(text)) == text
        assert len(ours._pieces._cache) <= 3


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("byte_fallback, lossless", [(1, 1), (1, 0), (0, 0)])
def test_all_comes_back_from_a_file(tmp_path, prefix, byte_fallback, lossless):
    options = {
        "special_tokens": ["<pad>", "<s>"],
        "unknown": "<?>",
        "byte_fallback": bool(byte_fallback),
        "lossless": bool(lossless),
        "add_prefix_space": prefix,
        "max_piece_length": 5,
    }
    ours = UnigramTokenizer(330, **options).fit(TEXT)
    ours.save(tmp_path / "u.json")
    loaded = UnigramTokenizer.load(tmp_path / "u.json")
    assert loaded == ours
    assert loaded.vocabulary == ours.vocabulary
    np.testing.assert_array_equal(loaded.scores, ours.scores)
    expected = {**options, "special_tokens": ["<?>", "<pad>", "<s>"]}
    config = loaded.get_config()
    assert expected.items() <= config.items()
    assert config["vocabulary_size"] == 330
    assert loaded.fit(TEXT) == ours
    text = " ▁a<pad>sea ☃"
    np.testing.assert_array_equal(loaded.encode(text), ours.encode(text))
    empty = UnigramTokenizer(330, **options)
    assert UnigramTokenizer.from_config(json.loads(json.dumps(empty.get_config()))) == (
        empty
    )


DAMAGE = [
    ({"pieces": None}, "pieces: expected a list"),
    ({"pieces": "abc"}, "pieces: expected a list"),
    ({"pieces": []}, "`pieces` must be a list"),
    ({"pieces": ["<unk>", "a", ""]}, r"`pieces\[2\]` must be a string, received ''"),
    ({"pieces": ["<unk>", "a", 3]}, r"pieces\[2\]: expected a string, received 3"),
    ({"pieces": ["<unk>", "a", "a"]}, "'a' twice"),
    ({"pieces": ["<unk>", "a", "\ud83d"]}, "surrogate"),
    ({"pieces": ["b", "a", "▁"]}, "lacks 1 .*'<unk>'"),
    ({"special_tokens": ["<s>"]}, "lacks 1 .*'<s>'"),
    ({"byte_fallback": True}, "lacks 256 .*'<0x00>'"),
    ({"scores": [0.0, -1.0]}, "`scores` must be 3 numbers"),
    ({"scores": None}, "scores: expected a list"),
    ({"scores": [0.0, -1.0, "a"]}, r"scores\[2\]: expected a number, received 'a'"),
    ({"scores": [0.0, -1.0, True]}, r"scores\[2\]: expected a number, received True"),
    ({"scores": [0.0, -1.0, float("nan")]}, r"scores\[2\]: expected a number"),
    ({"scores": [0.0, -1.0, float("-inf")]}, r"scores\[2\]: expected a number"),
    ({"vocabulary_size": 0}, "vocabulary_size must be at least 1"),
    ({"vocabulary_size": 2.5}, "vocabulary_size: expected a whole number"),
    ({"max_piece_length": 0}, "max_piece_length must be at least 1"),
    ({"unknown": 3}, "unknown: expected a string or null"),
    ({"unknown": ""}, "a special token must be a string"),
    ({"special_tokens": None}, "special_tokens: expected a list"),
    ({"special_tokens": "<s>"}, "special_tokens: expected a list"),
    ({"special_tokens": [3]}, r"special_tokens\[0\]: expected a string"),
    ({"special_tokens": ["<s>", "<s>"]}, "distinct"),
    ({"special_tokens": ["▁"]}, "must not have '▁'"),
    ({"special_tokens": [" s"], "add_prefix_space": "first"}, "must not have ' s'"),
    ({"byte_fallback": "yes"}, "byte_fallback: expected true or false"),
    ({"add_prefix_space": "last"}, 'add_prefix_space="last" is not one of'),
    ({"lossless": 3}, "lossless: expected true or false"),
    ({"lossless": True}, "lossless=True needs byte_fallback=True"),
    ({"more": 1}, "expected the key"),
]


@pytest.mark.parametrize("damage, message", DAMAGE, ids=str)
def test_a_damaged_config_is_refused(tmp_path, damage, message):
    good = tokenizer({"a": -1.0, "▁": -2.0}, byte_fallback=False)
    config = {**good.get_config(), **damage}
    with pytest.raises((ValueError, TypeError), match=message):
        UnigramTokenizer.from_config(config)
    for key in good.get_config():
        config = good.get_config()
        del config[key]
        with pytest.raises(ValueError, match="expected the key"):
            UnigramTokenizer.from_config(config)
    path = tmp_path / "u.json"
    good.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(ValueError, match=f"u.json is damaged.*{message}"):
        UnigramTokenizer.load(path)


def test_wrong_arguments():
    fresh = UnigramTokenizer(300)
    for use in (fresh.encode, fresh.sample, fresh.lattice, fresh.encode_with_offsets):
        with pytest.raises(ValueError, match="Call `fit"):
            use("a")
    with pytest.raises(ValueError, match="Call `fit"):
        fresh.decode([0])
    assert fresh.scores.shape == (0,)
    assert repr(fresh) == "<UnigramTokenizer: not fitted>"
    for text in ("", [], ["", ""]):
        with pytest.raises(ValueError, match="empty"):
            fresh.fit(text)
    with pytest.raises(ValueError, match="no words"):
        fresh.fit("<unk><unk>")
    for text in (b"a", None, 3):
        with pytest.raises(TypeError):
            fresh.fit(text)
    ours = tokenizer({"a": -1.0})
    for use in (ours.encode, ours.sample, ours.lattice, ours.encode_with_offsets):
        with pytest.raises(TypeError, match="`text` must be a string, received bytes"):
            use(b"a")
        with pytest.raises(ValueError, match="surrogate pair, .*at position 6"):
            use("a<unk>\ud83d")
    with pytest.raises(ValueError, match="surrogate pair, .*at position 1"):
        fresh.fit("a\ud83d")
    with pytest.raises(ValueError, match="`alpha`"):
        ours.sample("a", alpha=-1)
    with pytest.raises(ValueError, match="n must be at least 1"):
        ours.n_best("a", 0)
    with pytest.raises(ValueError, match="must not have '<0x41>'"):
        UnigramTokenizer(special_tokens=["<0x41>"])
