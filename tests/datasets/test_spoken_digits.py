"""Spoken digits: what the names of files tell, splits, and what is refused."""

import numpy as np
import pytest

from kerasseq import datasets, models

SPEAKERS, DIGITS, TIMES = ("ada", "von_neumann"), (0, 3, 7), 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    inside = folder / "recordings"
    inside.mkdir()
    (folder / "metadata.py").write_text("")
    for n, name in enumerate(
        f"{digit}_{speaker}_{time}"
        for digit in DIGITS
        for speaker in SPEAKERS
        for time in range(TIMES)
    ):
        wave = 0.5 * np.sin((1 + n) * np.arange(800 + n))
        datasets.write_wave(inside / f"{name}.wav", wave, 8000)
    return folder


def test_names_tell_digit_and_speaker(folder):
    sounds = datasets.spoken_digits(folder)
    assert sounds.texts == [w for w in ("zero", "three", "seven") for _ in range(6)]
    assert sounds.digits == [digit for digit in DIGITS for _ in range(6)]
    assert sounds.speakers == [s for s in SPEAKERS for _ in range(TIMES)] * 3
    assert sounds.numbers == [*range(TIMES)] * 6
    assert [len(sound) for sound in sounds.audio] == [*range(800, 818)]
    inside = datasets.spoken_digits(folder / "recordings", sampling_rate=16000)
    assert inside[1:] == sounds[1:] and len(inside.audio[0]) == 1600
    for chosen in ("ada", ["ada"]):
        assert {*datasets.spoken_digits(folder, chosen).speakers} == {"ada"}


def test_the_tenth_recording_comes_after_the_second(tmp_path):
    for number in (10, 2):
        datasets.write_wave(tmp_path / f"1_ada_{number}.WAV", [0.0, 0.5])
    assert datasets.spoken_digits(tmp_path).numbers == [2, 10]


def test_splits(folder):
    sounds = datasets.spoken_digits(folder)
    training, test = sounds.split_by_number(1)
    assert {*training.numbers} == {1, 2} and {*test.numbers} == {0}
    assert {*training.speakers} == {*test.speakers} == {*SPEAKERS}
    training, test = sounds.split_by_speaker(["von_neumann"])
    assert {*training.speakers} == {"ada"} and {*test.speakers} == {"von_neumann"}
    assert test.texts == training.texts
    np.testing.assert_array_equal(test.audio[0], sounds.audio[TIMES])
    with pytest.raises(ValueError, match="leaves none for training"):
        sounds.split_by_number(TIMES)
    with pytest.raises(ValueError, match="leaves none for training"):
        sounds.split_by_speaker(SPEAKERS)
    with pytest.raises(ValueError, match="received none. Pass"):
        sounds.split_by_speaker([])
    with pytest.raises(ValueError, match="test"):
        sounds.split_by_number(0)


def test_what_is_refused(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        datasets.spoken_digits(tmp_path / "none")
    with pytest.raises(NotADirectoryError, match="folder of sounds"):
        datasets.spoken_digits(folder / "metadata.py")
    with pytest.raises(ValueError, match="7_jackson_32.wav.*/free-spoken-digit-da"):
        datasets.spoken_digits(tmp_path)
    with pytest.raises(ValueError, match="among ada, von_neumann, .* Did you mean"):
        datasets.spoken_digits(folder, ["adda"])
    with pytest.raises(TypeError, match="speakers"):
        datasets.spoken_digits(folder, 3)
    datasets.write_wave(tmp_path / "12_ada_1.wav", [0.0, 0.5])
    with pytest.raises(ValueError, match="received 12_ada_1.wav.*audio_folder"):
        datasets.spoken_digits(tmp_path)


@pytest.mark.once("a model reads them as other sounds")
def test_a_model_learns_from_them(folder):
    training, test = datasets.spoken_digits(folder).split_by_number(1)
    model = models.SpeechRecognizer(
        "gru",
        units=5,
        num_layers=1,
        num_mels=7,
        num_fft_bins=64,
        stride=32,
        sampling_rate=8000,
    )
    model.fit(training, epochs=1, verbose=0)
    assert len(model.transcribe(test.audio)) == len(test.texts)
    assert {*"zerothreeseven"} <= {*model.tokenizer.vocabulary}
