r"""What reads a sequence in a block: self-attention, or a layer in its place, by name.

In `x + attention(norm(x))` the second term may be any layer that keeps the shape
`(B, T, D)`: self-attention, whose cost grows with $T^2$, or a recurrence that carries a
state of constant size from step to step, whose cost grows with T.
"""

import inspect
from typing import Any

import keras
from keras import tree

from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.sparse.adaptive_span import AdaptiveSpanAttention
from kerasseq.attention.sparse.blockwise import BlockwiseAttention
from kerasseq.attention.sparse.linformer import LinformerAttention
from kerasseq.attention.sparse.longformer import LongformerAttention
from kerasseq.attention.sparse.reformer import ReformerAttention
from kerasseq.core import checks, objects
from kerasseq.core.carried_state import carries_state
from kerasseq.core.types import Config, DType, Nested, Shape, Tensor
from kerasseq.linear.delta_net import DeltaNet
from kerasseq.linear.gated import GatedLinearAttention, Retention
from kerasseq.linear.linear_attention import LinearAttention
from kerasseq.linear.mlstm import MLSTM
from kerasseq.linear.rwkv4 import RWKV4TimeMix
from kerasseq.linear.rwkv7 import RWKV7TimeMix
from kerasseq.rnn.gru import GRU
from kerasseq.rnn.lstm import LSTM
from kerasseq.rnn.min_gru import MinGRU
from kerasseq.rnn.min_lstm import MinLSTM
from kerasseq.rnn.slstm import SLSTM
from kerasseq.state_space.mamba import Mamba
from kerasseq.state_space.s4d import S4D
from kerasseq.transformer.feed_forward import FeedForward

OF_PAIRS: dict[str, type[MultiHeadAttention]] = {
    "multi_head": MultiHeadAttention,
    "blockwise": BlockwiseAttention,
    "longformer": LongformerAttention,
    "reformer": ReformerAttention,
    "linformer": LinformerAttention,
    "adaptive_span": AdaptiveSpanAttention,
}
WITH_HEADS: dict[str, type[keras.Layer]] = {
    "linear_attention": LinearAttention,
    "gla": GatedLinearAttention,
    "retention": Retention,
    "delta_net": DeltaNet,
    "mlstm": MLSTM,
    "rwkv7": RWKV7TimeMix,
}
WITH_UNITS: dict[str, type[keras.Layer]] = {
    "min_gru": MinGRU,
    "min_lstm": MinLSTM,
    "gru": GRU,
    "lstm": LSTM,
    "slstm": SLSTM,
}
OF_ANY_WIDTH: dict[str, type[keras.Layer]] = {
    "s4d": S4D,
    "mamba": Mamba,
    "rwkv4": RWKV4TimeMix,
}
ATTENTIONS = (*OF_PAIRS, *WITH_HEADS, *WITH_UNITS, *OF_ANY_WIDTH)


RANK = 64  # of "linformer", or the longest text if that is shorter
CHUNK = 64  # of "reformer"


