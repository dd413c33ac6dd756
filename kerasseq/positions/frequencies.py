r"""Rotation frequencies of sinusoidal and rotary encodings, and how to extend them.

$$
\omega_i = \lambda^{-2i/D}
$$

Feature pair i rotates by $\omega_i$ from one position to the next: by 1 for the first
pair, by nearly $1/\lambda$ for the last. Frequencies are computed once, in NumPy.
Vaswani et al. 2017. Methods for sequences longer than in training: Chen et al. 2023
("linear"), bloc97 2023 ("ntk"), Peng et al. 2023 ("yarn"), Dubey et al. 2024
("llama3").
"""

import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels import constant


def frequencies(
    D: int, wavelength: float, denominator: int | None = None
) -> np.ndarray:
    """Returns ω of each feature pair, `(D / 2,)`; an odd D is rounded up.

    Args:
        D: Number of rotated features.
        wavelength: λ. The longest wavelength is nearly 2πλ positions.
        denominator: Denominator of the exponent; D if None.

    Examples:
        >>> frequencies(4, 10000).tolist()
        [1.0, 0.01]
    """
    D = int(D)  # a tensor in TorchScript
    return float(wavelength) ** (-np.arange(0, D, 2) / (denominator or D))


def ntk(
    D: int, wavelength: float, factor: float, denominator: int | None = None
) -> np.ndarray:
    r"""Computes frequencies of a larger λ: the lowest divided by s, the highest kept.

    $\lambda' = \lambda s^{D/(D-2)}$.

    Examples:
        >>> (frequencies(4, 10000) / ntk(4, 10000, 8)).round(6).tolist()
        [1.0, 8.0]
    """
    longer = wavelength * factor ** (D / max(D - 2, 1))
    return frequencies(D, longer, denominator)


def yarn(
    D: int,
    wavelength: float,
    factor: float,
    length: int,
    fast: float,
    slow: float,
    truncate: bool = True,
) -> np.ndarray:
    r"""Divides low frequencies by s and keeps high ones, with a ramp between: YaRN.

    $\omega_i' = (1 - r_i)\, \omega_i + r_i\, \omega_i / s$, where $r_i$ rises from 0,
    at the pair with `fast` rotations within the original length, to 1, at the pair with
    `slow` rotations.

    Args:
        D: Number of rotated features.
        wavelength: λ.
        factor: s.
        length: Sequence length in training.
        fast: Number of rotations from which on a frequency is kept.
        slow: Number of rotations below which a frequency is divided.
        truncate: Whether the ramp starts and ends at whole pairs.

    Examples:
        >>> ratio = frequencies(8, 10000) / yarn(8, 10000, 4, 2048, 32, 1)
        >>> ratio.round(2).tolist()
        [1.0, 1.0, 1.6, 4.0]
    """
    omega = frequencies(D, wavelength)
    low, high = (_pair_index(D, wavelength, length, n) for n in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, D - 1)
    r = np.clip((np.arange(D // 2) - low) / max(high - low, 1e-3), 0, 1)
    return (1 - r) * omega + r * omega / factor


def _pair_index(D, wavelength, length, rotations):
    """Computes which pair, a fraction, makes so many rotations within the length."""
    return D * math.log(length / (2 * math.pi * rotations)) / (2 * math.log(wavelength))


def llama3(
    D: int, wavelength: float, factor: float, length: int, low: float, high: float
) -> np.ndarray:
    r"""Divides frequencies below `low` rotations by s: LLaMA 3.

    $\omega_i' = (1 - r_i)\, \omega_i / s + r_i\, \omega_i$, where $r_i$ rises from 0 to
    1 with the number of rotations within the original length.

    Args:
        D: Number of rotated features.
        wavelength: λ.
        factor: s.
        length: Sequence length in training.
        low: Number of rotations below which a frequency is divided.
        high: Number of rotations from which on a frequency is kept.

    Examples:
        >>> ratio = frequencies(8, 10000) / llama3(8, 10000, 4, 2048, 1, 4)
        >>> ratio.round(2).tolist()
        [1.0, 1.0, 1.23, 4.0]
    """
    omega = frequencies(D, wavelength)
    rotations = length * omega / (2 * math.pi)
    r = np.clip((rotations - low) / (high - low), 0, 1)
    return (1 - r) * omega / factor + r * omega


def dynamic_ntk(
    D: int, wavelength: float, factor: float, length: Tensor, trained: int
) -> Tensor:
    r"""Scales λ with sequences that are longer than in training: dynamic NTK.

    $\lambda' = \lambda\,(s\,t / T - (s - 1))^{D/(D-2)}$, where t is the length of the
    sequence, and at least the training length T.

    Args:
        D: Number of rotated features.
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
    exponents = constant((np.arange(0, D, 2) / D).astype("float32"), like=t)
    omega = constant(frequencies(D, wavelength).astype("float32"), like=t)
    return omega * ops.exp(-exponents * growth)


def divided(D: int, wavelength: float, name: str, factors: Sequence[float]) -> Tensor:
    """Divides each frequency by its own factor, a tensor `(D / 2,)`: LongRoPE.

    Args:
        D: Number of rotated features.
        wavelength: λ.
        name: Name of the argument that holds the factors, for messages.
        factors: D / 2 numbers.

    Raises:
        ValueError: If the number of factors is not D / 2.

    Examples:
        >>> keras.ops.convert_to_numpy(divided(4, 1e4, "long_factor", [1, 2])).tolist()
        [1.0, 0.004999999888241291]
    """
    if len(factors) != D // 2:
        raise ValueError(
            f"{name} must have {D // 2} numbers, one for each pair of {D} features, "
            f"received {len(factors)}. Pass the list of the checkpoint's config"
        )
    omega = frequencies(D, wavelength) / np.array(factors)
    return ops.convert_to_tensor(omega.astype("float32"))


def angles(p: Tensor, omega: np.ndarray) -> Tensor:
    """Returns the angles ω p of positions p `(B, T)`, as `(B, T, D / 2)`.

    They are float32 whatever the compute type: bfloat16 rounds 257 to 256.
    """
    p = ops.cast(p, "float32")[..., None]
    return p * constant(omega.astype("float32"), like=p)
