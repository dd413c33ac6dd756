"""What an image model attends to, and which pixels moved its decision."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core.types import Config, Tensor
from kerasseq.models.vit import attention_maps, inputs, pixels, sizes
from kerasseq.models.vit.patches import PatchEmbedding
from kerasseq.tasks.labels import Label, Labels
from kerasseq.transformer.encoder import TransformerEncoder


class Explanations:
    """A mixin for `ImageClassifier`: maps over the patches and pixels of an image."""

    patches: PatchEmbedding
    blocks: list[TransformerEncoder]
    _arguments: Config
    _labels: Labels | None

    def attention_map(
        self,
        images: Any,
        *,
        layer: int | None = -1,
        head: int | None = None,
        batch_size: int = 32,
    ) -> np.ndarray:
        """The attention of the output to each patch.

        Args:
            images: As for `predict`.
            layer: Index of the layer: 0 is the first, -1 the last; None for attention
                rollout through all layers.
            head: Index of the head; the mean of all if None.
            batch_size: Number of images that are processed at once.

        Returns:
            Array `(B, rows, columns)` over the patches, which sums to 1 for each image:
            the weights of the class token, or with `pooling="mean"` the mean over all
            patches.

        Raises:
            ValueError: If there is no such layer or head.
        """
        images = self._images(inputs.unlabeled(images))
        layers, heads = len(self.blocks), self._arguments["num_heads"]
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
        maps = [
            self._map(part, layer, head) for part in self._parts(images, batch_size)
        ]
        return np.concatenate(maps)

    def _map(self, images, layer, head):
        with tracing.trace(self) as inside:
            self(images, training=False)
        A = [inside[f"{block.name}/self_attention/alignment"] for block in self.blocks]
        if layer is None:
            A = tracing.attention_rollout(A)
        else:
            A = A[layer].mean(axis=1) if head is None else A[layer][:, head]
        size = images.shape[1:3] if self._channels_last() else images.shape[2:]
        grid = sizes.grid(size, self.patches.patch_size)
        return attention_maps.patch_weights(A, grid, self.patches.class_token)

    def attribution(
        self, images: Any, labels: Sequence[Label] | None = None, *, batch_size: int = 8
    ) -> np.ndarray:
        r"""How much each pixel moved the decision: gradient times input.

        $$s_{ij} = \sum_c x_{ijc}\, \frac{\partial y_k}{\partial x_{ijc}}$$

        with $x = 0$ for black: to first order the change of the score $y_k$ if the
        pixel becomes black, with the opposite sign. Shrikumar et al. 2017.

        Args:
            images: As for `predict`.
            labels: For each image the label whose score is explained; the most probable
                one if None.
            batch_size: Number of images that are processed at once.

        Returns:
            float32 of shape `(B, H, W)`: positive pixels speak for the label.

        Raises:
            ValueError: If a label is unknown, or the model has no classifier.
        """
        images = self._images(inputs.unlabeled(images))
        if self._labels is None:
            raise ValueError("attribution needs a model with classifier")
        classes = None
        if labels is not None:
            inputs.check_rows("labels", labels, len(images))
            classes = self._labels.encode(labels, "labels")
        found, start = [], 0
        for part in self._parts(images, batch_size):
            k = None if classes is None else classes[start : start + len(part)]
            found.append(self._attribution(part, k))
            start += len(part)
        return np.concatenate(found)

    def _attribution(self, images, classes):
        black, _ = self.value_range or pixels.FRACTIONS
        x = ops.convert_to_tensor(images)
        x = ops.cast(pixels.as_fractions(x, self.value_range), "float32")
        if classes is None:
            scores = ops.convert_to_numpy(self(x, training=False))
            classes = scores.argmax(axis=-1)
        chosen = np.eye(self._labels.count, dtype="float32")[classes]
        chosen = ops.convert_to_tensor(chosen)  # (B, labels)

        def score(x: Tensor) -> Tensor:
            return ops.sum(ops.cast(self(x, training=False), "float32") * chosen)

        s = (x - black) * kernels.gradients(score, x)
        axis = -1 if self._channels_last() else 1
        return ops.convert_to_numpy(ops.sum(s, axis=axis))

    def _parts(self, images, batch_size):
        """Yields arrays of some images at a time."""
        for start in range(0, len(images), batch_size):
            part = images[start : start + batch_size]
            yield self.read(part) if isinstance(part, list) else part
