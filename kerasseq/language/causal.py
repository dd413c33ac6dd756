"""What all models share that predict each token of a text from those before it."""

import math

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.ids import arrays_within
from kerasseq.language.corpus import are_texts, as_ids, scoring_rows
from kerasseq.tasks.base import TaskModel
from kerasseq.training import BitsPerCharacter, TextBatches


def known_ids(tokenizer, vocabulary_size) -> int:
    """How many ids a model must know.

    Examples:
        >>> known_ids(None, 7)
        7

    Raises:
        ValueError: If neither or both are given.
    """
    if (tokenizer is None) == (vocabulary_size is None):
        raise ValueError(
            "give a fitted tokenizer for text, or vocabulary_size for ids; got "
            f"tokenizer={tokenizer!r}, vocabulary_size={vocabulary_size}"
        )
    size = tokenizer.vocabulary_size if tokenizer else vocabulary_size
    return checks.whole_number("vocabulary_size", size)


class CausalModel(TaskModel):
    """A model from ids `(B, T)` to logits `(B, T, V)` of what follows each.

    A subclass builds the graph; its arguments have `tokenizer` and `vocabulary_size`.
    """

    longest = None  # tokens that it can read at once; None for any number

    def __init__(self, inputs, outputs, arguments, **kwargs):
        super().__init__(inputs, outputs, arguments, **kwargs)
        self.tokenizer = arguments["tokenizer"]
        self.vocabulary_size = known_ids(self.tokenizer, arguments["vocabulary_size"])

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [BitsPerCharacter(name="bits")]

    def compile(self, optimizer=None, *args, **kwargs):
        """Configure training, as `TaskModel.compile`, but with Adam at 3e-3."""
        if optimizer is None:
            optimizer = keras.optimizers.Adam(3e-3, global_clipnorm=1.0)
        super().compile(optimizer, *args, **kwargs)

    def fit(
        self,
        x=None,
        y=None,
        *,
        sequence_length=64,
        batch_size=32,
        epochs=1,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_split=0.0,
        validation_data=None,
        seed=0,
        **kwargs,
    ):
        """Train on a text.

        Args:
            x: The text as a string, or several in a list, which follow one another; a
                file, as `pathlib.Path` or open; or ids, integers `(tokens,)`. Anything
                else, such as arrays with `y`, goes to `keras.Model.fit` as it is.
            y: Targets, if `x` are rows of ids.
            sequence_length: Tokens in a block, through which gradients flow.
            batch_size: Blocks in a batch.
            epochs: Last epoch; an epoch is a pass over the text, or `steps_per_epoch`.
            initial_epoch: Epochs done already: their batches are not seen again.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            validation_split: Which fraction of the text, its end, is held out.
            validation_data: Another text, in any of the forms of `x`.
            seed: Seed of the order of the blocks.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            ValueError: If the text is empty or too short, or has ids that the model
                does not know.
        """
        shared = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        ids = self.ids(x) if y is None else None
        if ids is None:
            self._check_ids(x, y)
            return super().fit(
                x,
                y,
                batch_size=batch_size if hasattr(x, "shape") else None,
                steps_per_epoch=steps_per_epoch,
                validation_split=validation_split,
                validation_data=validation_data,
                **shared,
            )
        self._check_length(sequence_length)
        held_out = None if validation_data is None else self.ids(validation_data)
        if validation_data is None and checks.fraction(
            "validation_split", validation_split
        ):
            ids, held_out = _cut(ids, validation_split, sequence_length)
        batches = TextBatches(ids, sequence_length, batch_size, seed)
        steps = steps_per_epoch or batches.steps_per_pass
        if held_out is not None:
            validation_data = _blocks(held_out, sequence_length)
        return super().fit(
            batches.stream(start=initial_epoch * steps),
            steps_per_epoch=steps,
            validation_data=validation_data,
            validation_batch_size=batch_size,
            shuffle=False,  # the stream comes shuffled
            **shared,
        )

    def evaluate(self, x=None, y=None, *, sequence_length=64, **kwargs):
        """Measure, as `keras.Model.evaluate` does, on a text or on rows of ids.

        Args:
            x: A text in any of the forms of `fit`, of which whole blocks count; see
                `cross_entropy` for every token. Or rows of ids, or what Keras takes.
            y: Targets, if `x` are rows of ids.
            sequence_length: The most tokens in a block of a text.
            **kwargs: As for `keras.Model.evaluate`.

        Returns:
            What Keras returns.
        """
        ids = self.ids(x) if y is None else None
        if ids is not None:
            longest = min(sequence_length, max(len(ids) - 1, 1), self.longest or 10**9)
            x, y = _blocks(ids, longest)
        self._check_ids(x, y)
        return super().evaluate(x, y, **kwargs)

    def predict(self, x, **kwargs):
        """Logits of what follows each token, as `keras.Model.predict` gives them.

        Args:
            x: Ids `(B, T)`, or what Keras takes; a text, or ids `(T,)`; or a list of
                texts.
            **kwargs: As for `keras.Model.predict`.

        Returns:
            Logits `(B, T, V)`, where B is 1 for a text; a list of `(T, V)` for a list.
        """
        if are_texts(x):
            rows = [self.ids(text) for text in x]
            longest = max(map(len, rows))
            ids = np.zeros((len(rows), longest), "int32")
            for row, text in zip(ids, rows, strict=True):
                row[: len(text)] = text  # what stands behind changes nothing before it
            logits = self.predict(ids, **kwargs)
            return [each[: len(text)] for each, text in zip(logits, rows, strict=True)]
        ids = self.ids(x)
        if ids is not None:
            x = ids[None]
            self._check_length(len(ids))
        self._check_ids(x)
        return super().predict(x, **kwargs)

    def _check_ids(self, *arrays):
        """Raise if there are ids that the model does not know."""
        for each in arrays:
            arrays_within(each, {"ids": self.vocabulary_size})

    def _check_length(self, sequence_length):
        """Raise if rows would be longer than positions go."""
        if self.longest is not None and sequence_length > self.longest:
            raise ValueError(
                f"sequence_length={sequence_length}, but this model knows "
                f"{self.longest} positions: max_sequence_length={self.longest}"
            )

    def ids(self, source):
        """The ids of a text, file or array `(tokens,)`; None for anything else."""
        return as_ids(source, self.tokenizer, self.vocabulary_size)

    def cross_entropy(self, source, *, batch_size=32, sequence_length=None):
        r"""The mean of $-\ln p$ over all tokens of a text but the first.

        Args:
            source: A text, file or ids, as for `fit`.
            batch_size: Rows that run at once.
            sequence_length: The text is scored in rows of this length. A quarter of
                each is what stands before, for the model to read first. If None, as
                many as the model can read, and at most 256.

        Returns:
            Mean in nats per token.
        """
        ids = self.ids(source)
        if sequence_length is None:
            sequence_length = min(256, self.longest or 256)
        self._check_length(sequence_length)
        total = count = 0
        for x, y, counted in scoring_rows(ids, sequence_length, batch_size):
            logits = np.asarray(self.predict_on_batch(x), "float64")
            logits -= logits.max(axis=-1, keepdims=True)
            log_p = np.take_along_axis(logits, y[..., None], axis=-1)[..., 0]
            log_p -= np.log(np.exp(logits).sum(axis=-1))
            total -= log_p[counted].sum()
            count += counted.sum()
        return float(total / count)

    def bits_per_token(self, source, **kwargs):
        """`cross_entropy` in bits: for characters, bits per character."""
        return self.cross_entropy(source, **kwargs) / math.log(2)


def _cut(ids, fraction, sequence_length):
    """The two parts of a text, the second held out, long enough to be of use."""
    count = max(round(len(ids) * fraction), 1)
    if count < sequence_length + 1:
        raise ValueError(
            f"validation_split={fraction} of {len(ids)} tokens are {count}, too few "
            f"for one block of sequence_length={sequence_length} and the token after "
            "it. Choose a larger fraction or shorter blocks, or pass `validation_data`"
        )
    return ids[:-count], ids[-count:]


def _blocks(ids, sequence_length):
    """Inputs and targets `(B, T)`: the blocks of a text, one behind the other."""
    whole = TextBatches(ids, sequence_length, 1)
    return whole.take(np.arange(0, len(ids) - sequence_length, sequence_length))
