"""General checks of layers, one function each; `check_layer` runs all of them."""

import inspect
import json
import tempfile
import warnings

import keras
import numpy as np
import pytest

from kerasseq import kernels, layers
from tests.on_itself import Asked

LAYERS = {n for n in layers.__all__ if isinstance(getattr(layers, n), type)}
TOLERANCE = {"mixed_bfloat16": 0.06, "mixed_float16": 0.01}


def check_layer(
    layer, inputs, output_shape, *, masked=True, seeded=None, still=None, folder=None
):
    """Runs all checks on a layer with the NumPy array `inputs`.

    Args:
        layer: A layer with one output.
        inputs: `(batch, time, ...)`, or `(batch, features)`.
        output_shape: Expected shape of the output.
        masked: Whether the layer accepts a mask; if so, padding is checked.
        seeded: Function of a seed that returns the layer with dropout. Only needed if
            the layer has no arguments `dropout` and `seed`.
        still: Dictionary of weights without a gradient, by the end of their path, with
            the reason.
        folder: Where `save` writes a model of the layer; a temporary one if None.
    """
    if not layer.built:
        layer.build(inputs.shape)
    outputs = called(layer, inputs, training=False)
    assert keras.ops.shape(outputs) == output_shape
    check_symbolic_shape(layer, inputs, output_shape)
    check_no_rows(layer, inputs)
    check_no_steps(layer, inputs)
    check_computed_shapes(layer, inputs)
    check_config_names_every_argument(layer)
    check_copy(layer, inputs)
    check_saving(layer, inputs, outputs, folder)
    check_training(layer, inputs, outputs, still or {})
    check_mixed_precision(layer, inputs, outputs)
    check_float64(layer, inputs, outputs)
    check_seed(layer, inputs, seeded)
    if masked:
        check_padding(layer, inputs, outputs)


def check_symbolic_shape(layer, inputs, output_shape):
    """A symbolic call with unknown batch size gives the right shape."""
    shape = (None, *inputs.shape[1:])
    symbolic = keras.Input(batch_shape=shape)
    assert fresh(layer)(symbolic).shape == (None, *output_shape[1:])


def check_no_rows(layer, inputs):
    """A batch of 0 rows gives 0 rows, and gradients of 0 rows."""

    def run(x):
        gradient = kernels.gradients(lambda x: keras.ops.sum(layer(x)), x)
        return layer(x), gradient

    outputs, gradient = compiled_on_jax(run)(keras.ops.convert_to_tensor(inputs[:0]))
    assert keras.ops.shape(gradient) == (0, *inputs.shape[1:])
    assert keras.ops.shape(outputs)[0] == 0


def check_no_steps(layer, inputs):
    """Sequences of 0 steps give 0 steps, or an error that says what is missing.

    The layers of Keras itself raise what the backend does.
    """
    foreign = type(layer) is keras.layers.RNN or isinstance(layer, Asked)
    if foreign or inputs.ndim < 3:
        return
    none = keras.ops.convert_to_tensor(inputs[:, :0])
    try:
        outputs = compiled_on_jax(layer)(none)
        assert keras.ops.shape(outputs)[:2] == (len(inputs), 0)
    except ValueError as error:
        assert "at least" in str(error)


def check_computed_shapes(layer, inputs):
    """`compute_output_shape` agrees with the outputs, for all options of returns."""
    names = inspect.signature(type(layer)).parameters
    options = [n for n in ("return_sequences", "return_state") if n in names]
    variants = [{}]
    for name in options:
        variants = [{**v, name: on} for v in variants for on in (False, True)]
    inputs = shortest(inputs)
    for changes in variants:
        variant = type(layer).from_config({**layer.get_config(), **changes})
        computed = variant.compute_output_shape(inputs.shape)
        variant.build(inputs.shape)
        outputs = called(variant, inputs, training=True)
        found = [keras.ops.shape(y) for y in as_list(outputs)]
        assert as_list(computed, of=tuple) == found, changes
        unknown = variant.compute_output_shape((None, *inputs.shape[1:]))
        for shape, known in zip(as_list(unknown, of=tuple), found, strict=True):
            assert tuple(shape) == (None, *known[1:]), changes


def check_config_names_every_argument(layer):
    """`get_config` has each argument of `__init__`, and is JSON-serializable."""
    config = layer.get_config()
    json.dumps(config)
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    arguments = inspect.signature(type(layer)).parameters.values()
    named = {a.name for a in arguments if a.kind not in variable}
    assert named <= config.keys(), f"missing: {named - config.keys()}"


