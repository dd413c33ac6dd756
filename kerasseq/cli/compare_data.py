"""The data of `kerasseq compare`: texts with one or several labels, in two parts."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import classify, labeled, options, text_tables
from kerasseq.cli.console import note, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.core.files import sha256
from kerasseq.datasets import text_file
from kerasseq.datasets.splitting import split_by_class

DATA = ("family", "names")
SEPARATORS = (";", "|", ",")  # of labels, in the order in which they are tried
NONE = "none"  # as --separator: a cell is one label
LABELS_NAMES = (*classify.LABEL_NAMES, "labels", "tags", "categories", "topics")
UNLABELED = 20_000  # sentences of the grammar
GROUPS = {"family": {"+ - 0": ["+", "-", "0"]}}  # labels whose mean F1 is shown
SHOWN_ROWS = 5  # named in a message, of all that have a label


class Data(NamedTuple):
    """Texts of both parts.

    Attributes:
        x: Training texts.
        y: For each the list of its labels.
        tested: Texts of the test part.
        y_tested: Their labels.
        labels: The names of the labels.
        multi_label: Whether a text may have several labels.
        unlabeled: Texts for pre-training.
        groups: Labels whose mean F1 is shown, by the title of the mean.
        record: Source and checksum.
    """

    x: list[str]
    y: list[list[str]]
    tested: list[str]
    y_tested: list[list[str]]
    labels: list[str]
    multi_label: bool
    unlabeled: list[str]
    groups: dict[str, list[str]]
    record: dict[str, Any]

    def indicators(self, rows: Sequence[Sequence[str]]) -> np.ndarray:
        """Returns labels as 0 or 1, `(rows, labels)`."""
        return np.array([[name in row for name in self.labels] for row in rows], int)


def read(settings: options.Settings) -> Data:
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
    return Data(
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
    return Data(x, y, test.texts, y_tested, names, False, x, {}, record)


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
    source = os.path.basename(file)
    settings.file = os.path.abspath(file)  # to resume from any folder
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
    data = Data(
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
    data: Data, rows: Sequence[Sequence[str]], lines: Sequence[str], file: str
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
    settings.unlabeled = os.path.abspath(settings.unlabeled)
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
