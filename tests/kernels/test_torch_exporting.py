"""Recurrent layers in programs that PyTorch records: compiled, exported, for ONNX."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.once("PyTorch only"),
    pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch only"),
    pytest.mark.filterwarnings("ignore"),  # of PyTorch's tracers about themselves
]
B, T, D, H = 2, 7, 5, 3
LAYERS = ["LSTM", "PeepholeLSTM", "GRU", "ElmanRNN", "GatedRNN"]


def model(name, **options):
    layer = getattr(kerasseq.layers, name)(H, **options)
    return keras.Sequential([keras.Input((None, D)), layer])


def assert_same(program, wanted, *shapes):
    for shape in shapes:
        x = torch.randn(*shape)
        found, expected = program(x).detach(), wanted(x).detach()
        np.testing.assert_allclose(found, expected, atol=1e-6)


def traced(wanted, *shape):
    """Records a program as Keras does for the format "onnx"."""
    return torch.jit.trace(wanted, torch.randn(*shape), check_trace=False)


@pytest.mark.parametrize("name", LAYERS)
def test_traced_program_reads_its_inputs(name):
    wanted = model(name)
    assert_same(traced(wanted, B, T, D), wanted, (B, T, D), (B + 1, T, D), (1, T, D))


@pytest.mark.parametrize("name", ["LSTM", "GRU", "ElmanRNN"])
def test_native_loops_have_a_dynamic_length(name):
    wanted = model(name)
    assert_same(traced(wanted, 1, 1, D), wanted, (B, T, D), (1, 1, D))


@pytest.mark.parametrize("options", [{}, {"unroll": True}])
def test_a_loop_of_unknown_length_is_not_traced(options):
    with pytest.raises(ValueError, match="steps must be fixed.*Pass the length in"):
        traced(model("PeepholeLSTM", **options), 1, 1, D)


@pytest.mark.parametrize("name", ["LSTM", "PeepholeLSTM"])
def test_a_loop_of_dynamic_length_is_not_exported(name):
    length = {1: torch.export.Dim("length")}
    with pytest.raises(ValueError, match="steps must be fixed.*Pass the length in"):
        torch.export.export(
            model(name), (torch.randn(B, T, D),), dynamic_shapes=[(length,)]
        )


def test_exported_program_has_no_dropout_and_any_batch_size():
    wanted = model("GRU", dropout=0.5, recurrent_dropout=0.5, seed=1)
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(
        wanted, (torch.randn(B, T, D),), dynamic_shapes=[(batch,)]
    ).module()
    assert_same(program, wanted, (B, T, D), (B + 1, T, D), (1, T, D))


def test_selected_steps_of_any_batch():
    class Select(torch.nn.Module):
        def forward(self, x, index):
            return kernels.take_steps(x, index)

    x, index = torch.randn(B, T, D), torch.tensor([[1], [6]])
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(
        Select(), (x, index), dynamic_shapes=(batch, batch)
    ).module()
    x, index = torch.randn(B + 1, T, D), torch.tensor([[0], [6], [3]])
    found = program(x, index)[:, 0]
    np.testing.assert_array_equal(found, x[torch.arange(B + 1), index[:, 0]])
