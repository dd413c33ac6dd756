r"""Interpolation of values on a grid to a grid of another size.

$$
P' = A_h\, P\, A_w^T, \qquad
A_{ij} \propto k\!\left(s \left(\frac{n}{n'}\left(i + \tfrac12\right) - \tfrac12 - j
\right)\right), \qquad s = \min\!\left(1, \frac{n'}{n}\right)
$$

with the rows of $A$ summing to 1: value $i$ of $n'$ is a weighted mean of the $n$ old
values around it, over more of them if the grid shrinks. The kernel $k$ is a triangle
for bilinear interpolation, and that of Keys 1981 for bicubic interpolation.
"""

from keras import ops

from kerasseq.core.types import DType, Tensor
from kerasseq.kernels import matmul


def triangle(x: Tensor) -> Tensor:
    """Returns the kernel of bilinear interpolation.

    Examples:
        >>> keras.ops.convert_to_numpy(triangle(np.array([-1.0, 0.25]))).tolist()
        [0.0, 0.75]
    """
    return ops.maximum(1 - ops.abs(x), 0)


def keys(x: Tensor) -> Tensor:
    """Returns the kernel of bicubic interpolation, with Keys' slope of -1/2.

    Examples:
        >>> keras.ops.convert_to_numpy(keys(np.array([0.0, 0.5, -1.5, 2]))).tolist()
        [1.0, 0.5625, -0.0625, 0.0]
    """
    x = ops.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return ops.where(x < 1, near, ops.where(x < 2, far, 0 * x))


KERNELS = {"bilinear": triangle, "bicubic": keys}


def interpolation_matrix(
    old: int, new: int | Tensor, interpolation: str, dtype: DType = "float32"
) -> Tensor:
    """Returns A, which interpolates `old` values to `new` values along one axis.

    Args:
        old: n.
        new: n', an integer or a tensor.
        interpolation: "bilinear" or "bicubic".
        dtype: Type of the matrix.

    Returns:
        `(n', n)`.

    Examples:
        >>> A = interpolation_matrix(2, 3, "bilinear")
        >>> keras.ops.convert_to_numpy(A).round(2).tolist()
        [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    i = ops.cast(ops.arange(new), dtype)[:, None]
    j = ops.cast(ops.arange(old), dtype)[None, :]
    new = ops.cast(new, dtype)
    x = (old / new) * (i + 0.5) - 0.5 - j
    A = KERNELS[interpolation](x * ops.minimum(new / old, ops.ones_like(new)))
    return A / ops.sum(A, axis=1, keepdims=True)


def resize(
    P: Tensor, size: tuple[int | Tensor, int | Tensor], interpolation: str
) -> Tensor:
    """Resizes a grid of vectors.

    Args:
        P: `(h, w, D)`.
        size: h' and w', integers or tensors.
        interpolation: "bilinear" or "bicubic".

    Returns:
        `(h', w', D)`.

    Examples:
        >>> small = resize(keras.ops.ones((2, 3, 5)), (4, 7), "bicubic")
        >>> keras.ops.shape(small)
        (4, 7, 5)
    """
    (h, w, D), (rows, columns) = P.shape, size
    A_h = interpolation_matrix(h, rows, interpolation, P.dtype)
    A_w = interpolation_matrix(w, columns, interpolation, P.dtype)
    P = ops.reshape(matmul(A_h, ops.reshape(P, (h, w * D))), (-1, w, D))  # (h', w, D)
    return matmul(A_w, P)  # (h', w', D)
