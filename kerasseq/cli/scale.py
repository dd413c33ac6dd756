r"""`kerasseq scale`: how the loss of language models falls with their width.

Train language models of several widths, each with several seeds, for the same number of
steps. The mean loss by width is printed with its deviation, beside the number N of
parameters, and a power law, loss = A N^-α + E, with an interval of α: with E = 0, or
the entropy if --entropy has it, and with E free; and what this does not show. They
learn a text, the Python reference by default; a generated Markov source, whose entropy
is known, with contexts that are alike frequent or follow Zipf's law; or passages whose
last word needs the whole passage, as those of LAMBADA do, of which the accuracy is
printed. A run that was stopped goes on with the next model.

Examples:
  kerasseq scale
  kerasseq scale --text my.txt --tokenizer bpe --widths 8,32,128 --steps 2000
  kerasseq scale --model gru --seeds 0,1
  kerasseq scale --data zipf-source
  kerasseq scale --data last-words
  kerasseq scale --resume runs/scale-gpt-1
"""

import argparse
import functools
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import (
    contest,
    figures,
    language_model,
    options,
    runs,
    scale_scores,
    schedule,
    text_models,
    tokenize,
)
from kerasseq.cli.commands import (
    COMMANDS,
    Option,
    add_task,
    shared,
    task_defaults,
    task_table,
)
from kerasseq.cli.console import clock, set_seed, status
from kerasseq.cli.errors import UsageError, about, given, refuse
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256

if TYPE_CHECKING:
    import keras

    from kerasseq.training.batches import NumberedBatches


class PerData(options.PerModel):
    """A default that depends on the data."""

    argument: str = "data"


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
            scored = model.evaluate(
                self.x, self.y, batch_size=BATCH_SIZE, verbose=0, return_dict=True
            )
            return {"loss": float(scored["loss"]) / np.log(2)}
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


