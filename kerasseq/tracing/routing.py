r"""How much the kind of a token tells about the expert that reads it, in bits.

With $p_i$ the distribution over E experts of token i, $\bar p_k$ its mean over the
$n_k$ tokens of kind k, and $H(p) = -\sum_e p_e \log_2 p_e$,

$$
L_k = \frac{1}{n_k} \sum_{i \in k} H(p_i), \qquad
G_k = H(\bar p_k), \qquad
I = H\Big(\frac1K \sum_k \bar p_k\Big) - \frac1K \sum_k G_k
$$

L is low if the router is sure about each token, and G is high if the tokens of a kind
spread over many experts; LIMoE trains for both. I is the mutual information between
kind and expert, with K kinds that are equally frequent: 0 if all kinds use the experts
alike, and $\log_2 K$ if no two kinds share an expert. Mustafa et al. 2022, section 2.2,
for L and G.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import short

TOLERANCE = 1e-3  # of the sum of a distribution, for half precision


class RoutingInformation(NamedTuple):
    """The entropies of the choice of experts, in bits.

    Attributes:
        local_entropy: L, by the name of the kind.
        global_entropy: G, by the name of the kind.
        mutual_information: I.
    """

    local_entropy: dict[str, float]
    global_entropy: dict[str, float]
    mutual_information: float


def routing_information(shares: Mapping[str, ArrayLike]) -> RoutingInformation:
    """Computes how much the kind of a token tells about its expert.

    Args:
        shares: For each kind of token the distributions over experts `(tokens, E)`,
            whose rows sum to 1: the probabilities of a router, which a trace has as
            "router", or the shares of the choices of all tokens as one row.

    Returns:
        A `RoutingInformation`.

    Raises:
        ValueError: If there is no kind, a kind has no tokens, the numbers of experts
            differ, or a row is no distribution.

    Examples:
        >>> patches, words = [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0]]
        >>> routing_information({"patches": patches, "words": words})
        RoutingInformation(local_entropy={'patches': 0.0, 'words': 0.0}, \
global_entropy={'patches': 0.0, 'words': 0.0}, mutual_information=1.0)
        >>> both = [[0.5, 0.5]]
        >>> routing_information({"patches": both, "words": both}).mutual_information
        0.0
    """
    p = _checked(shares)
    means = {kind: rows.mean(axis=0) for kind, rows in p.items()}
    L = {kind: float(_entropy(rows).mean()) for kind, rows in p.items()}
    G = {kind: float(_entropy(mean)) for kind, mean in means.items()}
    I = _entropy(np.mean([*means.values()], axis=0)) - np.mean([*G.values()])  # noqa: E741
    return RoutingInformation(L, G, max(float(I), 0.0))


def _entropy(p):
    """Returns the entropy of the last axis, in bits."""
    terms = p * np.log2(np.where(p > 0, p, 1))
    return np.abs(np.sum(terms, axis=-1))  # not -0.0


def _checked(shares):
    """Returns the distributions of each kind as arrays `(tokens, E)`."""
    if not isinstance(shares, Mapping) or not shares:
        raise ValueError(
            "shares must be a dictionary with an array (tokens, experts) for each kind "
            f'of token, such as {{"patches": p, "words": q}}, received {short(shares)}'
        )
    arrays = {kind: np.asarray(rows, "float64") for kind, rows in shares.items()}
    experts = next(iter(arrays.values())).shape[-1:]
    for kind, p in arrays.items():
        if p.ndim != 2 or not p.size or p.shape[-1:] != experts:
            shapes = {name: each.shape for name, each in arrays.items()}
            raise ValueError(
                "shares must have the shape (tokens, experts) for each kind, with at "
                f"least one token and the same experts, received {shapes}"
            )
        sums = p.sum(axis=-1)
        wrong = np.flatnonzero(~(np.abs(sums - 1) < TOLERANCE) | (p < 0).any(axis=-1))
        if len(wrong):
            raise ValueError(
                f"shares[{kind!r}] must be distributions over experts, at least 0 and "
                f"with the sum 1, received row {wrong[0]}: {p[wrong[0]].tolist()}. "
                "Divide each row by its sum"
            )
    return arrays