def check_copy(layer, inputs):
    """A layer with the same config and weights gives the same outputs."""
    inputs = shortest(inputs)
    assert_close(called(copy(layer, inputs), inputs), called(layer, inputs))
    assert fresh(layer).get_config() == layer.get_config()


def check_saving(layer, inputs, outputs, folder=None):
    """A saved and loaded model gives the same outputs, without custom objects."""
    with tempfile.TemporaryDirectory() as temporary:
        file = save(layer, inputs, outputs, folder or temporary)
        assert_close(called(keras.saving.load_model(file), inputs), outputs)


def save(layer, inputs, outputs, folder):
    """Saves a model of the layer, and its outputs beside it; returns the file."""
    model = keras.Sequential([keras.Input(inputs.shape[1:]), copy(layer, inputs)])
    model.save(f"{folder}/layer.keras")
    np.save(f"{folder}/outputs.npy", keras.ops.convert_to_numpy(outputs))
    return f"{folder}/layer.keras"


def check_training(layer, inputs, outputs, still, at_least=1e-6):
    """A compiled training step changes every weight; batch size and time may vary."""
    layer = copy(layer, inputs)
    model = keras.Sequential([keras.Input(unknown_sizes(inputs)[1:]), layer])
    before = [keras.ops.convert_to_numpy(w).copy() for w in layer.trainable_weights]
    target = np.random.default_rng(1).normal(size=outputs.shape)
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
    model.fit(inputs, target, verbose=0)
    for weight, old in zip(layer.trainable_weights, before, strict=True):
        moved = np.max(np.abs(keras.ops.convert_to_numpy(weight) - old))
        if any(weight.path.endswith(end) for end in still):
            # Some backends have rounding errors instead of zeros.
            assert moved <= at_least, f"{weight.path} changed, but is in `still`"
        else:
            assert moved > at_least, f"{weight.path} did not change"
    more = resized(inputs)
    assert_close(model.predict(more, verbose=0), called(layer, more))


def check_mixed_precision(layer, inputs, outputs):
    """Mixed policies compute in their dtype, close to the results in float32."""
    for policy, atol in TOLERANCE.items():
        small = with_policy(layer, policy, inputs)
        close = called(small, inputs)
        compute = keras.DTypePolicy(policy).compute_dtype
        assert keras.backend.standardize_dtype(close.dtype) == compute
        assert {w.dtype for w in small.trainable_weights} <= {"float32"}
        # Rounding is relative: layers without a bounded activation reach 8 and more.
        largest = max(1.0, np.max(np.abs(keras.ops.convert_to_numpy(outputs))))
        assert_close(keras.ops.cast(close, "float32"), outputs, atol=atol * largest)
    check_integers(small, shortest(inputs))


def check_integers(layer, inputs):
    """Integers give what the same numbers give as floats, also in mixed precision."""
    whole = np.round(3 * inputs)

    def both(x):
        return [layer(keras.ops.cast(x, dtype)) for dtype in ("int32", "float32")]

    found, expected = compiled_on_jax(both)(whole)
    assert found.dtype == expected.dtype
    found, expected = (keras.ops.cast(y, "float32") for y in (found, expected))
    assert_close(found, expected)


def check_float64(layer, inputs, outputs):
    """Computes in float64; on JAX without x64 there is an error with advice."""
    if not float64_is_there():
        # Keras turns a ValueError of an inner layer into a TypeError.
        with pytest.raises((ValueError, TypeError), match="JAX_ENABLE_X64=1"):
            with_policy(layer, "float64", inputs)
        return
    wide = with_policy(layer, "float64", inputs)
    assert {w.dtype for w in wide.trainable_weights} <= {"float64"}
    # In float32 a change of 1e-9 has no effect, or that of a rounding error.
    change = 1e-9 * np.random.default_rng(3).normal(size=inputs.shape)
    results = called(wide, np.concatenate([inputs + n * change for n in range(3)]))
    zero, one, two = np.split(keras.ops.convert_to_numpy(results), 3)
    assert zero.dtype == "float64"
    first, second = one - zero, two - one
    assert np.any(first) and np.allclose(first, second, rtol=0, atol=1e-14), (
        "computed in less than float64"
    )
    assert_close(zero, outputs)


