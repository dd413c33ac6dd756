"""Sounds of scenes: pitch, beeps and length, read from the samples."""

import keras
import numpy as np
import pytest

from kerasseq import datasets, layers

RATE = 16000
PITCHES = {  # 950 (4100 / 950) ** (k / 14) - 700 Hz for k = 0 to 5
    "red": 250.0,
    "green": 354.6,
    "blue": 470.7,
    "yellow": 599.6,
    "purple": 742.7,
    "white": 901.5,
}
BEEPS = {"circle": 1, "cross": 2, "triangle": 3, "square": 4}
SECONDS = {"small": 0.2, "medium": 0.3, "large": 0.4}


def tones(sound):
    """Splits a sound at silences of 60 ms: the first samples and ends of its tones."""
    loud = np.abs(sound) > 0.02 * np.abs(sound).max()
    at = np.flatnonzero(loud)
    cuts = np.flatnonzero(np.diff(at) > 0.06 * RATE)
    return [sound[part[0] : part[-1] + 1] for part in np.split(at, cuts + 1)]


def pitch(tone):
    """The frequency of the highest peak of the spectrum of a tone, in Hz."""
    spectrum = np.abs(np.fft.rfft(tone * np.hanning(len(tone)), 8 * RATE))
    return np.argmax(spectrum) / 8


def beep(sound):
    """The longest stretch without 10 ms of silence."""
    at = np.flatnonzero(np.abs(sound) > 0.1 * np.abs(sound).max())
    parts = np.split(at, np.flatnonzero(np.diff(at) > 0.01 * RATE) + 1)
    return max((sound[p[0] : p[-1] + 1] for p in parts), key=len), len(parts)


@pytest.mark.parametrize("options", [{}, {"objects": 2}, {"frames": 4}])
def test_tones_tell_color_shape_size_and_layout(options):
    scenes = datasets.scenes(97, sound=True, seed=1, **options)
    of_layout = {}
    for n, sound in enumerate(scenes.audio):
        assert sound.dtype == np.float32 and np.abs(sound).max() <= 1
        samples = tones(sound)
        objects = [samples[0], *samples[2:]]
        assert len(samples) == len(scenes.shapes[n]) + 1
        for k, tone in enumerate(objects):
            one, count = beep(tone)
            assert count == BEEPS[scenes.shapes[n][k]]
            assert abs(pitch(one) - PITCHES[scenes.colors[n][k]]) < 20
            length = SECONDS[scenes.sizes[n][k]] - 0.025  # the end is silent
            assert abs(len(tone) / RATE - length) < 0.005
        of_layout.setdefault(scenes.layouts[n], []).append(pitch(samples[1]))
    middles = sorted(np.mean(found) for found in of_layout.values())
    assert max(np.ptp(found) for found in of_layout.values()) < 5
    assert middles[0] > 1050 and np.diff(middles).min() > 100


@pytest.mark.once("the front end has tests on all backends")
def test_the_front_end_of_speech_tells_the_pitches_apart():
    layer = layers.LogMelSpectrogram(
        num_mels=20, sampling_rate=8000, num_fft_bins=256, stride=80
    )
    scenes = datasets.scenes(61, sound=True, sampling_rate=8000, seed=1)
    filters = {}
    for n, sound in enumerate(scenes.audio):
        frames = keras.ops.convert_to_numpy(layer(sound[None]))[0]  # (T, 20)
        loudest = frames.argmax(axis=-1)[frames.max(axis=-1) > frames.max() - 1]
        filters.setdefault(scenes.colors[n], set()).add(loudest.min())
        filters.setdefault(scenes.layouts[n], set()).add(loudest.max())
    assert len(filters) == 6 + 9
    assert all(len(found) == 1 for found in filters.values())
    assert len(set.union(*filters.values())) == 15


def test_noise_and_parts():
    plain, noisy = (datasets.scenes(5, sound=True, noise=s).audio for s in (0, 0.05))
    difference = noisy[2] - plain[2]
    assert abs(difference.std() - 0.05) < 0.003
    assert len(plain) == 5 and len(plain[1:3]) == 2
    np.testing.assert_array_equal(plain[1:3][0], plain[1])
    np.testing.assert_array_equal(plain.take([4])[0], plain[-1])
    assert repr(plain) == "<SceneTones of 5 scenes at 16,000 Hz>"
    with pytest.raises(IndexError):
        plain[5]
    assert datasets.scenes(2).audio is None
