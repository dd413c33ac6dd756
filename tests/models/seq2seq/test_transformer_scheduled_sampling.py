"""Scheduled sampling of Transformers, in two passes."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq.core.padding import END, PADDING, START
from kerasseq.training import ScheduledSampling
from tests.models.seq2seq.transformer_toys import (
    W,
    compile_eager,
    fill,
    made,
    numpy,
    pairs,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

SOURCE, TARGET = pairs(rows=7)
TARGET[2, 4:] = PADDING


def sampling(ratio, **options):
    return ScheduledSampling("constant", ratio=ratio, **options)


def two(schedule, variant="relative"):
    """Equal models with and without scheduled sampling."""
    return fill(made(variant, scheduled_sampling=schedule), made(variant))


@pytest.mark.parametrize("variant", ["vaswani", "t5"])
def test_ratio_1_is_teacher_forcing(variant):
    sampled, forced = two(sampling(1.0), variant)
    inputs = [SOURCE, TARGET]
    trained = numpy(sampled(inputs, training=True))
    np.testing.assert_allclose(trained, numpy(forced(inputs, training=True)), atol=1e-6)
    assert int(sampled.scheduled_sampler.steps) == 1


def test_ratio_0_uses_predictions_of_the_first_pass():
    sampled, forced = two(sampling(0.0))
    first = numpy(forced([SOURCE, TARGET]))
    read = TARGET.copy()
    read[:, 1:] = first.argmax(-1)[:, :-1]
    read[TARGET == PADDING] = PADDING
    assert (read[:, 0] == START).all() and (read != TARGET).any()
    found = numpy(sampled([SOURCE, TARGET], training=True))
    np.testing.assert_allclose(found, numpy(forced([SOURCE, read])), atol=1e-5)
    # Only in training.
    np.testing.assert_allclose(numpy(sampled([SOURCE, TARGET])), first, atol=1e-6)
    assert int(sampled.scheduled_sampler.steps) == 1


def test_fraction_of_replaced_tokens():
    model = made(scheduled_sampling=sampling(0.3))
    target = np.full((50, 41), 5, "int32")
    target[:, 0] = START
    logits = ops.one_hot(np.full((50, 41), 7), W + 2)
    mixed = numpy(model.mix_predictions(target, logits))
    assert set(mixed[:, 1:].flatten()) == {5, 7} and (mixed[:, 0] == START).all()
    assert (mixed[:, 1:] == 5).mean() == pytest.approx(0.3, abs=0.04)
    assert mixed.dtype == target.dtype
    again = numpy(model.mix_predictions(target, logits))
    assert (again != mixed).any()  # another draw each time


def test_predictions_are_sampled():
    model = made(scheduled_sampling=sampling(0.0, sampled=True))
    p = np.zeros(W + 2)
    p[[5, 7]] = 0.25, 0.75
    logits = np.broadcast_to(np.log(p + 1e-9), (50, 41, W + 2)).astype("float32")
    target = np.full((50, 41), 9, "int32")
    mixed = numpy(model.mix_predictions(target, ops.convert_to_tensor(logits)))[:, 1:]
    assert (mixed == 7).mean() == pytest.approx(0.75, abs=0.05)
    assert (mixed == 5).mean() == pytest.approx(0.25, abs=0.05)


def test_dropout_only_in_the_second_pass():
    schedule = sampling(1.0)
    sampled, forced = fill(
        made("relative", dropout=0.4, scheduled_sampling=schedule),
        made("relative", dropout=0.4),
    )
    drawn = []
    for model in (sampled, forced):
        seeds = [w for w in model.non_trainable_variables if w.path.endswith("_state")]
        for weight in seeds:
            weight.assign(np.array([5, 0]))
        drawn.append(numpy(model([SOURCE, TARGET], training=True)))
    np.testing.assert_allclose(*drawn, atol=1e-5)
    assert np.abs(drawn[0] - numpy(forced([SOURCE, TARGET]))).max() > 0.1


def test_steps_are_counted_and_saved(tmp_path):
    model = fill(made(scheduled_sampling=ScheduledSampling("linear", steps=10)))
    compile_eager(model)
    wanted = np.concatenate([TARGET[:, 1:], np.full((7, 1), END)], axis=1)
    model.fit((SOURCE, TARGET), wanted, epochs=2, verbose=0)
    assert int(model.scheduled_sampler.steps) == 2
    model.evaluate((SOURCE, TARGET), wanted, verbose=0)
    assert int(model.scheduled_sampler.steps) == 2
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert int(loaded.scheduled_sampler.steps) == 2
    assert (
        loaded.scheduled_sampler.schedule.get_config()
        == model.scheduled_sampler.schedule.get_config()
    )


@pytest.mark.everywhere("compiled")
def test_fit_with_default_compile():
    keras.utils.set_random_seed(0)
    model = made(num_layers=1, scheduled_sampling=sampling(0.5))
    history = model.fit([[3, 4]] * 9, [[5, 6]] * 9, batch_size=3, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert int(model.scheduled_sampler.steps) == 3
