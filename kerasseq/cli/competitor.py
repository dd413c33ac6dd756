"""A competitor of the race: one model with one seed, and its strings."""

import argparse
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import contest, labeled, options, runs
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets import (
    NoisyParentheses,
    Parentheses,
    noisy_parentheses,
    parentheses,
)

if TYPE_CHECKING:
    import keras

    from kerasseq.models import SequenceClassifier


Tests = dict[str, Parentheses | NoisyParentheses]
TITLES = {"balanced": "balanced", "training": "like training", "hard": "hard"}
TEST_SEED = 2**20  # and the following, which no training uses
BRACKETS = "()[]{}<>«»"  # a pair for each of the first colors
LABELS = ("not balanced", "balanced")
LSTMS = ("lstm", "peephole_lstm", "full_peephole_lstm", "coupled_lstm", "slstm")
CELLS = {  # the layers that take another activation, with their options
    "elman": ("ElmanRNN", {}),
    "gated": ("GatedRNN", {}),
    "lstm": ("LSTM", {}),
    "peephole_lstm": ("LSTM", {"peephole": "diagonal"}),
    "full_peephole_lstm": ("LSTM", {"peephole": "full"}),
    "coupled_lstm": ("LSTM", {"coupled": True}),
    "gru": ("GRU", {}),
    "slstm": ("SLSTM", {}),
}


def accuracies(folder: pathlib.Path, kinds: list[str]) -> dict[str, float] | None:
    """Reads the accuracy of a competitor on each test set; None if it is not finished.

    Raises:
        ValueError: If its results are damaged.
    """

    def check(results):
        by_kind = results["accuracy"]
        if set(by_kind) != set(kinds):
            raise ValueError(f"expected accuracies of {', '.join(kinds)}")
        if not all(isinstance(a, float) and 0 <= a <= 1 for a in by_kind.values()):
            raise ValueError("accuracies must be from 0 to 1")
        return by_kind

    return contest.read_stored(folder / runs.RESULTS, "test the model again", check)


def repeated(folder: pathlib.Path) -> dict[str, int]:
    """Reads how many strings of each test set are training strings, too.

    Args:
        folder: The folder of a finished competitor. Those of earlier versions have no
            counts.
    """
    return runs.read_json(folder / runs.RESULTS).get("repeated", {})


# Data


def kinds(settings: options.Settings) -> list[str]:
    """Returns the kinds of test strings. Training on hard strings, two are the same."""
    return [kind for kind in TITLES if kind != "training" or settings.kind != "hard"]


def evaluation_sets(settings: options.Settings) -> Tests:
    """Generates the test strings of each kind."""
    with status("generating the test strings"):
        return {
            kind: strings(
                settings,
                settings.kind if kind == "training" else kind,
                settings.test_examples,
                TEST_SEED + n,
            )
            for n, kind in enumerate(kinds(settings))
        }


def strings(
    settings: options.Settings, kind: str, size: int, seed: int
) -> Parentheses | NoisyParentheses:
    """Generates strings of a kind, of the lengths of the race, some labels flipped."""
    options_of = {"colors": settings.colors, "lengths": bounds(settings.lengths)}
    options_of |= {"kind": kind, "seed": seed}
    if settings.flipped:
        return noisy_parentheses(size, flipped=settings.flipped, **options_of)
    return parentheses(size, **options_of)


def lengths(value: str) -> str:
    """Parses a minimum and a maximum length, which `bounds` returns as numbers.

    Examples:
        >>> lengths("40,60"), lengths("8")
        ('40-60', '8-8')
    """
    low, _, high = value.replace(",", "-").replace(":", "-").partition("-")
    if not low.strip():
        raise argparse.ArgumentTypeError(
            f'expected two lengths, such as 40-60, received "{value}"'
        )
    first, last = options.length(low), options.length(high or low)
    if first > last:
        raise argparse.ArgumentTypeError(
            f"expected the smaller length first, received {value}"
        )
    if last < first + first % 2:
        raise argparse.ArgumentTypeError(
            f"expected an even length from the one to the other, received {value}"
        )
    return f"{first}-{last}"


def bounds(value: str | None) -> tuple[int, int] | None:
    """Returns the numbers of `lengths`.

    Examples:
        >>> bounds("40-60")
        (40, 60)
    """
    if value is None:
        return None
    first, last = value.split("-")
    return int(first), int(last)


def keys(part: Parentheses) -> list[bytes]:
    """Returns what tells equal strings: their ids without padding."""
    return [row[row != 0].tobytes() for row in part.ids]


def checksum(sets: Tests) -> str:
    """Returns the checksum of the test strings."""
    return sha256(b"".join(test.ids.tobytes() for test in sets.values()))


# Training


def train(run: Run) -> dict[str, Any]:
    """Trains and tests a competitor.

    Args:
        run: Its run.

    Returns:
        The results, as plain data: the accuracy on each test set.
    """
    settings = run.settings
    (name,), (seed,) = settings.model, settings.seeds
    sets, label = evaluation_sets(settings), f"{name}, seed {seed}"
    run.check_data({"source": "the parentheses", "sha256": checksum(sets)})
    with status("generating the training strings"):
        made = strings(settings, settings.kind, settings.examples, seed)
    batches = kerasseq.training.ArrayBatches(
        made.ids, made.labels, settings.batch_size, seed
    )
    with status("building the model"):
        model = build(settings, name, seed)
    history = run.fit(model, batches, settings.steps, "accuracy", label)
    with status("testing the model"):
        by_kind = {kind: accuracy(model, test) for kind, test in sets.items()}
        known = keys(made)
    shown = ", ".join(f"{TITLES[kind]} {value:.3f}" for kind, value in by_kind.items())
    run.console.info(f"{label}: {shown}")
    repeated = {n: labeled.repeated(known, keys(t)) for n, t in sets.items()}
    more = {"accuracy": by_kind, "repeated": repeated, "seed": seed}
    results = run.results(model, history, settings.steps, **more)
    return run.finish(results | {"model": name})


