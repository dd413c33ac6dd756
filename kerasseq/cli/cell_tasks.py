"""The four tasks of `kerasseq compare cells`: data, model and score of each."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq import datasets
from kerasseq.cli import contest, options, schedule
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.errors import UsageError

if TYPE_CHECKING:
    import keras

TEST_SEED = 2**20  # which no training uses
BITS, LENGTHS = 3, (1, 10)  # of the vectors to be repeated
MARK, BLANK = 2**BITS + 1, 2**BITS + 2  # ids beside those of vectors, and of padding
CHARACTERS, HELD_OUT = 48, 40_000  # of a row, and of the end of the reference
WINDOW, COEFFICIENTS = 24, (0.6, -0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4)  # of the series
WARM_UP = 0.1  # of the steps


class Rows(NamedTuple):
    """Inputs and targets.

    Attributes:
        x: Ids `(rows, time)`, or values `(rows, time, 1)`.
        y: The targets.
    """

    x: np.ndarray
    y: np.ndarray


class Task(NamedTuple):
    """A task.

    Attributes:
        metric: What is measured.
        higher_is_better: Whether a higher score is better.
        data: Returns a number of rows, with a seed.
        build: Returns the model of a cell with a number of units.
        score: Computes the score from targets and predictions.
    """

    metric: str
    higher_is_better: bool
    data: Callable[[int, int], Rows]
    build: Callable[[str, int], "keras.Model"]
    score: Callable[[np.ndarray, np.ndarray], float]


def parentheses(count: int, seed: int) -> Rows:
    """Makes strings of five colors; an unbalanced one is wrong in one symbol."""
    made = datasets.parentheses(count, kind="hard", lengths=(8, 24), seed=seed)
    return Rows(made.ids, made.labels)


def copy(count: int, seed: int) -> Rows:
    """Makes symbols of three bits to be repeated after a mark; 0 is padding.

    Examples:
        >>> rows = copy(1, seed=3)
        >>> rows.x[0].tolist()
        [1, 4, 5, 2, 1, 7, 1, 7, 4, 9, 10, 10, 10, 10, 10, 10, 10, 10, 10, 0, 0]
        >>> rows.y[0].tolist()
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 5, 2, 1, 7, 1, 7, 4, 0, 0]
    """
    made = datasets.copy_bits(count, bits=BITS, lengths=LENGTHS, seed=seed)
    powers = 2 ** np.arange(BITS)[::-1]
    repeated = made.weights > 0
    x = 1 + made.x[..., :BITS] @ powers
    x = np.where(made.x[..., BITS] > 0, MARK, np.where(repeated, BLANK, x))
    y = np.where(repeated, 1 + made.y @ powers, 0)
    return Rows((x * made.mask).astype("int32"), y.astype("int32"))


def characters(count: int, seed: int) -> Rows:
    """Returns parts of the Python reference, and their next characters.

    The last characters are for the test alone.
    """
    ids, rng = _reference(), np.random.default_rng(seed)
    part = ids[-HELD_OUT:] if seed == TEST_SEED else ids[:-HELD_OUT]
    starts = rng.integers(len(part) - CHARACTERS, size=count)
    rows = part[starts[:, None] + np.arange(CHARACTERS + 1)]
    return Rows(rows[:, :-1], rows[:, 1:])


def forecast(count: int, seed: int) -> Rows:
    """Makes windows of an autoregressive series with noise 1, and the next value."""
    values = datasets.series(
        "ar", length=count + WINDOW, coefficients=COEFFICIENTS, seed=seed
    ).values
    return Rows(*datasets.windows(values, WINDOW))


@functools.cache
def _reference() -> np.ndarray:
    text = datasets.python_reference()
    return _tokenizer().encode(text).astype("int32")


@functools.cache
def _tokenizer() -> Any:
    return kerasseq.text.CharacterTokenizer().fit(datasets.python_reference())


def _classifier(cell, units):
    return kerasseq.models.SequenceClassifier(cell, 2, vocabulary_size=11, units=units)


def _tagger(cell, units):
    ids = {"vocabulary_size": BLANK + 1}
    return kerasseq.models.SequenceTagger(cell, 2**BITS + 1, **ids, units=units)


def _language_model(cell, units):
    size = _tokenizer().vocabulary_size
    return kerasseq.models.LanguageModel(cell, vocabulary_size=size, units=units)


def _forecaster(cell, units):
    return kerasseq.models.Forecaster(cell, features=1, units=units)


def _accuracy(y, logits):
    """Returns the share of right answers, where there is one to be given."""
    right = logits.argmax(axis=-1) == y
    return float(right[y > 0].mean() if y.ndim == 2 else right.mean())


def _bits(y, logits):
    """Bits per character."""
    z = logits - logits.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    each = np.take_along_axis(log_p, y[..., None].astype(int), axis=-1)
    return float(-each.mean() / np.log(2))


def _squared_error(y, predicted):
    return float(np.mean((y - predicted.reshape(y.shape)) ** 2))


TASKS = {
    "parentheses": Task("accuracy", True, parentheses, _classifier, _accuracy),
    "copy": Task("accuracy", True, copy, _tagger, _accuracy),
    "characters": Task("bits", False, characters, _language_model, _bits),
    "forecast": Task("error", False, forecast, _forecaster, _squared_error),
}


def train(
    name: str, cell: str, seed: int, settings: options.Settings, test: Rows
) -> dict[str, Any]:
    """Trains a cell on a task, and scores it.

    Args:
        name: The task.
        cell: The cell.
        seed: Random seed, of training rows and weights.
        settings: Arguments of the run.
        test: The test rows.

    Returns:
        Score, width and parameters, as plain data.

    Raises:
        UsageError: If no width has the number of parameters.
    """
    import keras

    task = TASKS[name]
    keras.utils.clear_session()
    with status(f"finding the width of {cell} on {name}"):
        try:
            matched = kerasseq.models.matched_width(
                lambda units: task.build(cell, units).count_params(),
                settings.parameters,
            )
        except ValueError as error:
            raise UsageError(f"--parameters: {cell} on {name}: {error}") from error
    set_seed(seed)
    model, steps = task.build(cell, matched.width), settings.steps
    model.compile(schedule.adam(settings.learning_rate, steps, int(WARM_UP * steps)))
    rows = task.data(settings.examples, seed)
    batches = kerasseq.training.ArrayBatches(*rows, settings.batch_size, seed)
    what = f"{cell} on {name}, seed {seed}"
    contest.fit(model, batches.stream(0), steps, what)
    predicted = np.asarray(model.predict(test.x, batch_size=500, verbose=0))
    return {
        "score": task.score(test.y, predicted),
        "width": matched.width,
        "parameters": matched.parameters,
    }
