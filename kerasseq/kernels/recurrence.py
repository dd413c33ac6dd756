"""All steps of a cell as one operation, which comes from `step` alone.

`recurrence` derives the loop and its gradient from the step of the cell (`derived/`),
once for a cell, its options and dtypes; what the backend makes of it is in
`jax/derived.py`, `tensorflow/derived.py` and `torch/derived.py`. A native kernel, as
cuDNN's, runs instead where it is faster and a trial shows that it computes the same.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.derived.derive import Derived, derive
from kerasseq.kernels.derived.evaluate import evaluate, leaves
from kerasseq.kernels.derived.graph import BOOLEAN, NotDerivable, walk
from kerasseq.kernels.operations import backend_module
from kerasseq.kernels.programs import programs

TRIED = 3  # sequences of the trial
CLOSE = 1e-4  # the largest difference in float32, of numbers near 1
# A step without these is analytic: where it equals a kernel on some numbers, it does on
# all. `clip` may change large ones alone, and `stop_gradient` only gradients.
NOT_ANALYTIC = {*BOOLEAN, "where", "maximum", "minimum", "max", "absolute", "sign"}
NOT_ANALYTIC |= {"stop_gradient"}
RELU = ["less_equal", "where"]  # of the one kernel that has any


@dataclasses.dataclass
class Native:
    """The inputs and weights of a cell, for native kernels.

    Attributes:
        inputs: $x$ of all steps, `(T, B, D)`; None if those of the gates differ.
        kernel: $W$, `(D, gates * H)`.
        recurrent_kernel: $U$, `(H, gates * H)`.
        bias: $b$, `(gates * H,)`, or None.
        recurrent_bias: That of the product with the state, or None.
    """

    inputs: Any
    kernel: Any
    recurrent_kernel: Any
    bias: Any = None
    recurrent_bias: Any = None


@dataclasses.dataclass
class Recurrence:
    """A cell and what it runs on.

    Attributes:
        cell: A built cell.
        step: Function `(cell, x, states) -> (output, new states)` of one step.
        inputs: $x$ of all steps, `(T, B, D)`.
        project: Function of `inputs` and `training`, which returns what `step` takes,
            `(T, B, N)`.
        training: Whether dropout is on.
        noise: The mask of recurrent dropout, `(B, H)`, a list with one for each gate,
            or None.
        native: The equation of native kernels that the cell says it has, or None.
        as_native: Function of `inputs` and `training` that returns a `Native`.
        cudnn: "auto", False or True, as `use_cudnn` of the layers.
        path: Whether to return the outputs at all steps, not only the last.
    """

    cell: keras.Layer
    step: Callable[..., tuple[Any, Any]]
    inputs: Any
    project: Callable[[Any, bool], Any]
    training: bool = False
    noise: Any = None
    native: str | None = None
    as_native: Callable[[Any, bool], Native] | None = None
    cudnn: bool | str = "auto"
    path: bool = True


def recurrence(
    run: Recurrence, states: Sequence[Tensor], mask: Tensor | None = None
) -> tuple[Tensor, Tensor | None, list[Tensor]] | None:
    """Runs a cell through time.

    Args:
        run: A `Recurrence`.
        states: List of initial states, each `(B, H)`.
        mask: Boolean, `(T, B)`, True where a step is real; a masked step leaves the
            states unchanged. None if all steps are real.

    Returns:
        The last output, the outputs at all steps `(T, B, H)` (None where `run.path` is
        False), and the list of the last states. None if the step cannot be derived, or
        not be run here: the loop over `step` computes it.

    Raises:
        ValueError: If there are no steps, if the batch size of a state differs from
            that of the inputs, or if `cudnn` is True and cuDNN cannot run it.
    """
    _check(run.inputs, states)
    native = _native(run, states, mask)
    return _derived(run, states, mask) if native is None else native


def _check(inputs, states) -> None:
    steps, batch = inputs.shape[:2]
    if steps == 0:
        raise ValueError("expected at least one time step, received a length of 0")
    for state in states:
        if None not in (batch, state.shape[0]) and state.shape[0] != batch:
            raise ValueError(
                f"`initial_state` must have the batch size of the inputs, {batch}, "
                f"received {state.shape[0]}. Pass one state for each sequence"
            )


# What is derived from the step.


def _derived(run, states, mask):
    backend = backend_module("derived")
    if not backend.can_run([run.inputs, *states]):
        return None
    x = run.project(run.inputs, run.training)
    derived = derived_of(run, x, states, mask is not None)
    if isinstance(derived, NotDerivable):
        return None
    noise = [] if run.noise is None else _as_list(run.noise)
    count, states = len(states), list(states)
    if derived.extra:
        width = derived.new_states[-1].width
        states.append(ops.zeros((ops.shape(states[0])[0], width), states[0].dtype))
    weights = [ops.convert_to_tensor(v) for v in run.cell.variables]
    parameters = derived.parameters(weights)

    def ahead() -> Tensor:
        x = run.project(run.inputs, run.training)
        return derived.take_ahead(x, parameters, noise)

    # A second call would draw another mask of input dropout.
    again = None if run.training and getattr(run.cell, "dropout", 0) else ahead
    x = derived.take_ahead(x, parameters, noise)
    path, last = backend.run(
        derived, x, states, parameters, noise, mask, path=run.path, again=again
    )
    return last[derived.output], path, last[:count]


def derived_of(
    run: Recurrence, x: Tensor, states: Sequence[Tensor], masked: bool
) -> Derived | NotDerivable:
    """Returns what is derived from the step of a cell, or why nothing can be.

    It is kept until something changes that the step depends on.

    Args:
        run: A `Recurrence`.
        x: What the step takes at all steps, `(T, B, N)`.
        states: List of states.
        masked: Whether there is a mask.
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    noise = None if run.noise is None else _widths(_as_list(run.noise))
    if noise is not None and not isinstance(run.noise, list | tuple):
        (noise,) = noise
    shapes = [x.shape[1:], *(state.shape for state in states)]
    if any(len(shape) != 2 or shape[1] is None for shape in shapes):
        return NotDerivable("a state that is not one row of numbers for each sequence")
    if any(keras.backend.standardize_dtype(s.dtype) != dtype for s in states):
        return NotDerivable("states of another dtype than the inputs")
    options = {
        "width": x.shape[-1],
        "states": _widths(states),
        "noise": noise,
        "masked": masked,
        "training": run.training,
        "dtype": dtype,
    }

    def make() -> Derived | NotDerivable:
        try:
            return derive(run.cell, run.step, **options)
        except NotDerivable as reason:
            return reason

    return programs(run.cell).get("derived", tuple(options.values()), make)


