"""The Vision Transformer has KerasHub's weights and results."""

import warnings

import keras
import numpy as np
import pytest

from kerasseq.models import ViT

pytestmark = pytest.mark.full("KerasHub's layers are compositions, as ours are")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras_hub = pytest.importorskip("keras_hub")

H, W, C, P, D = 6, 10, 3, 2, 12


@pytest.mark.parametrize("class_token", [True, False])
def test_same_numbers_with_the_same_weights(class_token):
    ours = ViT(
        5,
        image_size=(H, W),
        patch_size=P,
        num_layers=2,
        num_heads=3,
        hidden_dim=D,
        intermediate_dim=17,
        pooling="token" if class_token else "mean",
        value_range=(-1, 1),
    )
    theirs = keras_hub.models.ViTBackbone(
        image_shape=(H, W, C),
        patch_size=P,
        num_layers=2,
        num_heads=3,
        hidden_dim=D,
        mlp_dim=17,
        use_class_token=class_token,
    )
    rng = np.random.default_rng(0)
    theirs.set_weights([rng.normal(0, 0.3, w.shape) for w in theirs.get_weights()])
    take_over(ours, theirs)
    images = rng.uniform(-1, 1, (7, H, W, C)).astype("float32")
    wanted = keras.ops.convert_to_numpy(theirs(images))
    inside = keras.Model(ours.input, ours.get_layer("final_norm").output)
    found = keras.ops.convert_to_numpy(inside(images))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    pooled = wanted[:, 0] if class_token else wanted.mean(axis=1)
    classes = keras.ops.convert_to_numpy(ours.get_layer("classes")(pooled))
    np.testing.assert_allclose(ours.predict(images, verbose=0), classes, atol=1e-5)


def take_over(ours, theirs):
    """Copies KerasHub's weights into our layers, which have other names."""
    embedding = theirs.get_layer("vit_patching_and_embedding")
    encoder = theirs.get_layer("vit_encoder")
    patches = ours.patches
    # The kernel is that of a convolution, (height, width, channels, D), as ours is.
    patches.kernel.assign(embedding.patch_embedding.kernel)
    patches.bias.assign(embedding.patch_embedding.bias)
    patches.position_embeddings.assign(embedding.position_embedding.embeddings)
    if patches.class_token:
        patches.token.assign(embedding.class_token[0])
    for mine, other in zip(ours.blocks, encoder.encoder_layers, strict=True):
        for to, of in (
            (mine._self_attention_layer_norm, other.layer_norm_1),
            (mine._self_attention_layer, other.mha),
            (mine._feedforward_layer_norm, other.layer_norm_2),
            (mine._feedforward_intermediate_dense, other.mlp.dense_1),
            (mine._feedforward_output_dense, other.mlp.dense_2),
        ):
            to.set_weights(of.get_weights())
    ours.get_layer("final_norm").set_weights(encoder.layer_norm.get_weights())
