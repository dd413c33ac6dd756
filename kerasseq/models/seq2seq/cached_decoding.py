"""Decoding with caches: the source is read once, then the target token by token."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.padding import bucket
from kerasseq.core.types import Tensor
from kerasseq.models.seq2seq.target_step import TargetStep


class CachedDecoding:
    """What a model with encoder and decoder offers to `decoding`.

    A subclass sets `decoder`, and defines `run_encoder(source, length)`, which returns
    the state before the first of `length` tokens, and `never_written`.

    Attributes:
        decoder: A `Decoder`.
        casts_source: Whether sources are cast to the compute dtype.
        length_argument: The argument of the model that limits the positions.
    """

    decoder: Any
    casts_source: ClassVar[bool] = True
    length_argument: ClassVar[str] = "max_sequence_length"

    @property
    def never_written(self) -> Sequence[int]:
        """The ids that no target has."""
        raise NotImplementedError(f"{type(self).__name__} must define never_written")

    def run_encoder(self, source: Tensor, length: int) -> dict[str, Any]:
        """Runs the encoder, and returns the state before the first token."""
        raise NotImplementedError(f"{type(self).__name__} must define run_encoder")

    def initial_state(self, source: np.ndarray, length: int) -> dict[str, Any]:
        """Returns the state of the decoder before the first of `length` tokens.

        Args:
            source: A batch of sources.
            length: The most tokens.

        Raises:
            ValueError: If the model has fewer positions.
        """
        limit = self.decoder.max_length
        if limit is not None and length > limit:
            raise ValueError(
                f"max_length must be at most {limit}, the positions of the model, "
                f"received {length}. Build it with a larger {self.length_argument}"
            )
        return self._compiled_encode(bucket(length))(ops.convert_to_tensor(source))

    def _compiled_encode(self, length):
        programs = kernels.programs(self)

        def make():
            encode = MethodLayer(self, "run_encoder", casts=self.casts_source)
            encode = functools.partial(encode, length=length)
            return kernels.compiled(encode, pure=programs.pure)

        return programs.get("encode", length, make)

    @functools.cached_property
    def step(self) -> MethodLayer:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return TargetStep(self, "decode_step", self.never_written)

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the token after `token` `(B,)`, and the state."""
        return self.decoder.decode_step(state, token)
