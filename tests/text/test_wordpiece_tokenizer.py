import functools
import itertools
import json
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer, Tokenizer, decoders, models
from tokenizers.normalizers import BertNormalizer as PeerNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from kerasseq.text import WordPieceTokenizer
from kerasseq.text.tokenizers import wordpiece_tokenizer
from kerasseq.text.tokenizers.bert_normalizer import BertNormalizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = ["lowercase", "strip_accents", "split_chinese", "clean"]
OPTIONS = [
    dict(zip(NAMES, values, strict=True))
    for values in itertools.product([True, False], repeat=4)
]
HARD = [
    "Héllo, wörld! Ça va? Ångström naïve coöperate",
    "東京は大きい。北京 is big, 한국어 텍스트 豈\u2f800",
    "😀 👩‍👩‍👧 family🏳️‍🌈, ☃snow",
    "a\0b\x07c\tTab\nnew\r\nline\x0bvertical\x1cfs\x85nel\u2028ls\x7fdel",
    "ﬁne ligature, ǅ titlecase, ß ẞ STRASSE",
    "İstanbul ISPARTA ısı İİ I\u0307",
    "e\u0301a\u0323\u0308b combining \u0301alone x\u0338y a\u0308\u0323",
    "zero\u200bwidth\u200djoiner\ufeffbom soft\u00adhyphen \u202eright",
    "don't... “quoted” \u2018x\u2019 a-b—c $5 3+4=7 `x` ^~| ¿que§?",
    "long " + "a" * 101 + " " + "b" * 100 + " " + "é" * 100 + " end",
    "ΑΣ ΟΔΟΣ Σ, ὈΔΥΣΣΕΎΣ",
    "[CLS] one [MASK]two[SEP] [cls] [PAD][UNK] [ CLS]",
    "nbsp\u00a0here\u3000ideographic\u2003em \ue000private \ufffd replaced",
    "\U0001d15e \u302e가\u302fx \U0001d157\U0001d16d\U0001d165",
    "1d≠2 \u0340 \u037e \u0387 K Å \u2000x",
    "",
    " \n ",
    "\u0301\u0323",
]


def peer_words(text, options):
    """What `tokenizers` makes of a text before it looks for pieces."""
    normal = _peer_normalizer(**options).normalize_str(text)
    return [word for word, _ in BertPreTokenizer().pre_tokenize_str(normal)]


def _peer_normalizer(lowercase, strip_accents, split_chinese, clean):
    return PeerNormalizer(
        clean_text=clean,
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )


def peer_with(tokens, max_word_length=100, **options):
    ids = {token: i for i, token in enumerate(tokens)}
    model = models.WordPiece(
        ids, unk_token="[UNK]", max_input_chars_per_word=max_word_length
    )
    peer = Tokenizer(model)
    peer.normalizer = _peer_normalizer(**options)
    peer.pre_tokenizer = BertPreTokenizer()
    peer.add_special_tokens([token for token in SPECIAL if token in ids])
    return peer


# Of the planes without an assigned character a sixteenth, of the others all.
BLOCKS = [
    block
    for block in range(0, 0x110000, 256)
    if not 0xD800 <= block < 0xE000
    and (block < 0x40000 or 0xE0000 <= block < 0xF0000 or block % 4096 == 0)
]


@functools.cache
def strangers(index):
    """The characters that `tokenizers` takes for another kind than Python's Unicode."""
    options, found = OPTIONS[index], []
    ours = BertNormalizer(**options)
    for block in BLOCKS:
        characters = [chr(i) for i in range(block, block + 256)]
        text = " ".join(f"a{c}b" for c in characters)
        if ours.words(text) == peer_words(text, options):
            continue
        for c in characters:
            if ours.words(f"a{c}b") != peer_words(f"a{c}b", options):
                found.append(c)
    return frozenset(found)


@pytest.mark.parametrize(
    "index",
    [0, pytest.param(15, marks=pytest.mark.full("the other end", cheap=False))],
)
def test_every_character_is_treated_as_by_the_peer(index):
    found = strangers(index)
    # Its tables lack what is newer than Unicode 8, and have it take a part of the
    # Chinese characters for letters; ours lack what is newer than Python.
    chinese = {chr(i) for i in range(0x2B820, 0x2B920)}
    assert found & chinese == (chinese if OPTIONS[index]["split_chinese"] else set())
    newer = found - chinese
    assert len(newer) < 1000
    assert min(newer) > "\u0600"
    common = [*range(0x600, 0x61D), *range(0x900, 0x980), *range(0x2000, 0x2E00)]
    assert not newer & set(map(chr, [*common, *range(0x3000, 0xA000)]))


