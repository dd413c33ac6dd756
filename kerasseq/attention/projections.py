"""The dense layers of multi-head attention, from and to heads `(..., N, K)`."""

from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.dense import EinsumDense
from kerasseq.core.types import Shape

QUERY_VALUE = "query_value"  # the projections of inputs that have biases


def check_input_biases(given: bool | str | None) -> None:
    """Raises unless `given` is a value of `use_query_key_value_bias`."""
    checks.one_of("use_query_key_value_bias", given, (None, True, False, QUERY_VALUE))


def input_biases(given: bool | str | None, use_bias: bool) -> tuple[bool, bool]:
    """Returns whether queries and values have biases, and whether keys have.

    Args:
        given: `use_query_key_value_bias` of an attention.
        use_bias: What it is if None.

    Examples:
        >>> input_biases("query_value", False), input_biases(None, False)
        ((True, False), (False, False))
    """
    if given == QUERY_VALUE:
        return True, False
    bias = use_bias if given is None else bool(given)
    return bias, bias


def input_projection(
    shape: Shape, heads: int, width: int, *, use_bias: bool, **options: Any
) -> keras.layers.EinsumDense:
    """Creates the projection of `(..., D)` to `(..., heads, width)`, built.

    Args:
        shape: Shape of the inputs.
        heads: Number of heads.
        width: Width of each head.
        use_bias: Whether to add a bias.
        **options: Arguments of `keras.layers.EinsumDense`.

    Examples:
        >>> layer = input_projection((None, 7, 5), 2, 3, use_bias=True)
        >>> [tuple(w.shape) for w in layer.weights]
        [(5, 2, 3), (2, 3)]
    """
    free = "abcdefgh"[: len(shape) - 1]
    layer = EinsumDense(
        f"{free}x,xyz->{free}yz",
        output_shape=(*[None] * (len(free) - 1), heads, width),
        bias_axes="yz" if use_bias else None,
        **options,
    )
    layer.supports_masking = True  # no warning: the attention uses the masks
    layer.build(shape)
    return layer


def output_projection(
    shape: Shape, widths: tuple[int, ...], *, use_bias: bool, **options: Any
) -> keras.layers.EinsumDense:
    """Creates the projection of heads `(..., N, V)` to `(..., *widths)`, built.

    Args:
        shape: Shape of the heads.
        widths: Sizes of the output axes.
        use_bias: Whether to add a bias.
        **options: Arguments of `keras.layers.EinsumDense`.

    Examples:
        >>> layer = output_projection((None, 7, 2, 3), (5,), use_bias=False)
        >>> [tuple(w.shape) for w in layer.weights]
        [(2, 3, 5)]
    """
    free, out = "abcdefgh"[: len(shape) - 2], "uvw"[: len(widths)]
    layer = EinsumDense(
        f"{free}yz,yz{out}->{free}{out}",
        output_shape=(*[None] * (len(free) - 1), *widths),
        bias_axes=out if use_bias else None,
        **options,
    )
    layer.build(shape)
    return layer
