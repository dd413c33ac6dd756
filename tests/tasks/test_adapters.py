"""LoRA of whole models: what is trained, merged, switched, saved and refused."""

import pickle

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models, text
from kerasseq.core.dense import Adaptable, LoRA
from kerasseq.core.sublayers import flatten
from kerasseq.tasks import adapter_files
from kerasseq.tasks.adapters import Adapter
from kerasseq.tasks.base import TaskModel

pytestmark = pytest.mark.once("which weights are trained and kept, as arrays")
IDS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
OTHERS = pytest.mark.full("NF4 is saved with the adapter, too")
TEXTS = ["a bad film", "a good film", "so bad", "so good"] * 2
LABELS = ["neg", "pos"] * 4


def gpt(**options):
    keras.utils.set_random_seed(5)
    options = {"num_layers": 2, "num_heads": 2, "hidden_dim": 14} | options
    return models.GPT(vocabulary_size=11, max_sequence_length=13, **options)


def quantize(model, mode):
    model.quantize(mode, filters=lambda layer: isinstance(layer, Adaptable))


def outputs(model, ids=IDS):
    return keras.ops.convert_to_numpy(model(ids))


def learned(model, seed=0, scale=0.3):
    """Gives the weights of an adapter other values, as training does."""
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(weight + scale * generator.normal(size=weight.shape))
    return model


def classifier(labels=("neg", "pos")):
    keras.utils.set_random_seed(7)
    tokenizer = text.WordPieceTokenizer(vocabulary_size=30).fit(TEXTS)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "intermediate_dim": 10}
    return models.BERT(
        tokenizer,
        **sizes,
        max_sequence_length=17,
        head="classify",
        labels=labels and list(labels),
    )


def test_nothing_changes_at_first_and_all_else_is_frozen():
    model = gpt()
    before, all_weights = outputs(model), model.count_params()
    model.enable_lora(3)
    assert np.array_equal(outputs(model), before)
    # Query and value of two blocks, each r (d_in + d_out).
    assert sum(int(np.prod(w.shape)) for w in model.trainable_weights) == 4 * 3 * 28
    assert {w.name for w in model.trainable_weights} == {"lora_a", "lora_b"}
    assert model.count_params() == all_weights + 4 * 3 * 28


