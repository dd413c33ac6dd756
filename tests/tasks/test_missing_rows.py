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
    from kerasseq.tasks.missing_rows import complete_rows

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
