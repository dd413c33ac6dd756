r"""A recurrent decoder, with attention or without: one step, and all steps of a text.

$$
\begin{aligned}
s_0 &= \tanh(W_0 \bar h) \\
s_t &= f([y_{t-1}; c_t], s_{t-1}), \quad c_t = \mathrm{attend}(s_{t-1}, h)
&& \text{Bahdanau} \\
s_t &= f(y_{t-1}, s_{t-1}), \quad c_t = \mathrm{attend}(s_t, h) && \text{Luong} \\
s_t &= f([y_{t-1}; \bar h], s_{t-1}), \quad c_t = \bar h && \text{no attention} \\
o_t &= \tanh(W_o [s_t; c_t]), \qquad p_t = \mathrm{softmax}(W_y o_t + b)
\end{aligned}
$$

with the memory $h$, its summary $\bar h$, and the token before, $y_{t-1}$. With input
feeding, $f$ reads $o_{t-1}$ as well.

Cho et al. 2014 (no attention: RNNenc); Bahdanau et al. 2015 (RNNsearch); Luong et al.
2015. Left out: the maxout layer of Bahdanau's output, for which $o_t$ stands here.
Course slides A, C, D.
"""

import random

import keras
from keras import ops

from kerasseq.attention.alignment import AlignmentAttention, BahdanauAttention
from kerasseq.attention.base import SingleHeadAttention
from kerasseq.core import masks
from kerasseq.core.serialization import register
from kerasseq.core.sublayers import WithSublayers
from kerasseq.seq2seq import cells as cell_tools
from kerasseq.seq2seq import teaching
from kerasseq.seq2seq.feeding import Feeding, revived


