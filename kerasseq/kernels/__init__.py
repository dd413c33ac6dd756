"""Fast paths, and the only place that knows the backends.

Each public function has one meaning on all backends; the fast path is chosen inside.
`reference/` defines the operations in `keras.ops`; `derived/` derives a loop and its
gradient from the step of a cell, and `recurrence.py` chooses between that and a kernel
of the backend; `tensorflow/`, `jax/` and `torch/` hold what is faster there. The tests
compare each fast path with its definition.
"""

from kerasseq.core import backend

backend.require()

from kerasseq.kernels.blockwise_attention import blockwise_attention  # noqa: E402
from kerasseq.kernels.depthwise import depthwise_convolution  # noqa: E402
from kerasseq.kernels.exported import (  # noqa: E402
    lite_options,
    read_program,
    write_program,
)
from kerasseq.kernels.fingerprint import Fingerprint  # noqa: E402
from kerasseq.kernels.functions import (  # noqa: E402
    compiled,
    compiler,
    convertible_loops,
    default_jit_compile,
    fuses_attention,
    gradients,
    has_convertible_loops,
    has_cudnn,
    inference,
    is_concrete,
    is_exporting,
    is_uncompiled,
    keep_variables,
    output_specs,
    size_is_guessed,
    uncompiled,
    uses_torchscript,
    with_gradient,
)
from kerasseq.kernels.linear_attention import (  # noqa: E402
    linear_attention,
    linear_states,
)
from kerasseq.kernels.linear_recurrence import (  # noqa: E402
    linear_recurrence,
    state_dtype,
)
from kerasseq.kernels.mixture import mixture  # noqa: E402
from kerasseq.kernels.onnx_programs import to_onnx, write_onnx  # noqa: E402
from kerasseq.kernels.operations import (  # noqa: E402
    add_to_rows,
    constant,
    dense,
    fused_attention,
    is_float64,
    matmul,
    precise,
    project,
    running_maximum,
    split_widths,
    take_rows,
    take_steps,
    tanh,
    top_k,
    train_steps,
)
from kerasseq.kernels.parts import (  # noqa: E402
    build_optimizer,
    divide_weights,
    divides_rows,
    divides_weights,
    evaluation_step,
    is_any,
    is_divided,
    is_first_process,
    is_part,
    make_virtual_devices,
    of_output,
    of_part,
    on_devices,
    predict_step,
    restartable,
    train_step,
    unrepeated,
    unscaled,
)
from kerasseq.kernels.programs import Programs, programs  # noqa: E402
from kerasseq.kernels.recurrence import (  # noqa: E402
    Native,
    Recurrence,
    recurrence,
)
from kerasseq.kernels.rematerialization import MODES, rematerialized  # noqa: E402
from kerasseq.kernels.ring_attention import (  # noqa: E402
    block_length,
    part_read,
    ring_attention,
)
from kerasseq.kernels.scan import in_pieces, scan  # noqa: E402
from kerasseq.kernels.selective_scan import selective_scan  # noqa: E402

__all__ = [
    "MODES",
    "Fingerprint",
    "Native",
    "Programs",
    "Recurrence",
    "add_to_rows",
    "block_length",
    "blockwise_attention",
    "build_optimizer",
    "compiled",
    "compiler",
    "constant",
    "convertible_loops",
    "default_jit_compile",
    "dense",
    "depthwise_convolution",
    "divide_weights",
    "divides_rows",
    "divides_weights",
    "evaluation_step",
    "fused_attention",
    "fuses_attention",
    "gradients",
    "has_convertible_loops",
    "has_cudnn",
    "in_pieces",
    "inference",
    "is_any",
    "is_concrete",
    "is_divided",
    "is_exporting",
    "is_first_process",
    "is_part",
    "is_float64",
    "is_uncompiled",
    "keep_variables",
    "linear_attention",
    "linear_recurrence",
    "linear_states",
    "lite_options",
    "make_virtual_devices",
    "matmul",
    "mixture",
    "of_output",
    "of_part",
    "on_devices",
    "output_specs",
    "part_read",
    "precise",
    "predict_step",
    "programs",
    "project",
    "read_program",
    "recurrence",
    "rematerialized",
    "restartable",
    "ring_attention",
    "scan",
    "selective_scan",
    "size_is_guessed",
    "split_widths",
    "state_dtype",
    "take_rows",
    "running_maximum",
    "take_steps",
    "tanh",
    "to_onnx",
    "top_k",
    "train_step",
    "train_steps",
    "uncompiled",
    "unrepeated",
    "unscaled",
    "uses_torchscript",
    "with_gradient",
    "write_onnx",
    "write_program",
]
