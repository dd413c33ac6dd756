"""What all codes that are added to the tokens have in common: places in, a code out."""

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.serialization import check_float64
from kerasseq.core.shapes import check_mask, check_numbers


class PositionCode(keras.layers.Layer):
    """A layer that gives a code for each position; a subclass says which, in `code`.

    The code has the shape of the inputs, of which nothing else is used, and is to be
    added to them.

    Args:
        **kwargs: As for any layer.

    Call arguments:
        inputs: `(B, T, D)`, or with more axes between batch and time.
        start_index: The position of the first token, as in decoding step by step.
        positions: Whole numbers `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, filled in by Keras: positions are counted over what is
            real, so that padding on the left moves nothing.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True

    def call(self, inputs, start_index=0, positions=None, *, mask=None):
        check_numbers("inputs", inputs, more=True)
        sizes = inputs.shape[0], inputs.shape[-2]
        check_mask("mask", mask, ("batch", "time"), sizes)
        if positions is None and not kernels.size_is_guessed(inputs):
            self._check_length(*inputs.shape[-2:], start_index)
        at = masks.positions(mask, ops.shape(inputs)[-2], start_index, positions)
        code = self.code(at, inputs.shape[-1])  # (B, T, D) or (1, T, D)
        code = ops.cast(code, self.compute_dtype)
        for _ in inputs.shape[1:-2]:
            code = ops.expand_dims(code, 1)
        return ops.broadcast_to(code, ops.shape(inputs))

    def code(self, p, D):
        """The code of the positions p.

        Args:
            p: Whole numbers `(B, T)` or `(1, T)`.
            D: Its width.

        Returns:
            `(B, T, D)` or `(1, T, D)`.
        """
        raise NotImplementedError

    def limit(self, D):
        """How many positions there are, and why; None if there is no end.

        Args:
            D: The width of the code.
        """

    def _check_length(self, T, D, start):
        limit = self.limit(D)
        known = isinstance(T, int) and isinstance(start, int)
        if limit is None or not known or start + T <= limit[0]:
            return
        begun = f" from start_index={start}" if start else ""
        raise ValueError(
            f"{type(self).__name__} has codes for {limit[0]} positions, {limit[1]}: a "
            f"sequence of {T}{begun} is too long"
        )

    def compute_output_shape(self, input_shape):
        return input_shape
