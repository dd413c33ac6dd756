"""The Vision Transformer: weights, training, saving, image sizes, attention maps."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import tracing
from kerasseq.models import ViT, architectures, count
from kerasseq.tracing import plots

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

ROWS = [name for name, row in architectures.items() if row.kind == "vision"]
SIZES = {
    "image_size": (6, 10),
    "patch_size": 2,
    "channels": 1,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 12,
    "intermediate_dim": 17,
}
CLASSES, N = 5, 3
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 6, 10, 1), "uint8")
OTHER = RNG.integers(0, 256, (7, 4, 14, 1), "uint8")


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def made(**options):
    """A model whose weights are all random, biases and token too."""
    keras.utils.set_random_seed(3)
    model = ViT(CLASSES, **{**SIZES, **options})
    rng = np.random.default_rng(1)
    model.set_weights([w + rng.normal(0, 0.3, w.shape) for w in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def model():
    return made()


@pytest.fixture(scope="module")
def by_mean():
    return made(pooling="mean", num_layers=1, activation="softmax")


@pytest.mark.parametrize("name", ROWS)
def test_weights_of_architectures(name):
    row = architectures[name].small()
    model = ViT.from_architecture(row)
    assert model.count_params() == count(row, what="all").total
    assert model.output_shape == (None, row.classes)
    more = dataclasses.replace(row, classes=11)
    assert (
        ViT.from_architecture(row, 11).count_params() == count(more, what="all").total
    )


def test_changed_architecture():
    row = architectures["vit_base_16"].small()
    changes = {"norm": "rms", "use_bias": False, "feed_forward": "swiglu"}
    changes |= {"num_key_value_heads": 2, "channels": 1, "num_layers": 1}
    wanted = count(dataclasses.replace(row, **changes), what="all").total
    assert ViT.from_architecture(row, **changes).count_params() == wanted


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="it would take the memory"
)
def test_base_model_at_its_size(monkeypatch):
    """The weights take no memory here, which an optimizer would not allow."""
    monkeypatch.setattr(ViT, "compile", lambda self: None)
    with keras.StatelessScope():
        model = ViT.from_architecture("vit_base_16")
    assert model.count_params() == count("vit_base_16", what="all").total == 86_567_656
    assert tuple(model.patches.position_embeddings.shape) == (197, 768)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        ("bert_base", {}, "\"vision\" .* kind='encoder'"),
        ("vit_base_16", {"position": "rope"}, "position='rope'"),
        ("vit_base_16", {"pooler": True}, "pooler must be False for a ViT"),
        ("vit_base", {}, 'no architecture "vit_base"'),
        (
            "vit_base_16",
            {"labels": 1},
            "labels must be at least 2, received 1",
        ),
    ],
)
def test_architectures_that_are_not_vit(row, changes, message):
    with pytest.raises(ValueError, match=message):
        ViT.from_architecture(row, **changes)


def test_equals_its_layers(model):
    """The parts one by one, with the pixels from -1 to 1."""
    x = model.patches(IMAGES / np.float32(127.5) - 1)
    assert tuple(x.shape) == (7, 1 + 3 * 5, 12)
    for block in model.blocks:
        x = block(x)
    x = model.get_layer("final_norm")(x)[:, 0]
    wanted = numpy(model.get_layer("classes")(x))
    np.testing.assert_allclose(numpy(model(IMAGES)), wanted, atol=1e-5)


def test_mean_of_patches(by_mean):
    x = by_mean.patches(IMAGES / np.float32(127.5) - 1)
    assert x.shape[1] == 3 * 5
    x = numpy(by_mean.get_layer("final_norm")(by_mean.blocks[0](x))).mean(axis=1)
    wanted = numpy(by_mean.get_layer("classes")(x))
    found = by_mean.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_dtypes_of_images(model):
    wanted = model.predict(IMAGES, verbose=0)
    assert np.ptp(wanted, axis=0).min() > 1e-2
    fractions = IMAGES / 255
    for images in (
        IMAGES.astype("int64"),
        IMAGES.astype("uint16"),
        fractions,
        fractions.astype("float32")[..., 0],
        IMAGES.tolist(),
        keras.ops.convert_to_tensor(IMAGES),
    ):
        found = model.predict(images, verbose=0)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    for images in (IMAGES, fractions.astype("float32")):
        np.testing.assert_allclose(numpy(model(images)), wanted, atol=1e-5)
    black = np.zeros((1, 6, 10), bool)
    np.testing.assert_allclose(
        model.predict(~black, verbose=0),
        model.predict(np.full((1, 6, 10), 255), verbose=0),
        atol=1e-5,
    )


def test_value_range(model):
    wide = made(value_range=(-3, 13))
    wanted = numpy(model(IMAGES))
    images = IMAGES / 255 * 16 - 3
    np.testing.assert_allclose(wide.predict(images, verbose=0), wanted, atol=1e-5)
    whole = np.round(images).astype("int32")
    np.testing.assert_allclose(
        numpy(wide(whole)), numpy(wide(whole.astype("float32"))), atol=1e-6
    )


def test_other_image_sizes_compiled(model):
    """Also sizes that are unknown when TensorFlow traces the graph."""
    for images in (IMAGES, OTHER, IMAGES[:, :2, :4], OTHER[:, :2]):
        wanted = numpy(model(images))
        found = model.predict(images, verbose=0)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert model.input_shape == (None, None, None, 1)


def test_channels_first_equals_channels_last(model):
    turned = made(data_format="channels_first")
    for images in (IMAGES, OTHER):
        np.testing.assert_allclose(
            turned.predict(images.transpose(0, 3, 1, 2), verbose=0),
            model.predict(images, verbose=0),
            atol=1e-5,
        )
        np.testing.assert_allclose(
            turned.attention_map(images.transpose(0, 3, 1, 2)),
            model.attention_map(images),
            atol=1e-5,
        )


@pytest.mark.everywhere("trained, saved, loaded")
def test_learns_and_is_saved(tmp_path):
    """Learns which side is brighter; the loaded model predicts and trains on."""
    labels = np.arange(64) % 2
    images = RNG.integers(0, 100, (64, 4, 6))
    for image, label in zip(images, labels, strict=True):
        image[:, 3 * label : 3 * label + 3] += 150
    keras.utils.set_random_seed(0)
    options = {**SIZES, "image_size": (4, 6), "num_layers": 1, "dropout": 0.1}
    model = ViT(2, **options)
    history = model.fit(
        images,
        labels.tolist(),
        batch_size=16,
        epochs=15,
        validation_data=(images[:32], labels[:32]),
        verbose=0,
    ).history
    assert history["val_accuracy"][-1] == 1.0
    assert history["loss"][-1] < 0.3 * history["loss"][0]
    wanted = model.predict(images, verbose=0)
    model.save(tmp_path / "model.keras")
    again = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(images, verbose=0), wanted, atol=1e-5)
    assert json.dumps(again.get_config()) == json.dumps(model.get_config())
    assert again.evaluate(images, labels, verbose=0)[1] == 1.0


def test_config_names_every_argument(model):
    config = model.get_config()
    assert {"labels", *SIZES, "pooling", "value_range", "data_format"} <= set(config)
    assert config["data_format"] == "channels_last"
    assert ViT.from_config(config).count_params() == model.count_params()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"patch_size": 4}, ValueError, "divide the image size 6 × 10, received 4 × 4"),
        ({"pooling": "max"}, ValueError, 'pooling="max" is not one of "token", "mean"'),
        ({"channels": 0}, ValueError, "channels must be at least 1, received 0"),
        ({"num_heads": 5}, ValueError, "num_heads must divide the hidden size 12"),
        ({"norm_placement": "top"}, ValueError, 'norm_placement="top" is not one of'),
        ({"activation": "relu"}, ValueError, 'activation="relu" is not one of None'),
        ({"value_range": 16}, TypeError, "value_range must be a pair of numbers"),
        ({"value_range": (1, 1)}, ValueError, "value_range must be increasing"),
    ],
)
def test_wrong_arguments(options, error, message):
    with pytest.raises(error, match=message):
        ViT(CLASSES, **{**SIZES, **options})


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES / 1.0, r"floats .* from 0 to 1, received values from \d+.0 to \d+.0"),
        (IMAGES / -255, "floats in images must be from 0 to 1"),
        (IMAGES.astype("int32") + 200, "integers in images must be from 0 to 255"),
        (IMAGES[:, :5], "divide the image size 5 × 10, received 2 × 2"),
        (np.zeros((7, 6, 10, 3)), r"channels=1, received shape \(7, 6, 10, 3\)"),
        (np.zeros((6, 10)), r"have shape \(batch, height, width, channels\)"),
        (np.zeros((7, 1, 6, 10)), r"np\.moveaxis\(images, -3, -1\)"),
    ],
)
def test_wrong_images(model, images, message):
    for use in (model.predict, model.attention_map, lambda x: model.fit(x, None)):
        with pytest.raises(ValueError, match=message):
            use(images)


def test_wrong_labels(model):
    for wrong in (-1, CLASSES):
        labels = np.array([0, 1, 2, wrong, 3, 4, 0])
        message = f"one of the labels 0, 1, 2, 3, 4; received {wrong}"
        with pytest.raises(ValueError, match=message):
            model.fit(IMAGES, labels)
        with pytest.raises(ValueError, match=message):
            model.evaluate(IMAGES, labels)
        with pytest.raises(ValueError, match=message):
            model.fit(IMAGES, labels.clip(0, 4), validation_data=(IMAGES, labels))
        with pytest.raises(ValueError, match="patch_size must divide"):
            model.fit(
                IMAGES, labels.clip(0, 4), validation_data=(IMAGES[:, :5], labels)
            )


def test_a_trace_has_the_weights_of_each_head(model):
    with tracing.trace(model) as inside:
        model(OTHER)
    for n in range(2):
        alpha = inside[f"block_{n}/self_attention/alignment"]
        assert alpha.shape == (7, N, 15, 15)
        np.testing.assert_allclose(alpha.sum(axis=-1), 1, atol=1e-5)
    assert inside["patch_embedding/patches"].shape == (7, 14, 12)


def test_attention_map(model):
    """The row of the class token, by layer and head, in several batches."""
    with tracing.trace(model) as inside:
        model(OTHER)
    alphas = [inside[f"block_{n}/self_attention/alignment"] for n in range(2)]
    wanted = {
        (): alphas[1].mean(axis=1)[:, 0, 1:],
        (("layer", 0),): alphas[0].mean(axis=1)[:, 0, 1:],
        (("layer", 0), ("head", 2)): alphas[0][:, 2, 0, 1:],
        (("head", 1),): alphas[1][:, 1, 0, 1:],
    }
    for options, rows in wanted.items():
        found = model.attention_map(OTHER, batch_size=3, **dict(options))
        assert found.shape == (7, 2, 7)
        rows = rows / rows.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.reshape(7, 14), rows, atol=1e-5)


def test_rollout_follows_all_layers(model, by_mean):
    with tracing.trace(model) as inside:
        model(IMAGES)
    first, second = (
        inside[f"block_{n}/self_attention/alignment"].mean(axis=1) for n in range(2)
    )
    one = np.eye(16)
    R = (second + one) / 2 @ ((first + one) / 2)
    wanted = R[:, 0, 1:] / R[:, 0, 1:].sum(axis=1, keepdims=True)
    found = model.attention_map(IMAGES, layer=None)
    np.testing.assert_allclose(found.reshape(7, 15), wanted, atol=1e-5)
    with tracing.trace(by_mean) as inside:
        by_mean(IMAGES)
    A = inside["block_0/self_attention/alignment"].mean(axis=1)
    found = by_mean.attention_map(IMAGES).reshape(7, 15)
    np.testing.assert_allclose(found, A.mean(axis=1), atol=1e-5)


def test_rollout_of_a_chain():
    """Each layer passes half of each token on to the right."""
    left = np.eye(4, k=-1)
    left[0, 0] = 1
    R = tracing.attention_rollout([left[None, None]] * 3)
    np.testing.assert_allclose(R[0, 3], [1 / 8, 3 / 8, 3 / 8, 1 / 8])
    np.testing.assert_allclose(R.sum(axis=-1), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, "layer must be from -2 to 1 or None, received 2"),
        ({"layer": -3}, "received -3"),
        ({"head": 3}, "head must be from 0 to 2, .* received 3"),
        ({"layer": None, "head": 0}, "as it must be with layer=None, received 0"),
    ],
)
def test_wrong_arguments_of_attention_map(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.attention_map(IMAGES, **options)


def test_attention_map_plot():
    pytest.importorskip("matplotlib")
    maps = np.arange(12.0).reshape(2, 2, 3) / 66
    figure = plots.plot_patches(IMAGES[:2, :, :9], maps, ["a", "b"], "title")
    left, right, _, other = figure.axes
    assert (left.get_title(), right.get_title()) == ("a", "")
    under, over = right.images
    np.testing.assert_array_equal(under.get_array(), IMAGES[0, :, :9, 0])
    np.testing.assert_allclose(over.get_array(), maps[0])
    assert tuple(over.get_extent()) == (-0.5, 8.5, 5.5, -0.5)
    assert over.norm.vmax == pytest.approx(maps[0].max())
    assert [t.get_text() for t in other.texts] == ["9", "11", "12", "14", "15", "17"]
    # Pixels 0 to 2 are patch 0, of which the middle is 1.
    assert [t.get_position() for t in right.texts[:2]] == [(1, 1), (4, 1)]
    colors = RNG.normal(size=(6, 9, 3))
    shown = plots.plot_patches(colors, maps[0]).axes[0].images[0].get_array()
    assert (shown.min(), shown.max()) == (0, 1)
    assert not plots.plot_patches(np.eye(18), np.eye(9)).axes[1].texts  # too many
    with pytest.raises(ValueError, match=r"shape \(2, 2, 3\) for images of shape"):
        plots.plot_patches(IMAGES, maps)
    with pytest.raises(
        ValueError, match="titles must have one entry for each of 2 images"
    ):
        plots.plot_patches(IMAGES[:2], maps, ["a"])
