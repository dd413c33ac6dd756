"""Fast paths, and the only place that knows the backends.

Each public function has one meaning on all backends; what differs is chosen inside.
"""

from kerasseq.core import backend

backend.require()

from kerasseq.kernels.compilation import default_jit_compile, is_concrete  # noqa: E402
from kerasseq.kernels.gradients import gradients  # noqa: E402
from kerasseq.kernels.precision import matmul, precise  # noqa: E402
from kerasseq.kernels.scan import scan  # noqa: E402

__all__ = [
    "default_jit_compile",
    "gradients",
    "is_concrete",
    "matmul",
    "precise",
    "scan",
]
