"""Base class of image models: labels by name, training and prediction."""

import contextlib
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from kerasseq.core.types import Config, Tensor, one_or_several
from kerasseq.models.vit import explanations, inputs, pixels
from kerasseq.models.vit.patches import PatchEmbedding
from kerasseq.models.vit.preprocessor import ImagePreprocessor, reading, trained
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.class_labels import Classification, classify
from kerasseq.tasks.fit_call import FitCall, check_learned
from kerasseq.tasks.heads import ClassHead, Head
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.tasks.labels import Label, Labels
from kerasseq.training.batches import KerasData
from kerasseq.training.label_batches import Rows
from kerasseq.transformer.encoder import TransformerEncoder


class ImageHead(ClassHead):
    """Classes of images, also as numbers for each class."""

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if getattr(y, "ndim", 1) < 2 or self.multi_label:
            return super().targets(rows, y, class_weight)
        count = self.labels.count  # for a loss of the user
        if y.ndim != 2 or y.shape[1] not in (count, 1) or y.dtype.kind not in "biuf":
            raise ValueError(
                f"y must be a label for each image, or numbers (rows, {count}), "
                f"received an array {y.shape} of {y.dtype}"
            )
        return y, None


class NoHead(Head):
    """The pooled vector."""

    by_length: ClassVar[bool] = True

    def targets(self, rows: Rows, y: Any, class_weight: Any = None) -> Any:
        raise ValueError(
            "y must be None for a model without classifier, received labels. Create "
            "the model with labels"
        )


class ImageClassifier(LabeledModel):
    """Base class of Transformers from images `(B, H, W, C)` to a score for each class.

    If the labels are to be learned from data, `fit` builds the layers.

    A subclass implements `layers_of`, which returns `patches`, its `PatchEmbedding`,
    and `blocks`. Its arguments must have `labels`, `include_top`, `multi_label`,
    `image_size`, `num_heads`, `channels`, `resize`, `value_range` and `activation`.

    Args:
        arguments: The arguments of the subclass by name.
        **kwargs: `name` and `trainable`.
    """

    patches: PatchEmbedding
    blocks: list[TransformerEncoder]
    task: Head
    preprocessor: ImagePreprocessor
    fit_options: tuple[str, ...] = ("missing", "shift", "flip")

    def __init__(self, arguments: Config, **kwargs: Any) -> None:
        task = _head(arguments)
        if not task.is_waiting:
            self.build_layers(arguments, kwargs)
            return
        self.await_fit(arguments, kwargs)
        self.task, self.preprocessor = task, ImagePreprocessor(arguments)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        self.task = _head(arguments)
        self.preprocessor = ImagePreprocessor(arguments)
        first, last, parts = self.layers_of(arguments, self.task.labels)
        TaskModel.__init__(self, first, last, arguments, **options)
        self.patches, self.blocks = parts

    def layers_of(
        self, arguments: Config, labels: Labels | None
    ) -> tuple[
        keras.KerasTensor,
        keras.KerasTensor,
        tuple[PatchEmbedding, list[TransformerEncoder]],
    ]:
        """Builds the layers.

        Args:
            arguments: The arguments of the model.
            labels: The classes; None without classifier.

        Returns:
            Input, output, and the layers `patches` and `blocks`.
        """
        raise NotImplementedError

    @property
    def value_range(self) -> tuple[float, float] | None:
        """The values of black and white, if they are not those of the data type."""
        return self._arguments["value_range"]

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        images = keras.tree.map_structure(
            lambda x: pixels.as_fractions(x, self.value_range), inputs
        )
        return super().call(images, training=training, mask=mask)

    def training_data(self, call: FitCall) -> KerasData | Rows:
        return trained(super().training_data(call), call)

    @one_or_several(Classification)
    def classify(
        self,
        images: Any,
        *,
        threshold: float = 0.5,
        batch_size: int = BATCH_SIZE,
        missing: str = "error",
    ) -> Classification | list[Classification]:
        """Finds the most probable label, or with `multi_label` all probable ones.

        Args:
            images: One image, a file, an array or one of pillow; or images as for
                `predict`.
            threshold: With `multi_label`: the least probability of a label.
            batch_size: Images that are processed at once.
            missing: "skip" leaves damaged files without prediction, and warns with
                their number; by default they are an error.

        Returns:
            A `Classification` for one image, else a list of them; None for files that
            are left out.

        Raises:
            ValueError: If the labels have not been learned yet, or the model has no
                classifier.
        """
        if not self.task.has_labels:
            raise ValueError(
                "classify needs a model with classifier, received include_top=False. "
                "Create the model with labels"
            )
        options = {"batch_size": batch_size, "missing": missing}
        return classify(self, images, threshold=threshold, **options)

    def read(self, files: Any) -> np.ndarray:
        """Reads files as the model does: in its size, channels and range of values.

        Args:
            files: A file, a list of files, or a folder.

        Returns:
            Array `(B, H, W, C)`.
        """
        check_learned(self)
        return self.preprocessor.rows(inputs.unlabeled(files)).batch()

    def reading(self, batches: Any) -> contextlib.AbstractContextManager[None]:
        """Raises the error of a file as it was, and leaves the model as it was."""
        return reading(self, batches)

    def attention_map(
        self,
        images: Any,
        *,
        layer: int | None = -1,
        head: int | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> np.ndarray:
        """Returns the attention of the output to each patch.

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
        return explanations.attention_map(self, images, layer, head, batch_size)

    def attribution(
        self, images: Any, labels: Sequence[Label] | None = None, *, batch_size: int = 8
    ) -> np.ndarray:
        r"""Computes how much each pixel moved the decision: gradient times input.

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
        return explanations.attribution(self, images, labels, batch_size)


def _head(arguments):
    """Returns the head of a model with these arguments."""
    if not arguments["include_top"]:
        return NoHead()
    names = ("labels", "multi_label", "activation")
    return ImageHead(*(arguments[name] for name in names))
