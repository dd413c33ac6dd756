"""Word vectors: updates equal NumPy's of the equation, training, saving, embeddings."""

import itertools

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels
from kerasseq.models import SequenceClassifier, WordVectors
from kerasseq.text import WordTokenizer
from kerasseq.vectors import steps as vector_steps

pytestmark = pytest.mark.once("the result does not depend on the backend")

TEXT = ["a b c d a", "b e c", "f a b c g d e f a b", "d"] * 5  # 95 words
METHODS = ("skip_gram", "cbow", "glove")
TINY = {"dimensions": 3, "window": 2, "min_count": 1, "subsample": None}


def tiny(method="skip_gram", **options):
    return WordVectors(method, **{**TINY, "negatives": 2, "seed": 3, **options})


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sampled_update(v, u, part, rate, method):
    """One update of skip-gram or CBOW: a loop over the pairs, as in the papers."""
    new_v, new_u, loss, count = v.copy(), u.copy(), 0.0, 0
    for n, i in np.ndindex(part["centers"].shape):
        center, negatives = part["centers"][n, i], part["negatives"][n, i]
        contexts = part["contexts"][n][part["mask"][n, i]]
        if not len(contexts):
            continue
        if method == "cbow":
            h = v[contexts].mean(axis=0)
            pairs = [(center, 1)] + [(k, 0) for k in negatives if k != center]
            for word, label in pairs:
                p = sigmoid(u[word] @ h)
                loss -= np.log(p if label else 1 - p)
                new_u[word] -= rate * (p - label) * h
                for j in contexts:
                    new_v[j] -= rate * (p - label) * u[word] / len(contexts)
            count += 1
            continue
        for o in contexts:
            pairs = [(o, 1)] + [(k, 0) for k in negatives if k != o]
            for word, label in pairs:
                p = sigmoid(u[word] @ v[center])
                loss -= np.log(p if label else 1 - p)
                new_u[word] -= rate * (p - label) * v[center]
                new_v[center] -= rate * (p - label) * u[word]
            count += 1
    return [new_v, new_u], loss, count


def glove_update(tables, squares, part, rate):
    """One update of GloVe by AdaGrad, in place."""
    w, w_, b, b_ = (table.copy() for table in tables)
    loss, gradients = 0.0, [[] for _ in tables]
    for i, j, x, f in zip(*(part[n] for n in part), strict=True):
        d = w[i] @ w_[j] + b[i] + b_[j] - x
        loss += f * d**2
        parts = (w_[j], w[i], 1.0, 1.0)
        for found, row, factor in zip(gradients, (i, j, i, j), parts, strict=True):
            found.append((row, 2 * f * d * factor))
    for table, G, found in zip(tables, squares, gradients, strict=True):
        for row, g in found:
            G[row] += g**2
        for row, g in found:
            table[row] -= rate * g / np.sqrt(G[row])
    return loss, len(part["words"])


