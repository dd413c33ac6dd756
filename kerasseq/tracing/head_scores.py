r"""Which heads attend as a role says, and which of them the model needs for it.

A role is a relation between two tokens, such as "pronoun to noun", and its sentences
are labeled by their grammar: which query $q$ should attend to which key $k$, and at
which tokens a model without this relation would be worse. Head $n$ has for a role

$$
\text{score} = \operatorname{mean}_{(q, k)} \alpha^n_{q k}, \qquad
\text{effect} = \mathcal L(\text{without head } n) - \mathcal L
$$

the mean attention weight, and the rise of the mean loss at these tokens when the output
of the head is 0. They are two columns, since a head whose weights look like a role need
not be the one that the model uses.

Clark et al. 2019, "What Does BERT Look At?"; Voita et al. 2019; Michel et al. 2019,
"Are Sixteen Heads Really Better than One?"; Olsson et al. 2022 on induction.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.table import Table
from kerasseq.tracing.intervention import at, intervene
from kerasseq.tracing.recording import trace
from kerasseq.tracing.role_labels import read_labels
from kerasseq.tracing.unrecorded import unrecorded

END = "/alignment"


class HeadRole(NamedTuple):
    """A head and a role.

    Attributes:
        role: The name of the role.
        layer: The path of the attention.
        head: The index of the head.
        score: Mean attention weight from query to key, 0 to 1.
        effect: How much the loss rises without the head, in nats a token.
    """

    role: str
    layer: str
    head: int
    score: float
    effect: float


class BestHead(NamedTuple):
    """The head with the highest score of a role, beside all others.

    Attributes:
        layer: The path of the attention.
        head: The index of the head.
        score: Its score.
        effect: Its effect.
        median: The median of the effects of all heads.
        rank: The rank of its effect among all heads; 1 is the largest.
    """

    layer: str
    head: int
    score: float
    effect: float
    median: float
    rank: int


class HeadRoles(list[HeadRole]):
    """The rows of `head_roles`: each role, and within it each head.

    It prints as a table, the highest scores of a role first.
    """

    @property
    def roles(self) -> list[str]:
        """The names of the roles."""
        return list(dict.fromkeys(row.role for row in self))

    def best(self, role: str) -> BestHead:
        """Returns the head with the highest score, and the rank of its effect.

        Args:
            role: The name of the role.

        Raises:
            ValueError: If there is no such role.
        """
        checks.one_of("role", role, self.roles)
        rows = [row for row in self if row.role == role]
        effects = np.array([row.effect for row in rows])
        top = max(rows, key=lambda row: row.score)
        rank = 1 + int(np.sum(effects > top.effect))
        return BestHead(*top[1:], float(np.median(effects)), rank)

    def table(self) -> Table:
        """Returns all scores and effects as a table."""
        rows = sorted(self, key=lambda row: (self.roles.index(row.role), -row.score))
        return Table(
            [
                (r.role, r.layer, str(r.head), f"{r.score:.3f}", f"{r.effect:+.4f}")
                for r in rows
            ],
            ("role", "layer", "head", "score", "effect"),
        )

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()


def head_roles(model: keras.Model, sentences: Sequence[Sequence[Any]]) -> HeadRoles:
    """Computes how much each head attends as each role says, and what it is needed for.

    Args:
        model: A language model with a tokenizer and self-attention, such as a `GPT`.
        sentences: Rows `(text, edges, targets)`, such as those of
            `datasets.role_sentences`. `edges` has for each role pairs of the positions
            of query and key among the tokens; `targets` the positions of the tokens
            whose loss tells whether the model has used the role.

    Returns:
        A `HeadRoles`: for each role and head a score and an effect.

    Raises:
        TypeError: If the model has no tokenizer, or a sentence is no such row.
        ValueError: If the model has no attention weights, a position is outside of a
            sentence, or a role has no edges or no targets.

    Examples:
        >>> from kerasseq import models, text
        >>> tokenizer = text.WordTokenizer().fit("the king sleeps . he dreams")
        >>> model = models.GPT(tokenizer, num_layers=1, num_heads=2, hidden_dim=8)
        >>> role = "pronoun to noun"
        >>> row = ("the king sleeps . he dreams", {role: [(4, 1)]}, {role: [5]})
        >>> roles = head_roles(model, [row])
        >>> [(row.role, row.layer, row.head) for row in roles]
        [('pronoun to noun', 'block_0/self_attention', 0), \
('pronoun to noun', 'block_0/self_attention', 1)]
    """
    ids, places = read_labels(model, sentences)
    with trace(model) as inside:
        before = _losses(model, ids)
    alphas = {
        key.removesuffix(END): inside[key]
        for key in inside
        if key.endswith(END) and f"{key.removesuffix(END)}/heads" in inside
    }
    if not alphas:
        raise ValueError(
            "model must have attention with heads, received one that recorded no "
            f"attention weights. {unrecorded(model)}"
        )
    rows = []
    for layer, alpha in alphas.items():
        for n in range(alpha.shape[1]):
            with intervene(model, {f"{layer}/heads": at(0.0, heads=n)}):
                rise = _losses(model, ids) - before
            for role, (edges, targets) in places.items():
                b, q, k = edges.T
                b_t, t = targets.T
                score, effect = alpha[b, n, q, k].mean(), rise[b_t, t - 1].mean()
                rows.append(HeadRole(role, layer, n, float(score), float(effect)))
    return HeadRoles(sorted(rows, key=lambda row: [*places].index(row.role)))


def _losses(model, ids):
    """Returns the loss of each token after the first, `(B, T - 1)`, in nats."""
    logits = ops.cast(model(ids[:, :-1], training=False), "float32")
    log_p = ops.convert_to_numpy(ops.log_softmax(logits, axis=-1))
    return -np.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[..., 0]
