r"""xLSTM: a language model of mLSTM and sLSTM blocks, without attention.

$$
\begin{aligned}
x_0 &= E_w \\
a_l &= x_{l-1} + \mathrm{mLSTM}_l(\mathrm{RMSNorm}(x_{l-1})) \\
x_l &= a_l + \mathrm{SwiGLU}_l(\mathrm{RMSNorm}(a_l)) \\
p &= \mathrm{softmax}(c \tanh(\mathrm{RMSNorm}(x_L) W / c))
\end{aligned}
$$

The layers are in `linear/mlstm.py` and `rnn/slstm.py`; blocks, decoding and training
are those of `GPT`. The blocks are those of xLSTM 7B, the numbers those of Hugging
Face's `xLSTMForCausalLM`. Beck et al. 2024 (arXiv 2405.04517), 2025 (2503.13427).
"""

from collections.abc import Collection, Iterable
from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.linear.mlstm import MLSTM
from kerasseq.models.arguments import checked_arguments
from kerasseq.models.gpt.gpt import GPT
from kerasseq.rnn.slstm import SLSTM
from kerasseq.text.tokenizers.conversion import AnyTokenizer

MULTIPLE = 64  # of the widths that are not given
QUERY_FACTOR, FEED_FORWARD_FACTOR = 0.5, 2.667  # of xLSTM 7B
WIDTHS = ("query_dim", "value_dim", "intermediate_dim")
OWN = (*WIDTHS, "slstm_at", "soft_cap")  # those that `GPT` does not have, or not so
FIRST_INPUT_BIAS = -10.0  # as in xLSTM 7B: little is written at first


@register
class XLSTM(GPT):
    r"""A language model whose state has the same size after any number of tokens.

    It is a `GPT` with `MLSTM` in place of attention, or `SLSTM` in some blocks,
    root-mean-square norms, SwiGLU, a bound of the logits and no positions. `fit`,
    `generate`, `stream` and `with_head` are the same; a prompt is read in one pass,
    except by `SLSTM`.

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        num_heads: N, heads of each layer.
        hidden_dim: D.
        query_dim: Width of the queries of all heads, and of the keys; if None, D / 2,
            rounded up to a multiple of 64.
        value_dim: Width of the values of all heads; D if None, rounded up as well.
        intermediate_dim: Width of the feed-forward networks; if None, 2.667 D, rounded
            up as well.
        slstm_at: Indices of the blocks, from 0, with `SLSTM` in place of `MLSTM`, as in
            the mixed stacks of the first paper.
        soft_cap: Bound of the pre-activations of the gates of `MLSTM`; none if None.
        logit_soft_cap: c, the bound of the logits; none if None.
        dropout: Dropout rate.
        tie_embeddings: Whether the output projection is the embedding matrix.
        layer_norm_epsilon: Epsilon of the norms.
        head: "tokens" for logits `(B, T, V)`, or None for hidden states `(B, T, D)`.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `num_heads` does not divide a
            width.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = XLSTM(tokenizer, num_layers=2, hidden_dim=8, slstm_at=[1])
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9

    References:
        Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024; Beck et
        al., "xLSTM 7B", 2025.
    """

    built_attention = "mlstm"
    fields: tuple[str, ...] = (
        *("num_layers", "num_heads", "hidden_dim", "intermediate_dim"),
        "tie_embeddings",
    )

    @checked_arguments(logit_soft_cap=None)
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 4,
        num_heads: int = 4,
        hidden_dim: int = 128,
        query_dim: int | None = None,
        value_dim: int | None = None,
        intermediate_dim: int | None = None,
        slstm_at: Iterable[int] = (),
        soft_cap: float | None = 15.0,
        logit_soft_cap: float | None = 30.0,
        dropout: float = 0.0,
        tie_embeddings: bool = False,
        layer_norm_epsilon: float = 1e-6,
        head: str | None = "tokens",
        **kwargs: Any,
    ) -> None:
        arguments, L, D = self._arguments, num_layers, hidden_dim
        checks.fits_memory("num_layers", L, D)
        shared = {n: value for n, value in arguments.items() if n not in OWN}
        given = {name: arguments[name] for name in WIDTHS}
        blocks = arguments["slstm_at"] = block_indices("slstm_at", slstm_at, L)
        sizes = widths(D, **given)
        for name, width in {**sizes, "hidden_dim": D}.items():
            checks.fits_memory(name, width, D)
        super().__init__(
            **shared,
            intermediate_dim=sizes.pop("intermediate_dim"),
            attention=make_layers(
                L,
                num_heads,
                **{**sizes, "hidden_dim": D} if blocks else sizes,
                slstm_at=blocks,
                soft_cap=soft_cap,
                epsilon=layer_norm_epsilon,
            ),
            feed_forward="swiglu",
            norm="rms",
            use_bias=False,
            position=None,
            **kwargs,
        )
        self._arguments = arguments


