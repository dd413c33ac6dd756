"""What an image model attends to, and which pixels moved its decision."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core.types import Tensor
from kerasseq.models.vit import inputs, pixels, sizes
from kerasseq.tasks.fit_call import check_fitted
from kerasseq.tasks.labels import Label


def attention_map(
    model: Any, images: Any, layer: int | None, head: int | None, batch_size: int
) -> np.ndarray:
    """Returns the attention of the output to each patch, as `ViT.attention_map`."""
    check_fitted(model)
    layers, heads = len(model.blocks), model._arguments["num_heads"]
    if layer is not None and layer not in range(-layers, layers):
        raise ValueError(
            f"layer must be from {-layers} to {layers - 1} or None, received "
            f"{layer}. Choose one of them"
        )
    if head is not None and (layer is None or head not in range(heads)):
        raise ValueError(
            f"head must be from 0 to {heads - 1}, or None, as it must be with "
            f"layer=None, received {head}. Choose one of them"
        )
    if (attention := model._arguments["attention"]) == "linformer":
        raise ValueError(
            "attention_map needs weights of pairs of patches, received a model with "
            f'attention="{attention}", which mixes patches first. Use attribution'
        )
    parts = _parts(model, images, batch_size)
    return np.concatenate([_map(model, part, layer, head) for part in parts])


def _map(model, images, layer, head):
    with tracing.trace(model) as inside:
        model(images, training=False)
    A = [inside[f"{block.name}/self_attention/alignment"] for block in model.blocks]
    if layer is None:
        A = tracing.attention_rollout(A)
    else:
        A = A[layer].mean(axis=1) if head is None else A[layer][:, head]
    last = model.preprocessor.channels_last
    size = images.shape[1:3] if last else images.shape[2:]
    grid = sizes.grid(size, model.patches.patch_size)
    return patch_weights(A, grid, model.patches.class_token)


def patch_weights(
    A: np.ndarray, grid: tuple[int, int], class_token: bool
) -> np.ndarray:
    """Returns the attention of the pooled vector to each patch.

    Args:
        A: Weights `(B, T, T)`, queries in rows.
        grid: Rows and columns of patches.
        class_token: Whether the first token is a class token, whose row is used. If
            not, the mean of all rows is used.

    Returns:
        `(B, rows, columns)`; over all patches of an image it sums to 1.

    Examples:
        >>> A = np.array([[[0.5, 0.2, 0.3], [0, 1, 0], [0, 0, 1]]])
        >>> patch_weights(A, (1, 2), class_token=True)[0].tolist()
        [[0.4, 0.6]]
    """
    weights = A[:, 0, 1:] if class_token else A.mean(axis=1)  # (B, patches)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights.reshape(-1, *grid)


def attribution(
    model: Any, images: Any, labels: Sequence[Label] | None, batch_size: int
) -> np.ndarray:
    """Returns how much each pixel moved the decision, as `ViT.attribution`."""
    check_fitted(model)
    if not model.task.has_labels:
        raise ValueError("attribution needs a model with classifier")
    images = model.preprocessor.rows(images)
    classes = None
    if labels is not None:
        inputs.check_rows("labels", labels, len(images))
        classes = model.task.labels.encode(labels, "labels")
    attributions, start = [], 0
    for part in _parts(model, images, batch_size):
        k = None if classes is None else classes[start : start + len(part)]
        attributions.append(_attribution(model, part, k))
        start += len(part)
    return np.concatenate(attributions)


def _attribution(model, images, classes):
    black, _ = model.value_range or pixels.FRACTIONS
    x = ops.convert_to_tensor(images)
    x = ops.cast(pixels.as_fractions(x, model.value_range), "float32")
    if classes is None:
        scores = ops.convert_to_numpy(model(x, training=False))
        classes = scores.argmax(axis=-1)
    chosen = np.eye(model.task.labels.count, dtype="float32")[classes]
    chosen = ops.convert_to_tensor(chosen)  # (B, labels)

    def score(x: Tensor) -> Tensor:
        return ops.sum(ops.cast(model(x, training=False), "float32") * chosen)

    s = (x - black) * kernels.gradients(score, x)
    axis = -1 if model.preprocessor.channels_last else 1
    return ops.convert_to_numpy(ops.sum(s, axis=axis))


def _parts(model: Any, images: Any, batch_size: int) -> Iterator[np.ndarray]:
    """Yields arrays of some images at a time."""
    rows = images if hasattr(images, "batch") else model.preprocessor.rows(images)
    for start in range(0, len(rows), batch_size):
        yield rows.part(slice(start, start + batch_size)).batch()
