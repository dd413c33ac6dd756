"""The equations in NumPy, a row and a step at a time."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def subsampled(x, kernels, biases):
    """The convolutions of stride 2 over the frames x, `(T, F)`."""
    for kernel, bias in zip(kernels, biases, strict=True):
        p = len(kernel) // 2
        padded = np.pad(x, ((p, p), (0, 0)))
        x = np.array(
            [
                silu(np.einsum("jd,jdf->f", padded[t : t + len(kernel)], kernel) + bias)
                for t in range(0, len(x), 2)
            ]
        )
    return x


def convolved(x, dense, bias, kernel):
    """The gate and the convolution of each channel of x, `(T, D)`."""
    a, b = np.split(x @ dense[0] + dense[1], 2, axis=-1)
    p = len(kernel) // 2
    h = np.pad(a * sigmoid(b), ((p, p), (0, 0)))
    return (
        np.array([np.sum(h[t : t + len(kernel)] * kernel, 0) for t in range(len(x))])
        + bias
    )
