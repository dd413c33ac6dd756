"""The loss of chunks of positions is that of all at once: encoder-decoder models."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models, training
from tests.models.whisper import toys

pytestmark = pytest.mark.once("the chunks are the same on each backend")
V = 11
RNG = np.random.default_rng(0)
SOURCE = RNG.integers(3, V, (5, 3)).astype("int32")
TARGET = RNG.integers(3, V, (5, 7)).astype("int32")
NEXT = np.roll(TARGET, -1, axis=1)
LENGTHS = [7, 2, 5, 1, 3]
for row, length in enumerate(LENGTHS):
    TARGET[row, length:] = NEXT[row, length:] = 0
SOURCE[1, 2:] = 0
WEIGHTS = RNG.uniform(0, 1, 5).astype("float32")
BLOCKS = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
SIDES = {"source_vocabulary_size": V - 2, "target_vocabulary_size": V - 2}


def bart(**options):
    """With a bias of the logits, as published weights may have."""
    model = models.BART(vocabulary_size=V, **BLOCKS, **options)
    bias = model.decoder.logit_bias.bias
    bias.assign(np.linspace(-1, 1, V))
    return model


def transformer(**options):
    return models.Transformer(**SIDES, **BLOCKS, **options)


def seq2seq(**options):
    return models.Seq2Seq("gru", **SIDES, units=5, **options)


def t5(**options):
    return models.T5(vocabulary_size=V - 2, **BLOCKS, **options)


def results(make, chunk, weight, epochs=2, **options):
    """The losses, metrics and weights after some steps, and of `evaluate`."""
    keras.utils.set_random_seed(3)
    model = make()
    model.compile(
        keras.optimizers.SGD(0.1),
        loss_chunk_size=chunk,
        metrics=model.default_metrics(),
        weighted_metrics=[training.BitsPerCharacter(name="bits")],
        **options,
    )
    found = []
    for rows in [slice(3), slice(2, 5)] * epochs:
        given = (None if weight is None else weight[rows],)
        batch = (SOURCE[rows], TARGET[rows]), NEXT[rows], *given
        found.append(model.train_on_batch(*batch, return_dict=True))
    data = (SOURCE, TARGET), NEXT
    scores = {"sample_weight": weight, "batch_size": 3, "verbose": 0}
    found.append(model.evaluate(*data, **scores, return_dict=True))
    assert model.predict(data[0], verbose=0).shape == (5, 7, V)
    numbers = [[float(scores[name]) for name in sorted(scores)] for scores in found]
    return numbers, [keras.ops.convert_to_numpy(w) for w in model.weights]


def check_same(make, chunk=4, weight=WEIGHTS, atol=1e-6, **options):
    numbers, weights = results(make, None, weight, **options)
    own_numbers, own_weights = results(make, chunk, weight, **options)
    np.testing.assert_allclose(own_numbers, numbers, rtol=atol, atol=atol)
    for w, own in zip(weights, own_weights, strict=True):
        np.testing.assert_allclose(own, w, atol=atol)


@pytest.mark.everywhere("loops and gradients are those of the backend")
def test_a_step_of_a_bart_with_a_bias_of_the_logits():
    found = []
    for chunk in (None, 4):
        keras.utils.set_random_seed(3)
        model = bart(dropout=0.2)
        model.compile(keras.optimizers.SGD(0.1), loss_chunk_size=chunk)
        batch = (SOURCE, TARGET), NEXT, WEIGHTS
        scores = model.train_on_batch(*batch, return_dict=True)
        weights = [keras.ops.convert_to_numpy(w) for w in model.weights]
        found.append([float(scores["loss"]), float(scores["accuracy"]), *weights])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_bart_with_dropout():
    check_same(lambda: bart(dropout=0.2), epochs=1)


@pytest.mark.parametrize("tie", [True, False])
def test_t5(tie):
    check_same(lambda: t5(tie_embeddings=tie), chunk=50, weight=None)


def test_a_transformer_in_parts_that_is_computed_again():
    check_same(lambda: transformer(dropout=0.0), remat="full", micro_batches=2)


def test_a_transformer_with_scheduled_sampling():
    sampling = training.ScheduledSampling("inverse_sigmoid", k=3.0)
    check_same(lambda: transformer(scheduled_sampling=sampling))


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "luong", "dropout": 0.2},
        {"attention": "soft", "doubly_stochastic": 0.5},
        {"attention": None, "input_feeding": True},
    ],
)
def test_recurrent_models(options):
    check_same(lambda: seq2seq(**options), remat="activations")


def test_mixed_precision():
    """Chunks round like all at once, but for the order of sums."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        check_same(t5, atol=2e-3)
    finally:
        keras.config.set_dtype_policy(policy)


def test_whisper():
    scores = []
    for chunk in (None, 4):
        keras.utils.set_random_seed(3)
        model = toys.whisper(**{**toys.SMALL, "dropout": 0.2})
        model.compile(keras.optimizers.SGD(0.1), loss_chunk_size=chunk)
        sounds = toys.sounds(0.5, 0.7, rate=800)
        history = model.fit(sounds, [[3, 1, 4, 1, 5], [9, 2]], epochs=2, verbose=0)
        found = [np.array(history.history[name]) for name in ("loss", "accuracy")]
        scores.append([*found, *model.get_weights()])
    for whole, parts in zip(*scores, strict=True):
        np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_a_loaded_model_has_the_size(tmp_path):
    model = seq2seq()
    model.compile("sgd", loss_chunk_size=4)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.get_compile_config()["loss_chunk_size"] == 4
    batch = (SOURCE, TARGET), NEXT
    losses = [float(each.train_on_batch(*batch)[0]) for each in (model, loaded)]
    np.testing.assert_allclose(losses[1], losses[0], atol=1e-6)


def test_hard_attention_reads_all_logits():
    model = seq2seq(attention="hard")
    with pytest.raises(ValueError, match="must be None for hard attention"):
        model.compile(loss_chunk_size=4)


def test_no_class_stands_between_for_it():
    names = [each.__name__ for each in models.T5.__mro__]
    between = names[1 : names.index("TaskModel")]
    assert between == ["EncoderDecoder", "Translator"]
