"""Models before `fit` has learned their labels or tokenizer: each use says so."""

import copy

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import tracing
from kerasseq.tasks.fit_call import PROPERTIES

pytestmark = pytest.mark.everywhere("layers of PyTorch are modules, others are not")

SMALL = {"units": 3}
IMAGES = {"image_size": 4, "patch_size": 2, "num_layers": 1, "num_heads": 1}
MODELS = {
    "labels": lambda: kerasseq.models.SequenceClassifier("gru", features=2, **SMALL),
    "tokenizer": lambda: kerasseq.models.SequenceClassifier(
        "gru", ["a", "b"], tokenizer="character", **SMALL
    ),
    "labels and tokenizer": lambda: kerasseq.models.SequenceTagger(
        "elman", tokenizer="word", **SMALL
    ),
    "labels of images": lambda: kerasseq.models.ViT(hidden_dim=4, **IMAGES),
}
WORDS, TAGS = [["u", "v"], ["u"]], [["a", "b"], ["a"]]
USES = {
    "weights": lambda m, path: m.save_weights(path / "m.weights.h5"),
    "load": lambda m, path: m.load_weights(path / "m.weights.h5"),
    "get_weights": lambda m, path: m.get_weights(),
    "export": lambda m, path: m.export(path / "m"),
    "layer": lambda m, path: m.get_layer("output"),
    "count": lambda m, path: m.count_params(),
    "call": lambda m, path: m(np.zeros((2, 4, 2), "float32")),
    "train": lambda m, path: m.train_on_batch(np.zeros((2, 4, 2)), np.zeros(2)),
    "predict": lambda m, path: m.predict(np.zeros((2, 4, 4, 3)), verbose=0),
    "clone": lambda m, path: keras.models.clone_model(m),
    "trace": lambda m, path: tracing.trace(m).__enter__(),
    "flow": lambda m, path: tracing.gradient_flow(m, np.zeros((2, 4, 2)), np.zeros(2)),
    "report": lambda m, path: m.report(["a"], ["b"]),
}
USES |= {name: lambda m, _, name=name: getattr(m, name) for name in PROPERTIES[1:]}


@pytest.fixture(scope="module", autouse=True)
def _built():
    """Keras makes a class functional with the first graph: the harder case."""
    kerasseq.models.SequenceClassifier("gru", 2, features=2, **SMALL)
    kerasseq.models.SequenceTagger("gru", 2, features=2, **SMALL)
    kerasseq.models.ViT(2, hidden_dim=4, **IMAGES)


@pytest.mark.parametrize("missing", MODELS)
def test_each_use_names_what_fit_learns(missing, tmp_path):
    model, expected = MODELS[missing](), missing.removesuffix(" of images")
    for name, use in USES.items():
        with pytest.raises(ValueError) as caught:
            use(model, tmp_path)
        text = str(caught.value)
        assert f"has not learned its {expected}. Call fit first" in text or (
            expected == "labels and tokenizer" and "has not learned its labels" in text
        ), (name, text)
    assert not any(tmp_path.iterdir())
    assert repr(model)
    assert type(model).from_config(model.get_config()).awaits_fit


@pytest.mark.once("attributes of Python, and files of configurations")
@pytest.mark.parametrize("missing", MODELS)
def test_summary_layers_and_file_of_a_model_without_layers(missing, tmp_path):
    """As of a model of Keras that is not built."""
    model, lines = MODELS[missing](), []
    model.summary(print_fn=lambda text, **_: lines.append(text))
    assert "Total params: 0" in "\n".join(lines)
    learned = missing.removesuffix(" of images")
    assert f"has not learned its {learned}. Call fit first" in lines[-1]
    assert model.layers == []
    model.compile(keras.optimizers.SGD(0.25), metrics=["accuracy"])
    with pytest.warns(UserWarning, match="has not yet been built"):
        model.save(tmp_path / "m.keras")
    if missing.startswith("labels of"):
        x, y = np.zeros((2, 4, 4, 3), "uint8"), ["a", "b"]
    elif missing == "labels":
        x, y = np.zeros((2, 4, 2), "float32"), ["a", "b"]
    else:
        x, y = (["u v", "u"], ["a", "b"]) if missing == "tokenizer" else (WORDS, TAGS)
    weights, copied = [], copy.deepcopy(model)
    for each in (model, copied, kerasseq.load_model(tmp_path / "m.keras")):
        assert each.awaits_fit and each.layers == []
        keras.utils.set_random_seed(3)
        each.fit(x, y, verbose=0)
        assert float(each.optimizer.learning_rate) == 0.25 and each.layers
        weights.append(each.get_weights())
    for first, *others in zip(*weights, strict=True):
        for other in others:
            np.testing.assert_array_equal(first, other)


@pytest.mark.once("attributes of Python")
@pytest.mark.parametrize("kind", ["classifier", "BERT"])
def test_a_frozen_model_stays_frozen(kind):
    texts, labels = ["ja", "nein"], ["yes", "no"]
    if kind == "classifier":
        model = kerasseq.models.SequenceClassifier(
            "gru", tokenizer="character", units=3
        )
    else:
        tokenizer = kerasseq.text.WordPieceTokenizer(30).fit(" ".join(texts))
        sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}
        model = kerasseq.models.BERT(tokenizer, **sizes, head="classify")
    model.trainable = False
    with pytest.warns(UserWarning, match="trainable weights"):
        model.fit(texts, labels, verbose=0)
    assert not model.trainable and not model.trainable_weights
