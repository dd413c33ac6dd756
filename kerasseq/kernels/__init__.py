"""Fast paths, and the only place that knows the backends.

Each public function has one meaning on all backends; what differs is chosen inside.
"""

from kerasseq.core import backend

backend.require()

from kerasseq.kernels.compilation import (  # noqa: E402
    compiler,
    default_jit_compile,
    has_cudnn,
    is_concrete,
    size_is_guessed,
)
from kerasseq.kernels.fingerprint import Fingerprint  # noqa: E402
from kerasseq.kernels.functions import (  # noqa: E402
    compiled,
    output_specs,
    training,
)
from kerasseq.kernels.fused import fused_attention  # noqa: E402
from kerasseq.kernels.gradients import gradients  # noqa: E402
from kerasseq.kernels.inference import inference  # noqa: E402
from kerasseq.kernels.precision import matmul, precise  # noqa: E402
from kerasseq.kernels.programs import Programs, programs  # noqa: E402
from kerasseq.kernels.projection import dense, project  # noqa: E402
from kerasseq.kernels.ranking import top_k  # noqa: E402
from kerasseq.kernels.recurrence import (  # noqa: E402
    Recurrence,
    equation_of,
    recurrence,
)
from kerasseq.kernels.scan import scan  # noqa: E402

__all__ = [
    "Fingerprint",
    "Programs",
    "Recurrence",
    "compiled",
    "compiler",
    "default_jit_compile",
    "dense",
    "equation_of",
    "fused_attention",
    "gradients",
    "has_cudnn",
    "inference",
    "is_concrete",
    "matmul",
    "output_specs",
    "precise",
    "programs",
    "project",
    "recurrence",
    "scan",
    "size_is_guessed",
    "top_k",
    "training",
]
