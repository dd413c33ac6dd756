"""Classifiers of texts and sequences as estimators of scikit-learn.

`keras.wrappers.SKLearnClassifier` is for models of arrays of numbers and one-hot
labels. The models of kerasseq read texts and labels themselves, so the estimator passes
them on as they are.
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Self

import keras
import numpy as np

from kerasseq.core import checks, packages
from kerasseq.tasks.classifier import SequenceClassifier

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise packages.missing("kerasseq.sklearn needs", "scikit-learn") from error

__all__ = ["Classifier"]

OF_COMPILE = {*inspect.signature(keras.Model.compile).parameters}
OF_FIT = {
    *inspect.signature(keras.Model.fit).parameters,
    *inspect.signature(SequenceClassifier.fit).parameters,
    *SequenceClassifier.fit_options,
}


class Classifier(ClassifierMixin, BaseEstimator):
    """Classifies texts or sequences, as an estimator of scikit-learn.

    It works with `clone`, `cross_val_score`, `GridSearchCV` and `Pipeline`. Each `fit`
    trains a new model.

    Args:
        model: A class of models with `classify`, or a function that returns such a
            model: `SequenceClassifier` by default, or
            `lambda: bert.with_head("classify")`.
        **parameters: Arguments of `model`, of its `compile` and of its `fit`, under the
            names that they have there: `architecture`, `units`, `optimizer`, `epochs`.

    Attributes:
        classes_: The labels, in the order of the columns of `predict_proba`.
        model_: The trained model.
        history_: What its `fit` returned.

    Raises:
        ImportError: On import, if scikit-learn is not installed.

    Examples:
        >>> from sklearn.model_selection import GridSearchCV
        >>> texts, labels = ["ja", "nein", "oui", "non"] * 2, ["yes", "no"] * 4
        >>> text = {"tokenizer": "character", "epochs": 1, "verbose": 0}
        >>> classifier = Classifier(architecture="gru", **text)
        >>> search = GridSearchCV(classifier, {"units": [3, 5]}, cv=2)
        >>> search.fit(texts, labels).predict_proba(["oui"]).shape
        (1, 2)
        >>> sorted(search.best_params_), search.classes_.tolist()
        (['units'], ['no', 'yes'])
    """

    def __init__(
        self, model: Callable[..., Any] = SequenceClassifier, **parameters: Any
    ) -> None:
        self.model = model
        self.parameters = parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the arguments of the estimator.

        Args:
            deep: Without effect: no argument is an estimator.
        """
        return {"model": self.model, **self.parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Changes arguments of the estimator, for the next `fit`."""
        self.model = parameters.pop("model", self.model)
        self.parameters = {**self.parameters, **parameters}
        return self

    def fit(self, X: Any, y: Any, **fit_parameters: Any) -> Self:
        """Trains a new model.

        Args:
            X: Texts, or other inputs of the model.
            y: Their labels.
            **fit_parameters: Arguments of the `fit` of the model for this call, such as
                `sample_weight`.

        Raises:
            TypeError: If the model has no argument of a name, or an input has the wrong
                type.
            ValueError: If an argument is wrong, as for the `fit` of the model.
        """
        # A copy: a model keeps its tokenizer, its layer and its optimizer.
        parameters = copy.deepcopy(self.parameters)
        of_fit = {name: parameters.pop(name) for name in OF_FIT & {*parameters}}
        of_compile = {name: parameters.pop(name) for name in OF_COMPILE & {*parameters}}
        self.model_ = self.model(**parameters) if callable(self.model) else None
        if not hasattr(self.model_, "classify"):
            raise TypeError(
                "model must be a class of models with `classify`, or a function that "
                f"returns such a model, received {checks.short(self.model)}. Pass an "
                'architecture as architecture="gru", for example'
            )
        if of_compile:
            self.model_.compile(**of_compile)
        self.history_ = self.model_.fit(X, y, **{**of_fit, **fit_parameters})
        self.classes_ = np.array(self.model_.labels)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Finds the most probable label of each input.

        Args:
            X: Texts, or other inputs of the model.

        Returns:
            Labels `(rows,)`; of a model with several labels, 0 and 1 `(rows, labels)`.
        """
        probabilities = self.predict_proba(X)
        if self.model_.multi_label:
            return (probabilities >= 0.5).astype(int)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Computes the probability of each label.

        Args:
            X: Texts, or other inputs of the model.

        Returns:
            Probabilities `(rows, labels)`, in the order of `classes_`.
        """
        check_is_fitted(self)
        rows = [[*each.probabilities.values()] for each in self.model_.classify(X)]
        return np.array(rows).reshape(len(rows), len(self.classes_))
