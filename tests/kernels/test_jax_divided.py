"""Weights of which no process of JAX has all, and names that JAX hides."""

import keras
import numpy as np
import pytest

from kerasseq.core import backend
from kerasseq.kernels import parts

if backend.chosen() != "jax":
    pytest.skip("names of JAX", allow_module_level=True)

from kerasseq.kernels.jax import divided, private

pytestmark = pytest.mark.everywhere("JAX alone has these")

GLOBAL = "jax._src.distributed.global_state"
CLIENT = f"{GLOBAL}.client"


class Client:
    """What connects this process, 0, with another that has given a value or none."""

    def __init__(self, other=None):
        self.values = {} if other is None else {"key/1": other}

    def key_value_set(self, key, value):
        self.values[key] = value

    def key_value_delete(self, key):
        del self.values[key]

    def blocking_key_value_get(self, key, milliseconds):
        if key not in self.values:
            raise RuntimeError(f"{key}: none in {milliseconds} milliseconds")
        return self.values[key]


@pytest.fixture
def _two_processes(monkeypatch):
    monkeypatch.setattr("jax.process_count", lambda: 2)
    monkeypatch.setattr("jax.process_index", lambda: 0)


@pytest.mark.usefixtures("_two_processes")
def test_what_processes_exchange(monkeypatch):
    monkeypatch.setattr(CLIENT, client := Client("b"))
    assert private.exchange("key", "a", 3) == ["a", "b"]
    private.forget("key")
    assert [*client.values] == ["key/1"]
    monkeypatch.setattr(CLIENT, Client())
    with pytest.raises(TimeoutError, match="none in 3000 milliseconds"):
        private.exchange("key", "a", 3)


@pytest.mark.usefixtures("_two_processes")
def test_without_the_name_nothing_is_compared(monkeypatch):
    monkeypatch.delattr(GLOBAL)
    assert private.exchange("key", "a", 3) == ["a", "a"]
    private.forget("key")


@pytest.mark.parametrize("others", [TimeoutError("none"), ["a", "b"]])
def test_processes_that_read_other_weights(others, monkeypatch):
    def exchange(*_):
        if isinstance(others, Exception):
            raise others
        return others

    monkeypatch.setattr(private, "exchange", exchange)
    with pytest.raises(RuntimeError, match="all of them must read or save these"):
        divided.Meetings().at("a")


def test_a_weight_that_another_process_has():
    weight = keras.Variable(np.arange(3.0))
    private.place(weight, divided.Gone, None, None)
    for read in (np.array, keras.ops.sum, lambda w: w.value):
        with pytest.raises(ValueError, match="only the first process has them"):
            read(weight)
    private.place(weight, keras.Variable, None, np.arange(3.0))
    assert weight.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["_layout", "_value"])
def test_variables_that_keep_their_values_elsewhere(name):
    weight = keras.Variable(np.arange(3.0))
    del vars(weight)[name]
    with pytest.raises(RuntimeError, match='Leave parallel="model" out'):
        private.place(weight, divided.Gone, None, None)


def test_variables_of_a_block():
    """Each one once, also where Python gives the number of a freed one to another."""
    kept = divided.Kept()
    for _ in range(5):
        weight = keras.Variable(np.zeros(2))
        kept.add(weight, is_divided=True)
        kept.add(weight, is_divided=True)
    assert len(kept.variables) == 5
    assert type(weight) is divided.Divided
    assert np.array(weight).tolist() == [0, 0]


def test_the_error_after_a_lost_process():
    from kerasseq.kernels.jax.parts import LOST

    assert LOST.search("UNKNOWN: Gloo AllGather failed: Read error")
    assert not LOST.search("devices must be at most 2")
    assert "training.restore" in parts.LOST