def vocabulary_of(text, options):
    """Pieces of the text's own words, so that many words are known and some not."""
    pieces = []
    for word in peer_words(text, options):
        pieces += [word[:n] for n in (1, 2, 4)] + ["##" + c for c in word[1:]]
        pieces += ["##" + word[i : i + 3] for i in range(1, len(word) - 2, 2)]
    pieces = [p for n, p in enumerate(dict.fromkeys(pieces)) if n % 7 != 6]
    return list(dict.fromkeys([*SPECIAL, *pieces]))


def assert_same(text, options, max_word_length=100):
    tokens = vocabulary_of(text, options)
    ours = WordPieceTokenizer.from_vocabulary(
        tokens, max_word_length=max_word_length, **options
    )
    theirs = peer_with(tokens, max_word_length, **options)
    expected = theirs.encode(text, add_special_tokens=False)
    encoding = ours.encode_with_offsets(text)
    assert encoding.ids.tolist() == expected.ids
    assert encoding.tokens == expected.tokens
    assert list(map(tuple, encoding.offsets.tolist())) == expected.offsets
    assert ours.encode(text).tolist() == expected.ids


@pytest.mark.parametrize("text", HARD)
def test_hard_texts_as_the_peer(text):
    for options in OPTIONS:
        assert_same(text, options)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        # A note in two parts, whose stem comes after the accent in Unicode's order.
        ("\U0001d15e\U0001d167", "\U0001d157\U0001d165"),
        # A Korean tone mark, which is no accent, and comes after one in that order.
        ("\u302e\u3099", "\u302e"),
    ],
)
def test_a_piece_has_its_own_place_though_marks_change_order(text, token):
    tokenizer = WordPieceTokenizer.from_vocabulary(["[UNK]", token])
    encoding = tokenizer.encode_with_offsets(text)
    assert encoding.tokens == [token]
    assert encoding.offsets.tolist() == [[0, 1]]
    theirs = peer_with(tokenizer.vocabulary, **OPTIONS[0]).encode(text)
    assert theirs.tokens == [token]
    assert theirs.offsets != [(0, 1)]  # if it says so one day, compare it above


TRICKY = st.text(
    st.sampled_from("aAbéÉİΣßﬁ ,.'$’。\t\0\x1c\x85\u0301\u0323\u200d東京豈가😀≠#[]")
)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(TRICKY, st.integers(0, 15), st.integers(1, 6))
def test_tricky_texts_as_the_peer(text, index, max_word_length):
    assert_same(text, OPTIONS[index], max_word_length)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.text(st.characters(exclude_categories=("Cs",))), st.sampled_from([0, 15]))
def test_any_text_as_the_peer(text, index):
    assume(not strangers(index) & set(text))
    assert_same(text, OPTIONS[index])


def test_a_vocab_file_as_the_peer(tmp_path):
    path = tmp_path / "vocab.txt"
    text = " ".join(HARD)
    tokens = vocabulary_of(text, OPTIONS[0])
    path.write_text("".join(f"{token}\n" for token in tokens), "utf-8", newline="\n")
    ours = WordPieceTokenizer.from_vocab_file(path)
    theirs = BertWordPieceTokenizer(str(path))
    assert ours.vocabulary == tokens
    for text in HARD:
        expected = theirs.encode(text, add_special_tokens=False)
        assert ours.encode(text).tolist() == expected.ids
        assert list(map(tuple, ours.encode_with_offsets(text).offsets.tolist())) == (
            expected.offsets
        )
    cased = WordPieceTokenizer.from_vocab_file(path, lowercase=False)
    expected = BertWordPieceTokenizer(str(path), lowercase=False)
    expected = expected.encode(HARD[0], add_special_tokens=False)
    assert cased.encode(HARD[0]).tolist() == expected.ids


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.integers(0, 8)), st.booleans())
def test_decode_as_the_peer(ids, skip):
    tokens = [*SPECIAL, "un", "##happi", "##ly", "!"]
    ours = WordPieceTokenizer.from_vocabulary(tokens)
    theirs = peer_with(tokens, **OPTIONS[0])
    theirs.decoder = decoders.WordPiece(cleanup=False)
    expected = theirs.decode(ids, skip_special_tokens=skip)
    if skip and any(tokens[i] == "[UNK]" for i in ids):
        return  # which is no special token there, when it is decoded
    assert ours.decode(ids, skip_special=skip) == expected


