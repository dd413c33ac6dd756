"""Checks of the inputs of a layer: ranks, masks and dtypes.

Sizes that are not known before the graph runs are not checked. Keras casts floating
inputs of a layer to its compute dtype, and leaves others as they are: `as_floats` casts
them.
"""

from collections.abc import Sequence

import keras
from keras import ops

from kerasseq.core.types import Shape, Tensor

STEPS = "(batch, time, features)"


def check_numbers(
    name: str, x: Tensor, axes: str = STEPS, *, more: bool = False
) -> None:
    """Raises unless a tensor has its axes and holds numbers.

    Args:
        name: Of the argument.
        x: The tensor.
        axes: Names of its axes, as the message shows them.
        more: Whether there may be more axes between the first and the last ones.

    Raises:
        TypeError: If it holds booleans or complex numbers, or is no tensor at all.
        ValueError: If its rank is another.

    Examples:
        >>> check_numbers("query", np.ones((2, 3)))
        Traceback (most recent call last):
        ...
        ValueError: query must have shape (batch, time, features), received shape \
(2, 3). Add the axis that is missing, as in query[None] for one sequence, or \
query[..., None] for one feature
    """
    check_shape(name, getattr(x, "shape", None), axes, more=more, received=x)
    check_real(name, x)
    if keras.backend.standardize_dtype(x.dtype) == "bool":
        raise TypeError(
            f"{name} must hold numbers, received booleans of shape {tuple(x.shape)}. A "
            "mask is an argument of its own; other booleans are cast by "
            'keras.ops.cast(x, "float32")'
        )


def check_real(name: str, x: Tensor) -> None:
    """Raises unless a tensor has a dtype of real numbers or booleans.

    Examples:
        >>> check_real("query", np.ones((2, 3)) * 1j)
        Traceback (most recent call last):
        ...
        TypeError: query must hold real numbers, received complex128 of shape (2, 3). \
Pass real and imaginary parts as features: \
keras.ops.concatenate([keras.ops.real(x), keras.ops.imag(x)], -1)
    """
    try:
        dtype = keras.backend.standardize_dtype(x.dtype)
    except ValueError:
        dtype = str(x.dtype)  # such as NumPy's strings
    if dtype == "bool" or is_real(dtype):
        return
    advice = "Convert it to an array of numbers"
    if "complex" in dtype:
        advice = (
            "Pass real and imaginary parts as features: "
            "keras.ops.concatenate([keras.ops.real(x), keras.ops.imag(x)], -1)"
        )
    raise TypeError(
        f"{name} must hold real numbers, received {dtype} of shape {tuple(x.shape)}. "
        f"{advice}"
    )


def is_real(dtype: str) -> bool:
    """Returns whether a dtype is one of real numbers: integers or floats."""
    return dtype.startswith(("float", "bfloat", "int", "uint"))


def as_floats(name: str, x: Tensor, dtype: str) -> Tensor:
    """Casts integers and booleans to a dtype; floats keep theirs.

    Args:
        name: Of the argument.
        x: The tensor.
        dtype: The compute dtype of the layer.

    Raises:
        TypeError: If it holds complex numbers or strings.

    Examples:
        >>> x = as_floats("x", keras.ops.convert_to_tensor([1, 2]), "float32")
        >>> keras.backend.standardize_dtype(x.dtype)
        'float32'
    """
    check_real(name, x)
    is_float = keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))
    return x if is_float else ops.cast(x, dtype)


def check_shape(
    name: str,
    shape: Shape | None,
    axes: str = STEPS,
    *,
    more: bool = False,
    received: object = None,
) -> None:
    """Raises unless a shape has the right number of axes; see `check_numbers`."""
    if shape is None:
        raise TypeError(
            f"{name} must be a tensor of shape {axes}, received {received!r}"
        )
    rank = axes.count(",") + 1
    if len(shape) == rank or (more and len(shape) > rank):
        return
    advice = f"Add the axis that is missing, as in {name}[None] for one sequence"
    if axes == STEPS and len(shape) == 2:
        advice += f", or {name}[..., None] for one feature"
    if len(shape) > rank:
        advice = f"Reshape it to {rank} axes"
    least = " or more axes" if more else ""
    raise ValueError(
        f"{name} must have shape {axes}{least}, received shape {tuple(shape)}. {advice}"
    )


