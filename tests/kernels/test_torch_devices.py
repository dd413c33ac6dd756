"""The recurrences on PyTorch where no number can be read: none waits for a device."""

import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own way", allow_module_level=True)

import keras
import torch

from kerasseq import layers

pytestmark = pytest.mark.everywhere("kernels differ between backends")

B, T, D, H = 3, 5, 2, 7
CELLS = {
    "elman": (layers.ElmanCell, {}),
    "gated": (layers.GatedCell, {}),
    "lstm": (layers.LSTMCell, {}),
    "full": (layers.LSTMCell, {"peephole": "full", "coupled": True}),
    "gru": (layers.GRUCell, {}),
    "gru before": (layers.GRUCell, {"reset_after": False}),
}


@pytest.mark.parametrize("masked", [False, True], ids=["", "mask"])
@pytest.mark.parametrize("name", CELLS)
def test_no_number_is_read_and_no_tensor_is_elsewhere(name, masked):
    cls, options = CELLS[name]

    def stand_in(*shape, dtype=torch.float32):
        return torch.empty(shape, device="meta", dtype=dtype)

    with keras.device("meta:0"):
        layer = layers.RNN(cls(H, **options), return_sequences=True, return_state=True)
        layer.build((B, T, D))
        mask = stand_in(B, T, dtype=torch.bool) if masked else None
        path, *last = layer(stand_in(B, T, D), mask=mask)
    assert tuple(path.shape) == (B, T, H)
    for tensor in (path, *last):
        assert tensor.device.type == "meta"
