r"""The small layers between GPT and a task.

Radford et al. 2018, section 3.2 and 3.3. Course slides D.
"""

import keras
from keras import ops

from kerasseq.core.serialization import register


@register
class MarkEmbedding(keras.layers.Layer):
    """Vectors of the ids that a model did not know when it was pre-trained.

    Args:
        first: The first of these ids.
        count: How many there are.
        embeddings_initializer: Of their vectors.
        **kwargs: As for any layer.

    Call arguments:
        vectors: `(B, T, D)`, where those of old ids stay as they are.
        ids: `(B, T)`.

    Examples:
        >>> layer = MarkEmbedding(first=5, count=2, embeddings_initializer="ones")
        >>> y = layer(np.zeros((1, 3, 1)), np.array([[4, 5, 6]]))
        >>> keras.ops.convert_to_numpy(y)[0, :, 0].tolist()
        [0.0, 1.0, 1.0]
    """

    def __init__(self, first, count, embeddings_initializer="uniform", **kwargs):
        super().__init__(**kwargs)
        self.first, self.count = first, count
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, vectors_shape, ids_shape=None):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.count, vectors_shape[-1]),
            initializer=self.embeddings_initializer,
        )
        self.built = True

    def call(self, vectors, ids):
        table = ops.convert_to_tensor(self.embeddings)
        row = ops.clip(ids - self.first, 0, self.count - 1)  # padding has one, too
        new = ops.take(table, ops.cast(row, "int32"), axis=0)
        return ops.where((ids >= self.first)[..., None], new, vectors)

    def compute_output_shape(self, vectors_shape, ids_shape=None):
        return vectors_shape

    def get_config(self):
        config = {
            "first": self.first,
            "count": self.count,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
        }
        return {**super().get_config(), **config}


@register
class SideBySide(keras.layers.Layer):
    """Several rows for each example as rows of their own, `(B, K, T)` to `(B K, T)`.

    Examples:
        >>> keras.ops.shape(SideBySide()(np.zeros((2, 3, 5))))
        (6, 5)
    """

    def call(self, rows):
        return ops.reshape(rows, (-1, ops.shape(rows)[-1]))

    def compute_output_shape(self, rows_shape):
        return None, rows_shape[-1]


@register
class Together(keras.layers.Layer):
    """The way back: `(B K, D)` to `(B, K, D)`, as the rows `(B, K, T)` lie.

    Examples:
        >>> keras.ops.shape(Together()(np.zeros((6, 7)), np.zeros((2, 3, 5))))
        (2, 3, 7)
    """

    def call(self, vectors, rows):
        return ops.reshape(vectors, (-1, ops.shape(rows)[1], vectors.shape[-1]))

    def compute_output_shape(self, vectors_shape, rows_shape):
        return (*rows_shape[:2], vectors_shape[-1])


class LanguageLoss(keras.layers.Layer):
    r"""Adds, in training, what the model as a language model loses on the same texts.

    $$L = L_{task} + \lambda\, \frac1n \sum_t -\ln p(w_{t+1} \mid w_{\le t})$$

    over the n tokens of the batch that are of the texts: marks are not predicted.

    Args:
        weight: $\lambda$.
        scores: A function from vectors `(B, T, D)` to logits `(B, T, V)`.
        size: V.

    Call arguments:
        sequence: The vectors `(B, T, D)`, which come out as they are.
        ids: `(B, T)`.
        training: Whether to add anything.
    """

    def __init__(self, weight, scores, size, **kwargs):
        super().__init__(**kwargs)
        self.weight, self.scores, self.size = weight, scores, size

    def call(self, sequence, ids, training=None):
        if training:
            target = ids[:, 1:]
            counts = target < self.size
            losses = ops.sparse_categorical_crossentropy(
                ops.where(counts, target, 0),
                self.scores(sequence[:, :-1]),
                from_logits=True,
            )
            counts = ops.cast(counts, losses.dtype)
            number = ops.maximum(ops.sum(counts), 1)
            self.add_loss(self.weight * ops.sum(losses * counts) / number)
        return sequence

    def compute_output_shape(self, sequence_shape, ids_shape=None):
        return sequence_shape

    def get_config(self):
        raise NotImplementedError(
            "the loss of a language model shares the layers of its model, so that it "
            "cannot be copied alone. Copy the whole model: "
            "type(model).from_config(model.get_config())"
        )
