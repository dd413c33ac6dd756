r"""RWKV-4: a weighted mean of all earlier values whose weights decay, with a state.

$$
\begin{aligned}
\mathrm{mix}_\mu(x)_t &= \mu \odot x_t + (1 - \mu) \odot x_{t-1} \\
r_t, k_t, v_t &= \mathrm{mix}_{\mu_r}(x)_t W^r,\ \mathrm{mix}_{\mu_k}(x)_t W^k,\
\mathrm{mix}_{\mu_v}(x)_t W^v \\
y_t &= \frac{\sum_{s<t} e^{k_s - (t-1-s) w} v_s + e^{u + k_t} v_t}
{\sum_{s<t} e^{k_s - (t-1-s) w} + e^{u + k_t}} \\
\mathrm{TimeMix}_t &= (\sigma(r_t) \odot y_t)\, W^o \\
\mathrm{ChannelMix}_t &= \sigma(\mathrm{mix}_{\mu_r}(x)_t W^r) \odot
\mathrm{ReLU}(\mathrm{mix}_{\mu_k}(x)_t W^k)^2\, W^v
\end{aligned}
$$

with a decay $w = e^{\mathrm{time\_decay}} > 0$ for each channel. Both sums are linear
recurrences. They are stored divided by $e^{m_t}$, the largest term so far, so that no
exponential overflows: $m_t = \max(m_{t-1} - w, k_t)$. Peng et al. 2023 (arXiv
2305.13048); the numbers are those of Hugging Face's `RwkvModel`.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Identifier, Shape, Tensor
from kerasseq.linear.token_shift import ChannelMix, TokenShift
from kerasseq.tracing import listeners
from kerasseq.tracing.channels import record_alignment
from kerasseq.tracing.intervention import is_replaced
from kerasseq.tracing.states import record_states

LEAST_DECAY = 1e-30  # its logarithm can be multiplied by a number of steps
NOTHING = -1e38  # m before the first step: e to this power is 0


@register
class RWKV4TimeMix(TokenShift):
    r"""The layer of RWKV-4 that reads the sequence, in place of self-attention.

    $y_t$ is a mean of the values so far: weights decay with the distance by $e^{-w}$ in
    each channel, and the current step has the bonus u. Any cut of a sequence gives the
    result of the whole: `advance` continues from the last input, the two sums, and the
    logarithm of their scale.

    A trace has `key`, `value`, `receptance` $\sigma(r)$, `decay` $e^{-w}$, `written`,
    the part of the largest term that a step adds, `hidden_state`, the sum of values,
    the `output` y, and the `alignment` of `alignment_channels`, `(B, channels, T, T)`,
    with which alignment · value = output.

    Args:
        units: Channels of keys and values; the width of the inputs if None.
        layer_index: Index of the block, from 0, on which initial decays and mixes
            depend.
        num_layers: L, number of blocks.
        alignment_channels: The channels whose alignment a trace records.
        kernel_initializer: Initializer of the projections' kernels.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.

    Returns:
        `(B, T, D)`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = RWKV4TimeMix()
        >>> x = np.random.default_rng(0).normal(size=(2, 7, 5))
        >>> keras.ops.shape(layer(x))
        (2, 7, 5)
        >>> y, states = layer.advance(x)  # and on with layer.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]
        [(2, 5), (2, 5), (2, 5), (2, 5)]
    """

    receptance_dense: keras.layers.Dense
    key_dense: keras.layers.Dense
    value_dense: keras.layers.Dense
    output_dense: keras.layers.Dense
    time_decay: keras.Variable  # log w
    time_first: keras.Variable  # u

    @passes_on(TokenShift)
    def __init__(
        self,
        units: int | None = None,
        *,
        layer_index: int = 0,
        num_layers: int = 1,
        alignment_channels: Sequence[int] = (0, 1, 2, 3),
        kernel_initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        self.units: int | None = checks.optional(checks.size, "units", units)
        self.alignment_channels: list[int] = checks.channels(
            "alignment_channels", alignment_channels
        )

    @property
    def state_dtype(self) -> str:
        """The dtype of the sums: float32 in mixed precision."""
        return kernels.state_dtype(self.compute_dtype)

    def build(self, shape: Shape) -> None:
        self._start_build(shape)
        D = self.width
        self.channels: int = self.units or D
        A = self.channels
        checks.fits_memory("units", A, 4 * D)
        for name, power, offset in (
            ("key", self.rest, 0.0),
            ("value", self.rest, 0.3 * self.start),
            ("receptance", 0.5 * self.rest, 0.0),
        ):
            setattr(self, f"{name}_mix", self._mix_weight(name, power, offset))
        self.receptance_dense = self._dense("receptance", D, A)
        self.key_dense = self._dense("key", D, A)
        self.value_dense = self._dense("value", D, A)
        self.output_dense = self._dense("attention_output", A, D)
        options = {"shape": (A,), "autocast": False}
        self.time_decay = self.add_weight(
            name="time_decay", initializer=self._decays, **options
        )
        self.time_first = self.add_weight(
            name="time_first", initializer=first_bonuses, **options
        )
        self.built = True

    def _decays(self, shape: Shape, dtype: DType | None = None) -> Tensor:
        """Returns initial log w, from -5 to 3: slow in the first channels."""
        channels = ops.arange(shape[0], dtype=dtype) / max(shape[0] - 1, 1)
        # As in the published code of RWKV-4.
        return -5 + 8 * ops.power(channels, 0.7 + 1.3 * self.start)

    def state_shapes(self) -> list[Shape]:
        return [(self.width,), *[(self.channels,)] * 3]

    def state_dtypes(self) -> list[str]:
        return [self.compute_dtype, *[self.state_dtype] * 3]

    def get_initial_state(self, batch_size: int | Tensor) -> list[Tensor]:
        """Returns the states before the first step: no step, empty sums.

        Args:
            batch_size: Number of sequences.
        """
        *zeros, m = super().get_initial_state(batch_size)
        return [*zeros, m + NOTHING]

    def _advance(self, x, states, mask):
        x, mask = self.checked(x, mask)
        before, last = self.shift(x, states[0], mask)
        mixed = [
            self.mix(weight, x, before)
            for weight in (self.receptance_mix, self.key_mix, self.value_mix)
        ]
        layers = self.receptance_dense, self.key_dense, self.value_dense
        r, k, v = map(kernels.dense, layers, mixed)
        r = tracing.record(self, "receptance", ops.sigmoid(r))
        k = tracing.record(self, "key", ops.cast(k, self.state_dtype))
        v = tracing.record(self, "value", ops.cast(v, self.state_dtype))
        y, sums = self.weighted_mean(k, v, states[1:], mask)
        y = kernels.dense(self.output_dense, r * ops.cast(y, r.dtype))
        return tracing.record(self, "context", y), [last, *sums]

    def weighted_mean(
        self,
        k: Tensor,
        v: Tensor,
        states: Sequence[Tensor | None] = (None, None, None),
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the mean of the values so far at each step, and the last sums.

        Args:
            k: `(B, T, A)`.
            v: `(B, T, A)`.
            states: The sum of the values and that of the weights, both divided by
                $e^m$, and m, each `(B, A)`.
            mask: Boolean `(B, T)`, or None.
        """
        if states[0] is None:
            zero = ops.zeros_like(k[:, 0])
            states = [zero, zero, zero + NOTHING]
        terms = self._terms(k, states[2], mask)
        y, sums = self._mean(terms, v, states[:2], mask)
        y = tracing.record(self, "output", y)
        if not is_replaced(self, "hidden_state"):
            y = record_alignment(
                self,
                lambda channels: self._alignment(terms, v, mask, channels),
                *(v, y, self.alignment_channels),
            )
        return y, [*sums, terms["m"][:, -1]]

    def _terms(self, k, m, mask):
        """Computes decays and weights of all steps, relative to the largest so far."""
        log_decay = -ops.exp(ops.cast(self.time_decay, k.dtype))
        log_decay = self._record_decay(log_decay)
        steps = ops.ones_like(k[..., :1]) if mask is None else mask[..., None]
        age = ops.cumsum(ops.cast(steps, k.dtype), axis=1)  # real steps so far
        grown = k - age * log_decay
        if mask is not None:
            grown = ops.where(mask[..., None], grown, NOTHING)
        grown = ops.concatenate([m[:, None], grown], axis=1)
        path = kernels.running_maximum(grown)[:, 1:] + age * log_decay  # (B, T, A)
        path = ops.stop_gradient(path)
        before = ops.concatenate([ops.stop_gradient(m)[:, None], path[:, :-1]], axis=1)
        if mask is not None:
            path = ops.where(mask[..., None], path, before)
        largest = ops.maximum(before, ops.stop_gradient(k + self._bonus(k)))
        power = k - path  # of masked steps before the first it is infinite
        power = power if mask is None else ops.where(mask[..., None], power, 0)
        written = tracing.record(self, "written", ops.exp(power))
        return {
            "decay": ops.exp(before - path + log_decay),
            "written": written,
            "kept": ops.exp(before - largest),  # of the sums, in the output
            "now": ops.exp(k + self._bonus(k) - largest),
            "m": path,
        }

    def _bonus(self, k):
        return ops.cast(self.time_first, k.dtype)

    def _record_decay(self, log_decay):
        if not listeners.active():
            return log_decay
        before = ops.exp(log_decay)
        after = tracing.record(self, "decay", before, axes=("units",), domain=(0, 1))
        if after is before:
            return log_decay
        return ops.log(ops.maximum(after, LEAST_DECAY))

    def _mean(self, terms, v, sums, mask):
        """Returns the weighted mean at each step, and both sums after the last."""
        decay, written = terms["decay"], terms["written"]

        def run(num, now, mask):
            a, b = now["decay"], now["written"]
            return kernels.linear_recurrence(a, b, num, mask=mask)[0]

        num = record_states(
            self,
            run,
            sums[0],
            {"decay": decay, "written": written * v},
            mask,
            axes=("rows", "steps", "units"),
        )
        den, den_last = kernels.linear_recurrence(decay, written, sums[1], mask=mask)
        last = num[:, -1]
        num, den = (
            terms["kept"] * ops.concatenate([state[:, None], path[:, :-1]], axis=1)
            for state, path in zip(sums, (num, den), strict=True)
        )
        now = terms["now"]
        return (num + now * v) / (den + now), [last, den_last]

    def _alignment(self, terms, v, mask, channels):
        """Returns the weights of the values of all steps, `(B, channels, T, T)`."""
        B, T = ops.shape(v)[:2]
        eye = ops.broadcast_to(ops.eye(T, dtype=v.dtype), (B, T, T))  # v = identity
        zero = ops.zeros((B, T), v.dtype)
        rows = []
        for c in channels:
            one = {
                name: ops.broadcast_to(term[..., c : c + 1], (B, T, T))
                for name, term in terms.items()
            }
            rows.append(self._mean(one, eye, [zero, zero], mask)[0])
        return ops.stack(rows, axis=1)


