r"""RWKV-7: a delta rule with decay, rate and erasing for each channel.

$$
\begin{aligned}
\mathrm{lerp}_\mu(x)_t &= x_t + \mu \odot (x_{t-1} - x_t) \\
r_t, k_t, v_t &= \mathrm{lerp}_{\mu_r}(x)_t W^r,\ \mathrm{lerp}_{\mu_k}(x)_t W^k,\
\mathrm{lerp}_{\mu_v}(x)_t W^v \\
w_t &= \exp\left(-e^{-1/2}\, \sigma(\tanh(\mathrm{lerp}_{\mu_w}(x)_t W^w_1) W^w_2
+ b_w)\right) \\
a_t &= \sigma(\mathrm{lerp}_{\mu_a}(x)_t W^a_1 W^a_2 + b_a), \qquad
g_t = \sigma(\mathrm{lerp}_{\mu_g}(x)_t W^g_1) W^g_2 \\
\nu_t &= \sigma(\mathrm{lerp}_{\mu_v}(x)_t W^\nu_1 W^\nu_2 + b_\nu), \qquad
v_t \leftarrow v_t + \nu_t \odot (v^{\mathrm{first}}_t - v_t) \\
\kappa_t &= \frac{\xi \odot k_t}{\lVert \xi \odot k_t \rVert}, \qquad
\tilde k_t = k_t \odot (1 + \alpha \odot (a_t - 1)) \\
S_t &= \mathrm{diag}(w_t)\, S_{t-1} - (a_t \odot \kappa_t)(\kappa_t^T S_{t-1})
+ \tilde k_t v_t^T, \qquad y_t = S_t^T r_t \\
p_t &= \mathrm{LayerNorm}(y_t) + (r_t^T (\rho \odot \tilde k_t))\, v_t \\
\mathrm{TimeMix}_t &= (g_t \odot p_t)\, W^o
\end{aligned}
$$

where $\kappa$, S, y, the norm and the last sum are those of each head, and
$v^{\mathrm{first}}$ are the values of the first block, which has no $\nu$. What is
erased is read from the state before it decays. Peng et al. 2025 (arXiv 2503.14456).
"""

import math
from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks, masks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_sequence
from kerasseq.core.types import Identifier, Shape, Tensor
from kerasseq.kernels.linear_recurrence import fits
from kerasseq.linear import rwkv7_initial as initial
from kerasseq.linear.head_kernel import HeadKernel
from kerasseq.linear.lerp_shift import LerpShift

LOG_DECAY = -math.exp(-0.5)  # the lowest log w


