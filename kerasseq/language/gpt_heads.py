r"""What stands on top of GPT: how each task becomes texts, and how it is answered.

With $h(\cdot)$ the vector of the last mark, [extract], after a row of tokens:

| head | rows | logits |
|---|---|---|
| "classify" | [start] text [extract] | $W h + b$ |
| "entail" | [start] premise [delimiter] hypothesis [extract] | $W h + b$ |
| "compare" | [start] a [delimiter] b [extract], and b first | $W (h_1 + h_2) + b$ |
| "choose" | each: [start] context [delimiter] answer [extract] | $w h_k + b$ |

The heads of BERT for words and for answers in a text do here what they do there.

Radford et al. 2018, figure 1. Course slides D: the GPT architecture.
"""

import numpy as np
from keras import ops

from kerasseq.language import bert_heads
from kerasseq.language.bert_layers import OnlyReal


class Classify(bert_heads.Classify):
    """A class for each text, logits `(B, C)`."""

    def read(self, reader, x):
        return reader.read_texts(x)


class Entail(Classify):
    """A class for each pair of texts in their order, logits `(B, C)`."""

    def read(self, reader, x):
        return reader.read_pairs(x)


class Compare(Classify):
    """A class for each pair of texts that has no order, logits `(B, C)`."""

    several = True

    def outputs(self, trunk):
        both = ops.sum(trunk.pooled(), axis=1)
        return self.dense(self.num_classes, "classes")(
            trunk.drop("class_dropout")(both)
        )

    def read(self, reader, x):
        return reader.read_both_orders(x)


class Choose(Classify):
    """Which answer is right, logits `(B, K)`; never one that is not there."""

    classes = False
    several = True

    def outputs(self, trunk):
        pooled = trunk.drop("class_dropout")(trunk.pooled())
        logits = self.dense(1, "choice")(pooled)[..., 0]
        return OnlyReal(name="choices", dtype="float32")(logits, trunk.there())

    def read(self, reader, x):
        return reader.read_choices(x)

    def targets(self, rows, y):
        y, answers = np.asarray(y), np.array(rows.places)
        bert_heads.check_labels(y, answers.max(), "answers")
        for row in np.flatnonzero(y.reshape(-1) >= answers)[:1]:
            raise ValueError(
                f"y[{row}]={y[row]}, but row {row} has {answers[row]} answers, which "
                f"allows 0 to {answers[row] - 1}"
            )
        return y, None


HEADS = {
    "classify": Classify,
    "entail": Entail,
    "compare": Compare,
    "choose": Choose,
    "tag": bert_heads.Tag,
    "span": bert_heads.Span,
}
