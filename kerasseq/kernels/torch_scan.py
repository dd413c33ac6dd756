"""The loop over time on PyTorch: Python's own, since PyTorch records as it runs."""

from kerasseq.kernels.scan import step_by_step as scan

__all__ = ["scan"]
