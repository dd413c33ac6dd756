r"""Mamba: a language model of selective state space layers, without attention.

$$x_0 = E_w, \qquad x_l = x_{l-1} + \mathrm{Mamba}_l(\mathrm{RMSNorm}(x_{l-1})), \qquad
p = \mathrm{softmax}(\mathrm{RMSNorm}(x_L) E^T)$$

The layer is in `state_space/mamba.py`; blocks, decoding and training are those of
`GPT`. Gu and Dao 2023 (arXiv 2312.00752).
"""

import functools
from typing import Any

from kerasseq.core.serialization import register
from kerasseq.models.arguments import checked_arguments
from kerasseq.models.gpt.gpt import GPT
from kerasseq.state_space.mamba import Mamba as MambaLayer
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.transformer.feed_forward import NONE

OWN = (  # arguments that `GPT` does not have, or not so
    *("state_size", "conv_kernel", "expand", "time_step_rank"),
    *("use_bias", "use_conv_bias"),
)


@functools.partial(register, name="MambaModel")  # the layer has the other name
class Mamba(GPT):
    r"""A language model whose state has the same size after any number of tokens.

    It is a `GPT` with `attention=layers.Mamba(...)`, root-mean-square norms, and
    neither feed-forward networks nor positions. `fit`, `generate`, `stream` and
    `with_head` are the same; a prompt is read in one pass.

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        hidden_dim: D.
        state_size: N, numbers in the state of each channel.
        conv_kernel: Number of steps that the short convolution reads.
        expand: Channels are this factor times D.
        time_step_rank: Rank of the step sizes; D / 16, rounded up, if None.
        use_bias: Whether the projections of a block have biases.
        use_conv_bias: Whether the short convolution has a bias.
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
        >>> model = Mamba(tokenizer, num_layers=2, hidden_dim=8)
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9

    References:
        Gu and Dao 2023. Slides A, C.
    """

    built_attention: tuple[str, ...] = ("mamba",)
    fields: tuple[str, ...] = (
        *("num_layers", "hidden_dim", "state_size", "conv_kernel", "expand"),
        "tie_embeddings",
    )

    @checked_arguments(use_bias=None, num_layers=None)
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 4,
        hidden_dim: int = 128,
        state_size: int = 16,
        conv_kernel: int = 4,
        expand: int = 2,
        time_step_rank: int | None = None,
        use_bias: bool = False,
        use_conv_bias: bool = True,
        dropout: float = 0.0,
        tie_embeddings: bool = True,
        layer_norm_epsilon: float = 1e-5,
        head: str | None = "tokens",
        **kwargs: Any,
    ) -> None:
        arguments = self._arguments
        own = {name: arguments[name] for name in OWN}
        shared = {n: value for n, value in arguments.items() if n not in OWN}
        super().__init__(
            **shared,
            attention=MambaLayer(**own, name="mamba"),
            feed_forward=NONE,
            norm="rms",
            position=None,
            num_heads=1,
            **kwargs,
        )
        self._arguments = arguments
