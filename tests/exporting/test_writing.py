"""Files of the backend that the tests run on, compared with the model."""

import json

import keras
import numpy as np
import pytest

from kerasseq import models
from kerasseq.exporting import checks, inputs, litert_file, rounding, writing
from kerasseq.exporting.formats import FORMATS, module_of
from kerasseq.text import CharacterTokenizer

pytestmark = [
    pytest.mark.once("the formats of PyTorch; the tests of TensorFlow say so"),
    pytest.mark.filterwarnings("ignore"),  # of PyTorch's tracers about themselves
]
V = 11
TEXTS, LABELS = ["ja oui", "nein", "ja ja", "no"], ["yes", "no", "yes", "no"]


def classifier(architecture="transformer", **options):
    return models.SequenceClassifier(
        architecture, 3, vocabulary_size=V, units=8, **options
    )


def written(model, folder, **options):
    return writing.write_model(model, folder, **options)


def need(*backends):
    if keras.backend.backend() not in backends:
        pytest.skip(f"the format is written on {' and '.join(backends)}")


def test_a_program_of_pytorch_takes_any_batch_and_length(tmp_path):
    need("torch")
    found = written(classifier(), tmp_path, format="torch")
    assert found["length"] is None and found["difference"] < 1e-5
    assert "torch" in found["checked_by"] and "model.pt2" in found["files"]


def test_a_recurrent_program_has_a_fixed_length(tmp_path):
    need("torch")
    model = classifier("peephole_lstm", num_layers=1)
    found = written(model, tmp_path, format="torch", length=5)
    assert found["length"] == 5 and found["difference"] < 1e-5
    assert found["notes"] == [
        "The inputs have 5 steps: end shorter ones with the id 0 of padding, and cut "
        "longer ones."
    ]


def test_onnx_with_what_stands_beside_it(tmp_path):
    need("torch")
    pytest.importorskip("onnxruntime")
    tokenizer = CharacterTokenizer().fit(TEXTS)
    model = models.SequenceClassifier(
        "gru", ["no", "yes"], tokenizer=tokenizer, units=3
    )
    found = written(
        model, tmp_path, format="onnx", length=7, quantize="int8", samples=TEXTS
    )
    assert found["difference"] < 1e-5 and found["int8"]["rows"] == len(TEXTS)
    assert found["int8"]["answers"] == len(TEXTS)
    assert found["int8"]["difference"] > 0  # from the file of float32
    assert {"model.onnx", "model.int8.onnx", "tokenizer.json"} < found["files"].keys()
    assert json.loads((tmp_path / "labels.json").read_text()) == ["no", "yes"]
    content = json.loads((tmp_path / "preprocessing.json").read_text())
    assert content["padding_id"] == tokenizer.vocabulary_size
    assert content["inputs"] == [
        {"name": "ids", "shape": ["batch", "steps"], "dtype": "int32"}
    ]


@pytest.mark.everywhere("TensorFlow writes the format; the others skip it")
def test_tensorflow_writes_what_tf2onnx_does_not_know(tmp_path):
    """The exact GELU is Erfc; the loop writes before it begins, unless it is told."""
    need("tensorflow")
    pytest.importorskip("onnxruntime")
    for architecture in ("transformer", "linear_attention"):
        folder = tmp_path / architecture
        folder.mkdir()
        found = written(classifier(architecture), folder, format="onnx")
        assert found["length"] is None and found["difference"] < 1e-5


@pytest.mark.everywhere("TensorFlow writes the format; the others skip it")
def test_tensorflow_writes_a_saved_model_and_litert(tmp_path):
    need("tensorflow")
    pytest.importorskip("ai_edge_litert")
    for format, length in (("tf_saved_model", None), ("litert", 5)):
        folder = tmp_path / format
        folder.mkdir()
        found = written(classifier("gru"), folder, format=format, length=5)
        assert found["length"] == length and found["difference"] < 1e-5
        content = json.loads((folder / "preprocessing.json").read_text())
        assert content["outputs"] == ["output_0"]