@pytest.mark.everywhere("each backend has its own updates")
@pytest.mark.parametrize("method", METHODS)
def test_updates_are_those_of_the_equation(method):
    model = tiny(method)
    batches = model.batches(TEXT, batch_size=8 if method == "glove" else 32)
    assert batches.updates > 1
    if method != "glove":  # zeros would hide faults
        model.u.assign(np.random.default_rng(0).normal(size=model.u.shape))
    before = [np.array(w, "float64") for w in model.get_weights()]
    model.compile(0.3)
    history = model.fit(batches.stream(), epochs=1, steps_per_epoch=1, verbose=0)
    batch = next(batches.stream())[0]
    total, counts = 0.0, 0
    tables = before[: 4 if method == "glove" else 2]
    for s in range(batches.updates):
        part = {name: array[s] for name, array in batch.items()}
        if method == "glove":
            order = ("words", "contexts", "log_counts", "weights")
            part = {name: part[name] for name in order}
            loss, count = glove_update(tables, before[4:], part, 0.3)
        else:
            rate = 0.3 * float(part["rate"])
            tables, loss, count = sampled_update(*tables, part, rate, method)
        total, counts = total + loss, counts + count
    for found, expected in zip(model.get_weights(), tables, strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert history.history["loss"][0] == pytest.approx(total / counts, rel=1e-4)
    assert int(model.optimizer.iterations) == batches.updates


@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_rows_are_the_dense_gradient(method):
    """The gradient of the whole tables, by differentiation of the loss."""
    model = tiny(method)
    size = 8 if method == "glove" else 32
    batch = next(model.batches(TEXT, batch_size=size).stream())[0]
    part = {name: array[1] for name, array in batch.items()}
    rng = np.random.default_rng(1)
    shapes = [(7, 3), (7, 3), (7,), (7,)][: 4 if method == "glove" else 2]
    tables = [rng.normal(size=shape).astype("float32") for shape in shapes]
    if method == "glove":
        i, j = part["words"], part["contexts"]
        rest = (part["weights"], part["log_counts"])
        rows = (i, j, i, j)
    else:
        v_rows, u_rows = part["centers"], part["contexts"]
        rest = (part["mask"].astype("float32"), part["weights"])
        rows = (v_rows, u_rows, part["negatives"])

    rest = list(map(keras.ops.convert_to_tensor, rest))

    def gathered(tables):
        if method == "glove":
            used = tables
        elif method == "skip_gram":
            used = (tables[0], tables[1], tables[1])
        else:
            used = (tables[1], tables[0], tables[1])
        pairs = zip(used, rows, strict=True)
        return [keras.ops.take(table, row, axis=0) for table, row in pairs]

    function = getattr(vector_steps, method)
    dense = kernels.gradients(lambda t: function(*gathered(t), *rest)[0], tables)
    dense = list(map(keras.ops.convert_to_numpy, dense))
    found = function(*gathered(tables), *rest)
    parts = [*found[1], found[2], found[2]] if method == "glove" else found[1:]
    targets = {"glove": (0, 1, 2, 3), "skip_gram": (0, 1, 1), "cbow": (1, 0, 1)}[method]
    sums = [np.zeros(shape, "float32") for shape in shapes]
    for target, row, gradient in zip(targets, rows, parts, strict=True):
        gradient = keras.ops.convert_to_numpy(gradient)
        np.add.at(sums[target], row, gradient)
    for found, expected in zip(sums, dense, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def trained():
    data = kerasseq.datasets.analogies(40_000)
    model = WordVectors(dimensions=40, min_count=1)
    model.compile(0.05)
    history = model.fit(data.sentences, epochs=14, verbose=0)
    return model, data, history


def test_analogies_of_a_small_model(trained):
    pytest.importorskip("babel")
    model, data, history = trained
    for name, questions in data.questions.items():
        score = model.analogy_score(questions)
        assert score.accuracy >= 0.9 > 0.4 > score.nearest, (name, score)
        assert score.accuracy > 100 * score.chance
    assert model.analogy("japan", "sushi", "germany")[0].word == "bratwurst"
    losses = history.history["loss"]
    assert len(losses) == 14 and losses[-1] < losses[0]


def test_the_direction_of_the_plural(trained):
    """Slides E: the direction of some plurals orders other words by number."""
    pytest.importorskip("babel")
    model, data, _ = trained
    pairs = sorted({question[:2] for question in data.questions["plural"]})
    direction = model.direction(pairs[:20])
    for singular, plural in pairs[20:]:
        low, high = model.along(direction, [singular, plural])
        assert low < high


@pytest.mark.everywhere("Keras saves and trains on each backend")
@pytest.mark.parametrize("method", METHODS[::2])
def test_saved_models_train_further(method, tmp_path):
    model = tiny(method)
    model.compile(0.2)
    stream = model.batches(TEXT, batch_size=32).stream()
    options = {"epochs": 1, "steps_per_epoch": 1, "verbose": 0}
    model.fit(stream, **options)
    model.save(tmp_path / "a.keras")
    again = kerasseq.load_model(tmp_path / "a.keras")
    assert again.get_config() == model.get_config() and again.words == model.words
    assert float(again.optimizer.learning_rate) == pytest.approx(0.2)
    np.testing.assert_array_equal(again.matrix, model.matrix)
    vectors = again.predict(np.array([[0, 2]]), verbose=0)
    np.testing.assert_allclose(vectors[0], model.matrix[[0, 2]], rtol=1e-6)
    for each in (model, again):
        each.fit(each.batches(TEXT, batch_size=32).stream(1), **options)
    np.testing.assert_allclose(again.matrix, model.matrix, rtol=1e-5, atol=1e-6)


@pytest.mark.everywhere("on JAX an interrupted fit would lose the variables")
def test_an_interrupted_fit_keeps_what_is_trained():
    model = tiny()
    first = tiny()
    batches = first.batches(TEXT, batch_size=32)
    first.fit(batches.stream(), epochs=1, steps_per_epoch=1, verbose=0)

    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(TEXT, epochs=5, batch_size=32, verbose=0, callbacks=[Interrupt()])
    assert np.isfinite(model.matrix).all() and len(model.nearest("a", 3)) == 3
    np.testing.assert_allclose(model.matrix, first.matrix, atol=1e-6)


def test_a_run_is_repeated_and_resumed_exactly():
    whole, again, resumed, other = tiny(), tiny(), tiny(), tiny(seed=4)
    options = {"batch_size": 32, "verbose": 0}
    history = whole.fit(TEXT, epochs=3, **options)
    again.fit(TEXT, epochs=3, **options)
    other.fit(TEXT, epochs=3, **options)
    assert len(history.history["loss"]) == 3
    np.testing.assert_array_equal(whole.matrix, again.matrix)
    assert (whole.matrix != other.matrix).any()
    batches = resumed.batches(TEXT, epochs=3, batch_size=32)
    steps = batches.steps_per_epoch
    resumed.fit(batches.stream(), epochs=1, steps_per_epoch=steps, verbose=0)
    resumed.fit(
        batches.stream(steps),
        initial_epoch=1,
        epochs=3,
        steps_per_epoch=steps,
        verbose=0,
    )
    np.testing.assert_array_equal(whole.matrix, resumed.matrix)


def test_the_learning_rate_falls_over_the_steps_that_are_asked_for():
    model, other = tiny(), tiny()
    model.fit(TEXT, epochs=2, steps_per_epoch=2, batch_size=32, verbose=0)
    batches = other.batches(TEXT, batch_size=32)
    batches.steps = 4
    other.fit(batches.stream(), epochs=1, steps_per_epoch=4, verbose=0)
    np.testing.assert_array_equal(model.matrix, other.matrix)


def test_known_words_are_trained_further_on_another_text():
    model = WordVectors.from_vectors(["a", "b", "z"], np.eye(3), window=2)
    model.fit(["a b x"] * 20, epochs=3, verbose=0)
    assert model.words == ["a", "b", "z"]
    np.testing.assert_array_equal(model.vector("z"), [0, 0, 1])
    assert (model.vector("a") != [1, 0, 0]).any()


def test_embedding_layer():
    model = WordVectors.from_vectors(["a", "b", "c"], np.arange(6.0).reshape(3, 2))
    layer = model.embedding_layer(trainable=False)
    np.testing.assert_array_equal(array(layer(np.array([2, 0]))), [[4, 5], [0, 1]])
    assert not layer.trainable_weights
    layer = model.embedding_layer(["<pad>", "c", "x"], mask_zero=True)
    found = array(layer(np.array([0, 1, 2])))
    np.testing.assert_array_equal(found, [[0, 0], [4, 5], [0, 0]])
    inputs = keras.Input((None,), dtype="int32")
    inside = keras.Model(inputs, model(inputs))
    np.testing.assert_array_equal(array(inside(np.array([[1]]))), [[[2, 3]]])


def test_vectors_go_into_a_classifier_in_one_line():
    tokenizer = WordTokenizer().fit(["a b", "c x"])
    model = WordVectors.from_vectors(["a", "b", "c"], np.arange(9.0).reshape(3, 3))
    classifier = SequenceClassifier(
        "gru", ["no", "yes"], tokenizer=tokenizer, units=5, embedding_dim=3
    )
    before = classifier.get_layer("embedding").get_weights()[0]
    assert model.initialize(classifier, trainable=False) == 3
    table = classifier.get_layer("embedding").get_weights()[0]
    ids = tokenizer.encode("a b c x")
    np.testing.assert_array_equal(table[ids[:3]], model.matrix)
    np.testing.assert_array_equal(table[ids[3]], before[ids[3]])
    np.testing.assert_array_equal(table[-1], before[-1])  # of padding
    classifier.fit(["a b", "c x"], ["no", "yes"], verbose=0)
    after = classifier.get_layer("embedding").get_weights()[0]
    np.testing.assert_array_equal(after, table)
    language_model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
    assert model.initialize(language_model) == 3
    table = language_model.get_layer("embedding").get_weights()[0]
    np.testing.assert_array_equal(table[tokenizer.encode("c b")], model.matrix[[2, 1]])


def test_refused_transfers():
    model = WordVectors.from_vectors(["a", "b"], np.eye(2))
    tokenizer = WordTokenizer().fit(["x y"])
    other = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
    with pytest.raises(ValueError, match="must have the 2 dimensions .* received 3"):
        model.initialize(other)
    other = kerasseq.models.LanguageModel("gru", tokenizer, units=2)
    with pytest.raises(ValueError, match="no word of the tokenizer has a vector"):
        model.initialize(other)
    other = kerasseq.models.LanguageModel("gru", vocabulary_size=3, units=2)
    with pytest.raises(ValueError, match="must have a fitted tokenizer and an embedd"):
        model.initialize(other)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "fasttext"}, ValueError, 'method="fasttext" is not one of "skip'),
        ({"dimensions": 0}, ValueError, "dimensions must be at least 1"),
        ({"window": 2.5}, TypeError, "window must be a whole number"),
        ({"negatives": 0}, ValueError, "negatives must be at least 1"),
        ({"subsample": 0}, ValueError, "subsample must be a number above 0"),
        ({"lowercase": 1}, TypeError, "lowercase must be True or False"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"words": "abc"}, TypeError, "`words` must be a list of strings"),
    ],
)
def test_refused_arguments(options, error, message):
    with pytest.raises(error, match=message):
        WordVectors(**options)


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("", {}, ValueError, "the text is empty"),
        (["one one"], {}, ValueError, "at least 2 words, received 1"),
        (["a", "b"], {"method": "glove"}, ValueError, "no two words of the vocabulary"),
        (["a b"], {"batch_size": 33}, ValueError, "multiple of 32, .* example, 64"),
        (["a b"], {"epochs": 0}, ValueError, "epochs must be at least 1"),
        (itertools.repeat("a b"), {}, TypeError, "which can be read once. Pass a list"),
        (3, {}, TypeError, "a text must be a string, a pathlib.Path"),
    ],
)
def test_refused_texts(text, options, error, message):
    options = dict(options)
    model = WordVectors(options.pop("method", "skip_gram"), **TINY)
    with pytest.raises(error, match=message):
        model.fit(text, verbose=0, **options)
    expected = "unknown word" if model.words else "no words yet"
    with pytest.raises(ValueError, match=expected):
        model.nearest("x")


