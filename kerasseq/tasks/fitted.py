"""What a model cannot do before `fit` has learned its labels or its tokenizer.

Only after `fit` a `SequenceClassifier`, `SequenceTagger` or `ViT` knows the sizes of
its layers. Keras would fail on the missing graph, or show a model without layers. The
same methods refuse texts where the graph reads ids.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import keras

from kerasseq.core.ids import refuse_texts

OF_IDS = ("__call__", "predict")  # methods that read inputs
OF_IDS += ("train_on_batch", "test_on_batch", "predict_on_batch")
METHODS = (
    *("summary", "save", "export", "save_weights", "load_weights", "get_layer"),
    *("get_weights", "set_weights", "count_params", "quantize", *OF_IDS),
    *("enable_lora", "merge_lora", "set_adapter"),
    *("save_lora_weights", "load_lora_weights"),
)
PROPERTIES = ("layers", "input", "output", "inputs", "outputs")
PROPERTIES += ("input_shape", "output_shape", "operations")
Model = TypeVar("Model", bound=type[keras.Model])


class NotFittedError(ValueError):
    """A model has no layers yet, as `fit` has not learned what sets their sizes."""


def needs_fit(cls: Model) -> Model:
    """Guards the methods of a class of models that need layers, and ids to read.

    Instances without layers have the attribute `awaits_fit`.
    """
    for name in METHODS:
        setattr(cls, name, _guarded_method(cls, name))
    for name in PROPERTIES:
        setattr(cls, name, _guarded_property(cls, name))
    return cls


def check_fitted(model: Any) -> None:
    """Raises a `NotFittedError` if `fit` has yet to build the layers of a model."""
    if model.awaits_fit:
        if isinstance(model._arguments.get("categories"), list):  # of a forecaster
            raise _not_fitted(["categories"])
        check_learned(model)


def check_learned(model: Any) -> Any:
    """Returns the head of a model; raises before `fit` has learned what it needs.

    Raises:
        NotFittedError: If the labels are unknown, or the tokenizer is not trained.
    """
    missing = ["labels"] if model.task.is_waiting else []
    if model.preprocessor.is_waiting:
        missing.append("tokenizer")
    if missing:
        raise _not_fitted(missing)
    return model.task


def check_ready(model: Any, x: Any) -> None:
    """Raises if a model has no layers yet, or reads texts where its graph reads ids.

    Args:
        model: The model.
        x: What Keras is about to train on.
    """
    check_fitted(model)
    _check_ids(model, x)


def _check_ids(model, x):
    refuse_texts(x, getattr(model, "tokenizer", None) is not None)


def _not_fitted(missing):
    return NotFittedError(
        "expected a trained model, received one that has not learned its "
        f"{' and '.join(missing)}. Call fit first"
    )


def _guarded_method(cls: Any, name: str) -> Callable[..., Any]:
    own = vars(cls).get(name)

    @functools.wraps(getattr(cls, name))
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_fitted(self)
        if name in OF_IDS:  # where a subclass has encoded texts already
            _check_ids(self, args[0] if args else kwargs.get("x"))
        if own is not None:
            return own(self, *args, **kwargs)
        return getattr(super(cls, self), name)(*args, **kwargs)

    # The one of the class, by which it is pickled, where `own` is of a module.
    method.__module__, method.__qualname__ = (
        cls.__module__,
        f"{cls.__qualname__}.{name}",
    )
    return method


def _guarded_property(cls: Any, name: str) -> property:
    getters = []  # that of Keras, which a compiler cannot look up by `super`

    def get(self: Any) -> Any:
        check_fitted(self)
        if not getters:  # the first model is built: its class has all bases by now
            getters.append(_inherited(cls, name))
        return getters[0](self)

    attribute = getattr(keras.Model, name, None)
    return property(get, doc=getattr(attribute, "__doc__", None))


def _inherited(cls: Any, name: str) -> Callable[[Any], Any]:
    """Returns the getter of a property of the bases of a class."""
    owner = next(base for base in cls.__mro__[1:] if name in vars(base))
    return vars(owner)[name].fget
