"""Rows with empty cells: refused with their number, or dropped."""

import re

import numpy as np
import pytest

from kerasseq.models import BERT, GPT, SequenceClassifier, SequenceTagger
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer

pytestmark = pytest.mark.once("checks of arguments before a backend computes")

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 10, "dropout": 0.0}
NAN = float("nan")
TEXTS = ["b a", None, "a", "", "a a b", " ", "b", NAN]
LABELS = ["x", "y", "y", "y", NAN, "x", "x", "y"]
KEPT = [0, 2, 6]
FIRST = ("x[1] is None", "x[3] is ''", "y[4] is nan", "x[5] is ' '", "x[7] is nan")


def classifier():
    return SequenceClassifier("gru", tokenizer="character", units=3)


def bert(head="classify", *labels):
    pieces = WordPieceTokenizer(30).fit(["a b ab"])
    return BERT(pieces, **SIZES, max_sequence_length=23).with_head(head, *labels)


def gpt():
    return GPT(CharacterTokenizer().fit("ab "), **SIZES).with_head("classify")


def columns(library):
    if library is list:
        return TEXTS, LABELS
    if library is np.array:
        return np.array(TEXTS, object), np.array(LABELS, object)
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    if library == "string":
        table = table.astype("string")
    return table["text"], table["label"]


@pytest.mark.parametrize("library", [list, np.array, "object", "string"])
@pytest.mark.parametrize("make", [classifier, bert, gpt])
def test_rows_with_empty_cells(make, library):
    x, y = columns(library)
    model = make()
    with pytest.raises(ValueError, match="received 5 rows with one, of 8: x") as error:
        model.fit(x, y, verbose=0)
    assert "y[4] is" in str(error.value) and 'missing="skip"' in str(error.value)
    weights = np.arange(8.0)
    with pytest.warns(UserWarning, match="^5 of 8 rows have an empty cell"):
        history = model.fit(
            x, y, sample_weight=weights, missing="skip", verbose=0, batch_size=8
        )
    same = make()
    same.fit(
        [TEXTS[row] for row in KEPT],
        [LABELS[row] for row in KEPT],
        sample_weight=weights[KEPT],
        verbose=0,
        batch_size=8,
    )
    assert model.labels == same.labels == ["x", "y"]
    assert np.isfinite(history.history["loss"]).all()


def test_the_first_rows_are_named():
    with pytest.raises(ValueError, match=re.escape(", ".join(FIRST) + ". Fill")):
        classifier().fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="7 rows .*…. Fill them$"):
        classifier().fit([None] * 7, ["x", "y"] * 3 + ["x"], missing="skip")
    with pytest.raises(ValueError, match='"drop" is not one of'):
        classifier().fit(["a", "b"], ["x", "y"], missing="drop")


def test_weights_and_order_of_the_rows_that_are_left():
    from kerasseq.tasks.labeled_data import complete_rows

    with pytest.warns(UserWarning, match="5 of 8 rows"):
        x, y, weights = complete_rows(TEXTS, LABELS, np.arange(8.0), "skip")
    assert (x, y, weights.tolist()) == (["b a", "a", "b"], ["x", "y", "x"], KEPT)


def test_empty_words_and_tags():
    words = [["a", "b"], [], ["b", ""], ["a"], None, ["b"], ["a", "b"], ["b", "a"]]
    tags = [["O", "X"], [], ["O", "O"], ["X"], ["O"], [None], ["O", "X"], NAN]
    for model in (
        SequenceTagger("gru", tokenizer="character", units=3),
        bert("tag", ["O", "X"]),
    ):
        with pytest.raises(ValueError, match=re.escape("5 rows with one, of 8: x[1]")):
            model.fit(words, tags)
        with pytest.warns(UserWarning, match="5 of 8 rows"):
            model.fit(words, tags, missing="skip", verbose=0)


def test_validation_data_and_pairs():
    model = bert("classify", ["x", "y"])
    pairs = [("a", "b"), ("b", None), ("a", "a"), (NAN, "b")]
    with pytest.warns(UserWarning, match="2 of 4 rows"):
        model.fit(pairs, ["x", "y"] * 2, missing="skip", verbose=0)
    for model in (classifier(), bert()):
        x, y = ["a", "b b"], ["x", "y"]
        with pytest.raises(ValueError, match="1 row with one, of 3"):
            model.fit(x, y, validation_data=(["a", "", "b"], ["x", "x", "y"]))
        with pytest.warns(UserWarning, match="1 of 3 rows"):
            history = model.fit(
                x,
                y,
                validation_data=(["a", "", "b"], ["x", "x", "y"]),
                missing="skip",
                verbose=0,
            )
        assert "val_loss" in history.history


def test_no_labels_and_no_answer_are_no_empty_cells():
    model = SequenceClassifier(
        "gru", ["x", "y"], tokenizer="character", units=3, multi_label=True
    )
    model.fit(["a", "b"], [[], ["x", "y"]], missing="skip", verbose=0)
    bert("span").fit(["a b", "b"], [(0, 1), None], missing="skip", verbose=0)


def test_missing_labels_of_vectors():
    model = SequenceClassifier("gru", ["x", "y"], features=2, units=3)
    vectors = np.random.default_rng(0).normal(size=(5, 4, 2)).astype("float32")
    labels = np.array(["x", None, "y", "y", NAN], object)
    with pytest.raises(ValueError, match=re.escape("2 rows with one, of 5: y[1] is")):
        model.fit(vectors, labels)
    with pytest.warns(UserWarning, match="2 of 5 rows"):
        model.fit(vectors, labels, missing="skip", verbose=0)


