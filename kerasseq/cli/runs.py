"""Reads the folder of a run, whose files `run.py` lists. Loads no Keras."""

import contextlib
import os
import pathlib
from typing import Any

import kerasseq
from kerasseq.cli import config
from kerasseq.cli.commands import TASKS
from kerasseq.cli.console import note, quiet, status
from kerasseq.cli.errors import UsageError
from kerasseq.core.archive import read_config
from kerasseq.core.backend import BACKENDS
from kerasseq.core.files import read_json
from kerasseq.core.progress import read_state

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
SPEECH = ("speech", "SpeechRecognizer", "Whisper")  # kinds of a run that reads sounds

History = list[dict[str, float]]  # step, loss and metrics of each interval
Results = dict[str, Any]  # the content of results.json


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
    # The record of the run in the folder, or of the race that it belongs to.
    folders = [each for each in (path, path.absolute().parent) if (each / RUN).exists()]
    file, record = path / MODEL, read(folders[0]) if folders else None
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
