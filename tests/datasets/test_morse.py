"""Morse code as sound: the code, the timing, the pitch, the noise."""

import numpy as np
import pytest

from kerasseq.datasets import morse, morse_code
from kerasseq.datasets.morse import CHARACTERS, CODE

CLEAR = {"snr": (60.0, 60.0), "fading": 0.0}
RATE = 8000


def band_power(audio, centers, rate=RATE):
    """The power in triangles of 20 mel filters to 4,000 Hz, in frames of 25 ms."""
    size = rate // 40
    frames = np.lib.stride_tricks.sliding_window_view(audio, size)[:: rate // 100]
    power = np.abs(np.fft.rfft(frames * np.hanning(size + 1)[:-1])) ** 2
    bins = np.fft.rfftfreq(size, 1 / rate)[:, None]
    rising = (bins - centers[:-2]) / np.diff(centers)[:-1]
    falling = (centers[2:] - bins) / np.diff(centers)[1:]
    filters = np.maximum(0, np.minimum(rising, falling))
    return power @ filters, filters.sum(axis=0)


def keyed(audio):
    """The lengths of tones and of the pauses between them, in seconds."""
    envelope = np.convolve(np.abs(audio), np.ones(80) / 80, mode="same")
    edges = np.flatnonzero(np.diff((envelope > envelope.max() / 2).astype(int)))
    lengths = np.diff(edges) / RATE
    return lengths[::2], lengths[1::2]


def test_the_code():
    assert len(CHARACTERS) == 36 and len(set(CODE.values())) == len(CODE) == 49
    assert morse_code("Paris 7") == ".--. .- .-. .. ... / --..."


@pytest.mark.parametrize("rhythm", [0.0, 0.15])
def test_tones_and_pauses_have_their_lengths(rhythm):
    options = {"dot": (0.06, 0.06), "rhythm": rhythm, "sampling_rate": RATE}
    text = ["SOS QRT", "A1"]
    audio, texts = morse(9, text=text, pitch=(900.0, 900.0), **CLEAR, **options)
    assert set(texts) == set(text)
    for sound, message in zip(audio, texts, strict=True):
        code = morse_code(message)
        tones, pauses = keyed(sound)
        expected = [0.06 * {".": 1, "-": 3}[sign] for sign in code if sign in ".-"]
        np.testing.assert_allclose(tones, expected, rtol=rhythm + 0.02, atol=0.003)
        gaps = [7 if "/" in gap else 3 if gap else 1 for gap in split_gaps(code)]
        gaps = 0.06 * np.array(gaps)
        np.testing.assert_allclose(pauses, gaps, rtol=rhythm + 0.02, atol=0.003)
        if rhythm:
            assert np.abs(tones / expected - 1).max() > 0.05


def split_gaps(code):
    """What stands between the dots and dashes of a code."""
    gaps, gap = [], ""
    for sign in code[1:]:
        if sign in ".-":
            gaps.append(gap)
            gap = ""
        else:
            gap += sign
    return gaps


@pytest.mark.parametrize("level", [10.0, 25.0])
def test_the_tone_is_as_loud_as_said_in_its_mel_band(level):
    mels = np.linspace(0, 2595 * np.log10(1 + 4000 / 700), 22)
    centers = 700 * (10 ** (mels / 2595) - 1)
    options = {"snr": (level, level), "fading": 0.0, "sampling_rate": RATE}
    found = []
    for audio in morse(30, seed=3, **options).audio:
        power, widths = band_power(audio, centers)
        band = (power.mean(axis=0) / widths).argmax()
        others = np.abs(np.arange(20) - band) > 1
        noise = (power.mean(axis=0) / widths)[others].mean() * widths[band]
        loud = power[:, band] > np.percentile(power[:, band], 80) / 2
        tone = np.median(power[loud, band]) - noise
        found.append(10 * np.log10(tone / noise))
    assert abs(np.mean(found) - level) < 0.3
    assert np.abs(np.array(found) - level).max() < 2


def test_pitch_fading_and_loudness():
    options = {"sampling_rate": RATE, "snr": (60.0, 60.0), "pitch": (500.0, 510.0)}
    audio, _ = morse(7, text=["0" * 9], fading=6.0, seed=1, **options)
    peaks, ranges = [], []
    for sound in audio:
        assert sound.dtype == "float32" and np.abs(sound).max() <= 0.9
        spectrum = np.abs(np.fft.rfft(sound))
        assert 499 <= spectrum.argmax() * RATE / len(sound) <= 511
        envelope = np.convolve(np.abs(sound), np.ones(80) / 80, mode="same")
        loud = envelope[envelope > envelope.max() / 5]
        ranges.append(20 * np.log10(loud.max() / np.median(loud)))
        peaks.append(20 * np.log10(np.abs(sound).max()))
    assert max(ranges) > 2 and max(ranges) < 14
    assert -21.1 < min(peaks) < max(peaks) < -0.9 and np.ptp(peaks) > 5


def test_messages_are_random_and_seeded():
    few = {"sampling_rate": 500, "pitch": (100.0, 200.0)}
    sounds = morse(200, seed=3, **few)
    assert {len(text) for text in sounds.texts} == {3, 4, 5, 6}
    assert set("".join(sounds.texts)) == set(CHARACTERS)
    again, other = morse(3, seed=3, **few), morse(3, seed=4, **few)
    assert sounds.texts[:3] == again.texts != other.texts
    for a, b in zip(sounds.audio, again.audio, strict=False):
        np.testing.assert_array_equal(a, b)
    words = morse(9, text="To be, or not to be?", **few).texts
    assert set(words) <= {"TO", "BE,", "OR", "NOT", "BE?"} and len(set(words)) > 2
    training, test = sounds.split(0.1)
    assert sorted(training.texts + test.texts) == sorted(sounds.texts)
    assert len(test.audio) == 20


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"count": 0}, ValueError, "count must be at least 1"),
        ({"text": "naïve"}, ValueError, "received 'Ï', which has no code"),
        ({"text": ["a", "%"]}, ValueError, r"text\[1\] must have .* received '%'"),
        ({"text": " "}, ValueError, "at least one word, received none"),
        ({"text": ["a", ""]}, ValueError, r"text\[1\] must .* received no character"),
        ({"text": [3]}, TypeError, r"text\[0\] must be a string, received 3"),
        ({"dot": (0.1, 0.05)}, ValueError, "dot must be two numbers .* smaller first"),
        ({"pitch": (400.0, 9000.0)}, ValueError, "pitch must .* from 1 to 8000"),
        ({"snr": (1.0,)}, ValueError, "snr must be two numbers"),
        ({"rhythm": 2}, ValueError, "rhythm must lie between 0 and 1"),
        ({"sampling_rate": 0}, ValueError, "sampling_rate must be at least 1"),
        ({"min_length": 7}, ValueError, "max_length must be at least 7, received 6"),
        ({"fading": -1.0}, ValueError, "fading must be from 0 to 100"),
    ],
)
def test_wrong_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        morse(**{"count": 1, **arguments})
