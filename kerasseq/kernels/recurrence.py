"""The fast recurrence: one operation for all our cells, with gradients by hand."""

import dataclasses
from collections.abc import Callable
from typing import Any

from kerasseq.kernels.dispatch import backend_module
from kerasseq.kernels.reference import activations
from kerasseq.kernels.reference.equations import Equation


@dataclasses.dataclass
class Recurrence:
    """A recurrent cell at work, as the kernels see it.

    Attributes:
        equation: Which recurrence it is.
        weights: What the loop needs: "U", the recurrent weights `(H, gates * H)`;
            where there are such, "b", the bias of a GRU inside its reset gate, "p",
            peepholes, and "dropout" of the state, one mask `(B, H)` or a list of one
            for each gate.
        inputs: $x$ of all steps, `(T, B, D)`.
        project: Function of `inputs`, $x W + b$, `(T, B, gates * H)`.
        kernel: $W$, where `project` is $x W + b$ and no more, so that whoever is faster
            may do it; None elsewhere.
        bias: $b$, or None.
        cudnn: Whether cuDNN may run it ("auto"), must not (False) or must (True).
        path: Whether the hidden states at all steps are wanted, not only the last.
    """

    equation: Equation
    weights: dict[str, Any]
    inputs: Any
    project: Callable
    kernel: Any = None
    bias: Any = None
    cudnn: bool | str = "auto"
    path: bool = True


def equation_of(name: str, phi, sigma=None, **options) -> Equation | None:
    """The `Equation` of a cell, or None if the slope of an activation is not known.

    Examples:
        >>> equation_of("elman", keras.activations.tanh).phi
        'tanh'
        >>> equation_of("elman", keras.activations.gelu) is None
        True
    """
    functions = {"phi": phi} if sigma is None else {"phi": phi, "sigma": sigma}
    names = {key: activations.name_of(f) for key, f in functions.items()}
    return None if None in names.values() else Equation(name, **names, **options)


def recurrence(cell: Recurrence, states, mask=None):
    """Run a recurrence through time.

    The meaning is that of `equations.forward`, which is also what the tests compare
    with. Native kernels of the backend are taken where they compute the same thing.

    Args:
        cell: A `Recurrence`.
        states: List of states to start from, each `(B, H)`.
        mask: Boolean, `(T, B)`, True where a step is real; a masked step leaves the
            states as they were. None: all are real.

    Returns:
        The hidden states at all steps `(T, B, H)`, None where `cell.path` is False,
        and the list of the last states.

    Raises:
        ValueError: If it is known that there is no step, if a state is not one for each
            row of the inputs, or if `cudnn` is True and cuDNN cannot run it.
    """
    steps, batch = cell.inputs.shape[:2]
    if steps == 0:
        raise ValueError("the sequence has length 0: there must be at least one step")
    for state in states:
        if None not in (batch, state.shape[0]) and state.shape[0] != batch:
            raise ValueError(
                f"initial_state is for {state.shape[0]} sequences, the inputs have "
                f"{batch}: each sequence needs one state to start from"
            )
    path, last = backend_module("recurrence").run(cell, states, mask)
    return path if cell.path else None, last
