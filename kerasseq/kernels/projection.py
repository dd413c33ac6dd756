"""Products of all inputs with weights."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.dispatch import backend_module
from kerasseq.kernels.reference.precision import matmul


def project(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes $x W + b$.

    Args:
        x: `(..., D)`, best of all steps at once, `(T, B, D)`.
        weights: W, `(D, N)`, a tensor.
        bias: b, `(N,)`, a tensor, or None.

    Examples:
        >>> x, w = np.ones((3, 2, 5), "float32"), np.ones((5, 7), "float32")
        >>> keras.ops.shape(project(keras.ops.array(x), keras.ops.array(w)))
        (3, 2, 7)
    """
    if keras.backend.backend() == "torch":
        return backend_module("functions").project(x, weights, bias)
    return plus(matmul(x, weights), bias)


def plus(x: Tensor, bias: Tensor | None) -> Tensor:
    """Computes $x + b$, or returns $x$ if b is None."""
    if bias is None:
        return x
    if keras.backend.backend() == "tensorflow":
        return backend_module("functions").plus(x, bias)
    return x + bias


def affine(
    x: Tensor, kernel: Tensor, bias: Tensor | None = None, *, axes: int = 1
) -> Tensor:
    """Computes $x W + b$ over the last axes of x, as one product.

    On PyTorch the bias is added within the product, without Keras' overhead for each
    operation, which takes longer than a small product.

    Args:
        x: `(..., *I)`.
        kernel: W, `(*I, *O)`, a tensor.
        bias: b, `O`, a tensor, or None.
        axes: How many axes I has.

    Returns:
        `(..., *O)`.

    Examples:
        >>> x, w = np.ones((3, 5), "float32"), np.ones((5, 2, 7), "float32")
        >>> keras.ops.shape(affine(keras.ops.array(x), keras.ops.array(w)))
        (3, 2, 7)
    """
    if keras.backend.backend() == "torch" and x.dtype == kernel.dtype:
        return backend_module("functions").affine(x, kernel, bias, axes)
    inner, out = kernel.shape[:axes], kernel.shape[axes:]
    D, N = math.prod(inner), math.prod(out)
    before = ops.shape(x)[: len(x.shape) - axes]
    y = matmul(ops.reshape(x, (*before, D)), ops.reshape(kernel, (D, N)))
    y = plus(y, None if bias is None else ops.reshape(bias, (N,)))
    return ops.reshape(y, (*before, *out))


def dense(layer: keras.Layer, x: Tensor, *, axes: int = 1) -> Tensor:
    """Calls a dense layer without Keras' overhead, which equals a small product.

    Args:
        layer: A built `keras.layers.Dense`, or an `EinsumDense` whose kernel is
            `(*I, *O)`, with the dtype policy of the calling layer. LoRA is included;
            a layer that is quantized or has an `activity_regularizer` is called.
        x: `(..., *I)`.
        axes: How many axes I has.

    Returns:
        `(..., *O)`.

    Examples:
        >>> layer = keras.layers.Dense(2, activation="relu")
        >>> layer.build((None, 3))
        >>> x = keras.random.normal((5, 3))
        >>> bool(keras.ops.all(abs(dense(layer, x) - layer(x)) < 1e-6))
        True
    """
    if layer.quantization_mode is not None or layer.activity_regularizer is not None:
        return layer(x)
    weights = (layer.kernel, layer.bias)
    weights = [ops.convert_to_tensor(w) for w in weights if w is not None]
    return layer.activation(affine(x, *weights, axes=axes))


def split_widths(x: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """Splits the last axis into parts of unequal widths.

    `keras.ops.split` reads the indices from a tensor on PyTorch, which cannot be
    recorded: generation would run step by step in Python.

    Args:
        x: `(..., D)`.
        widths: The widths, whose sum is D.

    Examples:
        >>> a, b = split_widths(np.ones((2, 7)), [3, 4])
        >>> a.shape, b.shape
        ((2, 3), (2, 4))
    """
    ends = np.cumsum(widths).tolist()
    return [x[..., end - n : end] for n, end in zip(widths, ends, strict=True)]
