"""The Vision Transformer: an encoder over the patches of an image."""

import dataclasses

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed, own
from kerasseq.core.serialization import register
from kerasseq.language.architectures import find
from kerasseq.transformer import norms
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.vision import pixels
from kerasseq.vision.classifier import ImageClassifier
from kerasseq.vision.patches import PatchEmbedding, checked_format

FIELDS = (  # of an architecture, which are arguments here
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
    r"""Say what an image shows.

    $$
    z_0 = [x_{\mathrm{class}};\; x^1 E;\; \dots;\; x^N E] + E_{\mathrm{pos}}, \qquad
    z_l = \mathrm{Block}_l(z_{l-1}), \qquad y = W\,\mathrm{LayerNorm}(z_L)_0 + b
    $$

    Images may be of any size that patches fill: positions are interpolated. Integers
    are taken to lie from 0 to 255, floats from 0 to 1, unless `value_range` says
    otherwise; the model brings them to -1 to 1.

    Args:
        num_classes: Number of classes; None for a model without classifier, which gives
            the vector `(B, D)` that a classifier would read.
        image_size: Side, or height and width, of the images to train on.
        patch_size: Side, or height and width, of a patch.
        channels: Of an image: 1 for grey, 3 for colors.
        num_layers: L.
        num_heads: N, of attention.
        hidden_dim: D, the width between the layers.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        dropout: Fraction dropped in training.
        pooling: What the classifier reads: "token", the class token, or "mean", the
            mean of the patches; then there is no class token.
        norm: "layer" or "rms".
        norm_placement: Of the norms: "pre", "post" or "deep".
        feed_forward: "gelu", "relu", "swiglu" …, see `FeedForward`.
        use_bias: Whether dense layers and norms have biases.
        num_key_value_heads: Heads of keys and values; N if None.
        head_dim: Width of a head; D / N if None.
        parallel: Whether attention and feed-forward network stand side by side.
        interpolation: Of positions: "bicubic" or "bilinear".
        value_range: The values of black and white, if not those above.
        data_format: Of images, as for `PatchEmbedding`.
        activation: "softmax" for probabilities; None for logits, which train the same.
        layer_norm_epsilon: Epsilon of the norms.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, or patches do not fill the images.

    Examples:
        >>> model = ViT(
        ...     10, image_size=8, patch_size=2, channels=1, num_layers=2, hidden_dim=32
        ... )
        >>> model.predict(np.zeros((3, 8, 8), "uint8"), verbose=0).shape
        (3, 10)
        >>> model.attention_map(np.zeros((3, 8, 12), "uint8")).shape
        (3, 4, 6)

    References:
        Dosovitskiy et al. 2021. Slides A, B, C.
    """

    def __init__(
        self,
        num_classes,
        *,
        image_size,
        patch_size,
        channels=3,
        num_layers=4,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=None,
        dropout=0.0,
        pooling="token",
        norm="layer",
        norm_placement="pre",
        feed_forward="gelu",
        use_bias=True,
        num_key_value_heads=None,
        head_dim=None,
        parallel=False,
        interpolation="bicubic",
        value_range=None,
        data_format=None,
        activation=None,
        layer_norm_epsilon=1e-6,
        **kwargs,
    ):
        data_format = checked_format(data_format)
        value_range = pixels.checked_range(value_range)
        arguments = own(locals())
        if num_classes is not None:
            num_classes = checks.whole_number("num_classes", num_classes, 2)
        for name in ("channels", "num_layers", "num_heads", "hidden_dim"):
            checks.whole_number(name, arguments[name])
        checks.one_of("pooling", pooling, ("token", "mean"))
        checks.one_of("activation", activation, (None, "softmax"))
        last = data_format == "channels_last"
        shape = (None, None, channels) if last else (channels, None, None)
        inputs = keras.Input(shape, name="images")
        x = pixels.rescaling(value_range)(inputs)
        patches = PatchEmbedding(
            patch_size,
            hidden_dim,
            class_token=pooling == "token",
            image_size=image_size,
            interpolation=interpolation,
            use_bias=use_bias,
            data_format=data_format,
            name="patch_embedding",
        )
        drop = keras.layers.Dropout(dropout, seed=drawn_seed(dropout), name="dropout")
        x = drop(patches(x))
        blocks = [
            TransformerEncoder(
                intermediate_dim or 4 * hidden_dim,
                num_heads,
                dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                norm=norm,
                norm_placement=norm_placement,
                feed_forward=feed_forward,
                use_bias=use_bias,
                num_key_value_heads=num_key_value_heads,
                head_dim=head_dim,
                parallel=parallel,
                depth=num_layers if norm_placement == "deep" else None,
                seed=drawn_seed(dropout),
                name=f"block_{n}",
            )
            for n in range(num_layers)
        ]
        for block in blocks:
            x = block(x)
        if norm_placement == "pre":
            options = {"epsilon": layer_norm_epsilon, "use_bias": use_bias}
            x = norms.make_norm(norm, **options, name="final_norm")(x)
        x = x[:, 0] if pooling == "token" else ops.mean(x, axis=1)
        if num_classes is not None:
            # Probabilities and losses stay in float32, whatever the layers compute in.
            x = keras.layers.Dense(
                num_classes,
                use_bias=use_bias,
                activation=activation,
                dtype="float32",
                name="classes",
            )(x)
        super().__init__(inputs, x, arguments, **kwargs)
        self.patches, self.blocks = patches, blocks

    @classmethod
    def from_architecture(cls, architecture, num_classes=None, **changes):
        """The model that a row of `models.architectures` describes.

        Args:
            architecture: A name, such as "vit_base_16", or a row, such as
                `architectures["vit_base_16"].small()`.
            num_classes: Number of classes; those of the row if None.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights.

        Raises:
            ValueError: If there is no such row, or it is of another kind of model.

        Examples:
            >>> import kerasseq
            >>> row = kerasseq.models.architectures["vit_base_16"].small()
            >>> model = ViT.from_architecture(row, num_classes=3)
            >>> model.count_params()
            16539
        """
        row = find(architecture)
        row = dataclasses.replace(row, **changes) if changes else row
        if row.kind != "vision" or row.position != "learned":
            raise ValueError(
                f"{row.title} is of kind={row.kind!r} with position={row.position!r}; "
                "ViT builds 'vision' with 'learned'"
            )
        for name in ("pooler", "embedding_norm"):
            if getattr(row, name):
                raise ValueError(
                    f"{row.title} has {name}=True, which ViT does not have"
                )
        options = {name: getattr(row, name) for name in FIELDS}
        return cls(row.classes if num_classes is None else num_classes, **options)
