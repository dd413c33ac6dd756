"""`RWKVTokenizer`: the longest match, its files, offsets and errors."""

import warnings

import numpy as np
import pytest

from kerasseq.text import RWKVTokenizer, as_tokenizer, load_tokenizer

pytestmark = pytest.mark.once("arguments, messages and files")

BYTES = [bytes([n]) for n in range(256)]
WORDS = ["the", "then", " th", "é", "né", "你好", "😀", "\n\n", "'s", "a\\b"]
PARTS = ["你".encode()[:2], "😀".encode()[1:3]]
TOKENS = [b"", *BYTES, *(word.encode() for word in WORDS), *PARTS]
TOKENIZER = RWKVTokenizer(TOKENS)
ALPHABET = [*WORDS, *"abhent \n.é你好😀'\"\\", "\u2028", "\x85", "\r\n"]


def texts(count=200):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(ALPHABET, rng.integers(0, 30))) for _ in range(count)]


def longest_match(data):
    """By trying all tokens at each place."""
    ids = []
    while data:
        token = max((t for t in TOKENS if t and data.startswith(t)), key=len)
        ids.append(TOKENS.index(token))
        data = data[len(token) :]
    return ids


def test_the_longest_match_wins_and_decoding_restores_the_text():
    for text in texts():
        ids = TOKENIZER.encode(text)
        assert ids.tolist() == longest_match(text.encode())
        assert TOKENIZER.decode(ids) == text


def test_offsets_cover_the_text():
    for text in texts(50):
        encoding = TOKENIZER.encode_with_offsets(text)
        np.testing.assert_array_equal(encoding.ids, TOKENIZER.encode(text))
        joined = b""
        for i, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            assert TOKENS[i] in text[start:end].encode()
            joined += TOKENS[i]
        assert joined == text.encode()
    # 你 is cut inside: both of its tokens have its place.
    encoding = TOKENIZER.encode_with_offsets("a你b")
    assert encoding.offsets.tolist() == [[0, 1], [1, 2], [1, 2], [2, 3]]


def test_bytes_that_are_no_text():
    cut = TOKENIZER.encode("你")[:1]
    assert TOKENIZER.decode(cut) == "\N{REPLACEMENT CHARACTER}"
    assert TOKENIZER.decode([0, *TOKENIZER.encode("then"), 0]) == "then"  # 0 has none


def test_files(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer.json")
    assert load_tokenizer(tmp_path / "tokenizer.json") == TOKENIZER
    lines = TOKENIZER.lines()
    assert lines[-3:-1] == ["266 'a\\\\b' 3", "267 b'\\xe4\\xbd' 2"]
    (tmp_path / "vocabulary.txt").write_text("\n".join(lines) + "\n", "utf-8")
    found = RWKVTokenizer.from_vocab_file(tmp_path / "vocabulary.txt")
    assert found == TOKENIZER
    padded = found.padded(275)
    assert padded.vocabulary_size == 275 and padded.decode([274]) == ""
    assert RWKVTokenizer.from_vocabulary(lines, size=275) == padded
    assert padded.lines() == lines


@pytest.fixture(scope="module")
def theirs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hub = pytest.importorskip("keras_hub")
    return hub.tokenizers.RWKVTokenizer(vocabulary=TOKENIZER.lines())


def test_the_ids_are_those_of_keras_hub(theirs):
    for text in texts():
        if text:
            assert TOKENIZER.encode(text).tolist() == np.asarray(theirs(text)).tolist()
    ids = TOKENIZER.encode("then né 😀")
    assert TOKENIZER.decode(ids) == theirs.detokenize([ids.tolist()])[0]


def test_their_tokenizer_says_how_to_convert_it(theirs):
    line = r"Pass kerasseq.text.RWKVTokenizer.from_vocabulary\(tokenizer.vocabulary\)"
    with pytest.raises(TypeError, match=line):
        as_tokenizer(theirs)
    assert RWKVTokenizer.from_vocabulary(theirs.vocabulary) == TOKENIZER


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a 'b' 1", "line 2 must have an id below 1,048,576, .* received \"a 'b' 1\""),
        ("1 'b' 2", "line 2 must .* its number of bytes"),
        ("1 b 1", "line 2 must .* the literal of a string"),
        ("1 3 1", "line 2 must"),
        ("1 '' 0", "line 2 must"),
        ("1 f() 1", "line 2 must"),
        ("1 '\\ud800' 3", "line 2 must"),
        ("99999999 'b' 1", "line 2 must have an id below"),
        ("-1 'b' 1", "line 2 must have an id below"),
        ("1", "line 2 must"),
        ("0 'b' 1", "ids must differ, received 0 a second time in line 2"),
        ("1 'a' 1", "tokens must differ, received b'a' for the ids 0 and 1"),
    ],
)
def test_damaged_lines(line, words, tmp_path):
    lines = ["0 'a' 1", line]
    with pytest.raises(ValueError, match=words):
        RWKVTokenizer.from_vocabulary(lines)
    (tmp_path / "x.txt").write_text("\n".join(lines), "utf-8")
    with pytest.raises(ValueError, match=r"x\.txt is damaged"):
        RWKVTokenizer.from_vocab_file(tmp_path / "x.txt")


def test_errors():
    with pytest.raises(TypeError, match=r"tokens\[1\] must be a byte string, .* 'b'"):
        RWKVTokenizer([b"a", "b"])
    with pytest.raises(ValueError, match="tokens must have at least one"):
        RWKVTokenizer([b""])
    with pytest.raises(TypeError, match="must be a list of byte strings, received b'a"):
        RWKVTokenizer(b"ab")
    with pytest.raises(ValueError, match="a token for each byte .* with b'c', which"):
        RWKVTokenizer([b"a", b"ab"]).encode("abc")
    with pytest.raises(ValueError, match="cannot be fitted: its list of tokens is"):
        TOKENIZER.fit("a")
    with pytest.raises(ValueError, match="size must be at least 269, .* size=3"):
        RWKVTokenizer.from_vocabulary(TOKENIZER.lines(), size=3)
    with pytest.raises(TypeError, match=r"lines\[0\] must be a string, received 3"):
        RWKVTokenizer.from_vocabulary([3])
    with pytest.raises(ValueError, match="must spell bytes as GPT-2 does, .* ' '"):
        RWKVTokenizer.from_config({"tokens": ["a b"]})
