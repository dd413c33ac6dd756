"""What attentions over a memory have in common: masks, weights, the context."""

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.core import masks
from kerasseq.core.shapes import (
    check_batches,
    check_mask,
    check_numbers,
    check_shape,
    check_width,
)
from kerasseq.kernels import matmul


class MemoryAttention(keras.layers.Layer):
    """A layer that weighs the places of a memory; a subclass has `energies`."""

    def check_shapes(self, query_shape, value_shape, key_shape=None):
        """Raise unless the shapes to build for have three axes; keep their widths."""
        key_shape = key_shape or value_shape
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        for name, shape in shapes.items():
            check_shape(name, shape)
        self._widths = tuple(shape[-1] for shape in shapes.values())

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
        self._check(query, value, key, projected)
        T_q, T_k = ops.shape(query)[1], ops.shape(value)[1]
        sizes = (query.shape[0], query.shape[1], value.shape[1])
        check_masks(sizes, mask, query_mask, value_mask)
        by_pairs = mask is not None and len(mask.shape) == 3
        queries, keys = masks.reachable(mask if by_pairs else None)
        hidden = masks.intersect(value_mask, keys if by_pairs else mask)
        value, key = self._hide(value, key, hidden, projected)
        query = masks.zero_masked(query, masks.intersect(query_mask, queries))
        no_future = masks.causal(T_q, T_k) if use_causal_mask else None
        allowed = masks.combine_masks(mask, query_mask, value_mask, no_future)
        found = self.attend(query, value, key, allowed, projected, training)
        return found if return_attention_scores else found[0]

    def attend(self, query, value, key, allowed, projected=False, training=False):
        """The contexts and the weights, of inputs that are checked and hidden.

        Args:
            query: `(B, T_q, D_q)`.
            value: `(B, T_k, D_v)`.
            key: `(B, T_k, D_k)`, or what `project_keys` gave.
            allowed: Boolean `(B, T_q, T_k)`, where an axis may be 1, or None.
            projected: Whether `key` comes from `project_keys`.
            training: Whether weights are dropped.

        Returns:
            `(B, T_q, D_v)` and `(B, T_q, T_k)`.
        """
        T_k = ops.shape(value)[1]
        e = tracing.record(self, "scores", self.energies(query, key, T_k, projected))
        alpha = self.chosen(masks.softmax(e, allowed), training)
        alpha = tracing.record(self, "alignment", alpha)
        c = matmul(self.dropped(alpha, training), value)
        return tracing.record(self, "context", c), alpha

    def _hide(self, value, key, mask, projected):
        """Values and keys, with zeros at what the mask hides from all queries."""
        hidden = masks.zero_masked(value, mask)
        if key is None or key is value:
            return hidden, hidden
        return hidden, key if projected else masks.zero_masked(key, mask)

    def _check(self, query, value, key, projected):
        """Raise where the inputs do not fit each other or the weights."""
        shapes = {"query": query, "value": value}
        shapes |= {} if key is None else {"key": key}
        for name, x in shapes.items():
            check_numbers(name, x)
            shapes[name] = tuple(x.shape)
        check_batches(**shapes)
        widths = dict(zip(("query", "value", "key"), self._widths, strict=True))
        if projected:
            del widths["key"]
        for name in shapes.keys() & widths.keys():
            check_width(name, shapes[name], widths[name])
        T, S = shapes["value"][1], shapes.get("key", shapes["value"])[1]
        if None not in (T, S) and T != S:
            raise ValueError(
                "value and key must have the same length, received shapes "
                f"{shapes['value']} and {shapes['key']}"
            )

    def chosen(self, alpha, training):
        """The weights to go on with."""
        return alpha

    def dropped(self, alpha, training):
        """The weights with some of them dropped."""
        return alpha

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], value_shape[-1])


def check_masks(sizes, mask, query_mask, value_mask):
    """Raise unless the masks of an attention fit (batch, query time, key time)."""
    B, T_q, T_k = sizes
    axes, wanted = ("batch", "key_time"), (B, T_k)
    if len(getattr(mask, "shape", ())) == 3:
        axes, wanted = ("batch", "query_time", "key_time"), sizes
    check_mask("mask", mask, axes, wanted)
    check_mask("query_mask", query_mask, ("batch", "time"), (B, T_q))
    check_mask("value_mask", value_mask, ("batch", "time"), (B, T_k))
