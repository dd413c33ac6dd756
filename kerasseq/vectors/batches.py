"""Batches for word vectors: each of several updates, in a reproducible order."""

from collections.abc import Iterator, Mapping

import numpy as np

from kerasseq.training import ArrayBatches
from kerasseq.vectors.cooccurrences import Cooccurrences
from kerasseq.vectors.corpus import (
    Sentences,
    draw_noise,
    id_chunks,
    keep_probabilities,
    noise,
)
from kerasseq.vectors.steps import glove_weight
from kerasseq.vectors.windows import BLOCK, windows

Batch = tuple[dict[str, np.ndarray]]

UPDATES = 16  # at most, in a batch: Keras' work for a batch is done once for all
LOWEST_RATE = 1e-4  # of the learning rate, at the end
SUBSAMPLING, WINDOWS = 0, 1  # streams of random numbers


class WindowBatches:
    """Batches of consecutive words with contexts and negative words.

    The text is read again and again, each time with other words left out. An epoch has
    as many words as are kept of the text on average.

    Args:
        sentences: The text.
        index: The id of each word.
        counts: How often each word occurs.
        method: "skip_gram" or "cbow".
        window: Largest distance of a context.
        negatives: Negative words of each center.
        subsample: The threshold t of `keep_probabilities`, or None.
        batch_size: Centers of an update, a multiple of `BLOCK`.
        epochs: Number of epochs in which the learning rate falls.
        seed: Random seed.

    Attributes:
        words: Centers in a batch.
        steps_per_epoch: Batches in an epoch.
        steps: Batches in which the learning rate falls. Can be set.
    """

    def __init__(
        self,
        sentences: Sentences,
        index: Mapping[str, int],
        counts: np.ndarray,
        *,
        method: str,
        window: int,
        negatives: int,
        subsample: float | None,
        batch_size: int,
        epochs: int,
        seed: int,
    ) -> None:
        self.sentences = sentences
        self.index = index
        self.method: str = method
        self.window: int = window
        self.negatives: int = negatives
        self.seed: int = seed
        self._keep = keep_probabilities(counts, subsample)
        self._noise = noise(counts)
        kept = float((counts * self._keep).sum())
        self.updates: int = int(np.clip(round(kept / batch_size), 1, UPDATES))
        self.words: int = self.updates * batch_size
        self.steps_per_epoch: int = max(1, round(kept / self.words))
        self.steps: int = epochs * self.steps_per_epoch

    def stream(self, start: int = 0) -> Iterator[Batch]:
        """Yields the batches from number `start` on, without end.

        Those before are read, but their contexts are not searched.
        """
        for number, (ids, sentences) in enumerate(self._parts()):
            if number >= start:
                yield (self._batch(number, ids, sentences),)

    def _parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields ids and numbers of sentences: a batch, and a window on either side."""
        w, T = self.window, self.words
        ids, sentences = np.zeros(w, "int32"), np.full(w, -1)
        for new_ids, new_sentences in self._kept():
            ids = np.concatenate([ids, new_ids])
            sentences = np.concatenate([sentences, new_sentences])
            while len(ids) >= T + 2 * w:
                yield ids[: T + 2 * w], sentences[: T + 2 * w]
                ids, sentences = ids[T:], sentences[T:]

    def _kept(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the words that are kept, of one pass after the other."""
        first = reading = 0
        while True:
            rng = np.random.default_rng([self.seed, SUBSAMPLING, reading])
            last = first
            for ids, sentences in id_chunks(self.sentences, self.index):
                kept = rng.random(len(ids)) < self._keep[ids]
                yield ids[kept], first + sentences[kept]
                last = first + int(sentences[-1]) + 1
            if last == first:
                raise ValueError("the text has no known word any more: has it changed?")
            first, reading = last, reading + 1

    def _batch(self, number, ids, sentences):
        rng = np.random.default_rng([self.seed, WINDOWS, number])
        T, K = self.words, self.negatives
        reach = rng.integers(1, self.window + 1, T)
        negatives = draw_noise(rng, self._noise, (T, K))
        pairs = windows(ids, sentences, reach, self.window)
        S, L = self.updates, BLOCK
        return {
            "centers": pairs.centers.reshape(S, -1, L),
            "contexts": pairs.contexts.reshape(S, -1, L + 2 * self.window),
            "mask": pairs.mask.reshape(S, -1, L, L + 2 * self.window),
            "negatives": negatives.reshape(S, -1, L, K),
            "weights": self._weights(pairs, negatives).reshape(S, -1, L, K),
            "rate": self._rates(number),
        }

    def _weights(self, pairs, negatives):
        """Returns how often each negative word counts: the `a` of `vector_steps`."""
        if self.method == "cbow":
            others = negatives != pairs.centers.reshape(-1, 1)
            return (others & pairs.slots.any(axis=1, keepdims=True)).astype("float32")
        others = pairs.neighbors[:, None] != negatives[:, :, None]  # (T, K, 2w + 1)
        return (others & pairs.slots[:, None]).sum(axis=-1, dtype="float32")

    def _rates(self, number: int) -> np.ndarray:
        """Returns the learning rates of the updates, relative to the first: a line."""
        updates = number * self.updates + np.arange(self.updates)
        done = updates / (self.steps * self.updates)
        return np.maximum(1 - done, LOWEST_RATE).astype("float32")


class CountBatches:
    """Shuffled batches of co-occurrences, for GloVe.

    Args:
        counted: The co-occurrences.
        x_max: Counts above have weight 1.
        alpha: Exponent of the weight of smaller counts.
        batch_size: Co-occurrences of an update.
        seed: Random seed.

    Attributes:
        steps_per_epoch: Batches in an epoch.
    """

    def __init__(
        self,
        counted: Cooccurrences,
        *,
        x_max: float,
        alpha: float,
        batch_size: int,
        seed: int,
    ) -> None:
        rows = len(counted.counts)
        size = min(batch_size, rows)
        self.updates: int = int(np.clip(rows // size, 1, UPDATES))
        self._batches = ArrayBatches(
            counted.pairs, counted.counts, size * self.updates, seed
        )
        self.x_max: float = x_max
        self.alpha: float = alpha
        self.steps_per_epoch: int = self._batches.steps_per_epoch

    def stream(self, start: int = 0) -> Iterator[Batch]:
        """Yields the batches from number `start` on, without end."""
        for pairs, counts in self._batches.stream(start):
            S = self.updates
            weights = glove_weight(counts, self.x_max, self.alpha)
            yield (
                {
                    "words": pairs[:, 0].reshape(S, -1),
                    "contexts": pairs[:, 1].reshape(S, -1),
                    "log_counts": np.log(counts).astype("float32").reshape(S, -1),
                    "weights": weights.astype("float32").reshape(S, -1),
                },
            )
