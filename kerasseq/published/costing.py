r"""Counts the operations and the memory of an architecture without building it.

With $P$ parameters in the matrices that a token uses, $L$ layers, $N$ heads of width
$H$ and $T$ tokens, a token takes

$$
2P + 4 L T N H
$$

floating-point operations: a multiplication and an addition for each parameter, and for
each of the $T$ positions and $N H$ features one of each for the score and for the
weighted sum. Backpropagation takes twice as many again (Kaplan et al. 2020; Chowdhery
et al. 2022, appendix B). Layers without attention have no such term: a Mamba takes
$6 L E N$ for the states of its $E$ channels of $N$ numbers, an RWKV-7 $9 L N H^2$. The
memory of the activations is that of Korthikanti et al. 2022: what the backward pass
needs, without recomputation.

Loads no Keras.
"""

import dataclasses
import math

from kerasseq.core.checks import one_of, positive, whole_number
from kerasseq.published.architectures import Architecture, find
from kerasseq.published.counting import weights

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
BACKWARD = 2  # operations of the backward pass, in those of the forward pass
MASTER = 4  # bytes of a float32: Adam's two moments, and weights in float32
STATE = 4  # bytes of a float32: the numbers of a state
CHUNK = 64  # steps between two states that are kept, as in kernels.linear_attention
ONCE = ("pooler", "classes")  # applied once in a sequence
TABLES = ("token_embedding", "segment_embedding", "position_embedding")


