"""`kerasseq compare`: simple models, networks and a pre-trained encoder, side by side.

Train several kinds of learners on the same texts, with one or several labels each:
elastic-net logistic regression, gradient boosting, random forest and SVC on counts and
on TF-IDF of words and pairs of words; recurrent networks and a Transformer from
scratch; and BERT, pre-trained on texts without labels and then fine-tuned. Precision,
recall and F1 of each label are printed, with bootstrap intervals over the held-out
texts, the range over the seeds, and seconds. By default the texts are generated French
sentences of children about their family, with the eleven labels of a study.

Examples:
  kerasseq compare
  kerasseq compare --models svc,elastic-net,gru --seeds 0
  kerasseq compare --file data.csv --text comment --labels topics --unlabeled more.txt
  kerasseq compare --resume runs/compare-1
  kerasseq compare translators
  kerasseq compare cells
"""

import argparse
import functools
import pathlib
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

import kerasseq
from kerasseq.cli import (
    classify,
    comparison,
    contest,
    figures,
    labeled,
    learners,
    options,
    runs,
    schedule,
    text_tables,
)
from kerasseq.cli.commands import (
    COMMANDS,
    COMPARISONS,
    Option,
    add_task,
    shared,
    task_defaults,
    task_table,
)
from kerasseq.cli.console import clock, note, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets import text_file
from kerasseq.datasets.splitting import split_by_class

FILE = "file"  # the argument that names the user's data
OF_FILE = ("separator", "held_out", "max_characters")  # beside those of all tasks
DATA = ("family", "names")
SEPARATORS = (";", "|", ",")  # of labels, in the order in which they are tried
NONE = "none"  # as --separator: a cell is one label
LABELS_NAMES = (*classify.LABEL_NAMES, "labels", "tags", "categories", "topics")
UNLABELED = 20_000  # sentences of the grammar
GROUPS = {"family": {"+ - 0": ["+", "-", "0"]}}  # labels whose mean F1 is shown
SHOWN_ROWS = 5  # named in a message, of all that have a label
STORED, TABLE, FIGURE = "learners", "comparison.csv", "comparison.png"


def _units(value: str) -> int:
    """Parses a number of units that the heads of BERT divide.

    Examples:
        >>> _units("8")
        8
    """
    number = options.units(value)
    if number % learners.HEADS:
        raise argparse.ArgumentTypeError(
            f"expected a multiple of {learners.HEADS}, the attention heads, received "
            f"{number}"
        )
    return number