def test_refused_compilation():
    model = tiny()
    with pytest.raises(TypeError, match="learning_rate must be a number"):
        model.compile("adam")
    with pytest.raises(TypeError, match="compile takes learning_rate, .* received los"):
        model.compile(loss="mse")


def test_divergence_is_an_error():
    model = tiny()
    model.compile(1e20)
    with pytest.raises(
        ValueError, match="training diverged: the loss is nan. .* Lower"
    ):
        model.fit(TEXT, epochs=3, verbose=0)


def test_large_tables_are_refused_before_they_are_made():
    with pytest.raises(
        ValueError, match="dimensions must be a size that fits into mem"
    ):
        WordVectors(dimensions=10**12, words=["a", "b"])


@pytest.mark.parametrize("format", ["word2vec_text", "word2vec_binary", "glove"])
def test_vectors_from_a_file(tmp_path, format):
    model = tiny("glove", words=["Roi", "reine", "b", "c", "d"])
    model.to_file(tmp_path / "v.gz", format)
    read = WordVectors.from_file(tmp_path / "v.gz", subsample=None)
    assert (read.words, read.dimensions) == (model.words, 3)
    np.testing.assert_array_equal(read.matrix, model.matrix)  # w + w~ of GloVe
    again = WordVectors.from_file(tmp_path / "v.gz", limit=2, method="glove")
    assert again.words == ["Roi", "reine"]
    np.testing.assert_array_equal(again.matrix, model.matrix[:2])
    read.fit(["b c d b Roi reine"] * 5, epochs=3, verbose=0)  # the first moves u alone
    assert read.words == model.words
    moved = (read.matrix != model.matrix).any(axis=1)
    assert moved.all()  # also "Roi": capitals stay


def test_a_bad_file_of_vectors(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("a 1 2\nb 1\n")
    with pytest.raises(ValueError, match="line 2"):
        WordVectors.from_file(file)
    file.write_text("a 1 2\n")
    with pytest.raises(ValueError, match="at least two distinct words"):
        WordVectors.from_file(file)
    with pytest.raises(ValueError, match="no words yet"):
        WordVectors().to_file(tmp_path / "none.txt")
    assert not (tmp_path / "none.txt").exists()
