"""Group relative policy optimization: samples, loss, gradient and model."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import kernels, models, training
from kerasseq.training.grpo_loss import advantages
from tests.training.policies import LETTERS, V, elman, gpt, log_p_of

pytestmark = pytest.mark.once("equations on a small model")

PROMPTS = ["abc", "e", "da"]
G, NEW, BETA, EPSILON = 3, 5, 0.3, 0.2


def count_a(prompts, answers):
    return [answer.count("a") for answer in answers]


def made(model, reward=count_a, **options):
    options = {"num_generations": G, "max_new_tokens": NEW, **options}
    return training.GRPO(model, reward, **options)


def wanted(grpo, arrays, old):
    """Loss and mean KL of a batch in NumPy; `old` is the model that sampled."""
    losses, kls = [], []
    for ids, answer, advantage in zip(
        arrays["ids"], arrays["answer"], arrays["advantages"], strict=True
    ):
        own, fixed, before = (
            log_p_of(model, ids, grpo.temperature)[answer[1:]]
            for model in (grpo.model, grpo.reference, old)
        )
        ratio, gap = np.exp(own - before), fixed - own
        gain = np.minimum(
            ratio * advantage, np.clip(ratio, 1 - EPSILON, 1 + EPSILON) * advantage
        )
        kl = np.exp(gap) - gap - 1
        if grpo.use_bias_correction_kl:
            kl = ratio * kl
        losses.append((-gain + grpo.beta * kl).mean())
        kls.append(kl)
    return np.mean(losses), np.mean(np.concatenate(kls))


@pytest.mark.everywhere("the numbers of the backend")
def test_loss_and_kl_are_those_of_numpy():
    """Of a model that has moved away from the one that sampled: some ratios are cut."""
    old, model, reference = elman(seed=2), elman(seed=2), elman(seed=3)
    grpo = made(model, beta=BETA, reference=reference, stop="e", temperature=1.3)
    arrays = grpo.sample(PROMPTS, seed=5)
    assert len({*arrays["answer"].sum(1)}) > 1  # "e" ends some answers
    arrays["old"] = grpo.predict_on_batch(arrays)["model"]
    for weight in model.weights:
        weight.assign(weight * 1.2)
    ratio = np.exp(grpo.predict_on_batch(arrays)["model"] - arrays["old"])
    assert (np.abs(ratio - 1)[arrays["answer"][:, 1:]] > EPSILON).any()
    for corrected in (True, False):
        grpo.use_bias_correction_kl = corrected
        loss, kl = wanted(grpo, arrays, old)
        outputs = grpo(arrays)
        found = grpo.compute_loss(arrays, None, outputs)
        assert float(ops.convert_to_numpy(found)) == pytest.approx(loss, abs=1e-5)
        grpo.reset_metrics()
        logs = grpo.compute_metrics(arrays, None, outputs)
        assert float(logs["kl"]) == pytest.approx(kl, abs=1e-5)
        assert float(logs["reward"]) == pytest.approx(arrays["rewards"].mean())


def gradient_of(model, arrays, weights_of):
    """∂/∂θ of a mean over answers of Σ_t w_t ln π(y_t) / |y|, by differentiation."""
    ids, answer = arrays["ids"], arrays["answer"][:, 1:]
    picked = (
        np.eye(V)[ids[:, 1:]]
        * (weights_of * answer / answer.sum(1)[:, None])[..., None]
    )
    frozen = [v.value for v in model.non_trainable_variables]

    def mean(variables):
        logits = model.stateless_call(variables, frozen, ids[:, :-1])[0]
        each = ops.log_softmax(logits)
        return ops.sum(each * ops.convert_to_tensor(picked, each.dtype)) / len(ids)

    return kernels.gradients(mean, [v.value for v in model.trainable_variables])


@pytest.mark.parametrize(
    "corrected",
    [
        pytest.param(True, marks=pytest.mark.everywhere("gradients of the backend")),
        False,
    ],
)
def test_first_gradient(corrected):
    """−A + β (ln π − ln π_ref), or −A + β (1 − π_ref/π), times ∇ln π."""
    model, reference = elman(seed=5), elman(seed=6)
    grpo = made(model, beta=BETA, reference=reference, use_bias_correction_kl=corrected)
    grpo.compile(keras.optimizers.SGD(1.0))
    arrays = grpo.sample(PROMPTS, seed=1)
    gap = np.array([
        log_p_of(model, ids) - log_p_of(reference, ids) for ids in arrays["ids"]
    ])  # fmt: skip
    pull = gap if corrected else 1 - np.exp(-gap)
    expected = gradient_of(model, arrays, BETA * pull - arrays["advantages"][:, None])
    before = [ops.convert_to_numpy(w).copy() for w in model.trainable_variables]
    grpo.train_on_batch(arrays)
    for weight, old, gradient in zip(
        model.trainable_variables, before, expected, strict=True
    ):
        moved = ops.convert_to_numpy(weight) - old
        assert np.abs(moved).max() > 1e-3
        gradient = ops.convert_to_numpy(gradient)
        np.testing.assert_allclose(moved, -gradient, atol=1e-5)


def test_equal_rewards_at_the_reference_move_nothing():
    model = elman(seed=5)
    grpo = made(model, lambda prompts, answers: [7.0] * len(answers))
    grpo.compile(keras.optimizers.SGD(1.0))
    before = model.get_weights()
    history = grpo.fit(PROMPTS, verbose=0).history
    assert abs(history["loss"][0]) < 1e-7 and abs(history["kl"][0]) < 1e-7
    assert history["reward"] == [7.0]
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_allclose(old, new, atol=1e-7)


def test_advantages_are_those_of_numpy():
    rewards = np.random.default_rng(0).normal(size=15)
    groups = rewards.reshape(3, 5)
    centered = groups - groups.mean(1, keepdims=True)
    found = advantages(rewards, 5, False)
    np.testing.assert_allclose(found, centered.reshape(-1), atol=1e-6)
    scaled = centered / (np.sqrt((centered**2).sum(1, keepdims=True) / 4) + 1e-4)
    found = advantages(rewards, 5, True)
    np.testing.assert_allclose(found, scaled.reshape(-1), atol=1e-6)


MAKERS = {
    "gpt": gpt,
    "mamba": lambda: models.Mamba(LETTERS, num_layers=1, hidden_dim=6),
    "rwkv": lambda: models.RWKV(LETTERS, num_layers=1, hidden_dim=6),
    "gru": lambda: models.LanguageModel("gru", LETTERS, units=3),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_cached_samples_have_the_log_probabilities_of_the_whole_text(kind):
    keras.utils.set_random_seed(4)
    model = MAKERS[kind]()
    grpo = made(model)
    rows = [LETTERS.encode(prompt).tolist() for prompt in PROMPTS for _ in range(G)]
    drawn = model.sample_answers(rows, NEW, seed=9)
    arrays = grpo.sample(PROMPTS, seed=9)
    found = grpo.predict_on_batch(arrays)["model"]
    for n, prompt in enumerate(rows):
        places = slice(len(prompt), len(prompt) + NEW)
        np.testing.assert_array_equal(arrays["ids"][n, places], drawn.ids[n])
        own = found[n, len(prompt) - 1 :][:NEW]
        np.testing.assert_allclose(own, drawn.log_probabilities[n], atol=1e-5)
    history = grpo.fit(PROMPTS, batch_size=3, verbose=0).history
    assert np.isfinite(history["loss"][0]) and abs(history["kl"][0]) < 1e-6


def test_padding_and_batch_size_change_nothing():
    grpo = made(elman(seed=2), reference=elman(seed=3))
    arrays = grpo.sample(PROMPTS, seed=5)
    loss = grpo.test_on_batch(arrays, return_dict=True)["loss"]
    longer = dict(arrays)
    for name in ("ids", "answer"):
        longer[name] = np.pad(arrays[name], ((0, 0), (0, 4)))
    found = grpo.test_on_batch(longer, return_dict=True)["loss"]
    assert found == pytest.approx(loss, abs=1e-6)
    each = []
    for n in range(len(arrays["ids"])):
        grpo.reset_metrics()
        one = {name: rows[n : n + 1] for name, rows in arrays.items()}
        each.append(grpo.test_on_batch(one, return_dict=True)["loss"])
    assert np.mean(each) == pytest.approx(loss, abs=1e-6)


def test_it_learns_and_goes_on_after_loading(tmp_path):
    model = elman(seed=5)
    reward = gpt().with_head("reward")
    votes = [{"prompt": "a", "chosen": "aa", "rejected": "bc"}]
    reward.compile(keras.optimizers.Adam(3e-2))
    reward.fit(votes, epochs=9, verbose=0)
    grpo = made(model, reward, beta=0.01, num_iterations=2)
    grpo.compile(keras.optimizers.Adam(1e-2))
    assert [*map(id, grpo.trainable_variables)] == [*map(id, model.trainable_variables)]
    frozen = grpo.reference.get_weights() + grpo.reward.get_weights()
    history = grpo.fit(PROMPTS, epochs=5, steps_per_epoch=2, seed=3, verbose=0).history
    assert history["reward"][-1] > history["reward"][0]
    assert history["kl"][0] < history["kl"][-1]
    assert grpo.evaluate(PROMPTS, batch_size=2)["reward"] > history["reward"][0]
    after = grpo.reference.get_weights() + grpo.reward.get_weights()
    for old, new in zip(frozen, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(grpo.optimizer.iterations) == 20

    grpo.save(tmp_path / "grpo.keras")
    again = kerasseq.load_model(tmp_path / "grpo.keras")
    assert again.get_compile_config()["jit_compile"] == "auto"  # on other backends
    assert again.jit_compile == grpo.jit_compile
    assert (again.beta, again.num_generations, again.num_iterations) == (0.01, G, 2)
    for each in (grpo, again):  # both go on alike
        each.fit(PROMPTS, initial_epoch=5, epochs=6, seed=3, verbose=0)
    for a, b in zip(grpo.model.weights, again.model.weights, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (a, b)), atol=1e-5)


def test_training_is_resumed(tmp_path):
    """A run that was interrupted ends as one that was not."""

    def stops(prompts, answers):
        if int(first.optimizer.iterations) == 3:
            raise KeyboardInterrupt
        return count_a(prompts, answers)

    whole, first, second = (made(elman(seed=5)) for _ in range(3))
    first.set_reward(stops)
    options = {"batch_size": 2, "steps_per_epoch": 2, "seed": 3, "verbose": 0}
    whole.fit(PROMPTS, epochs=3, **options)
    saved = [training.Checkpoint(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        first.fit(PROMPTS, epochs=3, callbacks=saved, **options)
    assert training.restore(second, tmp_path) == 1
    stream = second.batches(PROMPTS, batch_size=2, seed=3).stream(2)
    options = {"steps_per_epoch": 2, "shuffle": False, "verbose": 0}
    second.fit(stream, initial_epoch=1, epochs=3, **options)
    for a, b in zip(whole.model.weights, second.model.weights, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (a, b)), atol=1e-6)


def test_an_adapter_is_trained_alone_and_functions_are_not_saved(tmp_path):
    model = gpt()
    model.enable_lora(2)
    grpo = made(model)
    grpo.fit(PROMPTS, verbose=0)
    assert {w.name for w in grpo.trainable_weights} == {"lora_a", "lora_b"}
    grpo.save(tmp_path / "grpo.keras")
    again = kerasseq.load_model(tmp_path / "grpo.keras")
    with pytest.raises(ValueError, match="reward must be set, received None"):
        again.fit(PROMPTS, verbose=0)
    again.set_reward(count_a)
    again.fit(PROMPTS, verbose=0)


def test_ids_without_a_tokenizer():
    model = models.LanguageModel("gru", vocabulary_size=5, units=3)
    seen = []

    def reward(prompts, answers):
        seen.append((prompts, answers))
        return np.array([sum(answer) for answer in answers])

    made(model, reward).fit([[1, 2], np.array([3])], verbose=0)
    prompts, answers = seen[0]
    assert sorted(map(len, prompts)) == [1] * G + [2] * G
    assert [len(answer) for answer in answers] == [NEW] * 2 * G
    assert all(isinstance(token, int) for answer in answers for token in answer)


def raising(prompts, answers):
    raise KeyError("no such answer")


def with_head():
    return gpt().with_head("classify", 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: made(keras.Sequential()), "model must be a language model"),
        (lambda: made(gpt(), 3), "reward must be a reward model, .* received 3"),
        (lambda: made(gpt(), with_head()), 'reward must .* with head="reward"'),
        (lambda: made(gpt(), keras.Sequential()), "reward must be a reward model"),
        (lambda: made(gpt(), num_generations=1), "num_generations .* received 1"),
        (lambda: made(gpt(), beta=-1), "beta must .* received -1"),
        (lambda: made(gpt(), epsilon=0), "epsilon must .* received 0"),
        (lambda: made(gpt(), temperature=0), "temperature must .* received 0"),
        (lambda: made(gpt()).compile("adam", loss="mse"), "loss must .* GRPO has"),
        (lambda: made(gpt()).fit([]), "prompts must have at least one prompt"),
        (lambda: made(gpt()).fit(["a", ""]), r"prompts\[1\] must have at least one"),
        (lambda: made(gpt()).fit("ab"), "`prompts` must be a list of prompts"),
        (lambda: made(gpt()).fit(["a", "a" * 9]), r"prompts\[1\] .* 6 .* received 9"),
        (
            lambda: made(gpt(), lambda p, a: [0.0] * 2 + [np.nan]).fit(["abc"]),
            "finite number for each answer, received nan for the prompt 'abc' with",
        ),
        (lambda: made(gpt(), raising).fit(["abc"]), "KeyError: .* such as 'abc' with"),
        (
            lambda: made(gpt(), lambda p, a: [1.0]).fit(["abc"]),
            r"list of 3 numbers, .* received \[1.0\], of the shape \(1,\), .* 'abc'",
        ),
        (lambda: made(gpt(), lambda p, a: "yes").fit(["abc"]), "received 'yes'"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
