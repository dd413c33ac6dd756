"""Classifier and tagger with every architecture, by name or as a layer."""

import io

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.layers import GRU, LSTM, StackedRNN
from kerasseq.models import SequenceClassifier, SequenceTagger
from kerasseq.tasks.architectures import RECURRENT
from kerasseq.tasks.sequence_layers import LastStep

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, V, D, C, H = 2, 7, 11, 5, 3, 4
rng = np.random.default_rng(0)
ids = rng.integers(1, V, (B, T)).astype("int32")
vectors = rng.normal(size=(B, T, D)).astype("float32")


def array(value):
    return keras.ops.convert_to_numpy(value)


@pytest.mark.parametrize("name", RECURRENT)
def test_every_name(name):
    classifier = SequenceClassifier(
        name, C, vocabulary_size=V, units=H, bidirectional=True, activation="softmax"
    )
    tagger = SequenceTagger(name, C, features=D, units=H, num_layers=2)
    assert tagger.output_shape == (None, None, C)
    p = array(classifier(ids))
    assert p.shape == (B, C)
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-5)
    names = [layer.name for layer in tagger.layers]
    assert [f"{name}_1", f"{name}_2"] == names[1:3]
    out = io.StringIO()
    classifier.summary(line_length=150, print_fn=lambda line, **_: out.write(line))
    assert f"bidirectional_{name}" in out.getvalue()


LAYERS = {
    "ours": lambda: GRU(H),
    "all outputs": lambda: LSTM(H, return_sequences=True, return_state=True),
    "both directions": lambda: keras.layers.Bidirectional(
        GRU(H, return_sequences=True)
    ),
    "of Keras": lambda: keras.layers.GRU(H, return_sequences=True),
    "stacked": lambda: StackedRNN(
        [kerasseq.layers.GRUCell(H), kerasseq.layers.LSTMCell(2)], return_sequences=True
    ),
    "convolution": lambda: keras.layers.Conv1D(H, 3, padding="causal"),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_any_layer(kind, tmp_path):
    classifier = SequenceClassifier(LAYERS[kind](), C, features=D)
    y = array(classifier(vectors))
    assert y.shape == (B, C)
    classifier.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(vectors)), y)
    if kind == "ours":
        with pytest.raises(ValueError, match="build it with return_sequences=True"):
            SequenceTagger(LAYERS[kind](), C, features=D)
    else:
        tagger = SequenceTagger(LAYERS[kind](), C, features=D)
        assert tagger.output_shape == (None, None, C)


@pytest.mark.everywhere("lengths unknown while compiling")
def test_last_step_with_dynamic_length():
    inputs = [keras.Input((None, D)), keras.Input((None,), dtype="bool")]
    model = keras.Model(inputs, LastStep()(inputs[0], mask=inputs[1]))
    model.compile(jit_compile=False)
    for time in (T, T + 2):
        x = np.random.default_rng(time).normal(size=(2, time, D)).astype("float32")
        real = np.arange(time) < np.array([[time], [time - 2]])
        y = model.predict([x, real], verbose=0)
        np.testing.assert_array_equal(y, [x[0, -1], x[1, -3]])


@pytest.mark.everywhere("trained, saved, loaded; masks", cases=1)
@pytest.mark.parametrize("architecture", ["lstm", LAYERS["all outputs"]()])
def test_padded_equals_unpadded(architecture):
    model = SequenceClassifier(architecture, C, vocabulary_size=V, units=H)
    y = array(model(ids))
    zeros = np.zeros((B, 4), "int32")
    np.testing.assert_allclose(array(model(np.hstack([ids, zeros]))), y, atol=1e-6)
    np.testing.assert_allclose(array(model(np.hstack([zeros, ids]))), y, atol=1e-6)
    rows = model.predict([ids[0].tolist(), ids[1, :3].tolist()], verbose=0)
    np.testing.assert_allclose(rows[0], y[0], atol=1e-5)
    np.testing.assert_allclose(rows[1], array(model(ids[1:, :3]))[0], atol=1e-5)


def test_mask_value():
    model = SequenceClassifier("gru", C, features=D, units=H, mask_value=-1.0)
    padded = np.concatenate([vectors, np.full((B, 2, D), -1, "float32")], axis=1)
    np.testing.assert_allclose(array(model(padded)), array(model(vectors)), atol=1e-6)


def test_tagger_loss_and_accuracy_ignore_padding():
    model = SequenceTagger("gru", C, vocabulary_size=V, units=H)
    padded = np.hstack([ids, np.zeros((B, 1), "int32")])
    labels = rng.integers(0, C, (B, T))
    logits = array(model(padded))[:, :T].astype("float64")
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = -np.take_along_axis(log_p, labels[..., None], axis=-1).mean()
    for wrong in (0, C - 1):  # labels of padding
        y = np.hstack([labels, np.full((B, 1), wrong)])
        loss, accuracy = model.evaluate(padded, y, verbose=0)
        assert loss == pytest.approx(expected, rel=1e-4)
        assert accuracy == pytest.approx(np.mean(logits.argmax(axis=-1) == labels))


