r"""Rotary position embedding: queries and keys are rotated by their position.

$$
R_p\,(x_1, x_2) = (x_1 \cos \omega_i p - x_2 \sin \omega_i p,\;
x_2 \cos \omega_i p + x_1 \sin \omega_i p), \qquad
(R_p q)^T R_s k = q^T R_{s - p}\, k
$$

The scores depend on the distance $s - p$ only. Su et al. 2021 (RoFormer). Course slides
D.
"""

import math
from typing import Any

from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats, check_mask, check_numbers
from kerasseq.core.types import Tensor
from kerasseq.positions import frequencies
from kerasseq.positions.base import AttentionPosition

TYPES = ("linear", "ntk", "dynamic", "yarn", "llama3", "dynamic_ntk", "longrope")
LENGTH_DEPENDENT = ("dynamic_ntk", "longrope")


@register
class RotaryEmbedding(AttentionPosition):
    r"""Rotates each pair of features by an angle proportional to the position.

    Equivalent to `keras_hub.layers.RotaryEmbedding`. As
    `MultiHeadAttention(..., position=RotaryEmbedding())` it rotates queries and keys.
    Angles are computed in float32 in mixed precision as well.

    Args:
        max_wavelength: λ. The longest wavelength is nearly 2πλ positions.
        scaling_factor: s, the ratio of the sequence length to that of the training.
        rope_type: How frequencies are scaled by s. "linear": positions are divided by
            s. "ntk": λ grows, so that high frequencies are kept and the lowest is
            divided by s. "yarn": high frequencies are kept, low ones divided, and the
            scores are scaled up. "llama3": as "yarn" with other bounds and unscaled
            scores. "dynamic": as in KerasHub, positions are divided by $s^{D/(D-2)}$.
            "dynamic_ntk": as in LLaMA, "ntk" with a λ that grows with each sequence
            longer than in training. "longrope": ω is divided by `short_factor` for
            sequences up to the training length and by `long_factor` for longer ones,
            and the scores are scaled up.
        beta_fast: For "yarn": frequencies with at least this many rotations within the
            training length are kept.
        beta_slow: For "yarn": frequencies with fewer rotations are divided by s.
        original_max_position_embeddings: For "yarn", "llama3", "dynamic_ntk" and
            "longrope": sequence length in training.
        truncate: For "yarn": whether the ramp between the two starts and ends at whole
            pairs.
        sequence_axis: Axis of T, when called as a layer.
        feature_axis: Axis of D, when called as a layer.
        denominator_dim: Denominator of the exponent of ω; D if None. Not used by "yarn"
            and "llama3".
        interleaved: Whether neighboring features are a pair, as in RoFormer and GPT-J.
            If not, one feature of the first half and one of the second are, as in
            LLaMA.
        fraction: Fraction of the features that is rotated, from the first on; 0.25 in
            GPT-NeoX.
        attention_factor: For "yarn" and "longrope": factor of the rotated features. If
            None, it is $0.1 \ln s + 1$ for "yarn", and for "longrope", with the
            training length T, $\sqrt{1 + \ln s / \ln T}$, at least 1.
        low_freq_factor: For "llama3": frequencies with fewer rotations within the
            training length are divided by s.
        high_freq_factor: For "llama3": frequencies with more rotations are kept.
        short_factor: For "longrope": D / 2 positive numbers, one for each pair.
        long_factor: For "longrope": the same for longer sequences.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`, `(B, T, N, D)`, or with axes in another order.
        start_index: Position of the first token, for decoding step by step.
        positions: `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, set by Keras. Positions are counted over real tokens.

    Returns:
        The rotated inputs.

    Raises:
        ValueError: If an argument is out of range, or the number of rotated features is
            odd.

    Examples:
        >>> rotated = RotaryEmbedding()(np.ones((2, 7, 3, 4)))
        >>> keras.ops.shape(rotated)
        (2, 7, 3, 4)
    """

    @passes_on(AttentionPosition)
    def __init__(
        self,
        max_wavelength: float = 10000,
        scaling_factor: float = 1.0,
        rope_type: str = "linear",
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        original_max_position_embeddings: int = 4096,
        truncate: bool = True,
        sequence_axis: int = 1,
        feature_axis: int = -1,
        denominator_dim: int | None = None,
        *,
        interleaved: bool = False,
        fraction: float = 1.0,
        attention_factor: float | None = None,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        short_factor: list[float] | None = None,
        long_factor: list[float] | None = None,
        **kwargs: Any,
    ) -> None:
        self.max_wavelength: float = checks.positive("max_wavelength", max_wavelength)
        self.scaling_factor: float = checks.positive("scaling_factor", scaling_factor)
        self.rope_type: str = checks.one_of("rope_type", rope_type, TYPES)
        self.beta_fast: float = checks.number("beta_fast", beta_fast)
        self.beta_slow: float = checks.number("beta_slow", beta_slow)
        self.original_max_position_embeddings: int = checks.size(
            "original_max_position_embeddings", original_max_position_embeddings
        )
        self.truncate: bool = checks.flag("truncate", truncate)
        self.sequence_axis: int = checks.axis("sequence_axis", sequence_axis)
        self.feature_axis: int = checks.axis("feature_axis", feature_axis)
        self.denominator_dim: int | None = checks.optional(
            checks.size, "denominator_dim", denominator_dim
        )
        self.interleaved: bool = checks.flag("interleaved", interleaved)
        self.fraction: float = checks.fraction("fraction", fraction)
        self.attention_factor: float | None = checks.optional(
            checks.positive, "attention_factor", attention_factor
        )
        self.low_freq_factor: float = checks.number("low_freq_factor", low_freq_factor)
        self.high_freq_factor: float = checks.number(
            "high_freq_factor", high_freq_factor
        )
        self.short_factor: list[float] | None = self._longrope_factors(
            "short_factor", short_factor
        )
        self.long_factor: list[float] | None = self._longrope_factors(
            "long_factor", long_factor
        )
        _check_rotations("beta_slow", beta_slow, "beta_fast", beta_fast)
        _check_rotations(
            "low_freq_factor", low_freq_factor, "high_freq_factor", high_freq_factor
        )
        self.built = True

    def _longrope_factors(self, name, value):
        """Returns the factors as a list of floats; None for another `rope_type`."""
        if self.rope_type == "longrope":
            return _factor_list(name, value)
        if value is not None:
            raise ValueError(
                f'{name} is for rope_type="longrope", received '
                f"rope_type={self.rope_type!r}. Leave it out"
            )
        return None

    @property
    def constant_length(self) -> int | None:
        """The longest sequence with constant frequencies; None for any length.

        Beyond it the frequencies depend on the length of the sequence. Keys rotated
        before, such as those in a cache, do not match those of a longer sequence.
        """
        if self.rope_type in LENGTH_DEPENDENT:
            return self.original_max_position_embeddings
        return None

    def call(
        self,
        inputs: Tensor,
        start_index: int | Tensor = 0,
        positions: Tensor | None = None,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        axes = self.sequence_axis, self.feature_axis
        check_numbers("inputs", inputs, more=True)
        sizes = inputs.shape[0], inputs.shape[self.sequence_axis]
        check_mask("mask", mask, ("batch", "time"), sizes)
        x = as_floats("inputs", inputs, self.compute_dtype)
        x = ops.moveaxis(x, axes, (1, -1))
        p = masks.positions(mask, ops.shape(x)[1], start_index, positions)
        return ops.moveaxis(self.rotate(x, p), (1, -1), axes)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotates queries or keys.

        Args:
            x: `(B, T, ..., D)`.
            positions: `(B, T)` or `(1, T)`.

        Returns:
            `(B, T, ..., D)`.
        """
        D = self._rotated_width(x.shape[-1])
        theta = self._angles(positions, D)  # (B, T, D / 2)
        for _ in x.shape[2:-1]:
            theta = theta[:, :, None]
        factor = self._attention_factor()
        cos, sin = (ops.cast(factor * f(theta), x.dtype) for f in (ops.cos, ops.sin))
        x, rest = x[..., :D], x[..., D:]
        if self.interleaved:
            x_1, x_2 = x[..., 0::2], x[..., 1::2]
        else:
            x_1, x_2 = x[..., : D // 2], x[..., D // 2 :]
        rotated = (x_1 * cos - x_2 * sin, x_2 * cos + x_1 * sin)
        if self.interleaved:
            rotated = ops.reshape(ops.stack(rotated, -1), ops.shape(x))
            return ops.concatenate([rotated, rest], -1)
        return ops.concatenate([*rotated, rest], -1)

    def _rotated_width(self, D):
        """Returns the number of rotated features of D."""
        rotated = int(D * self.fraction)
        if rotated % 2 or not rotated:
            part = "" if self.fraction == 1 else f" with fraction={self.fraction}"
            raise ValueError(
                "the number of rotated features must be even and at least 2, received "
                f"{rotated} of width {D}{part}. Choose an even width of the heads, or "
                "another fraction"
            )
        return rotated

    def _angles(self, p, D):
        """Angles of the positions, `(B, T, D / 2)`."""
        if self.rope_type not in LENGTH_DEPENDENT:
            return frequencies.angles(p, self._frequencies(D))
        p = ops.cast(p, "float32")
        length = masks.largest(p, axis=1)[:, None, None] + 1  # (B, 1, 1)
        trained = self.original_max_position_embeddings
        base, s = self.max_wavelength, self.scaling_factor
        if self.rope_type == "dynamic_ntk":
            omega = frequencies.dynamic_ntk(D, base, s, length, trained)
        else:
            short = frequencies.divided(D, base, "short_factor", self.short_factor)
            long = frequencies.divided(D, base, "long_factor", self.long_factor)
            omega = ops.where(length > trained, long, short)
        return p[..., None] * omega

    def _frequencies(self, D):
        """Returns ω of each pair, `(D / 2,)`."""
        base, s = self.max_wavelength, self.scaling_factor
        length = self.original_max_position_embeddings
        if self.rope_type == "ntk":
            return frequencies.ntk(D, base, s, self.denominator_dim)
        if self.rope_type == "yarn":
            betas = self.beta_fast, self.beta_slow
            return frequencies.yarn(D, base, s, length, *betas, self.truncate)
        if self.rope_type == "llama3":
            bounds = self.low_freq_factor, self.high_freq_factor
            return frequencies.llama3(D, base, s, length, *bounds)
        if self.rope_type == "dynamic":
            s = s ** (D / max(D - 2, 1))
        return frequencies.frequencies(D, base, self.denominator_dim) / s

    def _attention_factor(self):
        """Computes the factor of rotated features; scores are scaled by its square."""
        s, T = self.scaling_factor, self.original_max_position_embeddings
        if self.rope_type not in ("yarn", "longrope"):
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        if self.rope_type == "yarn":
            return 0.1 * math.log(s) + 1  # fitted to LLaMA in the paper of YaRN
        return math.sqrt(1 + math.log(s) / math.log(T)) if s > 1 else 1.0


def _check_rotations(low_name, low, high_name, high):
    """Raises unless two numbers of rotations are positive and in order."""
    if not high > low > 0:
        raise ValueError(
            f"{high_name} must be above {low_name}, and both above 0, received "
            f"{high_name}={high} and {low_name}={low}. Both are numbers of rotations"
        )


def _factor_list(name, value):
    """Returns the factors of "longrope" as a list of floats.

    Examples:
        >>> _factor_list("long_factor", [1, 2.5])
        [1.0, 2.5]
    """
    known = isinstance(value, list | tuple) and len(value) > 0
    if not known or not all(0 < checks.number(name, x) < math.inf for x in value):
        raise ValueError(
            f"{name} must be a list of finite numbers above 0, one for each pair of "
            f'features, received {value!r}. rope_type="longrope" needs it'
        )
    return [float(x) for x in value]
