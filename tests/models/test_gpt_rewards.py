"""The reward head of GPT: its numbers, its loss on preferences, and what it refuses."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import models
from kerasseq.datasets import Preferences

pytestmark = pytest.mark.once("one small model")

LETTERS = kerasseq.text.CharacterTokenizer(unknown=None).fit("abcde")
ROWS = Preferences(
    ["abc", "e", "da", "bb", "c"],
    ["a", "bce", "dd", "ca", "abcda"],
    ["ed", "b", "aecb", "c", "eb"],
)
TEXTS = [x + y for x, *both in zip(*ROWS, strict=True) for y in both]


def gpt(tokenizer=LETTERS, seed=0, **options):
    model = models.GPT(
        tokenizer, num_layers=1, num_heads=1, hidden_dim=6, max_sequence_length=11,
        **options,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(size=w.shape) * 0.5 for w in model.weights])
    return model


def made(**options):
    """A reward model with weights that NumPy draws, and the GPT without its head."""
    language_model = gpt(**options)
    model = language_model.with_head("reward")
    w = np.random.default_rng(7).normal(size=(6, 1))
    model.get_layer("reward").set_weights([w])
    return model, gpt(head=None, **options), w[:, 0]


def wanted_rewards(plain, w):
    """The product with the last hidden state of each text, of the GPT without head."""
    ids = np.zeros((len(TEXTS), 8), "int32")
    for row, text in zip(ids, TEXTS, strict=True):
        row[: len(text)] = LETTERS.encode(text)
    states = ops.convert_to_numpy(plain(ids))  # what comes after changes nothing
    found = np.array([h[len(t) - 1] @ w for h, t in zip(states, TEXTS, strict=True)])
    assert np.abs(np.diff(found)).min() > 1e-3
    return found


@pytest.mark.everywhere("the numbers of the backend")
def test_a_reward_is_a_product_with_the_last_hidden_state():
    model, plain, w = made()
    wanted = wanted_rewards(plain, w)
    gaps = wanted[1::2] - wanted[::2]
    found = model.evaluate(ROWS, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(np.log1p(np.exp(gaps)).mean(), abs=1e-5)
    assert found["accuracy"] == pytest.approx((gaps < 0).mean())
    assert 0 < found["accuracy"] < 1


def test_batch_size_and_form_change_nothing():
    model, plain, w = made()
    wanted = wanted_rewards(plain, w)
    for size in (1, 3, 32):
        found = model.rewards(TEXTS, batch_size=size)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        found = model.rewards(ROWS, batch_size=size)
        np.testing.assert_allclose(found, wanted.reshape(-1, 2), atol=1e-5)
    one = model.rewards(("abc", "ed"))
    assert one == pytest.approx(wanted[1], abs=1e-5)
    assert one == pytest.approx(model.rewards("abced"), abs=1e-5)


def test_padding_on_the_right_changes_nothing():
    model, _, _ = made()
    ids = model.encode(ROWS)["ids"]
    wanted = model.predict({"ids": ids}, verbose=0)
    longer = np.pad(
        ids, ((0, 0), (0, 0), (0, 2)), constant_values=LETTERS.vocabulary_size + 3
    )
    found = model.predict({"ids": longer}, verbose=0)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*score.weight:UserWarning")
def test_rewards_equal_those_of_transformers(tmp_path):
    """GPT2ForSequenceClassification with one label, read without its head."""
    if keras.backend.backend() != "torch":
        pytest.skip("the peer is written in PyTorch")
    torch = pytest.importorskip("torch")
    peers = pytest.importorskip("transformers.models.gpt2")
    config = peers.GPT2Config(
        vocab_size=5, n_positions=11, n_embd=6, n_layer=1, n_head=1, num_labels=1,
        pad_token_id=4,
    )  # fmt: skip
    peer = peers.GPT2ForSequenceClassification(config).eval()
    for weight in peer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    peer.save_pretrained(tmp_path)
    model = models.from_pretrained(tmp_path).with_head("reward")
    w = peer.score.weight.detach().cpu().numpy()
    assert peer.score.bias is None
    model.get_layer("reward").set_weights([w.T])
    ids = np.random.default_rng(0).integers(0, 4, (3, 7))
    with torch.no_grad():
        wanted = peer(torch.tensor(ids, device=peer.device)).logits.cpu().numpy()[:, 0]
    np.testing.assert_allclose(model.rewards(ids.tolist()), wanted, atol=1e-5)


def test_it_learns_a_rule_and_goes_on_after_loading(tmp_path):
    keras.utils.set_random_seed(3)
    model = models.GPT(LETTERS, num_layers=1, num_heads=1, hidden_dim=6)
    model = model.with_head("reward")
    model.compile(keras.optimizers.Adam(3e-2))
    history = model.fit(ROWS, epochs=13, batch_size=5, validation_data=ROWS, verbose=0)
    assert history.history["loss"][0] == pytest.approx(np.log(2), abs=0.1)
    assert history.history["val_loss"][-1] < 0.3
    assert history.history["val_accuracy"][-1] == 1
    model.save(tmp_path / "rewards.keras")
    loaded = kerasseq.load_model(tmp_path / "rewards.keras")
    np.testing.assert_allclose(loaded.rewards(ROWS), model.rewards(ROWS), atol=1e-6)
    for each in (model, loaded):
        each.fit(ROWS, batch_size=5, epochs=2, verbose=0)
    np.testing.assert_allclose(loaded.rewards(ROWS), model.rewards(ROWS), atol=1e-5)


def test_an_adapter_and_the_head_are_trained_alone():
    model, _, _ = made()
    before = model.rewards(ROWS)
    model.enable_lora(2)
    np.testing.assert_array_equal(model.rewards(ROWS), before)
    names = sorted(weight.name for weight in model.trainable_weights)
    assert names == ["kernel", "lora_a", "lora_a", "lora_b", "lora_b"]
    model.compile(keras.optimizers.Adam(1e-2))
    model.fit(ROWS, epochs=2, batch_size=5, verbose=0)
    after = model.rewards(ROWS)
    assert np.abs(after - before).max() > 1e-3
    model.merge_lora()
    np.testing.assert_allclose(model.rewards(ROWS), after, atol=1e-5)


def test_ids_of_a_model_without_a_tokenizer():
    model = gpt(None, vocabulary_size=5).with_head("reward")
    one = model.rewards([1, 2, 3])
    rows = model.rewards([[1, 2, 3], [4]])
    assert rows.shape == (2,) and one == pytest.approx(float(rows[0]), abs=1e-6)
    assert model.rewards(([1], [2, 3])) == pytest.approx(one, abs=1e-6)
    columns = {"prompt": [[1]], "chosen": [np.array([2, 3])], "rejected": [[4]]}
    pairs = model.rewards(columns)
    assert pairs.shape == (1, 2) and float(pairs[0, 0]) == pytest.approx(one, abs=1e-6)
    assert model.rewards([]).shape == (0,)


@functools.cache
def known():
    """A model that no test changes."""
    return gpt().with_head("reward")


GOOD = {"prompt": "ab", "chosen": "c", "rejected": "d"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.fit(["ab"]), "expected preferences, .* received y=None"),
        (lambda m: m.fit(["ab"], [0]), "expected preferences, .* received 1 texts a"),
        (lambda m: m.fit(ROWS, [1] * 5), "expected preferences, .* leave y out"),
        (lambda m: m.fit([{"prompt": "a"}]), "without chosen and rejected"),
        (lambda m: m.fit([GOOD, {**GOOD, "chosen": ""}]), r"x\[1\], chosen must not"),
        (lambda m: m.fit([{**GOOD, "chosen": "d"}]), r"x\[0\], .* must differ"),
        (lambda m: m.fit([{**GOOD, "chosen": "c" * 10}]), "at most 11 .* received 12"),
        (lambda m: m.rewards(""), "empty"),
        (lambda m: m.rewards("a" * 12), "12 tokens, but the model reads"),
        (lambda m: m.rewards(np.array(3)), r"received array\(3\)"),
        (lambda m: m.rewards([3, 9]), "ids from 0 to 4, .* received 9"),
        (lambda m: m.classify("a"), "classify is not available for head='reward'"),
        (lambda m: gpt().with_head("reward", 2), "labels must be None"),
        (lambda m: gpt().with_head("reward", truncate=True), "truncate must be False"),
        (
            lambda m: gpt().with_head("classify", 2).rewards("a"),
            "rewards is not available for head='classify'",
        ),
    ],
)
def test_wrong_data_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(known())
