"""The largest values, with ties in the same order on every backend."""

import keras
from keras import ops

from kerasseq.core.types import Tensor


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest of the last axis, largest first; of equal ones the first.

    `keras.ops.top_k` promises this on TensorFlow and JAX; on PyTorch equal values come
    in any order.

    Args:
        x: Tensor of floats, `(..., n)`.
        k: At most n.

    Returns:
        Values and int32 indices, `(..., k)`.

    Examples:
        >>> values, indices = top_k(np.array([1.0, 7.0, 5.0, 7.0], "float32"), 3)
        >>> keras.ops.convert_to_numpy(indices).tolist()
        [1, 3, 2]
    """
    if keras.backend.backend() != "torch":
        return ops.top_k(x, k)
    x = ops.convert_to_tensor(x)
    indices = ops.argsort(-x, axis=-1)[..., :k]  # a stable sort
    return ops.take_along_axis(x, indices, axis=-1), indices
