"""Text in, text out: tokenizers, transition matrix, Shannon's series."""

import math
import re
from collections import Counter

import numpy as np
import pytest

from kerasseq.datasets import python_reference
from kerasseq.text import CharacterTokenizer, NGramModel, shannon_series


class Words:
    """The least that a tokenizer must be."""

    words = ()

    @property
    def vocabulary_size(self):
        return len(self.words)

    def fit(self, text):
        self.words = sorted(set(text.split()))
        return self

    def encode(self, text):
        return np.array([self.words.index(word) for word in text.split()], int)

    def decode(self, ids):
        return " ".join(self.words[i] for i in ids)


RHYME = "the cat sat on the mat the dog sat on the cat"


def test_words():
    model = NGramModel(2, k=0, tokenizer=Words()).fit(RHYME)
    words = model.tokenizer.words
    assert words == ["cat", "dog", "mat", "on", "sat", "the"]
    row = dict(zip(words, model.probabilities("sat on the"), strict=True))
    assert row == {"cat": 0.5, "dog": 0.25, "mat": 0.25, "on": 0, "sat": 0, "the": 0}
    assert model.generate("dog sat", 2, temperature=0) == "dog sat on the"
    boldest = {model.generate("on", 2, temperature=0, seed=i) for i in range(9)}
    assert boldest == {"on the cat"}
    text = model.generate("", 19, seed=3).split()
    assert len(text) == 19
    pairs = set(zip(RHYME.split(), RHYME.split()[1:], strict=False))
    assert set(zip(text, text[1:], strict=False)) <= pairs
    assert model.generate("", 19, seed=3).split() == text
    assert model.generate("", 19, seed=4).split() != text
    # 4 of 12 words are "the"; half of what follows it is "cat"; then "sat" always.
    assert math.isclose(model.perplexity("the cat sat"), (4 / 12 * 0.5) ** (-1 / 3))


def test_text_and_ids_are_the_same():
    tokenizer = CharacterTokenizer()
    model = NGramModel(3, smoothing="kneser_ney", tokenizer=tokenizer).fit(RHYME)
    ids, size = tokenizer.encode(RHYME), tokenizer.vocabulary_size
    plain = NGramModel(3, smoothing="kneser_ney").fit(ids, size)
    for same in (model, NGramModel(3, smoothing="kneser_ney", tokenizer=tokenizer)):
        same.fit(ids)
        assert same.vocabulary_size == size
        np.testing.assert_array_equal(
            same.log_probabilities("the dog"), plain.log_probabilities(ids[23:30])
        )
        assert same.bits_per_token("dog") == plain.bits_per_token(ids[27:30])
        np.testing.assert_array_equal(
            same.sample(7, prompt="th", seed=0),
            plain.sample(7, prompt=ids[:2], seed=0),
        )
        np.testing.assert_array_equal(
            same.probabilities("at"), plain.probabilities(tokenizer.encode("at"))
        )
    text = model.generate("th", 7, seed=0)
    assert text == "th" + tokenizer.decode(model.sample(7, prompt="th", seed=0))


def test_a_tokenizer_that_has_learned_keeps_its_vocabulary():
    tokenizer = CharacterTokenizer(unknown="?").fit("abcd")
    model = NGramModel(2, tokenizer=tokenizer).fit("abxab")
    assert model.vocabulary_size == 5
    assert tokenizer.characters == list("abcd")
    assert model.probabilities("b")[4] == 2 / 6
    model.fit("bbbb")  # a second fit replaces the counts
    assert model.probabilities("a").tolist() == [0.2] * 5


def test_course_d_in_words():
    # The seven probabilities of the slide, as frequencies of words in thousandths.
    counts = {"I": 20, "am": 350, "so": 290, "very": 5, "glad": 60, "now": 265}
    counts["well"] = 10
    text = " ".join(word for word, count in counts.items() for _ in range(count))
    model = NGramModel(1, k=0, tokenizer=Words()).fit(text)
    sentence = "well I am so very glad well"
    product = math.exp(model.log_probabilities(sentence).sum())
    exact = 0.01 * 0.02 * 0.35 * 0.29 * 0.005 * 0.06 * 0.01
    assert math.isclose(product, exact, rel_tol=1e-12)
    assert f"{product:.2e}" == "6.09e-11"
    assert round(model.perplexity(sentence), 3) == 28.797


@pytest.mark.parametrize("smoothing", ["add_k", "backoff", "kneser_ney"])
def test_five_equal_words_surprise_by_ln_5(smoothing):
    model = NGramModel(1, smoothing=smoothing, tokenizer=Words()).fit("a b c d e")
    assert round(model.cross_entropy("e a c"), 4) == 1.6094
    assert math.isclose(model.cross_entropy("b"), -math.log(0.2))


def test_the_transition_matrix_is_the_relative_counts():
    ids = np.random.default_rng(0).integers(0, 7, 97)
    matrix = NGramModel(2, k=0).fit(ids, 11).transition_matrix()
    assert matrix.shape == (11, 11)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    pairs = Counter(zip(ids.tolist(), ids[1:].tolist(), strict=False))
    for i in range(7):
        total = sum(pairs[i, j] for j in range(7))
        expected = [pairs[i, j] / total for j in range(11)]
        np.testing.assert_allclose(matrix[i], expected, atol=1e-12)
    np.testing.assert_allclose(matrix[7:], 1 / 11)  # never seen
    model = NGramModel(2, smoothing="kneser_ney").fit(ids, 11)
    np.testing.assert_array_equal(
        model.transition_matrix()[3], model.probabilities(3 * [3])
    )
    with pytest.raises(ValueError, match="needs n = 2, received n = 3"):
        NGramModel(3).fit(ids, 11).transition_matrix()
    with pytest.raises(ValueError, match="Call `fit"):
        NGramModel(2).transition_matrix()


