"""Scheduled sampling of RecurrentDecoder: target tokens or predictions as inputs."""

import functools

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels
from kerasseq.layers import BahdanauAttention, ElmanRNN
from kerasseq.models.seq2seq.recurrent_decoder import RecurrentDecoder
from kerasseq.models.seq2seq.scheduled_sampling import ScheduledSampler
from kerasseq.training import Checkpoint, ScheduledSampling, restore
from tests.models.seq2seq import references, toys

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, S = 3, 7, 5
rng = np.random.default_rng(0)
source = rng.integers(3, 9, (B, S)).astype("int32")
target = np.insert(rng.integers(3, 9, (B, T - 1)), 0, 1, axis=1).astype("int32")
wanted = np.append(target[:, 1:], np.full((B, 1), 2), axis=1)
memory = rng.normal(size=(B, S, 11)).astype("float32")
summary = rng.normal(size=(B, 13)).astype("float32")
everywhere = np.ones((B, S), bool)


def constant(ratio, **options):
    return ScheduledSampling("constant", ratio=ratio, **options)


def decoder(schedule, **options):
    layer = RecurrentDecoder(
        [ElmanRNN(17, return_sequences=True)],
        9,
        embedding_dim=19,
        attention=BahdanauAttention(23),
        scheduled_sampling=schedule,
        **options,
    )
    with toys.zero_initializers():
        layer.build(target.shape, memory.shape, summary.shape)
    return toys.randomize(layer, 0.3)


def in_training(layer, target=target):
    return call(layer, target, training=True)


def call(layer, target=target, training=False):
    def run(*args):
        return layer(*args, training=training)

    return toys.run(kernels.compiled(run), target, memory, summary)


def reference(layer, **options):
    args = target, memory, summary, everywhere
    return references.run(layer, *args, **options)[0]


def test_ratio_1_is_teacher_forcing():
    layer = decoder(constant(1))
    logits = in_training(layer)
    np.testing.assert_allclose(logits, reference(layer), atol=1e-5)
    np.testing.assert_allclose(logits, call(layer), atol=1e-6)


def test_ratio_0_is_free_running():
    layer = decoder(constant(0))
    own = np.zeros((B, T), bool)
    expected = reference(layer, use_target=own)
    np.testing.assert_allclose(in_training(layer), expected, atol=1e-5)
    # Independent of the target.
    other = np.flip(target, axis=1)
    np.testing.assert_allclose(in_training(layer, other), expected, atol=1e-5)
    # Only in training.
    np.testing.assert_allclose(call(layer), reference(layer), atol=1e-5)
    assert np.abs(reference(layer) - expected).max() > 0.01


def test_inputs_are_chosen_for_each_step_of_each_row(monkeypatch):
    layer = decoder(constant(0.5))
    use_target = rng.uniform(size=(B, T)) < 0.5
    drawn = {"use_target": keras.ops.convert_to_tensor(use_target)}
    monkeypatch.setattr(layer.scheduled_sampler, "draw", lambda *_: dict(drawn))
    expected = reference(layer, use_target=use_target)
    np.testing.assert_allclose(in_training(layer), expected, atol=1e-5)
    assert np.abs(reference(layer) - expected).max() > 0.01


def test_gumbel_noise_changes_predictions(monkeypatch):
    layer = decoder(constant(0, sampled=True))
    noise = 3 * rng.normal(size=(B, T, 9))
    drawn = {
        "use_target": np.zeros((B, T), bool),
        "gumbel_noise": noise.astype("float32"),
    }
    drawn = {k: keras.ops.convert_to_tensor(v) for k, v in drawn.items()}
    monkeypatch.setattr(layer.scheduled_sampler, "draw", lambda *_: dict(drawn))
    logits = in_training(layer)
    predicted = (logits + noise).argmax(axis=-1)
    assert (predicted != logits.argmax(axis=-1)).any()
    behind = np.insert(predicted[:, :-1], 0, 1, axis=1)
    args = behind, memory, summary, everywhere
    np.testing.assert_allclose(logits, references.run(layer, *args)[0], atol=1e-5)


def sampler(schedule):
    layer = ScheduledSampler(schedule)
    layer.build()
    return layer


@pytest.mark.parametrize("ratio", [0, 0.3, 0.8, 1])
def test_fraction_of_target_tokens(ratio):
    layer = sampler(constant(ratio))
    drawn = [
        toys.array(layer.draw(np.zeros((200, 250)), 9)["use_target"]) for _ in range(2)
    ]
    assert np.mean(drawn) == pytest.approx(ratio, abs=0.01)
    assert (drawn[0] != drawn[1]).any() == (0 < ratio < 1)
    assert int(layer.steps) == 2