@dataclasses.dataclass(frozen=True)
class Costs:
    """The operations and the memory of an architecture.

    Attributes:
        architecture: The architecture.
        sequence_length: T, the number of tokens; with two stacks of each of them.
        batch_size: B, the number of sequences.
        dtype: The type of weights, activations and cache.
        parameters: Number of parameters, a tied embedding once.
        active_parameters: Number of those that a token uses: without the experts that
            are not chosen.
        forward_flops: Operations of the forward pass per token. With two stacks, of one
            source and one target token.
        weights_bytes: Memory of the weights.
        cache_bytes: Memory of the keys and values of all tokens during generation, or
            of the states, whatever the number of tokens; 0 for an encoder.
        gradients_bytes: Memory of the gradients.
        optimizer_bytes: Memory of Adam: two moments in float32, and for 16-bit weights
            a copy in float32.
        activations_bytes: Memory of what the backward pass needs, without
            recomputation and with attention weights in memory.
    """

    architecture: Architecture
    sequence_length: int
    batch_size: int
    dtype: str
    parameters: int
    active_parameters: int
    forward_flops: int
    weights_bytes: int
    cache_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int

    @property
    def training_flops(self) -> int:
        """Operations of forward and backward pass per token."""
        return self.forward_flops * (1 + BACKWARD)

    @property
    def inference_bytes(self) -> int:
        """Memory during generation: weights and cache."""
        return self.weights_bytes + self.cache_bytes

    @property
    def training_bytes(self) -> int:
        """Memory during training: weights, gradients, optimizer and activations."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
        )

    def devices(self, memory: float) -> int:
        """Returns how many devices hold what training needs, if it is divided evenly.

        Args:
            memory: Memory of a device, in bytes.

        Raises:
            TypeError: If it is not a number.
            ValueError: If it is not positive.

        Examples:
            >>> costs("gpt3").devices(32e9)  # of 32 GB, for one sequence at a time
            96

        References:
            Slides D: from 8 devices of 32 GB to 16,384 of 94 GB.
        """
        return math.ceil(self.training_bytes / positive("memory", memory))


def costs(
    architecture: str | Architecture,
    *,
    sequence_length: int | None = None,
    batch_size: int = 1,
    dtype: str = "bfloat16",
) -> Costs:
    """Counts the operations and the memory of an architecture without building it.

    Biases, norms, activations and the softmax are left out of the operations: they are
    below one percent.

    Args:
        architecture: A name or a row of `models.architectures`.
        sequence_length: Number of tokens. Defaults to the maximum of the architecture,
            if it has one, else 2048; for images it is the number of patches and the
            class token.
        batch_size: Number of sequences.
        dtype: "float32", "bfloat16" or "float16".

    Returns:
        A `Costs`.

    Raises:
        TypeError: If the architecture is not a name or a row, or a size not an integer.
        ValueError: If the name or the dtype is unknown, or a size is below 1.

    Examples:
        >>> gpt3 = costs("gpt3")
        >>> f"{gpt3.training_flops * 300e9:.2e}"  # published: 3.14e23, without scores
        '3.23e+23'
        >>> f"{gpt3.cache_bytes / 2**30:.1f} GiB for {gpt3.sequence_length} tokens"
        '9.0 GiB for 2048 tokens'
    """
    a = find(architecture)
    one_of("dtype", dtype, tuple(BYTES))
    length = _length(a, sequence_length)
    batch = whole_number("batch_size", batch_size)
    parts = tuple(weights(a))
    number = sum(part.weights for part in parts)
    size = BYTES[dtype]
    return Costs(
        architecture=a,
        sequence_length=length,
        batch_size=batch,
        dtype=dtype,
        parameters=number,
        active_parameters=sum(part.active for part in parts),
        forward_flops=_forward_flops(a, length),
        weights_bytes=number * size,
        cache_bytes=_cache_bytes(a, length, size) * batch,
        gradients_bytes=number * size,
        optimizer_bytes=number * MASTER * (2 if size == MASTER else 3),
        activations_bytes=_activations(a, length, size) * length * batch,
    )


def _length(a: Architecture, length: int | None) -> int:
    if a.kind == "vision":
        return a.patches + 1
    if length is None:
        return a.max_sequence_length or 2048
    return whole_number("sequence_length", length)


def _attentions(a: Architecture) -> list[int]:
    """Returns the number of attention sublayers in a layer of each stack."""
    return [2 if len(a.stacks) == 2 and s == "decoder" else 1 for s in a.stacks]


def _forward_flops(a: Architecture, length: int) -> int:
    untied = dataclasses.replace(a, tie_embeddings=False)
    each = once = 0
    for part in weights(untied):
        if len(part.shape) == 1 or part.name in TABLES or part.group == "position":
            continue
        if part.name.startswith(ONCE):
            once += part.active
        elif part.name.endswith("/kernel"):
            each += part.active
    width = a.num_heads * a.head_dim
    scores = 4 * a.num_layers * sum(_attentions(a)) * length * width
    if a.attention == "rwkv7":  # decay, two reads and two writes of each number
        scores = 9 * a.num_layers * width * a.head_dim
    elif a.attention != "multi_head":
        scores = 6 * a.num_layers * a.intermediate_dim * (a.state_size or 0)
    return 2 * each + math.ceil(2 * once / length) + scores


def _cache_bytes(a: Architecture, length: int, size: int) -> int:
    """Counts the bytes of keys and values of a sequence in all layers, or of states."""
    if "decoder" not in a.stacks:
        return 0
    d, E = a.hidden_dim, a.intermediate_dim
    if a.attention == "mamba":
        return a.num_layers * E * (a.state_size * STATE + (a.conv_kernel - 1) * size)
    if a.attention == "rwkv4":  # two last inputs; both sums and their scale
        return a.num_layers * d * (2 * size + 3 * STATE)
    if a.attention == "rwkv7":  # two last inputs, and the states of the heads
        return a.num_layers * (2 * d * size + a.num_heads * a.head_dim**2 * STATE)
    heads = _attentions(a)[-1] * a.num_key_value_heads
    return 2 * a.num_layers * heads * a.head_dim * length * size


def _activations(a: Architecture, length: int, size: int) -> int:
    """Returns the bytes of what the backward pass needs of one token.

    Of each attention: its input, queries, keys, values, context and a dropout mask of
    one byte; the weights before and after dropout, and a mask. Of the feed-forward
    network: its input, what is inside before and after the activation, and a mask; of
    experts the probabilities of all, and of each that is chosen its row of the input,
    what is inside, and its output. Of each norm: its input. Of a Mamba also decays,
    what is written, and states; of RWKV's layers mixes, decays and sums.
    """
    if a.attention == "mamba":
        return a.num_layers * _activations_of_mamba(a, size)
    if a.attention == "rwkv4":
        d, F = a.hidden_dim, a.intermediate_dim
        time_mix = size * 9 * d + STATE * 6 * d
        return a.num_layers * (time_mix + size * (6 * d + 2 * F))
    if a.attention == "rwkv7":
        return a.num_layers * _activations_of_rwkv7(a, size)
    d, heads = a.hidden_dim, a.num_heads * a.head_dim
    keys = a.num_key_value_heads * a.head_dim
    attention = size * (d + 2 * heads + 2 * keys) + d
    attention += a.num_heads * length * (2 * size + 1)
    inside = 3 if a.feed_forward in ("swiglu", "geglu") else 2
    inside *= a.intermediate_dim
    feed_forward = size * (d + inside) + d
    if a.num_experts is not None:
        feed_forward = size * (d + a.top_k * (2 * d + inside)) + d
        feed_forward += STATE * a.num_experts
    norm = size * d
    return a.num_layers * sum(
        k * attention + feed_forward + (k + 1) * norm for k in _attentions(a)
    )


def _activations_of_rwkv7(a: Architecture, size: int) -> int:
    """Counts inputs, mixes, projections and gates; in float32 what the kernel reads.

    There is a state for each chunk of `CHUNK` steps.
    """
    d, A, F = a.hidden_dim, a.num_heads * a.head_dim, a.intermediate_dim
    ranks = a.decay_rank + a.rate_rank + a.value_rank + a.gate_rank
    time_mix = size * (8 * d + 7 * A + 2 * ranks)
    kernel = STATE * (9 * A + math.ceil(A * a.head_dim / CHUNK))
    return time_mix + kernel + size * (3 * d + 2 * F)


def _activations_of_mamba(a: Architecture, size: int) -> int:
    d, E, N = a.hidden_dim, a.intermediate_dim, a.state_size
    inputs = 2 * d + 5 * E + math.ceil(d / 16) + 2 * N
    return size * inputs + STATE * (E + 3 * E * N)
