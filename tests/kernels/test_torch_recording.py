"""Functions recorded on PyTorch: what is recorded, left out, and not recorded."""

import collections
import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq.attention.cache import update_cache
from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("records on PyTorch", allow_module_level=True)

import torch

from kerasseq.kernels.torch import recording
from kerasseq.kernels.torch.recording import Program, Recorder, recorded

pytestmark = pytest.mark.everywhere("kernels differ between backends")

ROUNDS = 7  # the first is recorded


def counting(function):
    calls = []

    def count(*args):
        calls.append(args)
        return function(*args)

    return recorded(count), calls


def program_of(function, *args):
    """The program of a function, which returns a tuple of tensors."""
    recorder = Recorder(args)
    with torch.no_grad(), recorder, recorder.watch:
        outputs = function(*args)
    return Program(recorder, outputs)


def run(program, *args):
    with torch.no_grad():
        return program.run(program.weights, list(args))


def names(program):
    return [call.function.__name__ for call in program.calls]


def test_python_runs_once_and_again_for_another_shape():
    call, calls = counting(lambda x: x + 1)
    for n in range(ROUNDS):
        assert float(call(np.float32([n]))[0]) == n + 1
    assert len(calls) == 1
    assert call(np.zeros(3, "float32")).shape == (3,)
    assert call(np.zeros(1, "int32")).dtype != call(np.zeros(1, "float32")).dtype
    assert len(calls) == 3


def test_another_order_in_memory_is_another_shape():
    call, calls = counting(lambda x: x.contiguous().view(-1) * 1)
    x = torch.arange(6.0).view(2, 3)
    for y in (x, x + 1, x.t().contiguous().t(), x.t().contiguous().t() + 1):
        assert call(y).tolist() == y.flatten().tolist()
    assert len(calls) == 2


def test_shapes_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(recording, "SHAPES", 2)
    call, calls = counting(lambda x: x + 1)
    for length in (3, 5, 3, 7, 3):  # 7 in place of 5
        assert call(np.zeros(length, "float32")).tolist() == [1.0] * length
    assert len(calls) == 3
    call(np.zeros(5, "float32"))
    assert len(calls) == 4


def double(x):
    return torch.from_numpy(2 * x.numpy())


def unseen(x):
    """Calls operations, but no functions of torch that a recorder is told of."""
    with torch._C.DisableTorchFunction():
        return x * 2


BY_VALUE = {
    "number": lambda x: x if float(x[0]) > 0 else -x,
    "condition": lambda x: x if (x > 0).all() else -x,
    "list": lambda x: x * x.tolist()[0],
    "array": double,
    "memory": lambda x: x + (x.data_ptr() == 0) + np.asarray(x).sum(),
    "size": lambda x: x[x > 0].sum()[None] + len(x[x > 0]),
    "index": lambda x: x + [5, 7][int(x.sum() > 0)],
    "nothing of torch": unseen,
    "generator": lambda x: x + torch.rand(1, generator=torch.manual_seed(3)),
}


@pytest.mark.parametrize("name", BY_VALUE)
def test_what_depends_on_a_value_runs_as_it_is(name):
    call, calls = counting(BY_VALUE[name])
    for n in (1, -1, 2, -2):
        x = torch.tensor([float(n)])
        assert call(x).tolist() == BY_VALUE[name](x).tolist()
    assert len(calls) == 5


@pytest.mark.parametrize("change", [lambda w: w.add_(1), lambda w: w.zero_()])
def test_what_writes_into_something_outside_runs_as_it_is(change):
    weight = torch.ones(1)

    def function(x):
        change(weight)
        return x * weight

    call, calls = counting(function)
    for _ in range(3):
        y = call(torch.ones(1))
        assert y.tolist() == weight.tolist()
    assert len(calls) == 4


def test_an_error_of_the_function_is_its_own():
    def broken(x):
        raise ValueError("no")

    call, _ = counting(broken)
    for _ in range(ROUNDS):
        with pytest.raises(ValueError, match="no"):
            call(np.zeros(3, "float32"))


