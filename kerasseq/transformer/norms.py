r"""Layer normalization and RMS normalization over the features.

$$
\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta,
\qquad
\mathrm{RMSNorm}(x) = \gamma\,\frac{x}{\sqrt{\overline{x^2} + \epsilon}}
$$

with $\mu$, $\sigma^2$ and $\overline{x^2}$ taken over the features. Both are Keras'
layers, which compute in float32 for smaller types. What they add: full precision in
float64, and masks that pass through both. Ba et al. 2016; Zhang and Sennrich 2019.
Course slides A, B and C.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks, objects
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import Config, DType, Shape, Tensor
from kerasseq.kernels import is_float64, uses_torchscript


@register
class LayerNormalization(keras.layers.LayerNormalization):
    """Layer normalization: `keras.layers.LayerNormalization`, exact in float64.

    The arguments are those of `keras.layers.LayerNormalization`.

    Examples:
        >>> x = keras.ops.convert_to_tensor([[1.0, 3.0]])
        >>> y = LayerNormalization(epsilon=0)(x)
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            _check_axis(axis),
            _check_epsilon(epsilon),
            checks.flag("center", center),
            checks.flag("scale", scale),
            **kwargs,
        )

    def build(self, input_shape: Shape) -> None:
        check_float64(self)
        _check_axes(self.axis, input_shape)
        super().build(input_shape)

    def call(self, x: Tensor) -> Tensor:
        x = as_floats("x", x, self.compute_dtype)
        if _is_fast(x, self.axis):
            return super().call(x)
        x = x if is_float64(x) else ops.cast(x, "float32")
        x = _divide_by_rms(x - _mean(x, self.axis), self.axis, self.epsilon)
        if self.gamma is not None:
            x = x * _along(self.gamma, self.axis, x)
        if self.beta is not None:
            x = x + _along(self.beta, self.axis, x)
        return ops.cast(x, self.compute_dtype)


@register
class RMSNormalization(keras.layers.RMSNormalization):
    """RMS normalization: `keras.layers.RMSNormalization` with masks.

    Masks pass through. The scale stays in float32 in mixed precision, as that of
    `LayerNormalization` does, and float64 is computed exactly.

    Args:
        axis: Axis or axes to normalize over.
        epsilon: ε.
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> x = keras.ops.convert_to_tensor([[3.0, 3.0, 3.0]])
        >>> y = RMSNormalization(epsilon=0)(x)
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[1.0, 1.0, 1.0]]
    """

    def __init__(
        self, axis: int | tuple[int, ...] = -1, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(_check_axis(axis), _check_epsilon(epsilon), **kwargs)
        check_float64(self)
        self.supports_masking = True
        self.autocast = False

    def build(self, shape: Shape) -> None:
        axis = self.axis if isinstance(self.axis, (list, tuple)) else [self.axis]
        _check_axes(axis, shape)
        self.axis: list[int] = sorted(axis)
        self.scale: keras.Variable = self.add_weight(
            name="scale",
            shape=tuple(shape[one] for one in self.axis),
            initializer="ones",
            autocast=False,
        )
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        x = as_floats("x", x, self.compute_dtype)
        if _is_fast(x, self.axis):
            return ops.cast(super().call(x), self.compute_dtype)
        x = x if is_float64(x) else ops.cast(x, "float32")
        x = _divide_by_rms(x, self.axis, self.epsilon)
        x = x * _along(self.scale, self.axis, x)
        return ops.cast(x, self.compute_dtype)


def _check_axis(axis):
    """Returns an axis, or a list of axes."""
    if not isinstance(axis, list | tuple):
        return checks.axis("axis", axis)
    if not axis:
        raise ValueError("axis must be at least one axis, received an empty list")
    return [checks.axis("axis", one) for one in axis]


def _check_epsilon(epsilon):
    if checks.finite("epsilon", epsilon) < 0:
        raise ValueError(f"epsilon must be at least 0, received {epsilon}")
    return epsilon


def _check_axes(axis, shape):
    """Raises if the inputs have fewer axes."""
    rank = len(shape)
    axis = axis if isinstance(axis, list | tuple) else [axis]
    if len({one % rank for one in axis}) < len(axis):
        raise ValueError(f"axis must be distinct axes, received {axis}")
    for one in axis:
        if not -rank <= one < rank:
            raise ValueError(
                f"axis must be one of the {rank} axes of the inputs, received {one} "
                f"for the shape {shape}"
            )


def _is_fast(x, axis):
    """Returns whether an operation of the backend computes it: over last axes alone."""
    rank = len(x.shape)
    is_last = sorted(one % rank for one in axis) == [*range(rank - len(axis), rank)]
    return is_last and not (is_float64(x) or uses_torchscript())


def _along(weight, axis, x):
    """Returns a weight of the shape of some axes, to be multiplied with x."""
    rank = len(x.shape)
    shape = [1] * rank
    for one in axis:
        shape[one] = x.shape[one]
    return ops.reshape(ops.cast(weight, x.dtype), shape)


def _divide_by_rms(x, axis, epsilon):
    return x * ops.rsqrt(_mean(x * x, axis) + epsilon)


def _mean(x, axis):
    # ops.mean computes float64 in float32 on PyTorch and JAX.
    count = math.prod(x.shape[one] for one in axis)
    return ops.sum(x, axis=axis, keepdims=True) / count


NORMS = {"layer": LayerNormalization, "rms": RMSNormalization}


def check_norm(name: str, norm: str | keras.Layer | Config) -> str | Config:
    """Returns a norm as its name, or as the config of a layer.

    Args:
        name: Name of the argument, for messages.
        norm: "layer", "rms", a layer of which copies are made, or its config.

    Raises:
        ValueError: If the name is not in `NORMS`.
        TypeError: If it is of another type.

    Examples:
        >>> check_norm("norm", "rms")
        'rms'
        >>> check_norm("norm", RMSNormalization())["class_name"]
        'RMSNormalization'
    """
    if isinstance(norm, str):
        return checks.one_of(name, norm, NORMS)
    if isinstance(norm, (keras.Layer, dict)):
        return objects.norm_config(name, norm)
    raise TypeError(
        f'{name} must be "layer", "rms" or a layer of which copies are made, received '
        f"{checks.short(norm)}. Pass one of these"
    )


def make_norm(
    norm: str | keras.Layer | Config,
    *,
    epsilon: float,
    use_bias: bool,
    name: str,
    dtype: DType | None = None,
) -> keras.Layer:
    """Creates a norm.

    Args:
        norm: As for `check_norm`.
        epsilon: ε, of a norm by name.
        use_bias: Whether "layer" has β.
        name: Name of the layer.
        dtype: Its dtype policy.

    Returns:
        The layer, not built yet.

    Examples:
        >>> make_norm("layer", epsilon=1e-5, use_bias=False, name="norm").center
        False
    """
    norm = check_norm("norm", norm)
    if isinstance(norm, dict):
        return objects.copy_norm(norm, name, dtype)
    if norm == "rms":
        return RMSNormalization(epsilon=epsilon, dtype=dtype, name=name)
    return LayerNormalization(epsilon=epsilon, center=use_bias, dtype=dtype, name=name)
