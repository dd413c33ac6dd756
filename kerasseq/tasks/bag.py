"""A bag of tokens and of n-grams of characters: fastText's classifier.

From: Joulin, Grave, Bojanowski and Mikolov, "Bag of Tricks for Efficient Text
Classification", 2016; the n-grams of characters are those of Bojanowski, Grave, Joulin
and Mikolov, "Enriching Word Vectors with Subword Information", 2017, but also go over
the spaces between words. Left out: n-grams of words, and the hierarchical softmax.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Config
from kerasseq.tasks.architectures import BAG, refuse_bag
from kerasseq.tasks.preprocessor import SequencePreprocessor
from kerasseq.tasks.sequence_layers import SequencePooling

BUCKETS = 2**14  # ids of n-grams, which the hash shares out
SIZES = (2, 3, 4)  # characters of an n-gram
CHARACTERS = 2048  # of a text, of which the n-grams are taken
LEARNING_RATE = 1e-2  # each embedding gets a small part of the gradient of the mean


def ngram_ids(text: str) -> np.ndarray:
    """Returns the hashes of the n-grams of characters of a text, below `BUCKETS`.

    Upper and lower case are the same, and a space precedes and follows the text. The
    hash is FNV-1a of the code points, as fastText has it of bytes.

    Args:
        text: The text, of which the first 2048 characters count.

    Examples:
        >>> ngram_ids("Ab").shape  # " a", "ab", "b ", " ab", "ab ", " ab "
        (6,)
        >>> bool((ngram_ids("Ab") == ngram_ids("aB")).all())
        True
    """
    padded = f" {text[:CHARACTERS].casefold()} "
    codes = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), "<u4")
    hashes, of_sizes = np.full(len(codes), 2166136261, "uint32"), []
    for n in range(1, min(max(SIZES), len(codes)) + 1):
        hashes = hashes[: len(codes) - n + 1] ^ codes[n - 1 :]
        hashes = hashes * np.uint32(16777619)  # modulo 2**32
        if n in SIZES:
            of_sizes.append(hashes)
    hashes = np.concatenate(of_sizes)
    # The low bits of a product depend on the low bits alone: add the others.
    return ((hashes ^ (hashes >> np.uint32(15))) % BUCKETS).astype("int32")


def ngram_spans(text: str) -> np.ndarray:
    """Returns start and end in the text of each n-gram of `ngram_ids`, `(n-grams, 2)`.

    Examples:
        >>> ngram_spans("Ab").tolist()
        [[0, 1], [0, 2], [1, 2], [0, 2], [0, 2], [0, 2]]
    """
    text = text[:CHARACTERS]
    # Some characters are several without case, and a space stands on either side.
    at = np.repeat(np.arange(len(text)), [len(each.casefold()) for each in text])
    starts = np.concatenate([[0], at, [len(text)]])
    ends = np.concatenate([[0], at + 1, [len(text)]])
    sizes = [n for n in SIZES if n <= len(starts)]
    spans = [
        np.stack([starts[: len(starts) - n + 1], ends[n - 1 :]], axis=-1) for n in sizes
    ]
    return np.concatenate(spans)


class BagPreprocessor(SequencePreprocessor):
    """Converts texts to rows of the ids of their tokens, and then of their n-grams.

    The ids of n-grams come after that of padding.
    """

    @property
    def size(self) -> int | None:
        size = super().size
        return size if self.tokenizer is None else size + BUCKETS

    def text_ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        rows = super().text_ids(texts)
        return [self._with_ngrams(*each) for each in zip(rows, texts, strict=True)]

    def _with_ngrams(self, ids, text):
        return np.concatenate([ids, self.padding + 1 + ngram_ids(text)])

    def prefixes(self, x: Any, row: np.ndarray) -> list[np.ndarray]:
        if not isinstance(x, str):
            return super().prefixes(x, row)
        ends = self.tokenizer.encode_with_offsets(x).offsets[:, 1].tolist()
        return [self._with_ngrams(row[:n], x[:end]) for n, end in enumerate(ends, 1)]

    def tokens(self, x: Any) -> tuple[list[str], np.ndarray]:
        """Returns the tokens of a text, and the share of each id of its row in each.

        An n-gram is shared out to the tokens that it overlaps, by characters.
        """
        tokens, _ = super().tokens(x)
        offsets = self.tokenizer.encode_with_offsets(x).offsets
        places = np.arange(len(x))
        covers = (offsets[:, :1] <= places) & (places < offsets[:, 1:])
        before = np.pad(covers.cumsum(axis=1), ((0, 0), (1, 0)))
        starts, ends = ngram_spans(x).T
        overlaps = before[:, ends] - before[:, starts]
        overlaps[:, ~overlaps.any(axis=0)] = 1  # only characters without a token
        return tokens, np.hstack([np.eye(len(tokens)), overlaps / overlaps.sum(axis=0)])


def bag_layers(dropout: float) -> list[keras.Layer]:
    """Returns the layers from embeddings `(B, T, C)` to their mean `(B, C)`.

    Args:
        dropout: Dropout rate of the embeddings, and of the mean.

    Examples:
        >>> [layer.name for layer in bag_layers(0.3)]
        ['embedding_dropout', 'pooling', 'dropout']
    """

    def drop(name):
        return keras.layers.Dropout(dropout, seed=drawn_seed(dropout), name=name)

    mean = SequencePooling("mean", name="pooling")
    return [drop("embedding_dropout"), mean, drop("dropout")]


def check_bag(arguments: Config, per_step: bool) -> bool:
    """Returns whether a model is a bag; raises for arguments that a bag does not have.

    Args:
        arguments: The arguments of the model.
        per_step: Whether each step has a label.
    """
    if arguments["architecture"] != BAG:
        return False
    if per_step:
        refuse_bag(BAG)
    others = {"num_layers": (1,), "bidirectional": (False,), "pooling": (None, "mean")}
    for name, values in others.items():
        if arguments[name] not in values:
            raise ValueError(
                f'{name} must be {values[-1]!r} for architecture="bag", received '
                f"{arguments[name]!r}. A bag is the mean of embeddings: it has neither "
                "layers nor an order. Leave the argument out"
            )
    return True
