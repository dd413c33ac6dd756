"""Loops, compiled functions and gradients on JAX."""

import jax
import keras


def scan(step, carry, inputs, reverse=False):
    """See `kerasseq.kernels.scan`."""
    return jax.lax.scan(step, carry, inputs, reverse=reverse)


def compiled(function, *, jit, donated, pure):
    """See `kerasseq.kernels.compiled`.

    The variables that the function reads become arguments of the compiled function, so
    that it follows later training.
    """
    variables = {}  # those that the function has read, by id

    @jax.jit
    def call(values, args):
        known = list(variables.values())
        with _Reading(variables, zip(known, values, strict=True)):
            return function(*args)

    def weights_read_anew(*args):
        if not variables:
            with _Reading(variables):
                jax.eval_shape(function, *args)
        while True:
            values = [v.value for v in variables.values()]
            outputs = call(values, args)
            # A new shape may have read another weight. Compiled once more, that weight
            # is an argument, not a constant.
            if len(values) == len(variables):
                return outputs

    return weights_read_anew


class _Reading(keras.StatelessScope):
    """Collects every variable that is read."""

    def __init__(self, variables, values=()):
        super().__init__(state_mapping=list(values))
        self.variables = variables

    def get_current_value(self, variable):
        self.variables.setdefault(id(variable), variable)
        return super().get_current_value(variable)


def inference(model, pure):
    """See `kerasseq.kernels.inference`."""

    @jax.jit
    def call(trained, other, inputs):
        return model.stateless_call(trained, other, inputs, training=False)[0]

    def function(inputs):
        weights = (model.trainable_variables, model.non_trainable_variables)
        return call(*([v.value for v in variables] for variables in weights), inputs)

    return function


def gradients(function, arguments):
    """See `kerasseq.kernels.gradients`."""
    return jax.grad(function)(arguments)


def output_specs(function, *args):
    """See `kerasseq.kernels.output_specs`."""
    return jax.eval_shape(function, *args)


def has_cudnn():
    """See `kerasseq.kernels.has_cudnn`."""
    return any(device.platform == "gpu" for device in jax.local_devices())


def is_concrete(value):
    """See `kerasseq.kernels.is_concrete`."""
    return not isinstance(value, jax.core.Tracer)
