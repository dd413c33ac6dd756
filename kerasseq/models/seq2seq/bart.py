"""BART and mBART: Transformers with encoder and decoder, trained to restore texts."""

import functools
import math
from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.models.arguments import among, check_memory, checked_arguments
from kerasseq.models.seq2seq.first_token_step import FirstTokenStep
from kerasseq.models.seq2seq.networks import options_of_blocks
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.seq2seq.transformer_base import (
    Decoder,
    Encoder,
    EncoderDecoder,
    LayerOptions,
)
from kerasseq.models.seq2seq.vocabulary import PublishedIds, Vocabulary
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.transformer.feed_forward import FEED_FORWARDS

FIRST, PADDING, END = 0, 1, 2
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>")  # in the order of their ids
BLOCK = {"norm": "layer", "use_bias": True, "layer_norm_epsilon": 1e-5}


@register
class BART(EncoderDecoder):
    r"""BART, a Transformer with the ids of the published weights; mBART and BARThez.

    $$x_0 = \mathrm{LayerNorm}(f E_w + P), \qquad x_l = \mathrm{Block}_l(x_{l-1}),
    \qquad p = \mathrm{softmax}(x_L E^T + b)$$

    BART has its norms after each sublayer. With `norm_placement="pre"` and
    `scale_embeddings=True` it is mBART, and BARThez, with norms before each sublayer
    and at the end of encoder and decoder. Positions are learned. `training.Denoising`
    has the noise of the pre-training.

    The ids are those of the tokenizer: 0 is `<s>`, before the tokens of a text, 1 is
    padding, 2 is `</s>`, after them, which the decoder also reads first. Texts get
    these ids; rows of ids are taken as they are. For tokenizers without these tokens
    see `Transformer`.

    Args:
        tokenizer: For sources and targets, fitted, saved with the model, whose first
            tokens are `<s>`, `<pad>` and `</s>`; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: V, number of ids, for a model without a tokenizer.
        num_layers: L, of the encoder, and of the decoder if `num_decoder_layers` is
            None.
        num_heads: N, number of attention heads.
        hidden_dim: D, the hidden size.
        intermediate_dim: Hidden size of the feed-forward networks; 4 D if None.
        max_sequence_length: Number of positions.
        dropout: Dropout rate.
        feed_forward: "gelu", "gelu_tanh" or another name of `FeedForward`.
        norm_placement: "post" for BART, "pre" for mBART.
        scale_embeddings: Whether token embeddings are multiplied by
            $f = \sqrt D$; else f is 1.
        num_decoder_layers: L of the decoder; `num_layers` if None.
        start_id: The id that the decoder reads first: that of a language for mBART.
        first_id: The id that each generated target begins with, such as 0, `<s>`; any
            if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, `num_heads` does not divide
            `hidden_dim`, or the tokenizer has other first tokens.

    Examples:
        >>> import kerasseq
        >>> special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        >>> tokenizer = kerasseq.text.BytePairTokenizer(300, special_tokens=special)
        >>> model = BART(tokenizer.fit("to be"), num_layers=1, hidden_dim=8)
        >>> len(model.translate(["to be", "be"], max_length=4))
        2
        >>> source, target = model.encode("to", "be")
        >>> int(source[0, 0]), int(source[0, -1]), target[0, :2].tolist()
        (0, 2, [2, 0])

    References:
        Lewis et al. 2020; Liu et al. 2020 (mBART); Kamal Eddine et al. 2021 (BARThez).
        Slides D.
    """

    padding = PADDING

    @checked_arguments(
        feed_forward=among(*FEED_FORWARDS),
        norm_placement=among("pre", "post"),
        start_id=functools.partial(checks.whole_number, at_least=0),
        first_id=functools.partial(checks.whole_number, at_least=0),
    )
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 3,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        max_sequence_length: int = 256,
        dropout: float = 0.1,
        feed_forward: str = "gelu",
        norm_placement: str = "post",
        scale_embeddings: bool = False,
        num_decoder_layers: int | None = None,
        start_id: int = END,
        first_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        config = self._arguments
        source, target = make_vocabularies(
            tokenizer, vocabulary_size, max_sequence_length, start_id
        )
        for name, value in (("start_id", start_id), ("first_id", first_id)):
            if value is not None and value >= target.size:
                raise ValueError(
                    f"{name} must be an id, below {target.size}, received {value}"
                )
        D = hidden_dim
        check_memory(config, vocabulary_size=target.size)
        options = make_options(config)
        embedding = keras.layers.ReversibleEmbedding(
            target.size,
            D,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="embedding",
        )
        decoder = Decoder(embedding, options)
        encoder = Encoder(embedding, options)
        super().__init__(source, target, encoder, decoder, config, **kwargs)
        self.tokenizer = tokenizer
        self.first_id = first_id

    @functools.cached_property
    def step(self) -> TargetStep:
        """The step function of decoding, which begins a target with `first_id`."""
        never = self.never_written
        return FirstTokenStep(self, "decode_step", never, self.first_id)


def make_vocabularies(
    tokenizer: Any, vocabulary_size: int | None, max_length: int, start_id: int
) -> list[Vocabulary]:
    """Makes the vocabularies of source and target."""
    if (tokenizer is None) == (vocabulary_size is None):
        raise ValueError(
            "expected either tokenizer, for texts, or vocabulary_size, for ids; "
            f"received {tokenizer=} and {vocabulary_size=}"
        )
    if tokenizer is None:
        checks.whole_number("vocabulary_size", vocabulary_size, len(SPECIAL_TOKENS))
    else:
        first = tuple(tokenizer.vocabulary[: len(SPECIAL_TOKENS)])
        if first != SPECIAL_TOKENS:
            raise ValueError(
                f"the first tokens of tokenizer must be {', '.join(SPECIAL_TOKENS)}, "
                f"received {', '.join(first)}. Make it with special_tokens="
                f"{[*SPECIAL_TOKENS, '<unk>', '<mask>']}, or build a models.Transformer"
            )
    published = PublishedIds(PADDING, start_id, END, FIRST)
    lengths = max_length, max_length - 1  # after the start
    return [
        Vocabulary(name, tokenizer, vocabulary_size, length, published=published)
        for name, length in zip(("source", "target"), lengths, strict=True)
    ]


def make_options(a: dict[str, Any]) -> LayerOptions:
    """Returns the options of the layers of a BART with these arguments."""
    blocks = options_of_blocks(
        *(a["feed_forward"], a["num_layers"]),
        *(None, a["num_decoder_layers"] or a["num_layers"]),
        intermediate_dim=a["intermediate_dim"],
        hidden_dim=a["hidden_dim"],
    )
    names = "num_heads", "dropout", "norm_placement"
    return LayerOptions(
        *blocks,
        block={**BLOCK, **{name: a[name] for name in names}},
        position="learned",
        max_sequence_length=a["max_sequence_length"],
        embedding_norm=True,
        embedding_scale=math.sqrt(a["hidden_dim"]) if a["scale_embeddings"] else 1.0,
        padding=PADDING,
        logit_bias=True,
    )
