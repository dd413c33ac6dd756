"""BERT's and GPT's heads with labels by name: fit, classify, tag and report."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import BERT, GPT
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer
from kerasseq.training import label_report

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 10, "dropout": 0.0}
TEXTS = ["to be", "the mind", "or not", "nobler in the mind", "to be or", "mind mind"]
Y = ["verb", "noun", "verb", "noun", "verb", "noun"]
PAIRS = [("to be", "or not"), ("the mind", "mind"), ("or", "not to be")]
WORDS = [["nobler", "mind"], ["to", "be", "nobler"]]
TAGS = [["B-X", "I-X"], ["O", "O", "B-X"]]


@pytest.fixture(scope="module")
def pieces():
    text = "to be or not to be whether it is nobler in the mind"
    return WordPieceTokenizer(40).fit([text])


@pytest.fixture(scope="module")
def gpt():
    return GPT(CharacterTokenizer().fit("abcdefghijklmnopqrstuvwxyz "), **SIZES)


@pytest.fixture(scope="module")
def bert(pieces):
    return BERT(pieces, **SIZES, max_sequence_length=23)


def probabilities(found):
    return [list(each.probabilities.values()) for each in found]


def test_labels_are_learned_and_saved(bert, tmp_path):
    model = bert.with_head("classify")
    assert model.labels is None
    model.compile(keras.optimizers.Adam(0.02))
    before = np.array(model.get_layer("embedding").get_weights()[0])
    np.testing.assert_array_equal(bert.get_layer("embedding").get_weights()[0], before)
    history = model.fit(TEXTS, Y, epochs=12, class_weight="balanced", verbose=0)
    assert history.history["accuracy"][-1] == 1 and model.labels == ["noun", "verb"]
    assert float(model.optimizer.learning_rate) == pytest.approx(0.02)
    model.save(tmp_path / "bert.keras")
    loaded = kerasseq.load_model(tmp_path / "bert.keras")
    found = loaded.classify(TEXTS)
    assert [each.label for each in found] == Y
    np.testing.assert_allclose(
        probabilities(found), probabilities(model.classify(TEXTS)), atol=1e-6
    )
    one = loaded.classify(("to be", "the mind"))
    assert one.label in model.labels and sum(one.probabilities.values()) > 0.999
    loaded.fit(TEXTS, Y, verbose=0)


def test_tags_are_learned_and_saved(gpt, tmp_path):
    model = gpt.with_head("tag")
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(WORDS, TAGS, epochs=30, verbose=0)
    model.save(tmp_path / "gpt.keras")
    loaded = kerasseq.load_model(tmp_path / "gpt.keras")
    assert loaded.labels == ["B-X", "I-X", "O"]
    assert loaded.tag(WORDS) == model.tag(WORDS) == TAGS
    assert loaded.tag("to be nobler") == loaded.tag(WORDS[1]) == TAGS[1]
    report = loaded.report(WORDS, TAGS)
    assert report.entities["micro avg"]["f1-score"] == report.accuracy == 1


def test_a_model_without_labels_keeps_its_weights(bert, gpt, tmp_path):
    """Also if it is saved and loaded before `fit`."""
    for source, head in ((bert, "classify"), (gpt, "entail"), (gpt, "compare")):
        model = source.with_head(head)
        for weight in model.weights:
            weight.assign(weight + 0.25)
        model.get_layer("embedding").trainable = False
        kept = {w.path: np.array(keras.ops.convert_to_numpy(w)) for w in model.weights}
        model.save(tmp_path / "m.keras")
        model = kerasseq.load_model(tmp_path / "m.keras")
        for method in (model.predict, model.classify, model.evaluate):
            with pytest.raises(ValueError, match="has not learned its labels"):
                method(PAIRS)
        model.compile(keras.optimizers.SGD(0.0))
        model.fit(PAIRS, ["a", "b", "a"], verbose=0)
        assert not model.get_layer("embedding").trainable
        found = {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
        for path, value in kept.items():
            np.testing.assert_array_equal(found[path], value)
        assert len(found) > len(kept) and model.output_shape == (None, 2)
        with pytest.raises(ValueError, match=r"y\[1\] must be one of the labels"):
            model.fit(PAIRS, ["a", "c", "a"], verbose=0)


def test_all_kinds_of_inputs(bert):
    pandas = pytest.importorskip("pandas")
    model = bert.with_head("classify", ["noun", "verb"])
    expected = model.evaluate(TEXTS, Y, verbose=0)
    frame = pandas.DataFrame({"text": TEXTS, "kind": Y})
    for x, y in (
        (np.array(TEXTS), np.array(Y)),
        (np.array(TEXTS, object), np.array(Y, object)),
        (frame["text"], frame["kind"]),
        (frame["text"].astype("string"), frame["kind"].astype("category")),
    ):
        assert model.evaluate(x, y, verbose=0) == pytest.approx(expected)
        assert probabilities(model.classify(x)) == probabilities(model.classify(TEXTS))
        model.fit(x, y, validation_split=0.3, validation_batch_size=2, verbose=0)
        model.set_weights(bert.with_head("classify", 2).get_weights())
        model.get_layer("classes").set_weights([np.eye(10, 2), np.zeros(2)])
        expected = model.evaluate(TEXTS, Y, verbose=0)
    frame = pandas.DataFrame(PAIRS, columns=["a", "b"])
    expected = probabilities(model.classify(PAIRS))
    assert probabilities(model.classify(frame[["a", "b"]])) == expected
    assert probabilities(model.classify(np.array(PAIRS))) == expected


def test_data_sets_of_tensorflow(bert):
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    model = bert.with_head("classify")
    data = tf.data.Dataset.from_tensor_slices((TEXTS, Y)).batch(4)
    model.fit(data, validation_data=data, verbose=0)
    assert model.labels == ["noun", "verb"]
    expected = model.evaluate(TEXTS, Y, verbose=0)
    assert model.evaluate(data, verbose=0) == pytest.approx(expected)
    assert model.report(data).accuracy == pytest.approx(expected[1])
    a, b = map(list, zip(*PAIRS, strict=True))
    pairs = tf.data.Dataset.from_tensor_slices(((a, b), Y[:3]))
    expected = model.evaluate(PAIRS, Y[:3], verbose=0)
    assert model.evaluate(pairs, verbose=0) == pytest.approx(expected)


def test_several_labels_at_once(gpt):
    sets = [["a"], ["a", "b"], [], ["b"], ["a", "b"], []]
    model = gpt.with_head("classify", multi_label=True)
    model.compile(keras.optimizers.Adam(0.02))
    history = model.fit(TEXTS, sets, epochs=30, verbose=0).history
    assert history["f1"][-1] > 0.9
    table = np.array([[label in row for label in model.labels] for row in sets], int)
    loss, f1 = model.evaluate(TEXTS, table, verbose=0)
    p = 1 / (1 + np.exp(-model.predict(TEXTS, verbose=0).astype("float64")))
    wanted = -np.mean(np.log(np.where(table, p, 1 - p)))
    assert loss == pytest.approx(wanted, rel=1e-4)
    found = model.classify(TEXTS, threshold=0.4)
    assert [each.label for each in found] == [
        [name for name, value in zip("ab", row, strict=True) if value >= 0.4]
        for row in p
    ]
    report = model.report(TEXTS, sets)
    assert report.scores["micro avg"]["f1-score"] == pytest.approx(f1)
    assert model.report(TEXTS, table).scores == report.scores


def test_batches_of_arrays_are_those_of_texts(bert):
    y = ["verb", "noun", "verb", "verb", "verb", "noun"]
    model = bert.with_head("classify", ["noun", "verb"])
    arrays = model.arrays(TEXTS, y)[0]
    options = {"batch_size": 2, "seed": 3}
    of_texts, of_arrays = (model.batches(x, y, **options) for x in (TEXTS, arrays))
    for number in range(of_texts.steps_per_epoch):
        x, labels = of_texts.batch(number)
        again, same = of_arrays.batch(number)
        np.testing.assert_array_equal(same, labels)
        assert all(np.array_equal(again[name], x[name]) for name in x)
    loss = model.evaluate(arrays, y, batch_size=4, verbose=0)
    assert loss == pytest.approx(model.evaluate(TEXTS, y, verbose=0), rel=1e-5)


def test_class_weights_are_sample_weights(bert):
    y = ["verb", "noun", "verb", "verb", "verb", "noun"]
    model = bert.with_head("classify", ["noun", "verb"])
    _, _, weights = model.arrays(TEXTS, y, "balanced")
    assert weights == pytest.approx([0.75, 1.5, 0.75, 0.75, 0.75, 1.5])
    _, _, weights = model.arrays(TEXTS, y, {"noun": 3})
    assert weights.tolist() == [1, 3, 1, 1, 1, 3]
    tagger = bert.with_head("tag", ["B-X", "I-X", "O"])
    (x, _, weights) = tagger.arrays(WORDS, TAGS, "balanced")
    real = np.sort(weights[weights > 0])  # of the first pieces: 2, 1 and 2 tags
    assert real == pytest.approx(np.sort(np.repeat([5 / 6, 5 / 3, 5 / 6], [2, 1, 2])))
    assert x["ids"].shape == weights.shape
    for other, labels in ((bert.with_head("span"), [(0, 2)]), (tagger, None)):
        if labels:
            with pytest.raises(ValueError, match="class_weight must be None"):
                other.fit(["to be"], labels, class_weight="balanced")


def test_batches_are_those_of_fit_and_resume(bert):
    def trained(*parts):
        keras.utils.set_random_seed(0)
        model = bert.with_head("classify", ["noun", "verb"])
        model.compile(keras.optimizers.SGD(0.1))
        for first, last in parts:
            options = {"initial_epoch": first, "epochs": last, "seed": 5}
            model.fit(TEXTS, Y, batch_size=2, verbose=0, **options)
        return model.get_weights()

    for a, b in zip(trained((0, 2)), trained((0, 1), (1, 2)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    model = bert.with_head("tag", ["B-X", "I-X", "O"])
    batches = model.batches(WORDS, TAGS, batch_size=1)
    shapes = {tuple(part.shape for part in batches.batch(n)[1:]) for n in range(2)}
    lengths = {batches.batch(n)[0]["ids"].shape for n in range(2)}
    assert {shape[0] for shape in shapes} == lengths  # labels are cut as the ids are


def test_the_answer_that_is_chosen(gpt):
    model = gpt.with_head("choose", language_model_weight=0.1)
    questions = [("a", ["b", "c", "d"]), ("e", ["f", "g"]), ("h", ["i", "i"])]
    by_index = model.arrays(questions, [2, 0, 1])
    np.testing.assert_array_equal(
        model.arrays(questions, ["d", "f", 1])[1], by_index[1]
    )
    logits = model.predict(questions, verbose=0)
    found = model.classify(questions)
    p = np.exp(logits[1, :2]) / np.exp(logits[1, :2]).sum()
    assert list(found[1].probabilities) == ["f", "g"]
    assert list(found[1].probabilities.values()) == pytest.approx(p.tolist(), abs=1e-6)
    assert found[0].label == "bcd"[logits[0].argmax()]
    assert found[2].probabilities == pytest.approx({"i": 1.0})  # both answers together
    alone = model.classify(questions[0])  # rounded otherwise than in a batch
    assert alone.label == found[0].label
    assert alone.probability == pytest.approx(found[0].probability, abs=1e-6)
    assert alone.probabilities == pytest.approx(found[0].probabilities, abs=1e-6)
    ids = model.preprocessor.choice_rows(questions).arrays["ids"]
    assert model.classify(ids)[0].label == logits[0].argmax()
    with pytest.raises(ValueError, match=r"y\[0\] must be one of the answers"):
        model.arrays(questions, ["z", "f", "i"])
    with pytest.raises(ValueError, match="report is not available for head='choose'"):
        model.report(questions, [0, 0, 0])


def test_long_texts_are_cut(pieces):
    model = BERT(pieces, **SIZES, max_sequence_length=9, head="classify", labels=2)
    long = " ".join(["mind"] * 9)
    with pytest.raises(ValueError, match="truncate=True"):
        model.classify(long)
    model = model.with_head("classify", 2, truncate=True)
    assert model.classify(long) == model.classify(" ".join(["mind"] * 7))
    assert model.classify((long, "to be")) == model.classify(
        (" ".join(["mind"] * 4), "to be")
    )
    assert model.with_head("tag", 2)._arguments["truncate"] is False
    gpt = GPT(pieces, **SIZES, max_sequence_length=9)
    task = gpt.with_head("entail", ["no", "yes"], truncate=True)
    assert task.classify((long, "to be")) == task.classify(
        (" ".join(["mind"] * 4), "to be")
    )
    again = type(task).from_config(task.get_config())
    again.set_weights(task.get_weights())
    assert again.classify((long, "to be")) == task.classify((long, "to be"))


def test_reports_equal_scikit_learn(gpt):
    metrics = pytest.importorskip("sklearn.metrics")
    model = gpt.with_head("entail", ["c", "a", "b"])
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.choice(TEXTS, 2)) for _ in range(29)]
    y = rng.choice(["a", "b", "c"], 29).tolist()
    found = [each.label for each in model.classify(pairs)]
    report = model.report(pairs, y)
    expected = metrics.classification_report(
        y, found, labels=model.labels, output_dict=True, zero_division=0
    )
    assert {name: report.scores[name] for name in "abc"} == {
        name: pytest.approx(expected[name]) for name in "abc"
    }
    counts = metrics.confusion_matrix(y, found, labels=model.labels)
    np.testing.assert_array_equal(report.confusion, counts)
    assert report.scores == label_report(y, found, model.labels).scores
    with pytest.raises(ValueError, match=r"y\[0\] must be one of the labels"):
        model.report(pairs, ["z", *y[1:]])


def test_words_of_roberta_keep_the_space_before_them():
    """A byte-pair token has the space before it; the first word has none."""
    from kerasseq.text import BytePairTokenizer

    special = ["<s>", "<pad>", "</s>", "<mask>"]
    tokenizer = BytePairTokenizer(300, special_tokens=special).fit(
        "low lower lowest low lower lowest slow slower"
    )
    model = BERT(tokenizer, **SIZES, pair_separators=2, head="tag", labels=["A", "B"])
    words = ["low", "lower", "lowest"]
    rows = model.preprocessor.word_rows([words])
    start, *ids = rows.arrays["ids"][0, : 2 + len(tokenizer.encode("low lower lowest"))]
    assert ids[:-1] == tokenizer.encode("low lower lowest").tolist()
    assert len(model.tag(words)) == 3 and start == tokenizer.id_of("<s>")
    starts = [len(tokenizer.decode(ids[: place - 1])) for place in rows.places[0]]
    assert starts == [0, 3, 9]  # each begins with the space
