r"""Mel filters: triangles over the frequencies of a spectrum, evenly spaced in mel.

The mel scale spaces tones as listeners do. Two formulas are in use:

$$
m_{\mathrm{htk}} = 2595 \log_{10}\Big(1 + \frac{f}{700}\Big), \qquad
m_{\mathrm{slaney}} = \begin{cases}
3 f / 200 & f < 1000 \\
15 + 27 \ln(f / 1000) / \ln 6.4 & f \ge 1000
\end{cases}
$$

Sources: O'Shaughnessy, "Speech Communication", 1987; Slaney, "Auditory Toolbox", 1998.
"""

import numpy as np

BREAK = 1000.0  # Hz: below, Slaney's scale is linear
BREAK_MEL = 15.0  # what it is there: 200/3 Hz are one mel
LOG_STEP = np.log(6.4) / 27  # of one mel above it


def to_mel(frequency: np.ndarray, mel_scale: str) -> np.ndarray:
    """Converts Hz to mel.

    Args:
        frequency: Frequencies in Hz.
        mel_scale: "slaney" or "htk".

    Examples:
        >>> to_mel(np.array([200.0, 1000.0, 6400.0]), "slaney").tolist()
        [3.0, 15.0, 42.0]
        >>> to_mel(np.array([1000.0]), "htk").round(1).tolist()
        [1000.0]
    """
    if mel_scale == "htk":
        return 2595 * np.log10(1 + frequency / 700)
    above = BREAK_MEL + np.log(np.maximum(frequency, BREAK) / BREAK) / LOG_STEP
    return np.where(frequency < BREAK, frequency * BREAK_MEL / BREAK, above)


def to_hertz(mel: np.ndarray, mel_scale: str) -> np.ndarray:
    """Converts mel to Hz, the inverse of `to_mel`.

    Examples:
        >>> to_hertz(np.array([3.0, 15.0, 42.0]), "slaney").round(6).tolist()
        [200.0, 1000.0, 6400.0]
    """
    if mel_scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    above = BREAK * np.exp(LOG_STEP * np.maximum(mel - BREAK_MEL, 0))
    return np.where(mel < BREAK_MEL, mel * BREAK / BREAK_MEL, above)


def mel_filters(
    num_mels: int,
    num_fft_bins: int,
    sampling_rate: int,
    mel_scale: str,
    min_freq: float,
    max_freq: float,
) -> np.ndarray:
    """Returns the matrix from the power of frequencies to the power in mel bands.

    A filter is 0 at the centers of its neighbors and rises and falls linearly in Hz.
    Those of "htk" are 1 at their center; those of "slaney" are scaled to an area of 1,
    so that the broad filters of high frequencies do not weigh more.

    Args:
        num_mels: Number of filters, M.
        num_fft_bins: Length of the Fourier transform, N.
        sampling_rate: Samples a second.
        mel_scale: "slaney" or "htk".
        min_freq: Lower end of the first filter in Hz.
        max_freq: Upper end of the last filter in Hz.

    Returns:
        float64 of shape `(1 + N // 2, M)`.

    Raises:
        ValueError: If a filter is so narrow that it lies between two frequencies.

    Examples:
        >>> filters = mel_filters(3, 16, 8000, "htk", 0.0, 4000.0)
        >>> filters.round(2).T.tolist()[0]
        [0.0, 0.89, 0.17, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    ends = to_mel(np.array([min_freq, max_freq]), mel_scale)
    centers = to_hertz(np.linspace(*ends, num_mels + 2), mel_scale)
    bins = np.arange(1 + num_fft_bins // 2) * sampling_rate / num_fft_bins
    width = np.diff(centers)
    rising = (bins[:, None] - centers[:-2]) / width[:-1]  # (1 + N // 2, M)
    falling = (centers[2:] - bins[:, None]) / width[1:]
    filters = np.maximum(0, np.minimum(rising, falling))
    empty = np.flatnonzero(filters.max(axis=0) == 0)
    if empty.size:
        raise ValueError(
            f"num_mels={num_mels} are too many filters from {min_freq} to {max_freq} "
            f"Hz for num_fft_bins={num_fft_bins} at sampling_rate={sampling_rate}: "
            f"filter {empty[0]} lies between two frequencies. Choose fewer filters, or "
            "a longer transform"
        )
    if mel_scale == "slaney":
        filters *= 2 / (centers[2:] - centers[:-2])
    return filters
