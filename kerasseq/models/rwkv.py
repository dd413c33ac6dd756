r"""RWKV-4 and RWKV-7: language models with a state of constant size, without attention.

$$
\begin{aligned}
x_0 &= \mathrm{LayerNorm}(E_w) \\
a_l &= x_{l-1} + \mathrm{TimeMix}_l(\mathrm{LayerNorm}(x_{l-1})) \\
x_l &= a_l + \mathrm{ChannelMix}_l(\mathrm{LayerNorm}(a_l)) \\
p &= \mathrm{softmax}(\mathrm{LayerNorm}(x_L) W)
\end{aligned}
$$

In RWKV-7 each $\mathrm{TimeMix}_l$ after the first mixes its values with those of the
first. The layers are in `linear/rwkv4.py` and `linear/rwkv7.py`; decoding and training
are those of `GPT`. Peng et al. 2023 (arXiv 2305.13048) and 2025 (arXiv 2503.14456).
"""

import math
from typing import Any

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.linear.rwkv4 import RWKV4ChannelMix, RWKV4TimeMix
from kerasseq.linear.rwkv7 import RWKV7TimeMix
from kerasseq.linear.rwkv7_channel_mix import RWKV7ChannelMix
from kerasseq.models.arguments import among, checked_arguments
from kerasseq.models.gpt.gpt import GPT
from kerasseq.text.tokenizers.conversion import AnyTokenizer

HEAD_DIM = 64  # of the published models
RANKS = ("decay_rank", "rate_rank", "value_rank", "gate_rank")
OWN = ("attention_dim", "version", "head_dim", *RANKS)  # which `GPT` does not have


@register
class RWKV(GPT):
    r"""A language model whose state has the same size after any number of tokens.

    It is a `GPT` with `RWKV4TimeMix` in place of attention, `RWKV4ChannelMix` as
    feed-forward network, a norm of the embeddings and no positions; or with
    `RWKV7TimeMix` and `RWKV7ChannelMix`. `fit`, `generate`, `stream` and `with_head`
    are the same; a prompt is read in one pass.

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        hidden_dim: D.
        attention_dim: Channels of keys and values of version 4; D if None.
        intermediate_dim: Width of the channel mixes; 4 D if None.
        dropout: Dropout rate.
        tie_embeddings: Whether the output projection is the embedding matrix.
        layer_norm_epsilon: Epsilon of the norms.
        head: "tokens" for logits `(B, T, V)`, or None for hidden states `(B, T, D)`.
        version: 4, or 7.
        head_dim: Width of a head of version 7; if None it is 64, or the largest power
            of two below it that divides D.
        decay_rank: Width between the two matrices of version 7 for the decay. If a rank
            is None, it grows with D as in the published models.
        rate_rank: That for the rate of erasing.
        value_rank: That for the share of the first values.
        gate_rank: That for the gate.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range or of the other version, or
            `head_dim` does not divide D.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = RWKV(tokenizer, num_layers=2, hidden_dim=8)
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9
        >>> RWKV(tokenizer, num_layers=2, hidden_dim=8, version=7).count_params()
        5592

    References:
        Peng et al. 2023 and 2025. Slides A.
    """

    built_attention: tuple[str, ...] = ("rwkv4", "rwkv7")
    fields: tuple[str, ...] = (
        "num_layers",
        "hidden_dim",
        "intermediate_dim",
        "tie_embeddings",
    )

    @checked_arguments(version=among(4, 7), head_dim=None)
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 4,
        hidden_dim: int = 128,
        attention_dim: int | None = None,
        intermediate_dim: int | None = None,
        dropout: float = 0.0,
        tie_embeddings: bool = False,
        layer_norm_epsilon: float = 1e-5,
        head: str | None = "tokens",
        version: int = 4,
        head_dim: int | None = None,
        decay_rank: int | None = None,
        rate_rank: int | None = None,
        value_rank: int | None = None,
        gate_rank: int | None = None,
        **kwargs: Any,
    ) -> None:
        arguments, L = self._arguments, num_layers
        own = {name: arguments[name] for name in OWN}
        shared = {n: value for n, value in arguments.items() if n not in OWN}
        _check_version(own)
        checks.fits_memory("num_layers", L, hidden_dim)
        if version == 4:
            mixes = _mixes_of_4(L, hidden_dim, attention_dim, intermediate_dim)
        else:
            ranks = {name: own[name] for name in RANKS}
            mixes = _mixes_of_7(L, hidden_dim, head_dim, intermediate_dim, ranks)
        attention, feed_forward = mixes
        super().__init__(
            **{**shared, "intermediate_dim": None},  # the layers have it
            attention=attention,
            feed_forward=feed_forward,
            embedding_norm=True,
            position=None,
            num_heads=1,
            **kwargs,
        )
        self._arguments = arguments

    @classmethod
    def _options_of(cls, row):
        options = super()._options_of(row)
        if row.attention == "rwkv4":
            return options
        more = {name: getattr(row, name) for name in ("head_dim", *RANKS)}
        return {**options, "version": 7, **more}


def default_head_dim(hidden_dim: int) -> int:
    """Returns the width of the heads of RWKV-7, if it is not given.

    Examples:
        >>> default_head_dim(768), default_head_dim(40)
        (64, 8)
    """
    return math.gcd(hidden_dim, HEAD_DIM)


def _check_version(own):
    """Raises if an argument of the other version is given."""
    version = own["version"]
    others = ("attention_dim",) if version == 7 else ("head_dim", *RANKS)
    for name in others:
        if own[name] is not None:
            raise ValueError(
                f"{name} must be None in version={version}, received "
                f"{checks.short(own[name])}. Leave it out, or pass "
                f"version={4 if version == 7 else 7}"
            )


def _places(L):
    return [{"layer_index": n, "num_layers": L} for n in range(L)]


def _mixes_of_4(L, hidden_dim, attention_dim, intermediate_dim):
    """Returns the layers of RWKV-4 in place of attention and feed-forward network."""
    if checks.optional(checks.size, "attention_dim", attention_dim):
        checks.fits_memory("attention_dim", attention_dim, hidden_dim)
    return (
        [RWKV4TimeMix(attention_dim, name="time_mix", **at) for at in _places(L)],
        [
            RWKV4ChannelMix(intermediate_dim, name="channel_mix", **at)
            for at in _places(L)
        ],
    )


def _mixes_of_7(L, hidden_dim, head_dim, intermediate_dim, ranks):
    """Returns the layers of RWKV-7 in place of attention and feed-forward network."""
    if head_dim is None:
        head_dim = default_head_dim(hidden_dim)
    K = checks.size("head_dim", head_dim)
    if hidden_dim % K:
        raise ValueError(
            f"head_dim must divide hidden_dim={hidden_dim}, received head_dim={K}. "
            "Choose a divisor, or leave head_dim out"
        )
    return (
        [
            RWKV7TimeMix(hidden_dim // K, K, **ranks, name="time_mix", **at)
            for at in _places(L)
        ],
        [
            RWKV7ChannelMix(intermediate_dim, name="channel_mix", **at)
            for at in _places(L)
        ],
    )
