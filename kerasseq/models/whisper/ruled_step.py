"""The step function of decoding that obeys the rules of Whisper."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.whisper.inputs import FACTOR
from kerasseq.models.whisper.rules import (
    TimestampRules,
    extend_history,
    forbid,
    start_history,
)
from kerasseq.models.whisper.settings import WhisperGeneration

FAR = 2**30  # beyond every id


class RuledStep(TargetStep):
    """Calls the decoder for one token; no sampler and no beam breaks a rule.

    Its state has that of the decoder and the history that the rules need, which follow
    their hypotheses in a beam.

    Args:
        model: A `Whisper`.
        suppressed: Ids that are never written.
        begin_suppressed: Ids that are not written first.
        times: The rules of times; None if no times are written.
    """

    def __init__(
        self,
        model: keras.Layer,
        suppressed: Iterable[int],
        begin_suppressed: Iterable[int],
        times: TimestampRules | None,
    ) -> None:
        super().__init__(model, "decode_step", tuple(suppressed))
        self.begin_suppressed: tuple[int, ...] = tuple(begin_suppressed)
        self.times = times
        self.first_timestamp: int = FAR if times is None else times.first

    def call(self, state: dict[str, Any], token: Tensor) -> tuple[Tensor, Any]:
        logits, decoder = super().call(state["decoder"], token)
        history = extend_history(state["history"], token, self.first_timestamp)
        if self.begin_suppressed:
            first = history["unread"][:, None] == 0
            ids = np.isin(np.arange(logits.shape[-1]), self.begin_suppressed)
            ids = kernels.constant(ids, like=logits)
            logits = forbid(logits, ops.logical_and(first, ids))
        if self.times is not None:
            logits = self.times(logits, history)
        return logits, {"decoder": decoder, "history": history}


def ruled_step(model: Any, timestamps: bool) -> RuledStep:
    """Returns the step function of a model, made once.

    Args:
        model: A `Whisper`.
        timestamps: Whether it writes times.
    """
    settings: WhisperGeneration = model.generation
    times = None
    if timestamps:
        steps = model.preprocessor.frames_of_window // FACTOR
        times = TimestampRules(
            settings.end,
            settings.no_timestamps,
            settings.first_timestamp,
            settings.first_timestamp + steps,
            settings.max_initial_timestamp_index,
        )

    def make():
        return RuledStep(
            model,
            (*model.never_written, *settings.suppress_tokens),
            settings.begin_suppress_tokens,
            times,
        )

    return kernels.programs(model).get("ruled_step", times, make)


def ruled_state(state: Nested, rows: int, length: int) -> dict[str, Any]:
    """Returns the state of a `RuledStep` before prompts.

    Args:
        state: That of the decoder.
        rows: B.
        length: Tokens of each prompt.
    """
    lengths = ops.full((rows,), length, "int32")
    return {"decoder": state, "history": start_history(lengths)}