def make_layers(
    num_layers: int,
    num_heads: int,
    *,
    slstm_at: Collection[int],
    soft_cap: float | None,
    epsilon: float,
    **widths: int,
) -> list[keras.Layer]:
    """Makes the layer of each block that reads the sequence.

    Args:
        num_layers: L.
        num_heads: N.
        slstm_at: As for `XLSTM`.
        soft_cap: As for `XLSTM`.
        epsilon: Epsilon of the norm of an `MLSTM`.
        **widths: "query_dim" and "value_dim", and "hidden_dim" if there is an `SLSTM`.

    Raises:
        ValueError: If N does not divide a width.

    Examples:
        >>> options = {"slstm_at": [1], "soft_cap": None, "epsilon": 1e-6}
        >>> widths = {"query_dim": 6, "value_dim": 9, "hidden_dim": 15}
        >>> layers = make_layers(2, 3, **widths, **options)
        >>> layers[0].key_dim, layers[0].value_dim, layers[1].units
        (2, 3, 15)
    """
    for name, width in widths.items():
        if width % num_heads:
            raise ValueError(
                f"num_heads must divide {name}={width}, received num_heads="
                f"{num_heads}. Choose a divisor"
            )
    K, V = (widths[name] // num_heads for name in ("query_dim", "value_dim"))
    options = {"soft_cap": soft_cap, "epsilon": epsilon, "name": "mlstm"}
    options["input_bias_initializer"] = keras.initializers.Constant(FIRST_INPUT_BIAS)
    return [
        SLSTM(
            widths["hidden_dim"],
            num_heads=num_heads,
            return_sequences=True,
            name="slstm",
        )
        if n in slstm_at
        else MLSTM(num_heads, K, V, **options)
        for n in range(num_layers)
    ]


def widths(
    hidden_dim: int,
    query_dim: int | None = None,
    value_dim: int | None = None,
    intermediate_dim: int | None = None,
) -> dict[str, int]:
    """Returns the widths of a model: those that are not given as in xLSTM 7B.

    Examples:
        >>> widths(4096)
        {'query_dim': 2048, 'value_dim': 4096, 'intermediate_dim': 10944}
    """
    D = hidden_dim
    return {
        "query_dim": query_dim or rounded_up(QUERY_FACTOR * D),
        "value_dim": value_dim or rounded_up(D),
        "intermediate_dim": intermediate_dim or rounded_up(FEED_FORWARD_FACTOR * D),
    }


def rounded_up(width: float, multiple: int = MULTIPLE) -> int:
    """Returns a width, rounded up as by Hugging Face's settings.

    Examples:
        >>> rounded_up(64), rounded_up(65)
        (64, 128)
    """
    return int((width + multiple - 1) // multiple * multiple)


def block_indices(name: str, indices: Iterable[int], num_layers: int) -> list[int]:
    """Returns indices of blocks, in order.

    Args:
        name: Name of the argument, for messages.
        indices: The indices.
        num_layers: L, the number of blocks.

    Raises:
        TypeError: If they are not a list of integers.
        ValueError: If one is not from 0 to L - 1, or is there twice.

    Examples:
        >>> block_indices("slstm_at", (3, 1), 4)
        [1, 3]
    """
    indices = checks.several(name, indices, "indices of blocks")
    ordered = sorted(checks.whole_number(name, n, 0) for n in indices)
    if len(set(ordered)) < len(ordered) or any(n >= num_layers for n in ordered):
        raise ValueError(
            f"{name} must be distinct indices of the {num_layers} blocks, from 0 to "
            f"{num_layers - 1}, received {checks.short(indices)}"
        )
    return ordered
