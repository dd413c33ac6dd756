"""`kerasseq.sklearn` with the tools of scikit-learn."""

import importlib.util
import sys

import keras
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import kerasseq
from kerasseq.models import SequenceTagger
from kerasseq.sklearn import Classifier

pytestmark = pytest.mark.once("which arguments go where; the models have own tests")

TEXTS = np.array(["JA", "NEIN", "JA JA", "NEIN NEIN", "JA", "NEIN"])
LABELS = np.array(["yes", "no"] * 3)


def classifier(**parameters):
    shared = {"tokenizer": "character", "verbose": 0, "optimizer": "sgd", "units": 3}
    return Classifier(**{"architecture": "min_gru", **shared, **parameters})


def lower(texts):
    return [text.lower() for text in texts]


def test_search_in_a_pipeline_over_texts():
    optimizer = keras.optimizers.Adam(0.1)
    estimator = classifier(optimizer=optimizer, epochs=5)
    pipeline = make_pipeline(FunctionTransformer(lower), estimator)
    search = GridSearchCV(
        pipeline, {"classifier__units": [5], "classifier__epochs": [1, 2]}, cv=2
    )
    search.fit(TEXTS, LABELS, classifier__sample_weight=np.ones(6))
    assert search.best_params_.keys() == {"classifier__units", "classifier__epochs"}
    best = search.best_estimator_[-1]
    assert best.model_.tokenizer.decode(best.model_.tokenizer.encode("ja")) == "ja"
    assert best.classes_.tolist() == ["no", "yes"]
    probabilities = search.predict_proba(TEXTS)
    expected = search.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(search.predict(TEXTS), expected)
    assert search.score(TEXTS, LABELS) == np.mean(expected == LABELS)
    assert not optimizer.built  # each fit has a copy


def test_each_fit_trains_a_new_model():
    estimator = classifier(epochs=2)
    scores = cross_val_score(estimator, [*TEXTS], [*LABELS], cv=3)
    assert scores.shape == (3,) and not hasattr(estimator, "model_")
    copied = clone(estimator.set_params(units=5, epochs=1))
    assert copied.get_params() == estimator.get_params()
    assert "units=5" in repr(copied) and "units" in copied._repr_html_()
    first = copied.fit(TEXTS, LABELS).model_
    assert copied.history_.epoch == [0]
    assert copied.fit(TEXTS[::-1], LABELS[::-1]).model_ is not first
    assert copied.predict([]).shape == (0,)


def test_several_labels_at_once():
    y = np.array([[1, 0, 1], [0, 1, 0]] * 3)
    estimator = classifier(labels=["a", "b", "c"], multi_label=True).fit(TEXTS, y)
    predicted = estimator.predict(TEXTS)
    assert predicted.shape == y.shape and {*predicted.ravel()} <= {0, 1}
    assert estimator.score(TEXTS, y) == (predicted == y).all(axis=1).mean()


def test_errors(monkeypatch):
    with pytest.raises(NotFittedError):
        classifier().predict(TEXTS)
    with pytest.raises(TypeError, match="model must .* received 'gru'. Pass an"):
        Classifier("gru").fit(TEXTS, LABELS)
    with pytest.raises(TypeError, match="model must be a class of models with"):
        classifier(model=SequenceTagger).fit(TEXTS, LABELS)
    with pytest.raises((TypeError, ValueError), match="SequenceClassifier.*unit"):
        classifier(unit=3).fit(TEXTS, LABELS)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    spec = importlib.util.find_spec(kerasseq.sklearn.__name__)
    with pytest.raises(ImportError, match="needs scikit-learn, .* pip install"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
