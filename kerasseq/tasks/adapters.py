"""LoRA of a whole model: which layers get an adapter, and which weights are trained.

An adapter is the A and B of some dense layers (`core.dense`), and the layers of a new
head, which are trained whole. A model keeps several by name, of which one is active:
only that one is part of its layers, and of a `.keras` file.
"""

import dataclasses
import fnmatch
from collections.abc import Iterator, Mapping, Sequence

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks, sublayers
from kerasseq.core.dense import WEIGHTS, Adaptable, LoRA
from kerasseq.core.keras_private import node_of

DEFAULT_TARGETS = ("query", "value")
ALL = "all-linear"
HOME = "_adapters"  # where a model keeps them: an attribute that Keras does not track
DEFAULT_NAME = "default"


@dataclasses.dataclass
class Adapter:
    """What an adapter consists of, apart from a model.

    Attributes:
        lora: The settings by the key of a layer.
        weights: A and B by key of the layer, and weights of the head, as arrays.
    """

    lora: dict[str, LoRA]
    weights: dict[str, np.ndarray]


@dataclasses.dataclass
class Adapters:
    """The adapters of a model.

    Attributes:
        active: The name of the one in its layers, or None.
        kept: The others, by name.
        head: The weights of the head without an adapter.
    """

    active: str | None = None
    kept: dict[str, Adapter] = dataclasses.field(default_factory=dict)
    head: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)


def adapters_of(model: keras.Model) -> Adapters:
    """Returns what a model keeps of its adapters."""
    return vars(model).setdefault(HOME, Adapters())


def active_adapter(model: keras.Model) -> str | None:
    """Returns the name of the adapter in the layers, or None."""
    return adapters_of(model).active


def adaptable_layers(model: keras.Model) -> list[keras.Layer]:
    """Returns the layers that `enable_lora` can adapt: dense, but for a new head."""
    return [*dense_layers(model).values()]


def dense_layers(model: keras.Model) -> dict[str, Adaptable]:
    """Returns the layers that can have an adapter, without those of a new head.

    The keys are alike in every process: classes of the layers around, and the name.
    """
    head = {id(layer) for layer in head_layers(model)}
    layers = {}
    for path, layer, _ in sublayers.walk(model):
        if isinstance(layer, Adaptable) and layer.built and id(layer) not in head:
            around = path.rpartition("/")[0]
            layers[f"{around}/{layer.name}" if around else layer.name] = layer
    return layers


def head_layers(model: keras.Model) -> list[keras.Layer]:
    """Returns the layers that answer the task of a model, from its last dense layer."""
    task = getattr(model, "task", None)
    if not getattr(task, "is_new", False) or task.is_waiting or model.awaits_fit:
        return []
    operations, tensors = {}, keras.tree.flatten(model.output)
    while tensors:
        node = node_of(tensors.pop())
        if node is None or id(node.operation) in operations:
            continue
        operations[id(node.operation)] = node.operation
        if not isinstance(node.operation, keras.layers.Dense):
            tensors += node.arguments.keras_tensors
    return [layer for layer in operations.values() if getattr(layer, "weights", None)]


def enable_lora(
    model: keras.Model,
    rank: int | Mapping[str, int],
    target_layer_names: str | Sequence[str] | None = None,
    *,
    lora_alpha: float | None = None,
    lora_dropout: float = 0.0,
) -> None:
    r"""Adds an adapter to dense layers, and trains only it and a new head.

    A layer computes $x W + b + \frac{\alpha}{r} (x A) B$; B is 0 at first. The
    optimizer starts anew. Use a rate 5 to 10 times that of training all weights.

    Args:
        model: The model.
        rank: r; or ranks by name or pattern of layers.
        target_layer_names: Names of layers, or patterns of their paths such as
            "block_0/*"; "all-linear" for all dense layers but those of a new head.
            Defaults to "query" and "value", or all if there are none.
        lora_alpha: $\alpha$. Defaults to the rank, so that the factor is 1.
        lora_dropout: Fraction of the inputs of A that is dropped in training.

    Raises:
        ValueError: If there is an adapter, no layer has the name, or the rank is above
            the width.
    """
    alpha = lora_alpha
    state = adapters_of(model)
    if state.active is not None:
        raise ValueError(
            f'the adapter "{state.active}" is active. Merge it by merge_lora(), or '
            "take it off by set_adapter(None), before another is added"
        )
    if DEFAULT_NAME in state.kept:
        raise ValueError(
            f'there is an adapter "{DEFAULT_NAME}", which is not active: activate it '
            f'by set_adapter("{DEFAULT_NAME}")'
        )
    if alpha is not None:
        checks.positive("lora_alpha", alpha)
    dropout = float(checks.rate("lora_dropout", lora_dropout))
    lora = {
        key: LoRA(r, float(r if alpha is None else alpha), dropout)
        for key, r in chosen(model, rank, target_layer_names).items()
    }
    _attach(model, DEFAULT_NAME, Adapter(lora, {}))