def test_weights_are_arguments_and_nothing_else_is_held():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    program = program_of(lambda x: (layer(x),), ops.ones((5, 2)))
    held = {x.untyped_storage().data_ptr() for x in program.weights}
    assert held == {w.value.untyped_storage().data_ptr() for w in layer.weights}

    def large(x):
        outputs.append(weakref.ref(x + 1))
        return (x * 2,)

    outputs = []
    program = program_of(large, torch.ones(3))
    gc.collect()
    assert outputs[0]() is None


def test_one_tensor_in_two_places_and_a_weight_as_an_argument():
    weight = torch.ones(1)
    call, calls = counting(lambda x, y: x - 2 * y + 4 * weight)
    assert call(weight, weight).tolist() == [3]
    assert call(torch.full((1,), 5.0), torch.full((1,), 3.0)).tolist() == [3]
    assert len(calls) == 1


def test_variables_as_they_are_given_to_torch():
    variable = keras.Variable(np.ones(3, "float32"))
    call, calls = counting(lambda x: torch.add(x, variable, alpha=2))
    for n in range(ROUNDS):
        variable.assign(np.full(3, n))
        assert call(np.ones(3, "float32")).tolist() == [1 + 2 * n] * 3
    assert len(calls) == 1


def test_long_loops_over_time_are_not_written_out(monkeypatch):
    layer = kerasseq.layers.GRU(3)
    layer.build((2, None, 5))
    monkeypatch.setattr(recording, "LOOP", 7)
    call, calls = counting(lambda x, mask: layer(x, mask=mask))
    for time, runs in ((7, 1), (8, 3)):
        before, x = len(calls), ops.ones((2, time, 5))
        mask = ops.ones((2, time), "bool")
        for _ in range(2):
            np.testing.assert_allclose(call(x, mask), layer(x).detach(), atol=1e-6)
        assert len(calls) - before == runs


def test_no_gradients():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    call = recorded(layer)
    for _ in range(ROUNDS):
        assert not call(ops.ones((5, 2))).requires_grad


def test_what_writes_into_its_own_things():
    def function(x):
        y = torch.zeros(3)
        z = torch.zeros(3)
        y[1] = x[0]
        z[1] += 5
        return y + 0, z + y, x

    call = recorded(function)
    for n in range(ROUNDS):
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
    length = ROUNDS + 1
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
    for _ in range(ROUNDS):
        after, before, _ = call(x, at)
        assert float(before.sum()) == 0 and float(after.sum()) == 6
        x = before


def test_what_came_out_twice_is_not_written_into():
    def twice(x, y, at):
        after = update_cache(x, torch.ones(2, 1, 3), at)
        return after, after, at + 1, ops.sum(y)

    call = recorded(twice, donated=True)
    x = y = torch.zeros(2, ROUNDS, 3)
    at = torch.tensor([0, 0], dtype=torch.int32)
    for n in range(ROUNDS):
        y = y if n else y.clone()  # two while it is recorded
        x, y, at, before = call(x, y, at)
        assert float(before) == 6 * n


@pytest.mark.parametrize("kind", [collections.OrderedDict, dict])
def test_keys_in_another_order(kind):
    def function(state, x):
        return kind((name, value + x) for name, value in state.items())

    call = recorded(function)
    for n in range(ROUNDS):
        names = "hc" if n % 3 else "ch"
        state = kind((name, np.float32([ord(name)])) for name in names)
        for name, value in call(state, np.float32([n])).items():
            assert float(value[0]) == ord(name) + n


Two = collections.namedtuple("Two", "first second")


def test_structures_come_back_as_they_are():
    table = collections.defaultdict(list, b=[np.ones(1)], a=())
    call = recorded(lambda x: x)
    for _ in range(ROUNDS):
        found = call(Two(table, [np.zeros(1)]))
        assert type(found) is Two and type(found.first) is collections.defaultdict
        assert list(found.first) == ["a", "b"] and found.first["a"] == ()
        assert float(found.first["b"][0][0]) == 1 and float(found.second[0][0]) == 0


def test_what_comes_out_is_no_constant():
    def function(x, cache):
        at = ops.convert_to_tensor(0)
        after = cache.index_put((at[None],), x[None])
        return after, torch.zeros(2, 3)

    call = recorded(function, donated=True)
    cache = torch.zeros(2, 3)
    for n in range(ROUNDS):
        old, cache = cache, torch.zeros(2, 3)
        written, cache = call(torch.full((3,), float(n)), cache)
        written, zeros = call(torch.ones(3), cache)  # into what came out
        assert written[0].tolist() == [1, 1, 1] and not zeros.any()
        cache = old