def sizes_of(
    attention: str,
    sliding_window: int | None,
    max_length: int | None,
    max_global_tokens: int | None = None,
) -> dict[str, Any]:
    """Returns the arguments that an attention by name from `OF_PAIRS` needs.

    Args:
        attention: The name.
        sliding_window: Width of the window, or None.
        max_length: Length of the longest text; None if it is not known.
        max_global_tokens: Of "longformer", the most global tokens; None for none.

    Raises:
        ValueError: If the length is needed and not known.

    Examples:
        >>> sizes_of("linformer", None, 37)
        {'rank': 37, 'max_length': 37}
    """
    window = {} if sliding_window is None else {"sliding_window": sliding_window}
    if attention == "longformer":
        return {"max_global_tokens": max_global_tokens, **window}
    if attention not in ("linformer", "adaptive_span", "reformer"):
        return window
    if max_length is None:
        name = OF_PAIRS[attention].__name__
        raise ValueError(
            f"max_length must be the length of the longest text with attention="
            f'"{attention}", received None. Pass max_length, or a {name}'
        )
    if attention == "adaptive_span":
        return {"max_span": max_length, **window}
    if attention == "reformer":
        buckets = 2 * -(-max_length // CHUNK)  # 2 T / L
        return {"num_buckets": buckets, "chunk_length": CHUNK, **window}
    return {"rank": min(RANK, max_length), "max_length": max_length, **window}


class Template:
    """A layer of which copies are made: Keras does not track it as a part of another.

    Attributes:
        layer: The layer, whose weights are not used.
    """

    def __init__(self, layer: keras.Layer) -> None:
        self.layer = layer

    def get_config(self) -> Config:
        """Returns the config of the layer with its class, without a build config."""
        config = keras.saving.serialize_keras_object(self.layer)
        config.pop("build_config", None)
        return config


def check_attention(name: str, attention: str | keras.Layer | Config) -> str | Template:
    """Returns a name, or a layer as a `Template`.

    Args:
        name: Name of the argument, for messages.
        attention: A name from `ATTENTIONS`, a layer, or the config of one.

    Raises:
        ValueError: If the name is unknown.
        TypeError: If it is of another type.

    Examples:
        >>> check_attention("attention", "retention")
        'retention'
        >>> check_attention("attention", MinGRU(3)).layer.units
        3
    """
    if isinstance(attention, str):
        return checks.one_of(name, attention, ATTENTIONS)
    if isinstance(attention, dict):  # as in a file
        attention = keras.saving.deserialize_keras_object(attention)
    if isinstance(attention, keras.Layer):
        return Template(attention)
    raise TypeError(
        f"{name} must be a name or a layer of which copies are made, received "
        f"{checks.short(attention)}. The names are {', '.join(ATTENTIONS)}"
    )


def config_of(attention: str | Template) -> str | Config:
    """Returns what `check_attention` returned as plain data."""
    return attention if isinstance(attention, str) else attention.get_config()


def for_each_block(
    name: str, value: Any, num_layers: int
) -> list[str | keras.Layer | None]:
    """Returns what each block of a model gets for an argument: a name, or a layer.

    Args:
        name: Name of the argument, for messages.
        value: A name or None; a layer, of which each block gets a copy; or a list with
            one of these for each block.
        num_layers: L, the number of blocks.

    Raises:
        ValueError: If it is a list of another length.

    Examples:
        >>> for_each_block("attention", ["gla", "multi_head"], 3)
        Traceback (most recent call last):
        ...
        ValueError: attention must be a name, a layer, or a list with one of these for \
each of the 3 blocks, received a list of 2
    """
    several = isinstance(value, list | tuple)
    if several and len(value) != num_layers:
        raise ValueError(
            f"{name} must be a name, a layer, or a list with one of these for each of "
            f"the {num_layers} blocks, received a list of {len(value)}"
        )
    return [
        objects.copy_layer(one, one.name, seed_offset=n)
        if isinstance(one, keras.Layer)
        else one
        for n, one in enumerate(value if several else [value] * num_layers)
    ]


def make_attention(
    attention: str | Template,
    shape: Shape,
    *,
    num_heads: int,
    head_dim: int | None,
    causal: bool = True,
    dtype: DType | None = None,
) -> keras.Layer:
    """Creates and builds the layer that stands in place of self-attention.

    Args:
        attention: From `check_attention`, not a name in `OF_PAIRS`.
        shape: Shape of the inputs, `(B, T, D)`.
        num_heads: N, of a layer by name that has heads.
        head_dim: K, the width of these heads; D / N if None.
        causal: Whether "linear_attention" reads earlier steps only, as others do.
        dtype: Dtype policy of the layer.

    Raises:
        ValueError: If N does not divide D, or the layer changes the shape.

    Examples:
        >>> layer = make_attention("gla", (None, 7, 6), num_heads=2, head_dim=None)
        >>> layer.name, layer.num_heads, layer.key_dim
        ('gla', 2, 3)
    """
    if isinstance(attention, Template):
        given = attention.layer
        layer = objects.copy_layer(given, given.name, dtype=dtype)
        if isinstance(layer, MultiHeadAttention):
            layer.build(shape, shape)
            return layer
    elif attention in WITH_HEADS:
        K = head_width(shape[-1], num_heads, head_dim)
        options = {"name": attention, "dtype": dtype}
        if attention == "linear_attention":
            options["causal"] = causal
        layer = WITH_HEADS[attention](num_heads, K, **options)
    elif attention in WITH_UNITS:
        options = {"return_sequences": True, "name": attention, "dtype": dtype}
        layer = WITH_UNITS[attention](shape[-1], **options)
    else:
        layer = OF_ANY_WIDTH[attention](name=attention, dtype=dtype)
    build(layer, shape)
    return layer


def build(layer: keras.Layer, shape: Shape) -> None:
    """Builds a layer of a block, which must keep the shape of its inputs `(B, T, D)`.

    Raises:
        ValueError: If it returns another shape.

    Examples:
        >>> build(keras.layers.Dense(5, name="dense"), (None, 7, 3))
        Traceback (most recent call last):
        ...
        ValueError: dense must return the shape of its inputs (None, 7, 3), received \
a Dense that returns (None, 7, 5). Build it with the width of the block, 3
    """
    if carries_state(layer) or isinstance(layer, FeedForward):
        if not layer.built:
            layer.build(shape)
        returned = layer.compute_output_shape(shape)
    else:  # a call builds any layer, and says what it returns
        returned = tree.map_structure(
            lambda x: x.shape, layer(keras.KerasTensor(shape, layer.compute_dtype))
        )
    if list(returned) != list(shape):
        raise ValueError(
            f"{layer.name} must return the shape of its inputs {tuple(shape)}, "
            f"received a {type(layer).__name__} that returns {returned}. Build it with "
            f"the width of the block, {shape[-1]}"
        )


def head_width(D: int, num_heads: int, head_dim: int | None) -> int:
    """Returns the width of each head: `head_dim`, or D / N if that is None.

    Examples:
        >>> head_width(6, 2, None), head_width(6, 2, 5)
        (3, 5)
    """
    if head_dim is None and D % num_heads:
        raise ValueError(
            f"num_heads must divide the hidden size {D}, received num_heads="
            f"{num_heads}. Choose a divisor, or pass head_dim={max(D // num_heads, 1)}"
        )
    return head_dim or D // num_heads


def run(layer: keras.Layer, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Calls a layer on whole sequences, with the mask if it takes one.

    Args:
        layer: The layer.
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real steps, or None.
    """
    takes_mask = "mask" in inspect.signature(layer.call).parameters
    return layer(x, mask=mask) if takes_mask else layer(x)


def start(layer: keras.Layer | None, batch: int | Tensor, length: int) -> Nested:
    """Returns what a layer keeps of the steps before the first one.

    Returns:
        A cache of keys and values, the initial states of a layer that carries them, or
        an empty list.
    """
    if isinstance(layer, MultiHeadAttention):
        return layer.make_cache(batch, length)
    if layer is not None and carries_state(layer):
        return list(layer.get_initial_state(batch))
    return []
