r"""What each architecture by name costs, as formulas.

The letters: $T$ steps, $F$ features of the inputs, $D$ units, $L$ layers or blocks, $N$
heads of $H = D/N$ numbers, $W$ steps of a window. `letters` gives their values. A
formula is Python, so that what is shown is what is computed.

Loads no Keras.
"""

import dataclasses
import math

CHUNK = 64  # steps in a chunk of "reformer"; rank of "linformer"
LONGEST = 1024  # steps, where weights or spans depend on the longest text
WINDOWS = {"longformer": 256, "adaptive_span": LONGEST + 32}
CONVOLUTIONS = 10  # of a stack of "wavenet", with the dilations 1, 2, ..., 512
DILATIONS = 2**CONVOLUTIONS - 1  # their sum


@dataclasses.dataclass(frozen=True)
class Formulas:
    """The formulas of an architecture.

    Attributes:
        parameters: Number of weights.
        products: Multiplications of one step by weights, in matrix products.
        mixing: Operations between the steps of a sequence, or in states that are
            matrices.
        state: Numbers that generation keeps after T steps, in the compute dtype; None
            if the architecture cannot be causal.
        sums: Those that are kept in float32.
        order: How a step depends on the ones before: "loop", a recurrence that cannot
            be cut; "scan", a linear recurrence; "sum", a sum over the steps before;
            "window", attention within a window; "dilations", convolutions.
    """

    parameters: str
    products: str
    mixing: str = "0"
    state: str | None = "0"
    sums: str = "0"
    order: str = "sum"


