"""The model of a run, and what the run was."""

import pathlib

import kerasseq
from kerasseq.cli import runs
from kerasseq.cli.waiting import waiting


def find(folder):
    """Find the file of a model, without loading Keras.

    Args:
        folder: Folder of a run, or a `.keras` file.

    Returns:
        The path of the file, and what `run.json` says: None where there is none.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If the record of the run is damaged.
    """
    path = pathlib.Path(folder)
    if path.is_file():
        return path, None
    if not path.is_dir():
        runs.read(path)  # raises, and names the runs that are there
    file, record = path / runs.MODEL, _record(path)
    if not file.exists():
        raise FileNotFoundError(_no_model(path, record))
    return file, record


def load(folder):
    """Load a model.

    Args:
        folder: Folder of a run, or a `.keras` file.

    Returns:
        The model, and what `run.json` says, as from `find`.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged.
    """
    file, record = find(folder)
    with waiting("loading the model"):
        return kerasseq.load_model(file), record


def _record(path):
    """Of the run itself, or of the race that it is part of."""
    for folder in (path, path.absolute().parent):
        if (folder / runs.RUN).exists():
            return runs.read(folder)
    return None


def _no_model(path, record):
    parts = sorted(str(file.parent) for file in path.glob(f"*/{runs.MODEL}"))
    if parts:
        return f"{path} holds several models. Name one: {', '.join(parts)}"
    if record is None:
        return f"{path} holds no run: there is no {runs.MODEL} in it"
    return (
        f"the run in {path} has no {runs.MODEL} yet. Finish it with  "
        f"kerasseq train --resume {path}"
    )
