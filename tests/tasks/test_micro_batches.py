"""The gradient of a batch, computed in parts."""

import keras
import numpy as np
import pytest

from kerasseq import load_model, models, text, training
from kerasseq.tasks.loss_means import LossMeans
from tests.tasks import on_equal_devices

pytestmark = pytest.mark.once("messages, and what is saved")


def trained(name, **options):
    """Returns a model after three batches of 5 rows, and its losses."""
    keras.utils.set_random_seed(5)  # no gradient is near 0, where Adam divides rounding
    make, data = on_equal_devices.CASES[name]
    model = make()
    model.compile(keras.optimizers.Adam(1e-2, global_clipnorm=1.0), **options)
    data = {key: rows[:5] for key, rows in data.items()}
    history = model.fit(**data, batch_size=5, epochs=3, shuffle=False, verbose=0)
    return model, history.history


@pytest.mark.full("test_equal_devices.py finds the same faults on JAX")
@pytest.mark.parametrize("name", ["tagger", "classifier", "gpt"])
def test_parts_of_a_batch_are_the_batch(name):
    """Parts of 3 and 2 rows, or on JAX of 2, 2 and 1, with other numbers of steps."""
    whole, expected = trained(name)
    parts, found = trained(name, micro_batches=2)
    assert found.keys() == expected.keys()
    for metric, values in expected.items():
        np.testing.assert_allclose(found[metric], values, rtol=2e-6, err_msg=metric)
    for one, other in zip(parts.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    # The learning rate of a schedule falls by updates.
    assert int(parts.optimizer.iterations) == int(whole.optimizer.iterations) == 3


def test_accumulation_of_keras_is_not_the_batch():
    """It is said, and the difference is as large as the lengths are unequal."""
    keras.utils.set_random_seed(3)
    make, data = on_equal_devices.CASES["tagger"]
    whole, parts = make(), make()
    parts.set_weights(whole.get_weights())
    whole.compile(keras.optimizers.SGD(0.5))
    with pytest.warns(UserWarning, match="compile\\(micro_batches=3\\)"):
        parts.compile(keras.optimizers.SGD(0.5, gradient_accumulation_steps=3))
    for model, size in ((whole, 9), (parts, 3)):
        model.fit(**data, batch_size=size, shuffle=False, verbose=0)
    differences = [
        abs(one - other).max()
        for one, other in zip(parts.get_weights(), whole.get_weights(), strict=True)
    ]
    assert max(differences) > 1e-3


def test_saved_with_the_model(tmp_path):
    model, data = on_equal_devices.compiled("tagger", micro_batches=2)
    model.save(tmp_path / "model.keras")
    again = load_model(tmp_path / "model.keras")
    assert again.micro_batches == 2
    assert len(again.fit(**data).history["loss"]) == 1


@pytest.mark.parametrize(
    "value, error", [(0, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_wrong_numbers(value, error):
    make, _ = on_equal_devices.CASES["tagger"]
    with pytest.raises(error, match="micro_batches must be"):
        make().compile(micro_batches=value)


@pytest.mark.everywhere("parts are added up by each backend")
def test_several_losses_are_means_over_different_numbers():
    """Parts have other shares of the masked tokens than of the rows."""
    scores, weights = [], []
    for parts in (1, 2):
        keras.utils.set_random_seed(3)
        model = on_equal_devices.pretraining()
        x, y, sample_weight = keras.tree.map_structure(lambda a: a[:5], model.rows)
        sample_weight["tokens"][1] = 0
        of_losses = {"tokens": 0.3, "next": 2.0}
        options = {"loss_weights": of_losses, "micro_batches": parts}
        if keras.backend.backend() == "tensorflow":
            options["jit_compile"] = False  # XLA takes longer to compile both
        model.compile(keras.optimizers.SGD(0.5), **options)
        found = model.train_on_batch(x, y, sample_weight, return_dict=True)
        scores.append({name: float(score) for name, score in found.items()})
        weights.append(model.get_weights())
    assert scores[1] == pytest.approx(scores[0], rel=2e-6)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)


def test_several_losses_with_a_rest():
    """A penalty of weights is no loss of an output, and counts as rows do."""
    weights = []
    for parts in (1, 3):
        keras.utils.set_random_seed(3)
        model = on_equal_devices.pretraining()
        penalized = model.get_layer("next")
        penalized.kernel.regularizer = keras.regularizers.L2(0.5)
        model.compile(keras.optimizers.SGD(0.5), micro_batches=parts)
        model.train_on_batch(*model.rows)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)


def test_several_losses_whose_counts_are_known_too_late():
    steps = keras.Input((None, 3))
    masked = keras.layers.Masking()(steps)
    outputs = {name: keras.layers.Dense(2, name=name)(masked) for name in "ab"}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    means = LossMeans(loss, None, outputs)
    with pytest.raises(ValueError, match=r"the steps of a mask of Keras \(a, b\)"):
        means.check_accumulation(2, None, None)
    means = LossMeans(loss, None, {name: steps for name in "ab"})
    means.check_accumulation(2, None, None)
    with pytest.raises(TypeError, match="dictionary with the targets of a, b"):
        means.totals(None, (np.ones((1, 2, 3)), [np.ones((1, 2))]))


def test_several_losses_of_which_one_is_a_function():
    """It is not known what it is a mean over: parts were weighed by their rows."""
    outputs = {name: keras.Input((2,)) for name in "ab"}
    known = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for loss in ("mse", {"a": known, "b": "mse"}, {"a": known, "b": max}):
        with pytest.raises(ValueError, match="each of several losses must be a keras"):
            LossMeans(loss, None, outputs).check_accumulation(2, None, None)
    LossMeans({"a": None, "b": "mse"}, None, outputs).check_accumulation(2, None, None)


def test_a_sum_over_the_batch():
    model = models.SequenceTagger("elman", 5, vocabulary_size=11, units=3)
    loss = keras.losses.SparseCategoricalCrossentropy(True, reduction="sum")
    with pytest.raises(ValueError, match='received reduction="sum" of Sparse'):
        model.compile(loss=loss, micro_batches=2)


def test_a_memory_whose_rows_go_on():
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 2}
    model = models.GPT(vocabulary_size=5, memory_length=3, position="rope", **sizes)
    with pytest.raises(ValueError, match="must be 1 with memory_length"):
        model.compile(micro_batches=2)


def test_a_schedule_counts_batches_and_not_their_parts():
    """All parts of a batch have the same ratio, and the next batch the next."""
    letters = text.CharacterTokenizer().fit("abc")
    model = models.Seq2Seq(
        *("gru", letters, letters),
        units=2,
        scheduled_sampling=training.ScheduledSampling("inverse_sigmoid", k=3.0),
    )
    model.compile(micro_batches=3)
    model.fit([("ab", "ba"), ("abc", "c"), ("a", "b")], epochs=2, verbose=0)
    assert [int(v) for v in model.variables if v.name == "steps"] == [2]


def test_a_part_without_labels_for_a_crf():
    """It counts nothing: its loss is a mean over no steps."""
    ids = np.array([[3, 2, 0], [0, 0, 0], [1, 4, 2]])
    weights = []
    for parts in (1, 3):
        keras.utils.set_random_seed(3)
        model = models.SequenceTagger("elman", 5, vocabulary_size=11, units=3, crf=True)
        model.compile(keras.optimizers.SGD(0.5), micro_batches=parts)
        model.train_on_batch(ids, ids)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_float16_holds_the_gradient_of_parts():
    """Keras scales the loss by 32,768: times its steps, all would be infinite."""
    keras.utils.set_random_seed(3)
    with_policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        make, data = on_equal_devices.CASES["gpt"]
        model = make()
    finally:
        keras.config.set_dtype_policy(with_policy)
    before = model.get_weights()[0]
    model.compile(keras.optimizers.SGD(0.1), micro_batches=2)
    model.train_on_batch(data["x"], data["y"])
    assert abs(model.get_weights()[0] - before).max() > 1e-3