def test_mixed_precision_is_exported_in_float32(tmp_path):
    need("torch")
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = classifier("bag")
    finally:
        keras.config.set_dtype_policy(policy)
    copy = writing.in_float32(model)
    assert copy is not model and copy.compute_dtype == "float32"
    assert {layer.compute_dtype for layer in copy._flatten_layers()} == {"float32"}
    for a, b in zip(model.get_weights(), copy.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    found = written(model, tmp_path, format="torch")
    assert found["difference"] < 1e-5 and "float32" in found["notes"][0]


def test_a_wrong_file_is_removed(tmp_path, monkeypatch):
    need("torch")
    module = module_of(FORMATS["torch"])
    monkeypatch.setattr(module, "check", lambda *_: 0.01)
    found = written(classifier("bag"), tmp_path, format="torch")
    assert "differ by 0.01 of the largest (free length)" in found["error"]
    assert list(tmp_path.iterdir()) == []

    def fail(*_):
        raise TypeError

    monkeypatch.setattr(module, "check", fail)
    found = written(classifier("bag"), tmp_path, format="torch")
    wanted = "the converter raised TypeError without a reason in fail of "
    assert found["error"].startswith(wanted)


def test_without_the_runtime_nothing_is_checked(tmp_path, monkeypatch):
    need("torch")
    monkeypatch.setattr(writing, "_is_installed", lambda package: False)
    found = written(classifier("bag"), tmp_path, format="torch")
    assert found["difference"] is None and found["checked_by"] is None


def test_openvino_is_compared_in_float32(tmp_path):
    need("torch")
    pytest.importorskip("openvino")
    found = written(classifier("bag"), tmp_path, format="openvino", length=5)
    assert found["difference"] < 1e-5
    assert "INFERENCE_PRECISION_HINT=f32" in found["notes"][-1]


def test_inputs_of_models():
    bert = models.BERT(vocabulary_size=V, num_layers=1, num_heads=2, hidden_dim=8)
    assert [(each.name, each.values) for each in inputs.inputs_of(bert)] == [
        ("ids", V),
        ("segments", 2),
    ]
    small = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
    vit = models.ViT(3, image_size=(8, 12), patch_size=4, channels=1, **small)
    (images,) = inputs.inputs_of(vit)
    assert images.shape == (None, 8, 12, 1) and not inputs.has_free_length(vit)
    x = inputs.examples(classifier(), 3, 7)[0]
    assert x.shape == (3, 7) and (x == 0).nonzero()[1].tolist() == [5, 6]
    (longer,) = inputs.padded(classifier(), [x], 11)
    np.testing.assert_array_equal(longer[:, :7], x)  # padding is at the end
    assert longer.shape == (3, 11) and not longer[:, 7:].any()
    np.testing.assert_array_equal(inputs.padded(classifier(), [x], 5)[0], x[:, :5])
    with pytest.raises(ValueError, match="expected a functional or a built sequential"):
        inputs.inputs_of(keras.Sequential([keras.layers.Dense(2)]))


def sequential(dtype=None):
    layers = [keras.layers.Dense(3, activation="relu"), keras.layers.Dense(2)]
    for layer in layers:
        layer.dtype_policy = dtype or "float32"
    return keras.Sequential([keras.Input((5,), name="x"), *layers])


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_models_of_keras_alone(tmp_path, dtype):
    """A sequential model of Keras has no input of its own."""
    need("torch")
    found = written(sequential(dtype), tmp_path, format="torch")
    assert found["difference"] < 1e-5
    assert len(found["notes"]) == (dtype != "float32")
    content = json.loads((tmp_path / "preprocessing.json").read_text())
    assert content["inputs"][0]["shape"] == ["batch", 5]
    assert "padding_id" not in content


def test_names_of_the_outputs_are_those_of_the_file(tmp_path):
    need("torch")
    onnxruntime = pytest.importorskip("onnxruntime")
    written(sequential(), tmp_path, format="onnx")
    content = json.loads((tmp_path / "preprocessing.json").read_text())
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    x = np.ones((3, 5), "float32")
    (y,) = session.run(content["outputs"], {content["inputs"][0]["name"]: x})
    assert y.shape == (3, 2)


def test_lengths_at_which_files_are_compared():
    """Free lengths are checked at three, a fixed one at two batch sizes."""
    model = classifier()
    assert checks.cases(model, None) == [(3, 11), (2, 17), (1, 5)]
    assert checks.cases(model, 7) == [(3, 7), (1, 7)]
    seen = []

    def run(x):
        seen.append(x[0].shape)
        wrong = 0.01 * (x[0].shape[1] == 17)
        return [y + wrong for y in inputs.outputs_of(model, x)]

    assert checks.largest_difference(model, run, None) > 1e-3
    assert seen == [(3, 11), (2, 17), (1, 5)]


def test_the_tolerance():
    assert checks.TOLERANCE == 1e-4  # as the pages say


class Rounding:
    """A format whose second file has another answer for the id 2."""

    FILES = ("a", "b")

    @staticmethod
    def quantize(model, folder, length):
        for name, size in (("a", 8), ("b", 2)):
            (folder / name).write_bytes(b"x" * size)

    @staticmethod
    def load(model, file):
        def run(x):
            y = np.zeros((*x[0].shape, 3), "float32")
            y[..., 0] = 1.0
            y[x[0] == 0] = [0.0, 1.0, 0.0]  # of padding, which does not count
            if file.name == "b":
                y[x[0] == 2] = [0.0, 0.0, 1.0]
                y[x[0] == 0] = [0.0, 0.0, 1.0]
            return [y]

        return run


def test_answers_of_8_bits_are_compared_with_those_of_float32(tmp_path):
    model = models.SequenceTagger("gru", 3, vocabulary_size=V, units=3)
    rows = [np.array([1, 2, 2], "int32"), np.array([3, 1, 4, 2, 1], "int32")]
    found = rounding.compare(model, tmp_path, Rounding, 7, rows)
    assert (found["answers"], found["changed"], found["difference"]) == (8, 3, 1.0)
    assert found["sizes"] == [8, 2] and found["file"] == "b"


def test_litert_rounds_the_weights_of_its_second_file(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        litert_file, "write", lambda *args, **options: asked.append((args[3], options))
    )
    litert_file.quantize(None, tmp_path, 5)
    assert asked == [("model.int8.tflite", {"int8": True})]


def test_differences():
    diverged = np.array([1.0, np.nan])
    with pytest.raises(ValueError, match="the model itself is not finite"):
        checks.relative_difference(diverged, np.ones(2))
    with pytest.raises(ValueError, match=r"shape \(2,\), that of the model is \(3,\)"):
        checks.relative_difference(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="an output is not finite"):
        checks.relative_difference(np.zeros(3), np.full(3, np.nan))
