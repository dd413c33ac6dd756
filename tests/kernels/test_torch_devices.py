"""The recurrences on PyTorch where no number can be read: none waits for a device."""

import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own way", allow_module_level=True)

import keras
import torch

from kerasseq import kernels
from tests.kernels.test_recurrence import EQUATIONS, B, H, T, case, name_of

pytestmark = pytest.mark.everywhere("kernels differ between backends")


@pytest.mark.parametrize("dropped", [False, True], ids=["", "dropout"])
@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_no_number_is_read_and_no_tensor_is_elsewhere(equation, masked, dropped):
    def stand_in(*shape, dtype=torch.float32):
        return torch.empty(shape, device="meta", dtype=dtype)

    arrays = case(equation)
    weights = {name: stand_in(*w.shape) for name, w in arrays["weights"].items()}
    states = [stand_in(B, H) for _ in arrays["states"]]
    x = stand_in(*arrays["x"].shape)
    if dropped:
        gates = equation.gates
        weights["dropout"] = [stand_in(B, H) for _ in range(gates)]
        if gates == 1:
            (weights["dropout"],) = weights["dropout"]
    mask = stand_in(T, B, dtype=torch.bool) if masked else None
    with keras.device("meta:0"):
        cell = kernels.Recurrence(equation, weights, x, lambda x: x)
        path, last = kernels.recurrence(cell, states, mask)
    assert tuple(path.shape) == (T, B, H)
    for tensor in (path, *last):
        assert tensor.device.type == "meta"
