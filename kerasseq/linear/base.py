r"""Base class of the layers whose heads read from a state: $y_t = S_t^T q_t$.

A layer projects its inputs to queries, keys and values, runs `kernels.linear_attention`
and projects the heads back. Katharopoulos et al. 2020 ("Transformers are RNNs").
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.convolution.causal import CausalConv1D, short_convolution
from kerasseq.core import checks, masks
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.shapes import check_sequence, check_shape, check_width
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import dense
from kerasseq.linear.head_kernel import HeadKernel

States = list[Tensor]


class StatefulHeads(HeadKernel, CarriesState, Layer):
    """Heads that carry a state through time.

    A subclass overrides `attend`, `head_states`, and `finish` if there is a norm or a
    gate. Any cut of a sequence gives the result of the whole: `layer(x)` and `advance`
    by chunks or by steps.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        conv_kernel: Steps that a short convolution with SiLU reads, which follows the
            projections to queries, keys and values channel by channel. No convolution
            if None.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    query_dense: keras.layers.Dense
    key_dense: keras.layers.Dense
    value_dense: keras.layers.Dense
    conv: CausalConv1D
    output_dense: keras.layers.Dense
    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        conv_kernel: int | None,
        use_bias: bool,
        kernel_initializer: Identifier,
        bias_initializer: Identifier,
        **kwargs: Any,
    ) -> None:
        size = checks.size
        self.num_heads: int = size("num_heads", num_heads)
        self.key_dim: int = size("key_dim", key_dim)
        value_dim = checks.optional(size, "value_dim", value_dim)
        self.value_dim: int = value_dim or self.key_dim
        self.conv_kernel: int | None = checks.optional(size, "conv_kernel", conv_kernel)
        self.use_bias: bool = checks.flag("use_bias", use_bias)

    @property
    def key_heads(self) -> int:
        """M, number of query and key heads."""
        return self.num_heads

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        D, N, K, V = shape[-1], self.num_heads, self.key_dim, self.value_dim
        checks.fits_memory("key_dim", K, N * D)
        checks.fits_memory("value_dim", V, N * D)
        self.input_width: int = D
        q, k, v = self._widths()
        self.query_dense = self.built_dense("query", D, q)
        self.key_dense = self.built_dense("key", D, k)
        self.value_dense = self.built_dense("value", D, v)
        if self.conv_kernel is not None:
            checks.fits_memory("conv_kernel", self.conv_kernel, q + k + v)
            self.conv = short_convolution(self, q + k + v, self.conv_kernel)
        self.build_heads(D)
        self.output_dense = self.built_dense("attention_output", N * V, D)
        self.built = True

    def build_heads(self, D: int) -> None:
        """Builds the weights that a subclass adds.

        Args:
            D: Width of the inputs.
        """

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool = False
    ) -> Tensor:
        self.check_replacements()
        return self._run(x, None, mask)[0]

    def _advance(self, x, states, mask):
        if states[0] is None:
            states = self.get_initial_state(ops.shape(x)[0])
        return self._run(x, states, mask)

    def get_initial_state(self, batch_size: int | Tensor) -> States:
        """Returns the states before the first step: zeros.

        Args:
            batch_size: B.

        Returns:
            A list of tensors, whose sizes do not depend on the length of the sequence.
        """
        return [
            ops.zeros((batch_size, *shape), dtype)
            for shape, dtype in self.head_states() + self._conv_states()
        ]

    def state_shapes(self) -> list[Shape]:
        """Returns the shape of each state, without the batch."""
        return [shape for shape, _ in self.head_states() + self._conv_states()]

    def state_dtypes(self) -> list[str]:
        """Returns the dtype of each state."""
        return [dtype for _, dtype in self.head_states() + self._conv_states()]

    def head_states(self) -> list[tuple[Shape, str]]:
        """Returns the shape without the batch and the dtype of each head state."""
        shape = (self.num_heads, self.key_dim, self.value_dim)
        return [(shape, self.state_dtype)]

    def _conv_states(self):
        """Returns the last inputs of the short convolution, in the same form."""
        if self.conv_kernel is None:
            return []
        return [((self.conv_kernel - 1, sum(self._widths())), self.compute_dtype)]

    def _widths(self):
        """Widths of the projections to queries, keys and values."""
        M = self.key_heads
        return [M * self.key_dim, M * self.key_dim, self.num_heads * self.value_dim]

    def start(self, x: Tensor) -> States:
        """Returns the states before the first step of x `(B, T, D)` in a call."""
        return self.get_initial_state(ops.shape(x)[0])

    def _run(self, x, states, mask):
        """Returns all outputs, and the states after the last step."""
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.input_width)
        mask = None if mask is None else ops.cast(mask, "bool")
        x = masks.zero_masked(x, mask)
        states = self.start(x) if states is None else states
        count = len(self.head_states())
        (q, k, v), conv_states = self._project(x, states[count:], mask)
        y, states = self.attend(x, (q, k, v), states[:count], mask)  # (B, T, N, V)
        y = ops.cast(self.finish(y, x), self.compute_dtype)
        B, T = ops.shape(x)[:2]
        y = ops.reshape(y, (B, T, self.num_heads * self.value_dim))
        y = tracing.record(self, "context", dense(self.output_dense, y))
        return y, states + conv_states

    def _project(self, x, states, mask):
        """Returns q, k and v of the heads, and the states of the convolution."""
        widths = self._widths()
        layers = self.query_dense, self.key_dense, self.value_dense
        parts = [dense(layer, x) for layer in layers]
        if self.conv_kernel is not None:
            y, states = self.conv._advance(ops.concatenate(parts, -1), states, mask)
            parts = kernels.split_widths(y, widths)
        K, V = self.key_dim, self.value_dim
        heads = [self.to_heads(*pair) for pair in zip(parts, (K, K, V), strict=True)]
        return heads, list(states)

    def attend(
        self, x: Tensor, qkv: Sequence[Tensor], states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """Returns the heads of all steps `(B, T, N, V)`, and the states after the last.

        Args:
            x: `(B, T, D)`, zeros at masked steps.
            qkv: Queries and keys `(B, T, M, K)`, and values `(B, T, N, V)`.
            states: The states before the first step.
            mask: Boolean `(B, T)`, or None.
        """
        raise NotImplementedError

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """Normalizes and gates the heads; by default they are unchanged.

        Args:
            y: `(B, T, N, V)`, in the dtype of the states.
            x: `(B, T, D)`.
        """
        return y

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape
