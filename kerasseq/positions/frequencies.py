r"""How fast each pair of numbers of a code turns, and how slower for longer texts.

$$
\omega_i = \lambda^{-2i/D}
$$

Pair i turns by $\omega_i$ from one position to the next: by 1 for the first, by nearly
$1/\lambda$ for the last. All of it is computed once, on the host, in NumPy. Vaswani et
al. 2017; what is done for texts longer than those of the training: Chen et al. 2023
("linear"), bloc97 2023 ("ntk"), Peng et al. 2023 ("yarn"), Dubey et al. 2024
("llama3").
"""

import math

import numpy as np
from keras import ops


def frequencies(D, wavelength, denominator=None):
    """ω of each pair, `(D / 2,)`, rounded up.

    Args:
        D: How many numbers turn.
        wavelength: λ: the slowest pair needs nearly 2πλ positions for a turn.
        denominator: Instead of the D under the exponent.

    Examples:
        >>> frequencies(4, 10000).tolist()
        [1.0, 0.01]
    """
    return float(wavelength) ** (-np.arange(0, D, 2) / (denominator or D))


def ntk(D, wavelength, factor, denominator=None):
    r"""Frequencies with a longer λ: the slowest pair as if positions were divided.

    $\lambda' = \lambda s^{D/(D-2)}$; the fastest pair stays as it is.

    Examples:
        >>> (frequencies(4, 10000) / ntk(4, 10000, 8)).round(6).tolist()
        [1.0, 8.0]
    """
    longer = wavelength * factor ** (D / max(D - 2, 1))
    return frequencies(D, longer, denominator)


def yarn(D, wavelength, factor, length, fast, slow, whole=True):
    r"""Frequencies divided by s where a pair is slow, kept where it is fast.

    $\omega_i' = (1 - r_i)\, \omega_i + r_i\, \omega_i / s$, where $r_i$ rises from 0,
    at the pair with `fast` turns within the original length, to 1, at the pair with
    `slow` turns.

    Args:
        D: How many numbers turn.
        wavelength: λ.
        factor: s.
        length: Tokens of the texts of the training.
        fast: Turns from which on a pair is kept.
        slow: Turns below which it is divided.
        whole: Whether the ramp begins and ends at whole pairs.

    Examples:
        >>> ratio = frequencies(8, 10000) / yarn(8, 10000, 4, 2048, 32, 1)
        >>> ratio.round(2).tolist()
        [1.0, 1.0, 1.6, 4.0]
    """
    omega = frequencies(D, wavelength)
    low, high = (_pair(D, wavelength, length, turns) for turns in (fast, slow))
    if whole:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, D - 1)
    r = np.clip((np.arange(D // 2) - low) / max(high - low, 1e-3), 0, 1)
    return (1 - r) * omega + r * omega / factor


def llama3(D, wavelength, factor, length, low, high):
    r"""Frequencies divided by s below `low` turns, kept above `high` turns.

    $\omega_i' = (1 - r_i)\, \omega_i / s + r_i\, \omega_i$ between, where $r_i$ rises
    with the turns of the pair within the original length.

    Args:
        D: How many numbers turn.
        wavelength: λ.
        factor: s.
        length: Tokens of the texts of the training.
        low: Turns below which a pair is divided.
        high: Turns from which on it is kept.

    Examples:
        >>> ratio = frequencies(8, 10000) / llama3(8, 10000, 4, 2048, 1, 4)
        >>> ratio.round(2).tolist()
        [1.0, 1.0, 1.23, 4.0]
    """
    omega = frequencies(D, wavelength)
    turns = length * omega / (2 * math.pi)
    r = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - r) * omega / factor + r * omega


def dynamic_ntk(D, wavelength, factor, length, trained):
    r"""Frequencies with a λ that grows with the text, once it is longer than trained.

    $\lambda' = \lambda\,(s\,t / T - (s - 1))^{D/(D-2)}$ with t the length of the text,
    at least the T of the training.

    Args:
        D: How many numbers turn.
        wavelength: λ.
        factor: s.
        length: t, a float32 tensor `(B, 1, 1)`.
        trained: T.

    Returns:
        `(B, 1, D / 2)`.

    Examples:
        >>> omega = dynamic_ntk(4, 10000, 4.0, keras.ops.full((1, 1, 1), 16.0), 8)
        >>> keras.ops.convert_to_numpy(1 / omega).round().tolist()
        [[[1.0, 500.0]]]
    """
    t = ops.maximum(length, float(trained))
    growth = ops.log(factor * t / trained - (factor - 1)) * (D / max(D - 2, 1))
    exponents = ops.convert_to_tensor((np.arange(0, D, 2) / D).astype("float32"))
    omega = ops.convert_to_tensor(frequencies(D, wavelength).astype("float32"))
    return omega * ops.exp(-exponents * growth)


def divided(D, wavelength, name, factors):
    """Frequencies, each divided by a number of its own; a tensor `(D / 2,)`.

    Args:
        D: How many numbers turn.
        wavelength: λ.
        name: Of the factors, for messages.
        factors: D / 2 numbers.

    Raises:
        ValueError: If there are more or fewer.

    Examples:
        >>> keras.ops.convert_to_numpy(divided(4, 1e4, "long_factor", [1, 2])).tolist()
        [1.0, 0.004999999888241291]
    """
    if len(factors) != D // 2:
        raise ValueError(
            f"{name} must have {D // 2} numbers, one for each pair of {D} features, "
            f"received {len(factors)}"
        )
    omega = frequencies(D, wavelength) / np.array(factors)
    return ops.convert_to_tensor(omega.astype("float32"))


def _pair(D, wavelength, length, turns):
    """The pair, a fraction maybe, that turns so often within the length."""
    return D * math.log(length / (2 * math.pi * turns)) / (2 * math.log(wavelength))


def angles(p, omega):
    """The angles of positions `(B, T)`, `(B, T, D / 2)`.

    In float32 whatever the layer computes in: bfloat16 cannot tell 257 from 256.
    """
    omega = ops.convert_to_tensor(omega.astype("float32"))
    return ops.cast(p, "float32")[..., None] * omega


def check_wavelength(value):
    """Return `max_wavelength` if it is a number above 0.

    Examples:
        >>> check_wavelength(0)
        Traceback (most recent call last):
        ...
        ValueError: max_wavelength must be a number above 0, got 0
    """
    if not 0 < value < math.inf:
        raise ValueError(f"max_wavelength must be a number above 0, got {value}")
    return value
