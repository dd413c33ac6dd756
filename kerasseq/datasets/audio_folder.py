"""Folders of WAV files with a table of transcripts; a sound is read when needed."""

import csv
import os
import pathlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kerasseq.core.checks import nearest, one_of, short
from kerasseq.core.files import as_path, parse_json
from kerasseq.core.types import FilePath
from kerasseq.datasets.files import existing_folder, read_text
from kerasseq.datasets.recordings import Recordings
from kerasseq.datasets.wave_files import check_rate, read_wave

TABLES = (".csv", ".tsv", ".jsonl")
AUDIO = ("audio", "file", "path", "file_name", "filename", "audio_filepath", "wav")
TEXT = ("text", "transcript", "transcription", "sentence")
FIRST = 3  # wrong rows that a warning names
_LOOK = "A table has a row for each sound, such as  a.wav,hello  below  file,text"


class WaveFiles(Sequence[np.ndarray]):
    """Sounds in WAV files, each read when it is needed.

    Args:
        files: Paths.
        sampling_rate: Samples a second of the sounds.

    Examples:
        >>> sounds = WaveFiles(["a.wav", "b.wav", "c.wav"], 8000)
        >>> len(sounds), sounds.take([2, 0]).files
        (3, ['c.wav', 'a.wav'])
    """

    def __init__(self, files: Sequence[str], sampling_rate: int = 16000) -> None:
        self.files: list[str] = list(files)
        self.sampling_rate: int = check_rate("sampling_rate", sampling_rate)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return WaveFiles(self.files[index], self.sampling_rate)
        return read_wave(self.files[index], self.sampling_rate)

    def take(self, rows: Sequence[int]) -> "WaveFiles":
        """Returns some of the files."""
        return WaveFiles([self.files[row] for row in rows], self.sampling_rate)

    def __repr__(self) -> str:
        return f"<WaveFiles of {len(self):,} sounds at {self.sampling_rate:,} Hz>"


def audio_folder(
    path: FilePath,
    table: FilePath | None = None,
    *,
    audio_column: str | None = None,
    text_column: str | None = None,
    sampling_rate: int = 16000,
    encoding: str = "utf-8",
    missing: str = "error",
) -> Recordings:
    r"""Lists the WAV files of a table of transcripts.

    No sound is read here: `recordings.audio[n]` reads it, at the sampling rate.

    Args:
        path: The folder.
        table: The table: comma or semicolon separated (`.csv`), tab separated (`.tsv`),
            or one JSON object a line (`.jsonl`), each with the names of its columns. A
            relative path is one in the folder. By default the only such file there.
        audio_column: Name of the column of files, whose paths start at the folder. By
            default "audio", "file", "path", "file_name", "filename", "audio_filepath"
            or "wav".
        text_column: Name of the column of transcripts. By default "text", "transcript",
            "transcription" or "sentence".
        sampling_rate: Samples a second of the sounds.
        encoding: Name of the encoding of the table.
        missing: What is done with rows that have no file, no text, or a file that does
            not exist: "error", or "skip", which leaves them out and warns.

    Returns:
        `Recordings`, whose `audio` are `WaveFiles`.

    Raises:
        FileNotFoundError: If there is no such folder or table.
        NotADirectoryError: If the folder is a file.
        TypeError: If an argument is of the wrong type.
        ValueError: If there is no table or several, it has not these columns or no
            rows, or a row lacks its file or text. The message names file and line.

    Examples:
        >>> import tempfile
        >>> from kerasseq.datasets import write_wave
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_wave(f"{folder}/a.wav", [0.0, 0.5])
        ...     table = pathlib.Path(folder, "all.csv")
        ...     _ = table.write_text("file,text\na.wav,hello\n")
        ...     recordings = audio_folder(folder)
        ...     print(recordings.texts, recordings.audio[0])
        ['hello'] [0.  0.5]
    """
    one_of("missing", missing, ("error", "skip"))
    rate = check_rate("sampling_rate", sampling_rate)
    folder = existing_folder(path, "sounds")
    source = _only_table(folder) if table is None else folder / as_path("table", table)
    files, texts, wrong = [], [], []
    for where, row in _rows(source, encoding):
        file = _cell(where, row, "audio_column", audio_column, AUDIO)
        text = _cell(where, row, "text_column", text_column, TEXT)
        problem = _problem(folder, file, text)
        if not problem:
            files.append(os.path.join(folder, file))
            texts.append(text)
        elif missing == "error":
            raise ValueError(
                f'{where} {problem}. Correct the row, or pass missing="skip" to leave '
                "it out"
            )
        else:
            wrong.append(f"{where} {problem}")
    if wrong:
        _warn(wrong, files)
    if not files:
        raise ValueError(f"{source} has no rows with a sound. {_LOOK}")
    return Recordings(WaveFiles(files, rate), texts)


