"""Base class of single-head attention: masks, weights and the context vectors."""

from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.attention.inputs import (
    as_separate_arguments,
    check_build_shapes,
    check_single_head_inputs,
    check_single_head_masks,
)
from kerasseq.core import masks
from kerasseq.core.constructors import Layer
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import matmul


class SingleHeadAttention(Layer):
    """Base class of attention layers with one score for each query and key.

    A subclass overrides `scores`, and calls `check_shapes` in `build`.
    """

    def check_shapes(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        """Raises unless the shapes have three axes, and saves their widths."""
        self._widths = check_build_shapes(
            query_shape, value_shape, key_shape or value_shape
        )

    def __call__(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer, also as Keras' attention: `layer([query, value, key])`.

        Args:
            query: The query; or a list of query, value and, optionally, key. Then
                `mask` may be a list of the masks of query and value.
            *args: As for `call`.
            **kwargs: As for `call`.
        """
        if isinstance(query, (list, tuple)) and not args and "value" not in kwargs:
            query, args, kwargs = as_separate_arguments(query, kwargs)
        return super().__call__(query, *args, **kwargs)

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        projected: bool = False,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_single_head_inputs(self._widths, query, value, key, projected)
        check_single_head_masks(query, value, mask, query_mask, value_mask)
        self.check_length(value)
        T_q, T_k = ops.shape(query)[1], ops.shape(value)[1]
        padding_mask, attention_mask = mask, None
        if mask is not None and len(mask.shape) == 3:
            padding_mask, attention_mask = None, mask
        # Masked keys, and keys that no query attends to, must not contribute NaN.
        queries, keys = masks.reachable(attention_mask)
        keys = masks.intersect(value_mask, padding_mask, keys)
        query = as_floats("query", query, self.compute_dtype)
        shared = key is None or key is value
        value = as_floats("value", value, self.compute_dtype)
        key = value if shared else as_floats("key", key, self.compute_dtype)
        if key is value:
            value = key = masks.zero_masked(value, keys)
        else:
            value = masks.zero_masked(value, keys)
            key = key if projected else masks.zero_masked(key, keys)
        query = masks.zero_masked(query, masks.intersect(query_mask, queries))
        causal_mask = masks.causal(T_q, T_k) if use_causal_mask else None
        allowed = masks.combine_masks(mask, query_mask, value_mask, causal_mask)
        c, alpha = self.attend(query, value, key, allowed, projected, training)
        return (c, alpha) if return_attention_scores else c

    def attend(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor,
        allowed: Tensor | None,
        projected: bool = False,
        training: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Computes context vectors and weights, of inputs that are checked and masked.

        Args:
            query: `(B, T_q, D_q)`.
            value: `(B, T_k, D_v)`.
            key: `(B, T_k, D_k)`, or the output of `project_keys`.
            allowed: Boolean `(B, T_q, T_k)`, where an axis may be 1, or None.
            projected: Whether `key` comes from `project_keys`.
            training: Whether dropout is applied.

        Returns:
            `(B, T_q, D_v)` and `(B, T_q, T_k)`.
        """
        e = self.scores(query, key, ops.shape(value)[1], projected)
        e = tracing.record(self, "scores", e)
        alpha = self.select(masks.softmax(e, allowed), training)
        alpha = tracing.record(self, "alignment", alpha)
        c = matmul(self.drop(alpha, training), value)
        return tracing.record(self, "context", c), alpha

    def check_length(self, value: Tensor) -> None:
        """Raises if the source is too long; here any length is allowed."""

    def scores(
        self,
        query: Tensor,
        key: Tensor,
        key_time: int | Tensor,
        projected: bool = False,
    ) -> Tensor:
        """Returns the scores $e$, `(B, T_q, T_k)`.

        Args:
            query: `(B, T_q, D_q)`.
            key: `(B, T_k, D_k)`, or the output of `project_keys`.
            key_time: $T_k$.
            projected: Whether `key` comes from `project_keys`.
        """
        raise NotImplementedError

    def select(self, alpha: Tensor, training: bool) -> Tensor:
        """Replaces the weights, as hard attention does; here they are unchanged."""
        return alpha

    def drop(self, alpha: Tensor, training: bool) -> Tensor:
        """Applies dropout to the weights; here there is none."""
        return alpha

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], value_shape[-1])

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # There may be two outputs: Keras infers them by a call.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)
