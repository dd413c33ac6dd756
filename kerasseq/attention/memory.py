"""What attentions over a memory have in common: masks, weights, the context."""

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.core import masks
from kerasseq.kernels import matmul


class MemoryAttention(keras.layers.Layer):
    """A layer that weighs the places of a memory; a subclass has `energies`."""

    def call(
        self,
        query,
        value,
        key=None,
        mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        query_mask=None,
        value_mask=None,
        projected=False,
        training=False,
    ):
        key = value if key is None else key
        T_q, T_k = ops.shape(query)[1], ops.shape(value)[1]
        e = tracing.record(self, "scores", self.energies(query, key, T_k, projected))
        no_future = masks.causal(T_q, T_k) if use_causal_mask else None
        allowed = masks.of_pairs(mask, query_mask, value_mask, no_future)
        alpha = self.chosen(masks.softmax(e, allowed), training)
        alpha = tracing.record(self, "alignment", alpha)
        c = matmul(self.dropped(alpha, training), value)
        c = tracing.record(self, "context", c)
        return (c, alpha) if return_attention_scores else c

    def chosen(self, alpha, training):
        """The weights to go on with."""
        return alpha

    def dropped(self, alpha, training):
        """The weights with some of them dropped."""
        return alpha

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], value_shape[-1])
