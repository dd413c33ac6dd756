"""The base class of the recurrent cells: weights, dropout, and `call` in two halves."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import arguments, checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.keras_private import dropout_base
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import (
    Activation,
    Config,
    Constraint,
    DType,
    Identifier,
    Initializer,
    Regularizer,
    Shape,
    Tensor,
)
from kerasseq.rnn.explanation import Explanation, explain_cell


class DropoutMasks:
    """Keeps the dropout masks of a cell: the methods of Keras' `DropoutRNNCell`."""

    dropout: float
    recurrent_dropout: float
    seed_generator: keras.random.SeedGenerator
    dropout_mask_count: int | None = None

    def get_dropout_mask(self, step_input: Tensor) -> Tensor | list[Tensor] | None:
        """Returns the mask of the inputs, or None without dropout."""
        if self._dropout_mask is None and self.dropout:
            self._dropout_mask = self._draw(step_input, self.dropout)
        return self._dropout_mask

    def get_recurrent_dropout_mask(
        self, step_input: Tensor
    ) -> Tensor | list[Tensor] | None:
        """Returns the mask of the state, or a list of one for each gate."""
        if self._recurrent_dropout_mask is None and self.recurrent_dropout:
            self._recurrent_dropout_mask = self._draw(
                step_input, self.recurrent_dropout
            )
        return self._recurrent_dropout_mask

    def _draw(self, like, rate):
        ones = ops.ones_like(like)
        masks = [
            keras.random.dropout(ones, rate=rate, seed=self.seed_generator)
            for _ in range(self.dropout_mask_count or 1)
        ]
        return masks if self.dropout_mask_count else masks[0]

    def reset_dropout_mask(self) -> None:
        """Makes the next call draw a new mask of the inputs."""
        self._dropout_mask = None

    def reset_recurrent_dropout_mask(self) -> None:
        """Makes the next call draw a new mask of the state."""
        self._recurrent_dropout_mask = None


DropoutRNNCell: type[DropoutMasks] = dropout_base(DropoutMasks)


