"""What `fit` is called with, what Keras gets of it, and what needs `fit` first."""

import dataclasses
import functools
import inspect
import math
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self, TypeVar

import keras

from kerasseq.core import checks
from kerasseq.core.arguments import check_names
from kerasseq.core.ids import refuse_texts
from kerasseq.tasks.data_checks import array_weights
from kerasseq.tasks.input_rows import are_batches
from kerasseq.training.batches import HELD_OUT, KerasData, fit_arguments

OF_KERAS = {
    "fit": [*inspect.signature(keras.Model.fit).parameters],
    "evaluate": [*inspect.signature(keras.Model.evaluate).parameters],
    "predict": [*inspect.signature(keras.Model.predict).parameters],
}


@dataclasses.dataclass
class FitCall:
    """The arguments of a call of `fit`; or of another method, as data for validation.

    Attributes:
        x: The data. Arguments without a description are those of `fit`.
        y: None if `x` has them.
        sample_weight: None for 1.
        class_weight: None for 1.
        batch_size: Rows in a batch.
        epochs: None if the model is to choose.
        initial_epoch: Number of epochs trained before.
        steps_per_epoch: None for all rows.
        validation_split: 0 if no rows are held out, unless `patience` needs them.
        validation_data: None if there are none.
        patience: None to train all epochs.
        seed: None if it is not given.
        own: Arguments of this kind of model alone, by name.
        keras: Other arguments of `keras.Model.fit`, which a model may complete.
        streamed: Whether a model reads a stream of texts batch by batch.
        history: What `fit` returns, if a model need not be trained any more.
        method: "fit", "evaluate" or "predict".
    """

    x: Any
    y: Any
    sample_weight: Any
    class_weight: Any
    batch_size: int
    epochs: int | None
    initial_epoch: int
    steps_per_epoch: int | None
    validation_split: float
    validation_data: Any
    patience: int | None
    seed: int | None
    own: dict[str, Any]
    keras: dict[str, Any]
    streamed: bool = False
    history: Any = None  # a `keras.callbacks.History`
    method: str = "fit"

    def __post_init__(self) -> None:
        """Raises if a number is out of range, whatever reads the data later."""
        self.validation_split = checks.fraction(
            "validation_split", self.validation_split or 0.0
        )
        self._check_numbers()
        if isinstance(self.validation_data, tuple):
            check_parts(self.validation_data, at_most=math.inf)

    def _check_numbers(self):
        sizes = {"batch_size": 1, "epochs": 0, "initial_epoch": 0, "seed": 0}
        sizes |= dict.fromkeys(("steps_per_epoch", "patience"), 1)
        for name, least in sizes.items():
            value = getattr(self, name)
            if value is not None or name == "initial_epoch":
                checks.whole_number(name, value, least)
        for name in ("validation_batch_size", "validation_steps"):
            if self.keras.get(name) is not None:
                of_call = (
                    name if self.method == "fit" else name.removeprefix("validation_")
                )
                checks.whole_number(of_call, self.keras[name])
        often = self.keras.get("validation_freq", 1)  # or a list of epochs
        if not isinstance(often, Collection) or isinstance(often, str):
            checks.whole_number("validation_freq", often)

    @classmethod
    def of_evaluation(
        cls,
        data: tuple[Any, Any, Any],
        batch_size: int,
        steps: int | None,
        own: dict[str, Any],
        method: str = "evaluate",
    ) -> Self:
        """Returns the call whose validation is a call of `evaluate` or `predict`.

        Args:
            data: Inputs, labels and sample weights.
            batch_size: Rows in a batch.
            steps: Number of batches; all if None.
            own: Arguments of this kind of model alone, by name.
            method: "evaluate" or "predict".
        """
        count = max(n for n in (1, 2, 3) if n == 1 or data[n - 1] is not None)
        return cls(
            *data, None, batch_size, None, 0, None, 0.0, data[:count], None, None, own,
            {"validation_steps": steps}, method=method,
        )  # fmt: skip

    @property
    def held_out_size(self) -> int:
        """Rows in a batch of data for validation."""
        return self.keras.get("validation_batch_size") or self.batch_size

    @property
    def held_out_rows(self) -> int | None:
        """Rows of data for validation, of a stream that is read in part; else None."""
        steps = self.keras.get("validation_steps")
        return None if steps is None else steps * self.held_out_size

    @property
    def holds_out(self) -> bool:
        """Whether rows are to be held out of the training, for validation."""
        wanted = self.validation_split or self.patience is not None
        return bool(wanted) and self.validation_data is None

    def refuse(self, reason: str, *names: str) -> None:
        """Raises if arguments are given that have no effect here.

        Args:
            reason: Why, for the message.
            *names: The names of the arguments.

        Raises:
            ValueError: If one is given.
        """
        for name in names:
            given = self.own[name] if name in self.own else getattr(self, name, None)
            if name == "validation_split":
                given = given or None
            if given is not None:
                raise ValueError(
                    f"{name} must be left out {reason}, received {checks.short(given)}"
                )


