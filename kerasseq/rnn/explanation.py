"""`explain` of cells and layers: what runs, as equations."""

import types
from typing import Any

import keras
from keras import tree

from kerasseq.core import checks
from kerasseq.kernels.derived.explain import Explanation, explain
from kerasseq.rnn.loop import call_keras_cell, has_steps

FEATURES = 5  # of a cell that is not built


def explain_cell(cell: keras.Layer, training: bool = False) -> Explanation:
    """Writes what is derived from the step of a cell as equations.

    Args:
        cell: A cell, of kerasseq, of Keras or your own. If it is not built, a copy of
            it is, with a few features.
        training: Whether dropout is on: the masks of `recurrent_dropout` are then m.

    Raises:
        ValueError: If the cell is not built, and cannot be copied; or if it is a stack
            of cells.
    """
    checks.flag("training", training)
    if hasattr(cell, "cells"):
        raise ValueError(
            f"explain() shows one cell, received a stack of {len(cell.cells)}. Call it "
            "for one of them: `kerasseq.layers.RNN(cell).explain()`"
        )
    cell, features = built(cell)
    steps = has_steps(cell)

    def step(view: Any, x: Any, states: list[Any]) -> tuple[Any, Any]:
        nested = tree.pack_sequence_as(cell.state_size, states)
        nested = nested if isinstance(nested, list | tuple) else [nested]
        if steps:
            return view.step(x, list(nested), training)
        return call_keras_cell(view, x, nested, training)

    sizes = tree.flatten(cell.state_size)
    noise = None
    if training and getattr(cell, "recurrent_dropout", 0):
        masks = getattr(cell, "dropout_mask_count", None)
        noise = sizes[0] if masks is None else sizes[:1] * masks
    return explain(
        cell,
        step,
        project=(lambda view, x: view.project(x)) if steps else None,
        features=features,
        states=sizes,
        noise=noise,
        training=training,
        dtype=cell.compute_dtype,
    )


def built(cell: keras.Layer) -> tuple[keras.Layer, int]:
    """Returns a built cell, or a built copy, and how many features it takes."""
    if cell.built:
        shape = (cell.get_build_config() or {}).get("input_shape", (None, FEATURES))
        return cell, shape[-1]
    try:
        copy = type(cell).from_config(cell.get_config())
    except Exception as error:  # whatever a user's `get_config` lacks
        raise ValueError(
            f"explain() needs a built cell, and {type(cell).__name__} could not be "
            f"copied by its get_config: {error}. Call `cell.build((None, features))` "
            "first"
        ) from error
    for name, value in vars(cell).items():  # as a `step` that was set on the cell
        if name not in vars(copy) and isinstance(value, types.FunctionType):
            vars(copy)[name] = value
        if name not in vars(copy) and isinstance(value, types.MethodType):
            vars(copy)[name] = types.MethodType(value.__func__, copy)
    copy.build((None, FEATURES))
    return copy, FEATURES