class ProjectingCell(Layer, DropoutRNNCell):
    r"""One step of a recurrent network, in two halves.

    `project` computes $x_t W + b$, for all steps in one product if they are given
    together; `step` adds what depends on the state. `call` computes both, so that a
    cell also works in `keras.layers.RNN`.

    A subclass sets `gates`, the number of blocks of `units` columns in each kernel, and
    implements `step`.

    Args:
        units: Size of the state.
        use_bias: Whether to add $b$.
        kernel_initializer: Initializer of $W$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        bias_regularizer: Regularizer of $b$.
        kernel_constraint: Constraint on $W$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs to drop in training, from 0 to below 1.
        seed: Seed of the dropout.
        **kwargs: For `keras.layers.Layer`.
    """

    gates: int = 1
    state_names: tuple[str, ...] = ("hidden_state",)
    # Index in the kernels of the gate that keeps the state where it is 1, if any: for
    # `tracing.gradient_distance`.
    keep_gate: int | None = None
    recurrent_dropout: float = 0.0

    kernel_initializer: Initializer
    bias_initializer: Initializer
    kernel_regularizer: Regularizer
    bias_regularizer: Regularizer
    kernel_constraint: Constraint
    bias_constraint: Constraint

    @passes_on(Layer)
    def __init__(
        self,
        units: int,
        *,
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.units: int = checks.size("units", units)
        checks.fits_memory("units", self.units, self.gates * self.units, 2)
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.dropout: float = checks.rate("dropout", dropout)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        self.seed_generator: keras.random.SeedGenerator = arguments.seed_generator(
            self.seed
        )
        self.reset_dropout_mask()
        self.reset_recurrent_dropout_mask()
        states = len(self.state_names)
        self.state_size: int | list[int] = (
            self.units if states == 1 else [self.units] * states
        )
        self.output_size: int = self.units

    def build(self, input_shape: Shape) -> None:
        self.kernel: keras.Variable = self.add_weight(
            shape=(input_shape[-1], self.gates * self.units),
            name="kernel",
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.build_recurrent_weights()
        self.bias: keras.Variable | None = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=self.bias_shape(),
                name="bias",
                initializer=self.initial_bias,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def build_recurrent_weights(self) -> None:
        """Adds the weights that act on the state: none here."""

    def bias_shape(self) -> tuple[int, ...]:
        return (self.gates * self.units,)

    def initial_bias(
        self, shape: tuple[int, ...], dtype: DType | None = None
    ) -> Tensor:
        return self.bias_initializer(shape, dtype=dtype)

    def get_dropout_mask(self, step_input: Tensor) -> Tensor | list[Tensor] | None:
        """Returns the mask of the inputs; None if dropout is off.

        `keras.layers.RNN` draws masks also in inference, which cannot be exported.
        """
        if not self.dropout or kernels.is_exporting():
            return None
        return super().get_dropout_mask(step_input)

    def get_recurrent_dropout_mask(
        self, step_input: Tensor
    ) -> Tensor | list[Tensor] | None:
        """Returns the mask of the state, as `get_dropout_mask` that of the inputs."""
        if not self.recurrent_dropout or kernels.is_exporting():
            return None
        return super().get_recurrent_dropout_mask(step_input)

    def project(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Computes the part of a step that does not depend on the state.

        Args:
            inputs: $x_t$ of shape `(batch, features)`, or of all steps at once,
                `(time, batch, features)`.
            training: Whether to apply `dropout`, the same at all steps.

        Returns:
            $x_t W + b$, of shape `(..., gates * units)`.
        """
        masks = self.get_dropout_mask(inputs) if training and self.dropout else None
        bias = None if self.bias is None else self.input_bias()
        if masks is None:
            return kernels.project(inputs, ops.convert_to_tensor(self.kernel), bias)
        projected = _products(inputs, self.kernel, masks, self.gates)
        return projected if bias is None else projected + bias

    def input_bias(self) -> Tensor:
        return ops.convert_to_tensor(self.bias)

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Computes one step from `projected` inputs.

        Args:
            projected: The output of `project` for this step, `(batch, gates * units)`.
            states: List of the states before the step, each `(batch, units)`.
            training: Whether to apply `recurrent_dropout`.

        Returns:
            The output $h_t$, and the list of the states after the step.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def call(
        self, inputs: Tensor, states: Tensor | Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, Tensor | list[Tensor]]:
        inputs = as_floats("inputs", inputs, self.compute_dtype)
        nested = isinstance(states, (list, tuple))
        projected = self.project(inputs, training)
        h, new_states = self.step(projected, states if nested else [states], training)
        return h, new_states if nested else new_states[0]

    def explain(self, training: bool = False) -> Explanation:
        """Returns what is derived from `step`: its equations and their gradients.

        Args:
            training: Whether dropout is on: m is then the mask of the state.

        Returns:
            An `Explanation`: `print` shows it, a notebook as equations. Its `reason`
            says why a `step` cannot be derived, and runs at each time step.

        Raises:
            ValueError: If the cell is not built, and cannot be copied to build it.

        Examples:
            >>> import kerasseq
            >>> cell = kerasseq.layers.GatedRNN(3, activation="tanh").cell
            >>> print(cell.explain().backward[0])
            ∂L/∂z_h̄ = ∂L/∂h_t ⊙ (1 − z) ⊙ (1 − h̄²)
        """
        return explain_cell(self, training)

    def get_initial_state(self, batch_size: int | Tensor | None = None) -> list[Tensor]:
        dtype = getattr(self, "state_dtype", self.compute_dtype)
        return [ops.zeros((batch_size, self.units), dtype) for _ in self.state_names]

    def states_from(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns first states from any values, as those that a decoder learns.

        Args:
            values: As many tensors as there are states, of the same shapes.
        """
        return list(values)

    def own_config(self) -> Config:
        """Returns the arguments of the constructor, without those of `Layer`."""
        config = super().own_config()
        config.pop("gates", None)
        return config


class RecurrentCell(ProjectingCell):
    r"""A cell whose gates depend on the state, through the product $h_{t-1} U$.

    Args:
        gates: Replaces the class attribute.
        activation: The activation of the state.
        recurrent_activation: The activation of the gates.
        recurrent_initializer: Initializer of $U$.
        recurrent_regularizer: Regularizer of $U$.
        recurrent_constraint: Constraint on $U$.
        recurrent_dropout: Fraction of the state to drop in training.
    """

    activation: Activation
    recurrent_activation: Activation
    recurrent_initializer: Initializer
    recurrent_regularizer: Regularizer
    recurrent_constraint: Constraint

    @passes_on(ProjectingCell)
    def __init__(
        self,
        units: int,
        *,
        gates: int | None = None,
        activation: Identifier = "tanh",
        recurrent_activation: Identifier = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        recurrent_initializer: Identifier = "orthogonal",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier = None,
        recurrent_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        recurrent_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.gates: int = gates or self.gates
        self.recurrent_dropout: float = checks.rate(
            "recurrent_dropout", recurrent_dropout
        )

    @property
    def dropout_mask_count(self) -> int | None:
        """With `recurrent_dropout`, each gate has its own masks, as in Keras."""
        return self.gates if self.recurrent_dropout and self.gates > 1 else None

    @property
    def phi(self) -> Callable[[Tensor], Tensor]:
        """The activation of the state and of candidates, as in the equations."""
        return kernels.precise(self.activation)

    @property
    def sigma(self) -> Callable[[Tensor], Tensor]:
        """The activation of the gates."""
        return kernels.precise(self.recurrent_activation)

    def build_recurrent_weights(self) -> None:
        self.recurrent_kernel: keras.Variable = self.add_weight(
            shape=(self.units, self.gates * self.units),
            name="recurrent_kernel",
            initializer=self.recurrent_initializer,
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )

    def recurrent_matrix(self) -> Tensor:
        """Returns $U$, `(units, gates * units)`."""
        return self.recurrent_kernel

    def recurrent_product(
        self, h: Tensor, training: bool = False, first: int = 0, last: int | None = None
    ) -> Tensor:
        """Computes $h U$ for the gates from `first` up to, not including, `last`."""
        last = last or self.gates
        kernel = self.recurrent_matrix()
        if (first, last) != (0, self.gates):
            kernel = kernel[:, first * self.units : last * self.units]
        masks = None
        if training and self.recurrent_dropout:
            masks = self.get_recurrent_dropout_mask(h)
            masks = masks[first:last] if isinstance(masks, list) else masks
        return _products(h, kernel, masks, last - first)

    @property
    def native(self) -> str | None:
        """The equation of native kernels, as cuDNN's, that `step` should equal.

        "lstm", "gru", which resets after the product, "rnn_tanh" or "rnn_relu"; None if
        they have none. It is tried whether they compute the same before they are used.
        """
        return None

    def as_native(self, inputs: Tensor, training: bool = False) -> kernels.Native:
        """Returns the weights and inputs of this cell for native kernels.

        Args:
            inputs: $x_t$ of all steps, `(time, batch, features)`.
            training: Whether dropout is on.
        """
        masks = self.get_dropout_mask(inputs[0]) if training and self.dropout else None
        if masks is not None:  # each gate has its own where there are several
            inputs = None if isinstance(masks, list) else inputs * masks
        bias = None if self.bias is None else self.input_bias()
        weights = map(ops.convert_to_tensor, (self.kernel, self.recurrent_kernel))
        return kernels.Native(inputs, *weights, bias, self.recurrent_bias())

    def recurrent_bias(self) -> Tensor | None:
        """Returns the bias of the product with the state, None if there is none."""
        return None

    def is_squashed(self) -> bool:
        r"""Returns whether activations are $\tanh$, $\sigma$, as in native kernels."""
        own = self.activation, self.recurrent_activation
        return own == (keras.activations.tanh, keras.activations.sigmoid)


def _products(x, kernel, masks, gates):
    """Computes `x @ kernel`; a list holds one dropout mask for each gate."""
    kernel = ops.convert_to_tensor(kernel)
    if masks is None:
        return kernels.project(x, kernel)
    if not isinstance(masks, list):
        return kernels.matmul(x * masks, kernel)
    per_gate = zip(masks, ops.split(kernel, gates, axis=-1), strict=True)
    return ops.concatenate([kernels.matmul(x * m, w) for m, w in per_gate], axis=-1)