def test_decode_gives_the_normalized_text():
    tokenizer = WordPieceTokenizer(400, min_count=1).fit("Café, naïve: 東京! x")
    assert (
        tokenizer.decode(tokenizer.encode("Naïve  CAFÉ東京,")) == "naive cafe 東 京 ,"
    )
    text = "[CLS]cafe[SEP]naive"
    assert tokenizer.decode(tokenizer.encode(text)) == "[CLS] cafe [SEP] naive"
    # Words apart stay apart, also when what stood between is left out.
    assert tokenizer.decode(tokenizer.encode(text), skip_special=True) == "cafe naive"
    assert tokenizer.decode([]) == ""


def counts(words, spelled):
    single, pairs = Counter(), Counter()
    for word, number in words.items():
        for symbol in spelled[word]:
            single[symbol] += number
        for pair in itertools.pairwise(spelled[word]):
            pairs[pair] += number
    return single, pairs


def joined(symbols, pair, token):
    new = []
    for symbol in symbols:
        if new and (new[-1], symbol) == pair:
            new[-1] = token
        else:
            new.append(symbol)
    return new


def naive_training(text, size, score, min_count):
    """Everything counted anew for each merge."""
    words = Counter(text.split())
    characters = sorted(set("".join(words)))
    inside = sorted({c for word in words if len(word) > 1 for c in word})
    vocabulary = ["[UNK]", *characters, *("##" + c for c in inside)]
    spelled = {w: [w[0], *("##" + c for c in w[1:])] for w in words}
    merges = []
    while len(vocabulary) < size:
        single, pairs = counts(words, spelled)
        scores = {
            (a, b): n / (single[a] * single[b]) if score == "likelihood" else n
            for (a, b), n in pairs.items()
            if n >= min_count
        }
        if not scores:
            break
        place = vocabulary.index
        best = min(
            scores, key=lambda p: (-scores[p], -pairs[p], place(p[0]), place(p[1]))
        )
        token = best[0] + best[1][2:]
        if token not in vocabulary:
            vocabulary.append(token)
        merges.append((*best, token, pairs[best], float(scores[best])))
        spelled = {w: joined(symbols, best, token) for w, symbols in spelled.items()}
    return vocabulary, merges


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=12),
    st.integers(0, 40),
    st.sampled_from(["likelihood", "count"]),
    st.integers(1, 3),
)
@example(["aaaa", "aaa", "aaaaaaa"], 40, "count", 1)
@example(["abab", "ab", "babab", "ab"], 40, "likelihood", 1)
def test_training_equals_counting_everything_anew(words, more, score, min_count):
    text = " ".join(words)
    size = naive_training(text, 0, score, min_count)[0]
    size = len(size) + more
    tokenizer = WordPieceTokenizer(
        size, special_tokens=(), score=score, min_count=min_count
    ).fit(text)
    vocabulary, merges = naive_training(text, size, score, min_count)
    assert tokenizer.vocabulary == vocabulary
    assert list(map(tuple, tokenizer.trace())) == merges


def test_training_on_more_pairs_than_fit_the_first_table():
    generator = np.random.default_rng(3)
    letters = np.array([chr(0x3B1 + i) for i in range(24) if i != 17] + list("abcdxyz"))
    drawn = generator.choice(letters, (1500, 5))
    text = " ".join(map("".join, drawn.tolist()))
    for score in ("likelihood", "count"):
        tokenizer = WordPieceTokenizer(
            80, special_tokens=(), score=score, lowercase=False
        )
        expected = naive_training(text, 80, score, 2)
        tokenizer.fit(text)
        assert tokenizer.vocabulary == expected[0]
        assert list(map(tuple, tokenizer.trace())) == expected[1]


def test_the_scores_differ():
    # th is the most frequent pair; qu the one whose letters are seen nowhere else.
    text = "the that this than other qu"
    by = {
        score: WordPieceTokenizer(40, score=score, min_count=1).fit(text)
        for score in ("likelihood", "count")
    }
    assert by["likelihood"].trace()[0].token == "qu"
    assert by["likelihood"].trace()[0].score == 1.0
    assert by["count"].trace()[0][2:] == ("th", 4, 4.0)


