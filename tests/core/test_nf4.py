"""Kernels of 4 bits: the levels, the rounding, and what is kept of the memory."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models
from kerasseq.core.dense import Adaptable, Dense, EinsumDense, LoRA
from kerasseq.core.nf4 import LEVELS, NF4Kernel
from kerasseq.core.sublayers import flatten
from tests.layer_checks import float64_is_there

pytestmark = pytest.mark.once("rounding on the host; the lookup is tested everywhere")


def rounded(w, block=64, group=256):
    """The equations of `core.nf4`, a block and a group at a time."""
    blocks = np.split(w.reshape(-1), range(block, w.size, block))
    s = np.array([np.abs(b).max() for b in blocks])
    codes = [
        np.abs(b[:, None] / m - LEVELS).argmin(-1)
        for b, m in zip(blocks, s, strict=True)
    ]
    centered, mean = s - s.mean(), s.mean()
    for start in range(0, len(s), group):
        t = np.abs(centered[start : start + group]).max()
        share = centered[start : start + group] / t
        k = np.rint(127 * np.sign(share) * np.abs(share) ** 0.5)
        s[start : start + group] = mean + t * k * np.abs(k) / 127**2
    parts = [m * LEVELS[c] for m, c in zip(s, codes, strict=True)]
    return np.concatenate(parts).reshape(w.shape)


def test_levels_are_those_of_the_paper():
    printed = (-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0)
    printed += (0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1)
    np.testing.assert_allclose(LEVELS, printed, atol=1e-4)


@pytest.mark.everywhere("the lookup of levels is of the backend")
def test_equals_numpy():
    w = np.random.default_rng(0).normal(size=(151, 127)).astype("float32")
    w[:2, :64] *= 30  # blocks of another size
    kernel = NF4Kernel(w.shape)  # 300 blocks, the last of 41 weights
    kernel.assign(w)
    found = keras.ops.convert_to_numpy(kernel.weight())
    np.testing.assert_allclose(found, rounded(w), atol=1e-5)
    kernel.assign(0 * w)
    assert not np.any(keras.ops.convert_to_numpy(kernel.weight()))


def test_error_and_size_are_those_of_the_paper():
    w = np.random.default_rng(1).normal(size=(1024, 256)).astype("float32")
    kernel = NF4Kernel(w.shape)
    kernel.assign(w)
    error = keras.ops.convert_to_numpy(kernel.weight()) - w
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.092, abs=5e-4)
    stored = sum(keras.ops.convert_to_numpy(v).nbytes for v in kernel.weights)
    assert 8 * stored / w.size == pytest.approx(4.127, abs=5e-4)


def test_outliers_spoil_their_own_block_alone():
    w = np.random.default_rng(3).normal(size=(512, 512)).astype("float32")
    far = w.reshape(-1, 64).copy()
    far[::128, 0] = 50  # two blocks of each group
    kernel = NF4Kernel(far.shape)
    kernel.assign(far)
    error = keras.ops.convert_to_numpy(kernel.weight()) - far
    others = np.arange(len(far)) % 128 > 0
    assert np.sqrt(np.mean(error[others] ** 2)) == pytest.approx(0.092, abs=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_layer_computes_with_the_rounded_kernel_and_its_adapter(dtype):
    if dtype == "float64" and not float64_is_there():
        pytest.skip("JAX has no float64 unless it is enabled")
    for layer, shape in (
        (Dense(7, activation="tanh", dtype=dtype), (13, 5, 3)),
        (
            EinsumDense("abyz,yzu->abu", (None, 11), bias_axes="u", dtype=dtype),
            (13, 5, 2, 3),
        ),
    ):
        layer.build(shape)
        layer.add_lora(LoRA(2, alpha=6))
        layer.lora_b.assign(np.random.default_rng(1).normal(size=layer.lora_b.shape))
        rows = np.random.default_rng(0).normal(size=shape)
        layer.to_nf4()
        rounded_layer = type(layer).from_config(layer.get_config())
        rounded_layer.build(rows.shape)
        rounded_layer.kernel.assign(layer.nf4.weight())
        rounded_layer.add_lora(layer.lora)
        for name in ("lora_a", "lora_b", "bias"):
            getattr(rounded_layer, name).assign(getattr(layer, name))
        found, expected = (
            keras.ops.convert_to_numpy(keras.ops.cast(x(rows), "float32"))
            for x in (layer, rounded_layer)
        )
        assert np.array_equal(found, expected)
        assert layer.kernel_shape() == tuple(rounded_layer.kernel.shape)


def test_no_float_copy_is_kept(tmp_path):
    keras.utils.set_random_seed(2)
    model = models.GPT(vocabulary_size=11, num_layers=2, num_heads=2, hidden_dim=64)
    dense = [layer for layer in flatten(model) if isinstance(layer, Adaptable)]
    count = sum(int(np.prod(layer.kernel_shape())) for layer in dense)
    before = sum(keras.ops.convert_to_numpy(v).nbytes for v in model.variables)
    model.quantize("nf4")
    after = sum(keras.ops.convert_to_numpy(v).nbytes for v in model.variables)
    assert count == 2 * 12 * 64**2
    assert (4 * count - (before - after)) / count < 0.6
    assert all("kernel" not in vars(layer) for layer in dense)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        assert not any(v.path.endswith("kernel") for v in each.variables)
    stored = sum(keras.ops.convert_to_numpy(v).nbytes for v in loaded.variables)
    assert stored == after


def test_wrong_uses():
    model = models.GPT(vocabulary_size=11, num_layers=1, num_heads=1, hidden_dim=6)
    layer = Dense(3)
    layer.build((None, 5))
    layer.quantize("int8")
    for call, message in (
        (lambda: model.quantize("nf4", {"bits": 4}), "config must be None"),
        (lambda: model.quantize("nf4", filters="quary"), "fits none of the dense"),
        (lambda: model.quantize("nf5"), "nf5"),
        (layer.to_nf4, "quantized already .int8"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    model.quantize("nf4", filters=["query", "key"])
    kinds = {x.name: x.quantized_to for x in flatten(model) if hasattr(x, "nf4")}
    assert kinds["query"] == kinds["key"] == "nf4" and kinds["value"] is None
    query = next(layer for layer in flatten(model) if layer.name == "query")
    with pytest.raises(ValueError, match="quantized already .nf4"):
        query.quantize("int8")
    with pytest.raises(ValueError, match="quantized already, as are the others"):
        model.quantize("nf4", filters="query")
    model.enable_lora(2, "query")
    with pytest.raises(ValueError, match="would have to be rounded again"):
        model.merge_lora()
