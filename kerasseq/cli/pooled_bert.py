r"""A small BERT for `kerasseq compare`, and the classifier that it is fine-tuned to.

Two things differ from the paper, as the model is small and trained for minutes. The
kernels begin with the standard deviation $1 / \sqrt{D}$: the 0.02 of the paper is near
that for D = 768, but too small for the D of a small model. And the classifier reads the
mean of the hidden states of the tokens in place of the state of [CLS], to which a short
pre-training contributes little.
"""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

import kerasseq
from kerasseq.core.padding import pad_rows
from kerasseq.text.tokenizers.tokenizer import Tokenizer

LAYERS, HEADS, DROPOUT, LONGEST = 2, 4, 0.1, 64
STDDEV = 0.02  # of the kernels, at first


def build(tokenizer: Tokenizer, units: int) -> kerasseq.models.BERT:
    """Builds a model to pre-train.

    Args:
        tokenizer: A tokenizer with the special tokens of BERT.
        units: D.
    """
    model = kerasseq.models.BERT(
        tokenizer,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=units,
        max_sequence_length=LONGEST,
        dropout=0.0,
        head="pretraining",
    )
    for weight in model.weights:
        if weight.path.endswith("kernel"):
            weight.assign(weight * (units**-0.5 / STDDEV))
    return model


class PooledClassifier:
    """Classifies texts by the mean of the hidden states of a BERT.

    Args:
        bert: The model to start from, which is not changed.
        labels: Names of the labels.
        multi_label: Whether a text may have several.

    Attributes:
        model: The `keras.Model`, from ids and segments to logits.
    """

    def __init__(
        self, bert: kerasseq.models.BERT, labels: Sequence[str], multi_label: bool
    ):
        self.labels: list[str] = list(labels)
        self.multi_label: bool = multi_label
        # It makes the batches and has the loss; its own head is not trained.
        self.reader: kerasseq.models.BERT = bert.with_head(
            "classify", self.labels, multi_label=multi_label, truncate=True
        )
        self.encoder: kerasseq.models.BERT = bert.with_head("sequence", dropout=DROPOUT)
        self.special: dict[str, int] = self.encoder.preprocessor.special_ids
        states = self.encoder.output["sequence"]  # (B, T, D)
        ids = self.encoder.input["ids"]
        real = ops.cast(ops.not_equal(ids, self.special["[PAD]"]), states.dtype)
        real = ops.expand_dims(real, -1)
        mean = ops.sum(states * real, axis=1) / ops.sum(real, axis=1)  # (B, D)
        mean = keras.layers.Dropout(DROPOUT, name="mean_dropout")(mean)
        logits = keras.layers.Dense(len(self.labels), name="labels")(mean)
        self.model: keras.Model = keras.Model(self.encoder.input, logits)

    def compile(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Compiles the model with the loss of its labels."""
        self.model.compile(optimizer, loss=self.reader.default_loss())

    def predict(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the labels of texts: those with a probability of at least one half.

        Without several labels, the most probable one.
        """
        first, last = self.special["[CLS]"], self.special["[SEP]"]
        encode = self.reader.tokenizer.encode
        rows = [[first, *encode(text)[: LONGEST - 2], last] for text in texts]
        ids = pad_rows(rows, self.special["[PAD]"])[:, :LONGEST]
        x = {"ids": ids, "segments": np.zeros_like(ids)}
        logits = self.model.predict(x, batch_size=256, verbose=0)
        if self.multi_label:
            return [[self.labels[n] for n in np.flatnonzero(z >= 0)] for z in logits]
        return [[self.labels[n]] for n in logits.argmax(axis=-1)]
