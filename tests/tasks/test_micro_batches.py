"""The gradient of a batch, computed in parts."""

import keras
import numpy as np
import pytest

from tests.tasks import on_equal_devices

NAMES = ("tagger", "gpt")


def trained(name, **options):
    """Returns a model after three epochs of batches of 7 and 2 rows, and its losses."""
    keras.utils.set_random_seed(3)
    make, data = on_equal_devices.CASES[name]
    model = make()
    model.compile(keras.optimizers.Adam(1e-2, global_clipnorm=1.0), **options)
    history = model.fit(**data, batch_size=7, epochs=3, shuffle=False, verbose=0)
    return model, history.history


@pytest.mark.everywhere("a step of its own on each backend", cases=1)
@pytest.mark.parametrize("name", NAMES)
def test_parts_of_a_batch_are_the_batch(name):
    """Also where each part has another number of real steps, and the last is short."""
    whole, expected = trained(name)
    parts, found = trained(name, micro_batches=3)
    assert found.keys() == expected.keys()
    for metric, values in expected.items():
        np.testing.assert_allclose(found[metric], values, rtol=2e-6, err_msg=metric)
    for one, other in zip(parts.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    count = whole.optimizer.iterations
    assert int(parts.optimizer.iterations) == int(count) == 6
