"""The selective scan: values, gradients by hand, masks, first states."""

import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from kerasseq.kernels.reference import selective_scan as reference

pytestmark = pytest.mark.everywhere("kernels differ between backends")

BATCH, T, E, N = 2, 7, 5, 3
MASK = np.array([[0, 1, 1, 0, 1, 1, 0], [1, 0, 0, 1, 1, 0, 1]], bool)
NAMES = ("step", "A", "B", "C", "u", "h")


def arrays():
    rng = np.random.default_rng(0)
    shapes = (BATCH, T, E), (E, N), (BATCH, T, N), (BATCH, T, N), (BATCH, T, E)
    step, A, B, C, u = (rng.normal(size=shape) for shape in shapes)
    h = rng.normal(size=(BATCH, E, N))
    parts = np.abs(step), -np.abs(A), B, C, u, h
    return [x.astype("float32") for x in parts]


def in_numpy(step, A, B, C, u, h, mask):
    """The equation, step by step."""
    h, y = h.astype("float64"), np.zeros(u.shape)
    for t in range(T):
        for n in range(BATCH):
            if mask[n, t]:
                written = np.outer(step[n, t] * u[n, t], B[n, t])
                h[n] = np.exp(step[n, t][:, None] * A) * h[n] + written
            y[n, t] = h[n] @ C[n, t]
    return y, h


def test_equals_the_equation():
    """Padding may hold NaN."""
    parts = arrays()
    expected = in_numpy(*parts, MASK)
    parts[0][~MASK] = parts[4][~MASK] = np.nan
    for found, array in zip(
        kernels.selective_scan(*parts, mask=MASK), expected, strict=True
    ):
        np.testing.assert_allclose(ops.convert_to_numpy(found), array, atol=1e-5)


def test_zeros_come_first():
    parts = arrays()
    expected = in_numpy(*parts[:-1], np.zeros((BATCH, E, N)), np.ones((BATCH, T)))
    y, _ = kernels.selective_scan(*parts[:-1])
    np.testing.assert_allclose(ops.convert_to_numpy(y), expected[0], atol=1e-5)


def test_gradients_equal_those_of_the_definition():
    def slopes(run):
        def loss(parts):
            y, last = run(*(parts[name] for name in NAMES))
            return ops.sum(y**2) + ops.sum(ops.sin(last))

        return kernels.gradients(loss, dict(zip(NAMES, arrays(), strict=True)))

    found, expected = slopes(kernels.selective_scan), slopes(reference.run)
    for name in NAMES:
        np.testing.assert_allclose(
            ops.convert_to_numpy(found[name]),
            ops.convert_to_numpy(expected[name]),
            *(1e-4, 1e-4),
            err_msg=name,
        )
