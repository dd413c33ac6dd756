"""Models in programs that PyTorch records: for "torch", for "onnx", and compiled."""

import importlib.util

import keras
import numpy as np
import pytest

from kerasseq import layers, models

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch only"),
    pytest.mark.filterwarnings("ignore"),  # of PyTorch's tracers about themselves
]
T, V = 7, 11
SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
IDS = {"vocabulary_size": V}
PAIR = {"source_vocabulary_size": V, "target_vocabulary_size": V}
RNG = np.random.default_rng(0)


def ids(batch, time=T):
    """Ids with padding in the first row."""
    x = RNG.integers(1, V, size=(batch, time)).astype("int32")
    x[0, -2:] = 0
    return [x]


def two(batch, time=T):
    return ids(batch, time) + ids(batch, time)


def segmented(batch, time=T):
    return ids(batch, time) + [np.zeros((batch, time), "int32")]


def vectors(batch, time=T):
    return [RNG.normal(size=(batch, time, 5)).astype("float32")]


def series(batch, time=T):
    return [RNG.normal(size=(batch, time, 1)).astype("float32")]


def images(batch):
    return [RNG.random((batch, 8, 8, 1)).astype("float32")]


def features(batch, time=T):
    """A value and a column that is known in advance."""
    return [RNG.normal(size=(batch, time, 2)).astype("float32")]


def forecaster(architecture, **options):
    def build():
        model = models.Forecaster(architecture, units=8, horizon=2, **options)
        model.get_layer("baseline").set(2)
        return model

    return build


def gpt(**options):
    return lambda: models.GPT(**IDS, **SMALL, **options)


def single(name, **options):
    """A model of one recurrent layer."""
    x = keras.Input((None, 5))
    return lambda: keras.Model(x, getattr(layers, name)(3, **options)(x))


LLAMA = {"norm": "rms", "feed_forward": "swiglu", "position": "rope"}
MODELS = {
    "GPT": (gpt(), ids),
    "BERT": (
        lambda: models.BERT(**IDS, **SMALL).with_head("classify", labels=3),
        segmented,
    ),
    "ViT": (
        lambda: models.ViT(3, image_size=8, patch_size=4, channels=1, **SMALL),
        images,
    ),
    "T5": (lambda: models.T5(**IDS, **SMALL), two),
    "classifier": (lambda: models.SequenceClassifier("lstm", 3, **IDS, units=3), ids),
}
OTHERS = {
    **{f"GPT {name}": (gpt(position=name), ids) for name in ("alibi", "relative")},
    "GPT llama": (gpt(**LLAMA), ids),
    "GPT transformer_xl": (gpt(position="transformer_xl"), ids),
    "GPT window": (gpt(sliding_window=3), ids),
    "GPT deep": (gpt(norm_placement="deep", dropout=0.1), ids),
    "tagger": (
        lambda: models.SequenceTagger("gru", 3, **IDS, units=3, bidirectional=True),
        ids,
    ),
    "classifier transformer": (
        lambda: models.SequenceClassifier("transformer", 3, **IDS, units=8),
        ids,
    ),
    "tagger crf": (
        lambda: models.SequenceTagger("lstm", 3, **IDS, units=3, crf=True),
        ids,
    ),
    "Forecaster": (forecaster("lstm"), series),
    "Forecaster known": (
        forecaster("gru", known=["price"], quantiles=[0.1, 0.5, 0.9]),
        features,
    ),
    "BERT tag": (
        lambda: models.BERT(**IDS, **SMALL).with_head("tag", labels=3),
        segmented,
    ),
    "GPTTask classify": (
        lambda: models.GPT(**IDS, **SMALL).with_head("classify", labels=3),
        ids,
    ),
    "GPTTask tag": (
        lambda: models.GPT(**IDS, **SMALL).with_head("tag", labels=3),
        ids,
    ),
    "LanguageModel": (lambda: models.LanguageModel("lstm", **IDS, units=3), ids),
    "Seq2Seq": (lambda: models.Seq2Seq("gru", **PAIR, units=3), two),
    "Seq2Seq luong": (
        lambda: models.Seq2Seq(
            "lstm", **PAIR, units=3, attention="luong", input_feeding=True
        ),
        two,
    ),
    "Seq2Seq none": (
        lambda: models.Seq2Seq("lstm", **PAIR, units=3, attention=None),
        two,
    ),
    "Transformer": (lambda: models.Transformer(**PAIR, **SMALL), two),
    **{
        name: (single(name), vectors)
        for name in ("LSTM", "PeepholeLSTM", "GRU", "ElmanRNN", "GatedRNN")
    },
}


