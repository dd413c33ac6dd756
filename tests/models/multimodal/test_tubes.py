"""Tubes of films: the equation, with positions in place and time."""

import numpy as np
import pytest
from keras import ops

from kerasseq.models.multimodal.tubes import TubeEmbedding

pytestmark = pytest.mark.everywhere


def test_equals_numpy():
    layer = TubeEmbedding((2, 3, 5), 7, film_size=(4, 6, 10))
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 10, 3)).astype("float32")
    z = ops.convert_to_numpy(layer(x))
    E, b, place, time = (ops.convert_to_numpy(w) for w in layer.weights)
    tubes = x.reshape(2, 2, 2, 2, 3, 2, 5, 3)  # batch, t, frame, row, P, column, Q, C
    projected = np.einsum("btfrpcqk,pqfkd->btrcd", tubes, E.reshape(3, 5, 2, 3, 7)) + b
    expected = projected.reshape(2, 2, 4, 7) + place + time[:, None]
    np.testing.assert_allclose(z, expected.reshape(2, 8, 7), atol=1e-5)


def test_positions_are_as_large_as_the_pixels():
    layer = TubeEmbedding((2, 3, 5), 101, film_size=(4, 6, 10))
    layer.build((None, 4, 6, 10, 3))
    _, _, place, time = (ops.convert_to_numpy(w) for w in layer.weights)
    assert 0.4 < place.std() < 0.6 and 0.4 < time.std() < 0.6
    assert abs(np.corrcoef(place[0], time[0])[0, 1]) < 0.4  # drawn apart
