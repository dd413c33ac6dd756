r"""How large the gradient is in each layer, from the first to the last.

$$
g_l = \Big\lVert \frac{\partial L}{\partial W_l} \Big\rVert
$$

He et al. 2016 add the input of a layer to its output so that the derivative of the
output by the input is $1 + \partial f / \partial x$. Course slides A, B, D.
"""

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor


def gradient_by_depth(model: keras.Model, x: Nested, y: Nested) -> dict[str, float]:
    """Computes the norm of the loss gradient of the weights of each layer.

    Args:
        model: A compiled Keras model.
        x: Inputs, as for `model.fit`.
        y: Targets, as for `model.fit`.

    Returns:
        The norm over all trainable weights of each layer of the model by its name, in
        the order of `model.layers`; layers without trainable weights are left out. A
        block is one layer.

    Raises:
        ValueError: If the model is not compiled, or has no trainable weights.

    Examples:
        >>> sizes = [keras.layers.Dense(3, name=name) for name in ("first", "last")]
        >>> model = keras.Sequential([keras.Input((2,)), *sizes])
        >>> model.compile("sgd", "mse")
        >>> list(gradient_by_depth(model, np.ones((5, 2)), np.ones((5, 3))))
        ['first', 'last']

    References:
        Slides D: the residual connection.
    """
    weights = differentiable(model, x)
    names = {
        id(w): layer.name for layer in model.layers for w in layer.trainable_weights
    }
    loss = loss_of_weights(model, weights, x, y)
    gradients = kernels.gradients(loss, [w.value for w in weights])
    squares: dict[str, float] = {}
    for w, gradient in zip(weights, gradients, strict=True):
        name = names.get(id(w), model.name)  # a weight of the model itself
        g = ops.convert_to_numpy(ops.cast(gradient, "float32")).astype("float64")
        squares[name] = squares.get(name, 0.0) + float(np.sum(g * g))
    order = [layer.name for layer in model.layers] + [model.name]
    return {name: squares[name] ** 0.5 for name in order if name in squares}


def differentiable(model: keras.Model, x: Nested) -> list[keras.Variable]:
    """Returns the trainable weights of a model, which is built if it is not.

    Args:
        model: A Keras model.
        x: Inputs, as for `model.fit`.

    Raises:
        ValueError: If the model is not compiled, or has no trainable weights.
    """
    build_with_loss(model, x)
    weights = model.trainable_variables
    if not weights:
        raise ValueError(
            "model must have trainable weights, received one without. Set "
            "model.trainable = True"
        )
    return weights


def build_with_loss(model: keras.Model, x: Nested) -> None:
    """Builds a model on inputs if it is not built, and checks that it has a loss.

    Raises:
        ValueError: If the model is not compiled.
    """
    if not model.built:
        model(x, training=False)
    if not getattr(model, "compiled", False):
        raise ValueError(
            "model must be compiled with a loss, received one that is not. Call "
            "model.compile(loss=...) first"
        )


def loss_of_weights(model, weights, x, y):
    """Returns the loss as a function of the values of some weights of the model.

    The model keeps its own, and its metrics and seeds: call it in a
    `keras.StatelessScope`, as `kernels.gradients` does.
    """

    def loss(values: list[Tensor]) -> Tensor:
        own = [(w, ops.cast(v, w.dtype)) for w, v in zip(weights, values, strict=True)]
        with keras.StatelessScope(state_mapping=own):
            y_pred = model(x, training=False)
            return model.compute_loss(x=x, y=y, y_pred=y_pred, training=False)

    return loss