def _as_list(x) -> list[Tensor]:
    return list(x) if isinstance(x, list | tuple) else [x]


def _widths(tensors) -> tuple[int, ...]:
    return tuple(t.shape[-1] for t in tensors)


# Native kernels.


def _native(run, states, mask):
    """Runs a native kernel if there is a better one; None if not."""
    backend, forced = backend_module("native"), run.cudnn is True
    reason = why_not(run, mask)
    if forced:
        reason = reason or backend.why_no_cudnn(run.native, run.inputs)
    elif reason is None and not backend.is_best(run.native, run.inputs, run.cudnn):
        reason = "what is derived is faster"
    if reason is None and not _agrees(run):
        reason = "`step` of the cell computes something else"
    native = None if reason else run.as_native(run.inputs, run.training)
    if native is not None and native.inputs is None:
        reason = "each gate drops other inputs"
    if reason is not None:
        return cudnn.refuse(reason) if forced else None
    path, last = backend.run(run.native, native, states)
    return last[0], path if run.path else None, last


def why_not(run: Recurrence, mask: Tensor | None) -> str | None:
    """Returns why a native kernel cannot run a cell; None if it may."""
    if run.native is None:
        return "the kernel does not have the equation of this cell"
    if mask is not None:
        return "there is a mask"
    return None if run.noise is None else "recurrent_dropout is on"


