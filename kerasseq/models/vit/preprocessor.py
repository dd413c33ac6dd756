"""Arrays, files or folders of images as rows of a model."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.datasets.image_reading import convert, read_image, readable_rows
from kerasseq.models.vit import inputs, pixels, sizes
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.fit_call import FitCall
from kerasseq.tasks.input_rows import check_data
from kerasseq.tasks.labeled_data import SKIP, Data, taken
from kerasseq.tasks.preprocessor import Preprocessor
from kerasseq.training.batches import KerasData
from kerasseq.training.image_batches import ImageBatches, images_in_order
from kerasseq.training.label_batches import Rows


@dataclasses.dataclass
class ImageRows(Rows):
    """Images with labels; files are read batch by batch.

    Attributes:
        read: Function from a file or an image of pillow to an array `(H, W, C)`; or
            None.
        channels_first: Whether the axis of the channels comes before the height.
        shift: By which share of their size images are shifted in training, at most.
        flip: Whether half of the images of training are mirrored.
    """

    read: Callable[[str], np.ndarray] | None = None
    channels_first: bool = False
    shift: float = 0.0
    flip: bool = False
    batched_by_length: ClassVar[bool] = False

    def batches(
        self, batch_size: int = 32, seed: int = 0, **options: Any
    ) -> ImageBatches:
        """Returns batches to train on.

        Args:
            batch_size: Images in a batch.
            seed: Seed of the order, and of shifts and flips.
            **options: `shift` and `flip`, as for `ImageBatches`.
        """
        data = self.arrays, self.y, self.weights, batch_size, seed
        own = {"channels_first": self.channels_first}
        own |= {"shift": self.shift, "flip": self.flip, **options}
        return ImageBatches(*data, read=self.read, **own)

    def for_keras(self) -> KerasData | None:
        return None if self.shift or self.flip else super().for_keras()

    def in_order(self, batch_size: int = 32) -> Any:
        data = self.arrays, self.y, self.weights, batch_size
        return images_in_order(*data, self.read)

    def batch(self) -> np.ndarray:
        if self.read is None:
            return self.arrays
        return np.stack([self.read(file) for file in self.arrays])

    def by_length(self, batch_size: int) -> Iterator[tuple[np.ndarray, Any]]:
        yield np.arange(len(self)), self.in_order(batch_size)


class ImagePreprocessor(Preprocessor):
    """Checks arrays of images, and reads files in the size of the model.

    Args:
        arguments: The arguments of the model.
    """

    has_texts: bool = False
    row_rank: int = 3

    def __init__(self, arguments: Config) -> None:
        self.arguments = arguments
        self.channels: int = arguments["channels"]
        self.channels_last: bool = arguments["data_format"] == "channels_last"
        self.value_range: tuple[float, float] | None = arguments["value_range"]
        self.size: tuple[int, int] = sizes.pair("image_size", arguments["image_size"])

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        x, y = inputs.labeled(x, inputs.as_array(y))
        if inputs.is_path(x) or inputs.files_of(x) is not None:
            return x, y, sample_weight
        return super().data(inputs.as_array(x), y, sample_weight, labels)

    def is_one(self, x: Any) -> bool:
        x = inputs.as_array(x)
        return inputs.is_one_image(x, self.channels, self.channels_last)

    def is_row(self, x: Any) -> bool:
        return not inputs.is_readable(x) and self.is_one(x)

    def several(self, x: Any) -> Any:
        if not self.is_one(x):
            return inputs.unlabeled(x)
        if inputs.is_readable(x):
            return [x]
        return np.asarray(inputs.as_array(x))[None]

    def complete(self, missing: str, *data: Any, **options: Any) -> Data:
        data = super().complete(missing, *data, **options)
        files = inputs.files_of(data[0]) if missing == SKIP else None
        if files is None:
            return data
        rows = readable_rows(files)
        return tuple(taken(part, rows) for part in (files, *data[1:]))

    def predictable(self, missing: str, x: Any) -> list[int] | None:
        super().predictable(missing, x)  # the name in `missing`
        files = inputs.files_of(x) if missing == SKIP else None
        return None if files is None else readable_rows(files)

    def none(self) -> np.ndarray:
        axis = 3 if self.channels_last else 1
        images = np.expand_dims(np.zeros((0, *self.size), "uint8"), axis)
        return np.repeat(images, self.channels, axis)

    def rows(self, x: Any) -> ImageRows | None:
        """Returns images as rows: arrays or files; None for a stream of batches."""
        x = inputs.unlabeled(x)
        options = {"channels_first": not self.channels_last}
        files = inputs.files_of(x)
        if files is not None:
            return ImageRows(files, read=self.read, **options)
        is_list = isinstance(x, list | tuple)
        if is_list and len(x) and all(map(inputs.is_readable, x)):
            return ImageRows(list(x), read=self.read, **options)
        check_data(x, "images")
        if isinstance(x, Mapping) or (is_list and as_array(x) is None):
            raise TypeError(
                "images must be an array (rows, height, width, channels), files or a "
                f"folder, received {checks.short(x)}"
            )
        if not is_list and not hasattr(x, "__array__"):
            return None
        images = pixels.check(
            inputs.as_array(x),
            value_range=self.value_range,
            patch_size=sizes.pair("patch_size", self.arguments["patch_size"]),
            channels=self.channels,
            channels_last=self.channels_last,
        )
        return ImageRows(images, is_array=True, **options)

    def read(self, file: Any) -> np.ndarray:
        """Reads one file, or an image of pillow, as an array `(H, W, C)`.

        It has the size and the range of values of the model.
        """
        read = convert if inputs.is_picture(file) else read_image
        options = {"channels": self.channels, "resize": self.arguments["resize"]}
        image = read(file, self.size, **options)
        if self.value_range is not None:
            low, high = self.value_range
            image = (low + image * ((high - low) / 255)).astype("float32")
        return image if self.channels_last else image.transpose(2, 0, 1)


def trained(rows: Any, call: FitCall) -> Any:
    """Returns rows as `fit` trains on them: images are shifted and flipped at random.

    Args:
        rows: `ImageRows`, or batches as they are.
        call: The call of `fit`.

    Raises:
        ValueError: If batches, which are not read here, are to be shifted or flipped.
    """
    if not isinstance(rows, ImageRows):
        for name in ("shift", "flip"):
            if call.own.get(name):
                call.refuse("for batches; pass arrays, files or a folder", name)
    else:
        rows.by_class = inputs.is_labeled(call.x)
        rows.shift, rows.flip = call.own.get("shift", 0.0), call.own.get("flip", False)
    return rows


@contextlib.contextmanager
def reading(model: keras.Model, batches: Any) -> Iterator[None]:
    """Raises the error of a file as it was, and leaves the model as it was.

    Args:
        model: The model that reads batches.
        batches: The batches; those with a `reader` may fail.
    """
    if getattr(batches, "reader", None) is None:
        yield
        return
    with batches.reader.original_errors(), kernels.keep_variables(model):
        yield
