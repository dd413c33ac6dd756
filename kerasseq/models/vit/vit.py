"""The Vision Transformer: an encoder over the patches of an image."""

from collections.abc import Sequence
from typing import Any, Self

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.dense import Dense
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Config, Tensor
from kerasseq.datasets.image_reading import RESIZE
from kerasseq.models.arguments import among, check_memory, checked_arguments
from kerasseq.models.vit import pixels, sizes
from kerasseq.models.vit.classifier import ImageClassifier
from kerasseq.models.vit.patches import PatchEmbedding, check_data_format
from kerasseq.published.architectures import Architecture, find
from kerasseq.tasks.labels import Label, Labels
from kerasseq.transformer import norms
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.global_tokens import (
    GlobalTokens,
    check_attention,
    given,
    most,
)
from kerasseq.transformer.residual import NORM_PLACEMENTS

FIELDS = (  # of an architecture that are arguments of ViT
    "image_size",
    "patch_size",
    "channels",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "norm",
    "norm_placement",
    "feed_forward",
    "use_bias",
    "num_key_value_heads",
    "head_dim",
    "parallel",
)


@register
class ViT(ImageClassifier):
    r"""Vision Transformer for image classification.

    $$
    z_0 = [x_{\mathrm{class}};\; x^1 E;\; \dots;\; x^N E] + E_{\mathrm{pos}}, \qquad
    z_l = \mathrm{Block}_l(z_{l-1}), \qquad y = W\,\mathrm{LayerNorm}(z_L)_0 + b
    $$

    Images may have any size that the patch size divides: positions are interpolated.
    Integers are expected from 0 to 255 and floats from 0 to 1, unless `value_range` is
    given; the model scales both to -1 to 1.

    `fit` and `predict` read an array of images `(B, H, W, C)`, with one channel also
    `(B, H, W)`; images of pillow, also of a Hugging Face data set; paths of files, or
    of a folder with a subfolder for each class, whose fractions for validation are of
    each class. Files are read batch by batch; they are never in memory together.

    Args:
        labels: The names of the classes; their number, for labels from 0 on; or None:
            `fit` learns the names.
        image_size: Side, or height and width, of the training images. Files of other
            sizes are resized to it.
        patch_size: Side, or height and width, of a patch.
        channels: Number of channels: 1 for gray, 3 for color.
        num_layers: L.
        num_heads: N, number of attention heads.
        hidden_dim: D, the width of the residual stream.
        intermediate_dim: Width of the hidden layer of the feed-forward networks; 4 D if
            None.
        dropout: Fraction to drop in training.
        pooling: Input of the classifier: "token", the class token, or "mean", the mean
            of the patches, without a class token.
        norm: "layer" or "rms".
        norm_placement: Where the norms are: "pre", "post" or "deep".
        feed_forward: "gelu", "relu", "swiglu" …, see `TransformerEncoder`.
        use_bias: Whether dense layers and norms have biases.
        num_key_value_heads: Number of key-value heads; N if None.
        head_dim: Width of a head; D / N if None.
        parallel: Whether attention and feed-forward network have the same input, in
            parallel.
        interpolation: Interpolation of the positions: "bicubic" or "bilinear".
        value_range: The values of black and white, if not those above.
        data_format: As for `PatchEmbedding`.
        activation: "softmax" for probabilities, "sigmoid" with `multi_label`; None for
            logits, which train equally.
        layer_norm_epsilon: ε of the norms.
        resize: How files of another aspect ratio are resized: "crop", "pad" or
            "stretch", see `kerasseq.datasets.read_image`.
        multi_label: Whether an image may have several labels, or none. Labels are lists
            then, or arrays of 0 and 1.
        include_top: Whether the model has a classifier. If not, its output is the
            pooled vector `(B, D)`.
        attention: "multi_head", "blockwise", "longformer", "reformer", "linformer" or
            "adaptive_span", which read patches in rows, of up to as many as
            `image_size` has.
        sliding_window: A patch attends to patches at a distance below this only; 256
            of "longformer" if None.
        global_tokens: Of "longformer": "first", the class token, or None.
        **kwargs: `name` and `trainable`.

    Call arguments:
        global_mask: Boolean `(B, T)`, the global tokens of this call in place of
            `global_tokens`: the class token, then the patches row by row.

    Raises:
        ValueError: If a name or number is wrong, or the patch size does not divide the
            image size.

    Examples:
        >>> model = ViT(
        ...     10, image_size=8, patch_size=2, channels=1, num_layers=2, hidden_dim=32
        ... )
        >>> model.predict(np.zeros((3, 8, 8), "uint8"), verbose=0).shape
        (3, 10)
        >>> model.attention_map(np.zeros((3, 8, 12), "uint8")).shape
        (3, 4, 6)
        >>> import tempfile
        >>> from kerasseq.datasets import digits_folder
        >>> model = ViT(image_size=8, patch_size=4, channels=1, hidden_dim=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     digits = digits_folder(f"{folder}/digits", count=20)
        ...     history = model.fit(digits, epochs=1, verbose=0)
        ...     one = model.classify(digits / "3" / "0003.png")
        >>> model.labels[:3], one.label in model.labels
        (['0', '1', '2'], True)

    References:
        Dosovitskiy et al. 2021. Slides A, B, C.
    """

    @checked_arguments(
        pooling=among("token", "mean"),
        norm_placement=among(*NORM_PLACEMENTS),
        resize=among(*RESIZE),
        sliding_window=None,
    )
    def __init__(
        self,
        labels: int | Sequence[Label] | None = None,
        *,
        image_size: int | tuple[int, int],
        patch_size: int | tuple[int, int],
        channels: int = 3,
        num_layers: int = 4,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        dropout: float = 0.0,
        pooling: str = "token",
        norm: str | keras.Layer = "layer",
        norm_placement: str = "pre",
        feed_forward: str = "gelu",
        use_bias: bool = True,
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        parallel: bool = False,
        interpolation: str = "bicubic",
        value_range: tuple[float, float] | None = None,
        data_format: str | None = None,
        activation: str | None = None,
        layer_norm_epsilon: float = 1e-6,
        resize: str = "crop",
        multi_label: bool = False,
        include_top: bool = True,
        attention: str = "multi_head",
        sliding_window: int | None = None,
        global_tokens: str | None = None,
        **kwargs: Any,
    ) -> None:
        sides = sizes.pair("image_size", image_size)
        sizes.grid(sides, sizes.pair("patch_size", patch_size))
        function = "sigmoid" if multi_label else "softmax"
        config = self._arguments | {
            "value_range": pixels.check_range(value_range),
            "data_format": check_data_format(data_format),
            "activation": checks.one_of("activation", activation, (None, function)),
            **check_attention(attention, sliding_window, global_tokens, None),
        }
        if global_tokens is not None and pooling != "token":
            raise ValueError(
                'global_tokens="first" needs the class token of pooling="token", '
                f'received pooling="{pooling}". Leave it out'
            )
        config["labels"] = _checked_labels(labels, include_top, hidden_dim)
        check_memory(config)
        super().__init__(config, **kwargs)

    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        mask: Any = None,
        global_mask: Tensor | None = None,
    ) -> Any:
        with given(self, global_mask):
            return super().call(inputs, training=training, mask=mask)

    def layers_of(
        self, arguments: Config, labels: Labels | None
    ) -> tuple[
        keras.KerasTensor,
        keras.KerasTensor,
        tuple[PatchEmbedding, list[TransformerEncoder]],
    ]:
        a, C = arguments, arguments["channels"]
        last = a["data_format"] == "channels_last"
        inputs = keras.Input(
            (None, None, C) if last else (C, None, None), name="images"
        )
        x = pixels.rescaling(a["value_range"])(inputs)
        same = ("image_size", "interpolation", "use_bias", "data_format")
        patches = PatchEmbedding(
            a["patch_size"],
            a["hidden_dim"],
            class_token=a["pooling"] == "token",
            name="patch_embedding",
            **{name: a[name] for name in same},
        )
        seed = drawn_seed(a["dropout"])
        drop = keras.layers.Dropout(a["dropout"], seed=seed, name="dropout")
        x = drop(patches(x))
        blocks = [_block(a, n) for n in range(a["num_layers"])]
        chosen = {}
        if a["global_tokens"] is not None:
            real = ops.ones_like(x[..., 0], dtype="bool")
            global_mask = GlobalTokens(a["global_tokens"], name="global_tokens")(real)
            chosen["global_mask"] = global_mask
        for block in blocks:
            x = block(x, **chosen)
        if a["norm_placement"] == "pre":
            options = {"epsilon": a["layer_norm_epsilon"], "use_bias": a["use_bias"]}
            x = norms.make_norm(a["norm"], **options, name="final_norm")(x)
        x = x[:, 0] if a["pooling"] == "token" else ops.mean(x, axis=1)
        if labels is not None:
            # Probabilities and losses are float32 in mixed precision as well.
            x = Dense(
                labels.count,
                use_bias=a["use_bias"],
                activation=a["activation"],
                dtype=scores_dtype(),
                name="classes",
            )(x)
        return inputs, x, (patches, blocks)

    @classmethod
    def from_architecture(
        cls,
        architecture: str | Architecture,
        labels: int | Sequence[Label] | None = None,
        **changes: Any,
    ) -> Self:
        """Creates the model that a row of `models.architectures` describes.

        Args:
            architecture: A name, such as "vit_base_16", or a row, such as
                `architectures["vit_base_16"].small()`.
            labels: The names of the classes, or their number; that of the row if None.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights.

        Raises:
            ValueError: If there is no such row, or it is of another kind of model.

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["vit_base_16"].small()
            >>> model = ViT.from_architecture(row, labels=3)
            >>> model.count_params()
            16539
        """
        row = find(architecture, **changes)
        if row.kind != "vision" or row.position != "learned":
            raise ValueError(
                'architecture must be of kind "vision" with position "learned", '
                f"received {row.title} of kind={row.kind!r} with "
                f"position={row.position!r}. Choose another row"
            )
        for name in ("pooler", "embedding_norm"):
            if getattr(row, name):
                raise ValueError(
                    f"{name} must be False for a ViT, received {row.title} with "
                    f"{name}=True. Choose another row"
                )
        options = {name: getattr(row, name) for name in FIELDS}
        return cls(row.classes if labels is None else labels, **options)