_UNLABELED = "texts for the pre-training of BERT, one on each line (default: the "
_UNLABELED += "training texts)"
_SEPARATOR = 'what separates several labels, such as ";"; "none" for one label in each '
_SEPARATOR += "cell (default: found in the cells)"
_LABELS = "column of the labels, one or several in a cell"
_STEPS = "steps of the pre-training of BERT"
_SAMPLES = "bootstrap samples of the held-out texts"
OPTIONS = task_table(
    shared("models", learners.DEFAULT, names=learners.NAMES),
    shared("file", None, f"a file: {text_tables.KINDS}"),
    shared("data", names=DATA),
    shared("encoding", "utf-8"),
    shared("text"),
    Option("--labels --label COLUMN", "data", str, _LABELS),
    Option("--separator X", "data", str, _SEPARATOR),
    shared("no_header", False),
    shared("missing", "error"),
    Option("--unlabeled FILE", "data", str, _UNLABELED),
    shared("held_out", 0.2, "fraction of the rows of --file that is held out"),
    Option("--rows N", "data", options.integer(4), "most rows that are used", 20_000),
    shared("max_characters", 1000),
    Option("--data-seed N", "data", options.seed, "random seed of the split", 0),
    Option("--units --hidden-size N", "model", _units, "units, a multiple of 4", 96),
    shared("batch_size", learners.BATCH_SIZE),
    shared(
        "epochs",
        float(learners.EPOCHS),
        "passes of the networks over the training texts",
    ),
    Option("--pretraining-steps N", "training", options.integer(), _STEPS, 1500),
    shared("seeds", [0, 1, 2]),
    Option("--bootstrap N", "", options.integer(at_most=100_000), _SAMPLES, 1000),
)
DEFAULTS = task_defaults(OPTIONS)


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("compare")
    add_task(parser, "compare", sys.modules[__name__])


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq compare`, also of what `COMPARISONS` lists."""
    if args.task is None:
        args.task = "compare"
        if args.resume and (task := runs.read(args.resume)["task"]) in COMPARISONS:
            args.task = task
    COMMANDS["train"].run(args)


def train(run: Run) -> runs.Results:
    """Trains all learners with all seeds, except those that are stored, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    learners.check_packages(settings.models)
    data = read_data(settings)
    run.check_data(data.record)
    networks = [name for name in settings.models if not learners.is_simple(name)]
    if networks:
        sized = {**vars(settings), "model": networks, "num_layers": 2}
        schedule.check_memory(options.Settings(**sized), len(data.x))
    run.start(
        data.record,
        f"{data.record['source']}: {len(data.x):,} training texts and "
        f"{len(data.tested):,} held out, {len(data.labels)} labels, "
        f"{sum(map(len, data.y)) / len(data.y):.2f} a text. The run is saved in "
        f"{run.folder}",
    )
    names = contest.names(settings.models, settings.seeds)
    run.end_dry_run(f"{len(names)} learners", competitors=names)
    trained = learners.Learners(data, settings, run.folder, run.console)
    y = data.indicators(data.y_tested)

    def measure(name):
        learner, seed = contest.parts(name)
        predicted, seconds = trained.predict(learner, seed)
        f1 = kerasseq.training.multilabel_f1(y, predicted, "macro")
        record = {"learner": learner, "seed": seed, "seconds": round(seconds, 3)}
        record["predicted"] = ["".join(map(str, row)) for row in predicted.tolist()]
        return record, f"{learner}, seed {seed}: F1 {f1:.3f}, {clock(seconds)}"

    read = functools.partial(read_stored, shape=y.shape)
    predictions = contest.measure_all(run, names, STORED, measure, read)
    more = {"groups": data.groups, "samples": settings.bootstrap}
    with status("computing the bootstrap intervals"):
        results = comparison.compare(y, data.labels, predictions, **more)
    results |= {
        "task": run.task,
        "source": data.record["source"],
        "labels": data.labels,
        "texts": [len(data.x), len(data.tested)],
        "repeated": labeled.repeated(data.x, data.tested),
        "multi_label": data.multi_label,
        "seeds": settings.seeds,
        "pretraining": trained.pretraining(),
        "run": str(run.folder),
    }
    comparison.show(run.console, results)
    text_tables.note_formulas(run.folder / TABLE, results["support"])
    contest.write_table(run, TABLE, comparison.COLUMNS, comparison.rows_of(results))
    run.draw(lambda: [figures.comparison(run.folder / FIGURE, results)])
    return run.finish(results)


def read_stored(
    file: pathlib.Path, shape: tuple[int, int]
) -> tuple[np.ndarray, float] | None:
    """Reads predictions and seconds of a learner; None if it is not trained yet.

    Args:
        file: The file of a learner with a seed.
        shape: Texts and labels.

    Raises:
        ValueError: If the file is damaged.
    """

    def check(record):
        predicted = np.array([list(row) for row in record["predicted"]]).astype(int)
        if predicted.shape != shape or not np.isin(predicted, (0, 1)).all():
            raise ValueError(f"expected 0 or 1 for {shape}, received {predicted.shape}")
        return predicted, float(record["seconds"])

    return contest.read_stored(file, "train this learner again", check)


# Texts with one or several labels, in two parts


def read_data(settings: options.Settings) -> learners.Data:
    """Reads or generates the data, and completes the settings.

    Raises:
        UsageError: If a column does not exist or cannot be guessed.
        ValueError: If a cell is empty, there are fewer than two labels, or a label is
            not in both parts.
    """
    if settings.file is not None:
        with about(settings.file):
            data = _of_file(settings)
    else:
        settings.data = settings.data or DATA[0]
        with status("generating the texts"):
            data = {"family": _family, "names": _names}[settings.data](settings)
        data = _with_fewer_rows(data, settings)
    if settings.unlabeled is not None:
        data = data._replace(unlabeled=_unlabeled(settings, data))
    content = [*data.x, *data.tested, *data.unlabeled]
    content += [" ".join(row) for row in (*data.y, *data.y_tested)]
    return data._replace(record={**data.record, "sha256": sha256("\n".join(content))})


def _family(settings):
    training, test = kerasseq.datasets.family_sentences()
    unlabeled = kerasseq.datasets.unlabeled_family_sentences(UNLABELED, excluded=test)
    return learners.Data(
        *(training.texts, training.labels, test.texts, test.labels),
        list(training.names),
        True,
        unlabeled,
        GROUPS["family"],
        {"source": "family"},
    )


def _names(settings):
    training, test = kerasseq.datasets.names_by_language()
    y, y_tested = (
        [[part.names[n]] for n in part.labels.tolist()] for part in (training, test)
    )
    names = list(training.names)
    record = {"source": "names"}
    x = training.texts
    return learners.Data(x, y, test.texts, y_tested, names, False, x, {}, record)


def _with_fewer_rows(data, settings):
    """Draws at most `settings.rows` rows from the data, from both parts alike."""
    total = len(data.x) + len(data.tested)
    if total <= settings.rows:
        return data
    note(f"{settings.rows:,} of {total:,} rows are used (--rows)")
    rng = np.random.default_rng(settings.data_seed)
    count = min(max(1, round(settings.rows * len(data.tested) / total)), settings.rows)
    x = np.sort(rng.permutation(len(data.x))[: settings.rows - count])
    tested = np.sort(rng.permutation(len(data.tested))[:count])
    fewer = data._replace(
        x=[data.x[n] for n in x],
        y=[data.y[n] for n in x],
        tested=[data.tested[n] for n in tested],
        y_tested=[data.y_tested[n] for n in tested],
    )
    if data.unlabeled is data.x:
        fewer = fewer._replace(unlabeled=fewer.x)
    for part, y in {"training": fewer.y, "held-out": fewer.y_tested}.items():
        missing = sorted(set(data.labels).difference(*y))
        if missing:
            raise UsageError(
                f"--rows must be so many that each label is in both parts, received "
                f"{settings.rows:,}: no {part} row has the label {missing[0]}. Choose "
                "more rows"
            )
    return fewer


def _of_file(settings):
    file = settings.file
    table = text_tables.read_texts(file, settings.encoding, not settings.no_header)
    source = settings.own_file("file")
    without = [settings.labels] if settings.labels is not None else []
    settings.text = text_tables.column(
        table, settings.text, "--text", classify.TEXT_NAMES, without
    )
    settings.labels = text_tables.column(
        table, settings.labels, "--labels", LABELS_NAMES, [settings.text]
    )
    names = [settings.text, settings.labels]
    table = text_tables.without_gaps(table, names, file, settings.missing)
    cells = table.columns[settings.labels]
    settings.separator = settings.separator or separator(cells)
    # A cell that has only separators has no label.
    table.columns[settings.labels] = [
        cell if split_labels(cell, settings.separator) else "" for cell in cells
    ]
    table = text_tables.without_gaps(table, names, file, settings.missing)
    texts, cells = table.columns[settings.text], table.columns[settings.labels]
    lines = [f"{table.unit} {n}" for n in table.index]
    rows = [split_labels(cell, settings.separator) for cell in cells]
    labeled.check_labels([name for row in rows for name in row], source)
    texts = classify.cut(texts, settings.max_characters)
    x, tested = split(rows, settings)
    data = learners.Data(
        *([texts[n] for n in x], [rows[n] for n in x]),
        *([texts[n] for n in tested], [rows[n] for n in tested]),
        sorted({name for row in rows for name in row}),
        settings.separator != NONE,
        [texts[n] for n in x],
        {},
        {"source": source},
    )
    check_parts(data, rows, [lines[n] for n in range(len(rows))], file)
    return data


def separator(cells: Sequence[str]) -> str:
    """Returns what separates labels: the first mark that makes fewer of them.

    Examples:
        >>> separator(["a;b", "b", "b;a"]), separator(["rock, pop", "jazz", "jazz"])
        (';', 'none')
    """
    whole = len(set(cells))
    for mark in SEPARATORS:
        parts = {part.strip() for cell in cells for part in cell.split(mark)}
        shared = sum(mark in cell for cell in cells) > 0
        if shared and len(parts) < whole:
            note(f'labels are separated by "{mark}" (--separator)')
            return mark
    return NONE


def split_labels(cell: str, mark: str) -> list[str]:
    """Splits a cell of labels.

    Args:
        cell: The cell.
        mark: What separates labels, or "none".

    Examples:
        >>> split_labels("a; b;a", ";"), split_labels("; ", ";")
        (['a', 'b'], [])
    """
    parts = [cell] if mark == NONE else cell.split(mark)
    return list(dict.fromkeys(filter(None, map(str.strip, parts))))


def split(
    rows: Sequence[Sequence[str]], settings: options.Settings
) -> tuple[list[int], list[int]]:
    """Splits rows in two parts, so that a rare label is in both if it can be.

    Each row counts for its rarest label. The first rows of a random order are kept if
    there are more than `settings.rows`.
    """
    counts = Counter(name for row in rows for name in row)
    rarest = [min(row, key=lambda name: (counts[name], name)) for row in rows]
    kept = np.arange(len(rows))
    if len(rows) > settings.rows:
        note(f"{settings.rows:,} of {len(rows):,} rows are used (--rows)")
        rng = np.random.default_rng(settings.data_seed)
        kept = np.sort(rng.permutation(len(rows))[: settings.rows])
    classes = [rarest[n] for n in kept]
    parts = split_by_class(classes, settings.held_out, settings.data_seed)
    x, tested = (kept[part].tolist() for part in parts)
    return x, tested


def check_parts(
    data: learners.Data, rows: Sequence[Sequence[str]], lines: Sequence[str], file: str
) -> None:
    """Raises a `ValueError` that names a label which is not in both parts."""
    parts = {"training": data.y, "held-out": data.y_tested}
    for part, y in parts.items():
        present = {name for row in y for name in row}
        for name in data.labels:
            if name not in present:
                where = [
                    line for line, row in zip(lines, rows, strict=True) if name in row
                ]
                shown = ", ".join(where[:SHOWN_ROWS])
                raise ValueError(
                    f"{file}: each label must be in the training part and in the "
                    f'held-out part, but no {part} row has the label "{name}", which '
                    f"is in {shown}. Add rows with it, or delete it, or choose "
                    "another --held-out"
                )


def _unlabeled(settings, data):
    """Returns the lines of a file, without the texts of the test part."""
    lines = text_file(settings.unlabeled, settings.encoding).splitlines()
    settings.own_file("unlabeled")
    excluded = {_key(text) for text in data.tested}
    texts = [line.strip() for line in lines if line.strip()]
    kept = [line for line in texts if _key(line) not in excluded]
    if len(kept) < len(texts):
        note(f"{len(texts) - len(kept):,} lines of held-out texts are left out")
    if len(kept) < 2:
        raise UsageError(
            f"--unlabeled {settings.unlabeled} must have at least two lines of text "
            f"that are not held out, received {len(kept)}"
        )
    return [line[: settings.max_characters] for line in kept]


def _key(text: str) -> str:
    return " ".join(text.lower().split())