def letters(name: str, T: int, F: int, D: int, L: int) -> dict[str, int]:
    """Returns the values of the letters in the formulas of an architecture.

    Raises:
        ValueError: If `D` is odd, for "retention".

    Examples:
        >>> letters("retention", 7, 3, 12, 2)["N"], letters("gla", 7, 3, 12, 2)["N"]
        (2, 4)
    """
    N = math.gcd(D, 4)
    if name == "retention":  # rotates pairs of features
        if D % 2:
            raise ValueError(
                f'units must be even for "retention", received {D}. Choose {D + 1}'
            )
        N = math.gcd(D // 2, 4)
    elif name == "mlstm":  # heads of one number are normalized to 0
        N = min(N, max(D // 2, 1))
    return {
        **{"T": T, "F": F, "D": D, "L": L, "N": N, "H": D // N},
        "W": WINDOWS.get(name, T),
    }


def _recurrent(parameters: str, products: str, state: str, order: str) -> Formulas:
    """Layers above each other: those after the first read D features."""
    first = (parameters, products)
    above = (formula.replace("F + D", "2*D").replace("F", "D") for formula in first)
    return Formulas(
        *(f"{a} + (L - 1)*({b})" for a, b in zip(first, above, strict=True)),
        state=f"L*{state}",
        order=order,
    )


def _stack(
    parameters: str,
    products: str,
    mixing: str = "0",
    state: str | None = "0",
    sums: str = "0",
    order: str = "scan",
    *,
    norm: str = "2*D",
    later: tuple[str, str] | None = None,
) -> Formulas:
    """Counts residual blocks, after a projection of other widths to D, and a norm.

    Blocks after the first may have `later` more parameters and products.
    """
    project = "F*D*(F != D)"
    more = [f" + (L - 1)*({formula})" for formula in later] if later else ["", ""]
    return Formulas(
        f"{project} + L*({parameters}){more[0]} + {norm}",
        f"{project} + L*({products}){more[1]}",
        *(f if f in ("0", None) else f"L*({f})" for f in (mixing, state, sums)),
        order,
    )


def _transformer(
    mixing: str,
    state: str | None = "2*T*D",
    order: str = "sum",
    *,
    more: str = "",
    matrices: int = 12,
) -> Formulas:
    """Blocks of attention and a feed-forward network of width 4 D, each with a norm.

    There are 12 matrices of D x D in a block, or 11 where a key is also the query.
    """
    return _stack(
        f"{matrices}*D**2 + {matrices + 1}*D{more}",
        f"{matrices}*D**2",
        mixing,
        state,
        order=order,
    )


_FEED_FORWARD = "8*D**2 + 9*D"  # with the norms before it and before the mixing
_RANK = "max(32, 32*round({}/32))"
_RANKS = " + ".join(_RANK.format(s) for s in ("1.8*D**.5", "1.8*D**.5", ".6*D**.8"))
_VALUES = _RANK.format("1.3*D**.5")
_STEPS = "ceil(D/16)"  # rank of Mamba's step sizes

FORMULAS: dict[str, Formulas] = {
    "elman": _recurrent("D*(F + D + 1)", "D*(F + D)", "D", "loop"),
    "gated": _recurrent("2*D*(F + D + 1)", "2*D*(F + D)", "D", "loop"),
    "lstm": _recurrent("4*D*(F + D + 1)", "4*D*(F + D)", "2*D", "loop"),
    "peephole_lstm": _recurrent("4*D*(F + D + 1) + 3*D", "4*D*(F + D)", "2*D", "loop"),
    "full_peephole_lstm": _recurrent(
        "4*D*(F + D + 1) + 3*D**2", "4*D*(F + D) + 3*D**2", "2*D", "loop"
    ),
    "coupled_lstm": _recurrent("3*D*(F + D + 1)", "3*D*(F + D)", "2*D", "loop"),
    "gru": _recurrent("3*D*(F + D + 2)", "3*D*(F + D)", "D", "loop"),
    "min_gru": _recurrent("2*D*(F + 1)", "2*D*F", "D", "scan"),
    "min_lstm": _recurrent("3*D*(F + 1)", "3*D*F", "D", "scan"),
    "slstm": _recurrent("4*D*(F + D + 1)", "4*D*(F + D)", "4*D", "loop"),
    "transformer": _transformer("4*T**2*D"),
    "blockwise": _transformer("4*T**2*D"),
    "longformer": _transformer("4*T*min(T, 2*W)*D", "2*min(T, W - 1)*D", "window"),
    "reformer": _transformer(
        f"2*4*T*{2 * CHUNK}*D + 2*T*{2 * LONGEST // CHUNK}*D",
        None,
        more=f" + {2 * LONGEST // CHUNK}*D",
        matrices=11,
    ),
    "linformer": _transformer(f"8*T*{CHUNK}*D", None, more=f" + 2*{LONGEST * CHUNK}*N"),
    "adaptive_span": _transformer(
        "4*T*min(T, 2*W)*D", "2*min(T, W)*D", "window", more=" + N"
    ),
    "wavenet": Formulas(
        f"2*F*D + D + {CONVOLUTIONS}*L*(6*D**2 + 4*D)",
        f"2*F*D + {CONVOLUTIONS}*L*6*D**2",
        state=f"F + L*{DILATIONS}*D",
        order="dilations",
    ),
    "linear_attention": _stack(
        f"4*D**2 + 16*D + {_FEED_FORWARD}",
        "12*D**2",
        "4*T*D*(H + 1)",
        "9*D",
        "D*H + D",
        "sum",
    ),
    "gla": _stack(
        f"5*D**2 + 33*D + H + {_FEED_FORWARD}",
        "13*D**2 + 32*D",
        "5*T*D*H",
        sums="D*H",
    ),
    "retention": _stack(
        f"5*D**2 + H + {_FEED_FORWARD}", "13*D**2", "5*T*D*H", sums="D*H + 1"
    ),
    "delta_net": _stack(
        f"5*D**2 + 2*N*D + H + 2*N + 12*D + {_FEED_FORWARD}",
        "13*D**2 + 2*N*D",
        "9*T*D*H",
        "9*D",
        "D*H",
    ),
    "mlstm": _stack(
        f"5*D**2 + 2*N*D + 2*N + D + {_FEED_FORWARD}",
        "13*D**2 + 2*N*D",
        "5*T*D*(H + 1)",
        sums="D*H + D + N",
    ),
    "rwkv7": _stack(
        f"12*D**2 + 2*D*({_RANKS}) + 18*D",
        f"12*D**2 + 2*D*({_RANKS})",
        "9*T*D*H",
        "2*D",
        "D*H",
        later=(f"2*D*{_VALUES} + D", f"2*D*{_VALUES}"),
    ),
    "s4d": _stack(
        f"2*D**2 + 132*D + {_FEED_FORWARD}", "10*D**2", "11*T*D*32", sums="64*D"
    ),
    "mamba": _stack(
        f"6*D**2 + 111*D + 4*D*{_STEPS}",
        f"6*D**2 + 64*D + 4*D*{_STEPS}",
        "6*T*2*D*16",
        "6*D",
        "32*D",
        norm="D",
    ),
    "rwkv4": _stack("13*D**2 + 11*D", "13*D**2", "0", "2*D", "3*D"),
}
