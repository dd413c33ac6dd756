"""Tables in files: csv, tsv, jsonl and parquet, read by pandas."""

import csv
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kerasseq.cli.console import note
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks

if TYPE_CHECKING:
    import pandas

MISSING = 'tables need pandas. Install it with  pip install "kerasseq[data]"'
SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".parquet")
FALLBACK = "cp1252"  # of files from Windows that are not UTF-8
SAMPLE = 2**16  # bytes from which the separator is found
SEPARATORS = ",;\t|"


def read_table(
    file: str, encoding: str = "utf-8", *, as_text: bool = False
) -> "pandas.DataFrame":
    """Reads a table.

    The separator of a text file is found, and a file that is not UTF-8 is read as
    cp1252; both are reported.

    Args:
        file: A `.csv`, `.tsv`, `.txt`, `.jsonl` or `.parquet` file; all but the last
            also with `.gz`.
        encoding: Encoding of a text file.
        as_text: Whether all cells are read as they are written; empty ones as "".

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If pandas is not installed.
        ValueError: If the file is not a table. The message has the line.
    """
    path = pathlib.Path(file)
    suffix = _suffix(path)
    try:
        table = _read(path, suffix, encoding, as_text)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise ValueError(
                f"{file} is not in the encoding {encoding}: {error.reason} at byte "
                f"{error.start}. Choose another --encoding"
            ) from None
        note(f"{file} is not UTF-8, and is read as {FALLBACK} (--encoding)")
        return read_table(file, FALLBACK, as_text=as_text)
    except LookupError as error:
        raise UsageError(f"--encoding {encoding}: {error}") from None
    except (ValueError, OSError, EOFError) as error:  # those of pandas, json and gzip
        first = (str(error).strip().splitlines() or ["damaged"])[0]
        raise ValueError(f"{file} cannot be read as a table: {first}") from None
    if not len(table) or not len(table.columns):
        raise ValueError(f"{file} must have a line of names and rows, received no rows")
    table.columns = [str(name).strip() for name in table.columns]
    return table


def _suffix(path):
    """The last suffix but `.gz`, of a file that exists."""
    if not path.exists():
        raise FileNotFoundError(f'there is no file "{path}"')
    if not path.is_file():
        raise ValueError(f"{path} is not a file: expected {', '.join(SUFFIXES)}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    found = [suffix for suffix in suffixes if suffix != ".gz"][-1:]
    if not found or found[0] not in SUFFIXES:
        raise ValueError(
            f"{path} must end in {', '.join(SUFFIXES)}, or one of them and .gz, "
            f'received "{path.name}"'
        )
    return found[0]


def _read(path, suffix, encoding, as_text):
    try:
        import pandas
    except ImportError as error:
        raise ImportError(MISSING) from error
    text = {"dtype": str, "keep_default_na": False} if as_text else {}
    if suffix == ".parquet":
        return pandas.read_parquet(path)
    if suffix == ".jsonl":
        return pandas.read_json(path, lines=True, encoding=encoding)
    return pandas.read_csv(
        path, sep=_separator(pandas, path, suffix, encoding), encoding=encoding, **text
    )


def _separator(pandas, path, suffix, encoding):
    """The separator of the columns, from the first lines."""
    if suffix == ".tsv":
        return "\t"
    with pandas.io.common.get_handle(
        path, "r", encoding=encoding, compression="infer"
    ) as opened:
        sample = opened.handle.read(SAMPLE)
    lines = sample.splitlines(keepends=True)
    lines = lines[:-1] if len(sample) == SAMPLE and len(lines) > 1 else lines
    heading = lines[0] if lines else ""
    try:
        found = csv.Sniffer().sniff("".join(lines), SEPARATORS).delimiter
    except csv.Error:
        found = max(SEPARATORS, key=heading.count)
    if found not in heading:
        found = max(SEPARATORS, key=heading.count)
    if found != ",":
        note(f"the columns of {path.name} are separated by {found!r}")
    return found


def column(
    table: "pandas.DataFrame",
    name: str | None,
    option: str,
    known: Sequence[str],
    without: Sequence[str] = (),
) -> str:
    """Returns the name of a column, guessed if only one fits.

    Args:
        table: The table.
        name: The name that the user gave, or None.
        option: The option that names it.
        known: Usual names of such a column.
        without: Columns that have another use.

    Raises:
        ValueError: If there is no such column, or none or several fit.
    """
    names = [str(each) for each in table.columns if each not in without]
    if name is not None:
        if name not in names:
            raise ValueError(
                f'{option}: there is no column "{name}".'
                f"{checks.nearest(name, names)} The columns are {_listed(names)}"
            )
        return name
    fitting = [each for each in names if each.lower() in known]
    if len(names) == 1:
        fitting = names
    if len(fitting) != 1:
        raise UsageError(
            f"{option} is needed: which column is it? The columns are {_listed(names)}"
        )
    note(f'{option} is "{fitting[0]}"')
    return fitting[0]


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(f'"{str(name)[:60]}"' for name in names[:20])
    return shown + (", …" if len(names) > 20 else "")