def test_training_counts_texts_together_and_no_special_tokens():
    one = WordPieceTokenizer(30, score="count").fit("low lower[SEP]low")
    assert one == WordPieceTokenizer(30, score="count").fit(["low", "lower low"])
    assert "##[" not in one.vocabulary
    assert "s" not in one.vocabulary
    assert one.vocabulary[:5] == SPECIAL
    long = WordPieceTokenizer(30, max_word_length=3).fit("low lower")
    assert "r" not in long.vocabulary
    # A second fit forgets the first.
    assert long.fit("ab").fit("low lower") == WordPieceTokenizer(
        30, max_word_length=3
    ).fit("low lower")


def test_every_word_of_known_characters_has_an_encoding():
    tokenizer = WordPieceTokenizer(30).fit("ab bc cd, 東")
    assert tokenizer.unknown_words("dcba abcd d, 東") == {}
    assert tokenizer.vocabulary.count("##,") == 0
    assert tokenizer.vocabulary.count("##東") == 0


def test_a_special_token_may_be_a_character():
    tokenizer = WordPieceTokenizer(20, special_tokens=["a"]).fit("ab cab bab")
    assert tokenizer.vocabulary[:2] == ["[UNK]", "a"]
    assert tokenizer.tokenize("bab") == ["b", "a", "b"]


def test_a_merge_may_make_a_special_token():
    # It is not found in the text in capitals, but learned as a piece.
    tokenizer = WordPieceTokenizer(15, special_tokens=["th"], score="count")
    tokenizer.fit("THE THIS THEN")
    assert tokenizer.vocabulary == [
        *("[UNK]", "th", *"ehinst", *("##" + c for c in "ehinst"), "the")
    ]
    assert [merge.token for merge in tokenizer.trace()] == ["th", "the"]
    assert WordPieceTokenizer.from_config(tokenizer.get_config()) == tokenizer


def test_the_longest_piece_of_all_is_found():
    tokens = ["?", "abcdef", *"abcdef", *("##" + c for c in "abcdef")]
    tokenizer = WordPieceTokenizer.from_vocabulary(tokens, unknown="?")
    assert tokenizer.tokenize("abcdef abcdefa") == ["abcdef", "abcdef", "##a"]


def test_unknown_words_are_counted():
    tokens = ["[UNK]", "un", "##known", "!", "a", "##b"]
    tokenizer = WordPieceTokenizer.from_vocabulary(tokens, max_word_length=8)
    text = "Unknown? unknown! [UNK] Nein, nein abbbbbbbbbb"
    assert tokenizer.unknown_words(text) == {
        "nein": 2,
        "?": 1,
        ",": 1,
        "abbbbbbbbbb": 1,
    }
    assert tokenizer.encode("abbbbbbb abbbbbbbb").tolist() == [4] + [5] * 7 + [0]
    with pytest.raises(TypeError, match="`text`"):
        tokenizer.unknown_words(3)
    assert tokenizer.unknown_words("") == {}


def test_an_unknown_token_that_is_a_word():
    tokens = ["unk", "un", "##k", "##le"]
    tokenizer = WordPieceTokenizer.from_vocabulary(tokens, unknown="unk")
    # After normalization the special token may begin a word.
    encoding = tokenizer.encode_with_offsets("UNKle Unkx")
    assert encoding.ids.tolist() == [0, 3, 0]
    assert encoding.offsets.tolist() == [[0, 3], [3, 5], [6, 10]]


def test_halves_of_surrogate_pairs_are_refused():
    tokenizer = WordPieceTokenizer.from_vocabulary(["[UNK]", "a"])
    uses = (tokenizer.encode, tokenizer.encode_with_offsets, tokenizer.unknown_words)
    for use in (*uses, tokenizer.fit):
        with pytest.raises(ValueError, match="surrogate pair.* at position 1"):
            use("a\ud83da")


