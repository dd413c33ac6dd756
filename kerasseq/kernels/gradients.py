"""Gradients of any function of tensors, outside a training step."""

import keras
from keras import ops, tree


def gradients(function, arguments):
    """Differentiate a scalar function.

    Args:
        function: Takes one structure of tensors, gives one number. Variables that it
            assigns keep their old values: it runs inside a `keras.StatelessScope`.
        arguments: Structure of floating tensors.

    Returns:
        Structure like `arguments`, of the gradients. Zeros where nothing depends.

    Examples:
        >>> g = gradients(lambda a: keras.ops.sum(a["x"] ** 2), {"x": np.ones(3)})
        >>> keras.ops.convert_to_numpy(g["x"]).tolist()
        [2.0, 2.0, 2.0]
    """
    arguments = tree.map_structure(ops.convert_to_tensor, arguments)

    def stateless(arguments):
        with keras.StatelessScope():
            return function(arguments)

    return _BACKENDS[keras.backend.backend()](stateless, arguments)


def _tensorflow(function, arguments):
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tree.flatten(arguments))
        result = function(arguments)
    flat = tape.gradient(
        result,
        tree.flatten(arguments),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return tree.pack_sequence_as(arguments, flat)


def _jax(function, arguments):
    import jax

    return jax.grad(function)(arguments)


def _torch(function, arguments):
    import torch

    flat = [x.detach().clone().requires_grad_() for x in tree.flatten(arguments)]
    result = function(tree.pack_sequence_as(arguments, flat))
    found = torch.autograd.grad(result, flat, allow_unused=True)
    found = [
        torch.zeros_like(x) if g is None else g
        for x, g in zip(flat, found, strict=True)
    ]
    return tree.pack_sequence_as(arguments, found)


_BACKENDS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
