import keras
import pytest

from kerasseq.core import arguments
from kerasseq.layers import GRU, LSTM

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
