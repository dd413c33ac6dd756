"""The equations of the recurrences, step by step.

`run_steps` is what the kernels of the backends are tested against; it repeats the
`step` of each cell (`rnn/`). `forward` also saves what the backward pass needs, which
is in `derivatives.py`. Letters: T time, B batch, H units; U recurrent
weights; σ and φ the activations, as in the cells' own docstrings.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.operations import matmul, precise
from kerasseq.kernels.scan import scan

# The activations whose derivative can be computed from their output: φ'(x) from y.
_SLOPES = {
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
    "relu": lambda y: ops.cast(y > 0, y.dtype),
    "linear": ops.ones_like,
    "softsign": lambda y: (1 - ops.abs(y)) ** 2,
    "softplus": lambda y: 1 - ops.exp(-y),
    "exponential": lambda y: y,
    "elu": lambda y: ops.where(y > 0, ops.ones_like(y), y + 1),
    "hard_sigmoid": lambda y: ops.cast((y > 0) & (y < 1), y.dtype) / 6,
    "hard_tanh": lambda y: ops.cast(ops.abs(y) < 1, y.dtype),
    "relu6": lambda y: ops.cast((y > 0) & (y < 6), y.dtype),
}


def name_of(activation: Callable[[Tensor], Tensor]) -> str | None:
    """Returns the name of an activation whose derivative is known, else None.

    Examples:
        >>> name_of(keras.activations.tanh)
        'tanh'
        >>> name_of(keras.activations.gelu) is None
        True
    """
    names = (n for n in _SLOPES if getattr(keras.activations, n) is activation)
    return next(names, None)


def apply(name: str, x: Tensor) -> Tensor:
    r"""$y = \phi(x)$."""
    return precise(getattr(keras.activations, name))(x)


def slope(name: str, y: Tensor) -> Tensor:
    r"""$\phi'(x)$, from $y = \phi(x)$."""
    return _SLOPES[name](y)


@dataclasses.dataclass(frozen=True)
class Equation:
    """The equation of a recurrent cell.

    Attributes:
        name: "elman", "gated", "lstm" or "gru".
        phi: Name of the activation of the state and of candidates.
        sigma: Name of the activation of the gates.
        peephole: None, "diagonal" or "full" (lstm).
        coupled: Whether $i = 1 - f$ (lstm).
        reset_after: Whether the reset gate acts after the product (gru).
        update: Whether $z = 1$ means to "keep" or to "replace" the state (gru).
    """

    name: str
    phi: str
    sigma: str = "sigmoid"
    peephole: str | None = None
    coupled: bool = False
    reset_after: bool = True
    update: str = "keep"

    @property
    def gates(self) -> int:
        """Blocks of H columns in U."""
        return {"elman": 1, "gated": 2, "gru": 3, "lstm": 4 - self.coupled}[self.name]


