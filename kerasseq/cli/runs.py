"""The folder of a run. It is never overwritten, and its files are replaced atomically.

    run.json         task, arguments, backend, versions, source of the data
    checkpoint.npz   all that is needed to resume, after each interval
    history.json     loss and metrics of each interval
    progress.jsonl   what the command does, and loss and metrics, twice a second
    stop             a request to stop, from another process
    results.json     final results; if it exists, the run is finished
    training_rows.npy  checksums of the training rows of a classifier or tagger
    model.keras      the trained model
    codebook/        of a model that draws: what was trained before it, as a run
    *.png            figures

Loads no Keras.
"""

import contextlib
import csv
import datetime
import hashlib
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import config
from kerasseq.cli.commands import TASKS
from kerasseq.cli.console import note, quiet, status
from kerasseq.cli.errors import UsageError
from kerasseq.core.archive import read_config
from kerasseq.core.backend import BACKENDS
from kerasseq.core.files import read_json, replacing
from kerasseq.core.progress import read_state

if TYPE_CHECKING:
    import keras

CODEBOOK = "codebook"  # the folder of a model's codebook, inside that of its run
RUN, HISTORY, RESULTS, MODEL = "run.json", "history.json", "results.json", "model.keras"
# Arguments that runs of earlier versions do not have, with their values there.
ADDED = {"missing": "error", "no_header": False, "patience": 0, "max_minutes": None}
ADDED |= {"word_column": None, "tag_column": None, "pooling": None}
ADDED |= {"base": None, "lora": None, "quantize": None}
ADDED |= {"normalization": "layer", "spec_augment": False, "flipped": 0.0}
ADDED |= {"chat": False, "documents_apart": False}
ADDED |= {"remat": None, "loss_chunk_size": None}
REQUIRED = ("task", "arguments", "backend", "data")  # keys of run.json
ROWS, ROW_BYTES = "training_rows.npy", 8
SPEECH = ("speech", "SpeechRecognizer", "Whisper")  # kinds of a run that reads sounds
PART = 2**20  # characters of a text that are encoded at a time

History = list[dict[str, float]]  # step, loss and metrics of each interval
Results = dict[str, Any]  # the content of results.json


# Writing


def write_json(file: str | os.PathLike[str], data: object) -> None:
    """Writes plain data, atomically."""
    with replacing(file) as temporary, open(temporary, "w", encoding="utf-8") as out:
        json.dump(data, out, indent=1, ensure_ascii=False)
        out.write("\n")


def write_csv(
    file: str | os.PathLike[str],
    columns: Sequence[str],
    rows: Iterable[Mapping[str, object]],
) -> None:
    """Writes a table, atomically."""
    with (
        replacing(file) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as out,
    ):
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)


@contextlib.contextmanager
def reading(file: str | os.PathLike[str], to: str) -> Iterator[None]:
    """Says that a file is damaged if what the block reads of it is missing or wrong.

    Args:
        file: What a run has stored.
        to: What happens if the user deletes it, such as "train this cell again".

    Raises:
        ValueError: If the file is damaged.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}. Delete it to {to}") from error


def save_model(model: "keras.Model", folder: str | os.PathLike[str]) -> None:
    """Saves a model, and shows that it does."""
    with status("saving the model"):
        write_model(model, folder)


def write_model(model: "keras.Model", folder: str | os.PathLike[str]) -> None:
    """Writes the file of a model, atomically."""
    file = pathlib.Path(folder) / MODEL
    with replacing(file) as temporary, quiet():
        model.save(temporary)  # which loads TensorFlow, if it is installed


def free_folder(folder: str | os.PathLike[str] | None, default: str) -> pathlib.Path:
    """Chooses the folder of a new run.

    Args:
        folder: The folder that the user named, or None.
        default: If it is None, a number is appended to this name.

    Returns:
        The path of a folder that does not exist or is empty.

    Raises:
        ValueError: If the folder that the user named is not empty.
    """
    if folder is None:
        return next(path for path in _numbered(default) if not path.exists())
    folder = pathlib.Path(folder)
    if (folder / RUN).exists():
        raise ValueError(
            f"{folder} already contains a run, and nothing is overwritten. Resume it "
            f"with  kerasseq train --resume {folder}  or choose another --run"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose a new folder with --run")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty, and nothing is overwritten. Choose another folder "
            "with --run"
        )
    return folder


def _numbered(default):
    """Yields `race-1`, `race-2` for `race-`; `mine`, `mine-2`, `mine-3` for `mine`."""
    first = 1
    if not default.endswith("-"):
        yield pathlib.Path(default)
        default, first = default + "-", 2
    for n in itertools.count(first):
        yield pathlib.Path(f"{default}{n}")


def create(
    folder: pathlib.Path,
    task: str,
    arguments: dict[str, Any],
    backend: str,
    data: dict[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """Creates the folder of a run and its `run.json`, and returns the record in it.

    Args:
        folder: The folder.
        task: Name of the task.
        arguments: All arguments of the run.
        backend: Name of the backend.
        data: Source and checksum of the data.
        **more: What else the record has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "task": task,
        "arguments": arguments,
        "backend": backend,
        "data": data,
        **more,
        "versions": versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    write_json(folder / RUN, record)
    return record


