import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.text import WordTokenizer
from kerasseq.text.words import find_places, find_words

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)))
# Letters with marks before and after composition, Korean in parts, what grows in small
# letters (İ), shrinks or grows in composed form.
TRICKY = st.text(
    st.sampled_from("aé\u0301\u0323eİΣs'’ ,.(!가\u1100\u1161\u11a8क\u093c\u0958")
)


def test_vocabulary_by_frequency_then_first_seen():
    tokenizer = WordTokenizer(special_tokens=["<s>"]).fit("c b, a b <s> c! Don’t")
    assert tokenizer.vocabulary == [
        *("<unk>", "<s>"),
        *("c", "b", ",", "a", "!", "Don't"),
    ]
    assert WordTokenizer(4, unknown=None).fit("c b a b a a d").vocabulary == [
        *("a", "b", "c", "d"),
    ]
    assert WordTokenizer(3).fit("c b a b a a d").vocabulary == ["<unk>", "a", "b"]
    assert WordTokenizer(min_count=2).fit(["a b", "a"]).vocabulary == ["<unk>", "a"]
    lower = WordTokenizer(lowercase=True).fit("The the THE cat")
    assert lower.vocabulary == ["<unk>", "the", "cat"]
    assert lower.encode("tHE Cat dog").tolist() == [1, 2, 0]


def test_a_special_token_is_no_word_too():
    tokenizer = WordTokenizer(unknown="unk", lowercase=True).fit("UNK a unk a b")
    assert tokenizer.vocabulary == ["unk", "a", "b"]


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.one_of(ANY_TEXT, TRICKY), st.booleans())
def test_places_are_those_of_the_words(text, lowercase):
    places = find_places(text, lowercase=lowercase)
    words = find_words(text, lowercase=lowercase, punctuation=True)
    assert [word for word, _, _ in places] == words
    assert all(0 <= start < end <= len(text) for _, start, end in places)
    assert [start for _, start, _ in places] == sorted(s for _, s, _ in places)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(TRICKY, st.booleans())
def test_a_word_is_what_stands_at_its_place(text, lowercase):
    for word, start, end in find_places(text, lowercase=lowercase):
        piece = text[start:end].lower() if lowercase else text[start:end]
        piece = unicodedata.normalize("NFC", piece).replace("’", "'")
        # Which small sigma it is depends on what stands around.
        assert piece.replace("ς", "σ") == word.replace("ς", "σ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x e\u0301a, y", [("x", 0, 1), ("éa", 2, 5), (",", 5, 6), ("y", 7, 8)]),
        ("don’t", [("don't", 0, 5)]),
        ("İz İ!", [("i\u0307z", 0, 2), ("i\u0307", 3, 4), ("!", 4, 5)]),
        ("=\u0338 b", [("≠", 0, 2), ("b", 3, 4)]),
        (",\u0301\u0301b", [(",", 0, 1), ("\u0301\u0301b", 1, 4)]),
        ("\u0958 b", [("क\u093c", 0, 1), ("b", 2, 3)]),  # comes apart in composed form
        ("\u1100\u1161\u11a8 b", [("각", 0, 3), ("b", 4, 5)]),
        ("ΑΣ Σ", [("ας", 0, 2), ("σ", 3, 4)]),
        ("😀é", [("😀", 0, 1), ("é", 1, 2)]),
        # A note that becomes a sign and its mark, which are two words of one character.
        ("\U0001d15e b", [("𝅗", 0, 1), ("\U0001d165", 0, 1), ("b", 2, 3)]),
        ("", []),
    ],
)
def test_places(text, expected):
    assert find_places(text, lowercase=True) == expected


def test_offsets_among_special_tokens():
    tokenizer = WordTokenizer(special_tokens=["<s>"]).fit("e\u0301 b")
    encoding = tokenizer.encode_with_offsets("x<s>e\u0301 b<s>")
    assert encoding.tokens == ["<unk>", "<s>", "é", "b", "<s>"]
    assert encoding.offsets.tolist() == [[0, 1], [1, 4], [4, 6], [7, 8], [8, 11]]
    assert tokenizer.encode("x<s>e\u0301 b<s>").tolist() == encoding.ids.tolist()


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.one_of(ANY_TEXT, TRICKY), st.booleans())
def test_decoded_text_has_the_same_words(text, lowercase):
    words = find_words(text, lowercase=lowercase, punctuation=True)
    if not words:
        return
    tokenizer = WordTokenizer(unknown=None, lowercase=lowercase).fit(text)
    ids = tokenizer.encode(text)
    decoded = tokenizer.decode(ids)
    assert find_words(decoded, lowercase=lowercase, punctuation=True) == words
    assert tokenizer.encode(decoded).tolist() == ids.tolist()
    assert [tokenizer.vocabulary[i] for i in ids] == words
    shown = [tokenizer.decode(ids[:n]) for n in range(len(ids))]
    assert all(decoded.startswith(each) for each in shown)  # while it is generated
    config = json.loads(json.dumps(tokenizer.get_config()))
    assert WordTokenizer.from_config(config) == tokenizer


