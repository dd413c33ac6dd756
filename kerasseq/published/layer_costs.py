r"""What the layers of an architecture by name cost, as formulas and numbers.

The table of Vaswani et al. 2017 ("Attention is all you need", table 1), slides D, for
every name, and exact: the operations, how many steps follow one another before the last
state is known, and how many lie between the first input and the last output.

| a step depends on those before by | sequential steps | path |
|---|---|---|
| a loop whose gates read the state: LSTM | $T + L - 1$ | $T - 1$ |
| a linear recurrence: Mamba | $L (1 + \lceil \log_2 T \rceil)$ or less | $T - 1$ |
| a sum over all pairs: attention | $L$ | $1$ |

A linear recurrence can be computed by doubling, as a sum can: $a_2 (a_1 h + b_1) + b_2$
is one again.

Loads no Keras.
"""

import dataclasses
import math
from collections.abc import Mapping

from kerasseq.core.checks import one_of, whole_number
from kerasseq.published.costing import BYTES, STATE
from kerasseq.published.layer_formulas import (
    CONVOLUTIONS,
    DILATIONS,
    FORMULAS,
    LONGEST,
    letters,
)

_STEPS = {  # before the last state is known
    "loop": "T + L - 1",
    "scan": "min(T + L - 1, L*(1 + ceil(log2(T))))",
    "sum": "L",
    "window": "L",
    "dilations": f"{CONVOLUTIONS}*L + 1",
}
_PATH = {
    "loop": "T - 1",
    "scan": "T - 1",
    "sum": "min(T - 1, 1)",
    "window": "ceil((T - 1)/(W - 1))",
    "dilations": "fewest of 1, 1, 2, 4, ..., 512 that sum to the distance",
}
_FUNCTIONS = {
    **{"__builtins__": {}, "ceil": math.ceil, "log2": math.log2},
    **{"max": max, "min": min, "round": round},
}


@dataclasses.dataclass(frozen=True)
class LayerCosts:
    """What the layers of an architecture cost, for one sequence.

    Attributes:
        name: The architecture.
        sequence_length: T.
        units: D.
        input_dim: F.
        num_layers: L.
        dtype: The type of the states.
        parameters: Number of weights.
        forward_flops: Operations of the forward pass over the sequence: a
            multiplication and an addition for each weight of a matrix product and each
            step, and those between steps. Biases, norms, activations, and what is
            done number by number in vectors of D are left out.
        sequential_steps: The least number of steps that follow one another before the
            last state is known, if there are as many processors as it takes.
        path: The greatest, over pairs of an input and a later output, of the least
            number of steps from one place to another that lead from input to output;
            None if the last output does not depend on the first input.
        reach: How many steps back an output can see; None if all.
        state_bytes: What generation keeps after T steps; None if the architecture
            cannot be causal.
        formulas: The formulas of these, by name.
    """

    name: str
    sequence_length: int
    units: int
    input_dim: int
    num_layers: int
    dtype: str
    parameters: int
    forward_flops: int
    sequential_steps: int
    path: int | None
    reach: int | None
    state_bytes: int | None
    formulas: Mapping[str, str]

    @property
    def state_bytes_per_token(self) -> float | None:
        """What generation keeps, by the number of tokens."""
        if self.state_bytes is None:
            return None
        return self.state_bytes / self.sequence_length

    def first_steps(self) -> list[list[int]]:
        """Returns after how many steps each state can be known, by layer and time.

        The figure of slide D, "min # of steps before a state can be computed".

        Examples:
            >>> costs("lstm", 4, 3, num_layers=2).first_steps()
            [[1, 2, 3, 4], [2, 3, 4, 5]]
            >>> costs("transformer", 4, 3, num_layers=2).first_steps()
            [[1, 1, 1, 1], [2, 2, 2, 2]]
        """
        formula = self.formulas["sequential_steps"]
        return [
            [
                evaluate(formula, {"T": t, "L": layer})
                for t in range(1, self.sequence_length + 1)
            ]
            for layer in range(1, self.num_layers + 1)
        ]


