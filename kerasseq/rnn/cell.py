"""What all our cells share: weights side by side, dropout, and `call` in two halves."""

import functools

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64

# `keras.layers.RNN` draws the dropout masks of a cell before its loop, as JAX needs, if
# the cell is one of these. Keras has no public name for the class.
(DropoutRNNCell,) = (
    cls for cls in keras.layers.LSTMCell.__mro__ if cls.__name__ == "DropoutRNNCell"
)


class RecurrentCell(keras.layers.Layer, DropoutRNNCell):
    r"""One step of a recurrent network, in two halves.

    `project` computes $x_t W + b$, for all steps in one product if they are there;
    `step` adds what depends on the state. `call` is one after the other, so that a cell
    also works in `keras.layers.RNN`.

    A subclass lists its arguments in `__init__` and hands over `locals()`; it sets
    `gates`, the number of blocks of `units` columns in each kernel, and writes `step`.
    If `kernels.recurrence` knows its equation, `equation` has the name, and the names
    of the attributes that choose between its forms.
    """

    gates = 1
    equation = None
    state_names = ("hidden_state",)

    def __init__(self, local_names: dict):
        super().__init__(**local_names["kwargs"])
        for name, value in arguments.own(local_names).items():
            setattr(self, name, arguments.revive(name, value))
        self.units = checks.whole_number("units", self.units)
        checks.fits_memory("units", self.units, self.gates * self.units, 2)
        self.dropout = checks.rate("dropout", self.dropout)
        self.recurrent_dropout = checks.rate(
            "recurrent_dropout", self.recurrent_dropout
        )
        check_float64(self)
        self.seed_generator = arguments.seed_generator(self.seed)
        if self.recurrent_dropout and self.gates > 1:
            self.dropout_mask_count = self.gates  # as Keras: then each gate has its own
        states = len(self.state_names)
        self.state_size = self.units if states == 1 else [self.units] * states
        self.output_size = self.units

    @property
    def phi(self):
        """The activation of the state and of candidates, as the equations call it."""
        return kernels.precise(self.activation)

    @property
    def sigma(self):
        """The activation of the gates."""
        return kernels.precise(self.recurrent_activation)

    def build(self, input_shape):
        units = self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.gates * units),
            name="kernel",
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.recurrent_kernel = self.add_weight(
            shape=(units, self.gates * units),
            name="recurrent_kernel",
            initializer=self.recurrent_initializer,
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=self.bias_shape(),
                name="bias",
                initializer=self.initial_bias,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def bias_shape(self):
        return (self.gates * self.units,)

    def initial_bias(self, shape, dtype=None):
        return self.bias_initializer(shape, dtype=dtype)

    def project(self, inputs, training=False):
        """Compute the part of a step that does not depend on the state.

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

    def input_bias(self):
        return ops.convert_to_tensor(self.bias)

    def recurrent_product(self, h, training=False, first=0, last=None):
        """$h U$ for the gates from `first` up to `last`, side by side."""
        last = last or self.gates
        kernel = self.recurrent_kernel
        if (first, last) != (0, self.gates):
            kernel = kernel[:, first * self.units : last * self.units]
        masks = None
        if training and self.recurrent_dropout:
            masks = self.get_recurrent_dropout_mask(h)
            masks = masks[first:last] if isinstance(masks, list) else masks
        return _products(h, kernel, masks, last - first)

    def step(self, projected, states, training=False):
        """Take one step from `projected` inputs.

        Args:
            projected: What `project` gave for this step, `(batch, gates * units)`.
            states: List of the states before the step, each `(batch, units)`.
            training: Whether to apply `recurrent_dropout`.

        Returns:
            The output $h_t$, and the list of the states after the step.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def recurrence(self, inputs, training=False, cudnn="auto"):
        """What `kernels.recurrence` needs, to run this cell through time.

        Args:
            inputs: $x_t$ of all steps, `(time, batch, features)`.
            training: Whether dropout is on.
            cudnn: Whether cuDNN may, must not or must run it.

        Returns:
            A `kernels.Recurrence`, or None if there is no fast path: an activation is
            not one of those whose derivative is known.
        """
        name, *options = self.equation
        equation = kernels.equation_of(
            name,
            self.activation,
            getattr(self, "recurrent_activation", None),
            **{option: getattr(self, option) for option in options},
        )
        if equation is None:
            return None
        weights = {name: ops.convert_to_tensor(w) for name, w in self.in_loop().items()}
        if training and self.recurrent_dropout:
            h = ops.zeros((ops.shape(inputs)[1], self.units), dtype=inputs.dtype)
            masks = self.get_recurrent_dropout_mask(h)
            weights["dropout"] = list(masks) if isinstance(masks, list) else masks
        masks = self.get_dropout_mask(inputs[0]) if training and self.dropout else None
        plain = type(self).project is RecurrentCell.project
        if isinstance(masks, list) or not plain:  # each gate sees inputs of its own
            project = functools.partial(self.project, training=training)
            return kernels.Recurrence(equation, weights, inputs, project, cudnn=cudnn)
        return kernels.Recurrence(
            equation,
            weights,
            inputs if masks is None else inputs * masks,
            self.project,
            kernel=ops.convert_to_tensor(self.kernel),
            bias=None if self.bias is None else self.input_bias(),
            cudnn=cudnn,
        )

    def in_loop(self):
        """The weights that act on the state."""
        return {"U": self.recurrent_kernel}

    def call(self, inputs, states, training=False):
        nested = isinstance(states, (list, tuple))
        projected = self.project(inputs, training)
        h, new_states = self.step(projected, states if nested else [states], training)
        return h, new_states if nested else new_states[0]

    def get_initial_state(self, batch_size=None):
        size = (batch_size, self.units)
        return [ops.zeros(size, dtype=self.compute_dtype) for _ in self.state_names]

    def get_config(self):
        own = {
            name: arguments.as_config(name, getattr(self, name))
            for name in arguments.names(type(self))
        }
        return {**super().get_config(), **own}


def _products(x, kernel, masks, gates):
    """`x @ kernel`; with a list of dropout masks, each gate sees its own `x`."""
    kernel = ops.convert_to_tensor(kernel)
    if masks is None:
        return kernels.project(x, kernel)
    if not isinstance(masks, list):
        return kernels.matmul(x * masks, kernel)
    per_gate = zip(masks, ops.split(kernel, gates, axis=-1), strict=True)
    return ops.concatenate([kernels.matmul(x * m, w) for m, w in per_gate], axis=-1)