def chosen(
    model: keras.Model,
    rank: int | Mapping[str, int],
    targets: str | Sequence[str] | None,
) -> dict[str, int]:
    """Returns the rank of each layer that gets an adapter, by key.

    Args:
        model: The model.
        rank: One rank, or ranks by pattern.
        targets: Patterns, "all-linear" or None.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If a pattern matches no layer that can have an adapter.
    """
    layers = dense_layers(model)
    if isinstance(rank, Mapping):
        if targets is not None:
            raise ValueError(
                "target_layer_names must be None where rank gives a rank to each "
                f"pattern, received {targets!r}"
            )
        ranks = dict(rank)
        if not ranks:
            raise ValueError(
                "rank must have a rank for at least one layer, received an empty "
                'dictionary. One rank is an integer, several are as {"query": 8}'
            )
    else:
        ranks = dict.fromkeys(_patterns(layers, targets), rank)
    rank_by_key = {}
    for pattern, r in ranks.items():
        r = checks.whole_number("rank", r)
        matched = [key for key, layer in layers.items() if _matches(layer, pattern)]
        if not matched:
            raise ValueError(_no_match(model, layers, pattern))
        rank_by_key |= dict.fromkeys(matched, r)
    return rank_by_key


def _patterns(layers, targets):
    if targets == ALL:
        return ["*"]
    if targets is None:
        names = {layer.name for layer in layers.values()}
        return [name for name in DEFAULT_TARGETS if name in names] or ["*"]
    if isinstance(targets, str):
        return [targets]
    patterns = checks.several("target_layer_names", targets)
    if not patterns:
        raise ValueError(
            "target_layer_names must name layers, received an empty list. None "
            f'chooses {" and ".join(DEFAULT_TARGETS)}, "{ALL}" all dense layers'
        )
    return patterns


def _matches(layer, pattern):
    return layer.name == pattern or fnmatch.fnmatchcase(layer.path or "", pattern)


def _no_match(model, layers, pattern):
    """Returns the message about a pattern that no layer fits."""
    names = sorted({layer.name for layer in layers.values()})
    for layer in sublayers.flatten(model)[1:]:
        if _matches(layer, pattern):
            what = f'"{pattern}" is a {type(layer).__name__}, which is no dense layer'
            break
    else:
        what = f'no dense layer of this {type(model).__name__} fits "{pattern}"'
    return (
        f"{what}: LoRA adapts dense layers, and leaves recurrent kernels, embeddings "
        f"and convolutions as they are. target_layer_names can be {names}, patterns "
        f'of paths such as "*/query", or "{ALL}"'
    )


def set_adapter(model: keras.Model, name: str | None) -> None:
    """Activates another adapter, with its head; with None the model has none.

    Args:
        model: The model.
        name: The name; "default" for that of `enable_lora` or a `.keras` file.
    """
    state = adapters_of(model)
    if name == state.active:
        return
    if name is not None and name not in state.kept:
        names = sorted([*state.kept, *([state.active] if state.active else [])])
        raise ValueError(
            f'there is no adapter "{name}". This model has {names or "none"}: '
            "enable_lora makes one, load_lora_weights reads one"
        )
    before = state.active
    if before is not None:
        state.kept[before] = _detach(model)
    if name is not None:
        _attach(model, name, state.kept.pop(name))


def merge_lora(model: keras.Model) -> None:
    """Adds what the active adapter learned to the kernels, and takes it off.

    The model computes the same, without the cost of an adapter. Other adapters, which
    were made for the kernels before, are forgotten.

    Args:
        model: The model.

    Raises:
        ValueError: If there is no adapter, or a layer is quantized.
    """
    state = adapters_of(model)
    layers = _adapted(model)
    if state.active is None:
        raise ValueError("there is no adapter to merge: none is active")
    for layer in layers.values():
        if layer.quantized_to is not None:
            raise ValueError(
                f'layer "{layer.path}" is quantized ({layer.quantized_to}): the '
                "sum would have to be rounded again. Keep the adapter beside it, as "
                "save does"
            )
    for layer in layers.values():
        layer.kernel.assign(layer.merged_kernel())
        layer.remove_lora()
    vars(model)[HOME] = Adapters()
    _unfreeze(model)
    restart_optimizer(model)


def current(model: keras.Model) -> Adapter:
    """Returns the active adapter as arrays.

    Raises:
        ValueError: If none is active.
    """
    if adapters_of(model).active is None:
        raise ValueError("there is no active adapter: enable_lora makes one")
    layers = _adapted(model)
    weights = {
        f"{key}.{name}": ops.convert_to_numpy(getattr(layer, name))
        for key, layer in layers.items()
        for name in WEIGHTS
    }
    return Adapter(
        {key: layer.lora for key, layer in layers.items()},
        weights | _head_weights(model),
    )


