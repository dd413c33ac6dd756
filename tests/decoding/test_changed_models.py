"""Models that change after generating: what was compiled or recorded is dropped."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import decoding, models

pytestmark = pytest.mark.everywhere("each backend compiles or records in its own way")

V, LENGTH = 11, 13  # more steps than PyTorch makes before it records
PROMPT = [1, 2, 3]
BOTH = {"source_vocabulary_size": V, "target_vocabulary_size": V}
TRANSFORMER = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}


def draw(model, seed=0):
    """Weights so large that other ones give other tokens."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape) * 1.5)


def gpt():
    # Tied to the embedding, logits would repeat the last token.
    options = {"max_sequence_length": 17, "tie_embeddings": False}
    return models.GPT(vocabulary_size=V, **options, **TRANSFORMER)


def language_model(architecture="gru"):
    return models.LanguageModel(architecture, vocabulary_size=V, units=5)


def causal_convolution():
    return language_model(keras.layers.Conv1D(5, 2, padding="causal"))


def transformer():
    return models.Transformer(**BOTH, **TRANSFORMER)


def seq2seq():
    return models.Seq2Seq("gru", **BOTH, units=5)


def written(model):
    return model.generate(PROMPT, LENGTH, temperature=0)[len(PROMPT) :].tolist()


def streamed(model):
    return list(model.stream(PROMPT, LENGTH, temperature=0))


def continued(model):
    """The same without anything that is compiled, for causal models.

    Later tokens do not change a prediction. With all lengths alike, JAX compiles each
    operation once.
    """
    ids = np.zeros((1, len(PROMPT) + LENGTH), "int32")
    ids[0, : len(PROMPT)] = PROMPT
    for n in range(len(PROMPT), ids.shape[1]):
        ids[0, n] = ops.argmax(model(ids, training=False)[0, n - 1])
    return ids[0, len(PROMPT) :].tolist()


def translated(model, **options):
    found = model.translate([PROMPT], max_length=LENGTH, **options)[0]
    return found.score


def adapt(layer):
    """LoRA, whose weights are far from their first values."""
    layer.enable_lora(2)
    rng = np.random.default_rng(1)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 3)


def table(model):
    return next(x for x in model._flatten_layers() if hasattr(x, "embeddings"))


GENERATE = {
    "GPT": (gpt, written),
    "stream": (gpt, streamed),
    "LanguageModel": (language_model, written),
    "LanguageModel of a layer": (causal_convolution, written),
}


@pytest.mark.parametrize(("make", "run"), GENERATE.values(), ids=GENERATE)
def test_lora(make, run):
    model = make()
    draw(model)
    before = run(model)
    assert before == continued(model)
    adapt(table(model))
    after = continued(model)
    assert after != before
    assert run(model) == after


@pytest.mark.full("other models are tested everywhere")
@pytest.mark.parametrize("make", [seq2seq, transformer])
def test_lora_of_a_translator(make):
    model, other = make(), make()
    for each in (model, other):
        draw(each)
        if each is model:
            before = [
                translated(model, sampler=s) for s in ("greedy", decoding.Beam(2))
            ]
        for layer in each._flatten_layers():
            if hasattr(layer, "embeddings"):
                adapt(layer)
    after = [translated(model, sampler=s) for s in ("greedy", decoding.Beam(2))]
    assert not np.isclose(before, after, rtol=1e-2).any()
    expected = [translated(other, sampler=s) for s in ("greedy", decoding.Beam(2))]
    np.testing.assert_allclose(after, expected, rtol=1e-4)


def test_quantized_and_other_integers():
    model = gpt()
    draw(model)
    before = written(model)
    dense = model.stack.blocks[0]._feedforward_sublayer.output_dense
    dense.quantize("int8")
    assert written(model) == continued(model)
    dense._kernel.assign(np.roll(ops.convert_to_numpy(dense._kernel), 1, axis=1))
    after = continued(model)
    assert after != before
    assert written(model) == after


def test_another_layer_and_another_option():
    model = gpt()
    draw(model)
    before = written(model)
    model.stack.blocks[0]._feedforward_sublayer.activation = lambda x: 7 - 9 * x
    options = continued(model)
    assert options != before and written(model) == options
    other = keras.layers.ReversibleEmbedding(V, 8, tie_weights=False)
    other.build((None,))
    draw(other, 3)
    model.stack.embedding = other  # which `model(ids)` does not use
    assert written(model) not in (before, options)


def test_predict_and_evaluate():
    model, x = language_model(), np.array([PROMPT])
    draw(model)
    model.predict(x, verbose=0), model.evaluate(x, x, verbose=0)
    adapt(table(model))
    expected = ops.convert_to_numpy(model(x))
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=1e-4)
    loss = keras.losses.sparse_categorical_crossentropy(x, expected, from_logits=True)
    found = model.evaluate(x, x, verbose=0)[0]
    np.testing.assert_allclose(found, float(ops.mean(loss)), rtol=1e-4)


@pytest.mark.parametrize("make", [gpt, language_model, transformer, seq2seq])
def test_a_deleted_model_is_freed(make):
    model = make()
    if hasattr(model, "generate"):
        written(model)
    else:
        translated(model), translated(model, sampler="beam")
    weight = weakref.ref(model.weights[0])
    model = weakref.ref(model)
    keras.backend.clear_session()  # Keras itself keeps names and symbolic tensors
    gc.collect()
    assert model() is None and weight() is None


def test_a_function_with_a_layer():
    layer = keras.layers.Embedding(V, V)
    layer.build()
    draw(layer)

    def step(state, token):
        return layer(token), state

    def run():
        return decoding.generate(step, {}, [[1]], max_new_tokens=LENGTH).ids[0].tolist()

    before = run()
    adapt(layer)
    ids = [1]
    for _ in range(LENGTH):
        ids.append(int(ops.argmax(layer(np.array([ids[-1]]))[0])))
    assert ids[1:] != before and run() == ids[1:]


CALLS = np.zeros(1)  # a change inside an array is no change of the model


class Counting(keras.layers.Dense):
    """A layer of a user, whose Python counts its calls."""

    def call(self, x):
        CALLS[0] += 1
        return super().call(x)


class Pure(Counting):
    """A layer of a user that says that it has no side effects."""

    pure = True


@pytest.mark.parametrize("layer", [Counting, Pure])
def test_layers_of_users_run_at_each_step_unless_they_are_pure(layer):
    model = language_model(layer(5))
    draw(model)
    expected = continued(model)
    assert written(model) == streamed(model) == expected
    before = float(CALLS[0])
    assert written(model) == expected
    calls = float(CALLS[0]) - before
    assert calls >= LENGTH if layer is Counting else calls == 0
