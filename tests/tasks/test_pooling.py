"""Pooling of a classifier: its equation, padding, prefixes, files."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import SequenceClassifier
from kerasseq.tasks.sequence_layers import SequencePooling
from tests import layer_checks as checks
from tests.tasks.helpers import array

pytestmark = pytest.mark.once("arguments, messages and sums in NumPy")

B, T, V, C, H = 2, 7, 11, 3, 5
rng = np.random.default_rng(0)
ids = rng.integers(1, V, (B, T)).astype("int32")
h = rng.normal(size=(3, T, H)).astype("float32")


def pooled(mode, rows):
    parts = {"mean": [np.mean], "max": [np.max], "mean_max": [np.mean, np.max]}[mode]
    return np.stack([np.concatenate([f(row, axis=0) for f in parts]) for row in rows])


@pytest.mark.everywhere("masks and dtypes")
@pytest.mark.parametrize("mode", ["mean_max", "max"])
def test_layer(mode):
    """The general checks, but for those of weights and dropout."""
    layer, shape = SequencePooling(mode), (3, H * (1 + (mode == "mean_max")))
    layer.build(h.shape)
    outputs = checks.called(layer, h)
    checks.check_symbolic_shape(layer, h, shape)
    checks.check_no_rows(layer, h)
    checks.check_computed_shapes(layer, h)
    checks.check_config_names_every_argument(layer)
    checks.check_saving(layer, h, outputs)
    checks.check_mixed_precision(layer, h, outputs)
    if checks.float64_is_there():
        checks.check_float64(layer, h, outputs)
    checks.check_padding(layer, h, outputs)


@pytest.mark.everywhere("sums in half precision; rows without a step")
def test_equals_numpy():
    mask = np.array([[1] * T, [0, 0, 1, 1, 1, 0, 0], [0] * T], bool)
    rows = [h[0], h[1][mask[1]], np.zeros((1, H))]
    with_nan = np.where(mask[..., None], h, np.nan)
    for mode in ("mean", "max", "mean_max"):
        y = SequencePooling(mode)(with_nan, mask=mask)
        np.testing.assert_allclose(array(y), pooled(mode, rows), atol=1e-6)
    large = np.full((1, 131, H), 6e4, "float16")  # whose sum float16 does not have
    y = SequencePooling("mean", dtype="float16")(large)
    assert keras.backend.standardize_dtype(y.dtype) == "float16"
    np.testing.assert_allclose(array(y), large[:, 0], rtol=1e-3)


@pytest.mark.everywhere("trained, saved, loaded; masks of both directions")
def test_classifier(tmp_path):
    keras.utils.set_random_seed(0)
    options = {"vocabulary_size": V, "units": H, "bidirectional": True}
    model = SequenceClassifier("gru", C, pooling="mean_max", **options)
    rows = [ids[0].tolist(), ids[1, :3].tolist()]
    model.fit(rows, [2, 0], verbose=0)
    y = model.predict(rows, verbose=0)
    for row, expected in zip(rows, y, strict=True):  # without padding
        x = model.get_layer("embedding")(np.array([row]))
        x = array(model.get_layer("bidirectional_gru")(x))
        x = model.get_layer("output")(pooled("mean_max", x))
        np.testing.assert_allclose(array(x)[0], expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.get_config()["pooling"] == "mean_max"
    np.testing.assert_allclose(loaded.predict(rows, verbose=0), y, atol=1e-6)


def test_without_pooling_the_last_step_counts():
    model = SequenceClassifier("gru", C, vocabulary_size=V, units=H)
    config = model.get_config()
    assert config.pop("pooling") == "last" and not model.layers[2].return_sequences
    old = SequenceClassifier.from_config(config)
    assert old.get_config()["pooling"] == "last"
    assert [layer.name for layer in old.layers] == ["ids", "embedding", "gru", "output"]
    convolution = keras.layers.Conv1D(H, 3, padding="causal")
    model = SequenceClassifier(convolution, C, features=2, pooling="max")
    assert model.get_layer("pooling").mode == "max"


@pytest.mark.parametrize("architecture", ["gru", "transformer", "wavenet"])
def test_each_prefix(architecture):
    model = SequenceClassifier(
        architecture, C, vocabulary_size=V, units=6, pooling="mean_max"
    )
    steps = model.step_by_step(ids[0])
    for t in range(T):
        expected = model.probabilities(model(ids[:1, : t + 1]))
        np.testing.assert_allclose(steps.probabilities[t], expected[0], atol=1e-5)


def test_wrong_pooling():
    with pytest.raises(ValueError, match='pooling="men" is not one of.*"mean"'):
        SequenceClassifier("gru", C, features=2, pooling="men")
    layer = kerasseq.layers.GRU(H)
    with pytest.raises(ValueError, match=r'pooling="mean" and .* nothing to pool'):
        SequenceClassifier(layer, C, features=2, pooling="mean")
    assert SequenceClassifier(layer, C, features=2).get_config()["pooling"] == "last"
