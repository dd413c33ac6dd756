r"""Activation patching: values of one input in place of those of another.

Run the model on $x'$ and keep a value $v'$; run it on $x$ with $v'_{p'}$ in place of
$v_p$ at chosen positions. What changes in the output depends on this value at these
positions. A state that is replaced in a layer with a recurrence is continued from.

As a control the difference can be replaced by noise of the same norm,
$v_p + \lVert v'_{p'} - v_p \rVert \, z / \lVert z \rVert$ with $z \sim N(0, I)$.

Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation
Analysis"; Meng et al. 2022, "Locating and Editing Factual Associations in GPT".
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree
from numpy.typing import ArrayLike

from kerasseq.core import checks
from kerasseq.core.types import Nested
from kerasseq.tracing.compiled_calls import listening_to
from kerasseq.tracing.gradient_flow import States
from kerasseq.tracing.intervention import Function, intervene
from kerasseq.tracing.recording import Trace, trace
from kerasseq.tracing.texts import inputs_of


def patch(
    model: keras.Layer,
    x: Nested,
    x_other: Nested,
    key: str | Sequence[str],
    positions: ArrayLike,
    *,
    other_positions: ArrayLike | None = None,
    noise_seed: int | None = None,
) -> Any:
    """Computes a model's outputs with values of another input at chosen positions.

    It is one `intervene` with values of a `trace`: what can be replaced there, and
    what is refused, such as a value outside of its domain, is the same.

    Args:
        model: A Keras model, or one layer.
        x: Its inputs; for a language model with a tokenizer also a text.
        x_other: Inputs of as many rows, from which the values are.
        key: The key of the value, as in a trace, or several keys.
        positions: Time steps, in the order of the input: one number for all rows, one
            for each row `(B,)`, or several for each row `(B, K)`.
        other_positions: The positions in `x_other`, of the same shape; `positions` if
            None.
        noise_seed: If it is given, the values are those of `x` plus noise with the norm
            of the difference, at each row and position: a control. The seed of it.

    Returns:
        The outputs as NumPy arrays, with the structure of the model's outputs.

    Raises:
        KeyError: If there is no value with a key.
        TypeError: If an argument is of the wrong type.
        ValueError: If a position is out of range, the value has no time axis, the
            inputs differ in rows, or a layer refuses the value.

    Examples:
        >>> import kerasseq
        >>> model = kerasseq.models.GPT(vocabulary_size=7, num_layers=1, hidden_dim=8)
        >>> x, x_other = np.array([[3, 1, 4, 1]]), np.array([[3, 2, 4, 1]])
        >>> y = patch(model, x, x_other, "block_0/input", positions=1)
        >>> np.allclose(y, model.predict(x_other, verbose=0), atol=1e-6)
        True
    """
    keys = [key] if isinstance(key, str) else checks.several("key", key)
    noise_seed = checks.optional(checks.seed, "noise_seed", noise_seed)
    rng = None if noise_seed is None else np.random.default_rng(noise_seed)
    x, x_other = inputs_of("x", x, model), inputs_of("x_other", x_other, model)
    own, other = _traced(model, x, keys), _traced(model, x_other, keys)
    changes = {}
    for name in keys:
        v, v_other = (_time_second(values, name) for values in (own, other))
        places = _positions("positions", positions, v, name)
        sources = places
        if other_positions is not None:
            sources = _positions("other_positions", other_positions, v_other, name)
        new = _values(name, v, v_other, places, sources, rng)
        changes[name] = _replacement(own.axes(name), places, new)
    with intervene(model, changes):
        y = model(x, training=False)
    return tree.map_structure(
        lambda each: ops.convert_to_numpy(ops.cast(each, "float32")), y
    )


def _traced(model, x, keys):
    """Returns a trace, with states that a faster way does not compute if needed."""
    follows = any(key.endswith("hidden_state") for key in keys)
    with listening_to(model, States(model)) if follows else trace(model) as inside:
        model(x, training=False)
    return inside


def _time_second(inside: Trace, key: str) -> np.ndarray:
    """Returns a value `(rows, steps, ...)`."""
    value, axes = inside[key], inside.axes(key)
    if isinstance(value, list) or "rows" not in axes or "steps" not in axes:
        what = (
            f"one that is computed {len(value)} times in a call"
            if isinstance(value, list)
            else f"one with the axes {', '.join(axes)}"
        )
        raise ValueError(
            f"key must be that of a value with rows and steps, received {key!r}, {what}"
        )
    return np.moveaxis(value, (axes.index("rows"), axes.index("steps")), (0, 1))


def _positions(name, positions, v, key):
    """Returns the positions of each row, `(B, K)`."""
    try:
        array = np.asarray(positions)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must be whole numbers, one or more for each row, received "
            f"{checks.short(positions)}"
        )
    rows, steps = v.shape[:2]
    if array.ndim > 2 or (array.ndim and len(array) != rows):
        raise ValueError(
            f"{name} must be one number, or have the shape ({rows},) or ({rows}, K) of "
            f"the rows of x, received the shape {array.shape}"
        )
    if array.size and not 0 <= array.min() <= array.max() < steps:
        raise ValueError(
            f"{name} must be from 0 to {steps - 1}, as {key!r} has {steps} steps, "
            f"received {checks.short(array.tolist())}"
        )
    return np.broadcast_to(array.reshape(len(array) if array.ndim else 1, -1), (
        rows, array.shape[1] if array.ndim == 2 else 1
    ))  # fmt: skip


def _values(key, v, v_other, places, sources, rng):
    """Returns the new values at the places, `(B, K, ...)`."""
    if len(v) != len(v_other) or v.shape[2:] != v_other.shape[2:]:
        raise ValueError(
            f"x_other must give {key!r} the shape that x gives it, apart from the "
            f"steps, received inputs that give {v_other.shape} and {v.shape}, rows "
            "and steps first"
        )
    if places.shape != sources.shape:
        raise ValueError(
            f"other_positions must have the shape of positions, {places.shape}, "
            f"received {sources.shape}"
        )
    rows = np.arange(len(v))[:, None]
    new = v_other[rows, sources]
    if rng is None:
        return new
    own = v[rows, places]
    axes = tuple(range(2, new.ndim))
    z = rng.normal(size=new.shape)
    norms = [np.sqrt(np.sum(d**2, axis=axes, keepdims=True)) for d in (new - own, z)]
    return own + z * norms[0] / norms[1]


def _replacement(axes, places, new) -> Function:
    """Returns the function of a value and its step that replaces it at the places."""
    rows = np.arange(len(places))[:, None]
    order = axes.index("rows"), axes.index("steps")

    def replace(value: np.ndarray, t: int | None) -> np.ndarray:
        if t is None:
            view = np.moveaxis(value, order, (0, 1))
            view[rows, places] = new
            return value
        # In a time loop the value has no axis of steps, and rows are its first one.
        row, k = np.nonzero(places == t)
        value[row] = new[row, k]
        return value

    return replace