def test_words_are_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(wordpiece_tokenizer, "CACHE_SIZE", 3)
    tokenizer = WordPieceTokenizer.from_vocabulary(["[UNK]", *"abcde", "##a"])
    for word in ("a", "b", "c", "d", "e", "a" * 200, "ea"):
        first = tokenizer.encode(word).tolist()
        assert tokenizer.encode(word).tolist() == first
        assert len(tokenizer._cache) <= 3
        assert "a" * 200 not in tokenizer._cache
    # What was remembered belongs to the vocabulary it was found with.
    tokenizer.wanted_size = 30
    tokenizer.fit("b a")
    assert tokenizer.tokenize("b") == ["b"]


def test_batches_are_padded_with_the_padding_token():
    tokenizer = WordPieceTokenizer.from_vocabulary(["[UNK]", "a", "##b", "[PAD]"])
    batch = tokenizer.encode_batch(["a", "abb", ""], pad="left")
    assert batch.ids.tolist() == [[3, 3, 1], [1, 2, 2], [3, 3, 3]]
    assert batch.mask.sum() == 4


def fitted():
    return WordPieceTokenizer(
        40, strip_accents=False, score="count", max_word_length=9, min_count=1
    ).fit("Café cafe\u0301 naïve, café")


def test_save_and_load(tmp_path):
    tokenizer = fitted()
    tokenizer.save(tmp_path / "t.json")
    loaded = WordPieceTokenizer.load(tmp_path / "t.json")
    assert loaded == tokenizer
    assert loaded.trace() == tokenizer.trace() != []
    assert loaded.tokenize("Naïve café?") == tokenizer.tokenize("Naïve café?")
    config = json.loads(json.dumps(tokenizer.get_config()))
    assert WordPieceTokenizer.from_config(config).get_config() == config
    fresh = WordPieceTokenizer.from_config(WordPieceTokenizer().get_config())
    assert fresh == WordPieceTokenizer()
    assert fresh != tokenizer
    with pytest.raises(ValueError, match="is not fitted"):
        fresh.save(tmp_path / "u.json")


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"vocabulary_size": 2.5}, TypeError, "vocabulary_size"),
        ({"special_tokens": "[PAD]"}, TypeError, "special_tokens"),
        ({"special_tokens": ["[PAD]", "[PAD]"]}, ValueError, "distinct"),
        ({"special_tokens": ["[OTHER]"]}, ValueError, r"lacks .*\['\[OTHER\]'\]"),
        ({"unknown": None}, TypeError, "unknown"),
        ({"unknown": "[X]"}, ValueError, r"lacks .*\[X\]"),
        ({"lowercase": 1}, TypeError, "lowercase"),
        ({"strip_accents": "no"}, TypeError, "strip_accents"),
        ({"split_chinese": None}, TypeError, "split_chinese"),
        ({"clean": None}, TypeError, "clean"),
        ({"prefix": None}, TypeError, "prefix"),
        ({"prefix": "ab"}, ValueError, "prefix must have punctuation"),
        ({"max_word_length": 0}, ValueError, "max_word_length"),
        ({"score": "counts"}, ValueError, 'mean "count"'),
        ({"min_count": 0}, ValueError, "min_count"),
        ({"vocabulary": "abc"}, TypeError, "vocabulary: expected a list"),
        ({"vocabulary": [*SPECIAL, 3]}, TypeError, r"vocabulary\[5\]: .* 3"),
        ({"vocabulary": [*SPECIAL, ""]}, ValueError, "token number 5"),
        ({"vocabulary": [*SPECIAL, "[PAD]"]}, ValueError, "number 0 and 5"),
        ({"vocabulary": []}, ValueError, "the merge"),
        ({"merges": None}, TypeError, "merges: expected a list"),
        ({"merges": [["c", "##a", 3]]}, ValueError, r"merges\[0\]: expected"),
        ({"merges": [3]}, TypeError, r"merges\[0\]: expected"),
        ({"merges": [["c", "##a", "3", 3.0]]}, TypeError, r"merges\[0\]\[2\]: "),
        ({"merges": [["c", "##a", 3, 3]]}, ValueError, "the merge"),
        ({"merges": [["c", "a", 3, 3.0]]}, ValueError, "the merge"),
        ({"merges": [["c", "##x", 3, 3.0]]}, ValueError, "the merge"),
        ({"more": 1}, ValueError, "expected the key"),
    ],
)
def test_damaged_configs(tmp_path, change, error, message):
    config = fitted().get_config()
    with pytest.raises(error, match=message):
        WordPieceTokenizer.from_config({**config, **change})
    path = tmp_path / "t.json"
    content = {"format": "kerasseq.WordPieceTokenizer", "version": 1}
    path.write_text(json.dumps({**content, **config, **change}))
    with pytest.raises(ValueError, match=f"t.json is damaged: .*{message}"):
        WordPieceTokenizer.load(path)