def test_nothing_is_computed_twice_but_what_is_drawn():
    def function(x):
        a, b = ops.exp(x) + 1, ops.exp(x) + 1
        noise = torch.rand(3) - torch.rand(3)
        return a * b + 0 * noise, noise

    program = program_of(function, torch.ones(3))
    assert names(program).count("exp") == 1
    assert names(program).count("rand") == 2
    product, noise = run(program, torch.full((3,), 2.0))
    np.testing.assert_allclose(product, (np.exp(2) + 1) ** 2, rtol=1e-6)
    assert float(abs(noise).max()) > 0
    assert not torch.equal(noise, run(program, torch.ones(3))[1])


def test_what_is_written_into_is_computed_twice():
    def function(x):
        a, b = x + 1, x + 1
        a += 1
        c = x + 1
        return a, b, c, x.clone()

    program = program_of(function, torch.zeros(1))
    for n in range(3):
        found = [float(y) for y in run(program, torch.full((1,), float(n)))]
        assert found == [n + 2, n + 1, n + 1, n]


def test_what_no_output_needs_is_left_out():
    program = program_of(lambda x: (x * 2, x.exp().sum())[:1], torch.ones(3))
    assert len(program.calls) == 1


def test_views_of_weights_show_what_is_written_into_them():
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3))

    def function(x):
        y = (x @ weight.t().reshape(3, 2)) * weight.exp().sum() + weight.view(6)[0]
        return y, weight.t()

    x = torch.ones(5, 3)
    program = program_of(function, x)
    assert names(program) == ["matmul", "exp", "sum", "mul", "add"]
    for _ in range(2):
        y, of_weight = run(program, x)
        with torch.no_grad():
            np.testing.assert_array_equal(y, function(x)[0])
            of_weight.zero_()  # a copy
            weight.mul_(0.5)


def test_what_is_made_of_nothing_is_made_once():
    def function(x):
        places = torch.arange(3, dtype=torch.float32)[:, None] + torch.ones(3)
        return (torch.where(x > 0, x, torch.zeros(3)) + places,)

    x = torch.tensor([1.0, -1.0, 2.0])
    program = program_of(function, x)
    assert sorted(names(program)) == ["add", "gt", "where"]
    for sign in (1, -1):
        np.testing.assert_array_equal(run(program, sign * x)[0], function(sign * x)[0])


OPERATIONS = {
    "to another type": lambda x: (x * 3).to(torch.int32).to(torch.float64),
    "norm": lambda x: torch.nn.functional.layer_norm(x, (3,), eps=1e-5),
    "activations": lambda x: torch.nn.functional.gelu(x) + torch.relu(x),
    "sums": lambda x: x.sum(-1, keepdim=True) + x.mean(0) + x.amax(1)[:, None],
    "choice": lambda x: torch.where(x > 0, x, -x).masked_fill(x > 1, 7.0),
    "parts": lambda x: torch.cat([*x.split(1, dim=1), x[:, ::2]], 1).unbind(0)[1],
    "order": lambda x: x.sort(dim=-1, descending=True)[0] + x.topk(1, dim=-1)[0],
    "places": lambda x: x.gather(1, x.argmax(-1, keepdim=True)) + x[[1, 0, 1, 4, 2]],
    "powers": lambda x: x.abs() ** 0.5 + torch.softmax(x, -1) / (1 + x.square()),
    "spread": lambda x: x.var(-1, correction=0, keepdim=True) + x.std(),
    "bounds": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0) + torch.maximum(x, x * 2),
    "new": lambda x: x.new_zeros(3) + torch.full((3,), 2.0) + torch.ones_like(x),
    "triangle": lambda x: torch.tril(x @ x.t()) + torch.eye(5).roll(1, 0),
    "running": lambda x: x.cumsum(0) - x.flip(1).repeat(1, 2)[:, :3],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_the_same(name):
    function = OPERATIONS[name]
    draw = torch.Generator().manual_seed(1)
    call, calls = counting(function)
    for _ in range(3):
        x = torch.randn(5, 3, generator=draw)
        found, wanted = call(x), function(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    assert len(calls) == 1
