"""The linear recurrence on a CPU in float32, compiled by numba.

One row of the batch after the other: its state stays in the cache of the CPU, and each
number is read and written once. `numba_steps.py` explains how the code is written.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kerasseq.kernels.torch.numba_steps import F2, F3, VANISHED, ZERO, compile_functions

Array: TypeAlias = np.ndarray

NO_GRADIENT = np.zeros((0, 0, 0), "float32")


def forward(a: Array, b: Array, first: Array, h: Array) -> None:
    """Computes h = a h + b over all steps."""
    for n in range(h.shape[0]):
        before = first[n]
        for t in range(h.shape[1]):
            for j in range(h.shape[2]):
                h[n, t, j] = a[n, t, j] * before[j] + b[n, t, j]
            before = h[n, t]


def backward(
    a: Array, h: Array, first: Array, d_h: Array, d: Array, d_a: Array, d_b: Array
) -> None:
    """Computes the gradients of a and b, and in d that of the first state.

    Args:
        a: As for `forward`.
        h: The result of `forward`.
        first: As for `forward`.
        d_h: The gradient of h, or an array of size 0 for zeros.
        d: The gradient of the last state, which is overwritten.
        d_a: Written.
        d_b: Written.
    """
    given = d_h.shape[0] > 0
    for n in range(h.shape[0]):
        for t in range(h.shape[1] - 1, -1, -1):
            before = h[n, t - 1] if t > 0 else first[n]
            if given:
                for j in range(h.shape[2]):
                    d[n, j] += d_h[n, t, j]
            for j in range(h.shape[2]):
                d_j = d[n, j]
                d_b[n, t, j] = d_j
                d_a[n, t, j] = d_j * before[j]
                d_j *= a[n, t, j]
                d[n, j] = ZERO if abs(d_j) < VANISHED else d_j


def functions() -> tuple[Callable[..., None], ...]:
    """Compiles both functions, or returns them if they are compiled."""
    types = (F3, F3, F2, F3), (F3, F3, F2, F3, F2, F3, F3)
    return compile_functions(forward, backward, signatures=types)
