r"""RWKV-4: a language model of weighted means with decay, without attention.

$$
\begin{aligned}
x_0 &= \mathrm{LayerNorm}(E_w) \\
a_l &= x_{l-1} + \mathrm{TimeMix}_l(\mathrm{LayerNorm}(x_{l-1})) \\
x_l &= a_l + \mathrm{ChannelMix}_l(\mathrm{LayerNorm}(a_l)) \\
p &= \mathrm{softmax}(\mathrm{LayerNorm}(x_L) W)
\end{aligned}
$$

The layers are in `linear/rwkv4.py`; blocks, decoding and training are those of `GPT`.
Peng et al. 2023 (arXiv 2305.13048).
"""

from typing import Any

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.linear.rwkv4 import RWKV4ChannelMix, RWKV4TimeMix
from kerasseq.models.gpt.gpt import GPT
from kerasseq.text.tokenizers.conversion import AnyTokenizer, fitted_tokenizer


@register
class RWKV(GPT):
    r"""A language model whose state has the same size after any number of tokens.

    It is a `GPT` with `RWKV4TimeMix` in place of attention, `RWKV4ChannelMix` as
    feed-forward network, a norm of the embeddings and no positions. `fit`, `generate`,
    `stream` and `with_head` are the same; a prompt is read in one pass.

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        hidden_dim: D.
        attention_dim: Channels of keys and values; D if None.
        intermediate_dim: Width of the channel mixes; 4 D if None.
        dropout: Dropout rate.
        tie_embeddings: Whether the output projection is the embedding matrix.
        layer_norm_epsilon: Epsilon of the norms.
        head: "tokens" for logits `(B, T, V)`, or None for hidden states `(B, T, D)`.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = RWKV(tokenizer, num_layers=2, hidden_dim=8)
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9

    References:
        Peng et al. 2023. Slides A.
    """

    built_attention = "rwkv4"
    fields: tuple[str, ...] = (
        "num_layers",
        "hidden_dim",
        "intermediate_dim",
        "tie_embeddings",
    )

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
        **kwargs: Any,
    ) -> None:
        tokenizer = fitted_tokenizer(tokenizer)
        L = checks.size("num_layers", num_layers)
        arguments = {
            "tokenizer": tokenizer,
            "vocabulary_size": vocabulary_size,
            "num_layers": L,
            "hidden_dim": checks.size("hidden_dim", hidden_dim),
            "intermediate_dim": intermediate_dim,
            "dropout": dropout,
            "tie_embeddings": tie_embeddings,
            "layer_norm_epsilon": layer_norm_epsilon,
            "head": head,
        }
        checks.fits_memory("num_layers", L, hidden_dim)
        places = [{"layer_index": n, "num_layers": L} for n in range(L)]
        if checks.optional(checks.size, "attention_dim", attention_dim):
            checks.fits_memory("attention_dim", attention_dim, hidden_dim)
        super().__init__(
            **arguments,
            attention=[
                RWKV4TimeMix(attention_dim, name="time_mix", **place)
                for place in places
            ],
            feed_forward=[
                RWKV4ChannelMix(intermediate_dim, name="channel_mix", **place)
                for place in places
            ],
            embedding_norm=True,
            position=None,
            num_heads=1,
            **kwargs,
        )
        self._arguments = {**arguments, "attention_dim": attention_dim}