def run_steps(
    equation: Equation,
    x: Tensor,
    states: Iterable[Tensor],
    weights: Mapping[str, Tensor],
    mask: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Runs through time in a Python loop: the definition.

    Args:
        equation: An `Equation`.
        x: Projected inputs, `(T, B, gates * H)`.
        states: List of states, each `(B, H)`.
        weights: As for `forward`.
        mask: Boolean, `(T, B)`, or None.

    Returns:
        The path of the hidden state `(T, B, H)`, and the list of the last states.
    """
    w = prepare(equation, weights)
    gates, update = _HALVES[equation.name]
    states, path = list(states), []
    for t, x_t in enumerate(ops.unstack(in_blocks(x, equation.gates))):
        values = gates(equation, x_t, states, w)
        new, _ = update(equation, values, states, w)
        if mask is not None:
            real = mask[t][:, None]
            new = [ops.where(real, a, b) for a, b in zip(new, states, strict=True)]
        states = new
        path.append(states[0])
    return ops.stack(path), states


def forward(
    equation: Equation,
    x: Tensor,
    states: Iterable[Tensor],
    weights: Mapping[str, Tensor],
    mask: Tensor | None,
) -> tuple[list[Tensor], list[Tensor], Nested]:
    """Runs through time, saving what the backward pass needs.

    Args:
        equation: An `Equation`.
        x: Projected inputs, `(T, B, gates * H)`.
        states: List of states, each `(B, H)`.
        weights: Dictionary: "U" `(H, gates * H)`; where the cell has them, "b" of a
            GRU, "p" of peepholes, and "dropout", one mask or one for each gate.
        mask: Boolean, `(T, B)`, or None.

    Returns:
        List of the paths of the states, each `(T, B, H)`, list of the last states, and
        the gates at all steps, as `derivatives.backward` takes them.
    """
    w = prepare(equation, weights)
    gates, update = _HALVES[equation.name]
    x = in_blocks(x, equation.gates)  # (T, B, gates, H)
    last = ops.shape(x)[0] - 1

    def step(carry: Any, now: dict[str, Tensor]) -> Any:
        states, values = carry
        new, kept = update(equation, values, states, w)
        if "mask" in now:
            real = now["mask"][:, None]
            new = [ops.where(real, a, b) for a, b in zip(new, states, strict=True)]
        ahead = gates(equation, x[now["next"]], new, w)
        return (new, ahead), (new, kept)

    # The loop carries the gates of the next step: XLA computes a carried value once,
    # but a value inside a step again for each of its uses. The gates after the last
    # step are not used.
    inputs = {"next": ops.minimum(ops.arange(last + 1, dtype="int32") + 1, last)}
    if mask is not None:
        inputs["mask"] = mask
    states = list(states)
    carry = (states, gates(equation, x[0], states, w))
    (states, _), (paths, kept) = scan(step, carry, inputs)
    return paths, states, kept


def prepare(equation: Equation, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adds to the weights what is computed from them once for all steps."""
    w, units = dict(weights), weights["U"].shape[0]
    if equation.peephole == "diagonal":
        *p, w["p_o"] = ops.split(w["p"], equation.gates - 1)  # (1, H) each
        zeros = ops.zeros_like(w["p_o"])  # the candidate has no peephole
        w["p_old"] = ops.concatenate([*p, zeros])  # (gates - 1, H)
    elif equation.peephole == "full":
        w["P"] = with_candidate(w["p"])
    elif equation.name == "gru" and not equation.reset_after:
        w["U_zr"], w["U_h"] = w["U"][:, : 2 * units], w["U"][:, 2 * units :]
    return w


def with_candidate(p: Tensor) -> Tensor:
    """Inserts columns of zeros for the candidate, which has no peephole."""
    units = p.shape[0]
    before, after = p[:, :-units], p[:, -units:]
    return ops.concatenate([before, ops.zeros_like(after), after], -1)


def product(
    h: Tensor, U: Tensor, masks: Tensor | Sequence[Tensor] | None = None
) -> Tensor:
    """Computes $h U$; a list holds one dropout mask for each gate."""
    if not isinstance(masks, (list, tuple)):
        return matmul(h if masks is None else h * masks, U)
    blocks = zip(masks, ops.split(U, len(masks), axis=-1), strict=True)
    return ops.concatenate([matmul(h * m, block) for m, block in blocks], -1)


def in_blocks(z: Tensor, gates: int) -> Tensor:
    """Reshapes `(..., gates * H)` to `(..., gates, H)`; compilers vectorize over H."""
    return ops.reshape(z, (*ops.shape(z)[:-1], gates, z.shape[-1] // gates))


def side_by_side(blocks: Tensor) -> Tensor:
    """Reshapes `(..., gates, H)` to `(..., gates * H)`."""
    gates, units = blocks.shape[-2:]
    return ops.reshape(blocks, (*ops.shape(blocks)[:-2], gates * units))


def activate(equation: Equation, z: Tensor, gates: str) -> Tensor:
    """Activates pre-activations `(B, gates, H)`; "ssps" means σ, σ, φ, σ."""
    if set(gates) == {"s"}:
        return apply(equation.sigma, z)
    if (equation.sigma, equation.phi) == ("sigmoid", "tanh"):
        return activate_at_once(z, gates)
    names = {"s": equation.sigma, "p": equation.phi}
    blocks = zip(gates, ops.unstack(z, len(gates), 1), strict=True)
    return ops.stack([apply(names[kind], x) for kind, x in blocks], 1)


def activate_at_once(z: Tensor, gates: str) -> Tensor:
    """Uses σ(x) = ½ tanh(½x) + ½, so that all gates take one loop over tanh."""
    s = [[0.5 if kind == "s" else 1.0] for kind in gates]
    s = ops.convert_to_tensor(s, dtype=z.dtype)  # (gates, 1)
    return s * apply("tanh", s * z) + (1 - s)


# Each equation in two halves: from x `(B, gates, H)` and the old states to the values
# of the gates, and then to the new states and what to save of the gates.


def _elman_gates(
    equation: Equation, x: Tensor, states: list[Tensor], w: dict[str, Tensor]
) -> Tensor:
    (h,) = states
    return apply(equation.phi, x[:, 0] + product(h, w["U"], w.get("dropout")))


def _elman_update(
    equation: Equation, h: Tensor, states: list[Tensor], w: dict[str, Tensor]
) -> tuple[list[Tensor], Nested]:
    return [h], ()


def _gated_gates(
    equation: Equation, x: Tensor, states: list[Tensor], w: dict[str, Tensor]
) -> Tensor:
    (h,) = states
    z = x + in_blocks(product(h, w["U"], w.get("dropout")), 2)
    return activate(equation, z, "sp")


def _gated_update(
    equation: Equation, y: Tensor, states: list[Tensor], w: dict[str, Tensor]
) -> tuple[list[Tensor], Nested]:
    (h,), (z, h_bar) = states, ops.unstack(y, 2, 1)
    return [z * h + (1 - z) * h_bar], y


def _lstm_gates(
    equation: Equation, x: Tensor, states: list[Tensor], w: dict[str, Tensor]
) -> Nested:
    h, c = states
    z = x + in_blocks(product(h, w["U"], w.get("dropout")), equation.gates)
    if equation.peephole == "full":
        z = z + in_blocks(matmul(c, w["P"]), equation.gates)
    pattern = "sps" if equation.coupled else "ssps"
    if equation.peephole != "diagonal":
        return activate(equation, z, pattern)
    # The output gate depends on the new cell state, so it is computed in the update.
    y = activate(equation, z[:, :-1] + w["p_old"] * c[:, None], pattern[:-1])
    return y, z[:, -1]


def _lstm_update(
    equation: Equation, values: Nested, states: list[Tensor], w: dict[str, Tensor]
) -> tuple[list[Tensor], Nested]:
    _, c = states
    if equation.peephole == "diagonal":
        y, z_o = values
        *i, f, g = ops.unstack(y, equation.gates - 1, 1)
    else:
        *i, f, g, o = ops.unstack(values, equation.gates, 1)
    c = f * c + (i[0] if i else 1 - f) * g
    if equation.peephole == "diagonal":
        o = apply(equation.sigma, z_o + w["p_o"] * c)
        values = y, o
    return [o * apply(equation.phi, c), c], values


def _gru_gates(
    equation: Equation, x: Tensor, states: list[Tensor], w: dict[str, Tensor]
) -> Nested:
    (h,) = states
    masks = w.get("dropout")
    if equation.reset_after:
        u = product(h, w["U"], masks)
        u = in_blocks(u + w["b"] if "b" in w else u, 3)
        return activate(equation, x[:, :2] + u[:, :2], "ss"), x[:, 2], u[:, 2]
    u = in_blocks(product(h, w["U_zr"], masks and masks[:2]), 2)
    return activate(equation, x[:, :2] + u, "ss"), x[:, 2]


def _gru_update(
    equation: Equation, values: Nested, states: list[Tensor], w: dict[str, Tensor]
) -> tuple[list[Tensor], Nested]:
    (h,), (y, x_h, *u_h) = states, values
    z, r = ops.unstack(y, 2, 1)
    if equation.reset_after:
        h_hat = apply(equation.phi, x_h + r * u_h[0])
    else:
        masks = w.get("dropout")
        h_hat = apply(equation.phi, x_h + product(r * h, w["U_h"], masks and masks[2]))
    k = z if equation.update == "keep" else 1 - z
    return [k * h + (1 - k) * h_hat], (y, h_hat, *u_h)


_HALVES = {
    "elman": (_elman_gates, _elman_update),
    "gated": (_gated_gates, _gated_update),
    "lstm": (_lstm_gates, _lstm_update),
    "gru": (_gru_gates, _gru_update),
}
