"""Tests of updates of rows: equal to a plain loop."""

import keras
import numpy as np
import pytest

from kerasseq import kernels

pytestmark = pytest.mark.everywhere("each backend has its own scatter")


@pytest.mark.parametrize("inner", [(3,), ()])
def test_add_to_rows(inner):
    rng = np.random.default_rng(0)
    before = rng.normal(size=(7, *inner)).astype("float32")
    rows = np.array([[5, 2], [2, 2], [0, 5]], "int32")
    values = rng.normal(size=(3, 2, *inner)).astype("float32")
    table = keras.Variable(before)
    kernels.add_to_rows(table, rows, values)
    found = keras.ops.convert_to_numpy(table.value)
    expected = before.copy()
    for row, value in zip(rows.ravel(), values.reshape(6, *inner), strict=True):
        expected[row] += value
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found[[1, 3, 4, 6]], before[[1, 3, 4, 6]])


def test_take_rows():
    table = keras.Variable(np.arange(6.0).reshape(3, 2))
    taken = keras.ops.convert_to_numpy(kernels.take_rows(table, np.array([[2], [0]])))
    assert taken.tolist() == [[[4.0, 5.0]], [[0.0, 1.0]]]
