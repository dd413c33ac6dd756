"""Base class of image models: checks, training, prediction, attention maps."""

from typing import Any

import keras
import numpy as np

from kerasseq import tracing
from kerasseq.core.types import Tensor
from kerasseq.tasks.base import TaskModel
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.vision import attention_maps, pixels, sizes
from kerasseq.vision.patches import PatchEmbedding


class ImageClassifier(TaskModel):
    """Base class of Transformers from images `(B, H, W, C)` to a score for each class.

    A subclass builds the graph, and sets `patches`, its `PatchEmbedding`, and `blocks`.
    Its arguments must have `num_classes`, `num_heads`, `channels`, `value_range` and
    `activation`.
    """

    patches: PatchEmbedding
    blocks: list[TransformerEncoder]

    def __init__(
        self,
        inputs: keras.KerasTensor,
        outputs: keras.KerasTensor,
        arguments: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(inputs, outputs, arguments, **kwargs)
        self.num_classes: int | None = arguments["num_classes"]
        self.value_range: tuple[float, float] | None = arguments["value_range"]

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        images = keras.tree.map_structure(
            lambda x: pixels.as_fractions(x, self.value_range), inputs
        )
        return super().call(images, training=training, mask=mask)

    def default_loss(self) -> keras.losses.Loss:
        logits = self._arguments["activation"] is None
        return keras.losses.SparseCategoricalCrossentropy(from_logits=logits)

    def default_metrics(self) -> list[str]:
        return ["accuracy"]

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        validation_data: Any = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model, as `keras.Model.fit` does.

        Args:
            x: Images `(B, H, W, C)`, with one channel also `(B, H, W)`, of any type; or
                any other input of `keras.Model.fit`, which is not checked.
            y: Labels `(B,)`, from 0 on.
            validation_data: Pair of such images and labels.
            **kwargs: Arguments of `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If the shape or values of the images do not fit the model, or a
                label is out of range.
        """
        if isinstance(validation_data, (tuple, list)):
            images, labels, *weights = validation_data
            validation_data = (self._images(images), self._labels(labels), *weights)
        x, y = self._images(x), self._labels(y)
        return super().fit(x, y, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Evaluates, as `keras.Model.evaluate` does, on images as for `fit`."""
        return super().evaluate(self._images(x), self._labels(y), **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> np.ndarray:
        """Predicts, as `keras.Model.predict` does, for images as for `fit`.

        Returns:
            Array `(B, num_classes)`: logits, or probabilities with `activation`.
        """
        return super().predict(self._images(x), **kwargs)

    def attention_map(
        self,
        images: Tensor,
        *,
        layer: int | None = -1,
        head: int | None = None,
        batch_size: int = 32,
    ) -> np.ndarray:
        """The attention of the output to each patch.

        Args:
            images: As for `fit`.
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
        images = self._images(images)
        maps = [
            self._map(images[start : start + batch_size], layer, head)
            for start in range(0, len(images), batch_size)
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
        last = self.patches.data_format == "channels_last"
        size = images.shape[1:3] if last else images.shape[2:]
        grid = sizes.grid(size, self.patches.patch_size)
        return attention_maps.patch_weights(A, grid, self.patches.class_token)

    def _images(self, x):
        """Images, checked if they are arrays."""
        if not (isinstance(x, list) or hasattr(x, "__array__")):
            return x
        return pixels.check(
            keras.ops.convert_to_numpy(x) if hasattr(x, "dtype") else x,
            value_range=self.value_range,
            patch_size=self.patches.patch_size,
            channels=self._arguments["channels"],
            channels_last=self.patches.data_format == "channels_last",
        )

    def _labels(self, y):
        if self.num_classes is None and y is not None:
            raise ValueError(
                "y must be None for a model without classifier, received labels. "
                "Create the model with num_classes"
            )
        y = np.array(y) if isinstance(y, list) else y
        if not isinstance(y, np.ndarray) or not np.issubdtype(y.dtype, np.integer):
            return y
        wrong = y[(y < 0) | (y >= self.num_classes)] if y.ndim == 1 else y[:0]
        if wrong.size:
            raise ValueError(
                f"labels must be from 0 to {self.num_classes - 1}, as num_classes="
                f"{self.num_classes}, received y with label {wrong[0]}. Number the "
                "classes from 0"
            )
        return y
