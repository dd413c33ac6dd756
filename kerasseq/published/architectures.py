"""Published architectures: the table of large language models, and others.

`architectures.toml` has a row for each, with its paper, and with assumptions where the
paper is silent. A row is an `Architecture`, whose attributes are the arguments of the
layers that it is built from. Course slides C and E.

Loads no Keras.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kerasseq.core.checks import nearest, one_of, whole_number
from kerasseq.core.table import Table

STACKS = {  # by kind; a decoder after an encoder has cross-attention
    "decoder": ("decoder",),
    "prefix_decoder": ("decoder",),
    "encoder": ("encoder",),
    "encoder_decoder": ("encoder", "decoder"),
    "vision": ("encoder",),
}
_CHOICES = {
    "kind": tuple(STACKS),
    "norm": ("layer", "rms"),
    "norm_placement": ("pre", "post", "deep"),
    "attention": ("multi_head", "mamba", "rwkv4", "rwkv7"),
    "feed_forward": (
        *("relu", "gelu", "gelu_tanh", "swiglu", "geglu"),
        *("channel_mix", "none"),
    ),
    "position": (
        "learned",
        "sinusoidal",
        "rope",
        "alibi",
        "relative",
        "transformer_xl",
        "none",
    ),
}
_EXPERTS = ("relu", "gelu", "gelu_tanh", "swiglu", "geglu")  # what one may be
_OF_IMAGES = ("image_size", "patch_size", "channels", "classes")
_OF_TEXT = ("vocabulary_size", "max_sequence_length", "segments", "tie_embeddings")
_RANKS = ("decay_rank", "rate_rank", "value_rank", "gate_rank")
_WITH_HEADS = ("multi_head", "rwkv7")
_TINY = {
    "hidden_dim": 24,
    "num_layers": 2,
    "num_heads": 4,
    "vocabulary_size": 101,
    "max_sequence_length": 17,
    "image_size": 10,
    "patch_size": 5,
    "classes": 7,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    r"""The hyperparameters of a published model.

    Attributes:
        name: Its key in `architectures`.
        title: The name of its authors.
        source: The paper.
        size: Number of parameters as published, or None.
        note: What the paper leaves open, and what is assumed.
        kind: "decoder", "prefix_decoder" (bidirectional over the prompt), "encoder",
            "encoder_decoder" or "vision" (an encoder of patches).
        num_layers: L, of each stack.
        attention: What reads the sequence: "multi_head", "mamba", "rwkv4" or "rwkv7".
        num_heads: N, of attention; 1 where nothing has heads.
        num_key_value_heads: Key and value heads: N, or 1 in multi-query attention.
        head_dim: H, the width of a head.
        hidden_dim: d.
        intermediate_dim: Width of the feed-forward networks; of the layer itself in
            Mamba.
        state_size: Numbers in the state of each channel of a Mamba.
        conv_kernel: Steps that its short convolution reads.
        decay_rank: Width between the two matrices of RWKV-7 for the decay.
        rate_rank: That for the rate of erasing.
        value_rank: That for the share of the first values.
        gate_rank: That for the gate.
        num_experts: E, the feed-forward networks of a layer; None for one without a
            router. All have the width `intermediate_dim`.
        top_k: How many of them a token uses.
        vocabulary_size: V; None for images.
        max_sequence_length: T; None if the paper gives none.
        norm: "layer" or "rms".
        norm_placement: Where the norms are: "pre", "post", or "deep", which is post
            with a scaled residual. With "pre" a norm follows the last layer.
        feed_forward: "relu", "gelu", "gelu_tanh", "swiglu", "geglu", "channel_mix"
            of RWKV, or "none".
        use_bias: Whether dense layers have biases, and layer norms offsets.
        position: "learned", "sinusoidal", "rope", "alibi", "relative" (buckets, as in
            T5), "transformer_xl" or "none".
        tie_embeddings: Whether the output projection is the embedding matrix.
        parallel: Whether attention and feed-forward network are applied in parallel.
        embedding_norm: Whether to normalize the embeddings.
        relative_buckets: Number of buckets of "relative".
        segments: Number of segments, as in BERT.
        pooler: Whether there is a dense layer on the first token.
        image_size: Height and width of an image.
        patch_size: Height and width of a patch.
        channels: Channels of an image.
        classes: Number of classes; 0 for no classifier.
    """

    name: str
    title: str
    source: str
    size: int | None = None
    note: str = ""
    kind: str
    num_layers: int
    attention: str = "multi_head"
    num_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_dim: int
    intermediate_dim: int
    state_size: int | None = None
    conv_kernel: int | None = None
    decay_rank: int | None = None
    rate_rank: int | None = None
    value_rank: int | None = None
    gate_rank: int | None = None
    num_experts: int | None = None
    top_k: int | None = None
    vocabulary_size: int | None = None
    max_sequence_length: int | None = None
    norm: str
    norm_placement: str
    feed_forward: str
    use_bias: bool
    position: str
    tie_embeddings: bool = False
    parallel: bool = False
    embedding_norm: bool = False
    relative_buckets: int = 32
    segments: int = 0
    pooler: bool = False
    image_size: int | None = None
    patch_size: int | None = None
    channels: int | None = None
    classes: int = 0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            one_of(name, getattr(self, name), choices)
        for field in dataclasses.fields(self):
            if field.type is bool:
                one_of(field.name, getattr(self, field.name), (True, False))
        self._check_sizes()
        self._check_experts()
        self._fill_heads()

    def _check_sizes(self) -> None:
        for name in self._sizes():
            whole_number(name, getattr(self, name))
        for name in ("segments", "classes"):
            whole_number(name, getattr(self, name), at_least=0)
        for name in _OF_TEXT if self.kind == "vision" else _OF_IMAGES:
            if getattr(self, name):
                raise ValueError(
                    f'{name} must be left out for kind="{self.kind}", received '
                    f"{name}={getattr(self, name)} for {self.title}"
                )
        if self.kind == "vision":
            self._check_division("image_size", "patch_size")

    def _check_experts(self) -> None:
        if self.num_experts is None and self.top_k is None:
            return
        for name in ("num_experts", "top_k"):
            whole_number(name, getattr(self, name))
        if self.top_k > self.num_experts:
            raise ValueError(
                f"top_k must be at most num_experts={self.num_experts}, received "
                f"{self.top_k} for {self.title}"
            )
        if "encoder" in self.stacks or self.feed_forward not in _EXPERTS:
            raise ValueError(
                "num_experts must be left out unless the architecture is a decoder "
                f"with one of {', '.join(_EXPERTS)}, received kind={self.kind!r} and "
                f"feed_forward={self.feed_forward!r} for {self.title}"
            )

    def _sizes(self) -> Iterator[str]:
        """Yields the names of the sizes that this kind requires."""
        yield from ("num_layers", "num_heads", "hidden_dim", "intermediate_dim")
        if self.kind == "vision":
            yield from _OF_IMAGES[:3]
            return
        yield "vocabulary_size"
        if self.attention == "mamba":
            yield from ("state_size", "conv_kernel")
        if self.attention == "rwkv7":
            yield from _RANKS
        if self.position == "learned":
            yield "max_sequence_length"
        if self.position == "relative":
            yield "relative_buckets"

    def _fill_heads(self) -> None:
        if self.attention not in _WITH_HEADS and self.num_heads != 1:
            raise ValueError(
                f'num_heads must be 1 for attention="{self.attention}", which has no '
                f"heads, received {self.num_heads} for {self.title}"
            )
        if self.num_key_value_heads is None:
            object.__setattr__(self, "num_key_value_heads", self.num_heads)
        if self.head_dim is None:
            self._check_division("hidden_dim", "num_heads")
            object.__setattr__(self, "head_dim", self.hidden_dim // self.num_heads)
        whole_number("head_dim", self.head_dim)
        whole_number("num_key_value_heads", self.num_key_value_heads)
        self._check_division("num_heads", "num_key_value_heads")
        if self.position == "rope" and self.head_dim % 2:
            raise ValueError(
                f'head_dim must be even for position="rope", received {self.head_dim}'
            )

    def _check_division(self, name: str, by: str) -> None:
        value, number = getattr(self, name), getattr(self, by)
        if value % number:
            raise ValueError(f"{name}={value} must be a multiple of {by}={number}")

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks of layers, in order."""
        return STACKS[self.kind]

    @property
    def expand(self) -> int:
        """How many times as wide as the model the layers of a Mamba are.

        Examples:
            >>> architectures["mamba_130m"].expand
            2
        """
        return self.intermediate_dim // self.hidden_dim

    @property
    def patches(self) -> int:
        """Number of patches of an image; 0 for texts.

        Examples:
            >>> import kerasseq
            >>> kerasseq.models.architectures["vit_base_16"].patches
            196
        """
        if self.kind != "vision":
            return 0
        return (self.image_size // self.patch_size) ** 2

    @property
    def rule_of_thumb(self) -> int:
        r"""$12 L d^2$: four matrices $d \times d$ and two $d \times 4d$ in each layer.

        Examples:
            >>> import kerasseq
            >>> f"{kerasseq.models.architectures['gpt3'].rule_of_thumb:,}"
            '173,946,175,488'
        """
        return 12 * self.num_layers * self.hidden_dim**2

    def scaled(self, **changes: Any) -> "Architecture":
        """Changes some attributes, and scales the others in proportion.

        `intermediate_dim` and the total width of the heads follow `hidden_dim`. Key and
        value heads follow `num_heads`.

        Args:
            **changes: Attributes and their new values, such as `hidden_dim=768`.

        Raises:
            TypeError: If there is no such attribute, or a size is not an integer.
            ValueError: If a value is out of range, or the heads do not divide the
                width.

        Examples:
            >>> import kerasseq
            >>> gpt3 = kerasseq.models.architectures["gpt3"]
            >>> small = gpt3.scaled(hidden_dim=768, num_heads=12)
            >>> small.head_dim, small.intermediate_dim, small.num_layers
            (64, 3072, 96)
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise TypeError(
                    f"an architecture has no {name}.{nearest(name, known)} It has "
                    + ", ".join(known)
                )
        width = whole_number("hidden_dim", changes.get("hidden_dim", self.hidden_dim))
        heads = whole_number("num_heads", changes.get("num_heads", self.num_heads))
        grown = Fraction(width, self.hidden_dim)
        follow = {
            "intermediate_dim": max(1, round(self.intermediate_dim * grown)),
            "num_key_value_heads": max(
                1, self.num_key_value_heads * heads // self.num_heads
            ),
            "size": None,
        }
        if "head_dim" not in changes:
            together = self.num_heads * self.head_dim * grown
            if together % heads:
                raise ValueError(
                    f"num_heads must give heads of whole width for hidden_dim={width}, "
                    f"received num_heads={heads}. Choose another number, or pass "
                    "head_dim"
                )
            follow["head_dim"] = int(together) // heads
        return dataclasses.replace(self, **(follow | changes))

    def small(self) -> "Architecture":
        """Returns the same architecture at a tiny size, for tests.

        If N heads of width H have the width of the model, they still do. If groups of
        heads share keys and values, there are two groups.

        Examples:
            >>> import kerasseq
            >>> tiny = kerasseq.models.architectures["palm"].small()
            >>> tiny.hidden_dim, tiny.num_heads, tiny.head_dim, tiny.intermediate_dim
            (24, 4, 10, 96)
        """
        sizes = {k: v for k, v in _TINY.items() if getattr(self, k)}
        if self.attention not in _WITH_HEADS:
            return self.scaled(**(sizes | {"num_heads": 1}))
        if 1 < self.num_key_value_heads < self.num_heads:
            sizes["num_key_value_heads"] = 2
        fill = self.num_heads * self.head_dim == self.hidden_dim
        return self.scaled(**sizes, head_dim=6 if fill else 10)


TABLE = pathlib.Path(__file__).with_name("architectures.toml")


class Architectures(Mapping[str, Architecture]):
    """The rows of the table by name, in order.

    Examples:
        >>> architectures["llama_65b"].feed_forward
        'swiglu'
        >>> list(architectures)[:4]
        ['gpt3', 'pangu_alpha', 'opt', 'palm']
    """

    @functools.cached_property
    def _rows(self) -> dict[str, Architecture]:
        import tomllib  # on first use

        table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
        rows = {}
        for name, row in table.items():
            like = rows.get(row.pop("like", None), {})
            rows[name] = {k: v for k, v in like.items() if k != "note"} | row
        return {name: Architecture(name=name, **row) for name, row in rows.items()}

    def __getitem__(self, name: str) -> Architecture:
        if name not in self._rows:
            raise KeyError(_unknown(name))
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Architectures({', '.join(self)})"

    def _repr_html_(self) -> str:
        names = ("name", "title", "kind", "num_layers", "num_heads", "hidden_dim")
        rows = [[str(getattr(row, name)) for name in names] for row in self.values()]
        return Table(rows, names).html()


architectures: Architectures = Architectures()
"""Published architectures by name, such as `architectures["gpt3"]`."""


def find(architecture: "str | Architecture", **changes: Any) -> Architecture:
    """Returns the architecture of a name, or an `Architecture`, with changes.

    Args:
        architecture: The name, or the `Architecture`.
        **changes: Attributes to change, and their values.

    Raises:
        TypeError: If it is not a name or an `Architecture`.
        ValueError: If the name is unknown.

    Examples:
        >>> find("GPT-3")
        Traceback (most recent call last):
        ...
        ValueError: there is no architecture "GPT-3". Did you mean "gpt3"?
    """
    if isinstance(architecture, Architecture):
        row = architecture
    elif not isinstance(architecture, str):
        raise TypeError(
            "architecture must be a name or a row of models.architectures, received "
            f"{architecture!r}"
        )
    elif architecture not in architectures:
        raise ValueError(_unknown(architecture))
    else:
        row = architectures[architecture]
    return dataclasses.replace(row, **changes) if changes else row


def _unknown(name: str) -> str:
    written = str(name).lower().replace("-", "_")  # as authors write it: T5-11B
    return f'there is no architecture "{name}".{nearest(written, architectures)}'