def check_seed(layer, inputs, seeded=None):
    """A seed repeats the results; the next call and another seed do not."""
    names = inspect.signature(type(layer)).parameters
    if seeded is None and not {"dropout", "seed"} <= names.keys():
        return

    def default(seed):
        changes = {"dropout": 0.5, "seed": seed}
        return type(layer).from_config({**layer.get_config(), **changes})

    inputs = np.repeat(shortest(inputs), 5, axis=0)
    weights = [keras.ops.convert_to_numpy(w) for w in layer.trainable_weights]

    def two_calls(seed):
        random = (seeded or default)(seed)
        random.build(inputs.shape)
        for weight, value in zip(random.trainable_weights, weights, strict=True):
            weight.assign(value)
        return [
            keras.ops.convert_to_numpy(random(inputs, training=True)) for _ in range(2)
        ]

    first, again, other = two_calls(7), two_calls(7), two_calls(11)
    np.testing.assert_array_equal(first, again)
    assert np.any(first[0] != first[1]), "calls must differ"
    assert np.any(first[0] != other[0])


def check_padding(layer, inputs, outputs, pads=2):
    """Results at real positions do not depend on padding, on the left or right."""
    batch, time = inputs.shape[:2]
    garbage = 10 * np.random.default_rng(2).normal(
        size=(batch, pads, *inputs.shape[2:])
    )
    garbage = garbage.astype(inputs.dtype)
    real, padding = np.ones((batch, time), bool), np.zeros((batch, pads), bool)
    # One batch: half of the rows have padding on the right, half on the left.
    right, left = [inputs, garbage], [garbage, inputs]
    padded = np.concatenate([np.concatenate(x, 1) for x in (right, left)])
    right, left = [real, padding], [padding, real]
    mask = np.concatenate([np.concatenate(m, 1) for m in (right, left)])
    found = keras.ops.convert_to_numpy(called(layer, padded, mask=mask))
    if found.ndim > 2:  # (B, T, ...)
        found = found[mask].reshape(2 * batch, time, -1)
    for half in np.split(found, 2):
        assert_close(half.reshape(outputs.shape), outputs)


def called(layer, inputs, **options):
    """Calls a built layer, compiled as a whole on JAX.

    `check_seed` and the examples of the layers are eager.
    """
    return compiled_on_jax(lambda x: layer(x, **options))(inputs)


def compiled_on_jax(function):
    """Compiles a function of tensors on JAX.

    An eager call compiles each operation separately there, which takes much longer.
    """
    on_jax = keras.backend.backend() == "jax"
    return kernels.compiled(function) if on_jax else function


def fresh(layer):
    """Returns a layer with the same config, without weights."""
    return type(layer).from_config(layer.get_config())


def copy(layer, inputs):
    """Returns a layer with the same config and weights."""
    return _filled(fresh(layer), layer, inputs)


def with_policy(layer, policy, inputs):
    """Returns a copy of `layer` and its sublayers with another dtype policy."""

    def change(config):
        if isinstance(config, dict) and config.get("class_name") == "DTypePolicy":
            return {**config, "config": {"name": policy}}
        if isinstance(config, dict) and config.get("module") == "keras.initializers":
            # The weights are set; JAX would compile random numbers of each shape.
            return keras.initializers.serialize(keras.initializers.Zeros())
        if isinstance(config, dict):
            return {key: change(value) for key, value in config.items()}
        if isinstance(config, (list, tuple)):
            return type(config)(map(change, config))
        return config

    changed = type(layer).from_config(change(layer.get_config()))
    return _filled(changed, layer, inputs)


def _filled(empty, layer, inputs):
    empty.build(inputs.shape)
    empty.set_weights(layer.get_weights())
    return empty


def float64_is_there():
    """Whether the backend computes in float64 on request."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns
        zero = keras.ops.zeros((), "float64")
    return keras.backend.standardize_dtype(zero.dtype) == "float64"


def shortest(inputs):
    """Returns the first time step, with which recurrent layers compile no loop."""
    return inputs[:, :1] if inputs.ndim > 2 else inputs


def unknown_sizes(inputs):
    """Returns the shape with unknown batch size and time."""
    known = 2 if inputs.ndim > 2 else 1
    return (None,) * known + inputs.shape[known:]


def resized(inputs):
    """Returns inputs with a larger batch, and more time steps if there are any."""
    more = np.concatenate([inputs, 0.5 * inputs[:1]])
    return np.concatenate([more, -more], axis=1) if inputs.ndim > 2 else more


def as_list(value, of=None):
    """Returns one or several outputs, or shapes (`of=tuple`), as a list."""
    if of is tuple:
        several = isinstance(value, list) or isinstance(value[0], (tuple, list))
        return [tuple(v) for v in value] if several else [tuple(value)]
    return list(value) if isinstance(value, (tuple, list)) else [value]


def assert_close(actual, expected, atol=1e-5):
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(actual),
        keras.ops.convert_to_numpy(expected),
        atol=atol,
        rtol=1e-5,
    )
