r"""The two stacks of a Transformer that reads a source and says a target.

$$
x_0 = f\,E_w + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
p = \mathrm{softmax}(g\, x_L E^T)
$$

The same functions make the graph that is trained, and take one step of decoding, with
the keys and values of the steps before in caches and those of the source made once.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from kerasseq.core import masks
from kerasseq.core.padding import PADDING


class Alignment(keras.layers.Layer):
    """What a block of a decoder looks at in the memory: the mean of all its heads.

    Args:
        block: A `TransformerDecoder`, built.
        **kwargs: As for any layer.
    """

    def __init__(self, block, **kwargs):
        super().__init__(**kwargs)
        self.block = block
        self.built = True

    def call(self, x, memory, real):
        _, _, alpha = self.block(
            x,
            memory,
            encoder_padding_mask=real,
            training=False,
            return_attention_scores=True,
        )
        return ops.mean(alpha, axis=1)  # (B, T, S)


@dataclasses.dataclass
class Stack:
    """Layers from ids to vectors.

    Attributes:
        embedding: The layer of the tokens.
        factor: f, of their vectors.
        position: The layer whose code is added, or None.
        longest: How many positions have a code; None for any number.
        norms: Norms behind the embedding and behind the last block, or None.
        drops: Dropout behind the embedding and at the end, or None.
        blocks: From the bottom up.
    """

    embedding: Any
    factor: float
    position: Any
    longest: int | None
    norms: tuple
    drops: tuple
    blocks: list

    def embed(self, ids, real, at, training):
        """$x_0$ of ids `(B, T)`, which stand from the place `at` on."""
        x = self.embedding(ids)
        x = x if self.factor == 1 else x * self.factor
        if self.position is not None:
            p = masks.positions(real, None, at)
            if self.longest is not None:  # padding may reach further than the table
                p = ops.minimum(p, self.longest - 1)
            x = x + self.position(x, positions=p)
        return self._end(0, x, training)

    def finish(self, x, training):
        """What follows the last block."""
        return self._end(1, x, training)

    def _end(self, which, x, training):
        norm, drop = self.norms[which], self.drops[which]
        x = x if norm is None else norm(x)
        return x if drop is None else drop(x, training=training)


@dataclasses.dataclass
class Encoder(Stack):
    """The stack that reads a source."""

    def __call__(self, source, training=None):
        """The memory `(B, S, D)` of ids `(B, S)`, and which places are real."""
        real = ops.not_equal(source, PADDING)
        x = self.embed(source, real, 0, training)
        for block in self.blocks:
            x = block(x, padding_mask=real, training=training)
        return self.finish(x, training), real


@dataclasses.dataclass
class Decoder(Stack):
    """The stack that says a target.

    Attributes:
        logit_factor: g.
    """

    logit_factor: float = 1.0

    def __call__(self, target, memory, real, training=None):
        """Logits `(B, T, V)` of what follows each id of `(B, T)`."""
        x = self.embed(target, ops.ones_like(target), 0, training)
        for block in self.blocks:
            x = block(x, memory, encoder_padding_mask=real, training=training)
        return self.logits(self.finish(x, training))

    def align(self, target, memory, real):
        """What the last layer looks at, `(B, T, S)`: the mean of all heads."""
        x = self.embed(target, ops.ones_like(target), 0, False)
        for block in self.blocks[:-1]:
            x = block(x, memory, encoder_padding_mask=real, training=False)
        return Alignment(self.blocks[-1], name="alignment")(x, memory, real)

    def logits(self, x):
        """Logits in float32, of vectors."""
        x = x if self.logit_factor == 1 else x * self.logit_factor
        return ops.cast(self.embedding(x, reverse=True), "float32")

    def begin(self, memory, real, length):
        """The state before the first of so many tokens."""
        batch = ops.shape(memory)[0]
        return {
            "at": ops.zeros((batch,), "int32"),
            "real": real,
            "said": [block.make_cache(batch, length) for block in self.blocks],
            "read": [block.project_memory(memory) for block in self.blocks],
        }

    def step(self, state, token):
        """Logits `(B, V)` of what follows a token of each row, and the state after."""
        at = state["at"][0]  # all rows of a translation are equally far
        ids = token[:, None]
        x, after = self.embed(ids, ops.ones_like(ids), at, False), []
        for block, said, read in zip(
            self.blocks, state["said"], state["read"], strict=True
        ):
            x, said, _ = block(
                x,
                encoder_padding_mask=state["real"],
                self_attention_cache=said,
                self_attention_cache_update_index=at,
                cross_attention_cache=read,
                training=False,
            )
            after.append(said)
        logits = self.logits(self.finish(x, False))
        return logits[:, 0], {**state, "said": after, "at": state["at"] + 1}
