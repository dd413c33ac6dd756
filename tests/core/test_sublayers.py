"""A file keeps what was set on the layers inside: frozen, quantized, of other types."""

import json

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import layers, models
from kerasseq.core import sublayers
from tests.core.travelling import IDS, KINDS, LABELS
from tests.layer_checks import float64_is_there

pytestmark = pytest.mark.once("settings of layers are Python's, the same on each")
FULL = "float64" if float64_is_there() else "float32"
LOADERS = [kerasseq.load_model, keras.saving.load_model]


@pytest.fixture(params=LOADERS, ids=["kerasseq", "keras"])
def again(request, tmp_path):
    """Saves a model and loads it, in both ways."""

    def load(model, **options):
        model.save(tmp_path / "model.keras")
        return request.param(tmp_path / "model.keras", **options)

    return load


def gpt(**options):
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6}
    return models.GPT(vocabulary_size=7, max_sequence_length=8, **sizes, **options)


def block_model():
    """A model of Keras with a layer of ours that has layers inside."""
    block = layers.TransformerEncoder(7, 2, position=layers.RotaryEmbedding())
    return keras.Sequential([keras.Input((5, 4)), block, layers.LSTM(3)])


def trainable(model):
    """Paths of what is trained; those of layers differ, names of weights do not."""
    return [(v.path.rsplit("/")[-1], v.shape) for v in model.trainable_variables]


@pytest.mark.parametrize("frozen", ["block_0", "block_0/self_attention", "embedding"])
def test_a_file_remembers_what_is_frozen(again, frozen):
    model = gpt()
    name, _, part = frozen.partition("/")
    layer = model.get_layer(name)
    (layer._self_attention_layer if part else layer).trainable = False
    loaded = again(model)
    assert trainable(loaded) == trainable(model) != trainable(gpt())
    before = [array(v) for v in loaded.non_trainable_variables]
    loaded.fit(IDS, IDS, verbose=0)
    for old, new in zip(before, loaded.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(old, array(new))
    copy = type(model).from_config(model.get_config())
    assert trainable(copy) == trainable(model)


def test_a_part_may_be_trained_of_a_frozen_model(again):
    model = gpt()
    model.trainable = False
    model.get_layer("final_norm").trainable = True
    assert sublayers.settings_of(again(model)) == sublayers.settings_of(model)


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"plain", "reinforced"}))
def test_all_models_remember_it(again, kind):
    model = KINDS[kind][0]()
    chosen = [layer for layer in model._flatten_layers() if layer._trainable_variables]
    chosen[-1].trainable = False
    model.compile()
    assert trainable(again(model)) == trainable(model)


def test_a_layer_inside_a_plain_model(again):
    model = block_model()
    model.layers[0]._feedforward_sublayer.trainable = False
    model.layers[1].cell.trainable = False
    assert trainable(again(model)) == trainable(model)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.filterwarnings(r"ignore:[\s\S]*The use of `x.T`")  # Keras', on PyTorch
@pytest.mark.parametrize("make", [gpt, block_model, KINDS["language_model"][0]])
def test_quantized_models_load(again, make):
    model = make()
    model.quantize("int8")
    x = np.ones((2, 5, 4)) if make is block_model else IDS
    loaded = again(model)
    assert np.any([v.dtype == "int8" for v in loaded.variables])
    np.testing.assert_allclose(array(loaded(x)), array(model(x)), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
def test_quantized_and_frozen(again):
    model = gpt()
    model.quantize("int8")
    model.get_layer("final_norm").trainable = False
    model.get_layer("block_0")._self_attention_layer_norm.trainable = False
    model.compile()
    loaded = again(again(model))
    assert trainable(loaded) == trainable(model)
    settings = [json.dumps(sublayers.settings_of(each)) for each in (loaded, model)]
    assert settings[0] == settings[1]


@pytest.mark.everywhere("new variables of the backend")
def test_lora_goes_on_where_it_was(tmp_path):
    model = gpt()
    attention = model.get_layer("block_0")._self_attention_layer
    for layer in (attention.query_dense, model.get_layer("embedding")):
        layer.enable_lora(2, lora_alpha=3)
    model.fit(IDS, IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    names = [name for name, _ in trainable(loaded)]
    assert trainable(loaded) == trainable(model)
    assert sum(name.startswith("lora_") for name in names) == 4
    np.testing.assert_allclose(array(loaded(IDS)), array(model(IDS)), atol=1e-5)
    for _ in range(2):  # A has no gradient while B is zero
        before = [array(v) for v in loaded.trainable_variables]
        loaded.fit(IDS, IDS, verbose=0)
    for name, old, new in zip(names, before, loaded.trainable_variables, strict=True):
        assert np.any(old != array(new)), name


@pytest.mark.parametrize("policy", ["mixed_bfloat16", FULL])
def test_a_model_keeps_the_type_that_was_default(again, policy):
    with sublayers.default_policy(policy):
        model = models.SequenceTagger("gru", labels=2, vocabulary_size=5, units=3)
    loaded = again(model)
    assert loaded.dtype_policy.name == policy
    assert keras.config.dtype_policy().name == "float32"
    assert [w.dtype for w in loaded.weights] == [w.dtype for w in model.weights]
    assert sublayers.settings_of(loaded) == sublayers.settings_of(model)
    np.testing.assert_array_equal(array(loaded(IDS)), array(model(IDS)))


@pytest.mark.everywhere("the state of a seed is of the backend", cases=1)
def test_going_on_after_loading_draws_as_going_on(again):
    layer = layers.GRU(3, recurrent_dropout=0.5, dropout=0.3, return_sequences=True)
    model = models.SequenceClassifier(layer, labels=2, vocabulary_size=5, units=3)
    model.fit(IDS, LABELS, verbose=0)
    loaded = again(model)
    for each in (model, loaded):
        each.fit(IDS, LABELS, shuffle=False, verbose=0)  # or rows get other masks
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(array(one), array(other))


@pytest.mark.parametrize("kind", KINDS)
def test_clones_compute_the_same(kind):
    make, (x, _), _ = KINDS[kind]
    model = make()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(array(clone(x)), array(model(x)))


def test_what_cannot_be_cloned_says_so():
    model = gpt().with_head("choose", language_model_weight=0.5)
    with pytest.raises(NotImplementedError, match="Copy the whole model"):
        keras.models.clone_model(model)
    assert type(model).from_config(model.get_config()).head == "choose"


OTHER_NAMES = {"MambaModel": "Mamba"}  # the layer has the same name


def test_registered_names_are_unique_and_name_their_class():
    registered = keras.saving.get_custom_objects()
    known = {}
    for part in all_subclasses(keras.Layer, keras.losses.Loss, keras.metrics.Metric):
        name = keras.saving.get_registered_name(part)
        if part.__module__.startswith("kerasseq.") and ">" in name:
            assert registered[name] is part, (name, part, registered[name])
            assert known.setdefault(name, part) is part, (name, part, known[name])
    for name in (n for n in registered if n.startswith("kerasseq>")):
        found = keras.saving.get_registered_object(name)
        assert keras.saving.get_registered_name(found) == name
        own = name.partition(">")[2]
        assert found.__name__ == OTHER_NAMES.get(own, own)
    assert len(known) > 30


def all_subclasses(*classes):
    for cls in classes:
        yield from (below := cls.__subclasses__())
        yield from all_subclasses(*below)


def array(value):
    return keras.ops.convert_to_numpy(keras.ops.cast(value, "float32"))
