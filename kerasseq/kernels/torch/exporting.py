"""What `torch.export` and TorchScript, which Keras uses for ONNX, cannot record."""

import torch


def is_exporting() -> bool:
    """See `kerasseq.kernels.is_exporting`."""
    return uses_torch_export() or torch.jit.is_tracing()


def uses_torchscript() -> bool:
    """See `kerasseq.kernels.uses_torchscript`."""
    return torch.jit.is_tracing()


def uses_torch_export() -> bool:
    """Whether `torch.export` records a program; False before PyTorch 2.7."""
    return getattr(torch.compiler, "is_exporting", bool)()


def check_fixed_length(x: torch.Tensor) -> None:
    """Raises if a loop over a dynamic number of steps would be exported.

    Both exporters write a loop out step by step, for the length of the example input.
    TorchScript does not know which lengths are dynamic; Keras replaces those by 1.

    Args:
        x: Tensor with time on axis 0.

    Raises:
        ValueError: If its length is dynamic.
    """
    if torch.jit.is_tracing():
        dynamic = int(x.shape[0]) == 1
    else:
        dynamic = uses_torch_export() and not isinstance(x.shape[0], int)
    if dynamic:
        raise ValueError(
            "the number of time steps must be fixed to export a recurrent layer on "
            "PyTorch, received a dynamic one: the exported program has no loop. Pass "
            "the length in `input_signature`, for 20 ids for example "
            '`[keras.InputSpec(shape=(None, 20), dtype="int32")]`. The batch size can '
            "be dynamic"
        )