def versions() -> dict[str, str | None]:
    """Returns the versions of the packages used; None for one that is not installed."""
    by_package = {"python": platform.python_version(), "kerasseq": kerasseq.__version__}
    for name in ("keras", "numpy", "tensorflow", "jax", "torch", "matplotlib"):
        try:
            by_package[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            by_package[name] = None
    return by_package


def sha256(data: str | bytes) -> str:
    """Returns the checksum of a text or of bytes."""
    if not isinstance(data, str):
        return hashlib.sha256(data).hexdigest()
    return sha256_of(data[start : start + PART] for start in range(0, len(data), PART))


def sha256_of(texts: Iterable[str]) -> str:
    """Returns the checksum of several texts, one after the other."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


# Reading


def find_model(
    folder: str | os.PathLike[str],
) -> tuple[pathlib.Path, dict[str, Any] | None]:
    """Finds the file of a model, without loading Keras.

    Args:
        folder: The folder of a run, or a `.keras` file.

    Returns:
        The path of the file and the record of the run; None if there is no record.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If `folder` is "", or the record of the run is damaged.
    """
    if not str(folder):
        raise ValueError(
            'RUN must be the folder of a run, such as runs/quickstart, received ""'
        )
    path = pathlib.Path(folder)
    if path.is_file():
        return path, None
    if not path.is_dir():
        read(path)  # raises, and lists the runs nearby
    file, record = path / MODEL, _record_of_model(path)
    if not file.exists():
        raise FileNotFoundError(_no_model(path, record))
    return file, record


def kind(folder: str | os.PathLike[str], record: dict[str, Any] | None) -> str | None:
    """Returns the task of a run, or the class of the model in a `.keras` file.

    Args:
        folder: The folder of a run, or a `.keras` file.
        record: The record of the run, or None.
    """
    if record is not None:
        return record["task"]
    return read_config(find_model(folder)[0]).get("class_name")


def check_no_speech(folder: str | os.PathLike[str], kind: str | None) -> None:
    """Raises a `ValueError` if a model reads sounds, which have a command of their own.

    Args:
        folder: The folder of a run, or a `.keras` file.
        kind: What `kind` returns.
    """
    if kind in SPEECH:
        raise ValueError(
            f"the model in {folder} reads sounds. Write them down, and draw when each "
            f"character is said, with  kerasseq transcribe {folder} FILE.wav --align "
            "picture.png"
        )


def load_model(folder: str | os.PathLike[str]) -> tuple[Any, dict[str, Any] | None]:
    """Loads a model, and returns it with the record of its run, as `find_model`.

    A note says if the run is not finished.
    """
    file, record = find_model(folder)
    with status("loading the model"), quiet():  # which can load TensorFlow
        model = kerasseq.load_model(file)
    text = unfinished(file, model)
    if text is not None:
        note(text)
    return model, record


def unfinished(file: pathlib.Path, model: Any) -> str | None:
    """Describes where training stopped; None for a run that is finished, or no run.

    Args:
        file: The file of a model.
        model: The model in it.
    """
    folder = file.parent
    is_of_run = file.name == MODEL and (folder / RUN).exists()
    if not is_of_run or (folder / RESULTS).exists():
        return None
    state = read_state(folder)
    line = {} if state is None else state.line
    optimizer = getattr(model, "optimizer", None)
    done = int(getattr(optimizer, "iterations", 0)) or line.get("step")
    steps = line.get("steps")
    of = f" of {steps:,}" if isinstance(steps, int) else ""
    where = f" at step {done:,}{of}" if isinstance(done, int) else ""
    if state is not None and state.running:
        return f"the run in {folder} is not finished: its model was saved{where}"
    finish = f"Finish it with  kerasseq train --resume {folder}"
    if of and done == steps:
        return (
            f"the run in {folder} was trained to its last step, {steps:,}, but not "
            f"evaluated. {finish}"
        )
    return f"the run in {folder} is not finished: training stopped{where}. {finish}"


def _record_of_model(path):
    """Returns the record of the run in a folder, or of the race that it belongs to."""
    for folder in (path, path.absolute().parent):
        if (folder / RUN).exists():
            return read(folder)
    return None


def _no_model(path, record):
    folders = [file.parent for file in path.glob(f"*/{MODEL}")]
    parts = sorted(str(folder) for folder in folders if folder.name != CODEBOOK)
    if parts:
        return f"{path} contains several models. Choose one: {', '.join(parts)}"
    if record is None:
        return f"{path} contains no run: there is no {MODEL} in it"
    return (
        f"the run in {path} has no {MODEL} yet. Finish it with  "
        f"kerasseq train --resume {path}"
    )


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the record of a run.

    Raises:
        FileNotFoundError: If there is no run.
        ValueError: If its record is damaged.
    """
    folder = pathlib.Path(folder)
    file = folder / RUN
    if not folder.is_dir():
        raise FileNotFoundError(f'there is no folder "{folder}".{_nearby(folder)}')
    if not file.exists():
        raise FileNotFoundError(
            f"{folder} contains no run: it has no {RUN}.{_nearby(folder)}"
        )
    record = read_json(file)
    try:
        _check(record)
    except ValueError as error:
        raise ValueError(
            f"{file} is damaged, or of another version of kerasseq: {error}. The run "
            "cannot be used: start another"
        ) from error
    return record


def _nearby(folder):
    with contextlib.suppress(OSError):
        folders = sorted(str(file.parent) for file in folder.parent.glob(f"*/{RUN}"))
        if folders:
            return f" Runs nearby: {', '.join(folders[:8])}"
    return ""


def _check(record):
    """Raises a `ValueError` that names the key that is missing or has a wrong value."""
    _check_type("the file", record, dict, "an object")
    for key in REQUIRED:
        if key not in record:
            raise ValueError(f"the key {key} is missing")
    arguments, data = record["arguments"], record["data"]
    _check_choice("task", record["task"], tuple(TASKS))
    _check_choice("backend", record["backend"], BACKENDS)
    _check_type("arguments", arguments, dict, "an object")
    task = TASKS[record["task"]]
    defaults = task.DEFAULTS
    for name in set(defaults).intersection(ADDED):
        arguments.setdefault(name, ADDED[name])
    if set(arguments) != set(defaults):
        names = ", ".join(sorted(set(arguments) ^ set(defaults)))
        raise ValueError(f"arguments has missing or unexpected keys: {names}")
    _check_arguments(record["task"], arguments, defaults)
    if task.FILE and (arguments[task.FILE] is None) == (arguments["data"] is None):
        raise ValueError(
            f"exactly one of arguments.{task.FILE} and arguments.data must be null"
        )
    _check_type("data", data, dict, "an object")
    for key in ("source", "sha256"):
        _check_type(f"data.{key}", data.get(key), str, "a string")


def _check_type(key, value, expected, name):
    if not isinstance(value, expected):
        raise ValueError(f"{key} must be {name}, received {value!r}")


def _check_choice(key, value, choices):
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(choices)
        raise ValueError(f"{key} must be one of {listed}, received {value!r}")


def _check_arguments(task, arguments, defaults):
    """Parses the arguments as if they were typed, so that types and bounds are checked.

    Each must be parsed as the value that is in the file.
    """
    from kerasseq.cli.main import parse  # here, as the commands import this module

    words = [config.as_typed(n, value, defaults[n]) for n, value in arguments.items()]
    try:
        parsed = vars(parse(["train", task, *filter(None, words)]))
    except UsageError as error:
        raise ValueError(f"arguments: {error}") from error
    for name, value in arguments.items():
        expected = False if value is False and parsed[name] is None else parsed[name]
        if (type(expected), expected) != (type(value), value):
            raise ValueError(
                f"arguments.{name} must be {expected!r}, received {value!r}"
            )


# The rows of a training: which of other rows are among them?


def keep_rows(folder: pathlib.Path, rows: Iterable[str | bytes]) -> None:
    """Writes the checksums of the training rows, 8 bytes each, into a run's folder."""
    checksums = np.unique(_checksums(rows))
    with replacing(folder / ROWS) as temporary:
        np.save(temporary, checksums)


def repeated_rows(
    folder: str | pathlib.Path, rows: Iterable[str | bytes]
) -> int | None:
    """Counts the rows that a run was trained on; None if it does not keep any.

    Args:
        folder: The folder of a run; those of earlier versions keep no rows.
        rows: Other rows, in the form of those that were kept.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     keep_rows(pathlib.Path(folder), ["a", "b", "b"])
        ...     repeated_rows(folder, ["b", "c", "b"])
        2
    """
    file = pathlib.Path(folder) / ROWS
    if not file.exists():
        return None
    try:
        known = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{file} is damaged: {error}. Delete it to evaluate without it"
        ) from error
    return int(np.isin(_checksums(rows), known).sum())


def _checksums(rows):
    """Returns checksums, uint64 `(rows,)`."""
    parts = [
        hashlib.blake2b(
            row if isinstance(row, bytes) else row.encode("utf-8", "surrogatepass"),
            digest_size=ROW_BYTES,
        ).digest()
        for row in rows
    ]
    return np.frombuffer(b"".join(parts), "<u8")
