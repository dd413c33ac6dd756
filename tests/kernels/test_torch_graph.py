"""Functions recorded on PyTorch: what is recorded, and what is not."""

import collections

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.attention.cache import update_cache
from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("records on PyTorch", allow_module_level=True)

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kerasseq.kernels.torch import graph as torch_graph
from kerasseq.kernels.torch.graph import EAGER_CALLS, recorded

pytestmark = pytest.mark.everywhere("kernels differ between backends")


def counting(function):
    calls = []

    def count(*args):
        calls.append(args)
        return function(*args)

    return recorded(count), calls


def test_python_runs_until_it_is_recorded_and_again_for_another_shape():
    call, calls = counting(lambda x: x + 1)
    for n in range(2 * EAGER_CALLS):
        assert float(call(np.float32([n]))[0]) == n + 1
    assert len(calls) == EAGER_CALLS  # the last of them to record
    assert call(np.zeros(3, "float32")).shape == (3,)
    assert call(np.zeros(1, "int32")).dtype != call(np.zeros(1, "float32")).dtype
    assert len(calls) == EAGER_CALLS + 2


@pytest.mark.parametrize("missing", [False, True])
def test_all_values_are_described_by_one_mode(monkeypatch, missing):
    """Private names of PyTorch make recording fast; without them it is slow."""
    made, init = [], FakeTensorMode.__init__

    def counted(self, **options):
        made.append(self)
        init(self, **options)

    monkeypatch.setattr(FakeTensorMode, "__init__", counted)
    if missing:
        monkeypatch.delattr(torch._guards, "tracing")
    call, calls = counting(lambda x: ops.exp(2 * (x + 1)))
    for n in range(2 * EAGER_CALLS):
        found = float(call(np.float32([n / 9]))[0])
        assert found == pytest.approx(np.exp(2 * n / 9 + 2), rel=1e-5)
    assert len(calls) == EAGER_CALLS
    assert len(made) > 2 if missing else len(made) == 1


def test_shapes_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(torch_graph, "SHAPES", 2)
    call, calls = counting(lambda x: x + 1)

    def use(length):
        assert call(np.zeros(length, "float32")).tolist() == [1.0] * length

    for length in (3, 5):
        for _ in range(EAGER_CALLS + 1):
            use(length)
    assert len(calls) == 2 * EAGER_CALLS
    use(3)
    use(7)  # in place of 5, which was used before 3
    assert len(calls) == 2 * EAGER_CALLS + 1
    use(3)
    assert len(calls) == 2 * EAGER_CALLS + 1
    use(5)
    assert len(calls) == 2 * EAGER_CALLS + 2


def test_what_depends_on_a_value_runs_as_it_is():
    call, calls = counting(lambda x: x if float(x[0]) > 0 else -x)
    for n in range(-EAGER_CALLS, EAGER_CALLS):
        assert float(call(np.float32([n]))[0]) == abs(n)
    assert len(calls) >= 2 * EAGER_CALLS


def test_an_error_of_the_function_is_its_own():
    def broken(x):
        raise ValueError("no")

    call, _ = counting(broken)
    for _ in range(2 * EAGER_CALLS):
        with pytest.raises(ValueError, match="no"):
            call(np.zeros(3, "float32"))


def test_no_gradients():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    call = recorded(layer)
    for _ in range(2 * EAGER_CALLS):
        assert not call(ops.ones((5, 2))).requires_grad


def test_what_writes_into_its_own_things():
    def function(x):
        y = torch.zeros(3)
        z = torch.zeros(3)
        y[1] = x[0]
        z[1] += 5
        return y + 0, z + y, x

    call = recorded(function)
    for n in range(2 * EAGER_CALLS):
        y, z, x = call(np.float32([n, 1]))
        assert (y.tolist(), z.tolist()) == ([0, n, 0], [0, n + 5, 0])
        assert x.tolist() == [n, 1]


def turn(carry):
    """Entries of two caches, each at its place."""
    at = carry["at"]
    new = ops.cast(at, "float32")[:, None, None] + ops.ones((2, 1, 3))
    return {
        "key": update_cache(carry["key"], new, at),
        "value": update_cache(carry["value"], -new, at),
        "at": at + 1,
        "seen": ops.sum(carry["key"], axis=(1, 2)),  # before
    }


def begun(length, same):
    cache = torch.zeros(2, length, 3)
    other = cache if same else torch.zeros(2, length, 3)
    at = torch.tensor([0, 1], dtype=torch.int32)
    return {"key": cache, "value": other, "at": at, "seen": torch.zeros(2)}


@pytest.mark.parametrize("same", [False, True], ids=["two caches", "one tensor"])
def test_a_loop_writes_into_its_own_caches_and_into_no_others(same):
    length = 2 * EAGER_CALLS + 1
    call = recorded(turn, donated=True)
    plain, first = begun(length, same), begun(length, same)
    for _ in range(3):
        carry, plain, places = first, begun(length, same), []
        for _ in range(length - 1):
            carry, plain = call(carry), turn(plain)
            places.append(carry["value"].data_ptr())
            for name, x in plain.items():
                assert carry[name].tolist() == x.tolist(), name
        assert not first["key"].any() and not first["value"].any()
    assert len(set(places)) == 1  # in the last round all was recorded


def test_what_is_read_besides_is_not_written_into():
    def both(x, at):
        return update_cache(x, torch.ones(2, 1, 3), at), x * 1, at

    call = recorded(both, donated=True)
    x, at = torch.zeros(2, 5, 3), torch.tensor([0, 4], dtype=torch.int32)
    for _ in range(2 * EAGER_CALLS):
        after, before, _ = call(x, at)
        assert float(before.sum()) == 0 and float(after.sum()) == 6
        x = before


def test_what_came_out_twice_is_not_written_into():
    def twice(x, y, at):
        after = update_cache(x, torch.ones(2, 1, 3), at)
        return after, after, at + 1, ops.sum(y)

    call = recorded(twice, donated=True)
    x = y = torch.zeros(2, 2 * EAGER_CALLS, 3)
    at = torch.tensor([0, 0], dtype=torch.int32)
    for n in range(2 * EAGER_CALLS):
        y = y if n > EAGER_CALLS else y.clone()  # two while it is recorded
        x, y, at, before = call(x, y, at)
        assert float(before) == 6 * n


@pytest.mark.parametrize("kind", [collections.OrderedDict, dict])
def test_keys_in_another_order(kind):
    def function(state, x):
        return kind((name, value + x) for name, value in state.items())

    call = recorded(function)
    for n in range(3 * EAGER_CALLS):
        names = "hc" if n % 3 else "ch"
        state = kind((name, np.float32([ord(name)])) for name in names)
        for name, value in call(state, np.float32([n])).items():
            assert float(value[0]) == ord(name) + n


Two = collections.namedtuple("Two", "first second")


def test_structures_come_back_as_they_are():
    table = collections.defaultdict(list, b=[np.ones(1)], a=())
    call = recorded(lambda x: x)
    for _ in range(EAGER_CALLS + 2):
        found = call(Two(table, [np.zeros(1)]))
        assert type(found) is Two and type(found.first) is collections.defaultdict
        assert list(found.first) == ["a", "b"] and found.first["a"] == ()
        assert float(found.first["b"][0][0]) == 1 and float(found.second[0][0]) == 0
