"""The blocks of a model, of which the backward pass computes parts again.

A block is the part that repeats: a layer with the attribute `rematerialized`, the names
of its methods that `fit` calls; or else a recurrent layer, or another that carries a
state.
"""

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import tree

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.keras_private import children
from kerasseq.core.stateless import Scope, current_training, in_call, values_of
from kerasseq.core.types import Nested, Tensor

ATTRIBUTE, MODE = "rematerialized", "_remat"  # of a layer, of a model


def set_mode(model: keras.Model, mode: str | None) -> None:
    """Sets what the backward pass of a model computes again.

    Args:
        model: A built model.
        mode: "full", "activations", or None to keep everything.

    Raises:
        ValueError: If there is no such mode, or the model has no blocks.
    """
    checks.one_of("remat", mode, (None, *kernels.MODES))
    if mode is None and vars(model).get(MODE) is None:
        return
    vars(model)[MODE] = mode
    blocks = blocks_of(model)
    if mode is not None and not blocks:
        raise ValueError(
            f'remat="{mode}" needs a model of blocks, or of layers over time, which '
            f"are computed again in the backward pass, received {model.name}, a "
            f"{type(model).__name__} without. Leave remat out"
        )
    seeds = _seeds(model)
    for block in blocks:
        for method in _methods(block):
            vars(block).pop(method, None)
            if mode is not None:
                run = _rematerialized(getattr(block, method), mode, seeds)
                # Not an attribute for Keras, which would look for layers in it.
                vars(block)[method] = types.MethodType(run, block)


def blocks_of(layer: keras.Layer) -> list[keras.Layer]:
    """Returns the blocks of a model or layer, each once.

    Examples:
        >>> from kerasseq import models
        >>> model = models.LanguageModel("gru", vocabulary_size=5, num_layers=2)
        >>> [block.name for block in blocks_of(model)]
        ['gru_1', 'gru_2']
    """
    declared = getattr(layer, ATTRIBUTE, None) is not None
    if declared or isinstance(layer, keras.layers.RNN):  # whose cell has none
        return [layer]
    inside = [block for child in children(layer) for block in blocks_of(child)]
    if not inside and isinstance(layer, CarriesState):
        return [layer]
    return list({id(block): block for block in inside}.values())


def _methods(block):
    return getattr(block, ATTRIBUTE, None) or ("call",)


def _seeds(model):
    """Returns the states of seed generators, which a block may share with others."""
    return [v for v in model.variables if not keras.backend.is_float_dtype(v.dtype)]


def _rematerialized(
    method: Callable[..., Nested], mode: str, seeds: Sequence[keras.Variable]
) -> Callable[..., Nested]:
    """Returns a function with the block as its first argument, in place of a method."""
    signature = inspect.signature(method)

    @functools.wraps(method.__func__)
    def run(block: keras.Layer, *args: Any, **kwargs: Any) -> Nested:
        given = signature.bind(*args, **kwargs).arguments.get("training")
        training = current_training() if given is None else given
        if training is not True or kernels.is_uncompiled():  # nothing is kept
            return method(*args, **kwargs)
        call = _Call(block, method, seeds, (args, kwargs))
        outputs, others = kernels.rematerialized(call.compute, mode)(
            call.inputs, call.weights
        )
        return call.finish(outputs, others)

    return run


class _Call:
    """A call of a block as a function of floating tensors: its inputs and weights.

    Args:
        block: The layer.
        method: One of its methods.
        seeds: Integer variables that it may assign, beside its own.
        arguments: Arguments and keyword arguments.
    """

    def __init__(
        self,
        block: keras.Layer,
        method: Callable[..., Nested],
        seeds: Sequence[keras.Variable],
        arguments: Nested,
    ) -> None:
        self.block, self.method, self.arguments = block, method, arguments
        self.trained = block.trainable_variables
        known = {id(variable) for variable in self.trained}
        others = {id(v): v for v in (*block.variables, *seeds) if id(v) not in known}
        fixed = [*others.values()]
        self.fixed = [*zip(fixed, values_of(fixed), strict=True)]
        self.leaves = tree.flatten(arguments)
        self.places = [n for n, leaf in enumerate(self.leaves) if _is_float(leaf)]
        self.inputs: list[Tensor] = [self.leaves[n] for n in self.places]
        self.weights: list[Tensor] = values_of(self.trained)

    def compute(
        self, inputs: list[Tensor], weights: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Returns floating outputs and losses; other outputs and assigned values."""
        leaves = [*self.leaves]
        for n, x in zip(self.places, inputs, strict=True):
            leaves[n] = x
        args, kwargs = tree.pack_sequence_as(self.arguments, leaves)
        trained = zip(self.trained, weights, strict=True)
        with Scope([*trained, *self.fixed]) as scope:
            run = functools.partial(self.method, *args, **kwargs)
            self.outputs = in_call(self.block, run, training=True)
        flat = tree.flatten(self.outputs)
        assigned = [*scope.assigned()]
        self.assigned = [variable for variable, _ in assigned]
        others = [x for x in flat if not _is_float(x) and keras.ops.is_tensor(x)]
        return (
            [*(x for x in flat if _is_float(x)), *scope.losses],
            [*others, *(value for _, value in assigned)],
        )

    def finish(self, outputs: list[Tensor], others: list[Tensor]) -> Nested:
        """Assigns and adds to the losses what the call did; returns its outputs."""
        computed, rest = iter(outputs), iter(others)
        flat = []
        for x in tree.flatten(self.outputs):
            if _is_float(x):
                x = next(computed)
            elif keras.ops.is_tensor(x):
                x = next(rest)
            flat.append(x)
        for loss in computed:
            self.block.add_loss(loss)
        for variable, value in zip(self.assigned, rest, strict=True):
            variable.assign(value)
        return tree.pack_sequence_as(self.outputs, flat)


def _is_float(x):
    return keras.ops.is_tensor(x) and keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(x.dtype)
    )
