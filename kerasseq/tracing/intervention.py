"""`intervene`: replaces values that the layers of a model compute during eager calls.

Every value that `trace` records can be replaced: gates, states, attention weights,
hidden states of Transformer blocks. What the model computes from it changes as well.
"""

import contextlib
import dataclasses
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Tensor
from kerasseq.tracing.compiled_calls import check_eager, listening_to
from kerasseq.tracing.listeners import (
    About,
    ModelListener,
    active,
    is_differentiating,
    join,
)
from kerasseq.tracing.unrecorded import missing_value

Index: TypeAlias = int | slice | range | Sequence[int] | Sequence[bool] | np.ndarray
Function: TypeAlias = Callable[[np.ndarray, int | None], Any]
# What a value is replaced by: a number, an array, or a function of value and step.
Replacement: TypeAlias = float | np.ndarray | Function


class Moment(NamedTuple):
    """A step of a time loop: its number in the order of the input, of how many."""

    t: int
    steps: int


@dataclasses.dataclass(frozen=True, eq=False)
class At:
    """A replacement of some entries of a value; `at` makes one.

    Attributes:
        value: A number, an array or a function.
        index: The chosen entries by axis: "rows", "heads", "steps", "units".
    """

    value: Replacement
    index: dict[str, Index] = dataclasses.field(default_factory=dict)

    def apply(
        self, key: str, old: Tensor, about: About, moment: Moment | None
    ) -> Tensor:
        """Computes the value to continue with.

        Args:
            key: The key of the value, for messages.
            old: The value; in a time loop that of one step.
            about: The names of its axes, and which numbers may replace it.
            moment: The step, in a time loop.
        """
        chosen = self._chosen(key, old, about.axes, moment)
        if chosen is False:
            return old
        new = self._new(key, old, moment)
        if about.domain is not None:
            _check_domain(key, new, old.shape, chosen, about.domain)
        new = ops.convert_to_tensor(
            new, dtype=keras.backend.standardize_dtype(old.dtype)
        )
        new = ops.broadcast_to(new, old.shape)
        return new if chosen is True else ops.where(chosen, new, old)

    def _new(self, key, old, moment):
        """Returns new values, a NumPy array that broadcasts to the shape of the old."""
        if callable(self.value):
            return _called(self.value, key, old, moment)
        shape = tuple(old.shape)
        if moment is not None:
            shape = (shape[0], moment.steps, *shape[1:])
        try:
            new = np.broadcast_to(as_array(self.value), shape)
        except ValueError:
            raise ValueError(
                f"the replacement of {key!r} must be a number, or an array that "
                f"broadcasts to its shape {shape}, received shape "
                f"{np.shape(as_array(self.value))}"
            ) from None
        return new if moment is None else new[:, moment.t]

    def _chosen(self, key, old, axes, moment):
        """Booleans that broadcast to the value; or True for all, False for none."""
        chosen = True
        for axis, index in self.index.items():
            if axis == "steps" and moment is not None:
                if not _mask(key, axis, index, moment.steps)[moment.t]:
                    return False
                continue
            n = _axis(key, axis, axes, moment)
            shape = [1] * len(old.shape)
            shape[n] = -1
            mask = _mask(key, axis, index, old.shape[n]).reshape(shape)
            chosen = mask if chosen is True else chosen & mask
        return chosen


def at(
    value: Replacement,
    *,
    rows: Index | None = None,
    heads: Index | None = None,
    steps: Index | None = None,
    units: Index | None = None,
) -> At:
    """Replaces chosen entries of a value, for `intervene`; the others are unchanged.

    Each argument takes an integer, a list of integers, a slice, or an array of
    booleans. The axes are those of the array in a trace, whose names `Trace.axes`
    returns: `("rows", "steps", "units")`, with heads `("rows", "heads", "steps",
    "units")`. For attention weights `steps` are the queries, and `units` the keys.

    Args:
        value: A number, an array that broadcasts to the shape in a trace, or a function
            as for `intervene`.
        rows: Indices in the batch.
        heads: Indices of heads.
        steps: Time steps, in the order of the input.
        units: Indices of units.

    Returns:
        A replacement for `intervene`.

    Raises:
        TypeError: If an index or the value is of another type.

    `intervene` raises a ValueError for an axis that the value does not have, such as
    the steps of a state after the last step.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.LSTM(3, return_sequences=True)
        >>> closed = at(0.0, units=[0, 2], steps=slice(4, None))
        >>> with intervene(layer, {"output_gate": closed}):
        ...     h = layer(np.ones((1, 7, 5)))
        >>> (keras.ops.convert_to_numpy(h)[0, :, 0] == 0).tolist()
        [False, False, False, False, True, True, True]
    """
    given = {"rows": rows, "heads": heads, "steps": steps, "units": units}
    index = {
        axis: _checked_index(axis, each)
        for axis, each in given.items()
        if each is not None
    }
    return At(_checked_value("value", value), index)


class Intervention(ModelListener):
    """Replaces values of a model by key, wherever its layers record them."""

    intervenes = True

    def __init__(self, model: keras.Layer, changes: Mapping[str, At]) -> None:
        super().__init__(model)
        self._changes = dict(changes)
        self._names: dict[str, None] = {}  # of all values so far, in order

    def receive(
        self, layer: keras.Layer, name: str, value: Tensor, about: About
    ) -> Tensor:
        return self.replace(layer, name, value, about, None)

    def replace(
        self,
        layer: keras.Layer,
        name: str,
        value: Tensor,
        about: About,
        moment: Moment | None,
    ) -> Tensor:
        """Returns the value to continue with, in a time loop that of one step."""
        key = self.key(layer, name, value)
        if key is None:
            return value
        self._names[key] = None
        change = self._changes.get(key)
        if change is None:
            return value
        if is_differentiating():
            if callable(change.value):
                raise ValueError(
                    f"the replacement of {key!r} must be a number or an array while "
                    "gradients are computed, received a function, which NumPy computes "
                    "without gradients. Compute the array before, from a trace"
                )
        else:
            check_eager(layer, name, value)
        return change.apply(key, value, about, moment)

    def changes(self, layer: keras.Layer) -> bool:
        """Returns whether a value of this layer or inside it may be replaced."""
        path = self._paths.get(id(layer))
        if path is None or not self.model.built:
            return False
        return any(key.startswith(join(path, "")) for key in self._changes)

    def replaces(self, layer: keras.Layer, name: str) -> bool:
        """Returns whether this value of a layer is replaced."""
        path = self._paths.get(id(layer))
        return (
            path is not None and self.model.built and join(path, name) in self._changes
        )

    def is_incomplete(self) -> bool:
        """Returns whether a value that shall be replaced has not been computed yet."""
        return self.model.built and not self._changes.keys() <= self._names.keys()

    def check_names(self) -> None:
        """Raises unless every value was computed that shall be replaced."""
        for key in self._changes:
            if key not in self._names:
                message = missing_value(key, self._names, self.model)
                raise KeyError(message)


def is_replaced(layer: keras.Layer, name: str) -> bool:
    """Returns whether an open intervention replaces this value of a layer.

    Args:
        layer: The layer.
        name: Name of the value, as it is recorded.

    Examples:
        >>> is_replaced(keras.layers.Dense(3), "output")
        False
    """
    return any(
        isinstance(one, Intervention) and one.replaces(layer, name) for one in active()
    )


@contextlib.contextmanager
def intervene(
    model: keras.Layer, changes: Mapping[str, Replacement | At]
) -> Iterator[None]:
    """Replaces values that the layers of `model` compute, in eager calls in the block.

    The outputs change, and so does what `trace` records, inside or outside of the
    block. The keys are those of a trace. A value is replaced by

    - a number: `0.0` closes a gate;
    - an array that broadcasts to the array in a trace, such as one of another input;
    - a function `f(value, t)`. In a time loop it is called for each step, with the
      value of that step `(batch, units)` and its number `t`, in the order of the input;
      elsewhere with the whole value and None. Both are NumPy: `value` is a copy that
      the function may change and return, or it returns a number;
    - `at(replacement, units=..., steps=...)`, which replaces chosen entries only.

    If blocks are nested, the inner one continues with the value of the outer one. In
    the calls of a layer for single steps, as in `generate`, `t` is 0.

    Args:
        model: A Keras model, or one layer.
        changes: Replacements by key, such as `{"lstm/forget_gate": 0.0}`.

    Raises:
        KeyError: At the end of the block, if there is no value with a key.
        RuntimeError: If `fit`, `predict` or another compiled call runs inside the
            block, since nothing can be replaced there.
        TypeError: If a replacement is of another type.
        ValueError: If a replacement has the wrong shape, or an index is out of range.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.LSTM(3)
        >>> x = np.ones((2, 7, 5))
        >>> with intervene(layer, {"forget_gate": 1.0, "input_gate": 0.0}):
        ...     h = layer(x)  # nothing is written, so nothing is remembered
        >>> bool(keras.ops.all(h == 0))
        True
        >>> def halve(c, t):
        ...     return c / 2 if t == 4 else c
        >>> with intervene(layer, {"cell_state": halve}):
        ...     h = layer(x)
    """
    if not isinstance(changes, Mapping):
        raise TypeError(
            "changes must be a dictionary from keys to replacements, received "
            f"{checks.short(changes)}"
        )
    changes = {
        key: each if isinstance(each, At) else At(_checked_value(repr(key), each))
        for key, each in changes.items()
    }
    with listening_to(model, Intervention(model, changes)) as intervention:
        yield
    intervention.check_names()


