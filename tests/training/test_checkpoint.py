"""A run that was killed and resumed ends where an uninterrupted one does."""

import os

import keras
import numpy as np
import pytest

from kerasseq.layers import (
    ElmanRNN,
    FeedForward,
    MultiHeadAttention,
    TransformerEncoder,
)
from kerasseq.models import BERT, LanguageModel, ViT
from kerasseq.training import (
    ArrayBatches,
    Checkpoint,
    TextBatches,
    batches_done,
    restore,
)

pytestmark = pytest.mark.once("restoring NumPy arrays")

FILE = "checkpoint.npz"
ids = np.random.default_rng(0).integers(0, 5, 300)
OPTIONS = {"sequence_length": 7, "batch_size": 5, "steps_per_epoch": 3, "verbose": 0}


def make(architecture="lstm"):
    keras.utils.set_random_seed(0)
    return LanguageModel(architecture, vocabulary_size=5, units=3, dropout=0.4)


def array(value):
    return keras.ops.convert_to_numpy(value)


class Killed(Exception):
    pass


class KillIn(keras.callbacks.Callback):
    """Stop in the middle of an epoch, as `kill -9` does."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch, self.current = epoch, None

    def on_epoch_begin(self, epoch, logs=None):
        self.current = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.current == self.epoch and batch == 1:
            raise Killed


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    model, checkpoint = make(), Checkpoint(folder)
    model.fit(
        ids, epochs=4, callbacks=[checkpoint], validation_data=ids[:50], **OPTIONS
    )
    return model, checkpoint, folder


@pytest.mark.everywhere("state of optimizer and random numbers of the backend")
def test_a_killed_run_goes_on_as_if_nothing_had_happened(whole, tmp_path):
    model, uninterrupted, _ = whole
    with pytest.raises(Killed):
        make().fit(
            ids,
            epochs=4,
            callbacks=[Checkpoint(tmp_path), KillIn(2)],
            validation_data=ids[:50],
            **OPTIONS,
        )
    keras.utils.set_random_seed(99)  # another process has other random numbers
    resumed = LanguageModel("lstm", vocabulary_size=5, units=3, dropout=0.4)
    done = restore(resumed, tmp_path)
    assert done == 2
    checkpoint = Checkpoint(tmp_path)
    resumed.fit(
        ids,
        epochs=4,
        initial_epoch=done,
        callbacks=[checkpoint],
        validation_data=ids[:50],
        **OPTIONS,
    )
    assert len(checkpoint.history) == 4
    for one, other in zip(checkpoint.history, uninterrupted.history, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    for one, other in zip(resumed.variables, model.variables, strict=True):
        np.testing.assert_allclose(
            array(one), array(other), atol=1e-6, err_msg=one.path
        )
    pairs = zip(resumed.optimizer.variables, model.optimizer.variables, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(
            array(one), array(other), atol=1e-6, err_msg=one.path
        )


class StopWithin(KillIn):
    """Saves a checkpoint within an epoch, and stops."""

    def __init__(self, epoch, checkpoint):
        super().__init__(epoch)
        self.checkpoint = checkpoint

    def on_train_batch_end(self, batch, logs=None):
        if self.current == self.epoch and batch == 1:
            self.checkpoint.save(batch + 1)
            raise Killed


@pytest.mark.everywhere("state of metrics, optimizer and random numbers")
@pytest.mark.parametrize("epoch", [0, 2])
def test_an_epoch_is_continued_where_it_stopped(tmp_path, epoch):
    model, uninterrupted = make(), Checkpoint(tmp_path / "whole")
    model.fit(ids, epochs=4, callbacks=[uninterrupted], **OPTIONS)
    checkpoint = Checkpoint(tmp_path)
    stop = StopWithin(epoch, checkpoint)
    with pytest.raises(Killed):
        make().fit(ids, epochs=4, callbacks=[checkpoint, stop], **OPTIONS)
    resumed = make()
    assert restore(resumed, tmp_path) == epoch and batches_done(tmp_path) == 2
    batches = TextBatches(ids, 7, 5, seed=0)
    for first, last, size in ((epoch, epoch + 1, 1), (epoch + 1, 4, 3)):
        start = first * 3 + 3 - size
        keras.Model.fit(
            resumed,
            batches.stream(start),
            initial_epoch=first,
            epochs=last,
            steps_per_epoch=size,
            shuffle=False,
            verbose=0,
            callbacks=[checkpoint],
        )
    assert batches_done(tmp_path) == 0
    for one, other in zip(checkpoint.history, uninterrupted.history, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    for one, other in zip(resumed.variables, model.variables, strict=True):
        np.testing.assert_allclose(
            array(one), array(other), atol=1e-6, err_msg=one.path
        )


@pytest.mark.everywhere("state of optimizer and random numbers of the backend")
def test_seeds_of_dropout_are_restored(whole):
    model, _, folder = whole
    copy = make()
    assert restore(copy, folder) == 4
    seeds = [v for v in model.variables if "seed" in v.path]
    assert seeds
    for one, other in zip(copy.variables, model.variables, strict=True):
        np.testing.assert_array_equal(array(one), array(other), err_msg=one.path)


def test_arrays_are_streamed_from_where_the_run_stopped():
    x = np.arange(20)
    batches = ArrayBatches(x, x, batch_size=4, seed=0)
    stream = batches.stream(start=2 * batches.steps_per_epoch)
    np.testing.assert_array_equal(next(stream)[0], batches.batch(10)[0])


def test_nothing_to_restore_yet(tmp_path):
    assert restore(make(), tmp_path) == 0
    assert restore(make(), tmp_path / "nowhere") == 0


@pytest.mark.parametrize("broken", ["replace", "savez", "fsync"])
def test_a_write_that_fails_leaves_the_last_whole_file(whole, monkeypatch, broken):
    model, _, folder = whole
    file = folder / FILE
    before = file.read_bytes()
    checkpoint = Checkpoint(folder)
    checkpoint.set_model(model)
    checkpoint.on_train_begin()

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np if broken == "savez" else os, broken, fail)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.on_epoch_end(0, {"loss": 1.0})
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert [p.name for p in folder.iterdir()] == [FILE]


@pytest.mark.parametrize("kept", [0, 10, 0.5, -100, -1])
def test_a_truncated_file(whole, tmp_path, kept):
    data = (whole[2] / FILE).read_bytes()
    kept = int(len(data) * kept) if isinstance(kept, float) else kept
    (tmp_path / FILE).write_bytes(data[:kept])
    with pytest.raises(ValueError, match=r"is damaged or not a checkpoint.*Delete it"):
        restore(make(), tmp_path)
    with pytest.raises(ValueError, match="is damaged"):
        Checkpoint(tmp_path).on_train_begin()


def test_a_file_with_a_wrong_byte(whole, tmp_path):
    data = bytearray((whole[2] / FILE).read_bytes())
    middle = data.index(b"\x93NUMPY") + 135  # in the first array
    data[middle] ^= 0xFF
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        restore(make(), tmp_path)


def test_a_file_of_something_else(tmp_path):
    np.savez(tmp_path / FILE, weights=np.ones(3))
    with pytest.raises(ValueError, match="is damaged or not a checkpoint"):
        restore(make(), tmp_path)
    np.savez(tmp_path / FILE, state=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="is damaged or not a checkpoint"):
        restore(make(), tmp_path)


@pytest.mark.parametrize("architecture", ["gru", "coupled_lstm", "peephole_lstm"])
def test_a_file_of_another_model(whole, architecture):
    model = make(architecture)
    before = [array(w) for w in model.weights]
    with pytest.raises(ValueError, match="is of another model or optimizer"):
        restore(model, whole[2])
    for one, other in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(one, array(other))


@pytest.mark.everywhere("state of optimizer and random numbers of the backend")
def test_bfloat16_variables(tmp_path):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, dtype="bfloat16")]
    )
    model.compile("sgd", "mse")
    checkpoint = Checkpoint(tmp_path)
    checkpoint.set_model(model)
    checkpoint.on_train_begin()
    checkpoint.on_epoch_end(0)
    before = array(keras.ops.cast(model.weights[0], "float32"))
    model.set_weights([np.zeros(w.shape) for w in model.weights])
    assert restore(model, tmp_path) == 1
    after = array(keras.ops.cast(model.weights[0], "float32"))
    np.testing.assert_array_equal(after, before)


def bert():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4}
    return BERT(vocabulary_size=11, dropout=0.4, head="classify", labels=2, **sizes)


def vit():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "channels": 1}
    return ViT(2, image_size=4, patch_size=2, dropout=0.4, **sizes)


@pytest.mark.everywhere("dropout of the backend", cases=1)
@pytest.mark.parametrize("make", [vit, bert])
def test_dropout_goes_on_where_it_was(make, tmp_path):
    rng, y = np.random.default_rng(0), np.arange(5) % 2
    x = rng.random((5, 4, 4, 1), "float32")
    if make is bert:
        ids = rng.integers(5, 11, (5, 7)).astype("int32")
        x = {"ids": ids, "segments": ids * 0}
    model, resumed = make(), make()
    for each in (model, resumed):
        each.compile(keras.optimizers.SGD(0.5))
    options = {"verbose": 0, "shuffle": False}
    model.fit(x, y, callbacks=[Checkpoint(tmp_path)], **options)
    model.fit(x, y, epochs=2, initial_epoch=1, **options)
    assert restore(resumed, tmp_path) == 1
    resumed.fit(x, y, epochs=2, initial_epoch=1, **options)
    for one, other in zip(resumed.weights, model.weights, strict=True):
        np.testing.assert_allclose(array(one), array(other), atol=1e-5)


def test_layers_of_ours_draw_from_states_of_their_own():
    x = np.ones((2, 3, 4), "float32")
    for make in (
        lambda: TransformerEncoder(5, 2, 0.5),
        lambda: MultiHeadAttention(2, 2, dropout=0.5),
        lambda: FeedForward(5, dropout=0.5),
        lambda: ElmanRNN(3, dropout=0.5),
    ):
        layer = make()
        inputs = (x, x) if isinstance(layer, MultiHeadAttention) else (x,)
        layer(*inputs)
        weights = {id(weight) for weight in layer.weights}
        states = [v for v in layer.variables if id(v) not in weights]
        before = [array(v) for v in states]
        one = array(layer(*inputs, training=True))
        other = array(layer(*inputs, training=True))
        for variable, value in zip(states, before, strict=True):
            variable.assign(value)
        assert (one != other).any() and states
        np.testing.assert_array_equal(array(layer(*inputs, training=True)), one)