def test_classifier_learns_and_is_saved_with_its_optimizer(tmp_path):
    keras.utils.set_random_seed(0)
    x = rng.integers(1, V, (64, T))
    y = (x[:, 0] > V // 2).astype("int32")  # must be carried to the last step
    model = SequenceClassifier("gru", 2, vocabulary_size=V, units=16)
    model.compile(keras.optimizers.Adam(0.02, global_clipnorm=0.5))
    model.fit(x, y, epochs=15, verbose=0, validation_data=(x.tolist(), y.tolist()))
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy > 0.95

    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx([loss, accuracy], rel=1e-4)
    assert len(loaded.optimizer.variables) == len(model.optimizer.variables)
    pairs = zip(loaded.optimizer.variables, model.optimizer.variables, strict=True)
    for restored, original in pairs:
        np.testing.assert_array_equal(array(restored), array(original))


def test_defaults_of_compile(tmp_path):
    model = SequenceClassifier("gru", C, features=D, units=H)
    assert model.optimizer.global_clipnorm == 1.0
    assert model.jit_compile is (keras.backend.backend() != "torch")
    mean_error = keras.losses.MeanAbsoluteError()
    model.compile("sgd", mean_error, ["mse"], run_eagerly=True)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.optimizer, keras.optimizers.SGD)
    assert isinstance(loaded.loss, keras.losses.MeanAbsoluteError)
    assert (loaded.run_eagerly, loaded.jit_compile) == (True, False)
    copy = SequenceClassifier.from_config(model.get_config())
    assert [w.shape for w in copy.weights] == [w.shape for w in model.weights]


def test_submodels():
    model = SequenceTagger("lstm", C, vocabulary_size=V, units=H)
    embedding = keras.Model(model.input, model.layers[1].output)
    assert array(embedding(ids)).shape == (B, T, H)
    before_labels = keras.Model(model.input, model.get_layer("lstm").output)
    h = array(before_labels(ids))
    W, b = (array(w) for w in model.get_layer("output").weights)
    np.testing.assert_allclose(h @ W + b, array(model(ids)), atol=1e-5)


def test_global_mixed_precision():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = SequenceTagger("lstm", C, vocabulary_size=V, units=H)
        logits = model(ids)
        loss = model.train_on_batch(ids, np.zeros((B, T), "int32"))[0]
    finally:
        keras.config.set_dtype_policy(before)
    assert model.get_layer("lstm").compute_dtype == "bfloat16"
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert np.isfinite(float(loss))


@pytest.mark.parametrize(
    ("architecture", "arguments", "error", "message"),
    [
        ("lsmt", {}, ValueError, 'Did you mean "lstm"'),
        (7, {}, TypeError, "a name or a keras.Layer"),
        ("gru", {"units": 0}, ValueError, "units must be at least 1"),
        ("gru", {"units": 2.5}, TypeError, "units must be a whole number"),
        ("gru", {"num_layers": 0}, ValueError, "num_layers must be at least 1"),
        ("gru", {"labels": 1}, ValueError, "labels must be at least 2"),
        ("gru", {"dropout": 1.0}, ValueError, "dropout=1 would drop everything"),
        ("gru", {"activation": "tanh"}, ValueError, 'activation="tanh" is not one of'),
        (
            "gru",
            {"vocabulary_size": V},
            ValueError,
            f"received vocabulary_size={V} and features={D}",
        ),
        ("gru", {"features": None}, ValueError, 'such as tokenizer="word".* none of'),
        (
            "gru",
            {"features": None, "labels": None},  # which `fit` would learn
            ValueError,
            'for texts, such as tokenizer="word".* none of them',
        ),
        ("gru", {"features": -1}, ValueError, "features must be at least 1"),
        (
            "gru",
            {"features": None, "vocabulary_size": V, "units": 0},
            ValueError,
            "units must be at least 1",
        ),
        ("gru", {"embedding_dim": 0}, ValueError, "embedding_dim must be at least 1"),
    ],
)
@pytest.mark.parametrize("cls", [SequenceClassifier, SequenceTagger])
def test_messages(cls, architecture, arguments, error, message):
    with pytest.raises(error, match=message):
        cls(architecture, **{"labels": C, "features": D, "units": H, **arguments})


@pytest.mark.parametrize("wrong", [-1, V])
def test_ids_outside_the_vocabulary(wrong):
    model = SequenceClassifier("gru", C, vocabulary_size=V, units=H)
    for method in (model.predict, lambda x: model.fit(x, np.zeros(1))):
        with pytest.raises(ValueError, match=f"vocabulary_size=11, received {wrong}"):
            method(np.array([[1, wrong]]))
