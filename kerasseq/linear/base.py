r"""Base class of the layers whose heads read from a state: $y_t = S_t^T q_t$.

A layer projects its inputs to queries, keys and values, runs `kernels.linear_attention`
and projects the heads back. Katharopoulos et al. 2020 ("Transformers are RNNs").
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks, masks, objects
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.serialization import check_float64
from kerasseq.core.shapes import check_mask, check_numbers, check_shape, check_width
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Config, Identifier, Shape, Tensor
from kerasseq.kernels import dense
from kerasseq.tracing import listeners

States = list[Tensor]


class StatefulHeads(WithSublayers, keras.layers.Layer):
    """Heads that carry a state through time.

    A subclass overrides `attend`, `state_shapes`, and `finish` if there is a norm or a
    gate. Any cut of a sequence gives the result of the whole: `layer(x)` and `advance`
    by chunks or by steps.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each query and key head.
        value_dim: V, width of each value head; K if None.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    query_dense: keras.layers.Dense
    key_dense: keras.layers.Dense
    value_dense: keras.layers.Dense
    output_dense: keras.layers.Dense

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        use_bias: bool,
        kernel_initializer: Identifier,
        bias_initializer: Identifier,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True
        size = checks.size
        self.num_heads: int = size("num_heads", num_heads)
        self.key_dim: int = size("key_dim", key_dim)
        value_dim = checks.optional(size, "value_dim", value_dim)
        self.value_dim: int = value_dim or self.key_dim
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.kernel_initializer: Callable[..., Tensor] | None = objects.initializer(
            "kernel_initializer", kernel_initializer
        )
        self.bias_initializer: Callable[..., Tensor] | None = objects.initializer(
            "bias_initializer", bias_initializer
        )

    @property
    def state_dtype(self) -> str:
        """The dtype of the states: float32 in mixed precision."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        D, N, K, V = shape[-1], self.num_heads, self.key_dim, self.value_dim
        checks.fits_memory("key_dim", K, N * D)
        checks.fits_memory("value_dim", V, N * D)
        self.input_width: int = D
        self.query_dense = self.projection("query", D, N * K)
        self.key_dense = self.projection("key", D, N * K)
        self.value_dense = self.projection("value", D, N * V)
        self.build_heads(D)
        self.output_dense = self.projection("attention_output", N * V, D)
        self.built = True

    def build_heads(self, D: int) -> None:
        """Builds the weights that a subclass adds.

        Args:
            D: Width of the inputs.
        """

    def projection(
        self, name: str, inputs: int, units: int, **options: Any
    ) -> keras.layers.Dense:
        """Creates a dense layer, built.

        Args:
            name: Its name.
            inputs: Width of its inputs.
            units: Width of its outputs.
            **options: Arguments of `keras.layers.Dense`.
        """
        copy = objects.copy_initializer
        options = {"use_bias": self.use_bias, "name": name, **options}
        layer = keras.layers.Dense(
            units,
            dtype=self.dtype_policy,
            kernel_initializer=copy(self.kernel_initializer),
            bias_initializer=copy(
                options.pop("bias_initializer", self.bias_initializer)
            ),
            **options,
        )
        layer.build((None, inputs))
        return layer

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool = False
    ) -> Tensor:
        return self._run(x, None, mask)[0]

    def advance(
        self,
        x: Tensor,
        states: Sequence[Tensor] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, States]:
        """Continues from `states`, and returns all outputs and the last states.

        Args:
            x: `(B, T, D)`.
            states: The states that an earlier call returned; None to start.
            mask: Boolean `(B, T)`, False at padding. No padding if None.

        Returns:
            All outputs `(B, T, D)`, and the list of states to continue from.

        Raises:
            ValueError: If the states are those of another batch size or layer.
        """
        if not self.built:
            self.build(tuple(x.shape))
        if states is None:
            states = self.get_initial_state(ops.shape(x)[0])
        self._check_states(states, x.shape[0])
        return MethodLayer(self, "_advance")(x, hidden=_Hidden(list(states), mask))

    def _advance(self, x, hidden):
        return self._run(x, hidden.states, hidden.mask)

    def get_initial_state(self, batch: int | Tensor) -> States:
        """The states before the first step: zeros.

        Args:
            batch: B.

        Returns:
            A list of tensors, whose sizes do not depend on the length of the sequence.
        """
        return [
            ops.zeros((batch, *shape), dtype or self.state_dtype)
            for shape, dtype in self.state_shapes()
        ]

    def start(self, x: Tensor) -> States:
        """The states before the first step of x `(B, T, D)` in a call of the layer."""
        return self.get_initial_state(ops.shape(x)[0])

    def state_shapes(self) -> list[tuple[tuple[int, ...], str | None]]:
        """Shape without the batch and dtype of each state; None for `state_dtype`."""
        return [((self.num_heads, self.key_dim, self.value_dim), None)]

    def _check_states(self, states, batch):
        expected = [shape for shape, _ in self.state_shapes()]
        received = [tuple(getattr(state, "shape", ())) for state in states]
        batches = {shape[0] for shape in received if shape} - {None}
        same = [shape[1:] for shape in received] == expected
        if not same or (isinstance(batch, int) and batches - {batch}):
            wanted = ", ".join(str((batch, *shape)) for shape in expected)
            raise ValueError(
                f"states must be tensors of shapes {wanted}, received shapes "
                f"{', '.join(map(str, received))}. Start from "
                f"get_initial_state({batch}) of this layer"
            )

    def _run(self, x, states, mask):
        """All outputs, and the states after the last step."""
        check_numbers("x", x)
        check_width("x", x.shape, self.input_width)
        check_mask("mask", mask, ("batch", "time"), x.shape[:2])
        mask = None if mask is None else ops.cast(mask, "bool")
        x = masks.zero_masked(x, mask)
        states = self.start(x) if states is None else states
        y, states = self.attend(x, states, mask)  # (B, T, N, V)
        y = ops.cast(self.finish(y, x), self.compute_dtype)
        B, T = ops.shape(x)[:2]
        y = ops.reshape(y, (B, T, self.num_heads * self.value_dim))
        return tracing.record(self, "context", dense(self.output_dense, y)), states

    def attend(
        self, x: Tensor, states: States, mask: Tensor | None
    ) -> tuple[Tensor, States]:
        """The heads of all steps `(B, T, N, V)`, and the states after the last one.

        Args:
            x: `(B, T, D)`, zeros at masked steps.
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

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys `(B, T, N, K)`, and values `(B, T, N, V)`."""
        widths = self.key_dim, self.key_dim, self.value_dim
        layers = self.query_dense, self.key_dense, self.value_dense
        return tuple(
            self.to_heads(dense(layer, x), width)
            for layer, width in zip(layers, widths, strict=True)
        )

    def to_heads(self, x: Tensor, width: int) -> Tensor:
        """Splits `(B, T, N * width)` into heads `(B, T, N, width)`."""
        return ops.reshape(x, (*ops.shape(x)[:2], self.num_heads, width))

    def run_kernel(
        self, q: Tensor, k: Tensor, v: Tensor, state: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """Runs `kernels.linear_attention`, and records what is worth a look.

        Args:
            q: `(B, T, N, K)`.
            k: `(B, T, N, K)`.
            v: `(B, T, N, V)`.
            state: `(B, N, K, V)`.
            **options: Arguments of `kernels.linear_attention`.

        Returns:
            The heads `(B, T, N, V)`, and the last state.
        """
        q, k, v = (
            self.record_heads(name, x)
            for name, x in (("query", q), ("key", k), ("value", v))
        )
        v = ops.cast(v, self.state_dtype)
        y, state = self.kernel(q, k, v, state, **options)
        if listeners.active():
            y = self._record_alignment(q, k, v, y, options)
        return self.record_heads("heads", y), tracing.record(self, "state", state)

    def _record_alignment(self, q, k, v, y, options):
        """The heads, from the alignment `(B, N, T, T)` if that was replaced."""
        before = self.alignment(q, k, **options)
        alignment = tracing.record(self, "alignment", before)
        if alignment is before:
            return y
        return ops.swapaxes(kernels.matmul(alignment, ops.swapaxes(v, 1, 2)), 1, 2)

    def alignment(self, q: Tensor, k: Tensor, **options: Any) -> Tensor:
        """The weights of the values of all steps in each head, `(B, N, T, T)`.

        Args:
            q: `(B, T, N, K)`.
            k: `(B, T, N, K)`.
            **options: Arguments of `kernels.linear_attention`.
        """
        B, T, N, _ = ops.shape(q)
        eye = ops.eye(T, dtype=self.state_dtype)[None, :, None]
        one_hot = ops.broadcast_to(eye, (B, T, N, T))
        return ops.swapaxes(self.kernel(q, k, one_hot, **options)[0], 1, 2)

    def kernel(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """`kernels.linear_attention`, for a subclass that changes its result."""
        return kernels.linear_attention(q, k, v, initial_state=state, **options)

    def record_decay(self, log_decay: Tensor) -> Tensor:
        r"""Records α, and returns its logarithm.

        Args:
            log_decay: $\log \alpha$, `(B, T, N)` or `(B, T, N, K)`.
        """
        if not listeners.active():
            return log_decay
        before = ops.exp(log_decay)
        after = self.record_heads("decay", before)
        return log_decay if after is before else ops.log(after)

    def record_heads(self, name: str, x: Tensor) -> Tensor:
        """Records `(B, T, N, ...)` as `(B, N, T, ...)`, as attention does."""
        if not listeners.active():
            return x
        before = ops.swapaxes(x, 1, 2)
        after = tracing.record(self, name, before)
        return x if after is before else ops.swapaxes(after, 1, 2)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape

    def get_config(self) -> Config:
        initializer = keras.initializers.serialize
        config = {
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "use_bias": self.use_bias,
            "kernel_initializer": initializer(self.kernel_initializer),
            "bias_initializer": initializer(self.bias_initializer),
        }
        return {**super().get_config(), **config}


@dataclasses.dataclass
class _Hidden:
    """Hides states from Keras, which would cast them to the compute dtype."""

    states: States
    mask: Tensor | None
