"""`record`, and the listeners that receive what it is called with.

A layer calls `record` for each value worth a look. In the current context the value
goes through the open interventions, in the order in which they were opened, and then to
the innermost recorder: a `Trace`, or the probes of `gradient_flow`. Inside a time loop
it goes to the listener of that loop alone, see `loops.py`.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

import keras

from kerasseq.core.keras_private import children
from kerasseq.core.types import Tensor

# Of values with heads, such as attention weights, whose units are the keys.
HEAD_AXES = ("rows", "heads", "steps", "units")


class About(NamedTuple):
    """What a recorded value is.

    Attributes:
        axes: The names of its axes. `at` selects along "rows", "heads", "steps" and
            "units".
        domain: The smallest and the largest number that may replace an entry; None if
            there is no limit.
    """

    axes: tuple[str, ...]
    domain: tuple[float, float] | None = None


class Listener:
    """Receives each value that is recorded.

    Attributes:
        intervenes: Whether it may return another value. It then comes before the
            recorders.
        alone: Whether values go to no listener that was opened before it.
        records: Whether it stores the values.
        differentiates: Whether gradients are computed while it is open.
        follows_states: Whether layers must compute the state of each step, also where
            a faster way has none.
    """

    intervenes: bool = False
    alone: bool = False
    records: bool = False
    differentiates: bool = False
    follows_states: bool = False

    def receive(
        self, layer: keras.Layer, name: str, value: Tensor, about: About
    ) -> Tensor:
        """Returns the value to continue with; here the value itself."""
        return value

    def write(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor:
        """Returns what a layer adds to its state at each step; here the value."""
        return value

    def is_open_for(self, model: keras.Layer) -> bool:
        """Returns whether the compiled methods of this model must raise an error."""
        return False


class ModelListener(Listener):
    """A listener to the layers of one model.

    Attributes:
        model: The model or layer.
    """

    def __init__(self, model: keras.Layer) -> None:
        self.model: keras.Layer = model
        getattr(model, "operations", None)  # an error before `fit` has built a task
        self._paths = paths(model)

    def is_open_for(self, model: keras.Layer) -> bool:
        return self.model is model

    def key(self, layer: keras.Layer, name: str, value: Tensor) -> str | None:
        """Returns the key of a value; None for what is not a value of the model."""
        path = self._paths.get(id(layer))
        # Keras runs the layers of a model that is not built to infer shapes.
        if path is None or not self.model.built or not hasattr(value, "shape"):
            return None
        return join(path, name)


AnyListener = TypeVar("AnyListener", bound=Listener)
_opened = contextvars.ContextVar("kerasseq_listeners", default=())
_open: set[int] = set()  # ids of the listeners of all contexts: torch.compile reads it


def record(
    layer: keras.Layer,
    name: str,
    value: Tensor,
    *,
    axes: Sequence[str] | None = None,
    domain: tuple[float, float] | None = None,
) -> Tensor:
    """Records a value under the path of `layer` and `name`.

    Outside of `trace`, `intervene` and `gradient_flow` the cost is one look-up.

    Args:
        layer: The layer that computed the value, usually `self`.
        name: Name of the value, such as `"forget_gate"`.
        value: A tensor.
        axes: Names of its axes, of which `tracing.at` selects along "rows", "heads",
            "steps" and "units". If None, `("rows", "units")`, or
            `("rows", "steps", "units")` of three axes; of four or more only "rows" is
            known. What a cell records inside a loop over time has no axis of steps.
        domain: The smallest and the largest number that `intervene` may set; any if
            None.

    Returns:
        The value to continue with. It is `value` itself, except inside `intervene`,
        which may replace it, and `gradient_flow`, which adds zeros to it in order to
        differentiate with respect to it.

    Raises:
        ValueError: If `axes` does not name each axis of the value.

    Examples:
        >>> record(keras.layers.Dense(3), "output", 5)
        5
    """
    if not _open:
        return value
    about = About(_names(name, value, axes), domain)
    for listener in active():
        value = listener.receive(layer, name, value, about)
    return value


def _names(name, value, axes):
    """Returns the names of the axes of a value."""
    rank = len(getattr(value, "shape", ()))
    if axes is None:
        return default_axes(rank)
    if len(axes) != rank:
        raise ValueError(
            f"axes must have one name for each of the {rank} axes of {name!r}, "
            f"received {tuple(axes)}. The names that tracing.at selects along are "
            '"rows", "heads", "steps" and "units"'
        )
    return tuple(axes)


def default_axes(rank: int) -> tuple[str, ...]:
    """Returns the names of the axes of a value that was recorded without names.

    Args:
        rank: Number of axes.

    Examples:
        >>> default_axes(2), default_axes(4)
        (('rows', 'units'), ('rows', 'axis_1', 'axis_2', 'axis_3'))
    """
    if 0 < rank < 4:
        return ("rows", "steps", "units") if rank == 3 else ("rows", "units")[:rank]
    return ("rows", *(f"axis_{n}" for n in range(1, rank)))[:rank]


def write(layer: keras.Layer, name: str, value: Tensor) -> Tensor:
    r"""Announces what is added to a state, for a state that is not in a time loop.

    A layer that computes $h_t = a_t h_{t-1} + b_t$ of all steps at once announces b
    before, and records h after. The gradient with respect to $b_t$ is that with respect
    to $h_t$, through later steps as well: `gradient_flow` adds its zeros here.

    Args:
        layer: The layer.
        name: Name of the state, as it is recorded.
        value: b, with the shape of h.

    Returns:
        The value to continue with.

    Examples:
        >>> write(keras.layers.Dense(3), "hidden_state", 5)
        5
    """
    for listener in active():
        value = listener.write(layer, name, value)
    return value


def opened() -> tuple[Listener, ...]:
    """Returns all listeners of the current context, the innermost last."""
    return _opened.get() if _open else ()


def active() -> tuple[Listener, ...]:
    """Returns the listeners that receive a value, in this order."""
    listeners = opened()
    if not listeners:
        return ()
    interventions, recorder = [], []
    for listener in listeners:
        if listener.alone:
            interventions, recorder = [], [listener]
        elif listener.intervenes:
            interventions.append(listener)
        else:
            recorder = [listener]
    return *interventions, *recorder


@contextlib.contextmanager
def listening(listener: AnyListener) -> Iterator[AnyListener]:
    """Opens a listener in the current context."""
    _open.add(id(listener))
    _opened.set((*_opened.get(), listener))
    try:
        yield listener
    finally:  # not `reset`: blocks may close in another order than they opened
        _opened.set(tuple(one for one in _opened.get() if one is not listener))
        _open.discard(id(listener))


class _Discard(Listener):
    alone = True


def pause() -> AbstractContextManager[Listener | None]:
    """Stops recording and replacing values inside the block."""
    if not opened():  # torch.compile cannot trace `listening`
        return contextlib.nullcontext()
    return listening(_Discard())


class _Differentiate(Listener):
    differentiates = True


def differentiating() -> AbstractContextManager[Listener]:
    """Declares that gradients are computed in the block, in which nothing is traced."""
    return listening(_Differentiate())


def is_differentiating() -> bool:
    """Returns whether gradients are computed in the current context."""
    return any(listener.differentiates for listener in opened())


def follows_states() -> bool:
    """Returns whether layers must compute the state of each step."""
    return any(listener.follows_states for listener in active())


def paths(root: keras.Layer) -> dict[int, str]:
    """Returns the path of each layer inside `root`, by the layer's `id`.

    Examples:
        >>> lstm = keras.layers.LSTM(3, name="lstm")
        >>> model = keras.Sequential([keras.layers.Bidirectional(lstm, name="both")])
        >>> sorted(paths(model).values())[:3]
        ['', 'both', 'both/backward_lstm']
    """
    by_layer = {}
    for path, layer in _walk(root, ""):
        by_layer.setdefault(id(layer), path)
    return by_layer


def located(root: keras.Layer) -> dict[str, keras.Layer]:
    """Returns the layers inside `root` by their paths.

    Examples:
        >>> model = keras.Sequential([keras.layers.Dense(3, name="dense")])
        >>> list(located(model))
        ['', 'dense']
    """
    return dict(_walk(root, ""))


def _walk(layer, path):
    """Yields each layer with its path, the outer ones first."""
    yield path, layer
    inside = getattr(layer, "layers", None)
    for child in children(layer) if inside is None else inside:
        yield from _walk(child, join(path, child.name))


def join(path: str, name: str) -> str:
    """Returns the key of a value of the layer with this path.

    Examples:
        >>> join("lstm", "forget_gate"), join("", "forget_gate")
        ('lstm/forget_gate', 'forget_gate')
    """
    return f"{path}/{name}" if path else name
