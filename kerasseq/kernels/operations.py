"""Operations on tensors whose fast or exact form differs between the backends.

`tensorflow/functions.py`, `jax/functions.py` and `torch/functions.py` have their form
of some of them under the same name, found by `backend_module`.

Two operations of Keras compute float64 in float32, since Keras takes 64 bits to be
switched off: `keras.ops.matmul` on PyTorch and `keras.ops.tanh` on JAX.
"""

import contextvars
import importlib
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core.types import Nested, Tensor

_modules: dict[str, ModuleType] = {}  # torch.compile can trace a look-up, no import


def backend_module(name: str) -> ModuleType:
    """Imports the module of this name from the folder of the backend in use."""
    if name not in _modules:
        folder = f"kerasseq.kernels.{keras.backend.backend()}"
        _modules[name] = importlib.import_module(f"{folder}.{name}")
    return _modules[name]


# What TensorFlow does with a product in a block that is computed again.
keep_product: contextvars.ContextVar[Callable[[Tensor], Tensor] | None]
keep_product = contextvars.ContextVar("kerasseq_keep_product", default=None)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Computes `keras.ops.matmul`, in the dtype of the arguments.

    Examples:
        >>> product = matmul(np.ones((2, 5), "float32"), np.ones((5, 3), "float32"))
        >>> keras.ops.shape(product)
        (2, 3)
    """
    if is_float64(x):
        return x @ ops.convert_to_tensor(y)
    if len(x.shape) > 2 and len(y.shape) == 2:
        # Keras' own product of such shapes on TensorFlow transposes by values that XLA
        # does not know in the gradient of a loop.
        rows = _kept(ops.matmul(ops.reshape(x, (-1, x.shape[-1])), y))
        return ops.reshape(rows, (*ops.shape(x)[:-1], y.shape[-1]))
    return ops.matmul(x, y)


def _kept(product):
    """Marks a product that `rematerialized` need not compute again on TensorFlow."""
    symbolic = isinstance(product, keras.KerasTensor)
    if keras.backend.backend() != "tensorflow" or symbolic:
        return product
    keep = keep_product.get()
    return product if keep is None else keep(product)


def precise(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Returns the activation, computed in the dtype of its argument.

    Examples:
        >>> precise(keras.activations.relu) is keras.activations.relu
        True
        >>> float(precise(keras.activations.tanh)(np.float32(0)))
        0.0
    """
    return tanh if activation is keras.activations.tanh else activation


def tanh(x: Tensor) -> Tensor:
    """Computes `keras.ops.tanh`; in float64 from the sigmoid."""
    return 2 * ops.sigmoid(2 * x) - 1 if is_float64(x) else ops.tanh(x)


def is_float64(x: Tensor) -> bool:
    """Returns whether `x` is of dtype float64."""
    return keras.backend.standardize_dtype(x.dtype) == "float64"


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
    symbolic = isinstance(x, keras.KerasTensor)  # as while a step is derived
    if keras.backend.backend() == "jax" or symbolic:
        return plus(matmul(x, weights), bias)
    return backend_module("functions").project(x, weights, bias)


