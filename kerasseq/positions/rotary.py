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

from kerasseq.core import checks, masks
from kerasseq.core.serialization import check_float64, register
from kerasseq.positions import frequencies

TYPES = ("linear", "ntk", "dynamic", "yarn", "llama3")


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
            positions by $s^{D/(D-2)}$.
        beta_fast: For "yarn": a pair with so many turns within the original length
            stays.
        beta_slow: For "yarn": one with fewer than so many is divided.
        original_max_position_embeddings: For "yarn" and "llama3": the length of the
            training.
        truncate: For "yarn": whether what lies between begins and ends at whole pairs.
        sequence_axis: T, when it is called as a layer.
        feature_axis: D, when it is called as a layer.
        denominator_dim: Instead of the D under the exponent of ω; not for "yarn" and
            "llama3".
        interleaved: Whether neighbours make a pair, as in RoFormer and GPT-J, instead
            of a number of the first half and one of the second, as in LLaMA.
        fraction: Of the numbers, how many turn: 0.25 in GPT-NeoX. The first ones do.
        attention_factor: For "yarn": what turned numbers are multiplied by;
            $0.1 \ln s + 1$ if None.
        low_freq_factor: For "llama3": a pair with fewer than so many turns within the
            original length is divided.
        high_freq_factor: For "llama3": one with more than so many stays.
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
        **kwargs,
    ):
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

    def call(self, inputs, start_index=0, positions=None, *, mask=None):
        axes = self.sequence_axis, self.feature_axis
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
        at = frequencies.angles(positions, self._frequencies(D))  # (B, T, D / 2)
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
        if self.rope_type != "yarn":
            return 1.0
        if self.attention_factor is None:
            return 0.1 * math.log(self.scaling_factor) + 1
        return self.attention_factor

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        names = (
            "max_wavelength scaling_factor rope_type beta_fast beta_slow "
            "original_max_position_embeddings truncate sequence_axis feature_axis "
            "denominator_dim interleaved fraction attention_factor low_freq_factor "
            "high_freq_factor"
        )
        config = {name: getattr(self, name) for name in names.split()}
        return {**super().get_config(), **config}
