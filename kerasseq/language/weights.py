"""The weights of an architecture, one by one, without building it.

Names are paths, such as `decoder/*/self_attention/query/kernel`, in which the star
stands for the number of the layer; shapes are those of Keras' layers. Positions by
sinusoids, rotation and ALiBi have no weights.

Loads no Keras.
"""

import math
from typing import NamedTuple

from kerasseq.language.architecture import Architecture


class Part(NamedTuple):
    """Weights of one shape that occur a number of times.

    Attributes:
        name: What they are.
        group: Where in the model: "embedding", "position", "attention", "feed-forward",
            "norm" or "head".
        shape: Of one of them.
        number: How many there are.
    """

    name: str
    group: str
    shape: tuple[int, ...]
    number: int

    @property
    def weights(self) -> int:
        """How many weights in all.

        Examples:
            >>> Part("query", "attention", (128, 12288), 96).weights
            150994944
        """
        return math.prod(self.shape) * self.number


def weights(a: Architecture):
    """Yield every weight of an architecture as `Part`, in the order of the model."""
    yield from _embeddings(a)
    for stack in a.stacks:
        yield from _positions_of(a, stack)
        yield from _layers(a, stack)
        if a.norm_placement == "pre":  # else each layer ends with a norm
            yield from _norm(a, f"{stack}/norm")
    yield from _head(a)


def _embeddings(a):
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
        # Of an image each patch has a position, and the class token before them.
        length = a.patches + 1 if a.kind == "vision" else a.max_sequence_length
        yield Part("position_embedding", "position", (length, d), 1)
    if a.embedding_norm:
        yield from _norm(a, "embedding_norm")


def _positions_of(a, stack):
    """What all layers of a stack share to tell how far two tokens are apart."""
    if a.position == "relative":
        shape = (a.relative_buckets, a.num_heads)
        yield Part(f"{stack}/relative_bias", "position", shape, 1)
    if a.position == "transformer_xl":  # u and v of Dai et al. 2019
        for name in ("content_bias", "position_bias"):
            yield Part(f"{stack}/{name}", "position", (a.num_heads, a.head_dim), 1)


def _layers(a, stack):
    path = f"{stack}/*"
    if a.parallel:
        yield from _norm(a, f"{path}/norm", a.num_layers)
    sublayers = ["self_attention", "feed_forward"]
    if stack == "decoder" and "encoder" in a.stacks:
        sublayers.insert(1, "cross_attention")
    for name in sublayers:
        if not a.parallel:
            yield from _norm(a, f"{path}/{name}_norm", a.num_layers)
        make = _feed_forward if name == "feed_forward" else _attention
        yield from make(a, f"{path}/{name}")


def _attention(a, path):
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


def _feed_forward(a, path):
    d, inner, number = (a.hidden_dim,), (a.intermediate_dim,), a.num_layers
    up = ("gate", "up") if a.feed_forward in ("swiglu", "geglu") else ("up",)
    for name in up:
        yield from _dense(a, f"{path}/{name}", "feed-forward", d, inner, number)
    yield from _dense(a, f"{path}/down", "feed-forward", inner, d, number)


def _head(a):
    d = (a.hidden_dim,)
    if a.pooler:
        yield from _dense(a, "pooler", "head", d, d)
    if a.classes:
        yield from _dense(a, "classes", "head", d, (a.classes,))
    if "decoder" in a.stacks and not a.tie_embeddings:
        yield Part("logits/kernel", "head", (*d, a.vocabulary_size), 1)


def _dense(a, path, group, inputs, outputs, number=1):
    yield Part(f"{path}/kernel", group, (*inputs, *outputs), number)
    if a.use_bias:
        yield Part(f"{path}/bias", group, outputs, number)


def _norm(a, path, number=1):
    yield Part(f"{path}/gamma", "norm", (a.hidden_dim,), number)
    if a.norm == "layer" and a.use_bias:
        yield Part(f"{path}/beta", "norm", (a.hidden_dim,), number)