@pytest.mark.everywhere("each backend has its own gradients and optimizers")
def test_training_moves_only_the_adapter_and_merging_keeps_the_outputs():
    model = gpt()
    base = [keras.ops.convert_to_numpy(w) for w in model.weights]
    model.compile(keras.optimizers.Adam(0.1))
    model.enable_lora(5, "all-linear", lora_alpha=10)
    x = np.tile(IDS, (8, 1))
    losses = model.fit(x, x, epochs=6, batch_size=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.03  # the embedding is random and frozen
    others = [w for w in model.weights if "lora" not in w.name]
    for old, new in zip(base, others, strict=True):
        assert np.array_equal(old, keras.ops.convert_to_numpy(new)), new.path
    trained = outputs(model)
    model.merge_lora()
    np.testing.assert_allclose(outputs(model), trained, atol=1e-5)
    assert len(model.trainable_weights) == len(model.weights) == len(base)
    again = model.fit(x, x, epochs=1, verbose=0).history["loss"]
    assert again[-1] < losses[0]


@pytest.mark.everywhere("each backend has its own quantized products")
@pytest.mark.parametrize(
    "quantized",
    ["nf4", *(pytest.param(n, marks=OTHERS) for n in (None, "int8", "int4"))],
)
def test_a_saved_model_answers_the_same_and_trains_on(tmp_path, quantized):
    model = gpt()
    if quantized:
        quantize(model, quantized)
    model.enable_lora(3, ["query", "*/output_dense"], lora_dropout=0.5)
    learned(model)
    expected = outputs(model)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(outputs(loaded), expected, atol=1e-6)
    names = [w.path for w in model.trainable_weights]
    assert [w.path for w in loaded.trainable_weights] == names
    loaded.fit(IDS, IDS, epochs=2, verbose=0)
    assert np.abs(outputs(loaded) - expected).max() > 1e-4
    other = gpt()
    if quantized:
        quantize(other, quantized)
    other.enable_lora({"query": 3, "*/output_dense": 3})
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(outputs(other), expected, atol=1e-6)


def test_several_adapters_each_as_in_a_fresh_model(tmp_path):
    files, texts = [], []
    for seed, rank in enumerate((2, 3)):
        model = gpt()
        model.enable_lora(rank)
        learned(model, seed, scale=1.0)
        files.append(tmp_path / f"{seed}.safetensors")
        model.save_lora_weights(files[-1])
        texts.append(model.generate(IDS[:1], max_new_tokens=5, seed=1))
    model = gpt()
    base = outputs(model)
    for n, file in enumerate(files):
        model.load_lora_weights(file, name=f"adapter {n}")
    for n in (0, 1, 0):
        model.set_adapter(f"adapter {n}")
        again = model.generate(IDS[:1], max_new_tokens=5, seed=1)
        assert np.array_equal(again, texts[n])
    model.set_adapter(None)
    assert np.array_equal(outputs(model), base)
    assert len(model.trainable_weights) == len(model.weights)
    count = 4 * 2 * 28
    assert files[0].stat().st_size <= 4 * count + 4096


def test_a_new_head_is_trained_and_saved_with_the_adapter(tmp_path):
    model = classifier()
    before = model.predict(TEXTS)
    model.compile(keras.optimizers.Adam(3e-2))
    model.enable_lora(2)
    head = [w for w in model.trainable_weights if "lora" not in w.name]
    assert [w.path for w in head] == ["classes/kernel", "classes/bias"]
    losses = model.fit(TEXTS, LABELS, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    after = model.predict(TEXTS)
    model.save_lora_weights(tmp_path / "one.safetensors")
    model.set_adapter(None)
    np.testing.assert_allclose(model.predict(TEXTS), before, atol=1e-6)
    other = classifier()
    other.load_lora_weights(tmp_path / "one.safetensors", name="one")
    np.testing.assert_allclose(other.predict(TEXTS), after, atol=1e-6)


def test_every_dense_layer_of_a_model_adds_its_product():
    """A layer that computes with its kernel alone would ignore its adapter."""
    keras.utils.set_random_seed(1)
    for model in (
        gpt(feed_forward="swiglu", num_key_value_heads=1, use_bias=False),
        models.T5(
            vocabulary_size=11,
            num_layers=1,
            num_heads=2,
            hidden_dim=6,
            intermediate_dim=10,
        ),
        models.Mamba(vocabulary_size=11, num_layers=1, hidden_dim=6),
    ):
        inputs = IDS if len(model.inputs) == 1 else [IDS, IDS]
        before = outputs(model, inputs)
        model.enable_lora(2, "all-linear")
        for layer in flatten(model):
            if isinstance(layer, Adaptable) and layer.lora is not None:
                shape = layer.lora_b.shape
                layer.lora_b.assign(np.random.default_rng(0).normal(size=shape))
                assert np.abs(outputs(model, inputs) - before).max() > 1e-6, layer.path
                layer.lora_b.assign(0 * layer.lora_b)


def test_a_head_that_fit_builds_is_trained_beside_the_adapter():
    model = classifier(labels=None)
    model.enable_lora(2)
    model.fit(TEXTS, LABELS, verbose=0)
    names = {w.path for w in model.trainable_weights if "lora" not in w.name}
    assert names == {"classes/kernel", "classes/bias", "pooler/kernel", "pooler/bias"}


def test_frozen_layers_stay_frozen_after_the_adapter():
    model = gpt()
    model.get_layer("block_0").trainable = False
    names = [w.path for w in model.trainable_weights]
    model.enable_lora(2, "block_1/*")
    model.merge_lora()
    assert [w.path for w in model.trainable_weights] == names


def test_a_new_head_gets_the_merged_kernels():
    tokenizer = text.CharacterTokenizer().fit("".join(TEXTS))
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6}
    model = models.GPT(tokenizer, **sizes, max_sequence_length=17)
    model.enable_lora(2)
    learned(model, scale=1.0)
    other = model.with_head("classify", labels=["neg", "pos"])
    model.merge_lora()
    kernel, merged = (
        next(w for w in m.weights if w.path == "block_0/self_attention/query/kernel")
        for m in (other, model)
    )
    np.testing.assert_allclose(
        *map(keras.ops.convert_to_numpy, (kernel, merged)), atol=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(rank=0), "rank must be at least 1, received 0"),
        (dict(rank=15), "rank must be at most 14"),
        (dict(rank=2, target_layer_names=["quary"]), "no dense layer .* fits .quary."),
        (dict(rank=2, target_layer_names=[]), "received an empty list"),
        (dict(rank=2, target_layer_names="embedding"), "which is no dense layer"),
        (dict(rank=2, lora_dropout=1.0), "lora_dropout"),
        (dict(rank=2, lora_alpha=-1), "lora_alpha"),
        (dict(rank={"query": 2}, target_layer_names="value"), "must be None"),
        (dict(rank={}), "received an empty dictionary"),
    ],
)
def test_wrong_arguments(arguments, message):
    model = gpt()
    before = len(model.trainable_weights)
    with pytest.raises(ValueError, match=message):
        model.enable_lora(**arguments)
    assert len(model.trainable_weights) == before


