"""Compiling a function of tensors, where `inference` compiles a model."""

import keras


def compiled(function, *, jit=False, donated=False, pure=True):
    """A function for inference, compiled where the backend compiles.

    Weights are read at each call, so training goes on. Layers must be built before.

    Args:
        function: Function of structures of tensors that gives one, without effects. It
            is compiled anew for each new shape.
        jit: Whether TensorFlow compiles with XLA, which takes longer at first: for a
            loop over small steps. JAX always does, PyTorch never.
        donated: Whether the caller gives up what came out when it goes in again, as in
            a loop: PyTorch then writes into caches, and copies none.
        pure: Whether the function is known to have no effects. If not, PyTorch runs it
            as it is; TensorFlow and JAX run its Python once for each new shape.

    Returns:
        A function of the same arguments. On PyTorch it runs without gradients.

    Examples:
        >>> layer = keras.layers.Dense(2)
        >>> layer.build((None, 3))
        >>> keras.ops.shape(compiled(layer)(keras.ops.ones((5, 3))))
        (5, 2)
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, jit_compile=jit)
    if keras.backend.backend() == "jax":
        return _jax(function)
    from kerasseq.kernels.torch_graph import as_it_is, recorded

    return recorded(function, donated=donated) if pure else as_it_is(function)


def training(function):
    """A function that gradients flow through, with little around it on PyTorch.

    Args:
        function: Function of structures of tensors that gives one, without effects and
            without draws.

    Returns:
        A function of the same arguments. TensorFlow and JAX have compiled what is
        around it: there it is the same function.

    Examples:
        >>> layer = keras.layers.Dense(2)
        >>> layer.build((None, 3))
        >>> keras.ops.shape(training(layer)(keras.ops.ones((5, 3))))
        (5, 2)
    """
    if keras.backend.backend() != "torch":
        return function
    from kerasseq.kernels.torch_graph import recorded

    return recorded(function, gradients=True)


def output_specs(function, *args):
    """What `function(*args)` would give: a structure of things with shape and dtype.

    Nothing is computed, but on PyTorch, which cannot tell without.

    Examples:
        >>> def double(x):
        ...     return {"y": keras.ops.concatenate([x, x], axis=-1)}
        >>> tuple(output_specs(double, keras.ops.ones((5, 3)))["y"].shape)
        (5, 6)
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.eval_shape(function, *args)
    if backend == "tensorflow":
        import tensorflow as tf

        graph = tf.function(function, autograph=False).get_concrete_function(*args)
        return graph.structured_outputs
    import torch

    with torch.no_grad():
        return function(*args)


def _jax(function):
    import jax

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
            # A new shape may have led to a weight that was not read before. Compiled
            # once more it is an argument, not a constant.
            if len(values) == len(variables):
                return outputs

    return weights_read_anew


class _Reading(keras.StatelessScope):
    """Note every variable that is read."""

    def __init__(self, variables, values=()):
        super().__init__(state_mapping=list(values))
        self.variables = variables

    def get_current_value(self, variable):
        self.variables.setdefault(id(variable), variable)
        return super().get_current_value(variable)
