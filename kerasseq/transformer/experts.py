r"""A mixture of experts in place of one feed-forward network.

$$
p = \mathrm{softmax}(x W_r), \qquad
y = \sum_{e \in \mathrm{top}_k(p)} g_e\, \mathrm{FFN}_e(x), \qquad
g_e = \frac{p_e}{\sum_{i \in \mathrm{top}_k(p)} p_i}
$$

So a model has the weights of all E experts, and a token costs what k of them cost. In
training a loss keeps the experts equally busy: with $f_e$ the share of the choices that
fell on expert e and $P_e$ the mean of $p_e$ over the tokens,

$$
L = \lambda\, E \sum_e f_e P_e + \mu\, \mathrm{mean}\,
    \big(\log \textstyle\sum_e \exp (x W_r)_e\big)^2
$$

Shazeer et al. 2017; Lepikhin et al. 2020 (capacity); Fedus, Zoph and Shazeer 2021 (one
expert, the loss); Zoph et al. 2022 (the second term). Slides C.
"""

import functools
from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.core import checks, masks, objects
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_shape
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import matmul, mixture, precise, top_k
from kerasseq.tracing import listeners
from kerasseq.transformer.feed_forward import FEED_FORWARDS, FeedForward, real_inputs


@register
class MixtureOfExperts(Layer):
    r"""E feed-forward networks, of which each token is read by k.

    For `feed_forward=` of a block or a `GPT`. The losses are added in training only, so
    that the loss of `evaluate` is that of the task.

    Args:
        num_experts: E.
        intermediate_dim: F, the width of the hidden layer of an expert.
        top_k: k, the number of experts of a token.
        feed_forward: What an expert is, by name: "relu", "gelu", "gelu_tanh", "silu",
            and with a gate "glu", "bilinear", "reglu", "geglu", "geglu_tanh", "swiglu".
        capacity_factor: c. In training an expert reads at most $\lceil c\, n k / E
            \rceil$ of the n real tokens of a sequence, the first ones that chose it;
            the others get nothing from it. If None, and outside training, no token is
            dropped.
        norm_topk_prob: Whether the gates are divided by their sum. With one expert they
            would be 1, and the router would not learn.
        router_aux_loss_coef: $\lambda$. The term is 1 where all experts are equally
            busy, for every k.
        router_z_loss_coef: $\mu$.
        router_jitter_noise: $\epsilon$; in training the router reads x times numbers
            from $1 - \epsilon$ to $1 + \epsilon$.
        shared_experts: Number of experts that read every token, with gate 1, as one
            network of that many times the width.
        use_bias: Whether the dense layers have biases. The router has none.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Seed of the noise.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`, or with any axes before the last.
        training: Whether to add the losses, drop tokens and draw noise.
        mask: Boolean, of the axes of x before the last; True at real tokens. Others
            are read by no expert, count nowhere, and their output is zero.

    Returns:
        A tensor with the shape of x.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `norm_topk_prob` is set with
            `top_k=1` and several experts.

    Examples:
        >>> layer = MixtureOfExperts(4, 11, top_k=2)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 5)
        >>> [tuple(weight.shape) for weight in layer.weights]
        [(5, 4), (4, 5, 11), (4, 5, 11), (4, 11, 5)]

    References:
        Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated
        Mixture-of-Experts Layer", 2017; Fedus, Zoph and Shazeer, "Switch Transformers",
        2021. Slides C.
    """

    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        num_experts: int,
        intermediate_dim: int,
        *,
        top_k: int = 2,
        feed_forward: str = "swiglu",
        capacity_factor: float | None = None,
        norm_topk_prob: bool = True,
        router_aux_loss_coef: float = 0.01,
        router_z_loss_coef: float = 0.0,
        router_jitter_noise: float = 0.0,
        shared_experts: int = 0,
        use_bias: bool = False,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.num_experts: int = checks.size("num_experts", num_experts)
        self.intermediate_dim: int = checks.size("intermediate_dim", intermediate_dim)
        self.top_k: int = checks.size("top_k", top_k)
        if self.top_k > self.num_experts:
            raise ValueError(
                f"top_k must be at most num_experts={num_experts}, received {top_k}. "
                "Choose fewer experts for each token"
            )
        self.feed_forward: str = checks.one_of(
            "feed_forward", feed_forward, FEED_FORWARDS
        )
        self.capacity_factor: float | None = checks.optional(
            checks.positive, "capacity_factor", capacity_factor
        )
        self.norm_topk_prob: bool = checks.flag("norm_topk_prob", norm_topk_prob)
        if self.norm_topk_prob and self.top_k == 1 < self.num_experts:
            raise ValueError(
                "norm_topk_prob=True needs a top_k of at least 2, received 1: the gate "
                "would always be 1, and the router would not learn. Pass "
                "norm_topk_prob=False"
            )
        self.router_aux_loss_coef: float = checks.loss_factor(
            "router_aux_loss_coef", router_aux_loss_coef
        )
        self.router_z_loss_coef: float = checks.loss_factor(
            "router_z_loss_coef", router_z_loss_coef
        )
        self.router_jitter_noise: float = checks.rate(
            "router_jitter_noise", router_jitter_noise
        )
        self.shared_experts: int = checks.whole_number(
            "shared_experts", shared_experts, 0
        )
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        if self.router_jitter_noise:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape, "(batch, features)", more=True)
        D, E, F = shape[-1], self.num_experts, self.intermediate_dim
        checks.fits_memory("intermediate_dim", F, D * E)
        self.input_width = D
        self.router_kernel: keras.Variable = self.add_weight(
            name="router_kernel", shape=(D, E), initializer=self.kernel_initializer
        )
        gated = FEED_FORWARDS[self.feed_forward][1]
        sizes = {"gate": (D, F)} if gated else {}
        sizes |= {"intermediate": (D, F), "output": (F, D)}
        self.kernels: dict[str, keras.Variable] = {
            n: self._of_experts("_".join((n, "kernel")), s) for n, s in sizes.items()
        }
        self.biases: dict[str, keras.Variable] = {}
        if self.use_bias:
            self.biases = {
                name: self._of_experts(f"{name}_bias", size[1:])
                for name, size in sizes.items()
            }
        if self.shared_experts:
            activation, gated = FEED_FORWARDS[self.feed_forward]
            copy = objects.copy_initializer
            self.shared: FeedForward = FeedForward(
                self.shared_experts * F,
                activation=activation,
                gated=gated,
                use_bias=self.use_bias,
                kernel_initializer=copy(self.kernel_initializer),
                bias_initializer=copy(self.bias_initializer),
                name="shared",
                dtype=self.dtype_policy,
            )
            self.shared.build(shape)
        self.built = True

    def _of_experts(self, name, shape):
        """Adds a weight `(E, *shape)`, each expert with its own draw."""
        of_kernels = len(shape) > 1
        one = self.kernel_initializer if of_kernels else self.bias_initializer
        return self.add_weight(
            name=name,
            shape=(self.num_experts, *shape),
            initializer=functools.partial(_draw, one),
        )

    def call(
        self, x: Tensor, training: bool = False, *, mask: Tensor | None = None
    ) -> Tensor:
        x = real_inputs(x, mask, self.input_width)
        real = ops.ones(ops.shape(x)[:-1], "bool") if mask is None else mask
        real = ops.cast(real, "bool")
        s, p = self._route(x, training)
        tracing.record(self, "router", p)
        largest, e = top_k(p, self.top_k)
        g = largest
        if self.norm_topk_prob:
            g = g / ops.sum(g, axis=-1, keepdims=True)
        e = ops.where(real[..., None], e, self.num_experts)  # no expert
        if training:
            self._add_losses(s, p, e, real)
            if self.capacity_factor is not None:
                e = self._drop(e, real)
        if listeners.active():
            self._record(e, g)
        D, k = self.input_width, self.top_k
        rows = (ops.reshape(v, (-1, n)) for v, n in ((x, D), (g, k), (e, k)))
        y = mixture(self._expert, *rows, self._weights())
        y = ops.reshape(y, ops.shape(x))
        if self.shared_experts:
            y = y + masks.zero_masked(self.shared(x), mask)
        return tracing.record(self, "output", y)

    def _route(self, x, training):
        """Computes scores and probabilities of the experts, `(..., E)`, in float32."""
        x = ops.cast(x, self.variable_dtype)
        if training and self.router_jitter_noise:
            epsilon = self.router_jitter_noise
            noise = keras.random.uniform(
                *(ops.shape(x), 1 - epsilon, 1 + epsilon),
                dtype=x.dtype,
                seed=self.seed_generator,
            )
            x = x * noise
        s = matmul(x, ops.convert_to_tensor(self.router_kernel))
        s = ops.cast(s, self.variable_dtype)
        return s, ops.exp(s - ops.logsumexp(s, axis=-1, keepdims=True))

    def _add_losses(self, s, p, e, real):
        """Adds the balance of the experts and the size of the scores to the losses."""
        E = self.num_experts
        real = ops.cast(real, p.dtype)[..., None]
        n = ops.maximum(ops.sum(real), 1)  # real tokens of the batch
        axes = tuple(range(len(p.shape) - 1))
        f = ops.sum(self._choices(e, p.dtype), axis=axes) / (n * self.top_k)
        P = ops.sum(p * real, axis=axes) / n
        loss = self.router_aux_loss_coef * E * ops.sum(f * P)
        if self.router_z_loss_coef:
            z = ops.square(ops.logsumexp(s, axis=-1, keepdims=True))
            loss = loss + self.router_z_loss_coef * ops.sum(z * real) / n
        self.add_loss(loss)

    def _record(self, e, g):
        """Records the choices, the gates, and the share of the choices of an expert."""
        tracing.record(self, "chosen", e)
        tracing.record(self, "gates", g)
        chose = self._choices(e, "float32")
        counts = ops.sum(chose, axis=tuple(range(len(chose.shape) - 1)))
        tracing.record(self, "load", counts / ops.maximum(ops.sum(counts), 1))

    def _choices(self, e, dtype):
        """Returns how often a token chose each of the experts, 0 or 1, `(..., E)`."""
        experts = ops.arange(self.num_experts, dtype="int32")
        return ops.sum(ops.cast(e[..., None] == experts, dtype), axis=-2)

    def _drop(self, e, real):
        """Drops the choices beyond the capacity of an expert in a sequence."""
        E, k = self.num_experts, self.top_k
        chose = self._choices(e, "int32")
        axis = max(len(e.shape) - 2, 0)  # time
        rank = ops.cumsum(chose, axis=axis)  # among the tokens that chose the expert
        n = ops.sum(ops.cast(real, "float32"), axis=axis, keepdims=True)
        capacity = ops.ceil(n * (self.capacity_factor * k / E) - 1e-6)
        over = ops.cast(rank, "float32") > capacity[..., None]
        over = ops.take_along_axis(over, ops.minimum(e, E - 1), axis=-1)
        return ops.where(over, E, e)

    def _weights(self):
        """Kernels and biases of the experts, in the order in which `_expert` reads."""
        both = (*self.kernels.values(), *self.biases.values())
        return [ops.cast(ops.convert_to_tensor(w), self.compute_dtype) for w in both]

    def _expert(self, x, *weights):
        """Computes outputs of experts for rows `(..., L, D)`; see `kernels.mixture`."""
        count = len(self.kernels)
        W = dict(zip(self.kernels, weights[:count], strict=True))
        b = dict(zip(self.biases, weights[count:], strict=True))

        def dense(name, x):
            y = matmul(x, W[name])
            return y + b[name][..., None, :] if b else y

        phi = precise(keras.activations.get(FEED_FORWARDS[self.feed_forward][0]))
        if "gate" in W:
            h = phi(dense("gate", x)) * dense("intermediate", x)
        else:
            h = phi(dense("intermediate", x))
        return dense("output", h)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


def _draw(initializer, shape, dtype=None):
    """Values `(E, *shape)`, a draw of the initializer for each expert.

    An initializer draws the same values at each call: the next expert has the next
    seed, and one whose scale depends on the shape sees the shape of one expert.
    """
    draws, own = [], objects.copy_initializer(initializer)
    for n in range(shape[0]):
        if n and isinstance(getattr(own, "seed", None), int):
            config = own.get_config()
            own = type(own).from_config({**config, "seed": own.seed + 1})
        draws.append(own(shape[1:], dtype=dtype))
    return ops.stack(draws)