OF_ONNX = {
    # Its outputs are a dictionary, which the other checks do not take.
    "BERT pretraining": (lambda: models.BERT(**IDS, **SMALL), segmented),
    **{
        name: (
            lambda name=name: models.SequenceClassifier(name, 3, **IDS, units=8),
            ids,
        )
        for name in (
            "min_gru",
            "wavenet",
            "linear_attention",
            "gla",
            "delta_net",
            "slstm",
            "mlstm",
            "mamba",
            "rwkv4",
            "rwkv7",
        )
    },
}
TASKS = [
    "classifier", "tagger", "tagger crf", "Forecaster", "Forecaster known",
    "LanguageModel", "GPT", "GPTTask classify", "GPTTask tag", "BERT",
    "BERT pretraining", "BERT tag", "ViT", "Seq2Seq", "Transformer", "T5",
]  # fmt: skip


def arguments(model, arrays):
    """The arrays as tensors, in the structure that the model takes."""
    tensors = [keras.ops.convert_to_tensor(x) for x in arrays]
    return keras.tree.pack_sequence_as(model.input, tensors)


class Flat(torch.nn.Module):
    """A model with one argument for each input, as TorchScript needs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(keras.tree.pack_sequence_as(self.model.input, inputs))


def assert_same(program, model, inputs, batches=(2, 3, 1)):
    for batch in batches:
        x = arguments(model, inputs(batch))
        with torch.no_grad():
            np.testing.assert_allclose(program(x), model(x), atol=1e-5)


def check_exported(case):
    build, inputs = case
    model = build()
    x = arguments(model, inputs(2))
    batch = torch.export.Dim("batch")
    shapes = keras.tree.map_structure(lambda _: {0: batch}, x)
    program = torch.export.export(model, (x,), dynamic_shapes=[(shapes,)])
    assert_same(program.module(), model, inputs)


def check_traced(case):
    """Records a program as `export` does for the format "onnx"."""
    build, inputs = case
    model = build()

    x = tuple(keras.tree.flatten(arguments(model, inputs(1))))
    program = torch.jit.trace(Flat(model), x, check_trace=False)
    assert_same(lambda x: program(*keras.tree.flatten(x)), model, inputs)


def check_onnx(case, file):
    """Exports a model, as far as the packages are installed.

    The package onnx is needed after all operations have been converted.
    """
    build, inputs = case
    model = build()
    x = arguments(model, inputs(2, **({} if inputs is images else {"time": 4})))
    model(x)
    signature = [
        keras.tree.map_structure(
            lambda x: keras.InputSpec(
                shape=(None, *x.shape[1:]),
                dtype=keras.backend.standardize_dtype(x.dtype),
            ),
            x,
        )
    ]
    options = {"verbose": False, "input_signature": signature}
    if importlib.util.find_spec("onnx") is None:
        with pytest.raises(torch.onnx.OnnxExporterError, match="onnx is not installed"):
            model.export(file, "onnx", **options)
        return
    model.export(file, "onnx", **options)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(file)
    for batch in (3, 1):
        x = inputs(batch, **({} if inputs is images else {"time": 4}))
        named = zip(session.get_inputs(), x, strict=True)
        found = session.run(None, {each.name: array for each, array in named})
        expected = keras.tree.flatten(model(arguments(model, x)))
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, wanted.detach(), atol=1e-5)


def check_compiled(case, **options):
    torch.compiler.reset()  # it keeps few programs of the same code
    build, inputs = case
    model = build()
    model(arguments(model, inputs(2)))
    compiled = torch.compile(model, backend="aot_eager", **options)
    assert_same(compiled, model, inputs, batches=(2, 3))


def check_training(case, monkeypatch):
    """Two steps of `fit` with `jit_compile=True` have the losses of those without."""
    torch.compiler.reset()
    build, inputs = case
    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f: original(f, backend="aot_eager"))
    x = inputs(4)
    x = x if len(x) > 1 else x[0]
    losses = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(0)
        model = build()
        y = np.zeros(model.predict(x, verbose=0).shape, "float32")
        model.compile("sgd", "mse", jit_compile=jit_compile)
        history = model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
        losses += history.history["loss"]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.once("PyTorch only")
@pytest.mark.parametrize("name", MODELS)
def test_exported_and_traced_models_take_batches_of_any_size(name):
    check_exported(MODELS[name])
    check_traced(MODELS[name])


@pytest.mark.once("PyTorch only")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.full("one of several", cheap=False) if n % 2 else ()
        )
        for n, name in enumerate(TASKS)
    ],
)
def test_task_models_are_exported_to_onnx(name, tmp_path):
    cases = {**MODELS, **OTHERS, **OF_ONNX}
    check_onnx(cases[name], str(tmp_path / "model.onnx"))


@pytest.mark.once("PyTorch only")
def test_a_forecaster_is_exported_for_the_windows_of_its_table(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(
        keras.Model, "export", lambda self, file, *args, **_: given.append(args)
    )
    y = np.sin(np.arange(41.0))
    model = models.Forecaster("lstm", units=3, horizon=2)
    model.export(tmp_path / "m", "onnx")
    model.prepare(y, length=7)
    model.export(tmp_path / "m", "onnx")
    assert given[0] == ("onnx", None, None)
    assert given[1][2][0].shape == (None, 7, 1)
    known = models.Forecaster("lstm", units=3, horizon=2, known=["price"])
    with pytest.raises(
        ValueError, match=r"Pass \[keras.InputSpec\(shape=\(None, steps"
    ):
        known.export(tmp_path / "m", "onnx")


@pytest.mark.full("one of several", cheap=False)
@pytest.mark.parametrize("name", sorted({*OTHERS, *OF_ONNX} - {*TASKS}))
def test_other_models_are_exported_to_onnx(name, tmp_path):
    check_onnx({**OTHERS, **OF_ONNX}[name], str(tmp_path / "model.onnx"))


@pytest.mark.full("an operation that ONNX lacks", cheap=False)
def test_s4d_is_not_exported_to_onnx(tmp_path):
    model = models.SequenceClassifier("s4d", 3, **IDS, units=8)
    signature = [keras.InputSpec(shape=(None, 4), dtype="int32")]
    with pytest.raises(torch.onnx.OnnxExporterError, match="fft_rfft.*not supported"):
        model.export(str(tmp_path / "m"), "onnx", False, input_signature=signature)


@pytest.mark.once("PyTorch only")
def test_compiled_gpt_is_one_graph():
    check_compiled(MODELS["GPT"], fullgraph=True)


@pytest.mark.full("one of several", cheap=False)
@pytest.mark.parametrize("name", OTHERS)
def test_other_models_take_batches_of_any_size(name):
    check_exported(OTHERS[name])
    check_traced(OTHERS[name])


@pytest.mark.full("one of several", cheap=False)
@pytest.mark.parametrize("name", ["BERT", "T5", "classifier", *OTHERS])
def test_other_compiled_models_are_one_graph(name):
    check_compiled({**MODELS, **OTHERS}[name], fullgraph=True)


@pytest.mark.full("one of several; Keras' Rescaling breaks the graph", cheap=False)
def test_compiled_image_model():
    check_compiled(MODELS["ViT"])


@pytest.mark.full("compiling takes long", cheap=False)
@pytest.mark.parametrize(
    "name", ["classifier", "classifier transformer", "LSTM", "PeepholeLSTM", "GRU"]
)
def test_compiled_training_has_the_same_loss(name, monkeypatch):
    check_training({**MODELS, **OTHERS}[name], monkeypatch)
