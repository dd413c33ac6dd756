"""The step function of decoding of models whose targets begin with one id."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Tensor
from kerasseq.models.seq2seq.target_step import TargetStep


class FirstTokenStep(TargetStep):
    """A `TargetStep` after which a target begins with a certain id.

    Args:
        layer: As for `TargetStep`.
        method: As for `TargetStep`. Its state has the "index" of the token `(B,)`.
        never: As for `TargetStep`.
        first: The id; any if None.
    """

    def __init__(
        self, layer: keras.Layer, method: str, never: Sequence[int], first: int | None
    ) -> None:
        super().__init__(layer, method, never)
        self.first = first

    def call(self, state: dict[str, Any], token: Tensor) -> tuple[Tensor, Any]:
        logits, after = super().call(state, token)
        if self.first is None:
            return logits, after
        is_other = np.arange(logits.shape[-1]) != self.first
        is_other = kernels.constant(is_other, like=logits)
        begins = ops.equal(state["index"], 0)[:, None]  # (B, 1)
        never = ops.logical_and(begins, ops.cast(is_other, "bool"))
        return ops.where(never, -float("inf"), logits), after
