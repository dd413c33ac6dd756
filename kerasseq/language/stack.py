"""The layers of a decoder-only Transformer, and the one way through them.

The same function makes the graph that is trained, fills the caches from a prompt, and
takes one step of decoding.
"""

import dataclasses
from typing import Any

import keras


@dataclasses.dataclass
class Stack:
    """Layers from ids to logits.

    Attributes:
        embedding: A `keras.layers.ReversibleEmbedding`.
        position: The layer whose code is added, or None.
        norms: Norms behind the embedding and behind the last block, or None.
        drop: Dropout behind the embedding.
        blocks: `TransformerDecoder`s, from the bottom up.
        logits: A layer from vectors to logits; None if the embedding does it.
        embedding_scale: What the vectors of tokens are multiplied by; None for 1.
    """

    embedding: Any
    position: Any
    norms: tuple
    drop: Any
    blocks: list
    logits: Any
    embedding_scale: float | None = None

    def __call__(self, ids, caches=None, at=0):
        """Logits `(B, T, V)` of ids `(B, T)`, and the caches after.

        Args:
            ids: `(B, T)`.
            caches: One of each block, or None.
            at: With caches, where the ids stand: a number, or one per row `(B,)`.
        """
        x, after = self.vectors(self.embedding(ids), caches, at)
        return self.scores(x), after

    def vectors(self, x, caches=None, at=0, real=None):
        """What the last block and its norm make of the vectors of tokens `(B, T, D)`.

        Args:
            x: `(B, T, D)`.
            caches: As for a call.
            at: As for a call.
            real: Without caches: boolean `(B, T)`, False at padding, or None.

        Returns:
            `(B, T, D)`, and the caches after.
        """
        first_norm, last_norm = self.norms
        padding = {} if real is None else {"mask": real}
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        if self.position is not None:
            x = x + self.position(x, **_places(at), **padding)
        x = x if first_norm is None else first_norm(x)
        x, after = self.drop(x), []
        for block, cache in zip(
            self.blocks, caches or [None] * len(self.blocks), strict=True
        ):
            if cache is None:
                x = block(x, decoder_padding_mask=real)
                continue
            x, cache = block(
                x, self_attention_cache=cache, self_attention_cache_update_index=at
            )
            after.append(cache)
        return x if last_norm is None else last_norm(x), after

    @property
    def constant_length(self):
        """The longest text whose keys may be cached; None for any.

        See `RotaryEmbedding.constant_length`.
        """
        lengths = [getattr(b.position, "constant_length", None) for b in self.blocks]
        return min((n for n in lengths if n is not None), default=None)

    def next_scores(self, ids, at):
        """Logits `(B, V)` of what follows the ids `(B, T)` up to places `(B,)`."""
        real = keras.ops.arange(keras.ops.shape(ids)[1]) <= at[:, None]
        x, _ = self.vectors(self.embedding(ids), real=real)
        x = keras.ops.take_along_axis(x, at[:, None, None], axis=1)
        return self.scores(x)[:, 0]

    def scores(self, x):
        """Logits `(B, T, V)` of vectors `(B, T, D)`."""
        if self.logits is None:
            return keras.ops.cast(self.embedding(x, reverse=True), "float32")
        return self.logits(x)

    def make_caches(self, batch, length):
        """Empty caches for so many tokens."""
        return [block.make_cache(batch, length) for block in self.blocks]


def _places(at):
    """Where tokens stand, as layers of positions ask for it."""
    if len(getattr(at, "shape", ())) == 1:
        return {"positions": at[:, None]}
    return {"start_index": at}
