"""Labels as tables have them: 0 and 1, in columns, written in several ways."""

import numpy as np
import pandas as pd
import pytest

from kerasseq.models import SequenceClassifier
from kerasseq.tasks.input_rows import chosen_columns
from kerasseq.tasks.labels import learned
from kerasseq.text import WordTokenizer

pytestmark = pytest.mark.once("labels are plain Python")
TEXTS = ["a warm film", "a dull film", "a film"]


def bag(**options):
    return SequenceClassifier("bag", tokenizer="word", units=5, **options)


def test_rows_of_0_and_1_for_one_label():
    model = bag()
    with pytest.raises(ValueError, match=r"one label for each row.*y\.argmax"):
        model.fit(TEXTS, np.eye(3), verbose=0)
    with pytest.raises(ValueError, match=r"\[row\[0\] for row in y\]"):
        model.fit(TEXTS, [["a"], ["b"], ["a"]], verbose=0)
    # No label was learned from what was refused.
    model.fit(TEXTS, np.eye(3).argmax(-1), epochs=1, verbose=0)
    assert model.labels == [0, 1, 2]
    with pytest.raises(ValueError, match=r"y\[0\] must be one of.*y\.argmax"):
        bag(labels=3).fit(TEXTS, np.eye(3), verbose=0)


def test_columns_of_several_labels_are_found_by_name():
    y = pd.DataFrame({"warm": [1, 0, 0], "film": [1, 1, 0]})
    with pytest.raises(ValueError, match=r"labels=list\(table.columns\), or labels=2"):
        bag(multi_label=True).fit(TEXTS, y, verbose=0)
    tokenizer = WordTokenizer().fit(TEXTS)
    options = {"tokenizer": tokenizer, "multi_label": True, "units": 5}
    model = SequenceClassifier("bag", ["film", "warm"], **options)
    expected = [[1, 1], [1, 0], [0, 0]]
    for each in (y, y[["film", "warm"]], [["warm", "film"], ["film"], []]):
        x, targets, weights = model.weighted_inputs(TEXTS, each, None)
        targets, _ = model.targets(model.rows_of(x), targets, weights)
        assert targets.tolist() == expected
    # Other names say nothing about the order.
    numbered = y.set_axis(["label_1", "label_2"], axis=1)
    assert model.weighted_inputs(TEXTS, numbered, None)[1].tolist() == y.values.tolist()


def test_labels_that_are_written_in_several_ways():
    with pytest.warns(UserWarning, match=r"2 of 4 labels .*'Sport' and 'SPORT '"):
        assert len(learned(["SPORT ", "Sport", "sport", "music"])) == 4
    assert learned(["a", "A", "é", "É"]) == ["A", "a", "É", "é"]  # letters


def test_numbers_that_are_no_labels():
    with pytest.raises(ValueError, match=r"3 rows with a number of their own each"):
        bag().fit(TEXTS, [0.5, 0.25, 0.75], verbose=0)
    with pytest.raises(TypeError, match=r"for a column: table\['label'\]"):
        bag().fit(TEXTS, "label", verbose=0)


def test_the_columns_that_a_message_proposes():
    sample = {"id": 1, "day": "09.03.2024", "mail": "a long text", "kind": "sport"}
    with pytest.raises(ValueError, match=r"x=data\['mail'\], y=data\['kind'\]"):
        chosen_columns(sample | {"score": 0.5}, {})
