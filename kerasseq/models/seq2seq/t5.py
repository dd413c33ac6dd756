"""T5: encoder-decoder Transformers from text to text, and their encoder alone."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.ids import has_texts
from kerasseq.core.padding import pad_rows, padded
from kerasseq.core.serialization import register
from kerasseq.core.types import Config
from kerasseq.models.arguments import check_memory, checked_arguments
from kerasseq.models.seq2seq.networks import options_of_blocks
from kerasseq.models.seq2seq.transformer import find_encoder_decoder, user_ids
from kerasseq.models.seq2seq.transformer_base import (
    Decoder,
    Encoder,
    EncoderDecoder,
    LayerOptions,
)
from kerasseq.models.seq2seq.vocabulary import PublishedIds, Rows, Vocabulary
from kerasseq.positions.relative import RelativePositionBias
from kerasseq.published.architectures import Architecture
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.fit_call import FitCall
from kerasseq.tasks.sources import read
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.training import ScheduledSampling
from kerasseq.transformer.feed_forward import FEED_FORWARDS
from kerasseq.transformer.initializers import FanInNormal

FIELDS = (  # arguments that are fields of an architecture, too
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "head_dim",
    "feed_forward",
    "tie_embeddings",
    "relative_buckets",
)

PUBLISHED_IDS = PublishedIds(padding=0, start=0, end=1)
MAX_DISTANCE = 128  # of `RelativePositionBias`
FIXED = {  # fields that every T5 has
    "norm": "rms",
    "norm_placement": "pre",
    "use_bias": False,
    "position": "relative",
    "embedding_norm": False,
}


@register
class T5(EncoderDecoder):
    r"""T5, a Transformer from text to text: a prefix of the source names the task.

    $$a = \mathrm{softmax}(Q K^T + B_{\mathrm{bucket}(s - p)})\,V, \qquad
    p = \mathrm{softmax}\left(\tfrac{1}{\sqrt D}\, x_L E^T\right)$$

    Relative position biases, one table for all encoder layers and one for all decoder
    layers; RMS norms before each sublayer and at the end of encoder and decoder; no
    biases; attention scores are not scaled, so queries and keys are initialized with
    smaller weights. T5 1.1 has `feed_forward="geglu"` and `tie_embeddings=False`; its
    published weights have "geglu_tanh".

    Different from the paper, position biases are initialized with standard deviation 1,
    so that the order of tokens matters from the first step. Left out: dropout inside
    the feed-forward networks.

    Args:
        tokenizer: For sources and targets, fitted, saved with the model; see
            `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer; 0 is padding.
        num_layers: L, of the encoder, and of the decoder if `num_decoder_layers` is
            None.
        num_heads: N, number of attention heads.
        hidden_dim: D, the hidden size.
        intermediate_dim: Hidden size of the feed-forward networks by name; 4 D if
            None.
        head_dim: Size of a head; D / N if None.
        dropout: Dropout rate.
        feed_forward: "relu", "geglu" …, see `FeedForward`; a layer, of which each block
            gets a copy; or a list with one of these for each block of the encoder.
            Switch Transformers are T5s with `MixtureOfExperts(…, top_k=1,
            feed_forward="relu", norm_topk_prob=False)` in every second block.
        tie_embeddings: Whether the logits use the weights of the embedding, multiplied
            by $1 / \sqrt D$; if not, they have weights of their own and no factor.
        relative_buckets: Number of buckets of relative positions.
        scheduled_sampling: As for `Transformer`.
        layer_norm_epsilon: Epsilon of the norms.
        published_ids: Whether ids are those of the published weights: 0 is padding and
            start, 1 is the end, and ids of the user are ids of the model. If not, the
            model reserves three ids before those of the user.
        num_decoder_layers: L of the decoder; `num_layers` if None.
        decoder_feed_forward: As `feed_forward`, for the blocks of the decoder; the same
            if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `num_heads` does not divide
            `hidden_dim`.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("sort: cab")
        >>> model = T5(tokenizer, num_layers=1, hidden_dim=8)
        >>> len(model.translate(["sort: cab", "sort: ba"], max_length=4))
        2

    References:
        Raffel et al. 2020; Shazeer 2020 (1.1). Slides A, C, D.
    """

    @checked_arguments(vocabulary_size=checks.whole_number)
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 3,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        head_dim: int | None = None,
        dropout: float = 0.1,
        feed_forward: Any = "relu",
        tie_embeddings: bool = True,
        relative_buckets: int = 32,
        scheduled_sampling: ScheduledSampling | None = None,
        layer_norm_epsilon: float = 1e-6,
        published_ids: bool = False,
        num_decoder_layers: int | None = None,
        decoder_feed_forward: Any = None,
        **kwargs: Any,
    ) -> None:
        config = self._arguments
        options = make_options(config)
        published = PUBLISHED_IDS if published_ids else None
        source, target = (
            Vocabulary(name, tokenizer, vocabulary_size, published=published)
            for name in ("source", "target")
        )
        embedding = make_embedding(source.size, hidden_dim, tie_embeddings)
        decoder = Decoder(embedding, options)
        encoder = Encoder(embedding, options)
        super().__init__(
            source, target, encoder, decoder, config, scheduled_sampling, **kwargs
        )
        self.tokenizer = tokenizer

    @classmethod
    def from_architecture(
        cls,
        architecture: str | Architecture,
        tokenizer: AnyTokenizer | None = None,
        **changes: Any,
    ) -> "T5":
        """Builds the model that a row of `models.architectures` describes.

        Args:
            architecture: A name, such as "t5_small", or a row, such as
                `architectures["t5_small"].small()`.
            tokenizer: A fitted tokenizer, which gives the vocabulary.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights. Padding, start and end are among the ids of
            the row.

        Raises:
            ValueError: If there is no such row, or it does not describe a T5.

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["t5_small"].small()
            >>> model = T5.from_architecture(row)
            >>> model.count_params() == kerasseq.models.count(row, what="all").total
            True
        """
        row = find_encoder_decoder(architecture, changes)
        for name, value in FIXED.items():
            if getattr(row, name) != value:
                raise ValueError(
                    f"a T5 must have {name}={value!r}, received {row.title} with "
                    f"{name}={getattr(row, name)!r}. Use models.Transformer"
                )
        options = {name: getattr(row, name) for name in FIELDS}
        if tokenizer is None:
            options["vocabulary_size"] = user_ids(row)
        return cls(tokenizer, **options)


@register
class T5Encoder(TaskModel):
    r"""The encoder of a T5, from ids `(B, S)` to vectors `(B, S, D)`.

    $$x_0 = E_w, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
    y = \mathrm{RMSNorm}(x_L)$$

    The vectors are features of texts, for example for text-to-image models. Ids are
    those of the published weights: 0 is padding and 1 is the end, which `predict`
    appends to a text.

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        num_heads: N, number of attention heads.
        hidden_dim: D, the hidden size.
        intermediate_dim: Hidden size of the feed-forward networks by name; 4 D if
            None.
        head_dim: Size of a head; D / N if None.
        dropout: Dropout rate.
        feed_forward: "relu", "geglu_tanh" …, see `FeedForward`; a layer, of which each
            block gets a copy; or a list with one of these for each block.
        relative_buckets: Number of buckets of relative positions.
        layer_norm_epsilon: Epsilon of the norms.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `num_heads` does not divide
            `hidden_dim`.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("sort: cab")
        >>> model = T5Encoder(tokenizer, num_layers=1, hidden_dim=8)
        >>> model.predict(["cab"], verbose=0).shape[2]
        8

    References:
        Raffel et al. 2020.
    """

    @checked_arguments(vocabulary_size=checks.whole_number)
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 3,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        head_dim: int | None = None,
        dropout: float = 0.1,
        feed_forward: Any = "relu",
        relative_buckets: int = 32,
        layer_norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        config = self._arguments
        options = make_options(config)
        if (tokenizer is None) == (vocabulary_size is None):
            raise ValueError(
                "expected either tokenizer, for texts, or vocabulary_size, for ids; "
                f"received {tokenizer=} and {vocabulary_size=}"
            )
        if tokenizer is None:
            checks.whole_number("vocabulary_size", vocabulary_size, 2)
        vocabulary = Vocabulary(
            "source", tokenizer, vocabulary_size, published=PUBLISHED_IDS
        )
        embedding = make_embedding(vocabulary.size, int(hidden_dim))
        encoder = Encoder(embedding, options)
        ids = keras.Input((None,), dtype="int32", name="source")
        vectors, _ = encoder(ids)
        super().__init__(ids, vectors, config, **kwargs)
        self.source_vocabulary = vocabulary
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.vocabulary_size: int = vocabulary.size

    def default_loss(self) -> None:
        return None

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        x = call.x
        x = x if isinstance(x, str) else read(x, rows=call.held_out_rows)[0]
        is_list = isinstance(x, list | tuple) and len(x)
        if isinstance(x, str) or is_list or has_texts(x):
            x = pad_rows(self.encode(x))
        return outputs(x)

    def encode(self, x: Rows) -> np.ndarray:
        """Returns texts as the batch of ids that the model reads.

        Args:
            x: A text, or several; or rows of ids.

        Returns:
            int32 `(B, S)`, each row with its end token, 0 after the end of shorter
            ones; B is 1 for one text.

        Raises:
            TypeError: If a row is not a string, or not ids for a model without a
                tokenizer.
            ValueError: If a row is empty, or an id is out of range.
        """
        x = [x] if self.source_vocabulary.is_one_row(x) else x
        return padded(self.source_vocabulary.encode(x))


def make_options(a: Config) -> LayerOptions:
    """Returns the options of the layers from the arguments of a T5 or its encoder."""
    D, width, buckets = a["hidden_dim"], a["intermediate_dim"], a["relative_buckets"]
    count, feed_forward = a["num_layers"], a["feed_forward"]
    decoder_feed_forward = a.get("decoder_feed_forward")
    checks.whole_number("relative_buckets", buckets, 4)
    if buckets >= 4 * MAX_DISTANCE:
        raise ValueError(
            f"relative_buckets must be below {4 * MAX_DISTANCE}, as the largest "
            f"distance is {MAX_DISTANCE}, received {buckets}"
        )
    _check_names("feed_forward", feed_forward)
    if decoder_feed_forward is not None:
        _check_names("decoder_feed_forward", decoder_feed_forward)
    check_memory(a)
    given = ("num_heads", "head_dim", "dropout", "layer_norm_epsilon")
    fixed = ("norm", "norm_placement", "use_bias")
    block = {
        **{name: a[name] for name in given},
        **{name: FIXED[name] for name in fixed},
        "scale": 1.0,
        "kernel_initializer": FanInNormal(D),
    }
    blocks = options_of_blocks(
        *(feed_forward, count),
        *(decoder_feed_forward, a.get("num_decoder_layers") or count),
        intermediate_dim=width,
        hidden_dim=D,
    )
    return LayerOptions(
        *blocks,
        block=block,
        encoder_position=make_relative_bias(buckets, bidirectional=True),
        decoder_position=make_relative_bias(buckets, bidirectional=False),
        logit_scale=D**-0.5 if a.get("tie_embeddings", True) else 1.0,
        final_dropout=True,
    )


def _check_names(name, feed_forward):
    """Raises unless what is not a layer is the name of a feed-forward network."""
    several = isinstance(feed_forward, list | tuple)
    for one in feed_forward if several else [feed_forward]:
        if not isinstance(one, keras.Layer):
            checks.one_of(name, one, FEED_FORWARDS)


def make_relative_bias(buckets: int, bidirectional: bool) -> RelativePositionBias:
    """Makes the position encoding that the layers of encoder or decoder share."""
    return RelativePositionBias(
        buckets,
        bidirectional=bidirectional,
        # With the small values of the paper the model ignores the order of the tokens,
        # and Adam does not learn it in thousands of steps.
        initializer=keras.initializers.RandomNormal(stddev=1.0),
        name="relative_bias",
    )


def make_embedding(
    vocabulary_size: int, hidden_dim: int, tie_embeddings: bool = True
) -> keras.layers.ReversibleEmbedding:
    """Makes the embedding that encoder and decoder share."""
    checks.fits_memory("vocabulary_size", vocabulary_size, hidden_dim)
    return keras.layers.ReversibleEmbedding(
        vocabulary_size,
        hidden_dim,
        tie_weights=tie_embeddings,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
        name="embedding",
    )
