"""Pictures as rows whose targets are the pictures themselves."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.models.vit import inputs
from kerasseq.models.vit.preprocessor import ImagePreprocessor, ImageRows
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.heads import Head, check_no_class_weight
from kerasseq.tasks.input_rows import are_batches, number_of_rows
from kerasseq.tasks.labeled_data import Data


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
        """Returns pictures, their numbers in place of labels, and their weights.

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
        """Returns whether these are pictures alone: any list, or files of a folder."""
        return isinstance(x, list) or inputs.is_labeled(x)

    def rows(self, x: Any) -> ImageRows | None:
        rows = super().rows(x)
        if rows is not None:
            rows.is_array = False  # the order is that of `seed`, not of Keras
        return rows


class PictureHead(Head):
    """The picture itself."""

    evaluated_by: ClassVar[str | None] = "evaluate"

    def weighted_targets(
        self,
        rows: ImageRows,
        y: Any,
        sample_weight: Any = None,
        class_weight: Any = None,
    ) -> tuple[Any, Any]:
        """Returns the numbers of pictures, and their weights."""
        check_no_class_weight(class_weight)
        return y, sample_weights(sample_weight, len(rows), None)
