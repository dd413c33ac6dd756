"""The encoder of a T5 alone: texts to vectors."""

import keras
import numpy as np

from kerasseq.core.arguments import own
from kerasseq.core.padding import PADDING, bucket
from kerasseq.core.serialization import register
from kerasseq.seq2seq.sides import Side
from kerasseq.seq2seq.t5 import check_sizes, options_of
from kerasseq.tasks.base import TaskModel


@register
class T5Encoder(TaskModel):
    r"""The encoder of a T5, from ids `(B, S)` to vectors `(B, S, D)`.

    $$x_0 = E_w, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
    y = \mathrm{RMSNorm}(x_L)$$

    Its vectors are features of texts, for models of images from texts, for example.
    Ids are those of the published weights: 0 is padding and 1 the end, which
    `predict` adds to a text.

    Args:
        tokenizer: A fitted tokenizer of `kerasseq.text`, saved with the model.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        num_heads: N.
        hidden_dim: D, the width between the layers.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        head_dim: Width of a head; D / N if None.
        dropout: Fraction dropped in training.
        feed_forward: "relu", "geglu_tanh" …, see `FeedForward`.
        relative_buckets: How many distances are told apart.
        layer_norm_epsilon: Epsilon of the norms.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a name or number is wrong, or heads do not divide the width.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("sort: cab")
        >>> model = T5Encoder(tokenizer, num_layers=1, hidden_dim=8)
        >>> model.predict(["cab"], verbose=0).shape[2]
        8

    References:
        Raffel et al. 2020.
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
        relative_buckets=32,
        layer_norm_epsilon=1e-6,
        **kwargs,
    ):
        arguments = own(locals())
        check_sizes(arguments)
        side = Side("source", tokenizer, vocabulary_size, published=True)
        encoder = options_of(arguments).encoder(side.size)
        ids = keras.Input((None,), dtype="int32", name="source")
        vectors, _ = encoder(ids)
        super().__init__(ids, vectors, arguments, **kwargs)
        self.source_side, self.encoder = side, encoder
        self.tokenizer, self.vocabulary_size = tokenizer, side.size

    def default_loss(self):
        return None

    def predict(self, x, **kwargs):
        """The vectors of texts, as `keras.Model.predict` gives them.

        Args:
            x: A list of texts, or of rows of ids; or an array of ids `(B, S)`, in which
                0 is padding.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            `(B, S, D)`, where those of padding have no meaning.

        Raises:
            TypeError: If a row is not what the model reads.
            ValueError: If a row is empty, or an id out of range.
        """
        if isinstance(x, str) or (isinstance(x, list | tuple) and len(x)):
            x = self.arrays(x)
        return super().predict(x, **kwargs)

    def arrays(self, x):
        """The ids `(B, S)` of a list of texts or of rows of ids, with padding."""
        rows = self.source_side.encode(x)
        ids = np.full((len(rows), bucket(max(map(len, rows)))), PADDING, "int32")
        for place, row in zip(ids, rows, strict=True):
            place[: len(row)] = row
        return ids
