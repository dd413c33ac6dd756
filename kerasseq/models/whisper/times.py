r"""When each token is heard: the cross-attention of a decoder as an alignment.

The attention weights of the alignment heads $A_{hts}$, $t$ a token and $s$ a vector of
the sound, are compared over the tokens, smoothed over the sound, and averaged:

$$M_{ts} = \frac{1}{H} \sum_h \mathrm{median}_{|r - s| \le 3}
\frac{A_{htr} - \mathrm{mean}_t A_{htr}}{\mathrm{std}_t A_{htr}}$$

Dynamic time warping finds the path through M, in which neither tokens nor sound go
back, with the largest sum. A token begins where the path reaches it, and ends where it
reaches the next.

Radford et al. 2022 in their published code; Sakoe and Chiba, "Dynamic Programming
Algorithm Optimization for Spoken Word Recognition", 1978.
"""

import numpy as np

MEDIAN_WIDTH = 7  # vectors, as published


def alignment_matrix(weights: np.ndarray, width: int = MEDIAN_WIDTH) -> np.ndarray:
    """Computes M `(T, S)`.

    Args:
        weights: A `(H, T, S)`, only of real sound.
        width: How many vectors the median is taken over, odd.

    Examples:
        >>> weights = np.array([[[0.9, 0.1, 0.1], [0.1, 0.9, 0.9]]])
        >>> alignment_matrix(weights, 1).round().tolist()
        [[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]]
    """
    mean = weights.mean(axis=1, keepdims=True)
    std = weights.std(axis=1, keepdims=True)
    z = (weights - mean) / np.where(std > 0, std, 1)
    return median_filter(z, width).mean(axis=0)


def median_filter(x: np.ndarray, width: int) -> np.ndarray:
    """Replaces each number by the median around it along the last axis.

    The ends are reflected. A sequence that is too short for that stays as it is.

    Examples:
        >>> median_filter(np.array([[5, 1, 4, 9, 2]]), 3).tolist()
        [[1, 4, 4, 4, 9]]
    """
    half = width // 2
    if x.shape[-1] <= half:
        return x
    ends = [(0, 0)] * (x.ndim - 1) + [(half, half)]
    padded = np.pad(x, ends, mode="reflect")
    around = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    return np.sort(around, axis=-1)[..., half]


def warping_path(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Finds the path of the least sum from the first corner to the last.

    $$D_{ts} = C_{ts} + \min(D_{t-1,s-1}, D_{t-1,s}, D_{t,s-1})$$

    Of equal ones the last is taken. All entries with the same t + s are computed at
    once.

    Args:
        cost: C `(T, S)`.

    Returns:
        The index of the token and of the vector of each step of the path.

    Examples:
        >>> t, s = warping_path(np.array([[0, 0, 1], [1, 1, 0]]))
        >>> t.tolist(), s.tolist()
        ([0, 0, 1], [0, 1, 2])
    """
    T, S = cost.shape
    D = np.full((T + 1, S + 1), np.inf, "float32")
    D[0, 0] = 0
    trace = np.full((T + 1, S + 1), 2, "int8")
    trace[:, 0] = 1
    trace[0] = 2
    for n in range(2, T + S + 1):
        t = np.arange(max(1, n - S), min(T, n - 1) + 1)
        s = n - t
        both, token, sound = D[t - 1, s - 1], D[t - 1, s], D[t, s - 1]
        is_both = (both < token) & (both < sound)
        is_token = (token < both) & (token < sound)
        trace[t, s] = np.where(is_both, 0, np.where(is_token, 1, 2))
        least = np.where(is_both, both, np.where(is_token, token, sound))
        D[t, s] = cost[t - 1, s - 1] + least.astype("float64")
    t, s, path = T, S, []
    while t > 0 or s > 0:
        path.append((t - 1, s - 1))
        step = trace[t, s]
        t, s = t - (step != 2), s - (step != 1)
    tokens, vectors = np.array(path[::-1]).T
    return tokens, vectors


def token_times(matrix: np.ndarray, seconds: float) -> np.ndarray:
    """Computes when each token begins and ends, `(T - 1, 2)` in seconds.

    Args:
        matrix: M `(T, S)`; row t is of the step that writes token t, the last row of
            the step after the last token.
        seconds: Of a vector.

    Examples:
        >>> matrix = np.array([[2, 2, -1, -1], [-1, -1, 2, -1], [-1, -1, -1, 2]])
        >>> token_times(matrix, 0.5).tolist()
        [[0.0, 1.0], [1.0, 1.5]]
    """
    tokens, vectors = warping_path(-matrix.astype("float64"))
    reached = np.diff(tokens, prepend=-1) > 0
    begins = vectors[reached] * seconds
    return np.stack([begins[:-1], begins[1:]], axis=1)