@register
class RWKV4ChannelMix(ChannelMix):
    r"""The feed-forward network of RWKV-4, which reads the step before as well.

    $\sigma(\mathrm{mix}_{\mu_r}(x)_t W^r) \odot
    \mathrm{ReLU}(\mathrm{mix}_{\mu_k}(x)_t W^k)^2\, W^v$. Its state is the last input.

    Args:
        intermediate_dim: F, width of the hidden layer; 4 D if None.
        layer_index: Index of the block, from 0, on which initial mixes depend.
        num_layers: L, number of blocks.
        kernel_initializer: Initializer of the kernels.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.

    Returns:
        `(B, T, D)`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = RWKV4ChannelMix(11)
        >>> y, states = layer.advance(np.ones((2, 7, 5)))
        >>> keras.ops.shape(y), [keras.ops.shape(state) for state in states]
        ((2, 7, 5), [(2, 5)])
    """

    receptance_dense: keras.layers.Dense
    receptance_mix: keras.Variable

    def build(self, shape: Shape) -> None:
        self._start_build(shape)
        self.key_mix = self._mix_weight("key", self.rest)
        self.receptance_mix = self._mix_weight("receptance", self.rest)
        self.receptance_dense = self._dense("receptance", self.width, self.width)
        self._build_hidden()
        self.built = True

    def _advance(self, x, states, mask):
        x, mask = self.checked(x, mask)
        before, last = self.shift(x, states[0], mask)
        k = kernels.dense(self.key_dense, self.mix(self.key_mix, x, before))
        h = tracing.record(self, "hidden", ops.square(ops.relu(k)))  # (B, T, F)
        mixed = self.mix(self.receptance_mix, x, before)
        r = ops.sigmoid(kernels.dense(self.receptance_dense, mixed))
        r = tracing.record(self, "receptance", r)
        y = r * kernels.dense(self.value_dense, h)
        return tracing.record(self, "output", y), [last]


def first_bonuses(shape: Shape, dtype: DType | None = None) -> Tensor:
    """Returns the initial u: log 0.3, plus or minus a half in two of three channels.

    Examples:
        >>> u = keras.ops.convert_to_numpy(first_bonuses((3,)))
        >>> print(np.round(u - u[0], 1))
        [ 0.   0.5 -0.5]
    """
    zigzag = (ops.arange(shape[0]) + 1) % 3 - 1
    return 0.5 * ops.cast(zigzag, dtype or "float32") + math.log(0.3)