FILE = "text"  # the argument that names the user's data
STORED, TABLE, FIGURE = "models", "scaling.csv", "scaling.png"
POWER = -0.4  # of the width, in the learning rate
WARM_UP = 0.1  # of the steps, for others than a gpt
SOURCES = {"markov-source": 0.0, "zipf-source": 1.0}  # Zipf's exponent of the symbols
PASSAGES = "last-words"
NAMES = (*language_model.TEXTS, *SOURCES, PASSAGES)
SYMBOLS, ORDER, CONCENTRATION, LEAST = 64, 2, 0.05, 1e-4  # of the source
SAMPLED = 300_000  # its symbols, the last of which are held out
LEARNED, TESTED = 32_000, 1600  # passages
BATCH_SIZE = 200  # of a test
_HELD_OUT = "maximum number of characters held out, at most a tenth of the text"
_ENTROPY = "E, in bits a token, if it is known"
_SAMPLES = "bootstrap samples of the seeds"
OPTIONS = task_table(
    shared("model", "gpt", names=language_model.MODELS),
    Option("--text FILE", "data", str, "a file: a text"),
    shared("data", names=NAMES),
    shared("encoding", "utf-8"),
    Option("--held-out N", "data", options.integer(2), _HELD_OUT, 8192),
    shared("tokenizer", "character"),
    shared("vocabulary_size", options.VOCABULARY_SIZE),
    Option(
        "--players N",
        "data",
        options.integer(2, 16),
        f"names in each passage of --data {PASSAGES}",
        PerData(None, **{PASSAGES: 3}),
    ),
    Option(
        "--widths --units --hidden-size N",
        "model",
        options.units,
        "widths of the models",
        [8, 16, 28, 48],
    ),
    shared("num_layers", 2),
    shared("num_heads", 2, "attention heads of a gpt, which divide all widths"),
    shared("sequence_length", PerData(32, **{PASSAGES: None})),
    shared("batch_size", PerData(16, **{PASSAGES: 32})),
    shared(
        "learning_rate",
        PerData(0.02, **{PASSAGES: 0.03}),
        "highest learning rate at width 1; at width D times D^-0.4",
    ),
    shared(
        "steps",
        PerData(220, **{PASSAGES: 1500, **dict.fromkeys(SOURCES, 600)}),
        "training steps of each model",
    ),
    shared("seeds", [0, 1, 2]),
    Option("--entropy BITS", "", options.positive, _ENTROPY),
    Option("--bootstrap N", "", options.integer(at_most=100_000), _SAMPLES, 1000),
)
DEFAULTS = task_defaults(OPTIONS)


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("scale")
    add_task(parser, "scale", sys.modules[__name__])


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq scale`."""
    args.task = "scale"
    COMMANDS["train"].run(args)


def train(run: Run) -> runs.Results:
    """Trains all widths with all seeds, except those that are stored, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    _check_widths(settings)
    data = read_data(settings)
    run.check_data(data.record)
    sized = {"units": max(settings.widths), "sequence_length": data.x.shape[1]}
    largest = options.Settings(**{**vars(settings), **sized})
    schedule.check_memory(largest, data.learned.size, data.vocabulary_size)
    run.start(
        data.record,
        f"{data.record['source']}: {data.learned.size:,} tokens to learn from, "
        f"{data.x.size:,} held out, {data.vocabulary_size:,} kinds. The run is saved "
        f"in {run.folder}",
    )
    models = [f"width{width}" for width in settings.widths]
    names = contest.names(models, settings.seeds)
    run.end_dry_run(f"{len(names)} models", models=names)

    def measure_named(name):
        record = measure(settings, data, name)
        words = [
            f"{key} {record[key]:.3f}" for key in ("loss", "accuracy") if key in record
        ]
        size = f"{record['parameters']:,} parameters, {', '.join(words)}"
        line = f"{_words(name)}: {size}, {clock(record['seconds'])}"
        return {"name": name, **record}, line

    records = contest.measure_all(run, names, STORED, measure_named, stored)
    batch_size = data.batches(settings.batch_size, 0).batch_size
    results = scale_scores.summary(
        records,
        tokens=settings.steps * batch_size * data.x.shape[1],
        entropy=data.entropy,
        has_law=data.weights is None,
        samples=settings.bootstrap,
    )
    results |= {
        "task": run.task,
        "model": settings.model,
        "source": data.record["source"],
        "held_out": data.x.size if data.weights is None else len(data.x),
        "lines": data.lines,
        "seeds": settings.seeds,
        "steps": settings.steps,
        "run": str(run.folder),
    }
    scale_scores.show(run.console, results)
    rows = scale_scores.rows_of(results["widths"])
    contest.write_table(run, TABLE, scale_scores.COLUMNS, rows, "Losses")
    run.draw(lambda: [figures.scaling(run.folder / FIGURE, results)])
    return run.finish(results)


def _check_widths(settings):
    widths = settings.widths
    if len(widths) < 2:
        raise UsageError(
            f"--widths must be at least two widths, such as 8,16,32, received "
            f"{widths[0]}"
        )
    for width in widths:
        if settings.model == "gpt" and width % settings.num_heads:
            raise UsageError(
                f"--num-heads must divide all --widths, received {settings.num_heads} "
                f"and {width}. Choose another width, or --num-heads"
            )


def _words(name):
    model, seed = contest.parts(name)
    return f"width {model.removeprefix('width')}, seed {seed}"


def measure(settings: options.Settings, data: Data, name: str) -> dict[str, float]:
    """Trains a width with a seed, and returns its size and what it reaches."""
    import keras

    model, seed = contest.parts(name)
    started = time.perf_counter()
    keras.utils.clear_session()
    set_seed(seed)
    model = _build(settings, data, int(model.removeprefix("width")))
    batches = data.batches(settings.batch_size, seed)
    stream = batches.stream()
    if data.weights is not None:
        stream = ((x, y, np.tile(data.weights, (len(x), 1))) for x, y in stream)
    contest.fit(model, stream, settings.steps, _words(name))
    return {
        "parameters": model.count_params(),
        **data.test(model),
        "seconds": round(time.perf_counter() - started, 3),
    }


def _build(settings: options.Settings, data: Data, width: int) -> Any:
    """Builds and compiles a model of a width."""
    rate, steps = settings.learning_rate * width**POWER, settings.steps
    if settings.model == "gpt":
        model = kerasseq.models.GPT(
            vocabulary_size=data.vocabulary_size,
            num_layers=settings.num_layers,
            num_heads=settings.num_heads,
            hidden_dim=width,
            max_sequence_length=data.x.shape[1],
        )
        model.compile(kerasseq.training.gpt_optimizer(model, rate, steps))
        return model
    model = kerasseq.models.LanguageModel(
        settings.model,
        vocabulary_size=data.vocabulary_size,
        units=width,
        num_layers=settings.num_layers,
    )
    model.compile(schedule.adam(rate, steps, int(WARM_UP * steps), last=0.1))
    return model


def stored(file: pathlib.Path) -> dict[str, float] | None:
    """Reads what a model reached; None if it is not trained yet.

    Raises:
        ValueError: If the file is damaged.
    """

    def check(record):
        keys = ("parameters", "loss", "accuracy", "seconds")
        there = [key for key in keys if key != "accuracy" or key in record]
        values = {key: record[key] for key in there}
        numbers = all(type(value) in (int, float) for value in values.values())
        if not numbers or not np.isfinite(list(values.values())).all():
            raise ValueError(f"expected numbers, received {values}")
        if values["loss"] <= 0 or values["parameters"] < 1:
            raise ValueError(f"expected positive numbers, received {values}")
        return values

    return contest.read_stored(file, "train this model again", check)


# What they learn: losses are in bits; of passages only the last word counts


def read_data(settings: options.Settings) -> Data:
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
