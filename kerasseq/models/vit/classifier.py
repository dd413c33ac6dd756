"""Base class of image models: labels by name, training and prediction."""

import contextlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Config, Tensor
from kerasseq.datasets.image_reading import read_image, readable_rows
from kerasseq.models.vit import inputs, pixels, sizes
from kerasseq.models.vit.explanations import Explanations
from kerasseq.models.vit.patches import PatchEmbedding
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.class_labels import Classification, ClassLabels
from kerasseq.tasks.data_checks import (
    as_array,
    check_data,
    check_labels_of_rows,
    sample_weights,
)
from kerasseq.tasks.input_rows import is_empty_list
from kerasseq.tasks.labeled import check_learned
from kerasseq.tasks.labels import Labels, learned
from kerasseq.tasks.missing_rows import (
    SKIP,
    complete_rows,
    predictable_rows,
    taken,
)
from kerasseq.training.batches import fit_arguments
from kerasseq.training.image_batches import ImageBatches, ImageSequence
from kerasseq.transformer.encoder import TransformerEncoder

BATCH_SIZE = 32


class ImageClassifier(Explanations, ClassLabels, TaskModel):
    """Base class of Transformers from images `(B, H, W, C)` to a score for each class.

    If the labels are to be learned from data, `fit` builds the layers.

    A subclass implements `layers_of`, which sets `patches`, its `PatchEmbedding`, and
    `blocks`. Its arguments must have `labels`, `include_top`, `multi_label`,
    `image_size`, `num_heads`, `channels`, `resize`, `value_range` and `activation`.

    Args:
        arguments: The arguments of the subclass by name.
        **kwargs: `name` and `trainable`.
    """

    patches: PatchEmbedding
    blocks: list[TransformerEncoder]

    def __init__(self, arguments: Config, **kwargs: Any) -> None:
        if arguments["include_top"] and arguments["labels"] is None:
            keras.Model.__init__(self, **kwargs)
            self.awaits_fit = True
            self._arguments = arguments
        else:
            self._build_layers(arguments, kwargs)

    def _build_layers(self, arguments, kwargs):
        labels = Labels(arguments["labels"]) if arguments["include_top"] else None
        first, last, parts = self.layers_of(arguments, labels)
        self._labels = labels
        super().__init__(first, last, arguments, **kwargs)
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

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Configures training, as for every model of a task.

        If the model is to learn its labels, `fit` does it.
        """
        if self._is_built():
            super().compile(*args, **kwargs)
        else:
            self._compile_later(args, kwargs)

    def _is_built(self):
        return self._labels is not None or not self._arguments["include_top"]

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int = BATCH_SIZE,
        epochs: int = 1,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        sample_weight: Any = None,
        missing: str = "error",
        shift: float = 0.0,
        flip: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model, as `keras.Model.fit` does.

        Files are read batch by batch; they are never in memory together.

        Args:
            x: The path of a folder with a subfolder for each class; its files, from
                `kerasseq.datasets.image_folder`; paths of files; or an array of images
                `(B, H, W, C)` of any type, with one channel also `(B, H, W)`. Other
                inputs of `keras.Model.fit` are not checked.
            y: The labels; None for a folder.
            batch_size: Images in a batch.
            epochs: The last epoch.
            initial_epoch: Number of epochs trained before.
            steps_per_epoch: Batches in an epoch. All images if None.
            validation_split: Fraction of the images for validation: of each class for a
                folder, else from the end.
            validation_data: Images and labels as a pair; or the path of a folder.
            class_weight: Weight of each label in the loss, by label; "balanced" gives
                all labels the same share.
            sample_weight: Weight of each image.
            missing: "skip" leaves out damaged files and images without a label, and
                warns with their number; by default they are an error.
            shift: Training images are shifted at random by at most this share of their
                height and width; 0.1 is often good.
            flip: Whether half of the training images are mirrored from left to right.
            seed: Seed of the order of the images, their shifts and flips.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            FileNotFoundError: If a file or folder is missing.
            ValueError: If a file is not an image, the shape or values of images do not
                fit the model, or a label is unknown.
        """
        is_folder = inputs.is_labeled(x)
        x, y, sample_weight = self._complete(missing, x, y, sample_weight)
        if not self._is_built():
            self._learn(y)
        options = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        if validation_data is not None:
            options["validation_data"] = self._validation(
                validation_data, batch_size, missing
            )
        images = self._images(x)
        if not isinstance(images, np.ndarray | list):
            return super().fit(images, y, steps_per_epoch=steps_per_epoch, **options)
        y, weights = self._targets(images, y, class_weight, sample_weight)
        if validation_split and validation_data is None:
            fraction = checks.fraction("validation_split", validation_split)
            parts = inputs.split(
                images, y, weights, fraction, seed if is_folder else None
            )
            (images, y, weights), held_out = parts
            options["validation_data"] = self._sequence(*held_out, batch_size)
        batches = self._batches(
            images, y, weights, batch_size, seed, shift=shift, flip=flip
        )
        if isinstance(images, np.ndarray) and not (shift or flip):
            return super().fit(
                images,
                y,
                batch_size=batch_size,
                steps_per_epoch=steps_per_epoch,
                sample_weight=weights,
                **options,
            )
        with self._reading(batches):
            return super().fit(**fit_arguments(batches, steps_per_epoch, options))

    def batches(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = BATCH_SIZE,
        class_weight: str | Mapping[Any, float] | None = None,
        shift: float = 0.0,
        flip: bool = False,
        seed: int = 0,
    ) -> ImageBatches:
        """Returns the batches that `fit` trains on, for arrays, files or a folder.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: Images in a batch.
            class_weight: As for `fit`.
            shift: As for `fit`.
            flip: As for `fit`.
            seed: As for `fit`.
        """
        x, y = self.labeled_inputs(x, y)
        images = self._images(x)
        y, weights = self._targets(images, y, class_weight)
        return self._batches(
            images, y, weights, batch_size, seed, shift=shift, flip=flip
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = BATCH_SIZE,
        sample_weight: Any = None,
        missing: str = "error",
        **kwargs: Any,
    ) -> Any:
        """Evaluates, as `keras.Model.evaluate` does, on images as for `fit`."""
        given = x, y, sample_weight
        x, y, sample_weight = self._complete(missing, *given, method="evaluate")
        images = self._images(x)
        if not isinstance(images, np.ndarray | list):
            return super().evaluate(images, y, **kwargs)
        y, weights = self._targets(images, y, None, sample_weight)
        data = self._sequence(images, y, weights, batch_size or BATCH_SIZE)
        with self._reading(data):
            return super().evaluate(data, **kwargs)

    def predict(
        self,
        x: Any,
        *,
        batch_size: int = BATCH_SIZE,
        missing: str = "error",
        **kwargs: Any,
    ) -> np.ndarray:
        """Predicts, as `keras.Model.predict` does, for images as for `fit`.

        Args:
            x: Arrays, files or a folder; of a folder all images, in the order of
                `kerasseq.datasets.image_files`.
            batch_size: Images that are processed at once.
            missing: "skip" leaves damaged files without prediction, and warns with
                their number; by default they are an error.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            Array `(B, labels)`: logits, or probabilities with `activation`; NaN for
            files that are left out.
        """

        def predicted(images):
            return self.scores_of(images, batch_size=batch_size, **kwargs)

        return self.for_complete_rows(predicted, inputs.unlabeled(x), missing)

    def scores_of(
        self, x: Any, *, batch_size: int | None = BATCH_SIZE, **kwargs: Any
    ) -> np.ndarray:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        x = inputs.unlabeled(x)
        if is_empty_list(x):
            x = self._no_images()
        images = self._images(x)
        if isinstance(images, list):
            data = self._sequence(images, None, None, batch_size)
            with self._reading(data):
                return super().scores_of(data, **kwargs)
        options = {"batch_size": batch_size} if hasattr(images, "shape") else {}
        return super().scores_of(images, **options, **kwargs)

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
            images: One image, a file or an array; or images as for `predict`.
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
        threshold = checks.fraction("threshold", threshold)
        if not self._arguments["include_top"]:
            raise ValueError(
                "classify needs a model with classifier, received include_top=False. "
                "Create the model with labels"
            )
        self._check_built()
        images = inputs.as_array(images)
        a = self._arguments
        if one := inputs.is_one_image(images, a["channels"], self._channels_last()):
            images = [images] if inputs.is_path(images) else np.asarray(images)[None]

        def classified(rows):
            outputs = self.scores_of(rows, batch_size=batch_size, verbose=0)
            return self.classifications(outputs, threshold)

        if one:
            return classified(images)[0]
        return self.for_complete_rows(classified, inputs.unlabeled(images), missing)

    def read(self, files: Any) -> np.ndarray:
        """Reads files as the model does: in its size, channels and range of values.

        Args:
            files: A file, a list of files, or a folder.

        Returns:
            Array `(B, H, W, C)`.
        """
        self._check_built()
        return np.stack([self._read(file) for file in inputs.unlabeled(files)])

    def labeled_inputs(self, x: Any, y: Any) -> tuple[Any, Any]:
        return inputs.labeled(x, inputs.as_array(y))

    def _channels_last(self):
        return self._arguments["data_format"] == "channels_last"

    def _learn(self, y):
        """Learns the labels, and builds the layers."""
        if y is None:
            raise ValueError(
                "expected labels y for the images, or a folder with a subfolder for "
                "each class, or a model with labels=[...]; received y=None"
            )
        kwargs = {"name": self.name} | ({} if self.trainable else {"trainable": False})
        names = learned(self.all_labels(y))
        args, options = self._compile_arguments
        self._build_layers({**self._arguments, "labels": names}, kwargs)
        if args or options:
            self.compile(*args, **options)

    def _check_built(self):
        if not self._is_built():
            check_learned(self._labels)

    def _no_images(self):
        """An array of 0 images."""
        a, axis = self._arguments, 3 if self._channels_last() else 1
        images = np.zeros((0, *sizes.pair("image_size", a["image_size"])), "uint8")
        return np.repeat(np.expand_dims(images, axis), a["channels"], axis)

    def _read(self, file):
        """Returns one file as an array `(H, W, C)`."""
        a = self._arguments
        size = sizes.pair("image_size", a["image_size"])
        image = read_image(file, size, channels=a["channels"], resize=a["resize"])
        if self.value_range is not None:
            low, high = self.value_range
            image = (low + image * ((high - low) / 255)).astype("float32")
        return image if self._channels_last() else image.transpose(2, 0, 1)

    def _images(self, x):
        """An array, checked; a list of files; or other inputs, as they are."""
        self._check_built()
        files = inputs.files_of(x)
        if files is not None:
            return files
        check_data(x, "images")
        if isinstance(x, Mapping) or (isinstance(x, list | tuple) and not _is_array(x)):
            raise TypeError(
                "images must be an array (rows, height, width, channels), files or a "
                f"folder, received {checks.short(x)}"
            )
        if not (isinstance(x, list | tuple) or hasattr(x, "__array__")):
            return x
        return pixels.check(
            inputs.as_array(x),
            value_range=self.value_range,
            patch_size=self.patches.patch_size,
            channels=self._arguments["channels"],
            channels_last=self._channels_last(),
        )

    def _targets(self, images, y, class_weight, sample_weight=None):
        """Labels as the loss takes them, and sample weights or None."""
        if y is None:
            raise ValueError("expected labels y for the images, received y=None")
        if self._labels is None:
            raise ValueError(
                "y must be None for a model without classifier, received labels. "
                "Create the model with labels"
            )
        check_labels_of_rows(y, len(images))
        if getattr(y, "ndim", 1) > 1 and not self._arguments["multi_label"]:
            weights, y = None, self._one_hot(y)
        else:
            y, weights = self.class_targets(y, class_weight)
        given = sample_weights(sample_weight, len(images))
        if given is not None:
            weights = given if weights is None else weights * given
        return y, weights

    def _one_hot(self, y):
        """Labels for a loss of the user, a number for each class."""
        labels = [self._labels.count, 1]
        if y.ndim != 2 or y.shape[1] not in labels or y.dtype.kind not in "biuf":
            raise ValueError(
                f"y must be a label for each image, or numbers (rows, {labels[0]}), "
                f"received an array {y.shape} of {y.dtype}"
            )
        return y

    def _predictable(self, missing, x):
        """The images that can be read; None for all."""
        predictable_rows(x, missing, has_texts=False)  # the name in `missing`
        files = inputs.files_of(x) if missing == SKIP else None
        return None if files is None else readable_rows(files)

    def _complete(self, missing, x, y=None, sample_weight=None, **options):
        """The images with labels that have one and can be read."""
        x, y = self.labeled_inputs(x, y)
        data = x, y, sample_weight
        data = complete_rows(*data, missing, has_texts=False, **options)
        files = inputs.files_of(data[0]) if missing == SKIP else None
        if files is None:
            return data
        rows = readable_rows(files)
        return tuple(taken(part, rows) for part in (files, *data[1:]))

    def _validation(self, data, batch_size, missing):
        """Validation data as batches, if they are images and labels."""
        if inputs.is_labeled(data):
            data = (data,)
        if not isinstance(data, tuple | list):
            return data
        x, y, weights = self._complete(missing, *data)
        images = self._images(x)
        y, weights = self._targets(images, y, None, weights)
        return self._sequence(images, y, weights, batch_size)

    def _batches(self, images, y, weights, batch_size, seed, **options):
        return ImageBatches(
            images,
            y,
            weights,
            batch_size,
            seed,
            read=self._read if isinstance(images, list) else None,
            channels_first=not self._channels_last(),
            **options,
        )

    @contextlib.contextmanager
    def _reading(self, data):
        """Raises the error of a file as it was, and leaves the model as it was."""
        with data.reader.original_errors(), kernels.keep_variables(self):
            yield

    def _sequence(self, images, y, weights, batch_size):
        read = self._read if isinstance(images, list) else None
        return ImageSequence(images, y, weights, batch_size, read)


def _is_array(x):
    return as_array(x) is not None
