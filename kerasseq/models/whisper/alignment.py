"""When the tokens of a window are heard, from the attention of the decoder."""

from typing import Any

import numpy as np
from keras import ops

from kerasseq.core.padding import bucket
from kerasseq.core.types import Tensor
from kerasseq.models.whisper.inputs import FACTOR
from kerasseq.models.whisper.times import alignment_matrix, token_times


def seconds_per_vector(model: Any) -> float:
    """Returns the length of a vector of the encoder, that of a step of the times."""
    own = model.preprocessor
    return FACTOR * own.stride / own.sampling_rate


def align_window(
    model: Any, memory: Tensor, prompt: list[int], text: list[int], frames: int
) -> tuple[np.ndarray, np.ndarray]:
    """Finds when each token of a text is heard in a window.

    Args:
        model: A `Whisper`.
        memory: The vectors of the window, `(1, S, D)`.
        prompt: The ids before the text, without times.
        text: The ids of the text, T of them.
        frames: Frames of real sound.

    Returns:
        The first and the last second of each token `(T, 2)`, and how it is heard,
        `(T, vectors)`.
    """
    first, count = len(prompt) - 1, len(prompt) + len(text)
    target = np.full((1, min(bucket(count), model.decoder.max_length)), 0, "int32")
    target[0, :] = model.generation.end
    target[0, :count] = [*prompt, *text]
    heads = alignment_heads(model)
    layers = sorted({layer for layer, _ in heads})
    alphas = model.attention_to(memory, target, layers)
    alphas = dict(zip(layers, map(ops.convert_to_numpy, alphas), strict=True))
    vectors = max(frames // FACTOR, 1)
    weights = [alphas[layer][0, head, first:count, :vectors] for layer, head in heads]
    matrix = alignment_matrix(np.stack(weights).astype("float32"))
    return token_times(matrix, seconds_per_vector(model)), matrix[:-1]


def alignment_heads(model: Any) -> list[tuple[int, int]]:
    """Returns the heads that follow the sound: by default those of the upper half."""
    given = model.generation.alignment_heads
    blocks = model.decoder.blocks
    if given:
        return list(given)
    upper = range(len(blocks) // 2, len(blocks))
    return [(layer, head) for layer in upper for head in range(blocks[0].num_heads)]