def test_fraction_decreases_with_the_steps():
    layer = sampler(ScheduledSampling("linear", steps=4, lowest=0.1))
    shares = [
        toys.array(layer.draw(np.zeros((200, 250)), 9)["use_target"]).mean()
        for _ in range(5)
    ]
    np.testing.assert_allclose(shares, [1, 0.75, 0.5, 0.25, 0.1], atol=0.01)
    assert shares[0] == 1


def test_sampled_tokens_follow_the_softmax():
    layer = sampler(constant(0, sampled=True))
    logits = np.array([1.0, 0.0, -1.0, 2.0, -30.0], "float32")
    noise = layer.draw(np.zeros((200, 250)), 5)["gumbel_noise"]
    assert tuple(noise.shape) == (200, 250, 5)
    many = keras.ops.broadcast_to(logits, (50000, 5))
    predicted = toys.array(layer.predict_token(many, keras.ops.reshape(noise, (-1, 5))))
    shares = np.bincount(predicted, minlength=5) / len(predicted)
    np.testing.assert_allclose(shares, references.softmax(logits), atol=0.01)
    assert (toys.array(layer.predict_token(many)) == 3).all()


def test_dropout_applies_to_predicted_tokens():
    """With all embeddings dropped, logits equal those of zero embeddings."""
    layer = decoder(constant(0), dropout=0.5)
    seen = []

    def drop(x, training=False):
        seen.append(tuple(x.shape))
        return x if x.shape[-1] == 17 else 0 * x

    layer.dropout_layer.call = drop
    no_token = np.zeros((9, 19), "float32")
    dropped = in_training(layer)
    layer.embedding.embeddings.assign(no_token)
    np.testing.assert_allclose(dropped, reference(layer), atol=1e-5)
    assert seen.count((B, T, 19)) >= 2


@functools.cache
def plain():
    return toys.model("elman", attention=None)


def scheduled(ratio, **options):
    schedule = constant(ratio, **options)
    made = toys.model("elman", attention=None, scheduled_sampling=schedule)
    return toys.same_weights(made, plain())


def weights_after_a_step(made, target):
    toys.trainable(made).train_on_batch([source, target], wanted)
    return [toys.array(weight) for weight in made.trainable_weights]


def test_train_step_of_ratio_1_and_0():
    """Ratio 1 equals teacher forcing; ratio 0 equals training on the predictions.

    So no gradient flows through the choice of the predicted tokens.
    """
    start = plain().get_weights()
    teacher_forced = weights_after_a_step(plain(), target)
    plain().set_weights(start)
    run = kernels.inference(plain())
    predicted = [np.ones((B, 1), "int32")]  # one token after the other
    for _ in range(T - 1):
        inputs = np.pad(np.concatenate(predicted, 1), ((0, 0), (0, T - len(predicted))))
        logits = toys.array(run([source, inputs.astype("int32")]))
        predicted.append(logits[:, len(predicted) - 1].argmax(axis=-1)[:, None])
    own = weights_after_a_step(plain(), np.concatenate(predicted, 1).astype("int32"))
    plain().set_weights(start)
    moved = [np.abs(a - b).max() for a, b in zip(teacher_forced, own, strict=True)]
    assert max(moved) > 1e-3
    for made, expected in ((scheduled(1), teacher_forced), (scheduled(0), own)):
        found = weights_after_a_step(made, target)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        assert int(made.decoder.scheduled_sampler.steps) == 1


def test_resumed_run_equals_uninterrupted_run(tmp_path):
    """With dropout and sampled predictions; the file holds the number of steps."""
    schedule = ScheduledSampling("linear", steps=7, sampled=True)
    made = toys.trainable(
        toys.model("elman", attention=None, dropout=0.3, scheduled_sampling=schedule)
    )
    steps = made.decoder.scheduled_sampler.steps
    pairs = kerasseq.datasets.copy_task(9, symbols="abcde", max_length=3)
    options = {"batch_size": 9, "steps_per_epoch": 2, "verbose": 0}
    start = [np.array(toys.array(v)) for v in made.variables]
    made.fit(*pairs, epochs=1, callbacks=[Checkpoint(tmp_path)], **options)
    assert int(steps) == 2
    made.fit(*pairs, epochs=2, initial_epoch=1, **options)
    whole = [np.array(toys.array(v)) for v in made.variables]
    for variable, value in zip(made.variables, start, strict=True):
        variable.assign(value)
    assert restore(made, tmp_path) == 1
    assert int(steps) == 2
    made.fit(*pairs, epochs=2, initial_epoch=1, **options)
    for variable, value in zip(made.variables, whole, strict=True):
        np.testing.assert_allclose(
            toys.array(variable), value, atol=1e-6, err_msg=variable.path
        )
    assert int(steps) == 4
    made.translate("abc", max_length=2)
    assert int(steps) == 4
    made.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert int(loaded.decoder.scheduled_sampler.steps) == 4
    assert (
        loaded.decoder.scheduled_sampler.schedule.get_config() == schedule.get_config()
    )
