"""Pictures as grids of ids, and back: an autoencoder around a vector quantizer."""

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.dense import Dense
from kerasseq.core.ids import check_ids
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Config, Tensor
from kerasseq.datasets.image_reading import RESIZE
from kerasseq.models.arguments import among, checked_arguments
from kerasseq.models.picture_tokenizer.grid import FromPatches, PixelLoss, ToPatches
from kerasseq.models.picture_tokenizer.rows import PictureHead, PicturePreprocessor
from kerasseq.models.picture_tokenizer.vector_quantizer import VectorQuantizer
from kerasseq.models.vit import inputs, pixels, sizes
from kerasseq.models.vit.preprocessor import ImageRows, reading, trained
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.fit_call import FitCall
from kerasseq.tasks.input_rows import check_not_empty, outputs_of_none
from kerasseq.tasks.labeled_data import learned_rows
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.tracing.listeners import pause
from kerasseq.training.batches import KerasData
from kerasseq.training.code_perplexity import CodePerplexity
from kerasseq.training.label_batches import Rows


@register
class PictureTokenizer(LabeledModel):
    r"""Learns to write pictures as grids of ids, and to draw them again.

    $$
    z = W_2\, \mathrm{GELU}(W_1 x), \qquad k = \arg\min_j \|z - e_j\|^2, \qquad
    \hat x = V_2\, \mathrm{GELU}(V_1 e_k), \qquad
    L = \mathrm{mean}\, (x - \hat x)^2 + \beta\, \mathrm{mean}\, (z - e_k)^2
    $$

    for each patch x by itself, with pixels from -1 to 1. So the same patch has the same
    id wherever it is, and a picture of any size that the patch size divides can be
    read. The codes e move as the averages of the z that choose them, and those that are
    rarely chosen are replaced, see `layers.VectorQuantizer`.

    `fit(x)` needs no labels. x are arrays `(rows, H, W, C)`, integers from 0 to 255 or
    floats from 0 to 1; files, a folder, or images of pillow, which are resized; or an
    object with the attribute `images`. The logs have the perplexity of the ids, the
    effective number of codes that pictures use: few, where most patches are background.

    Args:
        image_size: Side, or height and width, to which files are resized.
        patch_size: Side, or height and width, of a patch.
        channels: Number of channels: 1 for gray, 3 for color.
        num_codes: K, the number of ids.
        hidden_dim: Width of the hidden layers of encoder and decoder.
        code_dim: D, the width of the codes.
        commitment: $\beta$.
        decay: As for `VectorQuantizer`.
        threshold: As for `VectorQuantizer`.
        resize: How files of another aspect ratio are resized: "crop", "pad" or
            "stretch", see `kerasseq.datasets.read_image`.
        seed: Seed of the first codes, and of the draws of new ones.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: `(B, H, W, C)`.

    Returns:
        A list of the rebuilt pictures `(B, H, W, C)`, with pixels from 0 to 1, and of
        their ids, int32 `(B, H / P, W / P)`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or the patch size does not divide
            the image size.

    Examples:
        >>> images = np.random.default_rng(0).integers(0, 256, (4, 6, 9, 3), "uint8")
        >>> model = PictureTokenizer((6, 9), 3, num_codes=7, hidden_dim=8)
        >>> history = model.fit(images, verbose=0)
        >>> ids = model.encode(images)
        >>> ids.shape, model.decode(ids).shape
        ((4, 2, 3), (4, 6, 9, 3))
        >>> bool(np.allclose(model.decode(ids), model.predict(images, verbose=0)))
        True

    References:
        van den Oord, Vinyals and Kavukcuoglu, "Neural Discrete Representation
        Learning", 2017; Ramesh et al., "Zero-Shot Text-to-Image Generation", 2021.
        Slides A.
    """

    task: PictureHead
    preprocessor: PicturePreprocessor
    fit_options: tuple[str, ...] = ("missing", "shift", "flip")

    @checked_arguments(resize=among(*RESIZE))
    def __init__(
        self,
        image_size: int | tuple[int, int],
        patch_size: int | tuple[int, int],
        *,
        channels: int = 3,
        num_codes: int = 256,
        hidden_dim: int = 64,
        code_dim: int = 16,
        commitment: float = 0.25,
        decay: float = 0.97,
        threshold: float = 0.02,
        resize: str = "crop",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        size = sizes.pair("image_size", image_size)
        patch = sizes.pair("patch_size", patch_size)
        sizes.grid(size, patch)
        widest = max(patch[0] * patch[1] * channels, code_dim)
        checks.fits_memory("hidden_dim", hidden_dim, widest)
        self.build_layers(self._arguments, kwargs)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        a = arguments
        patch, C = sizes.pair("patch_size", a["patch_size"]), a["channels"]
        quantizer = VectorQuantizer(
            a["num_codes"],
            a["code_dim"],
            name="quantizer",
            **{name: a[name] for name in ("commitment", "decay", "threshold", "seed")},
        )
        decoder = [
            Dense(a["hidden_dim"], activation="gelu", name="decoder_hidden"),
            Dense(patch[0] * patch[1] * C, name="decoder_output"),
            FromPatches(patch, C, dtype=scores_dtype(), name="images"),
        ]
        pictures = keras.Input((None, None, C), name="pictures")
        x = ToPatches(patch, name="patches")(pixels.rescaling(None)(pictures))
        x = Dense(a["hidden_dim"], activation="gelu", name="encoder_hidden")(x)
        z = Dense(a["code_dim"], name="encoder_output")(x)
        x, ids = quantizer(z, return_ids=True)
        for layer in decoder:
            x = layer(x)
        self.task, self.preprocessor = PictureHead(), PicturePreprocessor(arguments)
        TaskModel.__init__(self, pictures, [x, ids], arguments, **options)
        self.quantizer: VectorQuantizer = quantizer
        self.decoder: list[keras.Layer] = decoder
        self.code_perplexity: CodePerplexity = CodePerplexity(a["num_codes"])

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> list[Tensor]:
        images = keras.tree.map_structure(
            lambda x: pixels.as_fractions(x, None), inputs
        )
        return super().call(images, training=training, mask=mask)

    @property
    def num_codes(self) -> int:
        """The number of ids."""
        return self.quantizer.num_codes

    @property
    def picture_arguments(self) -> Config:
        """Sizes, channels and `resize`, by the names of the arguments."""
        a = self._arguments
        size = sizes.pair("image_size", a["image_size"])
        patch = sizes.pair("patch_size", a["patch_size"])
        others = {name: a[name] for name in ("channels", "resize")}
        return {"image_size": size, "patch_size": patch, **others}

    def default_loss(self) -> keras.losses.Loss:
        return PixelLoss()

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss of a batch of pictures, whose targets they are."""
        y = pixels.as_fractions(x, None)
        return super().compute_loss(x, y, y_pred[0], sample_weight, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the metrics of pictures, with pixels from 0 to 1, and of ids."""
        self.code_perplexity.update_state(y_pred[1])
        y = pixels.as_fractions(x, None)
        return super().compute_metrics(x, y, y_pred[0], sample_weight)

    def training_data(self, call: FitCall) -> KerasData | Rows:
        return trained(super().training_data(call), call)

    def reading(self, batches: Any) -> contextlib.AbstractContextManager[Any]:
        return reading(self, batches)

    def scores_of(
        self, x: Any, *, batch_size: int | None = BATCH_SIZE, **kwargs: Any
    ) -> np.ndarray:
        """Computes what `predict` does, inside `trace` and `intervene` too."""
        images, _ = super().scores_of(x, batch_size=batch_size, **kwargs)
        return images

    def outputs_of(
        self, rows: ImageRows, *, batch_size: int | None = None, **kwargs: Any
    ) -> list[np.ndarray]:
        """Computes the outputs for rows: rebuilt pictures, and ids."""
        if not len(rows):
            return outputs_of_none(self, rows.batch())
        batches = rows.in_order(batch_size or BATCH_SIZE)
        with self.reading(batches):
            return TaskModel.scores_of(self, batches, **kwargs)

    def encode(self, images: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
        """Returns the ids of pictures.

        Args:
            images: As for `fit`; or one picture.
            batch_size: Pictures that are processed at once.

        Returns:
            int32 `(rows, H / P, W / P)`, from 0 to K - 1; of one picture `(H / P, W /
            P)`.

        Raises:
            TypeError: If they are no pictures.
            ValueError: If sizes, channels or values are wrong, as for `fit`.
        """
        is_one = self.preprocessor.is_one(images)
        x, _, _ = self.weighted_inputs(self.preprocessor.several(images), None, None)
        check_not_empty(x, "encode")
        rows = learned_rows(self, x)
        if rows is None:
            raise TypeError(
                f"images must be pictures as for fit, received {checks.short(images)}"
            )
        batches = rows.in_order(checks.whole_number("batch_size", batch_size))
        with self.reading(batches):
            encode, count = self._program("encode"), len(batches)
            arrays = (pixels.as_fractions(batches[n][0], None) for n in range(count))
            parts = [encode(array) for array in arrays]
        ids = np.concatenate(list(map(keras.ops.convert_to_numpy, parts)))
        return ids[0] if is_one else ids

    def decode(self, ids: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
        """Returns the pictures of ids.

        Args:
            ids: Integers `(rows, R, S)`, from 0 to K - 1; or `(R, S)` of one picture.
            batch_size: Pictures that are processed at once.

        Returns:
            float32 `(rows, R P, S P, C)`, pixels from 0 to 1; of one picture `(R P,
            S P, C)`.

        Raises:
            TypeError: If ids are no integers.
            ValueError: If they are no grid, or one is out of range.
        """
        ids = np.asarray(inputs.as_array(ids))
        if ids.ndim not in (2, 3) or 0 in ids.shape:
            raise ValueError(
                "ids must have shape (pictures, rows, columns), or (rows, columns) of "
                f"one picture, received shape {ids.shape}. Reshape them"
            )
        check_ids(ids, "ids", "num_codes", self.num_codes)
        several = ids.astype("int32").reshape(-1, *ids.shape[-2:])
        size = checks.whole_number("batch_size", batch_size)
        decode = self._program("decode")
        parts = [
            keras.ops.convert_to_numpy(decode(several[n : n + size]))
            for n in range(0, len(several), size)
        ]
        images = np.concatenate(parts)
        return images[0] if ids.ndim == 2 else images

    def _program(self, direction: str) -> Callable[[np.ndarray], Tensor]:
        """Compiles a function from pictures to ids, "encode", or back, "decode"."""
        programs = kernels.programs(self)

        def make():
            with pause():  # symbolic values cannot be recorded
                if direction == "encode":
                    return keras.Model([self.input], self.output[1])
                ids = keras.Input((None, None), dtype="int32", name="ids")
                x = MethodLayer(self.quantizer, "decode", casts=False)(ids)
                for layer in self.decoder:
                    x = layer(x)
                return keras.Model([ids], x)

        model = programs.get("direction", direction, make)
        if kernels.is_uncompiled():  # inside `trace` and `intervene`
            return lambda x: model([x], training=False)
        run = programs.get(
            "run", direction, lambda: kernels.inference(model, pure=programs.pure)
        )
        return lambda x: run([x])