def _block(a, n):
    """Creates block `n` of a model with the arguments `a`."""
    same = (
        *("layer_norm_epsilon", "norm", "norm_placement", "feed_forward", "use_bias"),
        *("num_key_value_heads", "head_dim", "parallel", "attention"),
        "sliding_window",
    )
    return TransformerEncoder(
        a["intermediate_dim"] or 4 * a["hidden_dim"],
        a["num_heads"],
        a["dropout"],
        depth=a["num_layers"] if a["norm_placement"] == "deep" else None,
        seed=drawn_seed(a["dropout"]),
        name=f"block_{n}",
        **{name: a[name] for name in same},
        max_length=_tokens(a),
        max_global_tokens=most(a["global_tokens"], _tokens(a)),
    )


def _tokens(a):
    """Returns how many tokens the largest training image has."""
    height, width = sizes.grid(
        sizes.pair("image_size", a["image_size"]),
        sizes.pair("patch_size", a["patch_size"]),
    )
    return height * width + (a["pooling"] == "token")


def _checked_labels(labels, include_top, hidden_dim):
    """Returns the number of labels or their names as a list; None without labels."""
    if labels is None:
        return None
    if not include_top:
        raise ValueError(
            "labels must be None with include_top=False, that is, without classifier, "
            f"received {checks.short(labels)}"
        )
    if not hasattr(labels, "__len__"):
        checks.fits_memory("labels", checks.size("labels", labels), hidden_dim)
    checked = Labels(labels)
    return checked.count if checked.are_indices else checked.names