def test_shannons_series_has_the_statistics_of_its_order():
    text = re.sub("[^A-Z]+", " ", python_reference()[:50_000].upper())
    series = shannon_series(text, length=4_001, seed=0)
    assert list(series) == [0, 1, 2, 3]
    assert all(len(written) == 4_001 for written in series.values())
    # What an order writes is made of grams of the text; the next longer ones are not.
    circle = text + text[:3]
    for order, written in series.items():
        for n in (1, 2, 3):
            grams = {circle[i : i + n] for i in range(len(circle) - n + 1)}
            own = {written[i : i + n] for i in range(len(written) - n + 1)}
            assert (own <= grams) == (n <= max(order, 1))
    # Zero: all alike. First: as frequent as in the text.
    alphabet = sorted(set(text))
    assert len(alphabet) == 27
    share = [[series[i].count(c) / 4_001 for c in alphabet] for i in (0, 1)]
    np.testing.assert_allclose(share[0], 1 / 27, atol=0.015)
    expected = [text.count(c) / len(text) for c in alphabet]
    np.testing.assert_allclose(share[1], expected, atol=0.03)
    # The higher the order, the less a model of the text is surprised.
    judge = NGramModel(4, smoothing="kneser_ney", tokenizer=CharacterTokenizer())
    judge.fit(text)
    bits = [judge.bits_per_token(written) for written in series.values()]
    assert bits == sorted(bits, reverse=True)


def test_shannons_series_in_words_repeats_by_seed_and_never_ends():
    # Nothing follows the last word; read as a circle, the first one does.
    text = f"{RHYME} there"
    one = shannon_series(text, Words(), orders=(2, 1), length=199, seed=5)
    assert list(one) == [2, 1]
    assert one[1] == shannon_series(text, Words(), orders=[1], length=199, seed=5)[1]
    assert one != shannon_series(text, Words(), orders=(2, 1), length=199, seed=6)
    words = text.split()
    pairs = {*zip(words, words[1:], strict=False), (words[-1], words[0])}
    written = one[2].split()
    assert len(written) == 199
    assert set(zip(written, written[1:], strict=False)) <= pairs
    assert shannon_series("ab" * 5, length=3)[2] in ("aba", "bab")
    learned = CharacterTokenizer().fit("abc")
    assert set(shannon_series("abab", learned, orders=[0], length=99)[0]) == {"a", "b"}


def test_wrong_text():
    plain = NGramModel(2).fit([0, 1], 2)
    for use, name in (
        (NGramModel(2).fit, "ids"),
        (plain.perplexity, "ids"),
        (plain.probabilities, "context"),
        (lambda text: plain.sample(1, prompt=text), "prompt"),
    ):
        with pytest.raises(TypeError, match=f"`{name}` is a string, .*no tokenizer"):
            use("text")
    with pytest.raises(ValueError, match="generate needs a tokenizer.*`sample`"):
        plain.generate("", 3)
    for tokenizer in ("word", CharacterTokenizer, object()):
        with pytest.raises(TypeError, match="tokenizer must be a tokenizer"):
            NGramModel(2, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="`vocabulary_size` is required"):
        NGramModel(2).fit([0, 1])
    with pytest.raises(ValueError, match="the tokenizer is not fitted"):
        NGramModel(2, tokenizer=Words()).fit([0, 1])
    model = NGramModel(3, tokenizer=CharacterTokenizer(unknown=None))
    for use in (model.perplexity, model.probabilities):
        with pytest.raises(ValueError, match="Call `fit"):
            use("text")
    with pytest.raises(ValueError, match="2 tokens, fewer than n = 3: pass a longer"):
        model.fit("ab")
    with pytest.raises(ValueError, match="is empty"):
        NGramModel(3, tokenizer=CharacterTokenizer()).fit("")
    with pytest.raises(ValueError, match="is 5, but the tokenizer has 2 ids"):
        model.fit("abab", 5)
    model.fit("abab", 2)
    with pytest.raises(ValueError, match="'c' at position 2"):
        model.perplexity("abc")
    with pytest.raises(ValueError, match="holds 2 at position 1.*0 to 1"):
        model.perplexity([0, 2])


def test_wrong_series():
    with pytest.raises(ValueError, match="an order must be at least 0, received -1"):
        shannon_series("abc", orders=[-1])
    with pytest.raises(ValueError, match="at least 4 tokens for order 4, received 3"):
        shannon_series("abc", orders=(1, 4))
    with pytest.raises(TypeError, match="`text` must be a string"):
        shannon_series([0, 1])
    with pytest.raises(TypeError, match="tokenizer must be a tokenizer"):
        shannon_series("abc", "word")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"smoothing": "kneserney"}, ValueError, 'Did you mean "kneser_ney"'),
        ({"smoothing": "katz"}, ValueError, '"add_k", "backoff", "kneser_ney"'),
        ({"discount": 0.5}, ValueError, 'not used by smoothing="add_k"'),
        (
            {"smoothing": "backoff", "k": 0.1},
            ValueError,
            "not used by .* received 0.1",
        ),
        ({"smoothing": "backoff", "discount": 0}, ValueError, "above 0 and below 1"),
        ({"smoothing": "backoff", "discount": 1}, ValueError, "above 0 and below 1"),
        ({"smoothing": "backoff", "discount": -1}, ValueError, "`discount`.*-1"),
        ({"smoothing": "backoff", "discount": "a"}, TypeError, "`discount`.*'a'"),
        (
            {"k": -0.5},
            ValueError,
            "zero or a positive number, received -0.5",
        ),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        NGramModel(2, **options)
