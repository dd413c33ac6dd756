r"""Rotary positions: queries and keys turn, pair by pair, and scores see the distance.

$$
R_p\,(x_1, x_2) = (x_1 \cos \omega_i p - x_2 \sin \omega_i p,\;
x_2 \cos \omega_i p + x_1 \sin \omega_i p), \qquad
(R_p q)^T R_s k = q^T R_{s - p}\, k
$$

Su et al. 2021 (RoFormer). Course slides D.
"""

import math

import keras
from keras import ops

from kerasseq.core import arguments, checks, masks
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import check_mask, check_numbers
from kerasseq.positions import frequencies

TYPES = ("linear", "ntk", "dynamic", "yarn", "llama3", "dynamic_ntk", "longrope")
BY_LENGTH = ("dynamic_ntk", "longrope")


@register
class RotaryEmbedding(keras.layers.Layer):
    r"""Turn each pair of numbers by an angle that grows with the position.

    Takes what `keras_hub.layers.RotaryEmbedding` takes, and gives its results. As
    `MultiHeadAttention(..., position=RotaryEmbedding())` it turns queries and keys.
    Angles are float32 in mixed precision, too.

    Args:
        max_wavelength: λ: the slowest pair needs nearly 2πλ positions for a turn.
        scaling_factor: s, by how much texts are longer than those of the training.
        rope_type: What s does. "linear": positions are divided by it. "ntk": λ grows,
            so that fast pairs stay and the slowest is divided. "yarn": fast pairs stay,
            slow ones are divided, and scores get sharper. "llama3": the same by other
            bounds, without the sharper scores. "dynamic": KerasHub's, which divides
            positions by $s^{D/(D-2)}$. "dynamic_ntk": that of LLaMA, as "ntk" for texts
            longer than the original length, with a λ that grows with them. "longrope":
            ω is divided by `short_factor` for texts of up to the original length and by
            `long_factor` for longer ones, and scores get sharper.
        beta_fast: For "yarn": a pair with so many turns within the original length
            stays.
        beta_slow: For "yarn": one with fewer than so many is divided.
        original_max_position_embeddings: For "yarn", "llama3", "dynamic_ntk" and
            "longrope": the length of the training.
        truncate: For "yarn": whether what lies between begins and ends at whole pairs.
        sequence_axis: T, when it is called as a layer.
        feature_axis: D, when it is called as a layer.
        denominator_dim: Instead of the D under the exponent of ω; not for "yarn" and
            "llama3".
        interleaved: Whether neighbours make a pair, as in RoFormer and GPT-J, instead
            of a number of the first half and one of the second, as in LLaMA.
        fraction: Of the numbers, how many turn: 0.25 in GPT-NeoX. The first ones do.
        attention_factor: For "yarn" and "longrope": what turned numbers are multiplied
            by; if None, $0.1 \ln s + 1$ for "yarn", and for "longrope", with the
            original length T, $\sqrt{1 + \ln s / \ln T}$, at least 1.
        low_freq_factor: For "llama3": a pair with fewer than so many turns within the
            original length is divided.
        high_freq_factor: For "llama3": one with more than so many stays.
        short_factor: For "longrope": D / 2 numbers above 0, one for each pair.
        long_factor: The same for longer texts.
        **kwargs: As for any layer.

    Call arguments:
        inputs: `(B, T, D)`, `(B, T, N, D)`, or with axes in another order.
        start_index: The position of the first token, as in decoding step by step.
        positions: `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, filled in by Keras: positions are counted over what is
            real.

    Returns:
        The inputs, turned.

    Raises:
        ValueError: If an argument is out of range, or an odd number of numbers turns.

    Examples:
        >>> turned = RotaryEmbedding()(np.ones((2, 7, 3, 4)))
        >>> keras.ops.shape(turned)
        (2, 7, 3, 4)
    """

    def __init__(
        self,
        max_wavelength=10000,
        scaling_factor=1.0,
        rope_type="linear",
        beta_fast=32.0,
        beta_slow=1.0,
        original_max_position_embeddings=4096,
        truncate=True,
        sequence_axis=1,
        feature_axis=-1,
        denominator_dim=None,
        *,
        interleaved=False,
        fraction=1.0,
        attention_factor=None,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        short_factor=None,
        long_factor=None,
        **kwargs,
    ):
        arguments.check(locals())
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True
        self.max_wavelength = frequencies.check_wavelength(max_wavelength)
        self.scaling_factor = scaling_factor
        self.rope_type = checks.one_of("rope_type", rope_type, TYPES)
        self.beta_fast, self.beta_slow = beta_fast, beta_slow
        self.original_max_position_embeddings = checks.whole_number(
            "original_max_position_embeddings", original_max_position_embeddings
        )
        self.truncate = bool(truncate)
        self.sequence_axis, self.feature_axis = sequence_axis, feature_axis
        self.denominator_dim = denominator_dim
        self.interleaved = bool(interleaved)
        self.fraction = checks.fraction("fraction", fraction)
        self.attention_factor = attention_factor
        self.low_freq_factor, self.high_freq_factor = low_freq_factor, high_freq_factor
        self.short_factor, self.long_factor = short_factor, long_factor
        self._check()
        self.built = True

    def _check(self):
        s = self.scaling_factor
        if not 0 < s < math.inf:
            raise ValueError(f"scaling_factor must be a number above 0, got {s}")
        if not self.beta_fast > self.beta_slow > 0:
            raise ValueError(
                "beta_fast and beta_slow are numbers of turns, the first larger, got "
                f"{self.beta_fast} and {self.beta_slow}"
            )
        if not self.high_freq_factor > self.low_freq_factor > 0:
            raise ValueError(
                "low_freq_factor and high_freq_factor are numbers of turns, the second "
                f"larger, got {self.low_freq_factor} and {self.high_freq_factor}"
            )

        for name in ("short_factor", "long_factor"):
            if self.rope_type == "longrope":
                setattr(self, name, _checked_factors(name, getattr(self, name)))
            elif getattr(self, name) is not None:
                raise ValueError(
                    f'{name} is for rope_type="longrope", received '
                    f"rope_type={self.rope_type!r}. Leave it out"
                )

    @property
    def constant_length(self):
        """The longest text up to which each pair turns by one speed; None for any.

        Beyond it the speed depends on the length of the text, and keys that were
        rotated before, as those in a cache, do not fit to those of a longer one.
        """
        is_constant = self.rope_type not in BY_LENGTH
        return None if is_constant else self.original_max_position_embeddings

    def call(self, inputs, start_index=0, positions=None, *, mask=None):
        axes = self.sequence_axis, self.feature_axis
        check_numbers("inputs", inputs, more=True)
        sizes = inputs.shape[0], inputs.shape[self.sequence_axis]
        check_mask("mask", mask, ("batch", "time"), sizes)
        x = ops.moveaxis(inputs, axes, (1, -1))
        at = masks.positions(mask, ops.shape(x)[1], start_index, positions)
        return ops.moveaxis(self.rotate(x, at), (1, -1), axes)

    def rotate(self, x, positions):
        """Turn queries or keys: what `MultiHeadAttention` asks of a position.

        Args:
            x: `(B, T, ..., D)`.
            positions: `(B, T)` or `(1, T)`.

        Returns:
            `(B, T, ..., D)`.
        """
        D = self._width(x.shape[-1])
        at = self._angles(positions, D)  # (B, T, D / 2)
        for _ in x.shape[2:-1]:
            at = at[:, :, None]
        factor = self._factor()
        cos, sin = (ops.cast(factor * f(at), x.dtype) for f in (ops.cos, ops.sin))
        turning, rest = x[..., :D], x[..., D:]
        x_1, x_2 = self._pairs(turning, D)
        turned = (x_1 * cos - x_2 * sin, x_2 * cos + x_1 * sin)
        if self.interleaved:
            turned = ops.reshape(ops.stack(turned, -1), ops.shape(turning))
            return ops.concatenate([turned, rest], -1)
        return ops.concatenate([*turned, rest], -1)

    def _angles(self, positions, D):
        """`(B, T, D / 2)`; by the length of each text where ω depends on it."""
        if self.rope_type not in BY_LENGTH:
            return frequencies.angles(positions, self._frequencies(D))
        p = ops.cast(positions, "float32")
        length = ops.max(p, axis=1)[:, None, None] + 1  # (B, 1, 1)
        trained = self.original_max_position_embeddings
        base, s = self.max_wavelength, self.scaling_factor
        if self.rope_type == "dynamic_ntk":
            omega = frequencies.dynamic_ntk(D, base, s, length, trained)
        else:
            short, long = (
                frequencies.divided(D, base, name, getattr(self, name))
                for name in ("short_factor", "long_factor")
            )
            omega = ops.where(length > trained, long, short)
        return p[..., None] * omega

    def _width(self, D):
        """How many numbers turn."""
        turning = int(D * self.fraction)
        if turning % 2 or not turning:
            part = "" if self.fraction == 1 else f" and fraction={self.fraction}"
            raise ValueError(
                "numbers turn in pairs, so that an even number of them must turn; with "
                f"a width of {D}{part} it would be {turning}"
            )
        return turning

    def _pairs(self, x, D):
        if self.interleaved:
            return x[..., 0::2], x[..., 1::2]
        return x[..., : D // 2], x[..., D // 2 :]

    def _frequencies(self, D):
        """ω of each pair."""
        base, s = self.max_wavelength, self.scaling_factor
        if self.rope_type == "ntk":
            return frequencies.ntk(D, base, s, self.denominator_dim)
        if self.rope_type == "yarn":
            length = self.original_max_position_embeddings
            betas = self.beta_fast, self.beta_slow
            return frequencies.yarn(D, base, s, length, *betas, self.truncate)
        if self.rope_type == "llama3":
            length = self.original_max_position_embeddings
            bounds = self.low_freq_factor, self.high_freq_factor
            return frequencies.llama3(D, base, s, length, *bounds)
        if self.rope_type == "dynamic":
            s = s ** (D / max(D - 2, 1))
        return frequencies.frequencies(D, base, self.denominator_dim) / s

    def _factor(self):
        """What turned numbers are multiplied by, and scores by its square."""
        s, T = self.scaling_factor, self.original_max_position_embeddings
        if self.rope_type not in ("yarn", "longrope"):
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        if self.rope_type == "yarn":
            return 0.1 * math.log(s) + 1
        return math.sqrt(1 + math.log(s) / math.log(T)) if s > 1 else 1.0

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        names = (
            "max_wavelength scaling_factor rope_type beta_fast beta_slow "
            "original_max_position_embeddings truncate sequence_axis feature_axis "
            "denominator_dim interleaved fraction attention_factor low_freq_factor "
            "high_freq_factor short_factor long_factor"
        )
        config = {name: getattr(self, name) for name in names.split()}
        return {**super().get_config(), **config}


def _checked_factors(name, value):
    """The factors of "longrope" as a list of floats.

    Examples:
        >>> _checked_factors("long_factor", [1, 2.5])
        [1.0, 2.5]
    """
    known = isinstance(value, list | tuple) and len(value) > 0
    if not known or not all(0 < checks.number(name, x) < math.inf for x in value):
        raise ValueError(
            f"{name} must be a list of finite numbers above 0, one for each pair of "
            f'features, received {value!r}. rope_type="longrope" needs it'
        )
    return [float(x) for x in value]