def _warn(wrong: list[str], files: list[str]) -> None:
    """Warns of the rows that are left out."""
    shown = "; ".join(wrong[:FIRST]) + "; …" * (len(wrong) > FIRST)
    warnings.warn(
        f"{len(wrong):,} of {len(wrong) + len(files):,} sounds are left out: {shown}",
        stacklevel=3,
    )


def _only_table(folder: pathlib.Path) -> pathlib.Path:
    """Returns the table of a folder, if there is one alone."""
    found = sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in TABLES and not entry.name.startswith(".")
    )
    if len(found) == 1:
        return found[0]
    names = ", ".join(entry.name for entry in found) or "none"
    raise ValueError(
        f"{folder} must have one table of transcripts, .csv, .tsv or .jsonl, received "
        f"{names}. Name it with `table`"
    )


def _rows(path: pathlib.Path, encoding: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place of each row, and its values by the names of their columns."""
    kind = one_of("table with the ending", path.suffix.lower(), TABLES)
    path, text = read_text(path, encoding)
    lines = text.split("\n")  # not at U+2028
    if kind == ".jsonl":
        yield from _json_rows(path, lines)
        return
    mark = "\t" if kind == ".tsv" else max(",;", key=lines[0].count)
    reader = csv.reader(lines, delimiter=mark)
    try:
        header = [name.strip() for name in next(reader)]
        for cells in reader:
            where = f"{path}, line {reader.line_num}"
            if len(cells) not in (0, len(header)):
                raise ValueError(
                    f"{where} must have {len(header)} columns, as the first line, "
                    f"received {len(cells)}: {short(cells)}. Quote a text with a "
                    f"{mark!r} in it"
                )
            if any(cells):
                yield where, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        where = f"{path}, line {reader.line_num}"
        raise ValueError(f"{where} is damaged: {error}") from error


def _json_rows(
    path: pathlib.Path, lines: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place of each object, and the object."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            row = parse_json(line, where)
            if not isinstance(row, dict):
                raise ValueError(f"{where} must be an object, received {short(row)}")
            yield where, row


def _cell(
    where: str,
    row: dict[str, Any],
    argument: str,
    name: str | None,
    usual: tuple[str, ...],
) -> str:
    """Returns the value of the named column, or of the first that is usual."""
    if not (name is None or isinstance(name, str)):
        raise TypeError(f"{argument} must be a string, received {short(name)}")
    for one in usual if name is None else (name,):
        if one in row:
            return str(row[one] or "").strip()
    wanted = f'"{name}"' if name else " or ".join(f'"{one}"' for one in usual)
    raise ValueError(
        f"{where} must have the column {wanted}, received {short([*row])}."
        f"{nearest(name, row) if name else ''} Name it with `{argument}`. {_LOOK}"
    )


def _problem(folder: pathlib.Path, file: str, text: str) -> str:
    """What is wrong with a row; nothing if it has a text and its file exists."""
    if not file:
        return "has no file"
    if not text:
        return f"has no text for {file}"
    return "" if (folder / file).is_file() else f"names {file}, which is not a file"