def costs(
    name: str,
    sequence_length: int,
    units: int,
    *,
    input_dim: int | None = None,
    num_layers: int = 1,
    dtype: str = "float32",
) -> LayerCosts:
    """Counts what the layers of an architecture cost, without building them.

    They are those that a task model builds for the name: `models.LanguageModel(name)`,
    for instance, without its embedding and its output layer.

    Args:
        name: A name, such as "lstm", "mamba" or "transformer".
        sequence_length: T, the number of steps.
        units: D, the width of the layers.
        input_dim: F, the features of the inputs; `units` if None.
        num_layers: L, the number of layers or blocks.
        dtype: "float32", "bfloat16" or "float16", of the states; some are kept in
            float32 whatever it is.

    Returns:
        A `LayerCosts`.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If the name is unknown, a number is below 1, the units are odd for
            "retention", or the sequence is longer than "linformer" can read.

    Examples:
        >>> costs("lstm", 1000, 512).sequential_steps
        1000
        >>> costs("transformer", 1000, 512, num_layers=6).path
        1
        >>> cost = costs("gru", 100, 64, input_dim=32)
        >>> cost.formulas["parameters"]
        '3*D*(F + D + 2) + (L - 1)*(3*D*(2*D + 2))'
        >>> cost.parameters
        18816

    References:
        Vaswani et al. 2017, table 1. Slides D: what limits recurrent networks.
    """
    one_of("name", name, tuple(FORMULAS))
    one_of("dtype", dtype, tuple(BYTES))
    T = whole_number("sequence_length", sequence_length)
    D = whole_number("units", units)
    F = D if input_dim is None else whole_number("input_dim", input_dim)
    L = whole_number("num_layers", num_layers)
    if name == "linformer" and T > LONGEST:
        raise ValueError(
            f'sequence_length must be at most {LONGEST} for "linformer", whose '
            f"projections have a row for each step, received {T}"
        )
    f = FORMULAS[name]
    values = letters(name, T, F, D, L)
    formulas = {
        "parameters": f.parameters,
        "forward_flops": _sum(("2*T", f.products), ("1", f.mixing)),
        "sequential_steps": _STEPS[f.order],
        "path": _PATH[f.order],
    }
    numbers = None
    if f.state is not None:
        kept = (str(BYTES[dtype]), f.state), (str(STATE), f.sums)
        formulas["state_bytes"] = _sum(*kept)
        numbers = evaluate(formulas["state_bytes"], values)
    reach = _reach(f.order, values)
    return LayerCosts(
        name=name,
        sequence_length=T,
        units=D,
        input_dim=F,
        num_layers=L,
        dtype=dtype,
        parameters=evaluate(formulas["parameters"], values),
        forward_flops=evaluate(formulas["forward_flops"], values),
        sequential_steps=evaluate(formulas["sequential_steps"], values),
        path=_path(f.order, formulas["path"], values, reach),
        reach=reach,
        state_bytes=numbers,
        formulas=formulas,
    )


def evaluate(formula: str, values: Mapping[str, int]) -> int:
    """Returns the value of a formula of `layer_formulas`.

    Examples:
        >>> evaluate("4*D*(F + D + 1)", {"D": 3, "F": 2})
        72
    """
    return eval(formula, _FUNCTIONS, dict(values))


def _sum(*terms: tuple[str, str]) -> str:
    """Returns the sum of products as a formula, without those that are 0.

    Examples:
        >>> _sum(("2*T", "D**2 + D"), ("1", "0"), ("1", "4*T"))
        '2*T*(D**2 + D) + 4*T'
    """
    written = [f"{a}*({b})" if a != "1" else b for a, b in terms if b != "0"]
    return " + ".join(written) or "0"


def _reach(order: str, values: Mapping[str, int]) -> int | None:
    """Returns how many steps back an output can see; None if all."""
    if order == "window":
        return values["L"] * (values["W"] - 1)
    if order == "dilations":  # the first convolution reads one step back
        return 1 + values["L"] * DILATIONS
    return None


def _path(
    order: str, formula: str, values: Mapping[str, int], reach: int | None
) -> int | None:
    distance = values["T"] - 1
    if reach is not None and distance > reach:
        return None
    if order == "dilations":
        return max(_fewest(each, values["L"]) for each in range(distance + 1))
    return evaluate(formula, values)


def _fewest(distance: int, stacks: int) -> int:
    """Finds the fewest convolutions of a WaveNet that reach so many steps back.

    Each stack has one of each dilation 1, 2, ..., 512; the first convolution has 1. The
    largest dilation first is best, as each is twice the one before.

    Examples:
        >>> [_fewest(distance, 1) for distance in (1, 2, 3, 7, 1024, 512)]
        [1, 1, 2, 3, 11, 1]
    """
    count = 0
    for power in reversed(range(CONVOLUTIONS)):
        taken = min(distance >> power, stacks + (power == 0))
        count, distance = count + taken, distance - (taken << power)
    return count
