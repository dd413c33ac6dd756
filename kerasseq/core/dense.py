r"""Dense layers that can be adapted: LoRA, two thin matrices beside the kernel.

The kernel may be in 4 bits (`core.nf4`); with an adapter beside it this is QLoRA. In 16
bits it may be orthogonal at first, as the weights of all layers (`WithInitialValues`).

$$
y = \phi\Big(x W + b + \frac{\alpha}{r}\, (x A) B\Big)
$$

The kernel W is read as a matrix $(d_{in}, d_{out})$, so that A $(d_{in}, r)$ and B
$(r, d_{out})$ have $r (d_{in} + d_{out})$ weights, also where W has an axis of heads.
B is 0 at first: an adapted layer computes what it did before. Only A and B are trained.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021. Slides C.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from kerasseq.core.keras_private import (
    open_to_parts,
    remove_kernel,
    remove_part,
    remove_weight,
)
from kerasseq.core.nf4 import NF4Kernel
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Tensor

WEIGHTS = ("lora_a", "lora_b")  # of an adapter
NARROW = ("bfloat16", "float16")  # of which backends decompose no matrices


@dataclasses.dataclass(frozen=True)
class LoRA:
    r"""The settings of an adapter of one layer.

    Attributes:
        rank: r.
        alpha: $\alpha$; the product is scaled by $\alpha / r$.
        dropout: Fraction of the inputs of A that is dropped in training.

    Examples:
        >>> LoRA(4, alpha=8).scale
        2.0
    """

    rank: int
    alpha: float
    dropout: float = 0.0

    @property
    def scale(self) -> float:
        """The factor of the product."""
        return self.alpha / self.rank


class WithInitialValues:
    """A layer that initializes weights of 16 bits with any initializer: a mixin."""

    def add_weight(
        self,
        shape: Any = None,
        initializer: Any = None,
        dtype: DType | None = None,
        **kwargs: Any,
    ) -> keras.Variable:
        """Adds a weight, as `keras.Layer.add_weight`."""
        if initializer is not None:
            initializer = in_float32(keras.initializers.get(initializer))
        return super().add_weight(shape, initializer, dtype, **kwargs)


def in_float32(initializer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns an initializer that draws in float32 what a backend cannot in 16 bits.

    These are orthogonal matrices, whose QR decomposition is of 32 or 64 bits on PyTorch
    and JAX. Others are returned as they are, since their draws depend on the dtype.

    Args:
        initializer: The initializer.

    Examples:
        >>> draw = in_float32(keras.initializers.Orthogonal(seed=0))
        >>> W = draw((3, 3), dtype="bfloat16")
        >>> keras.backend.standardize_dtype(W.dtype)
        'bfloat16'
        >>> zeros = keras.initializers.Zeros()
        >>> in_float32(zeros) is zeros
        True
    """
    if not isinstance(initializer, keras.initializers.Orthogonal):
        return initializer

    def draw(shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
        dtype = dtype or keras.config.floatx()
        if keras.backend.standardize_dtype(dtype) not in NARROW:
            return initializer(shape, dtype=dtype)
        return ops.cast(initializer(shape, dtype="float32"), dtype)

    return draw


class Adaptable(WithInitialValues):
    """What an adapter or NF4 change of a dense layer: a mixin of two layers of Keras.

    The kernel must be `(*I, *O)`, with I the last axes of the inputs.

    Attributes:
        lora: The settings of the adapter, or None.
        lora_a: A, if there is an adapter.
        lora_b: B.
        lora_dropout: Dropout of the inputs of A, or None.
        nf4: The kernel in 4 bits, or None; `kernel` is None beside it.
    """

    lora_a: keras.Variable
    lora_b: keras.Variable

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lora: LoRA | None = None
        # Not of the class, which would hide the layer that a PyTorch module keeps.
        self.lora_dropout: keras.layers.Dropout | None = None
        self.nf4: NF4Kernel | None = None

    @property
    def quantized_to(self) -> str | None:
        """What the kernel was rounded to: "nf4", or the mode of Keras, or None."""
        return self.quantization_mode if self.nf4 is None else "nf4"

    @property
    def variable_serialization_spec(self) -> dict[str | None, list[str]]:
        """The variables that Keras saves, by mode; `nf4` saves its own."""
        spec = super().variable_serialization_spec
        return spec if self.nf4 is None else {**spec, None: ["bias"]}

    def axes(self) -> int:
        """Returns how many axes of the kernel are those of the inputs."""
        raise NotImplementedError

    def kernel_shape(self) -> tuple[int, ...]:
        """Returns the shape of the kernel, `(*I, *O)`, before it was quantized."""
        raise NotImplementedError

    def matrix_shape(self) -> tuple[int, int]:
        """Returns the shape of the kernel as a matrix, `(d_in, d_out)`."""
        shape, n = self.kernel_shape(), self.axes()
        return math.prod(shape[:n]), math.prod(shape[n:])

    def add_lora(self, lora: LoRA) -> None:
        """Adds an adapter, which changes no output at first.

        Raises:
            ValueError: If there is one, or the rank is above the smaller width.
        """
        where = f'layer "{self.path}"'
        if self.lora is not None or self.lora_enabled:
            raise ValueError(
                f"{where} has LoRA already. Merge it by merge_lora(), or take it off "
                "by set_adapter(None), before another is added"
            )
        d_in, d_out = self.matrix_shape()
        if lora.rank > min(d_in, d_out):
            raise ValueError(
                f"rank must be at most {min(d_in, d_out)}, the smaller width of the "
                f"kernel {(d_in, d_out)} of {where}, received {lora.rank}"
            )
        if self.quantization_mode and self.activation is not keras.activations.linear:
            raise ValueError(
                f"{where} is quantized and has an activation, which Keras applies "
                "before an adapter could add to it: choose other layers"
            )
        dtype = "float64" if self.variable_dtype == "float64" else "float32"
        with open_to_parts(self):
            self.lora_a = self.add_weight(
                name="lora_a",
                shape=(d_in, lora.rank),
                initializer="he_uniform",
                dtype=dtype,
            )
            self.lora_b = self.add_weight(
                name="lora_b",
                shape=(lora.rank, d_out),
                initializer="zeros",
                dtype=dtype,
            )
            if lora.dropout:
                self.lora_dropout = keras.layers.Dropout(lora.dropout)
        self.lora = lora

    def remove_lora(self) -> None:
        """Takes the adapter off."""
        for name in WEIGHTS:
            remove_weight(self, name)
        if self.lora_dropout is not None:
            remove_part(self, self.lora_dropout)
        self.lora = self.lora_dropout = None

    def merged_kernel(self) -> Tensor:
        r"""Returns $W + \frac{\alpha}{r} A B$, as the kernel is."""
        A, B = (ops.convert_to_tensor(w) for w in (self.lora_a, self.lora_b))
        change = ops.reshape(ops.matmul(A, B), self.kernel_shape()) * self.lora.scale
        kernel = ops.cast(self.kernel, change.dtype) + change
        return ops.cast(kernel, self.kernel.dtype)

    def lora_product(self, x: Tensor) -> Tensor:
        r"""Computes $\frac{\alpha}{r} (x A) B$.

        Args:
            x: `(..., *I)`.

        Returns:
            `(..., *O)`.
        """
        n, out = self.axes(), self.kernel_shape()[self.axes() :]
        before = ops.shape(x)[: len(x.shape) - n]
        x = ops.reshape(x, (*before, -1)) if n > 1 else x
        if self.lora_dropout is not None:
            x = self.lora_dropout(x)  # which knows from Keras whether this is training
        A, B = (ops.cast(w, self.compute_dtype) for w in (self.lora_a, self.lora_b))
        y = ops.matmul(ops.matmul(ops.cast(x, A.dtype), A), B) * self.lora.scale
        return ops.reshape(y, (*before, *out)) if len(out) > 1 else y

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if self.lora is None and self.nf4 is None:
            return super().call(inputs, training)
        y = self._product(inputs)
        if self.bias is not None:
            y = y + ops.convert_to_tensor(self.bias)
        if self.lora is not None:
            y = y + self.lora_product(inputs)
        return self.activation(y)

    def quantized_call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        y = super().quantized_call(inputs, *args, **kwargs)
        return y if self.lora is None else y + self.lora_product(inputs)

    def to_nf4(self) -> None:
        """Rounds the kernel to 4 bits a weight; an adapter stays as it is.

        Raises:
            ValueError: If the layer is quantized already.
        """
        self._check_is_float()
        kernel = ops.convert_to_numpy(self.kernel)
        with open_to_parts(self):
            self.nf4 = NF4Kernel(kernel.shape, dtype=self.dtype_policy, name="nf4")
        self.nf4.assign(kernel)
        remove_kernel(self)

    def _check_is_float(self):
        if self.quantized_to is not None:
            raise ValueError(
                f'layer "{self.path}" is quantized already ({self.quantized_to})'
            )

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Makes the kernel integers, as Keras does; an adapter stays as it is."""
        self._check_is_float()
        if self.lora is not None and self.activation is not keras.activations.linear:
            raise ValueError(
                f'layer "{self.path}" has an adapter and an activation: quantize the '
                "model first, and adapt layers without an activation"
            )
        super().quantize(mode, type_check=False, config=config)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        if self.lora is not None:
            for name in WEIGHTS:
                store[name] = getattr(self, name)

    def load_own_variables(self, store: Any) -> None:
        names = list(store.keys())
        if self.lora is None and WEIGHTS[0] in names:
            raise ValueError(
                f'the file has an adapter for the layer "{self.path}", which has none: '
                "call enable_lora with its rank first, or load the .keras file"
            )
        store = {name: store[name] for name in names}
        if self.lora is not None:  # of a file without an adapter, A and B stay
            store = {n: getattr(self, n) for n in WEIGHTS} | store
        super().load_own_variables(store)  # which counts them
        if self.lora is not None:
            for name in WEIGHTS:
                getattr(self, name).assign(store[name])

    def _product(self, x):
        """Returns the inputs times the kernel."""
        raise NotImplementedError

    def _floats(self):
        """Returns the kernel, or the rounded weights of NF4."""
        return self.kernel if self.nf4 is None else self.nf4.weight()


@register
class Dense(Adaptable, keras.layers.Dense):
    """`keras.layers.Dense`, which can be adapted by LoRA.

    Examples:
        >>> layer = Dense(3)
        >>> layer.build((None, 5))
        >>> layer.add_lora(LoRA(2, alpha=2))
        >>> [tuple(w.shape) for w in layer.weights]
        [(5, 3), (3,), (5, 2), (2, 3)]
    """

    def axes(self) -> int:
        return 1

    def kernel_shape(self) -> tuple[int, ...]:
        return (self.input_spec.axes[-1], self.units)

    def _product(self, x):
        return ops.matmul(x, self._floats())


@register
class EinsumDense(Adaptable, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` of a kernel `(*I, *O)`, which can be adapted by LoRA.

    Examples:
        >>> layer = EinsumDense("ax,xyz->ayz", output_shape=(3, 2))
        >>> layer.build((None, 5))
        >>> layer.add_lora(LoRA(2, alpha=2))
        >>> [tuple(w.shape) for w in layer.weights]
        [(5, 3, 2), (5, 2), (2, 6)]
    """

    def axes(self) -> int:
        inputs, kernel = self.equation.split("->")[0].split(",")
        return len(set(inputs) & set(kernel))

    def kernel_shape(self) -> tuple[int, ...]:
        if self.nf4 is not None:
            return self.nf4.shape
        if hasattr(self, "original_kernel_shape"):  # `kernel` would unpack integers
            return tuple(self.original_kernel_shape)
        return tuple(self.kernel.shape)

    def _product(self, x):
        return ops.einsum(self.equation, x, self._floats())
