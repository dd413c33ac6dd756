import keras
import numpy as np
import pytest

from kerasseq import kernels

pytestmark = pytest.mark.everywhere("kernels differ between backends")


def test_xla_by_default_except_on_torch():
    on_torch = keras.backend.backend() == "torch"
    assert kernels.default_jit_compile() is not on_torch


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
