"""Count the weights of an architecture without building it.

Two counts. "matrices" is that of the course (slides E): what a vector is multiplied by,
each head by itself, embedding and unembedding both; no biases, norms or positions. For
GPT-3 that gives 175,181,291,520 weights in 27,938 matrices. "all" has every weight of
the model as it is built, and a tied embedding once.

Loads no Keras.
"""

import dataclasses
import math

from kerasseq.core.checks import one_of
from kerasseq.language.architecture import Architecture
from kerasseq.language.architectures import find
from kerasseq.language.weights import Part, weights

_MATRICES = {  # by the end of the name
    "token_embedding": "Embedding",
    "patch_embedding/kernel": "Patches",
    "query/kernel": "Query",
    "key/kernel": "Key",
    "value/kernel": "Value",
    "position/kernel": "Position",
    "attention_output/kernel": "Output",
    "gate/kernel": "Gate",
    "up/kernel": "Up-projection",
    "down/kernel": "Down-projection",
    "pooler/kernel": "Pooler",
    "classes/kernel": "Classes",
    "logits/kernel": "Unembedding",
}
_PER_HEAD = ("Query", "Key", "Value", "Position")


@dataclasses.dataclass(frozen=True)
class Count:
    """The weights of an architecture; as text, a table.

    Attributes:
        architecture: Whose they are.
        what: "matrices" or "all".
        parts: Each with name, group, shape, number and weights, in the order of the
            model.
    """

    architecture: Architecture
    what: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """How many weights."""
        return sum(part.weights for part in self.parts)

    @property
    def number(self) -> int:
        """How many matrices, or with "all", how many arrays of weights."""
        return sum(part.number for part in self.parts)

    @property
    def groups(self) -> dict[str, int]:
        """How many weights there are in each group of parts.

        Examples:
            >>> groups = count("gpt3").groups
            >>> f"{groups['attention']:,}"
            '57,982,058,496'
        """
        found = {}
        for part in self.parts:
            found[part.group] = found.get(part.group, 0) + part.weights
        return found

    def __str__(self):
        rows = [
            (p.name, " × ".join(map(str, p.shape)), f"{p.number:,}", f"{p.weights:,}")
            for p in self.parts
        ]
        name, shape, number, total = (max(map(len, c)) for c in zip(*rows, strict=True))
        lines = [
            f"{n:<{name}}  {s:>{shape}}  {k:>{number}}  {w:>{total}}"
            for n, s, k, w in rows
        ]
        what = "matrices" if self.what == "matrices" else "arrays"
        return "\n".join([*lines, f"{self.total:,} weights in {self.number:,} {what}"])


def count(architecture: str | Architecture, *, what: str = "matrices") -> Count:
    """Count the weights of an architecture, without building it.

    Args:
        architecture: A name or a row of `models.architectures`.
        what: "matrices" for what multiplies, as the course counts: per head, with
            embedding and unembedding both, without biases, norms and positions. "all"
            for every weight of the model, a tied embedding once.

    Returns:
        A `Count`, with the `total`, the `number` of matrices, and the `parts`.

    Raises:
        TypeError: If the architecture is neither a name nor a row.
        ValueError: If the name or `what` is unknown.

    Examples:
        >>> print(count("gpt3"))
        Embedding        12288 × 50257      1     617,558,016
        Query              128 × 12288  9,216  14,495,514,624
        Key                128 × 12288  9,216  14,495,514,624
        Value              128 × 12288  9,216  14,495,514,624
        Output           12288 × 12288     96  14,495,514,624
        Up-projection    49152 × 12288     96  57,982,058,496
        Down-projection  12288 × 49152     96  57,982,058,496
        Unembedding      50257 × 12288      1     617,558,016
        175,181,291,520 weights in 27,938 matrices
        >>> f"{count('bert_base', what='all').total:,}"
        '109,482,240'
    """
    architecture = find(architecture)
    one_of("what", what, ("matrices", "all"))
    found = weights(architecture) if what == "all" else _matrices(architecture)
    return Count(architecture, what, tuple(found))


def _matrices(a):
    """The kernels among the weights, as matrices `(outputs, inputs)`."""
    for part in weights(dataclasses.replace(a, tie_embeddings=False)):
        for end, label in _MATRICES.items():
            if part.name == end or part.name.endswith(f"/{end}"):
                shape, number = _as_matrices(part, label in _PER_HEAD)
                yield Part(_where(part.name, label, a), part.group, shape, number)


def _as_matrices(part, per_head):
    if per_head:
        d, n, h = part.shape
        return (h, d), n * part.number
    *inputs, outputs = part.shape
    return (outputs, math.prod(inputs)), part.number


def _where(name, label, a):
    """With two stacks, "Key" becomes "Encoder key", "Decoder key" or "Cross key"."""
    if len(a.stacks) == 1 or "*" not in name:
        return label
    where = "Cross" if "cross_attention" in name else name.partition("/")[0].title()
    return f"{where} {label.lower()}"
