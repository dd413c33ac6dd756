r"""Logits after each block of a Transformer, the "logit lens".

$$z_l = \mathrm{head}(h_l), \qquad l = 0, \dots, L$$

where $h_0$ is the input of the first block, $h_l$ the output of block $l$, and the head
everything after the last block: the final norm and the output projection. $z_L$ are the
logits of the model. They are computed by an intervention that replaces the output of
the last block by $h_l$.

nostalgebraist, "interpreting GPT: the logit lens", 2020.
"""

import re
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Nested
from kerasseq.tracing.intervention import intervene
from kerasseq.tracing.recording import Trace, trace
from kerasseq.tracing.unrecorded import unrecorded


class LogitLens(NamedTuple):
    """What a model would predict after each of its blocks.

    Attributes:
        layers: The path of each block, after "input" for the embeddings.
        logits: float32 `(layers, B, T, V)`.
    """

    layers: list[str]
    logits: np.ndarray

    def probabilities(self) -> np.ndarray:
        """Returns the softmax of the logits."""
        powers = np.exp(self.logits - self.logits.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)


def logit_lens(model: keras.Model, x: Nested, output: str | None = None) -> LogitLens:
    """Computes the logits that follow from the hidden states after each block.

    Args:
        model: A Transformer, such as `GPT`, or `BERT` with a head for tokens.
        x: Inputs of the model; for a language model with a tokenizer also a text.
        output: The name of the output with the logits, if the model has several.

    Returns:
        A `LogitLens`. Its last logits are those of the model.

    Raises:
        ValueError: If the model has no Transformer blocks, or several outputs.

    Examples:
        >>> import kerasseq
        >>> model = kerasseq.models.GPT(
        ...     vocabulary_size=11, num_layers=2, num_heads=2, hidden_dim=6
        ... )
        >>> lens = logit_lens(model, np.array([[3, 1, 4, 1, 5]]))
        >>> lens.layers, lens.logits.shape
        (['input', 'block_0', 'block_1'], (3, 1, 5, 11))
    """
    if isinstance(x, str):
        if getattr(model, "tokenizer", None) is None or not hasattr(model, "ids"):
            raise TypeError(
                "x must be inputs of the model, as it has no tokenizer for texts, "
                f"received {checks.short(x)}"
            )
        x = model.ids(x)[None]
    with trace(model) as inside:
        last = _logits(model(x, training=False), output)
    blocks = _blocks(inside, model)
    states = [inside[f"{blocks[0]}/input"]]
    states += [inside[f"{block}/output"] for block in blocks[:-1]]
    logits = []
    for h in states:
        with intervene(model, {f"{blocks[-1]}/output": h}):
            logits.append(_logits(model(x, training=False), output))
    return LogitLens(["input", *blocks], np.stack([*logits, last]))


def _blocks(inside: Trace, model: keras.Model) -> list[str]:
    """Returns the paths of the blocks of the last stack."""
    paths = [key.removesuffix("/input") for key in inside if key.endswith("/input")]
    paths = [path for path in paths if f"{path}/output" in inside]
    if not paths:
        raise ValueError(
            "model must have Transformer blocks of kerasseq.layers, received one that "
            f"recorded none. {unrecorded(model)}"
        )
    stem = re.sub(r"\d+$", "", paths[-1])
    return [path for path in paths if re.fullmatch(re.escape(stem) + r"\d*", path)]


def _logits(outputs: Any, name: str | None) -> np.ndarray:
    """Returns the output of that name, or the only one."""
    if isinstance(outputs, dict):
        names = list(outputs)
        if name is None and len(names) > 1:
            raise ValueError(
                f"output must be one of {', '.join(names)}, received None. The model "
                "has several outputs"
            )
        name = names[0] if name is None else name
        outputs = outputs[checks.one_of("output", name, names)]
    return ops.convert_to_numpy(ops.cast(outputs, "float32"))
