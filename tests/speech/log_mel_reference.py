"""The log-mel spectrogram in NumPy: one sound, one frame and one filter at a time."""

import numpy as np


def mel(frequency, scale):
    if scale == "htk":
        return 2595 * np.log10(1 + frequency / 700)
    if frequency < 1000:
        return 3 * frequency / 200
    return 15 + 27 * np.log(frequency / 1000) / np.log(6.4)


def hertz(value, scale):
    """Inverts `mel` by bisection."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if mel(middle, scale) < value else (low, middle)
    return low


def filters(mels, bins, rate, scale):
    """Weights of each filter at each frequency: `(mels, 1 + bins // 2)`."""
    ends = [hertz(m, scale) for m in np.linspace(0, mel(rate / 2, scale), mels + 2)]
    found = np.zeros((mels, 1 + bins // 2))
    for m, (low, center, high) in enumerate(
        zip(ends, ends[1:], ends[2:], strict=False)
    ):
        for k in range(found.shape[1]):
            f = k * rate / bins
            if low < f <= center:
                found[m, k] = (f - low) / (center - low)
            elif center < f < high:
                found[m, k] = (high - f) / (high - center)
        if scale == "slaney":
            found[m] *= 2 / (high - low)
    return found


def power(audio, bins, stride):
    """The power of each frequency in each frame: `(len(audio) // stride, K)`."""
    padded = np.pad(audio.astype("float64"), bins // 2 + bins, mode="reflect")[bins:]
    n = np.arange(bins)
    window = np.sin(np.pi * n / bins) ** 2
    rows = []
    for t in range(len(audio) // stride):
        frame = window * padded[t * stride : t * stride + bins]
        waves = np.exp(-2j * np.pi * np.outer(np.arange(1 + bins // 2), n) / bins)
        rows.append(np.abs(waves @ frame) ** 2)
    return np.array(rows)


def log_mel(audio, mels, bins, stride, rate, mel_scale, scale):
    """The layer's outputs for one sound."""
    P = power(audio, bins, stride) @ filters(mels, bins, rate, mel_scale).T
    if scale is None:
        return P
    if scale == "log":
        return np.log(np.maximum(P, 1e-10))
    L = np.log10(np.maximum(P, 1e-10))
    return (np.maximum(L, L.max() - 8) + 4) / 4
