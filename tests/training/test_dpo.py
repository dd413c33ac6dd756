"""Direct preference optimization: its loss, gradient and model."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import kernels, models, training
from kerasseq.datasets import Preferences
from tests.training.policies import LETTERS, V, elman, gpt, log_p_of, logits_of

pytestmark = pytest.mark.once("equations on a small model")

PROMPTS, CHOSEN = ["abc", "e", "da", "bb", "c"], ["a", "bce", "dd", "ca", "abcda"]
ROWS = Preferences(PROMPTS, CHOSEN, ["ed", "b", "aecb", "c", "eb"])
BETA = 0.3


def log_p(model, prompt, answer):
    """The log-probability of an answer, the sum over its tokens."""
    return log_p_of(model, LETTERS.encode(prompt + answer))[len(prompt) - 1 :].sum()


def wanted(model, reference):
    """Rewards `(rows, 2)` and mean loss, in NumPy."""
    rewards = BETA * np.array([
        [log_p(model, x, y) - log_p(reference, x, y) for y in both]
        for x, *both in zip(*ROWS, strict=True)
    ])  # fmt: skip
    return rewards, np.mean(np.log1p(np.exp(rewards[:, 1] - rewards[:, 0])))


@pytest.mark.everywhere("the numbers of the backend")
def test_loss_and_rewards_are_those_of_numpy():
    """The same weights give the same numbers on each backend."""
    model, reference = elman(seed=2), elman(seed=3)
    rewards, loss = wanted(model, reference)
    assert np.abs(rewards).min() > 1e-3
    dpo = training.DPO(model, BETA, reference)
    found = dpo.evaluate(ROWS, verbose=0, return_dict=True)
    margins = rewards[:, 0] - rewards[:, 1]
    assert found["loss"] == pytest.approx(loss, abs=1e-5)
    assert found["rewards/chosen"] == pytest.approx(rewards[:, 0].mean(), abs=1e-5)
    assert found["rewards/rejected"] == pytest.approx(rewards[:, 1].mean(), abs=1e-5)
    assert found["rewards/margins"] == pytest.approx(margins.mean(), abs=1e-5)
    assert found["rewards/accuracies"] == pytest.approx((margins > 0).mean())


def test_padding_and_batch_size_change_nothing():
    model, reference = elman(seed=2), elman(seed=3)
    rewards, loss = wanted(model, reference)
    dpo = training.DPO(model, BETA, reference)
    for padding, size in ((0, 5), (2, 5), (0, 2), (3, 1)):
        widths = ((0, 0), (0, 0), (0, padding))
        arrays = {name: np.pad(each, widths) for name, each in dpo.encode(ROWS).items()}
        found = dpo.predict(arrays, batch_size=size, verbose=0)
        np.testing.assert_allclose(found, rewards, atol=1e-5)
        found = dpo.evaluate(arrays, batch_size=size, verbose=0, return_dict=True)
        assert found["loss"] == pytest.approx(loss, abs=1e-5)


def test_padding_does_not_load_experts():
    """Loss and balance loss are those of the shortest arrays."""
    keras.utils.set_random_seed(7)
    options = {"capacity_factor": 1.0, "router_aux_loss_coef": 0.5}
    experts = kerasseq.layers.MixtureOfExperts(3, 5, **options)
    model, reference = gpt(feed_forward=experts), gpt(feed_forward=experts)
    dpo = training.DPO(model, BETA, reference)
    found = []
    for padding in (0, 3):
        widths = ((0, 0), (0, 0), (0, padding))
        arrays = {name: np.pad(each, widths) for name, each in dpo.encode(ROWS).items()}
        rewards = dpo(arrays, training=True)
        loss = dpo.compute_loss(y_pred=rewards)
        found.append(np.hstack([*map(ops.convert_to_numpy, (loss, *rewards))]))
    np.testing.assert_allclose(*found, atol=1e-6)
    counted = ops.convert_to_numpy(model.losses[0])
    model(arrays["ids"].reshape(10, -1)[:, :-1], training=True)  # padding as tokens
    assert np.abs(ops.convert_to_numpy(model.losses[0]) - counted) > 1e-3


def test_batches_of_a_stream_are_those_of_fit():
    whole, streamed = (training.DPO(elman(seed=5), BETA) for _ in range(2))
    whole.fit(ROWS, epochs=2, batch_size=2, seed=3, verbose=0)
    batches = streamed.batches(ROWS, batch_size=2, seed=3)
    options = {"steps_per_epoch": batches.steps_per_epoch, "verbose": 0}
    streamed.fit(batches.stream(), epochs=1, **options)
    later = batches.stream(batches.steps_per_epoch)
    streamed.fit(later, initial_epoch=1, epochs=2, shuffle=False, **options)
    for a, b in zip(whole.model.weights, streamed.model.weights, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (a, b)), atol=1e-6)


def test_lengths_of_neighbors_differ_wherever_a_run_is_resumed():
    rows = [{"prompt": "a", "chosen": "b" * n, "rejected": "c"} for n in (3, 5, 5)]
    batches = training.DPO(elman(seed=5), BETA).batches(rows, batch_size=1)
    lengths = [batches.batch(n)[0]["ids"].shape[2] for n in range(7)]
    assert all(one != next for one, next in itertools.pairwise(lengths))


def test_divergence_is_that_of_numpy():
    model, reference = elman(seed=2), elman(seed=3)
    dpo = training.DPO(model, BETA, reference)
    expected = 0
    for prompt in PROMPTS:  # at the first token the sum over the vocabulary is exact
        p, q = (next_of(each, prompt) for each in (model, reference))
        expected += np.sum(p * np.log(p / q)) / len(PROMPTS)
    found = dpo.divergence(PROMPTS, max_new_tokens=1, num_generations=3)
    assert found == pytest.approx(expected, abs=1e-5) and found > 0.1
    same = training.DPO(model, BETA).divergence(PROMPTS, max_new_tokens=5)
    assert same == pytest.approx(0, abs=1e-6)


def next_of(model, prompt):
    """The probabilities of the next token, in NumPy."""
    logits = logits_of(model, LETTERS.encode(prompt))[-1]
    return np.exp(logits) / np.exp(logits).sum()


def difference_of_gradients(model, arrays):
    """The mean of ∇ln π(chosen) − ∇ln π(rejected) over rows, by differentiation."""
    ids, answer = (arrays[name].reshape(10, -1) for name in ("ids", "answer"))
    sign = np.tile([1, -1], 5)[:, None, None]
    picked = np.eye(V)[ids[:, 1:]] * answer[:, 1:, None] * sign  # (10, T, V)
    frozen = [v.value for v in model.non_trainable_variables]

    def mean(variables):
        logits = model.stateless_call(variables, frozen, ids[:, :-1])[0]
        each = ops.log_softmax(logits)
        return ops.sum(each * ops.convert_to_tensor(picked, each.dtype)) / 5

    return kernels.gradients(mean, [v.value for v in model.trainable_variables])


@pytest.mark.everywhere("gradients of the backend")
def test_first_loss_and_gradient_at_the_reference():
    model = elman(seed=5)
    dpo = training.DPO(model, BETA)
    before = [ops.convert_to_numpy(w).copy() for w in model.trainable_variables]
    expected = difference_of_gradients(model, dpo.encode(ROWS))
    dpo.compile(keras.optimizers.SGD(1.0))
    history = dpo.fit(ROWS, batch_size=len(PROMPTS), verbose=0).history
    assert history["loss"][0] == pytest.approx(np.log(2), abs=1e-6)
    assert history["rewards/margins"][0] == pytest.approx(0, abs=1e-6)
    for weight, old, gradient in zip(
        model.trainable_variables, before, expected, strict=True
    ):
        moved = ops.convert_to_numpy(weight) - old
        assert np.abs(moved).max() > 1e-3
        gradient = ops.convert_to_numpy(gradient)
        np.testing.assert_allclose(moved, BETA / 2 * gradient, atol=1e-5)


def test_only_the_model_is_trained_and_it_stays_what_it_is(tmp_path):
    keras.utils.set_random_seed(3)
    model = gpt()
    names = ROWS._fields
    table = [dict(zip(names, row, strict=True)) for row in zip(*ROWS, strict=True)]
    dpo = training.DPO(model, BETA)
    dpo.compile(keras.optimizers.Adam(1e-2))
    assert dpo.trainable_variables == model.trainable_variables
    frozen = dpo.reference.get_weights()
    history = dpo.fit(
        table, epochs=9, batch_size=2, verbose=0, validation_data=ROWS
    ).history
    for name in ("loss", *(f"rewards/{m}" for m in training.dpo.METRICS)):
        assert len(history[name]) == len(history[f"val_{name}"]) == 9
    assert history["val_loss"][-1] < 0.6 < np.log(2)
    assert history["val_rewards/accuracies"][-1] >= 0.8
    for old, new in zip(frozen, dpo.reference.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)

    model.save(tmp_path / "gpt.keras")
    loaded = kerasseq.load_model(tmp_path / "gpt.keras")
    assert type(loaded) is models.GPT
    assert loaded.generate("abc", 5, seed=0) == model.generate("abc", 5, seed=0)

    dpo.save(tmp_path / "dpo.keras")
    again = kerasseq.load_model(tmp_path / "dpo.keras")
    assert again.beta == BETA and int(again.optimizer.iterations) == 18
    assert len(again.trainable_variables) == len(model.trainable_variables)
    rewards = dpo.predict(ROWS, verbose=0)
    assert rewards.shape == (5, 2)
    np.testing.assert_allclose(again.predict(ROWS, verbose=0), rewards, atol=1e-6)
    for each in (dpo, again):  # both go on alike
        each.fit(ROWS, initial_epoch=9, epochs=10, batch_size=2, verbose=0)
    np.testing.assert_allclose(
        again.predict(ROWS, verbose=0), dpo.predict(ROWS, verbose=0), atol=1e-5
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: models.Mamba(LETTERS, num_layers=1, hidden_dim=6),
        lambda: models.RWKV(LETTERS, num_layers=1, hidden_dim=6),
        lambda: models.LanguageModel("gru", LETTERS, units=3),
    ],
)
def test_language_models_of_other_kinds(make):
    """The first loss is ln 2, and the next is lower."""
    dpo = training.DPO(make(), 1.0)
    dpo.compile(keras.optimizers.Adam(1e-2))
    losses = dpo.fit(ROWS, epochs=2, batch_size=5, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(np.log(2), abs=1e-6) and losses[1] < 0.69


def test_an_adapter_is_trained_alone(tmp_path):
    model = gpt()
    kernels_before = [ops.convert_to_numpy(w) for w in model.weights]
    model.enable_lora(2)
    dpo = training.DPO(model, BETA)
    dpo.compile(keras.optimizers.Adam(1e-2))
    losses = dpo.fit(ROWS, batch_size=5, epochs=9, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(np.log(2), abs=1e-6) and losses[-1] < losses[0]
    assert {w.name for w in dpo.trainable_weights} == {"lora_a", "lora_b"}
    others = [w for w in model.weights if "lora" not in w.name]
    for before, weight in zip(kernels_before, others, strict=True):
        assert np.array_equal(before, ops.convert_to_numpy(weight))
    dpo.save(tmp_path / "dpo.keras")
    again = kerasseq.load_model(tmp_path / "dpo.keras")
    assert {w.name for w in again.trainable_weights} == {"lora_a", "lora_b"}
    rewards = dpo.predict(ROWS, verbose=0)
    np.testing.assert_allclose(again.predict(ROWS, verbose=0), rewards, atol=1e-6)


def test_training_is_resumed(tmp_path):
    """A run that was interrupted after an epoch ends as one that was not."""
    whole, first, second = (training.DPO(elman(seed=5), BETA) for _ in range(3))
    options = {"batch_size": 2, "seed": 3, "verbose": 0}
    whole.fit(ROWS, epochs=2, **options)
    first.fit(ROWS, epochs=1, callbacks=[training.Checkpoint(tmp_path)], **options)
    assert training.restore(second, tmp_path) == 1
    second.fit(ROWS, initial_epoch=1, epochs=2, **options)
    for a, b in zip(whole.model.weights, second.model.weights, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (a, b)), atol=1e-6)


def test_ids_without_a_tokenizer_and_columns():
    model = models.LanguageModel("gru", vocabulary_size=5, units=3)
    dpo = training.DPO(model)
    columns = {"prompt": [[1, 2]], "chosen": [np.array([3])], "rejected": [[4, 0]]}
    arrays = dpo.encode(columns)
    assert arrays["ids"].tolist() == [[[1, 2, 3, 0], [1, 2, 4, 0]]]
    assert arrays["answer"].sum(-1).tolist() == [[1, 2]]
    assert dpo.predict(columns, verbose=0).tolist() == [[0, 0]]


@pytest.mark.once("no tensors")
def test_messages_are_written_by_the_chat_template():
    letters = kerasseq.text.CharacterTokenizer(unknown=None).fit("abcde")
    marks = {"user": "a", "assistant": "b", "system": "c", "end": "d"}
    letters.chat_template = kerasseq.text.ChatTemplate(**marks)
    dpo = training.DPO(models.LanguageModel("gru", letters, units=3))
    asked = [{"role": "user", "content": "bc"}]
    chosen = [{"role": "assistant", "content": "a"}]
    plain = [{"prompt": "abcb", "chosen": "ad", "rejected": "cd"}]
    for row in (
        {"prompt": asked, "chosen": chosen, "rejected": "c"},
        {"prompt": asked, "chosen": [*asked, *chosen], "rejected": "c"},
        {"prompt": "bc", "chosen": chosen, "rejected": "c"},
    ):
        found, expected = dpo.encode([row]), dpo.encode(plain)
        for name in ("ids", "answer"):
            np.testing.assert_array_equal(found[name], expected[name])
    wrong = {"prompt": asked, "chosen": asked, "rejected": "c"}
    with pytest.raises(ValueError, match=r"x\[0\], chosen must be one message of the"):
        dpo.encode([wrong])


GOOD = {"prompt": "ab", "chosen": "c", "rejected": "d"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": ""}, r"x\[1\], prompt must not be empty"),
        ({"chosen": "d"}, r"x\[1\], chosen and rejected must differ"),
        ({"chosen": None}, r"x\[1\], chosen must be a text, or ids .* None"),
        ({"chosen": [7]}, "7 at position 0"),
        ({"chosen": []}, r"x\[1\], chosen must not be empty, received \[\]"),
        ({"chosen": [3], "rejected": [3]}, r"x\[1\], .* must differ in a token"),
        ({"chosen": [{"role": "user"}]}, "messages need the chat template .*has none"),
        ({"chosen": "c" * 11}, r"x\[1\] must have at most 12 tokens, .* received 13"),
    ],
)
def test_wrong_rows_are_named(row, message):
    with pytest.raises((TypeError, ValueError), match=message):
        training.DPO(gpt()).fit([GOOD, {**GOOD, **row}], verbose=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: training.DPO(keras.Sequential()), "model must be a language model"),
        (lambda: training.DPO(gpt(head=None)), "model must be a language model"),
        (lambda: training.DPO(gpt(), reference=3), "reference .* received 3"),
        (lambda: training.DPO(gpt(), 0), "beta must be a number above 0, received 0"),
        (
            lambda: training.DPO(elman(), reference=models.GPT(vocabulary_size=3)),
            "reference must have the vocabulary .* received 3 and 5 ids",
        ),
        (lambda: training.DPO(gpt()).compile("adam", loss="mse"), "loss must be left"),
        (lambda: training.DPO(gpt()).fit([], verbose=0), "x must have at least one"),
        (lambda: training.DPO(gpt()).fit("ab"), "x` must be a list of rows"),
        (lambda: training.DPO(gpt()).fit([GOOD], patience=3), "no argument patience"),
        (lambda: training.DPO(gpt()).fit([{"prompt": "a"}]), "without chosen and"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
