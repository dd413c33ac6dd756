"""The folder of a run: made once, never overwritten, every file whole or not there.

    run.json         task, arguments, backend, versions, where the data came from
    checkpoint.npz   all that is needed to go on, after each interval
    history.json     loss and metrics of each interval
    results.json     how it ended; where this is, the run is finished
    model.keras      the trained model
    *.png            figures

Loads no Keras.
"""

import contextlib
import datetime
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform

import kerasseq
from kerasseq.cli import record
from kerasseq.cli.quiet import quiet
from kerasseq.cli.waiting import waiting
from kerasseq.core.files import read_json

RUN, HISTORY, RESULTS, MODEL = "run.json", "history.json", "results.json", "model.keras"


@contextlib.contextmanager
def replacing(file):
    """Write a file whole or not at all.

    Args:
        file: Its path.

    Yields:
        The path to write to, of the same suffix. It is moved at the end of the block.
    """
    file = pathlib.Path(file)
    part = file.with_name(f".part-{file.name}")
    try:
        yield part
        os.replace(part, file)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_json(file, data):
    """Write plain data, whole or not at all."""
    with replacing(file) as part, open(part, "w", encoding="utf-8") as out:
        json.dump(data, out, indent=1, ensure_ascii=False)
        out.write("\n")


def save_model(model, folder):
    """Save a model, whole or not at all."""
    file = pathlib.Path(folder) / MODEL
    with replacing(file) as part, waiting("saving the model"), quiet():
        model.save(part)  # which loads TensorFlow, if it is there


def free_folder(wanted, default):
    """Choose the folder of a new run.

    Args:
        wanted: What the user named, or None.
        default: Name to which a number is added, if it is None.

    Returns:
        The path of a folder that is not there, or is empty.

    Raises:
        ValueError: If the folder that the user named holds something.
    """
    if wanted is None:
        return next(path for path in _numbered(default) if not path.exists())
    folder = pathlib.Path(wanted)
    if (folder / RUN).exists():
        raise ValueError(
            f"{folder} already holds a run, and nothing is overwritten. Go on with "
            f"it by  kerasseq train --resume {folder}  or name another with --run"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a new folder with --run")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty, and nothing is overwritten. Name another folder "
            "with --run"
        )
    return folder


def _numbered(default):
    """Count `runs/race-1`, `runs/race-2`, or `runs/quickstart`, `runs/quickstart-2`."""
    first = 1
    if not default.endswith("-"):
        yield pathlib.Path(default)
        default, first = default + "-", 2
    for n in itertools.count(first):
        yield pathlib.Path(f"{default}{n}")


def create(folder, task, arguments, backend, data):
    """Make the folder of a run and write down what the run is."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "task": task,
        "arguments": arguments,
        "backend": backend,
        "data": data,
        "versions": versions(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    write_json(folder / RUN, found)
    return found


def read(folder):
    """Read what a run is.

    Raises:
        FileNotFoundError: If there is no run.
        ValueError: If its record is damaged.
    """
    folder = pathlib.Path(folder)
    file = folder / RUN
    if not folder.is_dir():
        raise FileNotFoundError(f'there is no folder "{folder}".{_others(folder)}')
    if not file.exists():
        raise FileNotFoundError(
            f"{folder} holds no run: it has no {RUN}.{_others(folder)}"
        )
    return record.check(read_json(file), file)


def _others(folder):
    """End a message with the runs that are there."""
    with contextlib.suppress(OSError):
        found = sorted(str(file.parent) for file in folder.parent.glob(f"*/{RUN}"))
        if found:
            return f" Runs near it: {', '.join(found[:8])}"
    return ""


def versions():
    """Versions of what takes part, None for what is not installed."""
    found = {"python": platform.python_version(), "kerasseq": kerasseq.__version__}
    for name in ("keras", "numpy", "tensorflow", "jax", "torch", "matplotlib"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
