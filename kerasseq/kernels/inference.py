"""Calling a small model again and again, with little around it."""

import keras


def inference(model, *, pure=True):
    """The model as a function for inference, compiled where the backend compiles.

    `predict_on_batch` costs a millisecond of bookkeeping; this is for a loop whose body
    costs less than that. Weights are read at each call, so training goes on.

    Args:
        model: A `keras.Model` with a list of inputs, called with fixed shapes.
        pure: Whether its layers are known to have no effects, as for `compiled`.

    Returns:
        A function from the list of inputs to the outputs, as tensors.

    Examples:
        >>> inputs = keras.Input((3,))
        >>> model = keras.Model([inputs], keras.layers.Dense(2)(inputs))
        >>> keras.ops.shape(inference(model)([np.ones((1, 3), "float32")]))
        (1, 2)
    """
    backend = keras.backend.backend()
    if backend == "torch":
        return _torch(model, pure)
    return _tensorflow(model) if backend == "tensorflow" else _jax(model)


def _tensorflow(model):
    import tensorflow as tf

    return tf.function(lambda inputs: model(inputs, training=False), autograph=False)


def _jax(model):
    import jax

    @jax.jit
    def call(trained, other, inputs):
        return model.stateless_call(trained, other, inputs, training=False)[0]

    def function(inputs):
        weights = (model.trainable_variables, model.non_trainable_variables)
        return call(*([v.value for v in variables] for variables in weights), inputs)

    return function


def _torch(model, pure):
    from kerasseq.kernels.torch_graph import as_it_is, recorded

    return (recorded if pure else as_it_is)(lambda x: model(x, training=False))
