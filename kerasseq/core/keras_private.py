"""Names of Keras that are not public: all that kerasseq uses, and why.

Each function says which name it reads, in which versions of Keras it is known, and what
happens without it. The tests run each of them without its name.
"""

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import keras

Masks = TypeVar("Masks")


def dropout_base(otherwise: type[Masks]) -> type[Masks]:
    """Returns the class of Keras' cells that keeps their dropout masks.

    Name: none. It is the base of `keras.layers.LSTMCell` with `get_dropout_mask`, which
        Keras calls `DropoutRNNCell`.
    Known in: Keras 3.0 to 3.15.
    Why: `keras.layers.RNN` draws the masks of a cell before its loop, and new ones in
        each call, if the cell is an instance of this class.
    Without it: The cells keep the masks themselves, and our layers give the same
        results. In `keras.layers.RNN` a cell of ours keeps its first masks, and fails
        on JAX; `kerasseq.layers.RNN` takes the same cells.

    Args:
        otherwise: A class with its methods, which is returned without it.
    """
    for cls in keras.layers.LSTMCell.__mro__[1:]:
        if "get_dropout_mask" in vars(cls):
            return cls
    return otherwise


def children(layer: keras.Layer) -> list[keras.Layer]:
    """Returns the layers directly inside a layer or model, in the order Keras has them.

    Name: `keras.Layer._flatten_layers`.
    Known in: Keras 3.0 to 3.15.
    Why: Any layer may have others inside. Only models have a public list of them.
    Without it: The layers among the attributes of the layer, and in their lists, tuples
        and dictionaries; these are the same. Those of a `keras.Sequential` are its
        public `layers`, without that of its inputs.

    Examples:
        >>> [child.name for child in children(keras.layers.TimeDistributed(
        ...     keras.layers.Dense(3, name="dense")))]
        ['dense']
    """
    if hasattr(layer, "_flatten_layers"):
        return layer._flatten_layers(include_self=False, recursive=False)
    if isinstance(layer, keras.Sequential):  # an attribute holds them again as a model
        return layer.layers
    by_id = {id(child): child for child in _layers_in(vars(layer))}
    return list(by_id.values())


def _layers_in(value: object) -> Iterator[keras.Layer]:
    if isinstance(value, keras.Layer):
        yield value
    elif isinstance(value, dict):
        yield from _layers_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _layers_in(part)


def contents_reader(
    names: Iterable[str] = (),
) -> Callable[[keras.Layer], list[Any]]:
    """Returns a function that lists what a layer consists of.

    These are its dtype policy, the layers and variables in it, and the attributes of
    the given names, None for one that is gone.

    Name: `keras.Layer._dtype_policy`, `keras.Layer._layers`,
        `keras.Layer._trainable_variables`, `keras.Layer._non_trainable_variables`.
    Known in: Keras 3.0 to 3.15.
    Why: What was compiled of a model is dropped when one of them is another. They are
        read at each call, and the public lists go through all layers inside each layer.
    Without it: The public lists, which take longer.

    Examples:
        >>> contents = contents_reader(["rate"])(keras.layers.Dropout(0.5))
        >>> [type(each).__name__ for each in contents]
        ['DTypePolicy', 'float']
    """
    private = "_dtype_policy", "_layers"
    variables = "_trainable_variables", "_non_trainable_variables"
    get = operator.itemgetter(*private, *variables, *names)

    def read(layer: keras.Layer) -> list[Any]:
        try:
            policy, layers, trained, others, *rest = get(vars(layer))
        except KeyError:
            inside = [layer.dtype_policy, *children(layer), *layer.variables]
            return [*inside, *map(vars(layer).get, names)]
        return [policy, *layers, *trained, *others, *rest]

    return read