@register
class RecurrentDecoder(WithSublayers, keras.layers.Layer):
    r"""Say a target, token by token, from the memory of a source.

    Args:
        layers: Our recurrent layers, from the bottom up, each with `return_sequences`.
        vocabulary_size: Number of ids, those for padding, start and end included.
        embedding_dim: Width of the vector of a token.
        attention: An `AlignmentAttention` or `KernelAttention`; None for none.
        input_feeding: Whether a step reads what the one before came to.
        dropout: Fraction dropped, in training, of the vectors of tokens and of $o_t$.
        scheduled_sampling: A `training.ScheduledSampling`, or None.
        **kwargs: As for any layer.

    Call arguments:
        target: Ids `(B, T)`, with the start first.
        memory: $h$, `(B, S, M)`.
        summary: $\bar h$, `(B, N)`.
        memory_mask: Boolean `(B, S)`, True where a place is real.
        return_attention_scores: Whether to return the alignment, too.
        training: Whether to drop, and to feed back what the model says.

    Returns:
        Logits `(B, T, V)` of what follows each token; with the alignment `(B, T, S)`.

    Raises:
        ValueError: If the attention draws at random where each step waits for the last.
    """

    def __init__(
        self,
        layers,
        vocabulary_size,
        *,
        embedding_dim,
        attention=None,
        input_feeding=False,
        dropout=0.0,
        scheduled_sampling=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.recurrent = [revived(layer) for layer in layers]
        self.attention = revived(attention)
        self.vocabulary_size, self.embedding_dim = vocabulary_size, embedding_dim
        self.input_feeding, self.dropout = bool(input_feeding), dropout
        self.looks_first = isinstance(self.attention, BahdanauAttention)
        shared = {"dtype": self.dtype_policy}
        self.units = cell_tools.width(self.recurrent[-1])
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, name="embedding", **shared
        )
        # As for layers by name: with a seed its state is in checkpoints of ours.
        seed = random.randint(1, 10**9) if dropout else None
        self.drop = keras.layers.Dropout(dropout, seed=seed, **shared)
        self.first = keras.layers.Dense(
            sum(map(sum, map(cell_tools.sizes, self.recurrent))),
            activation="tanh",
            name="first_states",
            **shared,
        )
        self.combine = keras.layers.Dense(
            self.units, activation="tanh", use_bias=False, name="combine", **shared
        )
        self.logits = keras.layers.Dense(
            vocabulary_size, dtype="float32", name="logits"
        )
        self.feeding = Feeding(scheduled_sampling)
        self._check_attention()

    def _check_attention(self):
        attention = self.attention
        if attention is None:
            return
        if not isinstance(attention, SingleHeadAttention):
            raise TypeError(
                'attention must be None, "bahdanau", "luong", or a layer such as '
                f"kerasseq.layers.AlignmentAttention, got {attention!r}"
            )
        draws = getattr(attention, "dropout", 0) or getattr(attention, "sampled", False)
        if draws and self.in_turn(training=True):
            raise ValueError(
                "here each step waits for the one before, and an attention with "
                "dropout or sampled=True would draw at random in the middle of that: "
                "take one without, or LuongAttention without input feeding and "
                "scheduled sampling"
            )

    def in_turn(self, training):
        """Whether a step needs what the one before came to, beside the truth."""
        sampling = training and self.feeding.schedule is not None
        return self.looks_first or self.input_feeding or sampling

    def build(self, target_shape, memory_shape, summary_shape):
        M, N, H = memory_shape[-1], summary_shape[-1], self.units
        self.embedding.build(target_shape)
        self.first.build((None, N))
        width = self.embedding_dim + self.input_feeding * H
        if self.attention is not None:
            self._check_places(memory_shape[1])
            if not self.attention.built:  # one from a file is
                self.attention.build((None, 1, H), (None, None, M))
        width += 0 if self._looks_after() else M if self.looks_first else N
        for layer in self.recurrent:
            if not layer.built:
                layer.build((None, None, width))
            width = cell_tools.width(layer)
        self.combine.build((None, H + (N if self.attention is None else M)))
        self.logits.build((None, H))
        self.feeding.build()
        self.built = True

    def _check_places(self, places):
        """Raise if the memory is known to have more places than the attention."""
        most = getattr(self.attention, "max_length", None)
        if None not in (most, places) and places > most:
            raise ValueError(
                f"max_length of the attention must be at least {places}, the places "
                f"of the memory, received max_length={most}"
            )

    def _looks_after(self):
        return self.attention is not None and not self.looks_first

    def call(
        self,
        target,
        memory,
        summary,
        memory_mask=None,
        return_attention_scores=False,
        training=False,
    ):
        if return_attention_scores and self.attention is None:
            raise ValueError("a decoder without attention has no alignments")
        y = self.drop(self.embedding(target), training=training)  # (B, T, E)
        state = self.begin(memory, summary, memory_mask)
        if self.in_turn(training):
            o, alpha = teaching.in_turn(self, target, y, state, training)
        else:
            o, alpha = teaching.at_once(self, y, state, training)
        logits = self.logits(self.drop(o, training=training))
        return (logits, alpha) if return_attention_scores else logits

    def compute_mask(self, *args, **kwargs):
        return None

    def begin(self, memory, summary, memory_mask=None):
        """The state before the first token.

        Returns:
            Dictionary of "source", which stays, "cells", the states of each layer, and
            "fed", $o_0 = 0$, with input feeding.
        """
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory)[:2], "bool")
        else:  # here once, and not at each step
            memory = masks.zero_masked(memory, memory_mask)
        source = {"memory": memory, "mask": memory_mask, "summary": summary}
        if isinstance(self.attention, AlignmentAttention):
            source["keys"] = self.attention.project_keys(memory)
        cells = cell_tools.split_states(self.first(summary), self.recurrent)
        fed = {"fed": 0 * cells[-1][0]} if self.input_feeding else {}
        return {"source": source, "cells": cells, **fed}

    def attend(self, query, source, training=False):
        """Contexts `(B, T, M)` and weights `(B, T, S)` of queries `(B, T, H)`."""
        memory, keys = source["memory"], source.get("keys")
        return self.attention.attend(
            query,
            memory,
            memory if keys is None else keys,
            ops.cast(source["mask"], "bool")[:, None],
            projected=keys is not None,
            training=training,
        )

    def align(self, *args, **kwargs):
        """The alignment of a call, `(B, T, S)`."""
        return self.call(*args, **kwargs, return_attention_scores=True)[1]

    def advance(self, y, state, training=False):
        """One step.

        Args:
            y: $y_{t-1}$ as vectors, `(B, E)`.
            state: As `begin` gives it.
            training: Whether cells drop.

        Returns:
            $s_t$ `(B, H)`, $c_t$ `(B, M)`, weights over the memory `(B, S)` or None,
            and the states of all cells.
        """
        source, x = state["source"], [y]
        c, alpha = source["summary"], None
        if self.looks_first:
            c, alpha = self._look(state["cells"][-1][0], source)
        x += [] if self._looks_after() else [c]
        x += [state["fed"]] if self.input_feeding else []
        x, after = ops.concatenate(x, axis=-1), []
        for layer, states in zip(self.recurrent, state["cells"], strict=True):
            x, states = cell_tools.step(layer.cell, x, states, training)
            after.append(states)
        if self._looks_after():
            c, alpha = self._look(x, source)
        return x, c, alpha, after

    def _look(self, query, source):
        c, alpha = self.attend(query[:, None], source)
        return c[:, 0], alpha[:, 0]

    def say(self, state, token):
        """The step function of decoding: `(state, token) -> (logits, state)`.

        To be called by way of `core.method_layer`, like `begin` and `align`.
        """
        y = self.embedding(token)
        s, c, _, cells = self.advance(y, state)
        o = self.combine(ops.concatenate([s, c], axis=-1))
        fed = {"fed": o} if self.input_feeding else {}
        return self.logits(o), {"source": state["source"], "cells": cells, **fed}

    def get_config(self):
        names = ("vocabulary_size", "embedding_dim", "input_feeding", "dropout")
        objects = {
            "layers": self.recurrent,
            "attention": self.attention,
            "scheduled_sampling": self.feeding.schedule,
        }
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            **{k: keras.saving.serialize_keras_object(v) for k, v in objects.items()},
        }