@register
class RWKV7TimeMix(HeadKernel, LerpShift):
    r"""The layer of RWKV-7 that reads the sequence, in place of self-attention.

    A state of constant size is an associative memory: at each step it decays by w in
    each channel, a part a of what the key κ reads is erased, and a value is written.
    Any cut of a sequence gives the result of the whole: `advance` continues from the
    last input and the state.

    In a stack of blocks, layers after the first mix their values with those of the
    first block, which `return_value` returns and `first_value` passes on.

    A trace has `receptance` r, `key` $\tilde k$ and `value` v, which are written,
    `removal_key` κ and `rate` a, by which is erased, `decay` w, the `heads` y, `gate`
    g, `value_mix` ν, and the `alignment` `(B, N, T, T)` with which alignment · value =
    heads.

    Args:
        num_heads: N, number of heads.
        key_dim: K, width of each head; D / N if None.
        decay_rank: Width between $W^w_1$ and $W^w_2$. If a rank is None, it grows with
            D as in the published models.
        rate_rank: That of $W^a_1$ and $W^a_2$.
        value_rank: That of $W^\nu_1$ and $W^\nu_2$.
        gate_rank: That of $W^g_1$ and $W^g_2$.
        epsilon: ε of the norm of the heads.
        layer_index: Index of the block, from 0, on which initial values depend.
        num_layers: L, number of blocks.
        kernel_initializer: Initializer of the projections' kernels.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.
        first_value: The values of the first block, `(B, T, N K)`, for all layers after
            it.
        return_value: Whether to return the values of the first block as well.
        x_mask: Set by Keras where `first_value` is given, and used without a mask.

    Returns:
        `(B, T, D)`; with `return_value` a pair of it and `(B, T, N K)`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range, the heads do not divide the width,
            or the shapes do not match.

    Examples:
        >>> first = RWKV7TimeMix(2, num_layers=2)
        >>> second = RWKV7TimeMix(2, layer_index=1, num_layers=2)
        >>> x = np.random.default_rng(0).normal(size=(3, 7, 10))
        >>> y, value = first(x, return_value=True)
        >>> keras.ops.shape(second(y, first_value=value))
        (3, 7, 10)
        >>> y, states = first.advance(x)  # and on with first.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]
        [(3, 10), (3, 2, 5, 5)]

    References:
        Peng et al. 2025, "RWKV-7 Goose". Slides A.
    """

    receptance_dense: keras.layers.Dense
    key_dense: keras.layers.Dense
    value_dense: keras.layers.Dense
    output_dense: keras.layers.Dense
    decay_down: keras.layers.Dense
    decay_up: keras.layers.Dense
    rate_down: keras.layers.Dense
    rate_up: keras.layers.Dense
    value_down: keras.layers.Dense
    value_up: keras.layers.Dense
    gate_down: keras.layers.Dense
    gate_up: keras.layers.Dense
    removal_scale: keras.Variable  # ξ
    rate_scale: keras.Variable  # α
    bonus: keras.Variable  # ρ
    norm_scale: keras.Variable
    norm_offset: keras.Variable

    @passes_on(LerpShift)
    def __init__(
        self,
        num_heads: int,
        key_dim: int | None = None,
        *,
        decay_rank: int | None = None,
        rate_rank: int | None = None,
        value_rank: int | None = None,
        gate_rank: int | None = None,
        epsilon: float = 64e-5,
        layer_index: int = 0,
        num_layers: int = 1,
        kernel_initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        optional, size = checks.optional, checks.size
        self.num_heads: int = size("num_heads", num_heads)
        self.key_dim: int | None = optional(size, "key_dim", key_dim)
        self.decay_rank: int | None = optional(size, "decay_rank", decay_rank)
        self.rate_rank: int | None = optional(size, "rate_rank", rate_rank)
        self.value_rank: int | None = optional(size, "value_rank", value_rank)
        self.gate_rank: int | None = optional(size, "gate_rank", gate_rank)
        self.epsilon: float = checks.positive("epsilon", epsilon)

    def build(self, shape: Shape) -> None:
        self._start_build(shape)
        D, N = self.width, self.num_heads
        self.head_width: int = self.key_dim or self._divided(D, N)
        self.channels: int = N * self.head_width
        A = self.channels
        checks.fits_memory("key_dim", self.head_width, 4 * N * D)
        for name, power in initial.MIX_POWERS.items():
            setattr(self, f"{name}_mix", self._lerp_weight(name, power * self.rest))
        self.receptance_dense = self._dense("receptance", D, A)
        self.key_dense = self._dense("key", D, A)
        self.value_dense = self._dense("value", D, A)
        self._build_low_rank(initial.biases(N, self.head_width, self.start))
        self.removal_scale = self._channel_weight("removal_scale", A, 0.71)
        self.rate_scale = self._channel_weight("rate_scale", A, 1.02)
        self.bonus = self._channel_weight("bonus", (N, self.head_width), -0.04)
        self.norm_scale = self._channel_weight("norm_scale", A, 1.0)
        self.norm_offset = self._channel_weight("norm_offset", A, 0.0)
        self.output_dense = self._dense("attention_output", A, D)
        self.built = True

    @staticmethod
    def _divided(D, N):
        if D % N:
            raise ValueError(
                f"num_heads must divide the width {D} of x, received num_heads={N}. "
                "Choose a divisor, or pass key_dim"
            )
        return D // N

    def _channel_weight(self, name, shape, start):
        return self.add_weight(
            name=name,
            shape=shape if isinstance(shape, tuple) else (shape,),
            initializer=keras.initializers.Constant(start),
            autocast=False,
        )

    def _build_low_rank(self, biases):
        """Builds pairs of matrices with a rank between, `decay_down` and so on."""
        D, A = self.width, self.channels
        for name, default in initial.ranks(D).items():
            if name == "value" and not self.layer_index:
                continue
            rank = getattr(self, f"{name}_rank") or default
            checks.fits_memory(f"{name}_rank", rank, D + A)
            down = self._dense(f"{name}_down", D, rank)
            bias = {"use_bias": name in biases, "bias_initializer": biases.get(name)}
            up = self.built_dense(f"{name}_up", rank, A, **bias)
            setattr(self, f"{name}_down", down)
            setattr(self, f"{name}_up", up)

    def state_shapes(self) -> list[Shape]:
        K = self.head_width
        return [(self.width,), (self.num_heads, K, K)]

    def state_dtypes(self) -> list[str]:
        return [self.compute_dtype, self.state_dtype]

    def call(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        training: bool = False,
        *,
        first_value: Tensor | None = None,
        return_value: bool = False,
        x_mask: Tensor | None = None,
    ) -> Any:
        self.check_replacements()
        mask = masks.first_given(mask, x_mask)
        return self._advance(x, [None, None], mask, first_value, return_value)[0]

    def advance(
        self,
        x: Tensor,
        states: list[Tensor] | None = None,
        mask: Tensor | None = None,
        *,
        first_value: Tensor | None = None,
        return_value: bool = False,
    ) -> tuple[Any, list[Tensor]]:
        """Continues from `states`; see the call for the values of the first block.

        Args:
            x: `(B, T, D)`.
            states: The states that an earlier call returned; None to start.
            mask: Boolean `(B, T)`, False at padding. No padding if None.
            first_value: As in a call.
            return_value: As in a call.

        Returns:
            What a call returns, and the list of states to continue from.

        Raises:
            TypeError: If `states` is not a list of tensors.
            ValueError: If the states are those of another layer or batch, or
                `first_value` does not fit.
        """
        value = () if first_value is None else (first_value,)
        return self._continue(x, states, mask, *value, return_value=return_value)

    def _advance(self, x, states, mask, first_value=None, return_value=False):
        x, mask = self.checked(x, mask)
        self._check_value(first_value, x)
        first_value = masks.zero_masked(first_value, mask)
        before, last = self.shift(x, states[0], mask)
        mixed = {
            name: self.lerp(getattr(self, f"{name}_mix"), x, before)
            for name in initial.MIX_POWERS
        }
        v = kernels.dense(self.value_dense, mixed["value"])
        v = v if first_value is None else self._mix_values(v, first_value, mixed)
        y, S = self._heads(mixed, v, states[1], mask)
        y = kernels.dense(self.output_dense, y * self._gate(mixed["gate"]))
        y = tracing.record(self, "context", y)
        if return_value:
            y = y, (v if first_value is None else first_value)
        return y, [last, S]

    def _mix_values(self, v, first, mixed):
        z = kernels.dense(self.value_down, mixed["value"])
        nu = ops.sigmoid(kernels.dense(self.value_up, z))
        nu = tracing.record(self, "value_mix", nu)
        return v + nu * (ops.cast(first, v.dtype) - v)

    def _gate(self, x):
        z = ops.sigmoid(kernels.dense(self.gate_down, x))
        return tracing.record(self, "gate", kernels.dense(self.gate_up, z))

    def _heads(self, mixed, v, S, mask):
        """Returns the normalized heads with their bonus `(B, T, A)`, and the state."""
        rho, xi, alpha = map(self._per_head, ("bonus", "removal_scale", "rate_scale"))
        r = self._split(kernels.dense(self.receptance_dense, mixed["receptance"]))
        k = self._split(kernels.dense(self.key_dense, mixed["key"]))
        a = self.record_heads("rate", self._rate(mixed["rate"]), domain=(0, 1))
        kappa = self.record_heads("removal_key", _unit(xi * k))
        k = k * (1 + alpha * (a - 1))
        r, k, v = (
            self.record_heads(name, x)
            for name, x in (("receptance", r), ("key", k), ("value", self._split(v)))
        )
        if S is None:
            S = ops.zeros((ops.shape(r)[0], *self.state_shapes()[1]), r.dtype)
        options = {"log_decay": self._log_decay(mixed["decay"]), "mask": mask}
        options |= {"b": a * kappa, "c": -kappa}
        y, S = self.run_recorded(r, k, v, S, **options)
        p = self._norm(y) + ops.sum(r * rho * k, axis=-1, keepdims=True) * v
        p = ops.reshape(p, (*ops.shape(p)[:2], self.channels))
        return ops.cast(p, self.compute_dtype), S

    def _split(self, x):
        """Returns `(B, T, N, K)` of `(B, T, A)`, in the dtype of the state."""
        return self.to_heads(ops.cast(x, self.state_dtype), self.head_width)

    def _per_head(self, name):
        """Returns a weight of all channels as `(N, K)`."""
        weight = ops.cast(getattr(self, name), self.state_dtype)
        return ops.reshape(weight, (self.num_heads, self.head_width))

    def _rate(self, x):
        z = kernels.dense(self.rate_up, kernels.dense(self.rate_down, x))
        return ops.sigmoid(self._split(z))

    def _log_decay(self, x):
        z = kernels.tanh(kernels.dense(self.decay_down, x))
        z = self._split(kernels.dense(self.decay_up, z))
        return self.record_decay(LOG_DECAY * ops.sigmoid(z))

    def _norm(self, y):
        """Normalizes each head over its features."""
        # A mean would be float32 on PyTorch.
        y = y - ops.sum(y, axis=-1, keepdims=True) / self.head_width
        square = ops.sum(y * y, axis=-1, keepdims=True) / self.head_width
        y = y * ops.rsqrt(square + self.epsilon)
        return y * self._per_head("norm_scale") + self._per_head("norm_offset")

    def _check_value(self, value, x):
        """Raises unless there are values of the first block exactly after it."""
        index = f"layer_index={self.layer_index}"
        if value is None and self.layer_index:
            raise ValueError(
                "first_value must be the values of the first block in a layer after "
                f"it, received None and {index}. Call the first layer with "
                "return_value=True, and pass them on"
            )
        if value is None:
            return
        if not self.layer_index:
            raise ValueError(
                "first_value must be None in the first block, received a tensor and "
                f"{index}. Leave it out"
            )
        check_sequence("first_value", value)
        wanted = (*x.shape[:2], self.channels)
        if not fits(value.shape, wanted):
            raise ValueError(
                f"first_value must have shape {wanted}, received shape "
                f"{tuple(value.shape)}. Pass the values of the first block for x"
            )

    def compute_output_spec(
        self, x: Any, *args: Any, return_value: bool = False, **kwargs: Any
    ) -> Any:
        y = super().compute_output_spec(x, *args, **kwargs)
        if not return_value:
            return y
        shape = (*x.shape[:2], self.channels)
        return y, keras.KerasTensor(shape, self.compute_dtype)


def _unit(x):
    """Returns unit vectors along the last axis; zeros of zeros."""
    square = ops.sum(x * x, axis=-1, keepdims=True)
    return x * ops.rsqrt(square + 1e-12)
