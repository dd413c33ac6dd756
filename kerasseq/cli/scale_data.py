"""What models of several sizes learn: a text, a Markov source, or passages.

Losses are in bits. Of passages (`datasets.last_words`) only the last word counts.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import language_model, options, text_models, tokenize
from kerasseq.cli.console import status
from kerasseq.cli.errors import about, given, refuse
from kerasseq.core.files import sha256

if TYPE_CHECKING:
    import keras

    from kerasseq.training.batches import NumberedBatches

SOURCES = {"markov-source": 0.0, "zipf-source": 1.0}  # Zipf's exponent of the symbols
PASSAGES = "last-words"
NAMES = (*language_model.TEXTS, *SOURCES, PASSAGES)
SYMBOLS, ORDER, CONCENTRATION, LEAST = 64, 2, 0.05, 1e-4  # of the source
SAMPLED = 300_000  # its symbols, the last of which are held out
LEARNED, TESTED = 32_000, 1600  # passages
BATCH_SIZE = 200  # of a test


class Data(NamedTuple):
    """Data to learn from, and to be tested on.

    Attributes:
        record: Source and checksum, as in `run.json`.
        vocabulary_size: Number of ids.
        x: Ids of the held-out rows, `(rows, time)`.
        y: The next ids.
        weights: How much each position counts, `(time,)`; None if all count alike.
        entropy: The entropy of the source in bits a token, where known.
        lines: Accuracies to compare with, by name; empty if only the loss counts.
        learned: The ids to learn from: one row of a text, or rows.
    """

    record: dict[str, Any]
    vocabulary_size: int
    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    entropy: float | None
    lines: dict[str, float]
    learned: np.ndarray

    def batches(self, batch_size: int, seed: int) -> "NumberedBatches":
        """Returns batches in the order of a seed."""
        length = self.x.shape[1]
        if self.weights is None:
            words = self.learned, length, batch_size, seed
            return kerasseq.training.TextBatches(*words)
        rows = self.learned[:, :-1], self.learned[:, 1:]
        return kerasseq.training.ArrayBatches(*rows, batch_size, seed)

    def test(self, model: "keras.Model") -> dict[str, float]:
        """Returns the loss on the held-out rows, in bits; for passages the accuracy."""
        if self.weights is None:
            found = model.evaluate(
                self.x, self.y, batch_size=BATCH_SIZE, verbose=0, return_dict=True
            )
            return {"loss": float(found["loss"]) / np.log(2)}
        logits = model.predict(self.x, batch_size=BATCH_SIZE, verbose=0)
        z = np.asarray(logits, "float64")[:, -1]
        z -= z.max(axis=1, keepdims=True)
        wanted = self.y[:, -1]
        of_wanted = np.take_along_axis(z, wanted[:, None], axis=1)[:, 0]
        nats = np.log(np.exp(z).sum(axis=1)) - of_wanted
        return {
            "loss": float(nats.mean()) / np.log(2),
            "accuracy": float(np.mean(z.argmax(axis=1) == wanted)),
        }


def read(settings: options.Settings) -> Data:
    """Reads or generates the data that the options name.

    Raises:
        UsageError: If an option does not fit the data.
        ValueError: If a text is too short.
    """
    _check_options(settings)
    if settings.data == PASSAGES:
        with status("generating the passages"):
            return _passages(settings.players)
    if settings.data in SOURCES:
        with status("generating the symbols"):
            return _source(settings)
    return _text(settings)


def _check_options(settings):
    if settings.data in (*SOURCES, PASSAGES):
        known = "0" if settings.data == PASSAGES else "known"
        unfit = {"entropy": f"the entropy of --data {settings.data} is {known}"}
        if settings.tokenizer != "character":
            unfit["tokenizer"] = f"--data {settings.data} has ids of its own"
    else:
        unfit = {"players": f"--players is for --data {PASSAGES}"}
    if settings.data == PASSAGES:
        unfit["sequence_length"] = "a passage is read as a whole"
    for name, why in unfit.items():
        refuse(given(settings, name), f"cannot be chosen: {why}. Leave it out")


def _text(settings):
    with status("reading the text"):
        text, record = language_model.read_text(settings)
    with about(settings.text):
        text, held_out = language_model.split(text, settings.held_out)
        tokenizer = text_models.trained_tokenizer(settings, text)
        with status("tokenizing the text", len(text)):
            ids = tokenize.encode(tokenizer, text)
        tested = tokenize.encode(tokenizer, held_out)
        rows = _rows(tested, settings.sequence_length)
        # Raises if it is too short.
        kerasseq.training.TextBatches(ids, settings.sequence_length)
    size = tokenizer.vocabulary_size
    return Data(record, size, *rows, None, settings.entropy, {}, ids)


def _rows(ids, length):
    """Rows of held-out ids, and of the next ones."""
    count = len(ids) // (length + 1)
    if not count:
        raise ValueError(
            f"the held-out text must have at least {length + 1} tokens, one more than "
            f"--sequence-length, received {len(ids)}. Give a longer text, a greater "
            "--held-out or a smaller --sequence-length"
        )
    rows = np.asarray(ids)[: count * (length + 1)].reshape(count, length + 1)
    return rows[:, :-1], rows[:, 1:]


def _source(settings):
    words = {"concentration": CONCENTRATION, "least": LEAST}
    source = kerasseq.datasets.markov_source(
        SYMBOLS, ORDER, zipf=SOURCES[settings.data], **words
    )
    ids = source.sample(1, SAMPLED, seed=1)[0]
    record = {"source": settings.data, "sha256": sha256(ids.tobytes())}
    learned, tested = ids[: -settings.held_out], ids[-settings.held_out :]
    rows = _rows(tested, settings.sequence_length)
    return Data(record, SYMBOLS, *rows, None, source.optimum, {}, learned)


def _passages(players):
    draw = functools.partial(kerasseq.datasets.last_words, players=players)
    learned, tested = draw(LEARNED, seed=1), draw(TESTED, seed=2)
    number = {word: n for n, word in enumerate(tested.vocabulary)}
    ids, held_out = (
        np.array([[number[w] for w in f"{p.text} {p.last}".split()] for p in passages])
        for passages in (learned.passages, tested.passages)
    )
    length = ids.shape[1] - 1
    weights = np.zeros(length, "float32")
    weights[-1] = length  # the loss of a batch is the mean over all positions
    lines = {
        f"the last {tested.window} words": tested.chance,
        "the names": tested.chance_of_cast,
        "all but one clue": tested.chance_without_clue,
    }
    record = {"source": PASSAGES, "sha256": sha256(ids.tobytes())}
    rows = held_out[:, :-1], held_out[:, 1:]
    return Data(record, len(number), *rows, weights, 0.0, lines, ids)
