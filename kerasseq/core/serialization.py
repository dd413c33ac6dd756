"""Registration, shared objects in a config, the dtype of scores, checks of float64."""

import warnings
from typing import TypeVar

from kerasseq.core import backend
from kerasseq.core.types import Config

backend.require()  # a clear message, before Keras fails deep inside

import keras  # noqa: E402

Registered = TypeVar("Registered")


def register(cls: Registered, name: str | None = None) -> Registered:
    """Registers a class or function with Keras' serialization as `kerasseq>name`.

    Args:
        cls: The class or function.
        name: The name; that of the class if None.
    """
    return keras.saving.register_keras_serializable("kerasseq", name)(cls)


def shared_config(thing: object) -> Config | None:
    """Returns the config of an object that several layers may share; None of None.

    Inside a file Keras marks an object from the second time that it meets it; those
    that hold it must all have the mark, or the first would load one of its own.
    """
    keras.saving.serialize_keras_object(thing)
    return keras.saving.serialize_keras_object(thing)


def scores_dtype(dtype: str | None = None) -> str:
    """Returns the dtype of scores and losses: float32, also in mixed precision.

    With float64 it is float64, as on TensorFlow the optimizers of Keras clip gradients
    of one dtype only.

    Args:
        dtype: That of the layers; that of the dtype policy if None.

    Examples:
        >>> scores_dtype("bfloat16"), scores_dtype("float64")
        ('float32', 'float64')
    """
    dtype = dtype or keras.config.dtype_policy().compute_dtype
    return "float64" if dtype == "float64" else "float32"


def check_float64(layer: keras.Layer) -> None:
    """Refuses `float64` where the backend would compute in `float32` and not say so.

    JAX has 64-bit numbers only when the user switches them on.

    Raises:
        ValueError: If `layer` asks for `float64` and gets something else.
    """
    policy = layer.dtype_policy
    if "float64" not in (policy.variable_dtype, policy.compute_dtype):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns; the error below says more
        actual = keras.backend.standardize_dtype(keras.ops.zeros((), "float64").dtype)
    if actual != "float64":
        raise ValueError(
            f'{type(layer).__name__} was given dtype="float64", but JAX would compute '
            f"in {actual}. Set JAX_ENABLE_X64=1 in the environment, or call "
            'jax.config.update("jax_enable_x64", True) before any layer is built.'
        )
