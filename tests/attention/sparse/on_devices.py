"""Checks of ring attention for a process of JAX with several virtual devices.

`run(names)` runs them in a new process.
"""

import importlib.util
import pathlib
import sys
import tempfile

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers, tracing
from tests.attention.sparse.comparing import output_and_gradients, random_weights
from tests.layer_checks import assert_close
from tests.processes import run_python

B, T, S, D, E, N, K, V = 2, 13, 11, 7, 5, 4, 6, 3
DEVICES = 4
FLAGS = (
    f"--xla_force_host_platform_device_count={DEVICES} "
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
CODE = "import sys; from tests.attention.sparse import on_devices as checks; "


def run(*names):
    """Runs checks in one process, and returns what they print."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX")
    return run_python(
        CODE + "checks.main(sys.argv[1:])",
        *names,
        KERAS_BACKEND="jax",
        XLA_FLAGS=FLAGS,
        JAX_DISABLE_MOST_OPTIMIZATIONS="1",
    ).stdout


def main(names):
    for name in names:
        getattr(sys.modules[__name__], name)()
        print("passed", name)


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(B, T, D)).astype("float32")
    y = rng.normal(size=(B, S, E)).astype("float32")
    real = np.ones((B, T), bool)
    real[0, -2:] = real[1, :3] = real[1, 6] = False  # on both sides, and a hole
    return x, y, real


def check(devices, query, value, block_size=2, position=None, call=None, **options):
    """Output and gradients are those of the dense layer; returns the ring, too."""
    made = [
        layers.MultiHeadAttention(N, K, position=position and position(), **options),
        layers.BlockwiseAttention(
            *(N, K),
            **{"devices": devices, "block_size": block_size},
            **{"position": position and position(), **options},
        ),
    ]
    dense, ring = random_weights(made, query.shape, value.shape)
    call = call or {}
    expected = output_and_gradients(dense, query, value, **call)
    for one, other in zip(
        output_and_gradients(ring, query, value, **call), expected, strict=True
    ):
        assert_close(one, other)
    return ring, expected[0]


def grouped_heads_in_a_window():
    x, _, real = data()
    masks = {"query_mask": real, "value_mask": real, "use_causal_mask": True}
    grouped = {"num_key_value_heads": 2, "value_dim": V, "sliding_window": 5}
    check(3, x, x, position=layers.RotaryEmbedding, call=masks, **grouped)


def biases_and_masks():
    """All that is left: biases, masks of pairs, cross-attention, no mask at all."""
    x, y, real = data()
    masks = {"query_mask": real, "value_mask": real}
    check(4, x, x, 128, layers.AlibiBias, masks)
    check(2, x, x, 5, layers.RelativePositionBias, {**masks, "use_causal_mask": True})
    check(4, x, x, 2, layers.TransformerXLPosition)
    rng = np.random.default_rng(1)
    for shape in ((T, S), (B, T, S), (B, N, T, S)):
        mask = rng.random(shape) < 0.6
        mask[..., 4, :] = False  # a query that attends to nothing
        check(3, x, y, call={"attention_mask": mask})
    short = x[:, :5]  # the fourth device has padding only
    check(4, short, short, call={"use_causal_mask": True})
    check(4, x[:, :3], y)  # shorter than the ring


def memory_of_each_device_falls():
    """The bytes of a training step fall with the number of devices."""
    import jax  # noqa: TID251

    x = np.ones((1, 2048, 256), "float32")
    sizes = {}
    for devices in (1, 2, 4):
        layer = layers.BlockwiseAttention(4, 64, devices=devices)
        layer.build(x.shape, x.shape)

        def loss(weights, x, layer=layer):
            y, _ = layer.stateless_call(weights, [], x, x, use_causal_mask=True)
            return (y**2).sum()

        weights = [variable.value for variable in layer.trainable_variables]
        step = jax.jit(jax.grad(loss, (0, 1))).lower(weights, x).compile()
        sizes[devices] = step.memory_analysis().temp_size_in_bytes
    print(sizes)
    assert sizes[2] < 0.65 * sizes[1]
    assert sizes[4] < 0.6 * sizes[2]


def plan_counts_what_is_sent():
    """The bytes of the plan are those of the program."""
    import jax  # noqa: TID251

    x, y, real = data()
    cases = [
        ({"num_key_value_heads": 2, "value_dim": V}, x, {}),
        ({"position": layers.AlibiBias(), "dtype": "float16"}, x, {"value_mask": real}),
        ({}, y[..., :1], {}),
    ]
    for options, value, masks in cases:
        layer = layers.BlockwiseAttention(N, K, devices=3, block_size=2, **options)
        layer.build(x.shape, value.shape)
        program = jax.make_jaxpr(lambda a, b: layer(a, b, **masks))(x, value)  # noqa: B023
        plan = layer.plan(B, T, value.shape[1], masked=bool(masks))
        assert sum(sent(program.jaxpr)) == plan.bytes_per_step


def sent(program):
    """Yields the bytes that each operation of a program sends."""
    import jax  # noqa: TID251

    for equation in program.eqns:
        if equation.primitive.name == "ppermute":
            yield sum(v.aval.size * v.aval.dtype.itemsize for v in equation.invars)
        for part in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield from sent(part)


def training_is_that_of_one_device():
    """`fit`, `predict` and a loaded file; the weights are those of one device."""
    rng = np.random.default_rng(0)
    ids, labels = rng.integers(0, 11, (2, 6, T))
    models = []
    for devices in (1, DEVICES):
        keras.utils.set_random_seed(0)
        attention = layers.BlockwiseAttention(2, 3, devices=devices)
        inputs = keras.Input((None,), dtype="int32")
        x = keras.layers.Embedding(11, 8, mask_zero=True)(inputs)
        x = layers.TransformerDecoder(16, 2, attention=attention)(x)
        model = keras.Model(inputs, keras.layers.Dense(11)(x))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
        model.fit(ids, labels, batch_size=3, epochs=2, verbose=0)
        models.append(model)
    for one, other in zip(*(m.get_weights() for m in models), strict=True):
        assert_close(one, other)
    expected = models[0].predict(ids, verbose=0)
    assert_close(models[1].predict(ids, verbose=0), expected)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "ring.keras"
        models[1].save(path)
        loaded = kerasseq.load_model(path)
    assert_close(loaded.predict(ids, verbose=0), expected)


def other_types_and_caches():
    """Mixed precision, a cache, and a trace."""
    x, _, _ = data()
    ring, expected = check(3, x, x, call={"use_causal_mask": True})
    cache, outputs = ring.make_cache(B, T), []
    for start, end in ((0, 6), (6, 7), (7, T)):
        part = x[:, start:end]
        y, cache = ring(part, part, cache=cache, cache_update_index=start)
        outputs.append(ops.convert_to_numpy(y))
    assert_close(np.concatenate(outputs, axis=1), expected)
    with tracing.trace(ring) as inside:
        assert_close(ring(x, x, use_causal_mask=True), expected)
    assert inside["alignment"].shape == (B, N, T, T)
    config = {**ring.get_config(), "dtype": "mixed_bfloat16"}
    half = layers.BlockwiseAttention.from_config(config)
    half.build(x.shape, x.shape)
    half.set_weights(ring.get_weights())
    found = half(x, x, use_causal_mask=True)
    assert str(found.dtype) == "bfloat16"
    assert_close(ops.cast(found, "float32"), expected, atol=0.1)
