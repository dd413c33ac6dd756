"""Hidden states in the state of decoding, for samplers that compare them.

`decoding.Contrastive` compares the vectors from which the logits are computed. A step
function returns them only if the state that it receives has the key "hidden", so that
other samplers do not pay for them.
"""

from typing import Any

from keras import ops

from kerasseq.core.padding import padded
from kerasseq.core.types import Nested, Tensor


def start(model: Any, rows: list[list[int]], count: int) -> dict[str, Any]:
    """Returns the arguments with which decoding begins, for `Contrastive`.

    Usually the model reads all but the last token of each row at once. This sampler
    needs the hidden states of all tokens, which are therefore read one by one.

    Args:
        model: A decoder-only model, see `TokenGeneration`.
        rows: Prompts as lists of ids.
        count: How many tokens will be generated.

    Returns:
        `state`, `prompt` and `mask`.
    """
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
    """Returns the state after a step, with `(B, H)` hidden states if it has any."""
    if "hidden" not in state:
        return after
    return {**after, "hidden": ops.cast(h, "float32")}
