"""One product of all inputs with weights, as fast as the backend can."""

import keras

from kerasseq.kernels.precision import matmul


def project(x, weights):
    """$x W$.

    Args:
        x: `(..., D)`; of all steps at once, `(T, B, D)`, it is fastest.
        weights: W, `(D, N)`, a tensor.

    Examples:
        >>> x, w = np.ones((3, 2, 5), "float32"), np.ones((5, 7), "float32")
        >>> keras.ops.shape(project(keras.ops.array(x), keras.ops.array(w)))
        (3, 2, 7)
    """
    if keras.backend.backend() == "torch":
        from kerasseq.kernels import torch_product

        return torch_product.project(x, weights)
    return matmul(x, weights)
