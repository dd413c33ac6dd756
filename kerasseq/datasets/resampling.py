r"""Resampling: a sound at another rate, without the frequencies that would alias.

With rates in the ratio $L / M$, output $n$ lies at the time $n M / L$ of the input:

$$
y_n = \sum_k x_k\, h\Big(\frac{n M}{L} - k\Big), \qquad
h(t) = c\, \mathrm{sinc}(c\, t)\, w(c\, t / Z)
$$

$h$ is the ideal low-pass filter, cut to Z zeros on either side by the Kaiser window w.
There are only L different sets of weights, the phases: each serves every L-th output.
Sources: Smith, "Digital Audio Resampling", 2002; Kaiser 1974 for $\beta$ and the width
of the transition.
"""

import math

import numpy as np

ZEROS = 64  # of the sinc on either side, Z
BETA = 9.0  # of the Kaiser window: 90 dB between what passes and what does not
ROLLOFF = 0.955  # cutoff below half of the lower rate, by half of the transition
GRID = np.linspace(0, 1, 2**13)  # where the window is computed; linear between: 2e-7
# The window of Kaiser, of which BETA sets how much passes beyond the cutoff.
KAISER = np.i0(BETA * np.sqrt(1 - GRID**2)) / np.i0(BETA)
BLOCK = 2**22  # products at a time, so that memory stays bounded


def resample(audio: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Resamples a sound.

    Frequencies up to 0.91 of half of the lower rate pass; those above half of it, which
    would alias, are lowered by 90 dB. Before and after the sound is silence.

    Args:
        audio: `(S,)`.
        rate: Its samples a second.
        new_rate: Samples a second of the result.

    Returns:
        float32 of shape `(ceil(S * new_rate / rate),)`.

    Examples:
        >>> audio = np.sin(2 * np.pi * 440 * np.arange(4800) / 48000)
        >>> expected = np.sin(2 * np.pi * 440 * np.arange(1600) / 16000)
        >>> error = resample(audio, 48000, 16000) - expected
        >>> bool(np.abs(error[100:-100]).max() < 1e-4)
        True
    """
    divisor = math.gcd(rate, new_rate)
    L, M = new_rate // divisor, rate // divisor
    audio = np.asarray(audio, "float32")
    if L == M:
        return audio
    cutoff = ROLLOFF * min(1.0, L / M)
    half = math.ceil(ZEROS / cutoff)  # inputs on either side
    padded = np.pad(audio, half)
    count = -(-len(audio) * L // M)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    y, block = np.empty(count, "float32"), max(1, BLOCK // (2 * half))
    for phase in range(min(L, count)):
        first, shift = divmod(phase * M, L)  # at first + shift / L
        weights = low_pass(np.arange(1 - half, half + 1) - shift / L, cutoff)
        outputs = y[phase::L]
        for start in range(0, len(outputs), block):
            at = first + 1 + M * np.arange(start, min(start + block, len(outputs)))
            outputs[start : start + block] = windows[at] @ weights
    return y


def low_pass(time: np.ndarray, cutoff: float) -> np.ndarray:
    """Returns the weights of inputs at some times from an output; their sum is 1.

    Args:
        time: In samples.
        cutoff: The highest frequency that passes, as a share of half the rate.
    """
    window = np.interp(np.abs(time * cutoff / ZEROS), GRID, KAISER, right=0)
    weights = np.sinc(cutoff * time) * window
    return (weights / weights.sum()).astype("float32")