def fit_arguments_of(model: Any, call: FitCall) -> tuple[Any, dict[str, Any]]:
    """Returns what is trained on, and the arguments of `keras.Model.fit`.

    Args:
        model: The model, of which `training_data` and `held_out_data` are asked.
        call: The call.
    """
    data = model.training_data(call)
    fraction, seed = call.validation_split, call.seed or 0
    held_out = call.validation_data
    if held_out is not None:
        held_out = of_parts(*prepared(model, call))
    elif call.holds_out and not isinstance(data, KerasData):
        data, rows = data.split(fraction, seed)
        held_out, fraction = rows.held_out(call), 0.0
    elif call.holds_out and are_batches(data.x):
        reason = "for batches, which fit cannot divide; give validation_data"
        call.refuse(reason, "validation_split")
    elif call.holds_out:
        fraction = fraction or HELD_OUT
    epochs = {"epochs": 1 if call.epochs is None else call.epochs}
    options = {**epochs, "initial_epoch": call.initial_epoch, **call.keras}
    options["validation_data"] = held_out
    options["validation_batch_size"] = call.held_out_size
    if not isinstance(data, KerasData):
        data = data.for_keras() or data
    if isinstance(data, KerasData):
        source, arguments = data.x, _arguments_of_arrays(data, call, fraction, options)
    else:
        source = data.batches(call.batch_size, seed)
        arguments = fit_arguments(source, call.steps_per_epoch, options)
    return source, with_early_stopping(call.patience, arguments)


def _arguments_of_arrays(data, call, fraction, options):
    by_class, weights = data.class_weight, data.sample_weight
    if by_class is not None and not isinstance(by_class, Mapping):
        raise ValueError(
            "class_weight must be a dictionary here, of the weight of each integer "
            f"label, as the rows have no labels to count, received {by_class!r}"
        )
    if are_batches(data.x):
        call.refuse("for batches, which have an order of their own", "seed")
    return {
        **data._replace(sample_weight=array_weights(data.x, weights))._asdict(),
        "batch_size": None if are_batches(data.x) else call.batch_size,
        "steps_per_epoch": call.steps_per_epoch,
        "validation_split": fraction,
        # Keras cannot shuffle a generator.
        "shuffle": not isinstance(data.x, types.GeneratorType),
        **options,
    }


def own_options(
    model: Any, method: str, names: Sequence[str], options: dict[str, Any]
) -> dict[str, Any]:
    """Takes the arguments out that a kind of models alone has, and returns them.

    Args:
        model: The model.
        method: "fit", "evaluate" or "predict".
        names: The names of these arguments.
        options: Arguments by name.

    Raises:
        TypeError: If one is unknown, or `callbacks` has anything else.
    """
    known = (*OF_KERAS[method], *names)
    # Keras' `fit` passes private ones of its own to `evaluate`.
    others = {
        n: value for n, value in options.items() if n not in known and n[0] != "_"
    }
    if others:
        check_names(method, getattr(type(model), method), known, others)
    for each in callbacks_of(options):
        if not hasattr(each, "set_model"):
            raise TypeError(
                "callbacks must be a keras.callbacks.Callback, or a list of them, "
                f"received {checks.short(each)}"
            )
    return {name: options.pop(name) for name in names if name in options}


def prepared(model: Any, call: FitCall) -> tuple[Any, Any, Any]:
    """Returns inputs, targets and weights to validate on, or to evaluate.

    Args:
        model: The model, of which `held_out_data` is asked.
        call: The call of `fit` or `evaluate`.
    """
    data = model.held_out_data(call)
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    return x, y, array_weights(x, weights)


def first_part(data: Any) -> Any:
    """Returns the inputs of data for validation, or None.

    Examples:
        >>> first_part((["a"], [1])), first_part(["a"])
        (['a'], ['a'])
    """
    return data[0] if isinstance(data, tuple) and data else data


def of_parts(x: Any, y: Any, sample_weight: Any) -> Any:
    """Returns data for validation as Keras reads them, without the parts that are None.

    Examples:
        >>> of_parts("x", None, None), of_parts("x", "y", None)
        ('x', ('x', 'y'))
    """
    if sample_weight is not None:
        return x, y, sample_weight
    # Several inputs would be taken for inputs and targets.
    return x if y is None and not isinstance(x, list | tuple) else (x, y)


