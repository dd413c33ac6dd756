"""The recurrence of all cells as one operation, with gradients by hand.

Who changes an equation changes it in each of these places:

- `kerasseq/rnn/*.py`, `step` of the cell, and its attribute `equation`, which names the
  options; a new method of the step also in `fast_recurrence` of `rnn/loop.py`
- `reference/equations.py`, the same for all steps: on JAX, on TensorFlow with XLA, and
  where the others do not fit; `reference/derivatives.py`, its backward pass
- `tensorflow/equations.py`: both passes on TensorFlow without XLA
- `torch/numba_loops.py` with `numba_steps.py`: both passes on PyTorch, float32, CPU;
  `has_loops` in `torch/recurrence.py` names the equations that they compute
- `Recurrence.why_not_native`: whether cuDNN and PyTorch's own kernels compute the same

`tests/kernels/test_recurrence.py` compares each backend with `step` and the reference,
`tests/kernels/test_torch_recurrence.py` the numba loops.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module
from kerasseq.kernels.reference.equations import Equation, name_of


@dataclasses.dataclass
class Recurrence:
    """A recurrent cell with its inputs, as the kernels take it.

    Attributes:
        equation: The equation of the cell.
        weights: The weights used in the loop: "U", the recurrent weights
            `(H, gates * H)`; where the cell has them, "b", the bias of a GRU inside its
            reset gate, "p", peepholes, and "dropout", the mask of the state `(B, H)` or
            a list of one mask for each gate.
        inputs: $x$ of all steps, `(T, B, D)`.
        project: Function of `inputs`, $x W + b$, `(T, B, gates * H)`.
        kernel: $W$, where `project` is exactly $x W + b$, so that a native kernel may
            compute it; None otherwise.
        bias: $b$, or None.
        cudnn: "auto", False or True, as `use_cudnn` of the layers.
        path: Whether to return the hidden states at all steps, not only the last.
    """

    equation: Equation
    weights: dict[str, Any]
    inputs: Any
    project: Callable
    kernel: Any = None
    bias: Any = None
    cudnn: bool | str = "auto"
    path: bool = True

    def why_not_native(self, mask: Tensor | None, names: Sequence[str]) -> str | None:
        """Returns why a native kernel cannot compute it; None if it can.

        Native kernels, cuDNN's and PyTorch's, have the LSTM without peepholes, the GRU
        that resets after the product and the Elman network.

        Args:
            mask: As given to `recurrence`.
            names: Names of the equations that the kernel has.
        """
        equation = self.equation
        plain = equation.peephole is None and not equation.coupled
        squashed = (equation.sigma, equation.phi) == ("sigmoid", "tanh")
        fits = {
            "elman": equation.phi in ("tanh", "relu"),
            "gru": equation.reset_after and equation.update == "keep" and squashed,
            "lstm": plain and squashed,
        }
        if equation.name not in names or not fits.get(equation.name):
            return "the kernel does not have this equation"
        if mask is not None:
            return "there is a mask"
        if self.weights.get("dropout") is not None:
            return "recurrent_dropout is on"
        if self.kernel is None:
            return "the inputs of the gates differ, or are projected by the cell"
        return None


def equation_of(
    name: str, phi: Callable, sigma: Callable | None = None, **options: Any
) -> Equation | None:
    """Returns the `Equation` of a cell, None if an activation has no known slope.

    Examples:
        >>> equation_of("elman", keras.activations.tanh).phi
        'tanh'
        >>> equation_of("elman", keras.activations.gelu) is None
        True
    """
    functions = {"phi": phi} if sigma is None else {"phi": phi, "sigma": sigma}
    names = {key: name_of(f) for key, f in functions.items()}
    return None if None in names.values() else Equation(name, **names, **options)


def recurrence(
    cell: Recurrence, states: Sequence[Tensor], mask: Tensor | None = None
) -> tuple[Tensor | None, list[Tensor]]:
    """Runs a recurrence through time.

    `reference.equations.run_steps` defines the result. Native kernels of the backend
    are used where they compute the same.

    Args:
        cell: A `Recurrence`.
        states: List of initial states, each `(B, H)`.
        mask: Boolean, `(T, B)`, True where a step is real; a masked step leaves the
            states unchanged. None if all steps are real.

    Returns:
        The hidden states at all steps `(T, B, H)`, None where `cell.path` is False,
        and the list of the last states.

    Raises:
        ValueError: If there are no steps, if the batch size of a state differs from
            that of the inputs, or if `cudnn` is True and cuDNN cannot run it.
    """
    steps, batch = cell.inputs.shape[:2]
    if steps == 0:
        raise ValueError("expected at least one time step, received a length of 0")
    for state in states:
        if None not in (batch, state.shape[0]) and state.shape[0] != batch:
            raise ValueError(
                f"`initial_state` must have the batch size of the inputs, {batch}, "
                f"received {state.shape[0]}. Pass one state for each sequence"
            )
    path, last = backend_module("recurrence").run(cell, states, mask)
    return path if cell.path else None, last
