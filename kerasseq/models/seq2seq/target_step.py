"""The step function of decoding of an encoder-decoder model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.types import Tensor


class TargetStep(MethodLayer):
    """Calls the decoder for one token; ids that no target has get the logit -inf.

    So no sampler and no beam writes them, and the probabilities of the others add to 1.

    Args:
        layer: As for `MethodLayer`.
        method: The name of a method `(state, token) -> (logits, state)`.
        never: The ids that no target has, such as padding.
    """

    def __init__(self, layer: keras.Layer, method: str, never: Sequence[int]) -> None:
        super().__init__(layer, method)
        self.never: tuple[int, ...] = tuple(never)

    def call(self, state: dict[str, Any], token: Tensor) -> tuple[Tensor, Any]:
        logits, after = super().call(state, token)
        is_never = np.isin(np.arange(logits.shape[-1]), self.never)
        is_never = kernels.constant(is_never, like=logits)
        return ops.where(is_never, -float("inf"), logits), after
