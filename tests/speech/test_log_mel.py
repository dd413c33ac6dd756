"""Log-mel spectrograms: the equation, peers, and each sound by itself."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.layers import LogMelSpectrogram
from kerasseq.speech.mel_filters import mel_filters
from tests.layer_checks import assert_close, called
from tests.speech import log_mel_reference as references

pytestmark = pytest.mark.everywhere("Fourier transforms and gathers of the backend")

RNG = np.random.default_rng(0)
SIZES = {"num_mels": 7, "num_fft_bins": 37, "stride": 11, "sampling_rate": 5003}
LENGTHS = [101, 47, 10]  # the last one has no frame
AUDIO = RNG.normal(size=(3, 101)).astype("float32") * [[1.0], [1e-4], [30.0]]
REAL = np.arange(101) < np.array(LENGTHS)[:, None]


def array(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("scale", ["whisper", "log", None])
@pytest.mark.parametrize("mel_scale", ["slaney", "htk"])
def test_is_the_equation_for_each_sound_by_itself(mel_scale, scale):
    layer = LogMelSpectrogram(**SIZES, mel_scale=mel_scale, scale=scale)
    garbage = np.where(REAL, AUDIO, np.nan).astype("float32")
    found = array(called(layer, garbage, mask=REAL))
    frames = array(layer.compute_mask(garbage, REAL))
    assert found.shape == (3, 9, 7)
    for y, real, x, length in zip(found, frames, AUDIO, LENGTHS, strict=True):
        assert real.tolist() == [t < length // 11 for t in range(9)]
        np.testing.assert_array_equal(y[~real], 0)
        if length >= 11:
            expected = references.log_mel(
                x[:length], *SIZES.values(), mel_scale=mel_scale, scale=scale
            )
            largest = np.abs(expected).max()
            np.testing.assert_allclose(y[real], expected, atol=1e-5 * largest)


def test_padding_on_the_left_and_gaps():
    layer = LogMelSpectrogram(**SIZES)
    x, length = AUDIO[1, :47], 47
    alone = array(called(layer, x[None]))[0]
    left = np.full((2, 61), np.inf, "float32")
    left[0, 14:], left[1, 3:50] = x, x
    mask = np.zeros((2, 61), bool)
    mask[0, 14:] = mask[1, 3:50] = True
    found = array(called(layer, left, mask=mask))
    for y in found:
        np.testing.assert_allclose(y[: length // 11], alone, atol=1e-5)
    mask[0, 20:25] = False  # a gap is silence
    silent = np.where(mask[0], left[0], 0)[14:]
    gap = array(called(layer, left, mask=mask))[0, : length // 11]
    np.testing.assert_allclose(gap, array(called(layer, silent[None]))[0], atol=1e-5)


@pytest.mark.parametrize(("bins", "stride"), [(8, 13), (12, 4), (90, 7)])
def test_any_stride_and_sounds_shorter_than_a_frame(bins, stride):
    """A frame of 90 samples is reflected several times in a sound of 29."""
    layer = LogMelSpectrogram(2, bins, stride, 997, scale="log")
    x = AUDIO[0, :29]
    expected = np.log(references.power(x, bins, stride) @ layer.filters)
    assert_close(called(layer, x[None])[0], expected, atol=1e-5)


@pytest.mark.everywhere("casts", cases=1)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_float32_inside(policy):
    """Whatever the compute dtype, only the outputs are rounded to it."""
    layer = LogMelSpectrogram(**SIZES, dtype=policy)
    dtype = keras.DTypePolicy(policy).compute_dtype
    quiet = 1e-6 * AUDIO[:1]  # 0 in float16
    y = called(layer, quiet)
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    exact = LogMelSpectrogram(**SIZES)(quiet)
    np.testing.assert_array_equal(
        array(ops.cast(y, "float32")),
        array(ops.cast(ops.cast(exact, dtype), "float32")),
    )


def test_in_a_model_of_unknown_length():
    audio, mask = keras.Input((None,)), keras.Input((None,), dtype="bool")
    layer = LogMelSpectrogram(**SIZES)
    outputs = [layer(audio, mask=mask), layer.compute_mask(audio, mask)]
    assert outputs[0].shape == (None, None, 7)
    model = keras.Model([audio, mask], outputs)
    y, frames = model([AUDIO.astype("float32"), REAL])
    assert_close(y, called(layer, AUDIO, mask=REAL))
    np.testing.assert_array_equal(frames, layer.compute_mask(AUDIO, REAL))


@pytest.mark.once("the filters are NumPy")
@pytest.mark.parametrize(("mels", "bins", "rate"), [(7, 37, 5003), (20, 200, 8000)])
@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_filters_are_those_of_the_formula(scale, mels, bins, rate):
    found = mel_filters(mels, bins, rate, scale, 0.0, rate / 2)
    expected = references.filters(mels, bins, rate, scale)
    np.testing.assert_allclose(found.T, expected, atol=1e-12)


@pytest.mark.once("a tone")
def test_a_tone_is_loudest_in_its_band():
    layer = LogMelSpectrogram(20, 400, 160, mel_scale="htk")
    x = np.sin(2 * np.pi * 1600 * np.arange(3200) / 16000)
    center = [
        references.hertz(m, "htk")
        for m in np.linspace(0, references.mel(8000, "htk"), 22)
    ][1:-1]
    nearest = np.argmin(np.abs(np.array(center) - 1600))
    assert set(array(layer(x[None]))[0, 2:-2].argmax(axis=1)) == {nearest}


@pytest.mark.once("equal to NumPy's on all backends")
@pytest.mark.parametrize("mels", [80, 128])
def test_is_the_feature_extractor_of_hugging_face(mels):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.WhisperFeatureExtractor(feature_size=mels)
    x = (RNG.normal(size=70001) * np.sin(np.arange(70001) / 9000)).astype("float32")
    expected = theirs(x, sampling_rate=16000, return_tensors="np").input_features
    found = array(LogMelSpectrogram(mels)(np.pad(x, (0, 480000 - 70001))[None]))
    np.testing.assert_allclose(found, expected.transpose(0, 2, 1), atol=2e-5)


@pytest.mark.full("equal to the features of Hugging Face")
@pytest.mark.parametrize("mels", [80, 128])
def test_is_the_audio_converter_of_keras_hub(mels):
    keras_hub = pytest.importorskip("keras_hub")
    x = RNG.normal(size=(2, 70001)).astype("float32")
    expected = keras_hub.layers.WhisperAudioConverter(num_mels=mels)(x)
    found = LogMelSpectrogram(mels)(np.pad(x, ((0, 0), (0, 480000 - 70001))))
    np.testing.assert_allclose(array(found), array(expected), atol=5e-5)


@pytest.mark.once("error messages")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_mels": 128, "num_fft_bins": 64}, "num_mels=128 are too many filters"),
        ({"scale": "decibel"}, 'scale="decibel" is not one of "whisper", "log", None'),
        ({"mel_scale": "mel"}, 'mel_scale="mel" is not one of "slaney", "htk"'),
        ({"max_freq": 9000.0}, "must lie between 0 and half of sampling_rate=16000"),
        ({"min_freq": -1.0}, "must lie between 0 and half of sampling_rate=16000"),
        ({"min_freq": 700.0, "max_freq": 70.0}, "the first below the second"),
        ({"sampling_rate": 0}, "sampling_rate must be at least 1, received 0"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        LogMelSpectrogram(**arguments)


@pytest.mark.once("error messages")
def test_wrong_audio():
    layer = LogMelSpectrogram()
    for audio, mask, error, words in [
        (np.ones((2, 159)), None, ValueError, "at least stride=160 samples, .*159"),
        (np.ones(320), None, ValueError, r"have shape \(batch, samples\)"),
        (np.ones((2, 320, 2)), None, ValueError, r"have shape \(batch, samples\)"),
        (np.ones((2, 320)), np.ones((2, 2), bool), ValueError, "its samples is 2"),
        (np.ones((2, 320), bool), None, TypeError, "received booleans"),
    ]:
        with pytest.raises(error, match=words):
            layer(audio, mask=mask)