def test_wrong_uses(tmp_path):
    file = tmp_path / "a.safetensors"
    model = gpt()
    for method, arguments, message in (
        (model.merge_lora, (), "there is no adapter"),
        (model.save_lora_weights, (file,), "enable_lora makes one"),
        (model.set_adapter, ("x",), "there is no adapter .x."),
    ):
        with pytest.raises(ValueError, match=message):
            method(*arguments)
    model.enable_lora(2)
    with pytest.raises(ValueError, match="is active"):
        model.enable_lora(2)
    with pytest.raises(ValueError, match=r"must end in .\.safetensors"):
        model.save_lora_weights(tmp_path / "a.h5")
    model.save_lora_weights(file)
    with pytest.raises(ValueError, match="give this one another name"):
        model.load_lora_weights(file)
    with pytest.raises(ValueError, match="made for another model"):
        gpt(hidden_dim=10).load_lora_weights(file)
    with pytest.raises(ValueError, match="does not have"):
        gpt(num_layers=1).load_lora_weights(file)
    with pytest.raises(TypeError, match="name must be a string"):
        gpt().load_lora_weights(file, name=None)
    adapter = adapter_files.read(file)
    for rank in (0, 2.5, "2"):
        settings = {key: LoRA(rank, 2.0) for key in adapter.lora}
        adapter_files.write(file, Adapter(settings, adapter.weights))
        with pytest.raises(ValueError, match="are damaged: .*rank"):
            gpt().load_lora_weights(file)
    adapter_files.write(file, Adapter({}, adapter.weights))
    with pytest.raises(ValueError, match="adapter of no layer"):
        gpt().load_lora_weights(file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="is damaged"):
        gpt().load_lora_weights(file)
    dropped = gpt()
    dropped.enable_lora(2, lora_dropout=0.5)
    with pytest.raises(ValueError, match="before enable_lora"):
        dropped.quantize("int8")
    quantized = gpt()
    quantize(quantized, "int8")
    quantized.enable_lora(2)
    with pytest.raises(ValueError, match="Keep the adapter beside it"):
        quantized.merge_lora()


def test_a_model_that_awaits_fit_says_so():
    model = models.SequenceClassifier("transformer", tokenizer="character", units=4)
    with pytest.raises(ValueError, match="has not learned its labels and tokenizer"):
        model.enable_lora(2)


def test_dropout_of_an_adapter_acts_in_training_inside_a_model():
    model = gpt()
    model.enable_lora(2, lora_dropout=0.5)
    learned(model, scale=1.0)
    first, second = (
        keras.ops.convert_to_numpy(model(IDS, training=True)) for _ in range(2)
    )
    assert np.abs(first - second).max() > 1e-4
    assert np.array_equal(outputs(model), outputs(model))


def test_recurrent_kernels_are_refused():
    model = models.SequenceClassifier("lstm", 2, vocabulary_size=5, units=3)
    with pytest.raises(ValueError, match="which is no dense layer"):
        model.enable_lora(2, "lstm*")


def test_methods_are_pickled_by_the_name_of_their_class():
    for name in ("enable_lora", "load_lora_weights", "save_weights"):
        method = getattr(TaskModel, name)
        assert pickle.loads(pickle.dumps(method)) is method
        assert method.__qualname__ == f"TaskModel.{name}"