@pytest.mark.parametrize("library", [list, np.array, "object", "string"])
@pytest.mark.parametrize("make", [classifier, bert, gpt])
def test_scores_and_predictions_of_rows_with_empty_cells(make, library):
    x, y = columns(library)
    texts, labels = ([part[row] for row in KEPT] for part in (TEXTS, LABELS))
    model = make()
    model.fit(texts, labels, verbose=0)
    for method in (model.evaluate, model.report):
        with pytest.raises(ValueError, match="received 5 rows with one, of 8: x"):
            method(x, y)
        with pytest.raises(ValueError, match=f"{method.__name__} needs at least one"):
            method([], [])
    with pytest.warns(UserWarning, match="^5 of 8 rows have an empty cell and are"):
        assert model.report(x, y, missing="skip").scores == (
            model.report(texts, labels).scores
        )
    weights = np.arange(8.0)
    options = {"missing": "skip", "sample_weight": weights, "verbose": 0}
    with pytest.warns(UserWarning, match="5 of 8 rows"):
        found = model.evaluate(x, y, **options)
    expected = model.evaluate(texts, labels, sample_weight=weights[KEPT], verbose=0)
    assert found == pytest.approx(expected, rel=1e-5)
    read = [row for row, text in enumerate(TEXTS) if row in KEPT or row == 4]
    gaps = [row for row in range(8) if row not in read]
    for method in (model.predict, model.classify):
        with pytest.raises(ValueError, match="^x must .*, received 4 rows with one"):
            method(x)
    with pytest.warns(UserWarning, match="^4 of 8 rows .* get no prediction"):
        found = model.predict(x, missing="skip", verbose=0)
    assert np.isnan(found[gaps]).all() and len(found) == 8
    expected = model.predict([TEXTS[row] for row in read], verbose=0)
    np.testing.assert_allclose(found[read], expected, rtol=1e-4, atol=1e-6)
    with pytest.warns(UserWarning, match="x\\[1\\] is (None|nan|<NA>), x\\[3\\] is ''"):
        classes = model.classify(x, missing="skip")
    assert [row for row, each in enumerate(classes) if each is None] == gaps
    best = [model.labels[n] for n in found[read].argmax(axis=-1)]
    assert [classes[row].label for row in read] == best


def test_predictions_where_all_or_no_cells_are_empty():
    model = classifier()
    model.fit(["a", "b"], ["x", "y"], verbose=0)
    with pytest.warns(UserWarning, match="2 of 2 rows"):
        assert model.classify(["", None], missing="skip") == [None, None]
    with pytest.warns(UserWarning, match="2 of 2 rows"):
        assert np.isnan(model.predict(["", None], missing="skip")).all()
    assert model.classify([], missing="skip") == []
    spaces = SequenceClassifier(
        "gru", ["x", "y"], tokenizer=CharacterTokenizer().fit("ab "), units=3
    )
    found = spaces(spaces.encode(" "))  # one text is no cell of a table
    p = spaces.probabilities(found)[0]
    assert [*spaces.classify(" ").probabilities.values()] == pytest.approx(p.tolist())
    assert model.classify("a", missing="skip").label in ("x", "y")
    for data in ([model.predict], [model.classify], [model.evaluate, ["x", "y"]]):
        method, *y = data
        with pytest.raises(ValueError, match='"drop" is not one of'):
            method(["a", "b"], *y, missing="drop")


def test_tags_of_rows_with_empty_cells():
    words = [["a", "b"], [], ["b", ""], ["a"], None]
    y = [["O", "X"], [], ["O", "O"], ["X"], ["O"]]
    for model in (
        SequenceTagger("gru", ["O", "X"], tokenizer=CharacterTokenizer().fit("ab ")),
        bert("tag", ["O", "X"]),
    ):
        alone = [model.tag(words[row]) for row in (0, 3)]
        expected = [alone[0], None, None, alone[1], None]
        for x in (words, ["a b", "", " ", "a", None], np.array(["a b"] + [None] * 4)):
            wanted = expected if len(x[3] or ()) else [alone[0]] + [None] * 4
            with pytest.raises(ValueError, match="of 5: x\\[1\\] is"):
                model.tag(x)
            with pytest.warns(UserWarning, match="of 5 rows .* get no prediction"):
                assert model.tag(x, missing="skip") == wanted
        with pytest.warns(UserWarning, match="3 of 5 rows"):
            scores = model.predict(words, missing="skip", verbose=0)
        assert [scores[n] is None for n in range(5)] == [False, True, True, False, True]
        with pytest.warns(UserWarning, match="3 of 5 rows"):
            report = model.report(words, y, missing="skip")
        assert report.confusion.sum() == 3
        assert model.tag(["a", "b"]) == alone[0]  # one sentence


def test_one_pair():
    span = bert("span")
    assert span.answers(("a", "a b")) == span.answers([("a", "a b")])[0]


def test_predictions_of_several_outputs_and_of_choices():
    model = bert("span")
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        found = model.predict(["a b", None], missing="skip", verbose=0)
    for name, expected in model.predict(["a b"], verbose=0).items():
        np.testing.assert_allclose(found[name][0], expected[0], rtol=1e-5)
        assert np.isnan(found[name][1]).all()
    choose = GPT(CharacterTokenizer().fit("ab "), **SIZES).with_head("choose")
    x = [("a", ["b", "a"]), ("a", ["", "b"]), (None, ["b", "a"])]
    with pytest.warns(UserWarning, match="2 of 3 rows"):
        first, *others = choose.classify(x, missing="skip")
    assert first.label in ("a", "b") and others == [None, None]
