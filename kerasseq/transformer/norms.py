r"""Normalization: every vector of a sequence brought to a common length.

$$
\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta,
\qquad
\mathrm{RMSNorm}(x) = \gamma\,\frac{x}{\sqrt{\overline{x^2} + \epsilon}}
$$

with $\mu$, $\sigma^2$ and $\overline{x^2}$ taken over the features. Both are those of
Keras, which compute in float32 where the type is smaller; here float64 is float64, too,
and masks pass through both. Ba et al. 2016; Zhang and Sennrich 2019. Course slides A, B
and C.
"""

import math

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import check_float64, register
from kerasseq.kernels import is_float64


@register
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization`, in float64 if that is the type.

    Examples:
        >>> x = keras.ops.convert_to_tensor([[1.0, 3.0]])
        >>> y = LayerNormalization(epsilon=0)(x)
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        check_float64(self)

    def call(self, x):
        if not is_float64(x):
            return super().call(x)
        x = _unit(x - _mean(x, self.axis), self.axis, self.epsilon)
        if self.gamma is not None:
            x = x * ops.convert_to_tensor(self.gamma)
        return x if self.beta is None else x + ops.convert_to_tensor(self.beta)


@register
class RMSNormalization(keras.layers.RMSNormalization):
    """`keras.layers.RMSNormalization`, with masks, and in float64 if that is the type.

    Its scale is not rounded to a smaller type, as little as that of the other.

    Examples:
        >>> x = keras.ops.convert_to_tensor([[3.0, 3.0, 3.0]])
        >>> y = RMSNormalization(epsilon=0)(x)
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[1.0, 1.0, 1.0]]
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        check_float64(self)
        self.supports_masking = True
        self.autocast = False

    def build(self, shape):
        axis = self.axis if isinstance(self.axis, (list, tuple)) else [self.axis]
        self.axis = sorted(axis)
        self.scale = self.add_weight(
            name="scale",
            shape=tuple(shape[one] for one in self.axis),
            initializer="ones",
            autocast=False,
        )
        self.built = True

    def call(self, x):
        if not is_float64(x):
            return ops.cast(super().call(x), self.compute_dtype)
        return _unit(x, self.axis, self.epsilon) * ops.convert_to_tensor(self.scale)


def _unit(x, axis, epsilon):
    """The vectors divided by their root mean square."""
    return x * ops.rsqrt(_mean(x * x, axis) + epsilon)


def _mean(x, axis):
    # ops.mean computes float64 in float32 on PyTorch and JAX.
    count = math.prod(x.shape[one] for one in axis)
    return ops.sum(x, axis=axis, keepdims=True) / count


NORMS = {"layer": LayerNormalization, "rms": RMSNormalization}


def checked_or_none(name, norm):
    """None, or what `checked` gives for the argument of that name.

    Examples:
        >>> checked_or_none("query_key_norm", "rms")
        'rms'
    """
    return None if norm is None else checked(norm, name)


def checked(norm, name="norm"):
    """A norm as its name, or as the config of a layer: every one is made from it.

    Raises:
        ValueError: If the name is none of `NORMS`.
        TypeError: If `norm` is neither name nor layer.

    Examples:
        >>> checked("rms"), checked(RMSNormalization())["class_name"]
        ('rms', 'RMSNormalization')
    """
    if isinstance(norm, str):
        return checks.one_of(name, norm, NORMS)
    if isinstance(norm, keras.Layer):
        return keras.saving.serialize_keras_object(norm)
    if isinstance(norm, dict):  # as a file has it
        return norm
    raise TypeError(
        f'{name} must be "layer", "rms" or a layer of which copies are made, got '
        f"{norm!r}"
    )


def make(norm, *, epsilon, use_bias, dtype, name):
    """A new norm.

    Args:
        norm: What `checked` gave.
        epsilon: ε, for a norm by name.
        use_bias: Whether "layer" has β.
        dtype: The policy to compute by.
        name: Of the layer.

    Returns:
        The layer, not built yet.

    Examples:
        >>> make("layer", epsilon=1e-5, use_bias=False, dtype=None, name="norm").center
        False
    """
    if isinstance(norm, dict):
        made = keras.saving.deserialize_keras_object(norm)
        config = {**made.get_config(), "dtype": dtype, "name": name}
        made = type(made).from_config(config)
        made.supports_masking = True  # each vector is normalized by itself
        return made
    options = {} if norm == "rms" or use_bias else {"center": False}
    return NORMS[norm](epsilon=epsilon, dtype=dtype, name=name, **options)
