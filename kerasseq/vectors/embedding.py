"""Word vectors as the embedding of other models."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks


class EmbeddingTransfer:
    """Mixin that copies word vectors into embedding layers.

    A subclass has `index`, the number of each word; `matrix`, the vectors as an array;
    `dimensions`, their size; and `lowercase`.
    """

    index: dict[str, int]
    matrix: np.ndarray
    dimensions: int
    lowercase: bool

    def embedding_layer(
        self,
        words: Iterable[str] | None = None,
        *,
        trainable: bool = True,
        **kwargs: Any,
    ) -> keras.layers.Embedding:
        """Makes an embedding layer with these vectors.

        Args:
            words: The word of each id; by default those of the model. A word that is
                unknown, such as a padding token, gets a vector of zeros.
            trainable: Whether the layer can be trained.
            **kwargs: Other arguments of `keras.layers.Embedding`, such as `mask_zero`.

        Returns:
            The layer, built.

        Examples:
            >>> from kerasseq.models import WordVectors
            >>> model = WordVectors.from_vectors(["a", "b"], [[1.0], [2.0]])
            >>> layer = model.embedding_layer(["<pad>", "b"], mask_zero=True)
            >>> keras.ops.convert_to_numpy(layer(np.array([0, 1]))).tolist()
            [[0.0], [2.0]]
        """
        matrix = self.matrix
        if words is not None:
            rows = [self.index.get(word, -1) for word in checks.several("words", words)]
            matrix = np.concatenate([matrix, np.zeros_like(matrix[:1])])[rows]
        layer = keras.layers.Embedding(*matrix.shape, trainable=trainable, **kwargs)
        layer.build()
        layer.set_weights([matrix])
        return layer

    def initialize(self, model: keras.Model, *, trainable: bool = True) -> int:
        """Copies the vectors into the embedding of a task model, word by word.

        Args:
            model: A model of kerasseq with a tokenizer of words, such as
                `SequenceClassifier("lstm", tokenizer=tokenizer, embedding_dim=100)`.
            trainable: Whether the embedding is trained further.

        Returns:
            How many words of the tokenizer have a vector here. The others keep their
            values.

        Raises:
            ValueError: If the model has no tokenizer or embedding, the sizes differ, or
                no word is known.
        """
        tokenizer = getattr(model, "tokenizer", None)
        vocabulary = list(getattr(tokenizer, "vocabulary", None) or ())
        embeddings = [
            layer for layer in model.layers if isinstance(layer, keras.layers.Embedding)
        ]
        if not vocabulary or not embeddings:
            raise ValueError(
                "model must have a fitted tokenizer and an embedding layer, received "
                f"{model.name} with tokenizer={checks.short(tokenizer)}. Pass a model "
                "of kerasseq with a tokenizer, or use `embedding_layer`"
            )
        table = ops.convert_to_numpy(embeddings[0].embeddings).copy()
        if table.shape[1] != self.dimensions:
            raise ValueError(
                f"the embedding must have the {self.dimensions} dimensions of the "
                f"vectors, received {table.shape[1]}. Build the model with "
                f"embedding_dim={self.dimensions}"
            )
        known = [
            (n, self.index[word])
            for n, word in enumerate(vocabulary)
            if word in self.index
        ]
        if not known:
            raise ValueError(
                "no word of the tokenizer has a vector. Is it a WordTokenizer, with "
                f"lowercase={self.lowercase}?"
            )
        to, source = np.array(known).T
        table[to] = self.matrix[source]
        embeddings[0].set_weights([table])
        embeddings[0].trainable = trainable
        return len(known)
