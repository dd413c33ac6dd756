"""Byte-pair encoding: course E's example, a naive trainer, any text there and back."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.datasets import python_reference
from kerasseq.text import BytePairTokenizer
from kerasseq.text.tokenizers.bpe import apply_merges, learn, merge_pair

COURSE_E = [
    "This example is taken from the multitude of tokenizer examples explained on the "
    "Hugging Face courses.",
    "This is one example of tokenization.",
    "There is several tokenizer algorithms.",
    "Hopefully, you will be able to understand how they are trained and generate "
    "tokens.",
]
MERGES_E = (
    "Gt en er is ken Gto Ge Gex pl Go Gtoken Ga Th Gexa Gexam Gexampl Gexample Gis Gth"
)


def fitted_e():
    return BytePairTokenizer(50, special_tokens=["<|endoftext|>"], all_bytes=False).fit(
        COURSE_E
    )


def test_the_example_of_course_e():
    tokenizer = fitted_e()
    assert [m.token.replace("Ġ", "G") for m in tokenizer.trace()] == MERGES_E.split()
    assert tokenizer.vocabulary[0] == "<|endoftext|>"
    alphabet = tokenizer.vocabulary[1:31]
    assert "".join(alphabet) == ",.FHTabcdefghiklmnoprstuvwxyzĠ"
    assert tokenizer.vocabulary_size == 50
    pieces = [t.replace("Ġ", "G") for t in tokenizer.tokenize("This is not a token.")]
    assert pieces == ["Th", "is", "Gis", "G", "n", "o", "t", "Ga", "Gtoken", "."]


def test_the_words_and_pairs_that_course_e_counts():
    tokenizer = fitted_e()
    numbers = {w.strip(): n for w, n in tokenizer.word_counts(COURSE_E).items()}
    shown = {"This": 2, "example": 2, "is": 3, "the": 2, ".": 4, ",": 1, "tokens": 1}
    assert len(numbers) == 36 and shown.items() <= numbers.items()
    first, second, *_, last = tokenizer.steps(COURSE_E)
    assert first.words["Ġexample"] == [*"Ġexample"]
    shown = ["Th", "hi", "is", "Ġe", "ex", "xa", "am", "mp", "pl", "le", "Ġi", "Ġt"]
    counts = [3, 2, 5, 4, 4, 3, 3, 3, 4, 4, 3, 10]
    assert [first.pairs[tuple(pair)] for pair in shown] == counts
    assert first.merge == ("Ġ", "t", "Ġt", 10)
    assert second.words["Ġtrained"] == ["Ġt", *"rained"]
    assert second.words["Ġtokens"] == ["Ġt", *"okens"]
    assert last.merge is None and last.words["Ġtokens"] == ["Ġtoken", "s"]


def test_steps_count_what_training_counted():
    text = python_reference()[:3000]
    tokenizer = BytePairTokenizer(290).fit(text)
    steps = [*tokenizer.steps(text)]
    assert len(steps) == len(tokenizer.trace()) + 1 > 20
    for step in steps[:-1]:
        left, right, _, count = step.merge
        assert step.pairs[left, right] == max(step.pairs.values()) == count


def naive(words, vocabulary, size, min_count):
    """The definition: count everything anew, and take the first of the best."""
    words = {word: list(spelled) for word, spelled in words.items()}
    vocabulary, merges = list(vocabulary), []
    numbers = dict(zip(words, NUMBERS, strict=False))
    while len(vocabulary) < size:
        count = {}
        for word, symbols in words.items():
            for pair in pairwise(symbols):
                count[pair] = count.get(pair, 0) + numbers[word]
        if not count or max(count.values()) < min_count:
            break
        pair = max(count, key=count.get)  # the first, as a dictionary keeps order
        token = "".join(pair)
        if token not in vocabulary:
            vocabulary.append(token)
        merges.append((*pair, token, count[pair]))
        words = {w: merge_pair(symbols, pair, token) for w, symbols in words.items()}
    return vocabulary, merges


NUMBERS = [3, 1, 2, 2, 5, 1, 1, 4, 2, 1, 3]


@given(
    st.lists(st.text("abc", max_size=13), unique=True, max_size=11),
    st.integers(3, 23),
    st.integers(1, 3),
)
def test_learning_is_counting_everything_anew(words, size, min_count):
    words = {word: word for word in words}
    expected = naive(words, "abc", size, min_count)
    numbers = NUMBERS[: len(words)]
    vocabulary, merges = learn(words, numbers, "abc", size, min_count)
    assert (vocabulary, [tuple(m) for m in merges]) == expected


@given(
    st.lists(st.integers(0, 2), max_size=29),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=7, unique=True),
)
def test_merging_takes_the_earliest_merge_first(symbols, pairs):
    ranks = {pair: (rank, rank + 3) for rank, pair in enumerate(pairs)}
    expected = list(symbols)
    while known := [p for p in pairwise(expected) if p in ranks]:
        best = min(known, key=lambda pair: ranks[pair])
        at = list(pairwise(expected)).index(best)
        expected[at : at + 2] = [ranks[best][1]]
    assert apply_merges(symbols, ranks) == expected


BYTES = BytePairTokenizer(300, special_tokens=["<|end|>"]).fit(
    python_reference()[:9999]
)


@given(st.text())
def test_any_text_comes_back_from_bytes(text):
    ids = BYTES.encode(text)
    assert BYTES.decode(ids) == text
    ids, tokens, offsets = BYTES.encode_with_offsets(text)
    np.testing.assert_array_equal(ids, BYTES.encode(text))
    assert tokens == BYTES.tokenize(text)
    covered = sorted({n for a, b in offsets.tolist() for n in range(a, b)})
    assert covered == list(range(len(text)))


@given(st.text("ab c", max_size=31), st.sampled_from(["gpt2", "gpt4", "spaces", "b"]))
def test_known_characters_come_back(text, pattern):
    tokenizer = BytePairTokenizer(9, level="character", pattern=pattern)
    tokenizer.fit("ab cab cab  abab")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    offsets = tokenizer.encode_with_offsets(text).offsets
    assert "".join(text[a:b] for a, b in offsets.tolist()) == text


def test_tokens_of_half_a_character_share_its_place():
    tokenizer = BytePairTokenizer(256).fit("a")
    ids, _, offsets = tokenizer.encode_with_offsets("aé€")
    assert len(ids) == 1 + 2 + 3
    assert offsets.tolist() == [[0, 1], [1, 2], [1, 2], [2, 3], [2, 3], [2, 3]]
    assert tokenizer.decode(ids[:2]) == "a\ufffd"


def test_special_tokens_are_never_split_nor_learned_from():
    text = "ab<|end|>ab<|end|>ab"
    tokenizer = BytePairTokenizer(260, special_tokens=["<|end|>", "<|e"]).fit(text)
    assert [m.token for m in tokenizer.trace()] == ["ab"]
    assert tokenizer.tokenize("ab<|end|><|eb") == ["ab", "<|end|>", "<|e", "b"]
    ids, _, offsets = tokenizer.encode_with_offsets("ab<|end|>b")
    assert offsets.tolist() == [[0, 2], [2, 9], [9, 10]]
    assert tokenizer.decode(ids) == "ab<|end|>b"
    assert tokenizer.decode(ids, skip_special=True) == "abb"


def test_unknown_symbols():
    tokenizer = BytePairTokenizer(7, level="character", unknown="?").fit("abab")
    assert tokenizer.vocabulary[:3] == ["?", "a", "b"]
    assert tokenizer.tokenize("axb") == ["a", "?", "b"]
    assert tokenizer.encode_with_offsets("axyb").offsets.tolist()[1:3] == [
        [1, 2],
        [2, 3],
    ]
    assert tokenizer.unknown_characters("xayx") == {"x": 2, "y": 1}
    strict = BytePairTokenizer(7, level="character").fit("abab")
    with pytest.raises(ValueError, match="'x' in 'axb' was not in the training text"):
        strict.encode("axb")
    few = BytePairTokenizer(7, all_bytes=False).fit("abab")
    with pytest.raises(ValueError, match="'Ã' in 'é' was not"):
        few.encode("é")


def test_a_token_may_be_made_in_two_ways():
    # "aaa" is a + aa in one word and aa + a in another.
    tokenizer = BytePairTokenizer(5, level="character", min_count=1).fit("aaa aaa baaa")
    assert len(set(tokenizer.vocabulary)) == tokenizer.vocabulary_size == 5
    assert tokenizer.decode(tokenizer.encode("baaa aaa")) == "baaa aaa"


def test_words_without_end_are_encoded_in_good_time():
    tokenizer = BytePairTokenizer(300).fit("ab" * 5000 + " abc" * 50)
    ids = tokenizer.encode("ab" * 50_000)
    assert tokenizer.decode(ids) == "ab" * 50_000


def test_batches():
    tokenizer = BytePairTokenizer(257, special_tokens=["<pad>"]).fit("x")
    ids, mask = tokenizer.encode_batch(["abc", "", "a"])
    a, b, c = tokenizer.encode("abc")
    assert ids.tolist() == [[a, b, c], [0, 0, 0], [a, 0, 0]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    left = tokenizer.encode_batch(["abc", "a"], length=2, pad="left", truncate="left")
    assert left.ids.tolist() == [[b, c], [0, a]]
    assert left.mask.tolist() == [[True, True], [False, True]]
    assert tokenizer.encode_batch(["abc"], length=2).ids.tolist() == [[a, b]]
    assert tokenizer.encode_batch([]).ids.shape == (0, 0)
    assert tokenizer.encode_batch("abc").ids.shape[0] == 1
    with pytest.raises(ValueError, match='pad="rigth" is not one of'):
        tokenizer.encode_batch(["a"], pad="rigth")


def test_saved_and_loaded(tmp_path):
    tokenizer = fitted_e()
    tokenizer.save(tmp_path / "e.json")
    again = BytePairTokenizer.load(tmp_path / "e.json")
    assert again == tokenizer and again.trace() == tokenizer.trace()
    assert again.tokenize(COURSE_E[0]) == tokenizer.tokenize(COURSE_E[0])
    assert again != BytePairTokenizer(256).fit("abc abc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"merges": [["a", "q", 1]]}, "merge number 0 must be a pair of tokens.*'q'"),
        ({"merges": [["a"]]}, r"merges\[0\]: expected a list of 3"),
        ({"merges": ["ab"]}, r"merges\[0\]: expected a list"),
        ({"vocabulary": ["a", "a"]}, "distinct strings"),
        ({"vocabulary": [1, 2]}, r"vocabulary\[0\]: expected a string"),
        ({"level": "word"}, 'level="word" is not one of'),
        ({"special_tokens": ["<x>"]}, "lacks the special tokens"),
        ({"more": 1}, "expected the key"),
    ],
)
def test_damaged_configurations(change, message):
    config = {**fitted_e().get_config(), **change}
    with pytest.raises((TypeError, ValueError), match=message):
        BytePairTokenizer.from_config(config)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="at least 256, .*vocabulary_size=255"):
        BytePairTokenizer(255).fit("a")
    with pytest.raises(
        ValueError, match="vocabulary_size must be at least 1, received 0"
    ):
        BytePairTokenizer(0)
    with pytest.raises(ValueError, match="min_count must be at least 1, received -1"):
        BytePairTokenizer(min_count=-1)
    with pytest.raises(ValueError, match=r"pattern='gpt\(' is neither .*gpt2"):
        BytePairTokenizer(pattern="gpt(").fit("a")
    with pytest.raises(TypeError, match="pattern must be a string"):
        BytePairTokenizer(pattern=3)
    with pytest.raises(TypeError, match="special_tokens must be a list"):
        BytePairTokenizer(special_tokens="<s>")
    with pytest.raises(ValueError, match="special_tokens must be distinct"):
        BytePairTokenizer(special_tokens=["<s>", "<s>"])
    with pytest.raises(ValueError, match="a special token must be a string"):
        BytePairTokenizer(special_tokens=[""])
    with pytest.raises(ValueError, match="is not fitted. Call `fit"):
        BytePairTokenizer().encode("a")
    for empty in ("", [], ["", ""]):
        with pytest.raises(ValueError, match="`text` is empty"):
            BytePairTokenizer().fit(empty)
    with pytest.raises(TypeError, match="number 1 is int"):
        BytePairTokenizer().fit(["a", 1])
    with pytest.raises(ValueError, match="half a surrogate pair.*at position 2"):
        BYTES.encode("ab\ud800")
    with pytest.raises(ValueError, match="outside the vocabulary"):
        BYTES.decode([300])
    with pytest.raises(KeyError, match="'zzz' is not in the vocabulary"):
        BYTES.id_of("zzz")


def test_a_failed_fit_leaves_the_tokenizer_as_it_was():
    tokenizer = BytePairTokenizer(260).fit("abab abab")
    before = tokenizer.get_config()
    with pytest.raises(ValueError, match="surrogate"):
        tokenizer.fit("\udc00")
    assert tokenizer.get_config() == before


def test_without_the_package_regex(monkeypatch):
    from kerasseq.text.tokenizers import splitting

    splitting.expression_of.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "regex", None)
    with pytest.raises(ImportError, match="In this environment: pip install regex"):
        BytePairTokenizer().fit("a")
    splitting.expression_of.cache_clear()


def test_characters_with_bytes_for_the_others(tmp_path):
    text = "low lower lowest  low\n" * 3
    options = {"level": "sentencepiece", "special_tokens": ["<s>"]}
    tokenizer = BytePairTokenizer(271, **options).fit(text)
    assert tokenizer.vocabulary[:2] == ["<s>", "<0x00>"]
    assert tokenizer.trace()[0].token == "lo"
    assert tokenizer.tokenize("low") == tokenizer.tokenize(" low")[1:] == ["▁low"]
    for one in (text, "", " ", "<0x41> Ab", "北京\x00 é", "\U0001f642  \ud7ff"):
        assert tokenizer.decode(tokenizer.encode(one)) == one
        offsets = tokenizer.encode_with_offsets(one).offsets
        assert one == "" or (offsets[0, 0], offsets[-1, 1]) == (0, len(one))
    tokenizer.save(tmp_path / "t.json")
    assert BytePairTokenizer.load(tmp_path / "t.json") == tokenizer
    with pytest.raises(ValueError, match="vocabulary_size must be at least 266"):
        BytePairTokenizer(265, **options).fit(text)


def test_marks_of_ends_of_words_as_on_the_slide():
    text = "Paul est " * 20 + "basketteur basketball baskets facteur moteur " * 4
    marks = {"end_of_word": "_"}
    assert BytePairTokenizer(**marks).level == "character"
    tokenizer = BytePairTokenizer(37, **marks).fit(text)
    pieces = tokenizer.tokenize("Paul est basketteur")
    assert pieces == ["Paul_", "est_", "basket", "teur"]
    assert tokenizer.decode(tokenizer.encode("Paul est basketteur")) == (
        "Paul est basketteur"
    )
    again = type(tokenizer).from_own_config(tokenizer.own_config())
    assert again.end_of_word == "_" and again.tokenize("Paul est") == ["Paul_", "est"]
    offsets = tokenizer.encode_with_offsets("Paul est ").offsets
    assert offsets.tolist() == [[0, 5], [5, 9]]
    # Merges are those of the same text with the mark in place of spaces.
    plain = BytePairTokenizer(37, level="character", pattern=r"[^_\n]+_?|\n|_")
    plain.fit(text.replace(" ", "_"))
    assert plain.vocabulary == tokenizer.vocabulary
    assert plain.trace() == tokenizer.trace()


@given(st.text("ab \n\t", max_size=31))
def test_marks_of_ends_of_words_lose_nothing(text):
    tokenizer = BytePairTokenizer(
        11, level="character", end_of_word="_", min_count=1
    ).fit("ab a b \n\tab")
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"end_of_word": "</w>"}, ValueError, "one character that is no space"),
        ({"end_of_word": " "}, ValueError, "one character that is no space"),
        ({"end_of_word": 7}, TypeError, "end_of_word must be a character, received 7"),
        ({"end_of_word": "_", "level": "byte"}, ValueError, 'level="character"'),
    ],
)
def test_wrong_marks_of_ends_of_words(options, error, message):
    with pytest.raises(error, match=message):
        BytePairTokenizer(99, **{"level": "character", **options})
