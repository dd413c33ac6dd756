"""What the tests of sparse attention compare: outputs and gradients."""

import numpy as np
from keras import ops

from kerasseq import kernels
from tests.layer_checks import compiled_on_jax


def random_weights(built, *shapes):
    """Builds layers for a query and a value, with the same random weights."""
    query, value = shapes[0], shapes[-1]
    rng = np.random.default_rng(7)
    for layer in built:
        layer.build(query, value)
    values = [rng.normal(size=w.shape) * 0.5 for w in built[0].weights]
    for layer in built:
        layer.set_weights(values)
    return built


def output_and_gradients(layer, *inputs, **options):
    """The output, and the gradients of a number in the inputs and all weights."""
    rng = np.random.default_rng(1)
    target = ops.convert_to_tensor(rng.normal(size=inputs[0].shape).astype("float32"))

    def number(values):
        y, _ = layer.stateless_call(values["weights"], [], *values["inputs"], **options)
        return ops.sum(y * target)

    def run(inputs, weights):
        values = {"inputs": inputs, "weights": weights}
        y = ops.stop_gradient(layer(*inputs, **options))
        return y, kernels.gradients(number, values)

    y, g = compiled_on_jax(run)(list(inputs), layer.get_weights())
    return [y, *g["inputs"], *g["weights"]]


def on_itself(layer, x, **options):
    """Self-attention, compiled on JAX."""
    return compiled_on_jax(lambda x: layer(x, x, **options))(x)
