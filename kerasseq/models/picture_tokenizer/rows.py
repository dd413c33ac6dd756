"""Pictures as rows whose targets are the pictures themselves."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.models.vit import inputs
from kerasseq.models.vit.preprocessor import ImagePreprocessor, ImageRows
from kerasseq.tasks.data_checks import are_batches, sample_weights
from kerasseq.tasks.heads import Head, check_no_class_weight
from kerasseq.tasks.input_rows import number_of_rows
from kerasseq.tasks.preprocessor import Data
from kerasseq.training.image_batches import ImageBatches, ImageSequence
from kerasseq.training.label_batches import LabelArrays


class PictureBatches(ImageBatches):
    """Batches to train on, with each picture as its own target."""

    def batch(self, number: int) -> LabelArrays:
        return _with_targets(*super().batch(number))


class PictureSequence(ImageSequence):
    """All pictures once, in order, each as its own target."""

    def __getitem__(self, number: int) -> LabelArrays:
        return _with_targets(*super().__getitem__(number))


def _with_targets(x, _, *weights):
    """A batch with the pictures in place of their numbers."""
    return (x, x, *weights)


class PictureRows(ImageRows):
    """Pictures; `y` are their numbers, in place of labels."""

    def batches(
        self, batch_size: int = 32, seed: int = 0, **options: Any
    ) -> PictureBatches:
        """Returns batches to train on.

        Args:
            batch_size: Pictures in a batch.
            seed: Seed of the order, and of shifts and flips.
            **options: `shift` and `flip`, as for `ImageBatches`.
        """
        data = self.arrays, self.y, self.weights, batch_size, seed
        return PictureBatches(*data, read=self.read, **options)

    def in_order(self, batch_size: int = 32) -> ImageSequence:
        if self.y is None:
            return super().in_order(batch_size)
        data = self.arrays, self.y, self.weights, batch_size
        return PictureSequence(*data, self.read)


class PicturePreprocessor(ImagePreprocessor):
    """Reads pictures without labels: arrays, files, folders, or data sets.

    Args:
        arguments: The arguments of the model.
    """

    def __init__(self, arguments: Config) -> None:
        same = {"data_format": "channels_last", "value_range": None}
        super().__init__({**arguments, **same})

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        """Returns pictures, their numbers, and their weights.

        Args:
            x: Pictures; a folder; or an object with `images`, as `datasets` have.
            y: Nothing.
            sample_weight: Weight of each picture, or None.
            labels: Nothing.
        """
        if are_batches(x):
            return x, y, sample_weight
        if y is not None:
            raise TypeError(
                "y must be None, as the pictures are their own targets, received "
                f"{checks.short(y)}. Leave it out"
            )
        if not isinstance(x, Mapping) and hasattr(x, "images"):
            x = x.images
        x = inputs.as_array(inputs.unlabeled(x))
        return x, np.arange(number_of_rows(x) or 0), sample_weight

    def has_labels(self, x: Any) -> bool:
        """Whether these are pictures alone: any list, or files of a folder."""
        return isinstance(x, list) or inputs.is_labeled(x)

    def rows(self, x: Any) -> PictureRows | None:
        """Pictures as rows; None for a stream of batches."""
        found = super().rows(x)
        if found is None:
            return None
        return PictureRows(found.arrays, read=found.read)


class PictureHead(Head):
    """The picture itself."""

    def weighted_targets(
        self,
        rows: PictureRows,
        y: Any,
        sample_weight: Any = None,
        class_weight: Any = None,
    ) -> tuple[Any, Any]:
        """Returns the numbers of pictures, and their weights."""
        check_no_class_weight(class_weight)
        return y, sample_weights(sample_weight, len(rows), None)
