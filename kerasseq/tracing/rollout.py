r"""Attention rollout: attention through all layers of a stack.

The weights of one layer refer to its inputs, which earlier layers have mixed. Rollout
follows the attention through all layers,

$$
\bar A_l = \tfrac12 \left(\tfrac1N \sum_n A_l^n + I\right), \qquad
R = \bar A_L \cdots \bar A_2 \bar A_1
$$

where the identity stands for the residual connection. Abnar and Zuidema 2020.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kerasseq.tracing.recording import Trace
from kerasseq.tracing.unrecorded import unrecorded

KEY = "self_attention/alignment"


def attention_rollout(
    alignments: Mapping[str, Any] | Sequence[np.ndarray], path: str = ""
) -> np.ndarray:
    """Computes the share of each input token in each token of the last layer.

    Args:
        alignments: A `Trace` of a model with one stack of Transformer blocks, or the
            attention weights A of each layer, first to last, `(B, N, T, T)`.
        path: With a trace: the beginning of the paths of the blocks, if there are
            several stacks, such as `"encoder_block"`.

    Returns:
        `(B, T, T)`, queries in rows, which sum to 1.

    Raises:
        ValueError: If there are no weights, or their shapes differ.

    Examples:
        >>> attend_left = np.array([[1.0, 0.0], [1.0, 0.0]])[None, None]
        >>> attention_rollout([attend_left, attend_left])[0].tolist()
        [[1.0, 0.0], [0.75, 0.25]]
        >>> import kerasseq
        >>> model = kerasseq.models.GPT(vocabulary_size=7, num_layers=2, hidden_dim=8)
        >>> with kerasseq.tracing.trace(model) as inside:
        ...     logits = model(np.array([[3, 1, 4]]))
        >>> attention_rollout(inside).shape
        (1, 3, 3)
    """
    if isinstance(alignments, Mapping):
        keys = [k for k in alignments if k.startswith(path) and k.endswith(KEY)]
        of_layers = [alignments[key] for key in keys]
    else:
        keys, of_layers = [], list(alignments)
    if isinstance(alignments, Trace) and not any(k.endswith(KEY) for k in alignments):
        raise ValueError(
            "alignments must have attention weights of Transformer blocks, received a "
            f"trace without any. {unrecorded(alignments.model)}"
        )
    shapes = {np.shape(A) for A in of_layers}
    if len(shapes) != 1 or any(len(s) != 4 or s[-2] != s[-1] for s in shapes):
        among = f" among {', '.join(keys)}" if keys else ""
        raise ValueError(
            "alignments must be attention weights of shape (batch, heads, time, time), "
            f"the same for each layer, received {sorted(shapes)}{among}. Give path= "
            "for one of several stacks"
        )
    R = np.eye(of_layers[0].shape[-1])
    for A in of_layers:
        R = (A.mean(axis=1) + np.eye(A.shape[-1])) / 2 @ R
    return R
