"""What every search starts from, checked all at once."""

from typing import Any, NamedTuple

import numpy as np

from kerasseq import kernels
from kerasseq.decoding.prompts import (
    Prompt,
    check_ids,
    check_stop,
    read_prompt,
    read_stop,
)
from kerasseq.decoding.steps import as_state, vocabulary_size


class Inputs(NamedTuple):
    """What a step function, a state and a prompt turned out to be.

    Attributes:
        before: The prompts without the last token of each row.
        last: That token, `(batch,)`.
        state: The state as tensors.
        stop: The stop tokens.
        vocabulary: How many logits there are.
        programs: What was compiled of the step function.
    """

    before: Prompt
    last: np.ndarray
    state: Any
    stop: tuple
    vocabulary: int
    programs: kernels.Programs


def read_inputs(step, state, prompt, mask, stop) -> Inputs:
    """Check what `generate` and `Beam.search` have in common."""
    if not callable(step):
        raise TypeError(
            f"step must be a function (state, token) -> (logits, state), got {step!r}"
        )
    prompt, stop = read_prompt(prompt, mask), read_stop(stop)
    batch = len(prompt.ids)
    state = as_state(state, batch)
    programs = kernels.programs(step)
    vocabulary = vocabulary_size(step, state, batch, programs)
    check_ids(prompt, vocabulary)
    check_stop(stop, vocabulary)
    return Inputs(*prompt.split(), state, stop, vocabulary, programs)
