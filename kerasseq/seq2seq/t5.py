"""T5: every task of language as a text that leads to a text."""

import keras

from kerasseq.core import checks
from kerasseq.core.arguments import own
from kerasseq.core.serialization import register
from kerasseq.positions.relative import RelativePositionBias
from kerasseq.seq2seq.encoder_decoder import EncoderDecoder
from kerasseq.seq2seq.making import Options
from kerasseq.seq2seq.sides import Side
from kerasseq.seq2seq.transformer import own_ids, row_of
from kerasseq.transformer.initializers import FanInNormal

FIELDS = (  # of an architecture, which are arguments here
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "head_dim",
    "feed_forward",
    "tie_embeddings",
    "relative_buckets",
)
BLOCK = ("num_heads", "head_dim", "dropout", "feed_forward", "layer_norm_epsilon")
FIXED = {  # what makes a T5
    "norm": "rms",
    "norm_placement": "pre",
    "use_bias": False,
    "position": "relative",
    "embedding_norm": False,
}


def options_of(arguments) -> Options:
    """What the stacks of a T5 are made of, from its arguments."""
    D, tied = arguments["hidden_dim"], arguments.get("tie_embeddings", True)
    return Options(
        num_layers=arguments["num_layers"],
        num_decoder_layers=arguments.get("num_decoder_layers"),
        hidden_dim=D,
        block={
            "intermediate_dim": arguments["intermediate_dim"] or 4 * D,
            **{name: arguments[name] for name in BLOCK},
            **{name: FIXED[name] for name in ("norm", "norm_placement", "use_bias")},
            "scale": 1.0,
            "kernel_initializer": FanInNormal(D),
        },
        positions=(None, None),
        inner=tuple(
            RelativePositionBias(
                arguments["relative_buckets"],
                bidirectional=ahead,
                # From a small table, as the paper's, a text is a bag of tokens, and
                # Adam finds no order in thousands of steps.
                initializer=keras.initializers.RandomNormal(stddev=1.0),
                name="relative_bias",
            )
            for ahead in (True, False)
        ),
        embedding_norm=FIXED["embedding_norm"],
        factor=1.0,
        logit_factor=D**-0.5 if tied else 1.0,
        embedding_deviation=1.0,
        tie_embeddings=tied,
        last_dropout=True,
    )


def check_sizes(arguments):
    """Raise unless the sizes of a T5 are whole numbers of at least 1."""
    for name in ("num_layers", "num_heads", "hidden_dim"):
        checks.whole_number(name, arguments[name])
    checks.whole_number("relative_buckets", arguments["relative_buckets"], 4)
    if arguments.get("num_decoder_layers") is not None:
        checks.whole_number("num_decoder_layers", arguments["num_decoder_layers"])


@register
class T5(EncoderDecoder):
    r"""A Transformer from text to text, which is told its task by a prefix.

    $$a = \mathrm{softmax}(Q K^T + B_{\mathrm{bucket}(s - p)})\,V, \qquad
    p = \mathrm{softmax}\left(\tfrac{1}{\sqrt D}\, x_L E^T\right)$$

    Relative positions, one table for all layers of the encoder and one for those of the
    decoder; RMS norms before the parts and at the end of each stack; no biases; scores
    scores that are not scaled, for which queries and keys begin smaller. Unlike that of
    the paper, the table of positions begins with a deviation of 1, so that order counts
    from the first step. T5 1.1 has `feed_forward="geglu"` and `tie_embeddings=False`.

    Published weights of 1.1 have "geglu_tanh". Left out: dropout between the two dense
    layers of a feed-forward network.

    Args:
        tokenizer: A fitted tokenizer of `kerasseq.text` for both sides, saved with the
            model.
        vocabulary_size: Number of ids, for a model without a tokenizer, in which 0 is
            padding.
        num_layers: L, of the encoder, and of the decoder if nothing else is said.
        num_heads: N.
        hidden_dim: D, the width between the layers.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        head_dim: Width of a head; D / N if None.
        dropout: Fraction dropped in training.
        feed_forward: "relu", "geglu" …, see `FeedForward`.
        tie_embeddings: Whether logits come from the table of the embedding, multiplied
            by $1 / \sqrt D$; from one of their own if not, and then not multiplied.
        relative_buckets: How many distances are told apart.
        scheduled_sampling: As for `Transformer`.
        layer_norm_epsilon: Epsilon of the norms.
        published_ids: Whether ids are those of the published weights: 0 is padding and
            start, 1 the end, and rows of ids that are given or come out have the
            numbers of the tokens as they are. If not, the model keeps three ids of its
            own before the others.
        num_decoder_layers: L of the decoder; `num_layers` if None.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, or heads do not divide the width.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("sort: cab")
        >>> model = T5(tokenizer, num_layers=1, hidden_dim=8)
        >>> len(model.translate(["sort: cab", "sort: ba"], max_length=4))
        2

    References:
        Raffel et al. 2020; Shazeer 2020 (1.1). Slide A.
    """

    def __init__(
        self,
        tokenizer=None,
        *,
        vocabulary_size=None,
        num_layers=3,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=None,
        head_dim=None,
        dropout=0.1,
        feed_forward="relu",
        tie_embeddings=True,
        relative_buckets=32,
        scheduled_sampling=None,
        layer_norm_epsilon=1e-6,
        published_ids=False,
        num_decoder_layers=None,
        **kwargs,
    ):
        arguments = own(locals())
        check_sizes(arguments)
        sides = [
            Side(name, tokenizer, vocabulary_size, published=published_ids)
            for name in ("source", "target")
        ]
        encoder, decoder = options_of(arguments).stacks(
            [side.size for side in sides], shared=True
        )
        super().__init__(
            sides, encoder, decoder, arguments, scheduled_sampling, **kwargs
        )
        self.tokenizer = tokenizer

    @classmethod
    def from_architecture(cls, architecture, tokenizer=None, **changes):
        """The model that a row of `models.architectures` describes.

        Args:
            architecture: A name, such as "t5_small", or a row, such as
                `architectures["t5_small"].small()`.
            tokenizer: A fitted tokenizer; the vocabulary is its then.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights. Padding, start and end are among the ids of
            the row.

        Raises:
            ValueError: If there is no such row, or it is no T5.

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["t5_small"].small()
            >>> model = T5.from_architecture(row)
            >>> model.count_params() == kerasseq.models.count(row, what="all").total
            True
        """
        row = row_of(architecture, changes)
        for name, value in FIXED.items():
            if getattr(row, name) != value:
                raise ValueError(
                    f"{row.title} is no T5: it has {name}={getattr(row, name)!r}, a T5 "
                    f"has {value!r}. models.Transformer builds it"
                )
        options = {name: getattr(row, name) for name in FIELDS}
        if tokenizer is None:
            options["vocabulary_size"] = own_ids(row)
        return cls(tokenizer, **options)