def plus(x: Tensor, bias: Tensor | None) -> Tensor:
    """Computes $x + b$, or returns $x$ if b is None."""
    if bias is None:
        return x
    symbolic = isinstance(x, keras.KerasTensor)
    if keras.backend.backend() == "tensorflow" and not symbolic:
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
        layer: A built `Dense`, or an `EinsumDense` whose kernel is `(*I, *O)`, of
            `core.dense`, with the dtype policy of the calling layer. LoRA is included;
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
    kernel = layer.kernel
    if kernel is None:  # it has 4 bits
        return layer(x)
    weights = (kernel, layer.bias)
    weights = [ops.convert_to_tensor(w) for w in weights if w is not None]
    y = affine(x, *weights, axes=axes)
    if getattr(layer, "lora", None) is not None:
        y = y + layer.lora_product(x)
    return layer.activation(y)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    flash: bool | None = None,
) -> Tensor:
    r"""Computes $\mathrm{softmax}(\lambda\, Q K^T + b) V$ without its weights.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, S, N, K)`.
        v: `(B, S, N, K)`.
        scale: λ.
        bias: b, of a shape that broadcasts to `(B, N, T, S)`; without a mask.
        mask: Boolean, of such a shape; without a bias.
        causal: Whether to apply a causal mask; without the others.
        flash: Whether flash attention must (True) or must not (False) be used.

    Returns:
        `(B, T, N, K)`. The output of a fully masked query is undefined.

    Examples:
        >>> x = keras.ops.ones((2, 5, 3, 7))
        >>> keras.ops.shape(fused_attention(x, x, x, scale=1.0, causal=True))
        (2, 5, 3, 7)
    """
    options = {"scale": scale, "bias": bias, "mask": mask}
    options |= {"is_causal": causal, "flash_attention": flash}
    if keras.backend.backend() == "tensorflow":
        return ops.dot_product_attention(q, k, v, **options)
    return backend_module("functions").fused_attention(q, k, v, **options)


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


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of the last axis, largest first; of equal ones the first.

    `keras.ops.top_k` promises this on TensorFlow and JAX; on PyTorch equal values come
    in any order.

    Args:
        x: Tensor of floats, `(..., n)`.
        k: At most n.

    Returns:
        Values and int32 indices, `(..., k)`.

    Examples:
        >>> values, indices = top_k(np.array([1.0, 7.0, 5.0, 7.0], "float32"), 3)
        >>> keras.ops.convert_to_numpy(indices).tolist()
        [1, 3, 2]
    """
    if keras.backend.backend() != "torch":
        return ops.top_k(x, k)
    x = ops.convert_to_tensor(x)
    indices = ops.argsort(-x, axis=-1)[..., :k]  # a stable sort
    return ops.take_along_axis(x, indices, axis=-1), indices


def constant(array: np.ndarray, like: Tensor) -> Tensor:
    """Returns an array as a tensor on the device of another, also in `torch.compile`.

    Examples:
        >>> y = constant(np.arange(3), like=keras.ops.ones(()))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [0, 1, 2]
    """
    if keras.backend.backend() == "torch":
        return backend_module("functions").constant(array, like)
    return ops.convert_to_tensor(array)


def take_steps(x: Tensor, index: Tensor) -> Tensor:
    """Selects steps of sequences.

    `keras.ops.take_along_axis` fixes the batch size of a program that PyTorch exports.

    Args:
        x: `(B, T, ...)`.
        index: Integers `(B, P)`, from 0 to T - 1.

    Returns:
        `(B, P, ...)`.

    Examples:
        >>> x = keras.ops.reshape(keras.ops.arange(6), (1, 3, 2))
        >>> y = take_steps(x, keras.ops.array([[2, 0]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[[4, 5], [0, 1]]]
    """
    if keras.backend.backend() == "torch":
        return backend_module("functions").take_steps(x, index)
    index = ops.reshape(index, (*ops.shape(index), *[1] * (len(x.shape) - 2)))
    return ops.take_along_axis(x, index, axis=1)


def running_maximum(x: Tensor) -> Tensor:
    """Returns the maximum of each step and those before, without a gradient.

    Args:
        x: `(B, T, ...)`.

    Examples:
        >>> y = running_maximum(keras.ops.array([[3.0, 1.0, 4.0, 1.0]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[3.0, 3.0, 4.0, 4.0]]
    """
    return backend_module("functions").running_maximum(ops.stop_gradient(x))


def take_rows(table: keras.Variable, rows: Tensor) -> Tensor:
    """Returns the rows of a table, such as the vectors of words.

    Args:
        table: `(V, ...)`.
        rows: Integers of any shape.

    Returns:
        `(*rows.shape, ...)`.
    """
    return ops.take(table, rows, axis=0)


def add_to_rows(table: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """Adds values to the rows of a table, in place where the backend can.

    A dense gradient of a table has as many rows as the vocabulary, almost all of them
    zero. Several values for one row are added up. In a function that JAX compiles, this
    needs a `keras.StatelessScope`, as `train_steps` opens it.

    Args:
        table: A variable `(V, ...)`.
        rows: Integers `(...)`, from 0 to V - 1.
        values: `(*rows.shape, *table.shape[1:])`.

    Examples:
        >>> table = keras.Variable(np.zeros((3, 1)))
        >>> add_to_rows(table, np.array([2, 0, 2]), np.array([[1.0], [5.0], [2.0]]))
        >>> keras.ops.convert_to_numpy(table)[:, 0].tolist()
        [5.0, 0.0, 3.0]
    """
    inner = tuple(table.shape[1:])
    rows = ops.reshape(ops.convert_to_tensor(rows, "int32"), (-1,))
    values = ops.reshape(ops.convert_to_tensor(values, table.dtype), (-1, *inner))
    backend_module("functions").add_to_rows(table, rows, values)


def train_steps(model: keras.Model, step: Any, *args: Nested) -> Nested:
    """Trains a model by several updates of its own, for an override of `train_step`.

    Keras' work for a batch is done once for all of them.

    Args:
        model: A compiled and built model, whose `metrics` the step updates.
        step: Function of a structure of tensors that assigns the variables of the
            model, and returns nothing.
        *args: The arguments of `train_step` on this backend. The last one is the data,
            whose tensors have the updates on axis 0.

    Returns:
        What `train_step` returns on this backend.
    """
    return backend_module("functions").train_steps(model, step, *args)
