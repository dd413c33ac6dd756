"""Pictures as arrays or files, and films as arrays, in the size of the model."""

from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.models.vit import inputs, pixels
from kerasseq.models.vit.preprocessor import ImagePreprocessor
from kerasseq.training.image_batches import ImageReader


class PictureReader:
    """Reads pictures and films, and checks them.

    Args:
        arguments: The arguments of the model.
    """

    def __init__(self, arguments: Config) -> None:
        *frames, height, width = arguments["image_size"]
        self.frames: list[int] = frames
        self.size: tuple[int, int] = (height, width)
        self.channels: int = arguments["channels"]
        self.shape: tuple[int, ...] = (*self.frames, height, width, self.channels)
        self.preprocessor: ImagePreprocessor = ImagePreprocessor(
            {
                "channels": self.channels,
                "data_format": "channels_last",
                "value_range": None,
                "image_size": self.size,
                "patch_size": tuple(arguments["patch_size"][-2:]),
                "resize": arguments["resize"],
            }
        )

    @property
    def what(self) -> str:
        """A picture or a film, for messages."""
        return "film" if self.frames else "picture"

    def is_one(self, x: Any) -> bool:
        """Returns whether this is one picture, a file or an array, or one film."""
        if not self.frames:
            return self.preprocessor.is_one(x)
        return getattr(x, "ndim", 0) == len(self.shape)

    def reader(self, x: Any) -> ImageReader:
        """Returns what reads some of the pictures or films.

        Raises:
            TypeError: If they are neither files nor arrays.
            ValueError: If the size, the channels, the number of frames or the values
                are wrong.
        """
        x = inputs.unlabeled(x)
        files = inputs.files_of(x)
        is_list = isinstance(x, list | tuple)
        if files is not None or (is_list and any(map(inputs.is_picture, x))):
            if self.frames:
                raise TypeError(
                    f"images must be films, arrays {self.shape}, received files or "
                    "pictures. Read their frames as arrays"
                )
            rows = self.preprocessor.rows(x)
            return ImageReader(rows.arrays, rows.read)
        if not is_list and not hasattr(x, "shape"):
            raise TypeError(
                f"images must be an array of {self.what}s or a list of them or of "
                f"files, received {checks.short(x)}"
            )
        for row, each in enumerate(x if is_list else x[:1]):
            self.check(row, each)
        images = np.asarray(x)
        if len(images):
            images = images.reshape(len(images), *self.shape)
            flat = images.reshape(-1, *self.shape[-3:])
            options = {"value_range": None, "patch_size": (1, 1), "channels_last": True}
            pixels.check(flat, channels=self.channels, **options)
        return ImageReader(images, None)

    def check(self, row: int, image: Any) -> None:
        """Raises if the shape of a picture or a film is not that of the model."""
        shape = np.shape(image)
        wanted = [self.shape] + [self.shape[:-1]] * (self.channels == 1)
        if shape in wanted:
            return
        names = ("frames",) * len(self.frames) + ("height", "width", "channels")
        advice = "Resize it, or pass its file, which is resized"
        if len(shape) == len(self.shape):
            if shape[-1] != self.channels:
                advice = "Convert its colors, or build the model with other channels"
            elif self.frames and shape[0] != self.frames[0]:
                advice = f"Choose {self.frames[0]} of its frames, at equal distances"
            elif self.frames:
                advice = "Resize its frames"
        raise ValueError(
            f"images[{row}] must be a {self.what} ({', '.join(names)}) of shape "
            f"{self.shape}, received shape {shape}. {advice}"
        )
