"""What a model of images does with them: checks, learns, predicts, looks."""

import keras
import numpy as np

from kerasseq import tracing
from kerasseq.tasks.base import TaskModel
from kerasseq.vision import attention_maps, pixels, sizes


class ImageClassifier(TaskModel):
    """A Transformer from images `(B, H, W, C)` to a score for each class.

    A subclass builds the graph, and sets `patches`, its `PatchEmbedding`, and `blocks`.
    Its arguments have `num_classes`, `num_heads`, `channels`, `value_range` and
    `activation`.
    """

    def __init__(self, inputs, outputs, arguments, **kwargs):
        super().__init__(inputs, outputs, arguments, **kwargs)
        self.num_classes = arguments["num_classes"]
        self.value_range = arguments["value_range"]

    def call(self, inputs, training=None, mask=None):
        images = keras.tree.map_structure(
            lambda x: pixels.as_fractions(x, self.value_range), inputs
        )
        return super().call(images, training=training, mask=mask)

    def default_loss(self):
        logits = self._arguments["activation"] is None
        return keras.losses.SparseCategoricalCrossentropy(from_logits=logits)

    def default_metrics(self):
        return ["accuracy"]

    def fit(self, x=None, y=None, *, validation_data=None, **kwargs):
        """Train, as `keras.Model.fit` does.

        Args:
            x: Images `(B, H, W, C)`, of one channel also `(B, H, W)`, of any type; or
                anything that Keras takes, which is then passed on as it is.
            y: Labels `(B,)`, from 0 on.
            validation_data: Pair of such images and labels.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If images have another shape or values than the model is made
                for, or a label is none of the classes.
        """
        if isinstance(validation_data, (tuple, list)):
            images, labels, *weights = validation_data
            validation_data = (self._images(images), self._labels(labels), *weights)
        x, y = self._images(x), self._labels(y)
        return super().fit(x, y, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, **kwargs):
        """Measure, as `keras.Model.evaluate` does, on images as for `fit`."""
        return super().evaluate(self._images(x), self._labels(y), **kwargs)

    def predict(self, x, **kwargs):
        """Predict, as `keras.Model.predict` does, on images as for `fit`.

        Returns:
            Array `(B, num_classes)`: logits, or probabilities with `activation`.
        """
        return super().predict(self._images(x), **kwargs)

    def attention_map(self, images, *, layer=-1, head=None, batch_size=32):
        """Where the model looked in a layer, to say what it says.

        Args:
            images: As for `fit`.
            layer: Whose attention: 0 is the first, -1 the last; None for what all
                layers together brought to the end, by attention rollout.
            head: Which head; the mean of all if None.
            batch_size: Images that run at once.

        Returns:
            Array `(B, rows, columns)` over the patches, which sums to 1 for each image:
            the weights of the class token, or with `pooling="mean"` of all patches.

        Raises:
            ValueError: If there is no such layer or head.
        """
        layers, heads = len(self.blocks), self._arguments["num_heads"]
        if layer is not None and layer not in range(-layers, layers):
            raise ValueError(
                f"layer={layer} is not there: there are {layers}, from 0 on"
            )
        if head is not None and (layer is None or head not in range(heads)):
            raise ValueError(
                f"head={head} must be one of 0 to {heads - 1}, or None, which rollout "
                "always needs"
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
            A = attention_maps.rollout(A)
        else:
            A = A[layer].mean(axis=1) if head is None else A[layer][:, head]
        last = self.patches.data_format == "channels_last"
        size = images.shape[1:3] if last else images.shape[2:]
        grid = sizes.grid(size, self.patches.patch_size)
        return attention_maps.on_patches(A, grid, self.patches.class_token)

    def _images(self, x):
        """Arrays checked; data sets and the like as they are."""
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
            raise ValueError("this model has no classifier: say num_classes")
        y = np.array(y) if isinstance(y, list) else y
        if not isinstance(y, np.ndarray) or not np.issubdtype(y.dtype, np.integer):
            return y
        wrong = y[(y < 0) | (y >= self.num_classes)] if y.ndim == 1 else y[:0]
        if wrong.size:
            raise ValueError(
                f"y has the label {wrong[0]}, but num_classes={self.num_classes} "
                f"allows 0 to {self.num_classes - 1}"
            )
        return y
