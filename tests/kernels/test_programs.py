"""What was compiled of a model: when it is dropped, and where it is kept."""

import collections
import copy
import functools
import gc
import pickle
import sys
import types
import weakref

import keras
import numpy as np
import pytest

from kerasseq import kernels, layers, models
from kerasseq.core import keras_private
from kerasseq.kernels import Fingerprint

pytestmark = pytest.mark.once("attributes of objects: the same on all backends")

SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4}


@functools.cache
def gpt():
    model = models.GPT(vocabulary_size=7, max_sequence_length=5, dropout=0.1, **SMALL)
    model.compile(keras.optimizers.SGD(0.1))
    return model


def feed_forward(model):
    return model.stack.blocks[0]._feedforward_sublayer


def replace_inside(model):
    layer = feed_forward(model)
    layer._tracker.unlock()
    layer.output_dense = keras.layers.Dense(4)


CHANGES = {
    "LoRA": lambda m: m.stack.embedding.enable_lora(1),
    "quantized": lambda m: feed_forward(m).output_dense.quantize("int8"),
    "dtype policy": lambda m: setattr(
        m.stack.dropout, "dtype_policy", "mixed_bfloat16"
    ),
    "attribute": lambda m: setattr(feed_forward(m), "activation", keras.ops.tanh),
    "replaced layer": lambda m: setattr(m.stack, "dropout", keras.layers.Dropout(0.3)),
    "replaced block": lambda m: m.stack.blocks.append(m.stack.blocks[0]),
    "replaced inside": replace_inside,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_model_keeps_nothing(change):
    model = models.GPT(vocabulary_size=7, max_sequence_length=5, **SMALL)
    kept = [kernels.programs(f) for f in (model, model.step)]
    change(model)
    for function, before in zip((model, model.step), kept, strict=True):
        after = kernels.programs(function)
        assert after is not before
        assert kernels.programs(function) is after


PRIVATE = {"_dtype_policy", "_layers", "_trainable_variables"}
PRIVATE |= {"_non_trainable_variables"}


@pytest.mark.parametrize("names", [{name} for name in sorted(PRIVATE)] + [PRIVATE])
def test_changes_are_noticed_without_private_names(names, monkeypatch):
    def public(layer):
        return {name: x for name, x in vars(layer).items() if name not in names}

    monkeypatch.setattr(keras_private, "vars", public, raising=False)
    some = CHANGES if names is PRIVATE else ["quantized", "dtype policy"]
    for change in some:
        model = models.GPT(vocabulary_size=7, max_sequence_length=5, **SMALL)
        before = Fingerprint(model)
        assert before.holds()
        CHANGES[change](model)
        assert not before.holds() and before != Fingerprint(model), change


def test_use_and_training_are_no_changes():
    model, x = gpt(), np.ones((3, 5), "int32")
    kept = kernels.programs(model.step)
    model.fit(x, x, verbose=0)
    model.predict(x, verbose=0)
    model.generate([1], 2)
    model.set_weights([w + 1 for w in model.get_weights()])
    model.compile(keras.optimizers.SGD(0.2))
    assert kept.fingerprint.holds()
    assert kernels.programs(model.step) is kept


def test_what_a_function_reads_counts():
    layer, factor, numbers = keras.layers.Dense(3), 2.0, [1, 2]
    layer.build((None, 2))

    def inner(x):
        return layer(x) * numbers[0]

    def function(x):
        return inner(x) * factor

    fingerprint = Fingerprint(function)
    assert fingerprint.pure is None and fingerprint == Fingerprint(function)
    numbers[0] = 1
    assert fingerprint.holds()
    for change in (lambda: layer.enable_lora(1), lambda: numbers.append(3)):
        change()
        assert not fingerprint.holds() and fingerprint != Fingerprint(function)
        fingerprint = Fingerprint(function)
    factor = 3.0
    assert not fingerprint.holds() and fingerprint != Fingerprint(function)


FACTOR, SHARED = 3, {"shift": 1}


def inner(x):
    return FACTOR * x + SHARED["shift"]


def outer(x):
    return inner(x) + 1


class Base(keras.Layer):
    @property
    def bias(self):
        return 1

    def step(self, x):
        import loaded_in_step

        return outer(x) + support.OFFSET + self.bias + loaded_in_step.SCALE


class Cell(Base):
    """What a user writes: steps that read globals, modules and attributes."""

    state_size = output_size = 3

    def __init__(self):
        super().__init__()
        self.rate, self._scale, self.sizes = 0.5, 2.0, {"units": [3]}
        self.table = list(range(300))


support = types.ModuleType("support")
support.OFFSET = 2
imported = sys.modules["loaded_in_step"] = types.ModuleType("loaded_in_step")
imported.SCALE = 2
HERE = sys.modules[__name__]
OF_A_CELL = {
    "step of its class": lambda m, _: m.setattr(Cell, "step", abs, raising=False),
    "step of a base class": lambda m, _: m.setattr(Base, "step", abs),
    "property": lambda m, _: m.setattr(Base.bias.fget, "__code__", outer.__code__),
    "step of the instance": lambda _, cell: setattr(cell, "step", abs),
    "attribute": lambda _, cell: setattr(cell, "rate", 0.25),
    "private attribute": lambda _, cell: setattr(cell, "_scale", 3.0),
    "new attribute": lambda _, cell: setattr(cell, "extra", 1),
    "inside an attribute": lambda _, cell: cell.sizes["units"].append(5),
    "long list": lambda _, cell: setattr(cell, "table", list(range(300))),
    "function that step calls": lambda m, _: m.setattr(HERE, "outer", abs),
    "function that it calls": lambda m, _: m.setattr(HERE, "inner", abs),
    "global of a function": lambda m, _: m.setattr(HERE, "FACTOR", 5),
    "code of a function": lambda m, _: m.setattr(inner, "__code__", outer.__code__),
    "inside a global": lambda m, _: m.setitem(SHARED, "shift", 2),
    "module imported in step": lambda m, _: m.setattr(imported, "SCALE", 3),
    "name in a module": lambda m, _: m.setattr(support, "OFFSET", 5),
}


@pytest.mark.parametrize("change", OF_A_CELL.values(), ids=OF_A_CELL)
def test_what_a_cell_of_a_user_reads_counts(change, monkeypatch):
    cell = Cell()
    before = Fingerprint(cell)
    assert before.pure is False and before.holds() and before == Fingerprint(cell)
    change(monkeypatch, cell)
    assert not before.holds() and before != Fingerprint(cell)


@pytest.mark.parametrize("name", ["step", "all_peepholes", "__call__"])
def test_methods_of_our_cells_count(name, monkeypatch):
    cells = layers.LSTMCell(3), layers.GRUCell(3)
    before = [Fingerprint(cell) for cell in cells]
    monkeypatch.setattr(layers.LSTMCell, name, abs, raising=False)
    assert [each.holds() for each in before] == [False, True]
    assert before[0] != Fingerprint(cells[0])
    monkeypatch.undo()
    assert all(a == Fingerprint(b) for a, b in zip(before, cells, strict=True))
    cells[1].step = abs
    assert not before[1].holds() and before[1] != Fingerprint(cells[1])


class Pure(Cell):
    pure = True


def test_what_has_no_side_effects():
    def function(x):
        return x

    assert Fingerprint(gpt().step, keras.layers.Dense(2), np.tanh).pure is True
    assert Fingerprint(function).pure is None
    assert Fingerprint(keras.layers.Dense(2, activation=function)).pure is None
    assert Fingerprint(Pure()).pure is True
    assert Fingerprint(layers.RNN(Pure())).pure is True
    assert Fingerprint(layers.RNN(Cell())).pure is False
    assert Fingerprint(function, Cell()).pure is False
    both = Pure()
    both.other = Cell()  # which says nothing for itself
    assert Fingerprint(both).pure is False
    same = Cell()
    same.pure = True
    assert Fingerprint(same).pure is True


def test_equal_numbers_are_the_same_and_others_not():
    Plan = collections.namedtuple("Plan", "scale names")
    one, other = Plan(1.5e300, ("a", "b")), Plan(float("1.5e300"), ("a", "b"))
    assert Fingerprint(one) == Fingerprint(other)
    assert Fingerprint(one) != Fingerprint(Plan(1.5, ("a", "b")))
    assert Fingerprint(one) != Fingerprint(Plan(1.5e300, ("a",)))


class Described(property):
    """A property of a class of the user's own."""


def test_kinds_of_properties_and_objects_without_attributes():
    class Slots:
        __slots__ = ("rate",)
        rate_of = Described(lambda self: 1)

    fingerprint = Fingerprint(Slots())
    assert fingerprint.holds()
    Slots.rate_of = Described(lambda self: 2)
    assert not fingerprint.holds() and fingerprint != Fingerprint(Slots())


def test_a_name_without_a_value_and_an_object_without_attributes():
    def function(x):
        return later(x)

    fingerprint = Fingerprint(function)
    later = abs
    assert not fingerprint.holds()
    assert kernels.programs(len) is not kernels.programs(len)


class Step:
    def __call__(self, state, token):
        return state, token


def test_copies_keep_their_own():
    step = Step()
    kept = kernels.programs(step)
    kept.get("kind", 1, lambda: lambda: None)
    for copied in (copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
        assert kernels.programs(copied) is not kept
        assert kernels.programs(copied).get("kind", 1, lambda: "new") == "new"
    assert kernels.programs(step) is kept


def test_the_last_ones_are_kept():
    programs, made = kernels.programs(Step()), []

    def get(key):
        return programs.get("kind", key, lambda: made.append(key), kept=2)

    for key in (1, 2, 1, 3, 1, 2):
        get(key)
    assert made == [1, 2, 3, 2]


def test_they_die_with_their_object():
    step = Step()
    programs = weakref.ref(kernels.programs(step))
    del step
    gc.collect()
    assert programs() is None
