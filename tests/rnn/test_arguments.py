import inspect

import keras
import pytest

from kerasseq.core import arguments
from kerasseq.layers import GRU, LSTM, GRUCell, LSTMCell, MinGRU, SimpleRNN
from kerasseq.rnn.cell import RecurrentCell

pytestmark = pytest.mark.once("arguments and configurations")


KINDS = {
    "activation": keras.activations,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


def as_config(name, value):
    """What stands in a config for an argument: "relu" stands for the function."""
    kind = KINDS.get(name.rsplit("_", 1)[-1])
    return kind.serialize(kind.get(value)) if kind else value


def test_every_argument_survives_the_config():
    """Each differs from its default, so that one that is lost is seen."""
    given = {
        "activation": "relu",
        "recurrent_activation": "hard_sigmoid",
        "use_bias": False,
        "kernel_initializer": keras.initializers.Constant(3.0),
        "recurrent_initializer": keras.initializers.Constant(4.0),
        "bias_initializer": keras.initializers.Constant(5.0),
        "kernel_regularizer": keras.regularizers.L1(0.25),
        "recurrent_regularizer": keras.regularizers.L1(0.5),
        "bias_regularizer": keras.regularizers.L1(0.75),
        "activity_regularizer": keras.regularizers.L1(0.125),
        "kernel_constraint": keras.constraints.MaxNorm(2.0),
        "recurrent_constraint": keras.constraints.MaxNorm(3.0),
        "bias_constraint": keras.constraints.MaxNorm(4.0),
        "dropout": 0.25,
        "recurrent_dropout": 0.5,
        "seed": 7,
        "return_sequences": True,
        "return_state": True,
        "go_backwards": True,
        "stateful": True,
        "unroll": True,
        "use_cudnn": False,
        "zero_output_for_mask": True,
    }
    of_lstm = {
        "unit_forget_bias": False,
        "peephole": "full",
        "coupled": True,
        "peephole_initializer": keras.initializers.Constant(6.0),
        "peephole_regularizer": keras.regularizers.L1(0.375),
        "peephole_constraint": keras.constraints.MaxNorm(5.0),
    }
    of_gru = {"reset_after": False, "update": "replace"}
    for cls, more in ((LSTM, of_lstm), (GRU, of_gru)):
        wanted = {**given, **more}
        assert set(arguments.names(cls)) <= wanted.keys() | {"units"}
        config = cls(3, **wanted).get_config()
        again = cls.from_config(config).get_config()
        for name, value in wanted.items():
            expected = as_config(name, value)
            assert config[name] == again[name] == expected, name
            assert config[name] != cls(3).get_config()[name], name


@pytest.mark.parametrize("cls", [LSTM, LSTMCell, MinGRU, SimpleRNN])
def test_wrong_calls_of_a_constructor_name_it(cls):
    name = cls.__init__.__qualname__
    with pytest.raises(TypeError, match=rf"{name}\(\) missing .* 'units'"):
        cls()
    with pytest.raises(TypeError, match=rf"{name}\(\) got multiple values for"):
        cls(3, units=3)
    with pytest.raises(ValueError, match=rf"to {cls.__name__}.*'peepholes'"):
        cls(3, peepholes="full")


@pytest.mark.parametrize("cls", [LSTM, GRUCell])
def test_arguments_by_position_are_those_by_name(cls):
    parameters = inspect.signature(cls).parameters.values()
    given = {p.name: p.default for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD}
    names = ["kernel_constraint", "recurrent_constraint", "bias_constraint"]
    values = {name: keras.constraints.MaxNorm(n) for n, name in enumerate(names, 1)}
    given |= {"units": 3, **values}
    one, other = cls(*given.values(), name="x"), cls(**given, name="x")
    assert one.get_config() == other.get_config()
    assert [one.get_config()[n]["config"]["max_value"] for n in values] == [1, 2, 3]


def test_a_layer_gives_its_own_cell_all_that_is_not_for_itself():
    class OwnCell(LSTMCell):
        def __init__(self, units, **kwargs):
            super().__init__(2 * units, **kwargs)

    class Layer(LSTM):
        Cell = OwnCell

    layer = Layer(3, "relu", peephole="full", dtype="float16", return_state=True)
    assert type(layer.cell) is OwnCell and layer.cell.units == 6
    assert layer.cell.activation is keras.activations.relu
    assert layer.cell.peephole == "full" and layer.cell.compute_dtype == "float16"
    assert layer.return_state and not hasattr(layer.cell, "return_state")
    # The cell is saved by the arguments of the class that lists them.
    assert set(arguments.names(LSTMCell)) <= layer.cell.get_config().keys()


def test_a_cell_that_fixes_its_gates_is_made_again_from_its_config():
    class OwnCell(RecurrentCell):
        def __init__(self, units, **kwargs):
            super().__init__(units, gates=2, **kwargs)

    cell = OwnCell(3, activation="relu", recurrent_dropout=0.5)
    again = OwnCell.from_config(cell.get_config())
    assert again.gates == 2 and again.get_config() == cell.get_config()
    assert again.activation is keras.activations.relu
    assert again.recurrent_dropout == 0.5
