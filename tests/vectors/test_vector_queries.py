"""Nearest words, analogies, directions and projections, on vectors made by hand."""

import numpy as np
import pytest

from kerasseq.models import WordVectors
from kerasseq.tracing.plots import plot_words

pytestmark = pytest.mark.once("NumPy alone")

# The first two numbers are the gender, the others the concept.
ROWS = {
    "man": [1, 0, 0.3, 0, 0],
    "woman": [0, 1, 0.3, 0, 0],
    "king": [1, 0, 0, 2, 0],
    "queen": [0, 1, 0, 2, 0],
    "actor": [1, 0, 0, 0, 2],
    "actress": [0, 1, 0, 0, 2],
    "crown": [0, 0, 0, 3, 0],
}
PAIRS = [("man", "woman"), ("king", "queen"), ("actor", "actress")]


@pytest.fixture(scope="module")
def model():
    return WordVectors.from_vectors(list(ROWS), np.array(list(ROWS.values())))


def unit(word):
    return np.array(ROWS[word]) / np.linalg.norm(ROWS[word])


def test_similarity_and_nearest(model):
    assert "king" in model and "kings" not in model
    np.testing.assert_allclose(model.vector("king"), ROWS["king"])
    np.testing.assert_array_equal(model["king"], model.vector("king"))
    with pytest.raises(TypeError, match='vector_size=5. Did you mean "dimensions"'):
        WordVectors(vector_size=5)
    with pytest.raises(AttributeError, match=r"Use nearest\(word\), or analogy"):
        model.most_similar("king")
    cosines = {word: unit(word) @ unit("king") for word in ROWS if word != "king"}
    found = model.nearest("king", 99)
    assert [n.word for n in found[:2]] == ["crown", "queen"]
    assert {n.word: pytest.approx(n.similarity, abs=1e-6) for n in found} == cosines
    assert model.similarity("king", "queen") == pytest.approx(cosines["queen"])
    assert model.nearest(model.vector("king"), 1)[0].word == "king"
    assert model.nearest("king", 1, exclude=["crown"])[0].word == "queen"


def test_analogies(model):
    assert model.analogy("man", "woman", "king")[0].word == "queen"
    assert model.analogy("queen", "king", "actress")[0].word == "actor"
    found = model.analogy("man", "woman", "king", 9)
    target = unit("woman") - unit("man") + unit("king")
    target /= np.linalg.norm(target)
    for word, similarity in found:
        assert similarity == pytest.approx(unit(word) @ target, abs=1e-6)
    assert {n.word for n in found} == set(ROWS) - {"man", "woman", "king"}
    questions = [(*a, *b) for a in PAIRS for b in PAIRS if a != b]
    score = model.analogy_score(questions)
    assert (score.accuracy, score.questions, score.chance) == (1, 6, 1 / 4)
    assert score.nearest == 2 / 6 or score.nearest < 1
    assert model.analogy_score([*questions, ("man", "men", "x", "y")]).questions == 6


def test_the_nearest_word_is_the_baseline(model):
    nearest = [model.nearest(c, 1, exclude=["man", "woman"])[0].word for c in ("king",)]
    assert nearest == ["crown"]
    score = model.analogy_score([("man", "woman", "king", "queen")])
    assert (score.accuracy, score.nearest) == (1, 0)
    assert model.analogy_score([("man", "woman", "king", "crown")])[:2] == (0, 1)


def test_directions(model):
    direction = model.direction(PAIRS[:2])
    expected = sum(unit(b) - unit(a) for a, b in PAIRS[:2])
    np.testing.assert_allclose(
        direction, expected / np.linalg.norm(expected), atol=1e-6
    )
    cosines = model.along(2 * direction, ["actor", "crown", "actress"])
    assert cosines[0] < -0.2 < abs(cosines[1]) < 0.3 < cosines[2] + 0.1
    np.testing.assert_allclose(cosines[2], unit("actress") @ direction, atol=1e-6)


def test_projections(model):
    sklearn = pytest.importorskip("sklearn.decomposition")
    words = ["king", "queen", "actor", "actress"]
    found = model.projection(words)
    assert found.words == words and found.points.shape == (4, 2)
    vectors = np.array([unit(word) for word in words], "float32")
    expected = sklearn.PCA(2).fit_transform(vectors)
    np.testing.assert_allclose(abs(found.points), abs(expected), atol=1e-5)
    assert model.projection(dimensions=3).points.shape == (7, 3)
    near = model.projection(method="tsne", seed=1)
    assert near.points.dtype == np.float32 and np.isfinite(near.points).all()
    with pytest.raises(ValueError, match="needs at least 3 words"):
        model.projection(["king", "queen"])


def test_plot_of_words():
    pytest.importorskip("matplotlib")
    figure = plot_words(np.eye(2), ["a", "b"], pairs=[("a", "b")], title="t")
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert labels == ["", "a", "b"] and figure.axes[0].get_title() == "t"
    for points, words in ((np.eye(2), ["a"]), (np.ones((2, 3)), ["a", "b"])):
        with pytest.raises(ValueError, match="points must have the shape"):
            plot_words(points, words)
    with pytest.raises(ValueError, match=r"of the words that are drawn, .*\['c'\]"):
        plot_words(np.eye(2), ["a", "b"], pairs=[("a", "c")])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.vector("kinng"), ValueError, "unknown word 'kinng': .* 7 words of "
         "the vocabulary. Similar ones are 'king'"),
        (lambda m: m.nearest("King"), ValueError, "Similar ones are 'king'."),
        (lambda m: m.analogy("man", "woman", "xyzzyx"), ValueError,
         r"unknown word 'xyzzyx': it is not among the 7 words of the vocabulary\.$"),
        (lambda m: m.vector(3), TypeError, "a word must be a string, received 3"),
        (lambda m: m.nearest(np.ones(4)), ValueError, r"shape \(5,\), received \(4,\)"),
        (lambda m: m.nearest("king", 0), ValueError, "count must be at least 1"),
        (lambda m: m.nearest("king", exclude="man"), TypeError, "`exclude` must be a"),
        (lambda m: m.analogy_score([("a", "b", "c")]), ValueError, "have four words"),
        (lambda m: m.analogy_score([("a", "b", "c", "d")]), ValueError,
         r"at least one question must have known words .*\['a', 'b', 'c'\]"),
        (lambda m: m.direction([]), ValueError, "pairs must be pairs of words"),
        (lambda m: m.direction(["man", "king"]), ValueError, "pairs must be pairs of"),
        (lambda m: m.along(np.ones(5), ["men"]), ValueError, "unknown word 'men'"),
        (lambda m: m.projection(method="umap"), ValueError, 'method="umap" is not one'),
        (lambda m: m.projection(dimensions=6), ValueError, "and as many dimensions"),
    ],
)  # fmt: skip
def test_refused(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


@pytest.mark.parametrize(
    ("words", "matrix", "message"),
    [
        (["a", "b"], np.eye(3), r"shape \(2, D\), .* received \(3, 3\)"),
        (["a", "b"], np.ones(2), r"shape \(2, D\)"),
        (["a"], np.ones((1, 2)), "at least two distinct words, received 1"),
        (["a", "a"], np.ones((2, 2)), "two distinct words, received 2, of which 1"),
    ],
)
def test_refused_vectors(words, matrix, message):
    with pytest.raises(ValueError, match=message):
        WordVectors.from_vectors(words, matrix)
    with pytest.raises(TypeError, match="words must be strings, received 3"):
        WordVectors.from_vectors([3, "a"], np.eye(2))
