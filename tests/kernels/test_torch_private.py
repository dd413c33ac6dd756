"""The names of PyTorch that are not public: what happens without each."""

import re

import keras
import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("names of PyTorch", allow_module_level=True)

import torch

from kerasseq import layers
from kerasseq.kernels.torch import private, products, recording
from kerasseq.kernels.torch.products import holds_float32

pytestmark = pytest.mark.once("names of PyTorch")

MODES = [
    "torch.utils._python_dispatch._get_current_dispatch_mode",
    "torch._C._are_functorch_transforms_active",
]


@pytest.fixture
def _onednn(monkeypatch):
    products.prefers_onednn.cache_clear()
    monkeypatch.setattr(products, "get_host_cpu_name", lambda: "znver5")
    capability = "get_cpu_capability"
    monkeypatch.setattr(torch.backends.cpu, capability, lambda: "AVX512")
    yield
    products.prefers_onednn.cache_clear()


@pytest.mark.usefixtures("_onednn")
@pytest.mark.parametrize("known", [True, False])
def test_products_by_onednn_or_mkl(known, monkeypatch):
    if not known:
        monkeypatch.delattr(torch.ops.mkldnn, "_linear_pointwise", raising=False)
        monkeypatch.setattr(private, "onednn_product", lambda: None)
    monkeypatch.setattr(products, "LARGE", 1)
    assert products.prefers_onednn() is known
    a, b, bias = torch.randn(3, 5), torch.randn(5, 7), torch.randn(7)
    torch.testing.assert_close(products.mm(a, b, bias), a @ b + bias)


@pytest.mark.parametrize("mode", MODES)
def test_without_the_mode_the_plain_loop_runs(mode, monkeypatch):
    assert holds_float32(torch.zeros(3))
    monkeypatch.delattr(mode)
    assert private.in_dispatch_mode() and not holds_float32(torch.zeros(3))
    x = np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32")
    layer = layers.GRU(2)
    found = layer(x)
    layer.unroll = True
    torch.testing.assert_close(found, layer(x))


@pytest.mark.filterwarnings("ignore:`torch.jit.trace`:DeprecationWarning")
@pytest.mark.parametrize("known", [True, False])
def test_what_is_tried_in_a_trace(known, monkeypatch):
    def traced(x):
        with private.no_tracing():
            torch.cos(torch.ones(3))
        return torch.sin(x)

    if not known:
        monkeypatch.delattr(getattr(torch, "_C"), "_get_tracing_state")  # noqa: B009
        monkeypatch.delattr(getattr(torch, "_C"), "_set_tracing_state")  # noqa: B009
        traced(torch.ones(3))  # torch.jit.trace itself needs both
        return
    program = str(torch.jit.trace(traced, torch.ones(3)).graph)
    assert "aten::sin" in program and "aten::cos" not in program


MODE = "torch.utils._python_dispatch.TorchDispatchMode"


@pytest.mark.parametrize("name", [MODE, "_schema"])
def test_without_what_is_watched_nothing_is_recorded(name, monkeypatch):
    calls = []

    def double(x):
        calls.append(x)
        return 2 * x

    if name == MODE:
        monkeypatch.delattr(MODE)
        assert private.dispatch_mode() is object
        monkeypatch.setattr(recording, "Watch", type("Watch", (object,), {}))
    else:
        monkeypatch.setattr(private, "written_by", lambda op, args: op.no_schema)
    function = recording.recorded(double)
    for n in range(3):
        torch.testing.assert_close(function(torch.tensor([n])), torch.tensor([2 * n]))
    assert len(calls) >= 3


@pytest.mark.parametrize("known", [True, False])
def test_what_is_tried_in_a_recomputed_block(known, monkeypatch):
    seen = []

    class Watch(private.dispatch_mode()):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    if not known:
        name = "torch.utils._python_dispatch._disable_current_modes"
        monkeypatch.delattr(name)
    with Watch(), private.no_dispatch_modes():
        torch.ones(3).cos()
    assert bool(seen) is not known


def test_the_value_of_a_variable_is_read_by_a_function():
    """And is its own again; without `_value` an error names the version of Keras."""
    variable, kept = keras.Variable(np.zeros(3)), [torch.ones(3)]
    private.read_by(variable, lambda: kept[0], kept[0].copy_)
    variable.assign(variable + 4)
    variable.trainable = False
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), [5, 5, 5])
    private.read_by(variable, None, None)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), [0, 0, 0])
    assert not vars(variable)["_trainable"] and type(variable) is keras.Variable
    del vars(variable)["_value"]
    with pytest.raises(RuntimeError, match=re.escape(keras.__version__)):
        private.read_by(variable, lambda: kept[0], kept[0].copy_)
