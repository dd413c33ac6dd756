"""Training of a Whisper on sounds and texts, its files, and wrong uses."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import models, text
from kerasseq.models.whisper.settings import WhisperGeneration
from tests.models.whisper.toys import SMALL, sounds

LETTERS = "abc"
RATE = SMALL["sampling_rate"]

pytestmark = pytest.mark.once("rows, targets and messages")


def tokenizer():
    return text.CharacterTokenizer().fit(LETTERS)


def recordings(count, seed=0, letters=None):
    """Sounds of one to three tones of 0.2 s, or as many as given, and their letters."""
    rng = np.random.default_rng(seed)
    time, audio, texts = np.arange(160) / RATE, [], []
    for _ in range(count):
        word = rng.choice([*LETTERS], letters or rng.integers(1, 4))
        pitches = [60 + 110 * LETTERS.index(letter) for letter in word]
        tones = [np.sin(2 * np.pi * pitch * time) for pitch in pitches]
        noise = 0.01 * rng.normal(size=160 * len(word))
        audio.append((np.concatenate(tones) + noise).astype("float32"))
        texts.append("".join(word))
    return audio, texts


def nats(model, audio, each):
    """The cross-entropy of each token of one transcript, and of the end."""
    x = model.encode([audio], [each])
    logits = model.predict(x, verbose=0)[0].astype("float64")
    labels = [*model.tokenizer.encode(each), model.generation.end]
    logits = logits[-len(labels) :]
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(p[np.arange(len(labels)), labels])


@pytest.mark.full("a training step is that of all tasks, files those of all models")
def test_it_learns_and_a_file_trains_on(tmp_path):
    keras.utils.set_random_seed(1)
    model = models.Whisper("character", **SMALL)
    audio, texts = recordings(24, letters=2)  # one shape to compile
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(audio, texts, epochs=6, batch_size=8, verbose=0).history
    assert model.vocabulary_size == model.tokenizer.vocabulary_size + 2
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    assert 0 <= history["accuracy"][0] < history["accuracy"][-1] <= 1
    model.save(tmp_path / "m.keras")
    loaded = kerasseq.load_model(tmp_path / "m.keras")
    assert loaded.generation == model.generation
    for found, weight in zip(loaded.weights, model.weights, strict=True):
        found, weight = map(ops.convert_to_numpy, (found, weight))
        np.testing.assert_array_equal(found, weight)
    again = loaded.fit(audio, texts, batch_size=8, verbose=0).history
    assert again["loss"][0] < history["loss"][-1] * 1.2
    assert int(ops.convert_to_numpy(loaded.optimizer.iterations)) == 7 * 3


def test_the_loss_is_the_mean_over_all_tokens():
    model = models.Whisper(tokenizer(), **SMALL)
    audio, texts = recordings(7, seed=2)
    texts[3] = "abcabcabcab"
    found = [nats(model, *pair) for pair in zip(audio, texts, strict=True)]
    mean = np.concatenate(found).mean()
    for size in (1, 3, 7):
        loss, _ = model.evaluate(audio, texts, batch_size=size, verbose=0)
        assert loss == pytest.approx(mean, rel=1e-5)
    weights = np.array([2.0, 0, 0, 1, 0, 0, 0])
    parts = [w * each.sum() for w, each in zip(weights, found, strict=True)]
    loss, accuracy = model.evaluate(audio, texts, sample_weight=weights, verbose=0)
    assert loss == pytest.approx(sum(parts) / len(np.concatenate(found)), rel=1e-5)
    model.fit(audio, texts, validation_data=(audio[:2], texts[:2]), verbose=0)
    history = model.fit(audio, texts, patience=1, epochs=2, verbose=0).history
    assert np.isfinite(history["val_loss"]).all()


def test_the_prompt_is_read_and_not_counted():
    settings = WhisperGeneration(
        5,
        4,
        languages={"de": 6, "en": 7},
        tasks={"transcribe": 8, "translate": 9},
        no_timestamps=10,
    )
    model = models.Whisper(
        vocabulary_size=12, generation=settings, language="de", **SMALL
    )
    audio, _ = recordings(2)
    rows = model.rows_of(audio)
    rows.y = model.task.targets_of(rows, [[1, 0, 2], [3]])
    x, labels = rows.take(np.arange(2), 8)
    end, skipped = settings.end, [-1, -1, -1]
    assert x["target"].tolist() == [
        [5, 6, 8, 10, 1, 0, 2, end],
        [5, 6, 8, 10, 3, end, end, end],
    ]
    assert labels.tolist() == [
        [*skipped, 1, 0, 2, end, -1],  # 0 is a token
        [*skipped, 3, end, -1, -1, -1],
    ]
    assert x["audio"].shape == (2, 600)
    assert model.encode(audio[0])["target"].tolist() == [[5, 6, 8, 10]]
    assert model.predict(audio, verbose=0).shape == (2, 4, 12)
    model.language = "English"
    assert model.encode(audio[0])["target"].tolist() == [[5, 7, 8, 10]]
    assert models.Whisper.from_config(model.get_config()).language == "en"
    with pytest.raises(ValueError, match="language='fr' is not one of de, en"):
        model.language = "fr"
    model.language = None  # as for a model of one language
    assert model.encode(audio[0])["target"].tolist() == [[5, 8, 10]]
    model.language = "de"
    loss, _ = model.evaluate(audio, [[1, 0, 2], [3]], verbose=0)
    logits = model.predict(model.encode(audio, [[1, 0, 2], [3]]), verbose=0)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    wanted = [log_p[0, 3 + t, i] for t, i in enumerate((1, 0, 2, end))]
    wanted += [log_p[1, 3 + t, i] for t, i in enumerate((3, end))]
    assert loss == pytest.approx(-np.mean(wanted), rel=1e-5)


def test_batches_have_few_lengths_and_rows_their_order(tmp_path):
    model = models.Whisper(tokenizer(), **SMALL)
    audio, texts = recordings(9, seed=3)
    batches = model.batches(audio, texts, batch_size=3)
    x, labels = batches.batch(0)
    assert x["audio"].shape == (3, 600)
    assert x["target"].shape == labels.shape
    assert x["target"].shape[1] <= SMALL["max_length"]
    whole = model.predict(audio, batch_size=4, verbose=0)
    for n in (0, 5, 8):
        alone = model.predict(audio[n : n + 1], verbose=0)
        np.testing.assert_allclose(whole[n], alone[0], atol=1e-5)
    assert len(model.predict([])) == 0
    before = model.evaluate(audio, texts, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = kerasseq.load_model(tmp_path / "m.keras")
    assert loaded.evaluate(audio, texts, verbose=0) == pytest.approx(before, rel=1e-5)


def test_adapters_and_mixed_precision():
    policy = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        model = models.Whisper(tokenizer(), dropout=0.1, **SMALL)
    finally:
        keras.config.set_dtype_policy(policy)
    audio, texts = recordings(4)
    model.enable_lora(2)
    fixed = ops.convert_to_numpy(model.encoder.position.embeddings)
    history = model.fit(audio, texts, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    x = model.encode(audio[:1])
    assert model.predict(x, verbose=0).dtype == "float32"
    state = model.initial_state(x["audio"], 8)
    logits, _ = model.step(state, ops.convert_to_tensor(x["target"][:, 0]))
    expected = model.predict(x, verbose=0)[:, 0]
    kept = np.arange(expected.shape[1]) != model.generation.start
    np.testing.assert_allclose(
        ops.convert_to_numpy(logits)[:, kept], expected[:, kept], atol=0.05
    )
    found = ops.convert_to_numpy(model.encoder.position.embeddings)
    np.testing.assert_array_equal(found, fixed)


def test_folders_keep_a_tokenizer_of_its_own(tmp_path):
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "num_mels": 7}
    model = models.Whisper(tokenizer(), window=1, **sizes)
    audio = sounds(0.5)
    for form in ("huggingface", "keras_hub"):
        models.save_pretrained(model, tmp_path / form, format=form)
        same = models.from_pretrained(tmp_path / form)
        assert same.tokenizer.vocabulary == model.tokenizer.vocabulary
        assert same.generation == model.generation
        assert same.never_written == model.never_written
        np.testing.assert_allclose(
            same.predict(audio, verbose=0), model.predict(audio, verbose=0), atol=1e-6
        )


def test_wrong_uses():
    model = models.Whisper(tokenizer(), **SMALL)
    audio, texts = recordings(2)
    long = np.ones(700, "float32")
    for call in (
        lambda: model.fit([audio[0], long], texts),
        lambda: model.evaluate([audio[0], long], texts),
        lambda: model.predict([audio[0], long]),
        lambda: model.encode([audio[0], long]),
    ):
        with pytest.raises(ValueError, match=r"x\[1\] must not be longer than window="):
            call()
    with pytest.raises(ValueError, match="audio must have at most 600 samples"):
        model.initial_state(long[None], 8)
    with pytest.raises(ValueError, match="max_length must be at most 17.*larger max_l"):
        model.initial_state(long[None, :600], 18)
    with pytest.raises(ValueError, match="layers must be from 0 to 0, received 1"):
        model.cross_attentions(long[None, :600], [[0]], [1])
    with pytest.raises(ValueError, match=r"y\[1\] must have at most 16 tokens.* 20"):
        model.fit(audio, ["a", "ab" * 10])
    with pytest.raises(ValueError, match=r"y\[0\] has \['z'\], which the tokenizer"):
        model.fit(audio, ["z", "a"])
    with pytest.raises(ValueError, match="a transcript for each of 2 sounds"):
        model.fit(audio, ["a"])
    with pytest.raises(ValueError, match="expected the transcripts y of the sounds"):
        model.fit(audio)
    with pytest.raises(TypeError, match=r"y\[0\] must be a transcript, received 3"):
        model.fit(audio, [3, "a"])
    with pytest.raises(ValueError, match="class_weight must be None"):
        model.fit(audio, texts, class_weight="balanced")
    with pytest.raises(TypeError, match="report needs a model with labels"):
        model.report(audio, texts)
    with pytest.raises(ValueError, match="Call fit first"):
        models.Whisper("character", **SMALL).predict(audio)
    of_ids = models.Whisper(vocabulary_size=5, **SMALL)
    with pytest.raises(TypeError, match=r"y\[0\] must be ids, as the model has no tok"):
        of_ids.fit(audio, texts)
    with pytest.raises(ValueError, match=r"ids of y\[1\] must be from 0 to 4.* 5"):
        of_ids.fit(audio, [[1], [5]])


def test_wrong_arguments():
    for arguments, message in (
        ({}, "expected either tokenizer.*or vocabulary_size"),
        ({"tokenizer": tokenizer(), "vocabulary_size": 9}, "expected either tokenizer"),
        ({"vocabulary_size": 9, "hidden_dim": 7}, "hidden_dim must be even"),
        ({"vocabulary_size": 9, "hidden_dim": 2}, "hidden_dim must be even and at"),
        ({"vocabulary_size": 9, "num_heads": 3}, "num_heads.*8"),
        ({"vocabulary_size": 2}, "vocabulary_size must be at least 3"),
        ({"vocabulary_size": 9, "window": 0.009}, "window must hold a frame, stride=8"),
        ({"vocabulary_size": 9, "language": "de"}, "language must be None"),
        ({"vocabulary_size": 9, "task": "translate"}, 'task must be "transcribe"'),
        ({"tokenizer": "charcter"}, "charcter"),
    ):
        with pytest.raises(ValueError, match=message):
            models.Whisper(**{**SMALL, **arguments})
    with pytest.raises(TypeError, match="generation must be a WhisperGeneration"):
        models.Whisper(vocabulary_size=9, generation={"start": 1}, **SMALL)