@pytest.mark.parametrize(
    "text",
    [
        "au-dessus d'un arc-en-ciel, n'est-ce pas?",
        "l'homme, l' homme, qu' <x> et don't",
        "3.5 kg at 9:30, in 1990, and 1, 2, 3",
        'He said: "no", and "no (not) again".',
        "'no', and: 'never' “so” (so)",
        "„ja“, „so“ nein",
        "a 5-3-2 well-known <x>-like one",
        "5 % of 3, 5… no. No: 12: 5",
    ],
)
def test_decode_joins_what_belongs_together(text):
    tokenizer = WordTokenizer(special_tokens=["<x>"]).fit(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a - b", "a-b"),
        ("Va ! « Oui » : 3,5", "Va! « Oui »: 3, 5"),
        ("rock 'n' roll, the dogs' bone", "rock ' n' roll, the dogs ' bone"),
        ('a 5" nail', 'a 5 "nail'),
        ("- Non - dit-il", "- Non-dit-il"),
    ],
)
def test_decode_cannot_restore_what_tokens_do_not_tell(text, expected):
    tokenizer = WordTokenizer().fit(text)
    assert tokenizer.decode(tokenizer.encode(text)) == expected


def test_decode_puts_spaces_where_they_belong():
    text = 'He  said:\n"No ( never ), don’t!" [1] {x}… a;b?'
    tokenizer = WordTokenizer().fit(text)
    expected = 'He said: "No (never), don\'t!" [1] {x}… a; b?'
    assert tokenizer.decode(tokenizer.encode(text)) == expected
    ids = tokenizer.encode("He zzz never")
    assert tokenizer.decode(ids) == "He <unk> never"
    assert tokenizer.decode(ids, skip_special=True) == "He never"
    assert tokenizer.decode([]) == ""


def test_unknown_words_are_counted():
    tokenizer = WordTokenizer(lowercase=True).fit("yes, no")
    text = "We say no, we <unk>"
    assert tokenizer.unknown_words(text) == {"we": 2, "say": 1}
    strict = WordTokenizer(unknown=None, lowercase=True).fit("yes, no")
    assert strict.unknown_words("We say no, we") == {"we": 2, "say": 1}


def test_an_unseen_word_is_an_error_without_an_unknown_token():
    tokenizer = WordTokenizer(unknown=None, special_tokens=["<s>"]).fit("a e\u0301")
    assert tokenizer.encode("é <s>a").tolist() == [2, 0, 1]
    for use in (tokenizer.encode, tokenizer.encode_with_offsets, tokenizer.tokenize):
        with pytest.raises(ValueError, match="word 'zebra' at position 9 is not"):
            use("e\u0301 <s> a zebra yak")
    with pytest.raises(ValueError, match="word '!' at position 3"):
        tokenizer.encode_batch(["a", "é a!"])


def test_save_and_load(tmp_path):
    tokenizer = WordTokenizer(5, lowercase=True, special_tokens=["<s>"]).fit("a b É c")
    tokenizer.save(tmp_path / "t.json")
    loaded = WordTokenizer.load(tmp_path / "t.json")
    assert loaded == tokenizer
    assert loaded.vocabulary == ["<unk>", "<s>", "a", "b", "é"]
    assert loaded.encode("é b x").tolist() == [4, 3, 0]
    assert loaded.fit("x") == tokenizer.fit("x")
    fresh = WordTokenizer.from_config(WordTokenizer().get_config())
    assert fresh == WordTokenizer()
    assert fresh != tokenizer


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"vocabulary_size": 0}, ValueError, "vocabulary_size"),
        ({"min_count": "2"}, TypeError, "min_count"),
        ({"lowercase": None}, TypeError, "lowercase"),
        ({"unknown": 3}, TypeError, "unknown"),
        ({"unknown": ""}, ValueError, "special token"),
        ({"unknown": "<x>"}, ValueError, r"lacks .*\['<x>'\]"),
        ({"special_tokens": "<s>"}, TypeError, "special_tokens"),
        ({"special_tokens": ["<unk>", "<unk>"]}, ValueError, "distinct"),
        ({"vocabulary": {}}, TypeError, "vocabulary: expected a list"),
        ({"vocabulary": ["<unk>", "a", "a"]}, ValueError, "'a' .* number 1 and 2"),
        ({"vocabulary": ["<unk>", None]}, TypeError, r"vocabulary\[1\]: .* None"),
        ({"words": 1}, ValueError, "expected the key"),
    ],
)
def test_damaged_configs(change, error, message):
    config = WordTokenizer().fit("a b").get_config()
    with pytest.raises(error, match=message):
        WordTokenizer.from_config({**config, **change})


def test_a_config_without_a_key():
    for key in WordTokenizer().get_config():
        config = WordTokenizer().fit("a b").get_config()
        del config[key]
        with pytest.raises(ValueError, match="expected the key"):
            WordTokenizer.from_config(config)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="vocabulary_size must be at least 3"):
        WordTokenizer(2, special_tokens=["<s>"]).fit("a")
    with pytest.raises(ValueError, match="at most 2, .*min_count=3"):
        WordTokenizer(min_count=3).fit("a b a")
    with pytest.raises(ValueError, match="no words"):
        WordTokenizer().fit([" ", "\n"])
    with pytest.raises(ValueError, match="surrogate pair.* at position 2"):
        WordTokenizer().fit(["a", "b \udc00"])
    with pytest.raises(ValueError, match="empty"):
        WordTokenizer().fit([])
    with pytest.raises(TypeError, match="number 1 is int"):
        WordTokenizer().fit(["a", 3])
    with pytest.raises(TypeError, match="vocabulary_size"):
        WordTokenizer("a text")
    for use in ("encode", "encode_with_offsets", "unknown_words"):
        with pytest.raises(ValueError, match="is not fitted"):
            getattr(WordTokenizer(), use)("a")
        with pytest.raises(TypeError, match="must be a string"):
            getattr(WordTokenizer().fit("a"), use)(b"a")