def head_without_adapter(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the weights of the head as they are when no adapter is active."""
    state = adapters_of(model)
    return state.head if state.active is not None else _head_weights(model)


def add(model: keras.Model, name: str, adapter: Adapter) -> None:
    """Keeps another adapter, and activates it.

    Raises:
        TypeError: If the name is no string.
        ValueError: If there is one of the name, or it is of another model.
    """
    state = adapters_of(model)
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, received {checks.short(name)}")
    if name == state.active or name in state.kept:
        raise ValueError(
            f'there is an adapter "{name}" already: give this one another name'
        )
    check_fits(model, adapter)
    state.kept[name] = adapter
    set_adapter(model, name)


def check_fits(model: keras.Model, adapter: Adapter) -> None:
    """Raises a `ValueError` unless an adapter is one of a model like this."""
    layers, head = dense_layers(model), _head_weights(model)
    expected = {name: array.shape for name, array in head.items()}
    for key, lora in adapter.lora.items():
        if key not in layers:
            raise ValueError(
                f'the adapter is for a layer "{key}", which this '
                f"{type(model).__name__} does not have.{checks.nearest(key, layers)}"
            )
        d_in, d_out = layers[key].matrix_shape()
        expected[f"{key}.lora_a"] = (d_in, lora.rank)
        expected[f"{key}.lora_b"] = (lora.rank, d_out)
    given = {name: array.shape for name, array in adapter.weights.items()}
    for name in sorted(set(given) | set(expected)):
        if given.get(name) != expected.get(name):
            raise ValueError(
                f'the adapter has "{name}" of shape {given.get(name)}, this '
                f"{type(model).__name__} of shape {expected.get(name)}: it was made "
                "for another model"
            )


def restore(model: keras.Model) -> None:
    """Freezes what an adapter of a model leaves as it is, after it was loaded."""
    if _adapted(model):
        adapters_of(model).active = DEFAULT_NAME
        _freeze(model)


def _adapted(model) -> dict[str, Adaptable]:
    return {k: x for k, x in dense_layers(model).items() if x.lora is not None}


def _attach(model, name, adapter):
    """Puts an adapter into the layers, which have none."""
    state, layers = adapters_of(model), dense_layers(model)
    added = []
    try:
        for key, lora in adapter.lora.items():
            layers[key].add_lora(lora)
            added.append(layers[key])
    except ValueError:
        for layer in added:
            layer.remove_lora()
        raise
    state.active, state.head = name, _head_weights(model)
    _assign(model, adapter.weights)
    _freeze(model)
    restart_optimizer(model)


def _detach(model):
    """Takes the active adapter out of the layers, and returns it."""
    state, adapter = adapters_of(model), current(model)
    for layer in _adapted(model).values():
        layer.remove_lora()
    _assign(model, state.head)
    state.active = None
    _unfreeze(model)
    restart_optimizer(model)
    return adapter


def head_variables(model: keras.Model) -> Iterator[tuple[str, keras.Variable]]:
    """Yields the weights of the layers that answer the task, with their keys."""
    for layer in head_layers(model):
        for n, variable in enumerate(layer.weights):
            yield f"head/{layer.name}.{n}", variable


def _head_weights(model):
    return {k: ops.convert_to_numpy(v) for k, v in head_variables(model)}


def _assign(model, weights):
    """Sets A and B and the weights of the head that are given."""
    variables = dict(head_variables(model))
    for key, layer in _adapted(model).items():
        variables |= {f"{key}.{n}": getattr(layer, n) for n in WEIGHTS}
    for name, array in weights.items():
        variables[name].assign(array)


def _freeze(model):
    """Leaves only A, B and the weights of a new head to be trained."""
    trained = {id(v) for _, v in head_variables(model)}
    for layer in _adapted(model).values():
        trained |= {id(layer.lora_a), id(layer.lora_b)}
    for variable in model.trainable_variables:
        if id(variable) not in trained:
            variable.trainable = False


def _unfreeze(model):
    """Lets the layers train what they did before."""
    before = [(layer, layer.trainable) for layer in sublayers.flatten(model)]
    for layer, trainable in before:  # from the outside in, as it sets those inside
        layer.trainable = not trainable  # on TensorFlow, an equal value sets nothing
        layer.trainable = trainable


def restart_optimizer(model: keras.Model) -> None:
    """Gives a compiled model a new optimizer, as it trains other weights now."""
    if getattr(model, "compiled", False) and model.optimizer is not None:
        config = model.optimizer.get_config()
        model.optimizer = type(model.optimizer).from_config(config)
        model.optimizer.build(model.trainable_variables)