def check_width(name: str, shape: Shape, width: int | None) -> None:
    """Raises unless the last axis is as wide as it was when the layer was built.

    Examples:
        >>> check_width("value", (2, 7, 5), 6)
        Traceback (most recent call last):
        ...
        ValueError: value must have the 6 features that the layer was built for, \
received shape (2, 7, 5)
    """
    if None not in (shape[-1], width) and shape[-1] != width:
        raise ValueError(
            f"{name} must have the {width} features that the layer was built for, "
            f"received shape {tuple(shape)}"
        )


def check_batches(**shapes: Shape) -> None:
    """Raises unless all shapes, by the names of their arguments, have one batch size.

    Examples:
        >>> check_batches(query=(2, 3, 5), value=(7, 3, 5))
        Traceback (most recent call last):
        ...
        ValueError: query and value must have the same batch size, received shapes \
(2, 3, 5) and (7, 3, 5)
    """
    (first, wanted), *others = shapes.items()
    for name, shape in others:
        if None not in (shape[0], wanted[0]) and shape[0] != wanted[0]:
            raise ValueError(
                f"{first} and {name} must have the same batch size, received shapes "
                f"{tuple(wanted)} and {tuple(shape)}"
            )


def check_mask(
    name: str,
    mask: Tensor | None,
    axes: Sequence[str],
    sizes: Sequence[int | None],
    *,
    broadcasts: bool = True,
) -> None:
    """Raises unless a mask fits what it masks.

    Args:
        name: Of the argument.
        mask: The mask, or None.
        axes: Names of its axes.
        sizes: Their sizes; None where one is not known.
        broadcasts: Whether an axis of the mask may be 1 instead.

    Raises:
        TypeError: If it is no tensor.
        ValueError: If its rank or a size is another.

    Examples:
        >>> check_mask("mask", np.ones((2, 7)), ("batch", "time"), (2, 3))
        Traceback (most recent call last):
        ...
        ValueError: mask must have shape (batch, time) = (2, 3), received shape \
(2, 7): its time is 7 instead of 3. Pass a boolean for each, True where it is real
    """
    if mask is None:
        return
    shape = getattr(mask, "shape", None)
    if shape is None:
        raise TypeError(
            f"{name} must be a tensor of shape {_shape_text(axes, sizes)}, received "
            f"{mask!r}"
        )
    wrong = ""
    if len(shape) != len(sizes):
        wrong = f"it has {len(shape)} axes instead of {len(sizes)}"
    else:
        for axis, size, actual in zip(axes, sizes, shape, strict=True):
            fits = (
                None in (size, actual) or actual == size or (broadcasts and actual == 1)
            )
            if not fits and not wrong:
                wrong = f"its {axis} is {actual} instead of {size}"
    if wrong:
        raise ValueError(
            f"{name} must have shape {_shape_text(axes, sizes)}, received shape "
            f"{tuple(shape)}: {wrong}. Pass a boolean for each, True where it is real"
        )


def check_sequence(
    name: str, x: Tensor, mask: Tensor | None = None, *, more: bool = False
) -> None:
    """Raises unless x is `(batch, time, features)` with a step, and has this mask.

    With `more`, a step may have more axes.

    Examples:
        >>> check_sequence("x", np.ones((2, 0, 3)), None)
        Traceback (most recent call last):
        ...
        ValueError: x has shape (2, 0, 3), of 0 steps: there must be at least one step
    """
    check_numbers(name, x, more=more)
    if x.shape[1] == 0:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, of 0 steps: there must be at least "
            "one step"
        )
    check_mask("mask", mask, ("batch", "time"), x.shape[:2], broadcasts=False)


def check_steps(name: str, x: Tensor, time: int | Tensor | None) -> None:
    """Raises unless there is one number for each step: `(batch, time)` or `(time,)`.

    Args:
        name: Of the argument.
        x: The numbers.
        time: How many steps there are; None if that is not known.

    Examples:
        >>> check_steps("segments", np.ones((2, 7)), 3)
        Traceback (most recent call last):
        ...
        ValueError: segments must have shape (batch, time) or (time,) with time = 3, \
received shape (2, 7). Pass one number for each step
    """
    shape = tuple(x.shape)
    known = isinstance(time, int) and bool(shape) and shape[-1] is not None
    if len(shape) not in (1, 2) or (known and shape[-1] not in (1, time)):
        raise ValueError(
            f"{name} must have shape (batch, time) or (time,) with time = {time}, "
            f"received shape {shape}. Pass one number for each step"
        )


def _shape_text(axes: Sequence[str], sizes: Sequence[int | None]) -> str:
    shown = ("any" if size is None else str(size) for size in sizes)
    return f"({', '.join(axes)}) = ({', '.join(shown)})"
