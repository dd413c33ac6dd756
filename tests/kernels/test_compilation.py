from unittest import mock

import keras
import numpy as np
import pytest

from kerasseq import kernels

pytestmark = pytest.mark.everywhere("kernels differ between backends")


def test_xla_by_default_except_on_torch():
    on_torch = keras.backend.backend() == "torch"
    assert kernels.default_jit_compile() is not on_torch


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.distribute")
def test_xla_is_off_for_several_replicas():
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    several = mock.Mock(wraps=strategy, num_replicas_in_sync=2)
    with mock.patch.object(tf.distribute, "get_strategy", lambda: several):
        assert not kernels.default_jit_compile()


def test_numbers_are_concrete_and_stand_ins_are_not():
    assert kernels.is_concrete(np.ones(3))
    assert kernels.is_concrete(keras.ops.ones(3))
    assert not kernels.is_concrete(keras.KerasTensor((3,)))


class Spy(keras.layers.Layer):
    def call(self, x):
        self.seen = kernels.is_concrete(x)
        return x


def test_a_compiled_call_is_seen_from_inside():
    spy = Spy()
    model = keras.Sequential([keras.Input((3,)), spy])
    model.predict(np.ones((2, 3)), verbose=0)
    # On PyTorch Keras' predict runs eagerly, so there are numbers inside.
    assert spy.seen is (keras.backend.backend() == "torch")