def build(settings: options.Settings, name: str, seed: int) -> "SequenceClassifier":
    """Builds and compiles a model, with Adam at a constant rate."""
    import keras

    keras.utils.clear_session()
    set_seed(seed)
    model = kerasseq.models.SequenceClassifier(
        name if settings.activation is None else _layer(settings, name),
        2,
        vocabulary_size=2 * settings.colors + 1,
        units=settings.units,
        num_layers=settings.num_layers,
    )
    _scale(model, "cell/recurrent_kernel", settings.recurrent_scale)
    if name in LSTMS:  # whose only bias that is not 0 is that of the forget gate, 1
        _scale(model, "cell/bias", settings.forget_bias)
    adam = keras.optimizers.Adam(
        settings.learning_rate, global_clipnorm=settings.clip_norm
    )
    model.compile(adam)
    return model


def _layer(settings: options.Settings, name: str) -> "keras.Layer":
    """Builds recurrent layers with another activation."""
    cls, fixed = CELLS[name]
    layer = getattr(kerasseq.layers, cls)
    options = {"activation": settings.activation, **fixed}
    if settings.num_layers == 1:
        return layer(settings.units, name=name, **options)
    cells = [
        layer.Cell(settings.units, name="cell", **options)
        for _ in range(settings.num_layers)
    ]
    return kerasseq.layers.StackedRNN(cells, name=name)


def _scale(model: "keras.Model", path: str, factor: float) -> None:
    for weight in model.weights:
        if factor != 1 and weight.path.endswith(path):
            weight.assign(weight * factor)


def check_options(settings: options.Settings) -> None:
    """Raises a `UsageError` if an option fits none of the models, or not all."""
    models = settings.model
    others = [name for name in models if name not in CELLS]
    if settings.activation is not None and others:
        raise UsageError(
            "--activation is for recurrent models with an activation: leave it out, or "
            + ", ".join(others)
        )
    if settings.recurrent_scale != 1 and others == models:
        raise UsageError(
            "--recurrent-scale is for recurrent models with recurrent weights: leave "
            "it out"
        )
    if settings.forget_bias != 1 and not set(models) & set(LSTMS):
        raise UsageError(
            f"--forget-bias is for models with a forget gate: {', '.join(LSTMS)}. "
            f"Leave it out, or add one of them to --model {','.join(models)}"
        )


def accuracy(
    model: "SequenceClassifier", test: Parentheses | NoisyParentheses
) -> float:
    """Computes the fraction of strings that are classified correctly."""
    logits = model.predict(test.ids, batch_size=500, verbose=0)
    return float(np.mean(np.asarray(logits).argmax(axis=-1) == test.labels))


# Strings as they are typed


def read_string(text: str, colors: int) -> list[int]:
    """Reads a string of brackets or of numbers, in the notation of `datasets`.

    Args:
        text: Brackets, one pair for each color; or numbers between spaces or commas.
        colors: Number of colors.

    Raises:
        ValueError: If a symbol is not one of these.

    Examples:
        >>> read_string("[ () ]", 5), read_string("1, 0 9 8", 5), read_string("(())", 1)
        ([1, 0, 9, 8], [1, 0, 9, 8], [1, 1, -1, -1])
    """
    numbers = (1, -1) if colors == 1 else range(2 * colors)
    known = {str(number): number for number in numbers}
    pairs = BRACKETS[: 2 * colors]
    for n, (opener, closer) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        known[opener] = numbers[n]
        known[closer] = numbers[-1 - n]
    symbols = _symbols(text)
    for symbol in symbols:
        if symbol not in known:
            allowed = "1 and -1" if colors == 1 else f"0 to {2 * colors - 1}"
            raise ValueError(
                f"expected a string of brackets, {pairs}, or of the numbers {allowed} "
                f"with spaces between them, received {symbol!r:.60} in {text!r:.60}"
            )
    if not symbols:
        raise ValueError(f"expected a string of brackets, {pairs}, received {text!r}")
    return [known[symbol] for symbol in symbols]


def _symbols(text):
    """Returns the brackets of a text, or what stands between its spaces and commas."""
    words = text.replace(",", " ").split()
    if any(symbol in BRACKETS for symbol in text):
        return [symbol for word in words for symbol in word]
    return words


def as_ids(symbols: Sequence[int], colors: int) -> np.ndarray:
    """Converts symbols to the ids that the models read, int32; 0 is padding.

    Examples:
        >>> as_ids([1, -1], 1).tolist(), as_ids([0, 9], 5).tolist()
        ([1, 2], [1, 10])
    """
    numbers = np.array(symbols)
    return (((1 - numbers) // 2 if colors == 1 else numbers) + 1).astype("int32")


def classify(model: Any, texts: Sequence[str], colors: int) -> list[dict[str, Any]]:
    """Predicts whether strings are balanced, as plain data."""
    rows = [as_ids(read_string(text, colors), colors) for text in texts]
    predictions = []
    for each in model.classify(rows, batch_size=256):
        p = dict(zip(LABELS, each.probabilities.values(), strict=True))
        predictions.append(
            {
                "label": LABELS[each.label],
                "probability": each.probability,
                "probabilities": p,
            }
        )
    return predictions
