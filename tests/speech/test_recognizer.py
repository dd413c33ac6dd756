"""`SpeechRecognizer`: sounds of any length, and their texts."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import datasets, layers, models, text, tracing, training
from kerasseq.speech.audio_inputs import AudioPreprocessor
from kerasseq.speech.sound_norm import SoundNormalization
from kerasseq.speech.windows import windows_of

pytestmark = pytest.mark.once("layers and loss are tested everywhere")
RATE, LETTERS = 1600, "abcd"
SIZES = {"num_mels": 20, "num_fft_bins": 64, "stride": 20, "sampling_rate": RATE}
SMALL = {"units": 12, "num_layers": 1, "num_heads": 2, "kernel_size": 5, "factor": 2}


def sound(letters, rng):
    """A tone for each letter."""
    parts = []
    for letter in letters:
        time = np.arange(rng.integers(200, 300)) / RATE
        pitch = 110 + 170 * LETTERS.index(letter)
        parts += [np.sin(2 * np.pi * pitch * time), np.zeros(100)]
    noise = rng.normal(size=sum(map(len, parts)))
    return (np.concatenate(parts) + 0.01 * noise).astype("float32")


def recordings(count, seed=0):
    rng = np.random.default_rng(seed)
    texts = ["".join(rng.choice([*LETTERS], rng.integers(1, 5))) for _ in range(count)]
    return [sound(each, rng) for each in texts], texts


def recognizer(architecture="conformer", **options):
    tokenizer = text.CharacterTokenizer().fit(LETTERS)
    return models.SpeechRecognizer(
        architecture, tokenizer, **{**SIZES, **SMALL, **options}
    )


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(2)
    model = models.SpeechRecognizer(**SIZES, **{**SMALL, "units": 24})
    model.compile(keras.optimizers.Adam(5e-3))
    sounds, texts = recordings(96)
    model.fit(sounds, texts, epochs=14, batch_size=8, verbose=0)
    return model


def test_it_writes_down_what_it_never_heard(trained):
    sounds, texts = recordings(40, seed=1)
    assert trained.tokenizer.encode("abcd").tolist() == [0, 1, 2, 3]
    rates = trained.error_rates(sounds, texts)
    assert rates.characters < 0.05 and rates.words >= rates.characters
    found = trained.transcribe(sounds)
    assert training.character_error_rate([f.text for f in found], texts) == (
        rates.characters
    )
    assert trained.transcribe([]) == trained.predict([]) == []
    with tracing.trace(trained) as inside:
        assert trained.transcribe(sounds[3]).text == found[3].text
    assert "conformer_1/output" in inside
    one = trained.transcribe(sounds[3])
    assert one.text == found[3].text
    searched = trained.transcribe(sounds[3], beam=5)
    assert searched.log_probability >= one.log_probability - 1e-6


def test_times_are_those_of_the_tones(trained):
    quiet = np.zeros(400, "float32")
    tones = [sound(letter, np.random.default_rng(0))[:-100] for letter in "abc"]
    audio = np.concatenate([quiet, tones[0], quiet, tones[1], quiet, tones[2], quiet])
    aligned = trained.align(audio, "abc")
    assert aligned.tokens == ["a", "b", "c"]
    start = 400
    for tone, (first, last) in zip(tones, aligned.times * RATE, strict=True):
        # CTC does not say where in a tone, or in the silence beside it.
        assert start - 400 <= first < last <= start + len(tone) + 400
        start += len(tone) + 400


def test_a_file_remembers_the_model_and_trains_on(trained, tmp_path):
    sounds, texts = recordings(5, seed=3)
    trained.save(tmp_path / "m.keras")
    loaded = kerasseq.load_model(tmp_path / "m.keras")
    assert loaded.tokenizer.vocabulary == trained.tokenizer.vocabulary
    for a, b in zip(trained.predict(sounds), loaded.predict(sounds), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    iterations = int(ops.convert_to_numpy(trained.optimizer.iterations))
    loaded.fit(sounds, texts, verbose=0)
    assert int(ops.convert_to_numpy(loaded.optimizer.iterations)) == iterations + 1


@pytest.mark.parametrize("architecture", ["conformer", "gru", "wavenet", "transformer"])
def test_a_sound_alone_is_as_beside_longer_ones(architecture):
    model = recognizer(architecture)
    sounds, _ = recordings(7, seed=5)
    assert len({len(each) for each in sounds}) == 7
    together = model.predict(sounds, batch_size=3)
    frames = model.preprocessor.frames([len(each) for each in sounds])
    for each, scores, count in zip(sounds, together, frames, strict=True):
        assert scores.shape == (count, 4 + 1 + 1)  # unknown, and the blank
        np.testing.assert_allclose(model.predict([each])[0], scores, atol=1e-5)


def test_the_loss_is_that_of_each_sound():
    model = recognizer()
    sounds, texts = recordings(5, seed=6)
    losses = [
        float(
            training.CTC()(
                model.tokenizer.encode(each)[None], model.predict([audio])[0][None]
            )
        )
        for audio, each in zip(sounds, texts, strict=True)
    ]
    for batch_size in (2, 5):
        found = model.evaluate(sounds, texts, batch_size=batch_size, verbose=0)
        assert found == pytest.approx(np.mean(losses), rel=1e-5)
    weights = np.array([1.0, 0, 0, 0, 0])
    found = model.evaluate(sounds, texts, sample_weight=weights, verbose=0)
    assert found == pytest.approx(losses[0] / 5, rel=1e-5)


def test_long_sounds_are_read_in_windows():
    audio, _ = recordings(30, seed=8)
    audio = np.concatenate(audio)
    model = recognizer("gru", window=2.0)  # 80 frames of 40 samples, 8 at each side
    windows = windows_of(model, model.rows_of([audio, audio[:3000]]))
    assert windows.of.tolist() == [0] * (len(windows.of) - 1) + [1]
    frames = model.preprocessor.frames(len(audio))
    parts = [windows.rows.sound(n) for n in range(len(windows.rows))]
    assert len(parts) > 9 and max(map(len, parts)) == 3200
    for n, part in enumerate(parts[:-1]):
        start = max(64 * n - 8, 0) * 40
        first, last = windows.kept[n]
        assert start // 40 + first == 64 * n  # each frame once, in order
        assert last - first == min(64, frames - 64 * n)
        np.testing.assert_array_equal(part, audio[start : start + len(part)])
    whole = model.predict([audio, audio[:3000]])
    assert len(whole[0]) == frames
    pieces = [
        scores[first:last]
        for scores, (first, last) in zip(
            model.predict(parts), windows.kept.tolist(), strict=True
        )
    ]
    np.testing.assert_allclose(np.concatenate(pieces[:-1]), whole[0], atol=1e-5)
    np.testing.assert_allclose(pieces[-1], whole[1], atol=1e-5)


def test_frames_have_mean_0_and_variance_1():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 5, (2, 11, 7)).astype("float32")
    mask = np.arange(11) < np.array([[11], [4]])
    y = ops.convert_to_numpy(SoundNormalization()(x, mask=mask))
    for row, given, count in zip(y, x, (11, 4), strict=True):
        part = given[:count].astype("float64")
        expected = (part - part.mean()) / np.sqrt(part.var() + 1e-3)
        np.testing.assert_allclose(row[:count], expected, atol=1e-5)
        assert not row[count:].any()


def test_sounds_of_files_and_data_sets(tmp_path):
    model = recognizer()
    sounds, texts = recordings(3, seed=9)
    files = []
    for n, each in enumerate(sounds):
        files.append(str(tmp_path / f"{n}.wav"))
        datasets.write_wave(files[-1], each / 2, RATE)
    expected = model.predict([each / 2 for each in sounds])
    for a, b in zip(model.predict(files), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)  # 16 bits
    rows = [{"array": each / 2, "sampling_rate": RATE} for each in sounds]
    for a, b in zip(model.predict(rows), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert model.transcribe(files[0]).text == model.transcribe(rows[0]).text
    rows = model.rows_of(datasets.WaveFiles(files, 2 * RATE))
    assert rows.arrays == files  # and no sounds
    assert rows.lengths.tolist() == [len(each) for each in sounds]
    history = model.fit(files, texts, validation_split=0.3, verbose=0)
    assert history.history["val_loss"]
    slow = {"array": sounds[0], "sampling_rate": RATE // 2}
    (audio,) = model.preprocessor.rows([slow]).arrays
    assert len(audio) == 2 * len(sounds[0])


def test_a_language_model_in_the_search(trained):
    ngrams = text.NGramModel(2, tokenizer=trained.tokenizer).fit("abababab")
    sounds, _ = recordings(4, seed=10)
    free = [each.text for each in trained.transcribe(sounds, beam=7)]
    led = trained.transcribe(sounds, beam=7, language_model=ngrams, weight=0.0)
    assert [each.text for each in led] == free
    led = trained.transcribe(sounds, beam=7, language_model=ngrams, weight=50.0)
    assert {pair for each in led for pair in itertools.pairwise(each.text)} <= {
        ("a", "b"),
        ("b", "a"),
    }


def test_masked_spectrograms_and_mixed_precision():
    augment = layers.SpecAugment(1, 3, 1, 4, seed=1)
    policy = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        model = recognizer(spec_augment=augment)
    finally:
        keras.config.set_dtype_policy(policy)
    sounds, texts = recordings(4)
    history = model.fit(sounds, texts, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert model.predict(sounds)[0].dtype == "float32"
    again = models.SpeechRecognizer.from_config(model.get_config())
    assert again.get_layer(augment.name).get_config() == augment.get_config()


def test_channels_are_no_sounds():
    with pytest.raises(ValueError, match=r"sound of 2 channels.*x\.mean\(axis=1\)"):
        recognizer().predict(np.ones((500, 2)))


def test_wrong_uses(tmp_path):
    model = recognizer()
    sounds, texts = recordings(3)
    with pytest.raises(ValueError, match=r"y\[1\] has \['z'\].*does not know"):
        model.fit(sounds, ["a", "bz", "c"])
    with pytest.raises(ValueError, match=r"^y\[2\] needs .* frames or more"):
        model.fit([*sounds[:2], sounds[2][:200]], ["a", "b", "abcdabcd"])
    with pytest.raises(ValueError, match=r"x\[1\] must have at least 20 samples"):
        model.predict([sounds[0], sounds[1][:3]])
    silent = sounds[0].copy()
    silent[7] = np.nan
    with pytest.raises(ValueError, match=r"x\[0\] must have finite samples.*at 7"):
        model.predict([silent])
    with pytest.raises(TypeError, match=r"x\[0\] must have floats.*int16.*32768"):
        model.predict([np.ones(500, "int16")])
    with pytest.raises(TypeError, match=r"x\[0\] must be an array of numbers"):
        model.predict([np.ones((2, 500))])
    with pytest.raises(TypeError, match="expected a list of sounds"):
        model.predict(sounds[0])
    with pytest.raises(ValueError, match="a transcript for each of 3 sounds"):
        model.fit(sounds, texts[:2])
    with pytest.raises(TypeError, match=r"y\[1\] must be a transcript"):
        model.fit(sounds, ["a", 3, "b"])
    with pytest.raises(ValueError, match="transcripts y of the sounds"):
        model.fit(sounds)
    with pytest.raises(TypeError, match="'abc', which would be 3 transcripts of a"):
        model.fit(sounds, "abc")
    with pytest.raises(TypeError, match="y must be a list of transcripts, received {"):
        model.fit(sounds, {"a", "b", "c"})  # without order
    with pytest.raises(ValueError, match="language_model needs a search"):
        model.transcribe(sounds, language_model=text.NGramModel(2))
    with pytest.raises(ValueError, match="bonus needs a search"):
        model.transcribe(sounds, bonus=1.0)
    with pytest.raises(ValueError, match=r"x\[0\] must have \"array\" and"):
        model.transcribe([{"path": "a.wav"}])
    with pytest.raises(ValueError, match=r'x\[0\]\["sampling_rate"\] must be at .* 0'):
        model.transcribe([{"array": sounds[0], "sampling_rate": 0}])
    with pytest.raises(TypeError, match="Use error_rates"):
        model.report(sounds, texts)
    with pytest.raises(FileNotFoundError):
        model.transcribe(str(tmp_path / "none.wav"))
    with pytest.raises(ValueError, match="class_weight must be None"):
        model.fit(sounds, texts, class_weight="balanced")
    with pytest.raises(ValueError, match="Call fit first"):
        models.SpeechRecognizer(**SIZES, **SMALL).transcribe(sounds)
    with pytest.raises(ValueError, match='"conformr" is not one of "conformer"'):
        recognizer("conformr")
    with pytest.raises(TypeError, match="tokenizer must be a fitted tokenizer"):
        models.SpeechRecognizer(tokenizer=None)
    with pytest.raises(ValueError, match="return_sequences=True"):
        recognizer(keras.layers.GRU(3))


def test_kinds_of_sounds():
    arguments = {"tokenizer": "character", "sampling_rate": 5, "stride": 2, "factor": 2}
    reader = AudioPreprocessor(arguments)
    ones = ["a.wav", np.ones(3), [0.5, 0.1], {"array": [0.5], "sampling_rate": 5}]
    assert all(map(reader.is_one, ones))
    several = [["a.wav"], np.ones((2, 3)), [[0.5]], [np.ones(3)], [ones[3]], []]
    assert not any(map(reader.is_one, several))
    assert reader.frames([2, 5, 8, 9]).tolist() == [1, 1, 2, 2]