@contextlib.contextmanager
def open_to_parts(layer: keras.Layer) -> Iterator[None]:
    """Lets a built layer get other variables and layers inside the block.

    Name: `keras.Layer._tracker`, with `locked`, `lock` and `unlock`.
    Known in: Keras 3.0 to 3.15.
    Why: An adapter is added to a layer that is built, as Keras' own `enable_lora` does.
    Without it: Keras refuses the variables of the adapter.
    """
    tracker = getattr(layer, "_tracker", None)
    was_locked = getattr(tracker, "locked", False)
    if was_locked:
        tracker.unlock()
    try:
        yield
    finally:
        if was_locked:
            tracker.lock()


def remove_part(layer: keras.Layer, part: keras.Layer) -> None:
    """Takes a layer out of another.

    Name: `keras.Layer._tracker`, with `untrack`.
    Known in: Keras 3.0 to 3.15.
    Why: The dropout of an adapter goes with it.
    Without it: It stays among the layers inside, and is not called.
    """
    tracker = getattr(layer, "_tracker", None)
    if tracker is not None:
        with open_to_parts(layer):
            tracker.untrack(part)


def remove_kernel(layer: keras.Layer) -> None:
    """Deletes the kernel of a dense layer, which has another form of it.

    Name: `keras.layers.Dense._kernel`, and that of `keras.layers.EinsumDense`.
    Known in: Keras 3.6 to 3.15.
    Why: The name `kernel` is a property, which reads it.
    Without it: The kernel stays, beside its other form, and is not read.
    """
    if hasattr(layer, "_kernel"):
        remove_weight(layer, "_kernel")


def remove_weight(layer: keras.Layer, name: str) -> None:
    """Takes a weight out of a layer, built or not.

    Name: `keras.Layer._untrack_variable`.
    Known in: Keras 3.0 to 3.15.
    Why: `del layer.weight` collects the garbage of the whole process each time, which
        takes seconds for the adapters of a model.
    Without it: It does.
    """
    untrack = getattr(layer, "_untrack_variable", None)
    if untrack is None:
        delattr(layer, name)
    else:
        untrack(getattr(layer, name))
        super(keras.Layer, layer).__delattr__(name)


def raw_value(variable: keras.Variable) -> Any:
    """Returns the value of a variable in its own dtype, as the backend keeps it.

    Name: `keras.Variable._value`.
    Known in: Keras 3.0 to 3.15.
    Why: Inside the call of a layer of mixed precision `value` is rounded to the compute
        dtype. A function of the weights must get them as they are.
    Without it: It gets rounded ones: norms in float32 then differ by this rounding.

    Examples:
        >>> keras.ops.convert_to_numpy(raw_value(keras.Variable(3.0)))
        array(3., dtype=float32)
    """
    value = getattr(variable, "_value", None)
    return variable.value if value is None else value


def node_of(tensor: keras.KerasTensor) -> Any:
    """Returns the call that made a symbolic tensor; None if no operation made it.

    It has the attributes `operation`, `arguments` and `outputs`.

    Name: `keras.KerasTensor._keras_history`, `keras.Operation._inbound_nodes`.
    Known in: Keras 3.0 to 3.15.
    Why: The loop of a cell is derived from the operations of its step.
    Without it: No loop is derived, and the steps run one by one.
    """
    operation, index, _ = getattr(tensor, "_keras_history", (None, 0, 0))
    nodes = getattr(operation, "_inbound_nodes", [])
    return nodes[index] if nodes else None


def infers_shapes() -> bool:
    """Returns whether Keras runs a layer only to infer the shapes of its outputs.

    Name: `keras.SymbolicScope.original_scope`, the scope around a scope.
    Known in: Keras 3.0 to 3.15.
    Why: Shapes of a layer that runs on several devices are inferred where there are
        fewer, as when a model is loaded.
    Without it: Such a model cannot be loaded there if its batch size is fixed.

    Examples:
        >>> infers_shapes()
        False
    """
    with keras.SymbolicScope() as scope:
        return getattr(scope, "original_scope", None) is not None