def _agrees(run) -> bool:
    """Tries once on numbers whether the native kernel computes what `step` says."""
    dtype = keras.backend.standardize_dtype(run.inputs.dtype)
    key = run.native, dtype, run.inputs.shape[-1], run.training

    def tried() -> bool:
        with backend_module("functions").eagerly():
            return _try(run)

    return programs(run.cell).get("native", key, tried)


def _try(run) -> bool:
    """Compares one step from any states, with its projection, with the kernel.

    The numbers have 8 bits, so that no product is rounded before it is added up: a GPU
    multiplies in TF32, as cuDNN does by default. Of 16 bits both compute in 32.
    """
    rng, cell = np.random.default_rng(0), run.cell
    sizes, features = _as_list(cell.state_size), run.inputs.shape[-1]
    derived = _with_projection(run, features, sizes)
    if derived is None or not _may_equal(run.native, derived):
        return False
    new = functools.partial(_numbers, rng, run.inputs.dtype)
    weights = [new(*v.shape, scale=0.5 / _width(v) ** 0.5) for v in cell.variables]
    x, *states = [new(TRIED, n) for n in (features, *sizes)]
    with keras.StatelessScope(list(zip(cell.variables, weights, strict=True))):
        native = vars(run.as_native(x[None], False)).values()
        native = Native(*(None if w is None else _wide(w) for w in native))
        x, *states = map(_wide, [x, *states])
        parameters = [*map(_wide, derived.parameters(weights))]
        known = leaves(derived.new_states, x, states, parameters)
        wanted = evaluate(derived.new_states, known, x)
        _, last = backend_module("native").run(run.native, native, states)
    return all(map(_close, last, wanted))


def _with_projection(run, width, states) -> Derived | None:
    """Derives a step together with the projection of its input; None if it cannot."""
    # The masks of dropout are those of another batch.
    training = run.training and not getattr(run.cell, "dropout", 0)

    def step(cell: keras.Layer, x: Tensor, states: list[Tensor]) -> tuple[Any, Any]:
        return run.step(cell, cell.project(x, training), states)

    options = {"width": width, "states": states, "training": run.training}
    options["dtype"] = keras.backend.standardize_dtype(run.inputs.dtype)
    try:
        return derive(run.cell, step, whole=True, **options)
    except NotDerivable:
        return None


def _may_equal(name: str, derived: Derived) -> bool:
    """Returns whether a step that equals a kernel on some numbers equals it on all."""
    sizes = [v.width for v in derived.new_states]
    if derived.output or sizes != sizes[:1] * (2 if name == "lstm" else 1):
        return False
    kinks = [v.op for v in walk(derived.new_states) if v.op in NOT_ANALYTIC]
    return sorted(kinks) == (RELU if name == "rnn_relu" else [])


def _numbers(rng, dtype, *shape: int, scale: float = 0.5) -> Tensor:
    """Returns random numbers of 8 bits."""
    x = ops.convert_to_tensor(rng.normal(0, scale, shape), dtype="bfloat16")
    return ops.cast(x, dtype)


def _width(weight: keras.Variable) -> int:
    """Returns how many products each sum with a weight has."""
    return weight.shape[0] if len(weight.shape) > 1 else 1


def _wide(x: Tensor) -> Tensor:
    """Returns a tensor of 16 bits in 32."""
    short = keras.backend.standardize_dtype(x.dtype).endswith("16")
    return ops.cast(x, "float32") if short else x


def _close(a: Tensor, b: Tensor) -> bool:
    a, b = (ops.convert_to_numpy(ops.cast(x, "float32")) for x in (a, b))
    return np.allclose(a, b, rtol=0, atol=CLOSE)
