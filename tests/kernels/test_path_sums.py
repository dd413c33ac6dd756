"""Sums over all paths: the fast loop equals its definition and NumPy."""

import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from kerasseq.kernels.path_sums import NEVER, path_sums
from kerasseq.kernels.reference import path_sums as reference
from tests.layer_checks import float64_is_there

pytestmark = pytest.mark.everywhere("kernels differ between backends")

T, B, S = 5, 2, 7


def test_equals_numpy_and_the_definition():
    dtype = "float64" if float64_is_there() else "float32"
    rng = np.random.default_rng(0)
    e = rng.normal(size=(T, B, S)).astype(dtype)
    first = np.full((B, S), NEVER, dtype)
    first[0, 0], first[1, 2] = 0, 1
    skip = np.where(rng.random((B, S)) < 0.5, 0, NEVER).astype(dtype)
    mask = np.array([[1, 0, 1, 1, 1], [0, 1, 1, 1, 0]], bool).T
    alpha, expected = np.exp(first), []
    for t in range(T):
        one, two = np.zeros_like(alpha), np.zeros_like(alpha)
        one[:, 1:], two[:, 2:] = alpha[:, :-1], alpha[:, :-2] * (skip[:, 2:] == 0)
        new = np.exp(e[t]) * (alpha + one + two)
        alpha = np.where(mask[t][:, None], new, alpha)
        expected.append(alpha)
    arguments = [ops.convert_to_tensor(x) for x in (e, first, skip, mask)]
    for run in (path_sums, reference.run):
        found = kernels.compiled(run)(*arguments)
        found = np.exp(ops.convert_to_numpy(found))
        np.testing.assert_allclose(
            found, expected, rtol=1e-12 if dtype == "float64" else 1e-5
        )
