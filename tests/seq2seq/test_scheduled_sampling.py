"""What a decoder reads in training: the truth, what it says itself, or some of each."""

import functools

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import kernels
from kerasseq.layers import BahdanauAttention, ElmanRNN
from kerasseq.seq2seq.decoder import RecurrentDecoder
from kerasseq.seq2seq.feeding import Feeding
from kerasseq.training import Checkpoint, ScheduledSampling, restore
from tests.seq2seq import references, toys

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
    with toys.undrawn():
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
    expected = reference(layer, true=own)
    np.testing.assert_allclose(in_training(layer), expected, atol=1e-5)
    # Whatever the truth is.
    other = np.flip(target, axis=1)
    np.testing.assert_allclose(in_training(layer, other), expected, atol=1e-5)
    # But not when nothing is trained.
    np.testing.assert_allclose(call(layer), reference(layer), atol=1e-5)
    assert np.abs(reference(layer) - expected).max() > 0.01


def test_in_between_each_step_of_each_row_reads_the_one_or_the_other(monkeypatch):
    layer = decoder(constant(0.5))
    true = rng.uniform(size=(B, T)) < 0.5
    decided = {"true": keras.ops.convert_to_tensor(true)}
    monkeypatch.setattr(layer.feeding, "decide", lambda *_: dict(decided))
    expected = reference(layer, true=true)
    np.testing.assert_allclose(in_training(layer), expected, atol=1e-5)
    assert np.abs(reference(layer) - expected).max() > 0.01


def test_noise_decides_what_is_said(monkeypatch):
    layer = decoder(constant(0, sampled=True))
    noise = 3 * rng.normal(size=(B, T, 9))
    decided = {"true": np.zeros((B, T), bool), "noise": noise.astype("float32")}
    decided = {k: keras.ops.convert_to_tensor(v) for k, v in decided.items()}
    monkeypatch.setattr(layer.feeding, "decide", lambda *_: dict(decided))
    logits = in_training(layer)
    said = (logits + noise).argmax(axis=-1)
    assert (said != logits.argmax(axis=-1)).any()
    behind = np.insert(said[:, :-1], 0, 1, axis=1)
    args = behind, memory, summary, everywhere
    np.testing.assert_allclose(logits, references.run(layer, *args)[0], atol=1e-5)


def feeding(schedule):
    layer = Feeding(schedule)
    layer.build()
    return layer


@pytest.mark.parametrize("ratio", [0, 0.3, 0.8, 1])
def test_the_share_of_truth(ratio):
    layer = feeding(constant(ratio))
    true = [toys.array(layer.decide(np.zeros((200, 250)), 9)["true"]) for _ in range(2)]
    assert np.mean(true) == pytest.approx(ratio, abs=0.01)
    assert (true[0] != true[1]).any() == (0 < ratio < 1)
    assert int(layer.steps) == 2


def test_the_share_falls_with_the_steps():
    layer = feeding(ScheduledSampling("linear", steps=4, lowest=0.1))
    shares = [
        toys.array(layer.decide(np.zeros((200, 250)), 9)["true"]).mean()
        for _ in range(5)
    ]
    np.testing.assert_allclose(shares, [1, 0.75, 0.5, 0.25, 0.1], atol=0.01)
    assert shares[0] == 1


def test_sampled_tokens_are_drawn_from_the_probabilities():
    layer = feeding(constant(0, sampled=True))
    logits = np.array([1.0, 0.0, -1.0, 2.0, -30.0], "float32")
    noise = layer.decide(np.zeros((200, 250)), 5)["noise"]
    assert tuple(noise.shape) == (200, 250, 5)
    many = keras.ops.broadcast_to(logits, (50000, 5))
    said = toys.array(layer.say(many, keras.ops.reshape(noise, (-1, 5))))
    shares = np.bincount(said, minlength=5) / len(said)
    np.testing.assert_allclose(shares, references.softmax(logits), atol=0.01)
    assert (toys.array(layer.say(many)) == 3).all()


def test_what_is_said_is_dropped_as_the_truth_is():
    """All of a token is dropped, whichever is read: then logits know of no token."""
    layer = decoder(constant(0), dropout=0.5)
    seen = []

    def drop(x, training=False):
        seen.append(tuple(x.shape))
        return x if x.shape[-1] == 17 else 0 * x

    layer.drop.call = drop
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


def test_training_steps():
    """With ratio 1 those of teacher forcing, and with 0 those of what is said.

    So no gradient flows through the choice of what is said.
    """
    start = plain().get_weights()
    truth = weights_after_a_step(plain(), target)
    plain().set_weights(start)
    run = kernels.inference(plain())
    said = [np.ones((B, 1), "int32")]  # read one after the other
    for _ in range(T - 1):
        read = np.pad(np.concatenate(said, 1), ((0, 0), (0, T - len(said))))
        logits = toys.array(run([source, read.astype("int32")]))
        said.append(logits[:, len(said) - 1].argmax(axis=-1)[:, None])
    own = weights_after_a_step(plain(), np.concatenate(said, 1).astype("int32"))
    plain().set_weights(start)
    moved = [np.abs(a - b).max() for a, b in zip(truth, own, strict=True)]
    assert max(moved) > 1e-3
    for made, expected in ((scheduled(1), truth), (scheduled(0), own)):
        found = weights_after_a_step(made, target)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        assert int(made.decoder.feeding.steps) == 1


def test_a_resumed_run_goes_on_counting(tmp_path):
    """With dropout and draws: all of it ends where an uninterrupted run does."""
    schedule = ScheduledSampling("linear", steps=7, sampled=True)
    made = toys.trainable(
        toys.model("elman", attention=None, dropout=0.3, scheduled_sampling=schedule)
    )
    steps = made.decoder.feeding.steps
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
    assert int(loaded.decoder.feeding.steps) == 4
    assert loaded.decoder.feeding.schedule.get_config() == schedule.get_config()
