"""Where the app keeps its files: in the user's cache, or in the folder of an option."""

import os
import pathlib

import kerasseq

OPTION = "KERASSEQ_APP_RUNS"  # names another folder; `kerasseq app` sets it


def root() -> pathlib.Path:
    """Returns the folder of everything that the app writes."""
    named = os.environ.get(OPTION)
    if named:
        return pathlib.Path(named).expanduser()
    return kerasseq.datasets.cache_folder() / "app"


def runs() -> pathlib.Path:
    """Returns the folder of all runs."""
    return root() / "runs"