def test_a_config_without_a_key():
    for key in WordPieceTokenizer().get_config():
        config = fitted().get_config()
        del config[key]
        if key == "cleanup":  # not in older files
            assert not WordPieceTokenizer.from_config(config).cleanup
            continue
        with pytest.raises(ValueError, match="expected the key"):
            WordPieceTokenizer.from_config(config)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"),
        (b"[UNK]\na\n\nb\n", "line 3 must have a token"),
        (b"[UNK]\n\n", "line 2 must have a token"),
        (b"[UNK]\na\nb\na\n", "lines 2 and 4 both have 'a'"),
        (b"[UNK]\na\nb\n a\na ", "lines 2 and 5 both have 'a'"),
        (b"[PAD]\na\n", r"vocab.txt: .* lacks the special tokens \['\[UNK\]'\]"),
        (b"[UNK]\na\n\xe9t\xe9\n", "vocab.txt is not UTF-8: byte 0xe9 on line 3"),
        ("[UNK]\n".encode("utf-16"), "vocab.txt is not UTF-8: byte 0xff on line 1"),
    ],
)
def test_damaged_vocab_files(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer.from_vocab_file(path)


def test_vocab_files_as_they_occur(tmp_path):
    path = tmp_path / "vocab.txt"
    # With a byte order mark, Windows line ends, a line separator as a token, and no
    # end of the last line.
    path.write_bytes("\ufeff[UNK]\r\n\u2028\r\n[PAD]\r\na \r\n##b".encode())
    tokenizer = WordPieceTokenizer.from_vocab_file(path)
    assert tokenizer.vocabulary == ["[UNK]", "\u2028", "[PAD]", "a", "##b"]
    assert tokenizer.special_tokens == ("[UNK]", "[PAD]")
    assert tokenizer.trace() == []
    with pytest.raises(FileNotFoundError):
        WordPieceTokenizer.from_vocab_file(tmp_path / "none.txt")
    with pytest.raises(TypeError, match="lower_case"):
        WordPieceTokenizer.from_vocab_file(path, lower_case=True)


def test_wrong_arguments():
    tokenizer = WordPieceTokenizer(11, special_tokens=[])
    with pytest.raises(ValueError, match="must be at least 17"):
        tokenizer.fit("abcd, efg!")
    assert tokenizer.vocabulary == []  # a failed fit changes nothing
    for use in (tokenizer.encode, tokenizer.unknown_words, tokenizer.tokenize):
        with pytest.raises(ValueError, match="is not fitted"):
            use("a")
    with pytest.raises(ValueError, match="is not fitted"):
        tokenizer.decode([])
    for text, error, message in (
        ("", ValueError, "is empty"),
        (" \n", ValueError, "no words"),
        (["", "\0"], ValueError, "no words"),
        (["a", 3], TypeError, "number 1 is int"),
        (b"a", TypeError, "text"),
        (None, TypeError, "NoneType"),
    ):
        with pytest.raises(error, match=message):
            tokenizer.fit(text)
    with pytest.raises(ValueError, match="no words of at most 1 character"):
        WordPieceTokenizer(30, max_word_length=1).fit("abc de")
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        WordPieceTokenizer.from_vocabulary([])
    with pytest.raises(TypeError, match="must be a list"):
        WordPieceTokenizer.from_vocabulary("abc")
    with pytest.raises(ValueError, match="lacks"):
        WordPieceTokenizer.from_vocabulary(["[UNK]"], special_tokens=["[PAD]"])
    with pytest.raises(ValueError, match="holds 9"):
        fitted_on = WordPieceTokenizer.from_vocabulary(["[UNK]"])
        fitted_on.decode([9])


def test_accents_follow_lowercase_unless_said_otherwise():
    def words(**options):
        return WordPieceTokenizer(**options)._words("É\u0301é")

    assert unicodedata.normalize("NFC", "".join(words(lowercase=False))) == "É\u0301é"
    assert words() == ["ee"]
    assert words(lowercase=False, strip_accents=True) == ["Ee"]
    assert words(strip_accents=False) == ["é\u0301é"]
