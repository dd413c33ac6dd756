"""Drawing the next token: temperature, top-k and top-p."""

import numpy as np

from kerasseq.core import checks
from kerasseq.decoding import arguments


def sample(logits, rng, *, temperature=1.0, top_k=None, top_p=None):
    r"""Draw one token per row from $\mathrm{softmax}(\text{logits}/\tau)$.

    Args:
        logits: Array `(batch, vocabulary)`.
        rng: `numpy.random.Generator`.
        temperature: $\tau$. Below 1 sharpens, above 1 flattens; 0 takes the best token.
        top_k: Only the k best tokens may be drawn.
        top_p: Only the fewest best tokens that hold this much probability may be drawn.

    Returns:
        Integer array `(batch,)`.

    Raises:
        ValueError: If a temperature is negative, `top_k` below 1, or `top_p` not in
            (0, 1].

    Examples:
        >>> logits = np.array([[0.0, 2.0, 1.0]])
        >>> sample(logits, np.random.default_rng(0), temperature=0).tolist()
        [1]
    """
    check_sampling(temperature, top_k, top_p)
    try:
        rows = np.asarray(logits, "float64")
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(
            f"logits must be numbers (batch, vocabulary), got {checks.short(logits)}"
        )
    logits = rows
    if temperature == 0:
        return logits.argmax(axis=-1)
    logits = logits / temperature
    order = np.argsort(-logits, axis=-1, kind="stable")  # best first
    ranked = np.take_along_axis(logits, order, axis=-1)
    p = np.exp(ranked - ranked[:, :1])
    if top_k is not None:
        p[:, top_k:] = 0
    p /= p.sum(axis=-1, keepdims=True)
    if top_p is not None:
        before = np.cumsum(p, axis=-1) - p  # what better tokens already hold
        p[before >= top_p] = 0
    total = np.cumsum(p, axis=-1)
    drawn = rng.random((len(p), 1)) * total[:, -1:]
    rank = np.sum(total <= drawn, axis=-1, keepdims=True)
    return np.take_along_axis(order, rank, axis=-1)[:, 0]


def check_sampling(temperature, top_k, top_p):
    """Raise a `ValueError` that names the argument that is out of range."""
    checks.number("temperature", temperature)
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, got {temperature}")
    if top_k is not None:
        checks.whole_number("top_k", top_k)
    if top_p is not None:
        arguments.share("top_p", top_p)
