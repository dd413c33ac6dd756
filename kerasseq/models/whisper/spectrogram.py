"""Spectrograms of sounds of any length, computed in parts."""

import numpy as np
from keras import ops

from kerasseq.speech.log_mel import FLOOR, RANGE, LogMelSpectrogram


def log_mel_frames(
    layer: LogMelSpectrogram, sound: np.ndarray, part: int
) -> np.ndarray:
    """Computes the log-mel frames of a sound, as the layer does of the whole.

    The quietest value is that of the whole sound, which Whisper's code takes, too.

    Args:
        layer: The layer of the model.
        sound: float32 `(samples,)`.
        part: Frames that are computed at once.

    Returns:
        float32 `(frames, mels)`.

    Examples:
        >>> layer = LogMelSpectrogram(num_mels=7, num_fft_bins=32, stride=10)
        >>> sound = np.sin(np.arange(500)).astype("float32")
        >>> whole = keras.ops.convert_to_numpy(layer(sound[None]))[0]
        >>> float(abs(log_mel_frames(layer, sound, 9) - whole).max()) < 1e-5
        True
    """
    config = {**layer.get_config(), "scale": None}
    power = LogMelSpectrogram.from_config(config)
    stride, total = layer.stride, len(sound) // layer.stride
    margin = -(-layer.num_fft_bins // (2 * stride)) + 1  # what a frame reads beside it
    log_power = np.empty((total, layer.num_mels), "float32")
    for first in range(0, total, part):
        last = min(first + part, total)
        begin = max(first - margin, 0)
        end = (last + margin) * stride if last < total else len(sound)
        frames = power(sound[None, begin * stride : end])
        frames = ops.convert_to_numpy(frames)[0, first - begin :][: last - first]
        log_power[first:last] = np.log10(np.maximum(frames, FLOOR))
    # In place, as an hour of sound has 115 MB of frames.
    np.maximum(log_power, log_power.max() - RANGE, out=log_power)
    log_power += 4
    log_power /= 4
    return log_power
