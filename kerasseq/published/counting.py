"""Counts the parameters of an architecture without building it.

There are two counts. "matrices" is that of the course (slides E): the matrices of each
head, embedding and unembedding; no biases, norms or positions. For GPT-3 it gives
175,181,291,520 parameters in 27,938 matrices. "all" counts every parameter of the model
as it is built, and a tied embedding once. `weights` yields them one by one: names are
paths, such as `decoder/*/self_attention/query/kernel`, in which the star stands for the
index of the layer, and shapes are those of Keras' layers.

Loads no Keras.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.table import Table
from kerasseq.published.architectures import Architecture, find

_MATRICES = {  # by the end of the name
    "token_embedding": "Embedding",
    "patch_embedding/kernel": "Patches",
    "query/kernel": "Query",
    "key/kernel": "Key",
    "value/kernel": "Value",
    "position/kernel": "Position",
    "attention_output/kernel": "Output",
    "input/kernel": "Input",
    "conv/kernel": "Convolution",
    "selection/kernel": "Selection",
    "step/kernel": "Step",
    "receptance/kernel": "Receptance",
    "decay_down/kernel": "Decay down",
    "decay_up/kernel": "Decay up",
    "rate_down/kernel": "Rate down",
    "rate_up/kernel": "Rate up",
    "value_down/kernel": "Value down",
    "value_up/kernel": "Value up",
    "gate_down/kernel": "Gate down",
    "gate_up/kernel": "Gate up",
    "gate/kernel": "Gate",
    "router/kernel": "Router",
    "up/kernel": "Up-projection",
    "down/kernel": "Down-projection",
    "pooler/kernel": "Pooler",
    "classes/kernel": "Classes",
    "logits/kernel": "Unembedding",
}
_PER_HEAD = ("Query", "Key", "Value", "Position")


class Part(NamedTuple):
    """Weights of equal shape.

    Attributes:
        name: Path in the model.
        group: "embedding", "position", "attention", "feed-forward",
            "norm" or "head".
        shape: Shape of each.
        number: How many there are.
        num_experts: E, if they are those of E experts; else 1.
        top_k: How many of the experts a token uses.
    """

    name: str
    group: str
    shape: tuple[int, ...]
    number: int
    num_experts: int = 1
    top_k: int = 1

    @property
    def weights(self) -> int:
        """Number of parameters of all of them.

        Examples:
            >>> Part("query", "attention", (128, 12288), 96).weights
            150994944
        """
        return math.prod(self.shape) * self.number

    @property
    def active(self) -> int:
        """Number of those parameters that a token uses.

        Examples:
            >>> Part("up/kernel", "feed-forward", (8, 3, 5), 1, 8, 2).active
            30
        """
        return self.weights * self.top_k // self.num_experts


@dataclasses.dataclass(frozen=True)
class Count:
    """The parameters of an architecture. `str(count)` is a table.

    Attributes:
        architecture: The architecture.
        what: "matrices" or "all".
        parts: A `Part` for each name, in model order.
    """

    architecture: Architecture
    what: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """Number of parameters."""
        return sum(part.weights for part in self.parts)

    @property
    def active(self) -> int:
        """Number of parameters that a token uses: all, but for experts not chosen.

        Examples:
            >>> f"{count('mixtral_8x7b', what='all').active:,}"
            '12,879,925,248'
        """
        return sum(part.active for part in self.parts)

    @property
    def number(self) -> int:
        """Number of matrices; with "all", number of weights."""
        return sum(part.number for part in self.parts)

    @property
    def groups(self) -> dict[str, int]:
        """Number of parameters by group.

        Examples:
            >>> groups = count("gpt3").groups
            >>> f"{groups['attention']:,}"
            '57,982,058,496'
        """
        groups = {}
        for part in self.parts:
            groups[part.group] = groups.get(part.group, 0) + part.weights
        return groups

    def __str__(self) -> str:
        return f"{self._table()}\n{self._sum()}"

    def _repr_html_(self) -> str:
        return f"{self._table().html()}<p>{self._sum()}</p>"

    def _table(self):
        rows = [
            (p.name, " × ".join(map(str, p.shape)), f"{p.number:,}", f"{p.weights:,}")
            for p in self.parts
        ]
        return Table(rows)

    def _sum(self):
        what = "matrices" if self.what == "matrices" else "arrays"
        used = f"; a token uses {self.active:,}" * (self.active < self.total)
        return f"{self.total:,} weights in {self.number:,} {what}{used}"


def count(
    architecture: str | Architecture,
    *,
    what: str = "matrices",
    lora: int | None = None,
) -> Count:
    """Counts the parameters of an architecture without building it.

    Args:
        architecture: A name or a row of `models.architectures`.
        what: "matrices" as in the course: per head, with embedding and unembedding,
            without biases, norms and positions. "all" for every parameter, a tied
            embedding once.
        lora: A rank: the weights that `enable_lora(rank)` trains are counted, A and B
            of each query and value, not those of the model.

    Returns:
        A `Count`, with the `total`, the `number` of matrices, and the `parts`.

    Raises:
        TypeError: If the architecture is not a name or a row.
        ValueError: If the name or `what` is unknown, or `lora` is given where there
            is no query.

    Examples:
        >>> f"{count('gpt3', lora=8).total:,}"
        '37,748,736'
        >>> print(count("gpt3"))
        Embedding        12288 × 50257      1     617,558,016
        Query              128 × 12288  9,216  14,495,514,624
        Key                128 × 12288  9,216  14,495,514,624
        Value              128 × 12288  9,216  14,495,514,624
        Output           12288 × 12288     96  14,495,514,624
        Up-projection    49152 × 12288     96  57,982,058,496
        Down-projection  12288 × 49152     96  57,982,058,496
        Unembedding      50257 × 12288      1     617,558,016
        175,181,291,520 weights in 27,938 matrices
        >>> f"{count('bert_base', what='all').total:,}"
        '109,482,240'
    """
    architecture = find(architecture)
    one_of("what", what, ("matrices", "all"))
    if lora is not None:
        parts = _adapters(architecture, whole_number("lora", lora))
    else:
        parts = weights(architecture) if what == "all" else _matrices(architecture)
    return Count(architecture, what, tuple(parts))


def _adapters(a: Architecture, rank: int) -> list[Part]:
    """Returns the weights of LoRA beside the kernels of query and value."""
    parts = []
    for part in weights(a):
        if part.name.endswith(("/query/kernel", "/value/kernel")):
            path, (d_in, *out) = part.name.removesuffix("/kernel"), part.shape
            for name, shape in (("a", (d_in, rank)), ("b", (rank, math.prod(out)))):
                parts.append(Part(f"{path}/lora_{name}", "adapter", shape, part.number))
    if not any("/query/" in part.name for part in parts):
        raise ValueError(
            f"lora counts the adapters of query and value, which {a.name} does not "
            "have. Build a model, and count its trainable weights after enable_lora"
        )
    return parts


def _matrices(a: Architecture) -> Iterator[Part]:
    """Yields the kernels among the weights, as matrices `(outputs, inputs)`."""
    for part in weights(dataclasses.replace(a, tie_embeddings=False)):
        for end, label in _MATRICES.items():
            if part.name == end or part.name.endswith(f"/{end}"):
                shape, number = _as_matrices(part, label in _PER_HEAD)
                name = _where(part.name, label, a)
                yield part._replace(name=name, shape=shape, number=number)


def _as_matrices(part: Part, per_head: bool) -> tuple[tuple[int, ...], int]:
    if per_head and len(part.shape) == 3:
        d, n, h = part.shape
        return (h, d), n * part.number
    if part.num_experts > 1:
        E, d, F = part.shape
        return (F, d), E * part.number
    *inputs, outputs = part.shape
    return (outputs, math.prod(inputs)), part.number


def _where(name: str, label: str, a: Architecture) -> str:
    """Names the stack: "Key" becomes "Encoder key", "Decoder key" or "Cross key"."""
    if len(a.stacks) == 1 or "*" not in name:
        return label
    where = "Cross" if "cross_attention" in name else name.partition("/")[0].title()
    return f"{where} {label.lower()}"


def weights(a: Architecture) -> Iterator[Part]:
    """Yields every weight of an architecture as a `Part`, in model order."""
    yield from _embeddings(a)
    for stack in a.stacks:
        yield from _positions_of(a, stack)
        yield from _layers(a, stack)
        if a.norm_placement == "pre":  # else each layer ends with a norm
            yield from _norm(a, f"{stack}/norm")
    yield from _head(a)


def _embeddings(a: Architecture) -> Iterator[Part]:
    d = a.hidden_dim
    if a.kind == "vision":
        patch = (a.patch_size, a.patch_size, a.channels)
        yield from _dense(a, "patch_embedding", "embedding", patch, (d,))
        yield Part("class_token", "embedding", (1, d), 1)
    else:
        yield Part("token_embedding", "embedding", (a.vocabulary_size, d), 1)
    if a.segments:
        yield Part("segment_embedding", "embedding", (a.segments, d), 1)
    if a.position == "learned":
        # For images: one position for each patch, and one for the class token.
        length = a.patches + 1 if a.kind == "vision" else a.max_sequence_length
        yield Part("position_embedding", "position", (length, d), 1)
    if a.embedding_norm:
        yield from _norm(a, "embedding_norm")


def _positions_of(a: Architecture, stack: str) -> Iterator[Part]:
    """Returns relative position weights, which all layers of a stack share."""
    if a.position == "relative":
        shape = (a.relative_buckets, a.num_heads)
        yield Part(f"{stack}/relative_bias", "position", shape, 1)
    if a.position == "transformer_xl":  # u and v of Dai et al. 2019
        for name in ("content_bias", "position_bias"):
            yield Part(f"{stack}/{name}", "position", (a.num_heads, a.head_dim), 1)


def _layers(a: Architecture, stack: str) -> Iterator[Part]:
    path = f"{stack}/*"
    if a.parallel:
        yield from _norm(a, f"{path}/norm", a.num_layers)
    sublayers = ["self_attention", "feed_forward"]
    if a.feed_forward == "none":
        sublayers = ["self_attention"]
    if stack == "decoder" and "encoder" in a.stacks:
        sublayers.insert(1, "cross_attention")
    for name in sublayers:
        if not a.parallel:
            yield from _norm(a, f"{path}/{name}_norm", a.num_layers)
        yield from _MAKE.get(_kind(a, name), _attention)(a, f"{path}/{name}")


def _kind(a: Architecture, sublayer: str) -> str:
    """Returns what a sublayer is: "feed_forward", or the name of another layer."""
    if sublayer == "feed_forward" and a.feed_forward != "channel_mix":
        return sublayer
    return a.feed_forward if sublayer == "feed_forward" else a.attention


def _attention(a: Architecture, path: str) -> Iterator[Part]:
    d, number = a.hidden_dim, a.num_layers
    heads = {
        "query": a.num_heads,
        "key": a.num_key_value_heads,
        "value": a.num_key_value_heads,
    }
    for name, n in heads.items():
        shape = (n, a.head_dim)
        yield from _dense(a, f"{path}/{name}", "attention", (d,), shape, number)
    if a.position == "transformer_xl":  # a key for each distance, without a bias
        shape = (d, a.num_heads, a.head_dim)
        yield Part(f"{path}/position/kernel", "attention", shape, number)
    shape = (a.num_heads, a.head_dim)
    yield from _dense(a, f"{path}/attention_output", "attention", shape, (d,), number)


def _feed_forward(a: Architecture, path: str) -> Iterator[Part]:
    d, inner, number = (a.hidden_dim,), (a.intermediate_dim,), a.num_layers
    up = ("gate", "up") if a.feed_forward in ("swiglu", "geglu") else ("up",)
    sizes = {**dict.fromkeys(up, (d, inner)), "down": (inner, d)}
    if a.num_experts is not None:
        router = (a.hidden_dim, a.num_experts)
        yield Part(f"{path}/router/kernel", "feed-forward", router, number)
    for name, (inputs, outputs) in sizes.items():
        for part in _dense(
            a, f"{path}/{name}", "feed-forward", inputs, outputs, number
        ):
            yield part if a.num_experts is None else _of_experts(a, part)


def _of_experts(a: Architecture, part: Part) -> Part:
    """Returns the weights of all experts, stacked, where those of one are a part."""
    shape = (a.num_experts, *part.shape)
    return part._replace(shape=shape, num_experts=a.num_experts, top_k=a.top_k)


def _mamba(a: Architecture, path: str) -> Iterator[Part]:
    d, E, N, L = a.hidden_dim, a.intermediate_dim, a.state_size, a.num_layers
    R = math.ceil(d / 16)
    for name, shape in (
        ("input/kernel", (d, 2 * E)),
        ("conv/kernel", (a.conv_kernel, 1, E)),
        ("conv/bias", (E,)),
        ("selection/kernel", (E, R + 2 * N)),
        ("step/kernel", (R, E)),
        ("step/bias", (E,)),
        ("log_rate", (E, N)),
        ("skip", (E,)),
        ("attention_output/kernel", (E, d)),
    ):
        yield Part(f"{path}/{name}", "attention", shape, L)


def _time_mix(a: Architecture, path: str) -> Iterator[Part]:
    d, L = a.hidden_dim, a.num_layers
    for name in ("receptance", "key", "value", "attention_output"):
        yield Part(f"{path}/{name}/kernel", "attention", (d, d), L)
    for name in ("key_mix", "value_mix", "receptance_mix", "time_decay", "time_first"):
        yield Part(f"{path}/{name}", "attention", (d,), L)


def _low_rank_mix(a: Architecture, path: str) -> Iterator[Part]:
    """Yields the time mix of RWKV-7, whose first layer has no matrices for values."""
    d, A, L = a.hidden_dim, a.num_heads * a.head_dim, a.num_layers
    for name in ("receptance", "key", "value"):
        yield Part(f"{path}/{name}/kernel", "attention", (d, A), L)
    for name in ("decay", "rate", "value", "gate"):
        rank, number = getattr(a, f"{name}_rank"), L - (name == "value")
        yield Part(f"{path}/{name}_down/kernel", "attention", (d, rank), number)
        yield Part(f"{path}/{name}_up/kernel", "attention", (rank, A), number)
        if name != "gate":
            yield Part(f"{path}/{name}_up/bias", "attention", (A,), number)
        yield Part(f"{path}/{name}_mix", "attention", (d,), L)
    for name in ("receptance_mix", "key_mix"):
        yield Part(f"{path}/{name}", "attention", (d,), L)
    for name in ("removal_scale", "rate_scale", "norm_scale", "norm_offset"):
        yield Part(f"{path}/{name}", "attention", (A,), L)
    yield Part(f"{path}/bonus", "attention", (a.num_heads, a.head_dim), L)
    yield Part(f"{path}/attention_output/kernel", "attention", (A, d), L)


def _channel_mix(a: Architecture, path: str) -> Iterator[Part]:
    d, F, L = a.hidden_dim, a.intermediate_dim, a.num_layers
    gated = a.attention == "rwkv4"
    gate = [("gate", (d, d))] if gated else []
    for name, shape in (*gate, ("up", (d, F)), ("down", (F, d))):
        yield Part(f"{path}/{name}/kernel", "feed-forward", shape, L)
    for name in ("key_mix", "receptance_mix")[: 1 + gated]:
        yield Part(f"{path}/{name}", "feed-forward", (d,), L)


_MAKE = {  # by the name of a sublayer; others are attention
    "feed_forward": _feed_forward,
    "mamba": _mamba,
    "rwkv4": _time_mix,
    "rwkv7": _low_rank_mix,
    "channel_mix": _channel_mix,
}


def _head(a: Architecture) -> Iterator[Part]:
    d = (a.hidden_dim,)
    if a.pooler:
        yield from _dense(a, "pooler", "head", d, d)
    if a.classes:
        yield from _dense(a, "classes", "head", d, (a.classes,))
    if "decoder" in a.stacks and not a.tie_embeddings:
        yield Part("logits/kernel", "head", (*d, a.vocabulary_size), 1)


def _dense(
    a: Architecture,
    path: str,
    group: str,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    number: int = 1,
) -> Iterator[Part]:
    yield Part(f"{path}/kernel", group, (*inputs, *outputs), number)
    if a.use_bias:
        yield Part(f"{path}/bias", group, outputs, number)


def _norm(a: Architecture, path: str, number: int = 1) -> Iterator[Part]:
    yield Part(f"{path}/gamma", "norm", (a.hidden_dim,), number)
    if a.norm == "layer" and a.use_bias:
        yield Part(f"{path}/beta", "norm", (a.hidden_dim,), number)