def as_array(value: Any) -> np.ndarray:
    """Returns a number, an array or a tensor as a NumPy array, bfloat16 as float32."""
    array = ops.convert_to_numpy(value) if hasattr(value, "shape") else value
    array = np.asarray(array)
    return array.astype("float32") if array.dtype.name == "bfloat16" else array


def _called(function, key, old, moment):
    """Returns what a function returns for a value, checked."""
    value = as_array(old).copy()
    new = function(value, None if moment is None else moment.t)
    if new is None:
        raise TypeError(
            f"the function for {key!r} must return the new value, received None. End "
            "it with return"
        )
    new = as_array(new)
    if new.shape not in ((), value.shape) or new.dtype.kind not in "biuf":
        raise ValueError(
            f"the function for {key!r} must return a number or an array of shape "
            f"{value.shape}, received {new.dtype} of shape {new.shape}"
        )
    return new


def _checked_value(name, value):
    if callable(value) or (isinstance(value, numbers.Real)):
        return value
    try:
        array = as_array(value)
    except (TypeError, ValueError):
        array = np.array(None)
    if isinstance(value, str) or array.dtype.kind not in "biuf":
        raise TypeError(
            f"the replacement of {name} must be a number, an array, a function of "
            f"value and step, or at(...), received {checks.short(value)}"
        )
    return array


def _checked_index(axis, index):
    if isinstance(index, slice):
        return index
    try:
        array = np.asarray(index if np.size(index) else np.zeros(0, "int64"))
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "bi" or array.ndim > 1 or isinstance(index, bool):
        raise TypeError(
            f"{axis} must be an integer, a list of integers, a slice or an array of "
            f"booleans, received {checks.short(index)}"
        )
    return array


def _axis(key, axis, axes, moment):
    """Returns the axis of a value that `at` calls by a name."""
    if axis in axes:
        return axes.index(axis)
    advice = "Leave it out, or pass an array of all entries"
    if "axis_1" in axes:
        advice = "Name the axes where the layer records it: record(..., axes=...)"
    known = axes if moment is None else (axes[0], "steps", *axes[1:])
    raise ValueError(
        f"{axis} must not be given for {key!r}, received {axis}=: its axes are "
        f"{', '.join(known)}. {advice}"
    )


def _check_domain(key, new, shape, chosen, domain):
    """Raises unless all chosen entries of a replacement are in the domain."""
    entries = np.broadcast_to(new, shape)
    if chosen is not True:
        entries = entries[np.broadcast_to(chosen, shape)]
    low, high = domain
    wrong = entries[~((entries >= low) & (entries <= high))]
    if wrong.size:
        raise ValueError(
            f"the replacement of {key!r} must be from {low:g} to {high:g}, received "
            f"{wrong.flat[0]:g}. Choose numbers in this range"
        )


def _mask(key, axis, index, size):
    """Booleans `(size,)`, True at an index."""
    mask = np.zeros(size, bool)
    try:
        mask[index] = True
    except IndexError:
        raise ValueError(
            f"{axis} of {key!r} must be from 0 to {size - 1}, received "
            f"{checks.short(np.asarray(index).tolist())}"
        ) from None
    return mask
