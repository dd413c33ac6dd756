"""Hidden states in the state of decoding, for samplers that compare them.

`decoding.Contrastive` compares the vectors from which the logits are computed. A step
function returns them only if the state that it receives has the key "hidden", so that
other samplers do not pay for them.
"""

from typing import Any

from keras import ops

from kerasseq import decoding
from kerasseq.core.padding import padded
from kerasseq.core.types import Nested, Tensor


def start(
    model: Any,
    rows: list[list[int]],
    count: int,
    sampler: decoding.Sampler | decoding.Beam,
) -> dict[str, Any]:
    """The arguments `state`, `prompt` and `mask` with which decoding begins.

    Usually the model reads all but the last token of each row at once. A sampler that
    compares hidden states needs those of all tokens, which are then read one by one.

    Args:
        model: A decoder-only model, see `GenerationMixin`.
        rows: Prompts as lists of ids.
        count: How many tokens will be generated.
        sampler: The sampler.
    """
    if not isinstance(sampler, decoding.Contrastive):
        state, last = model.start(rows, count)
        return {"state": state, "prompt": last}
    longest = max(map(len, rows))
    state, _ = model.start([row[:1] for row in rows], longest - 1 + count)
    hidden = ops.zeros((len(rows), model.hidden_width), "float32")
    return {
        "state": {**state, "hidden": hidden},
        "prompt": padded(rows),
        "mask": padded([[1] * len(row) for row in rows]),
    }


def update(
    state: dict[str, Nested], after: dict[str, Nested], h: Tensor
) -> dict[str, Nested]:
    """The state after a step, with its hidden states `(B, H)` if `state` has such."""
    if "hidden" not in state:
        return after
    return {**after, "hidden": ops.cast(h, "float32")}