def parts_of(data: Any) -> tuple[Any, Any, Any]:
    """Returns inputs, targets and weights of data for validation; None for none.

    Args:
        data: A tuple of up to three parts, or inputs in any other form.

    Examples:
        >>> parts_of((["a"], [1])), parts_of(["a"])
        ((['a'], [1], None), (['a'], None, None))
    """
    parts = data if isinstance(data, tuple) else (data,)
    check_parts(parts)
    return (*parts, None, None)[:3]


def check_parts(data: Sequence[Any], at_most: float = 3) -> None:
    """Raises unless these can be inputs, labels and weights to validate on.

    Args:
        data: The `validation_data` of `fit`.
        at_most: How many parts there are, at most.

    Examples:
        >>> check_parts((["a"], [1]))
        >>> check_parts(())
        Traceback (most recent call last):
        ...
        ValueError: validation_data must be (x, y), (x, y, sample_weight), or in a \
form of x, received 0 parts, ()
    """
    if not 0 < len(data) <= at_most:
        raise ValueError(
            "validation_data must be (x, y), (x, y, sample_weight), or in a form of "
            f"x, received {len(data)} parts, {checks.short(data)}"
        )


def with_early_stopping(
    patience: int | None, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Returns arguments for `keras.Model.fit`, with a callback for `patience`.

    Args:
        patience: Epochs without a lower validation loss after which training stops.
            Then, and after the last epoch, the weights become those of the epoch with
            the lowest. None trains all epochs.
        arguments: The arguments.

    Raises:
        ValueError: If there are no data for validation.

    Examples:
        >>> arguments = with_early_stopping(3, {"validation_split": 0.1})
        >>> arguments["callbacks"][0].patience
        3
    """
    if patience is None:
        return arguments
    data, fraction = arguments.get("validation_data"), arguments.get("validation_split")
    if data is None and not fraction:
        raise ValueError(
            f"patience={patience} needs data for validation, received neither "
            "validation_data nor validation_split"
        )
    best = keras.callbacks.EarlyStopping(patience=patience, restore_best_weights=True)
    return with_callback(arguments, best)


def with_callback(
    arguments: dict[str, Any], callback: keras.callbacks.Callback
) -> dict[str, Any]:
    """Returns arguments for `keras.Model.fit` with one more callback.

    Args:
        arguments: The arguments, whose callbacks are a list, one or a `CallbackList`.
        callback: The callback.

    Examples:
        >>> one = keras.callbacks.TerminateOnNaN()
        >>> len(with_callback({"callbacks": one}, one)["callbacks"])
        2
    """
    return {**arguments, "callbacks": [*callbacks_of(arguments), callback]}


def callbacks_of(arguments: dict[str, Any]) -> list[Any]:
    """Returns the callbacks among arguments for `keras.Model.fit`.

    Args:
        arguments: The arguments, whose callbacks are a list, one or a `CallbackList`.

    Examples:
        >>> one = keras.callbacks.TerminateOnNaN()
        >>> callbacks_of({}), len(callbacks_of({"callbacks": one}))
        ([], 1)
    """
    callbacks = arguments.get("callbacks") or []
    if not isinstance(callbacks, list | tuple):
        callbacks = getattr(callbacks, "callbacks", [callbacks])
    return [*callbacks]


# Methods that read inputs.
OF_IDS = ("__call__", "train_on_batch", "test_on_batch", "predict_on_batch")
METHODS = (
    *("summary", "export", "save_weights", "load_weights", "get_layer"),
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

    Instances without layers have the attribute `awaits_fit`. Those have a summary, a
    list of no layers, and can be saved, as models of Keras that are not built.
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
    waiting = {"labels": model.task, "tokenizer": model.preprocessor}
    missing = [name for name, part in waiting.items() if part.is_waiting]
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
    names = "tokenizer", "source_tokenizer"
    refuse_texts(x, any(getattr(model, each, None) is not None for each in names))


def _not_fitted(missing):
    return NotFittedError(
        "expected a trained model, received one that has not learned its "
        f"{' and '.join(missing)}. Call fit first"
    )


def _guarded_method(cls: Any, name: str) -> Callable[..., Any]:
    own = vars(cls).get(name)

    @functools.wraps(getattr(cls, name))
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "summary" and self.awaits_fit:
            return _show_unfitted(self, *args, **kwargs)
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


def _show_unfitted(model, *args, **kwargs):
    """Prints the summary of a model without layers, and what `fit` is to learn."""
    keras.Sequential(name=model.name).summary(*args, **kwargs)
    try:
        check_fitted(model)
    except NotFittedError as error:
        (kwargs.get("print_fn") or print)(f" Not built: {error}")


def _guarded_property(cls: Any, name: str) -> property:
    getters = []  # that of Keras, which a compiler cannot look up by `super`

    def get(self: Any) -> Any:
        if name == "layers" and self.awaits_fit:
            return []
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
