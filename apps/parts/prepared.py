"""Models that a page needs: trained at the first visit, once for all visitors.

`apps/prepared/<lab>.toml` says what to train: a table for each model.

    words = ["translation", "--data", "dates"]   # after `kerasseq train`
    part = "gru-seed0"                           # optional: the folder in the run's
    early = 100                                  # optional: from this step on a page
                                                 # works with what is trained so far

The folder of a model is named after its words, its backend and the version, so that
another version of the app trains another model.

While a model trains, the page shows a stored picture of what it will draw with it.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import time
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

import streamlit as st

import kerasseq
from parts import code, run_panel, runs, work
from parts.errors import NotReady

REFRESH = 60.0  # seconds between two states of a model that trains
FOLDER = pathlib.Path(__file__).parent.parent / "prepared"
PICTURES = FOLDER.parent / "pictures"  # made by `tests.browser.pictures`


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model is made.

    Attributes:
        name: Its name.
        lab: The lab that needs it.
        words: After `kerasseq train`.
        part: The folder of the model in that of the run.
        early: The step from which a page may work with it while it trains; 0 for none.
    """

    name: str
    lab: str
    words: tuple[str, ...]
    part: str = ""
    early: int = 0

    def id(self, backend: str) -> str:
        """Returns the id of its run."""
        content = json.dumps([self.words, backend, kerasseq.__version__]).encode()
        words = self.name.replace("_", "-")
        return f"{words}-{backend}-{hashlib.sha256(content).hexdigest()[:8]}"

    def source(self, file: str = "model.keras") -> code.Trained:
        """Returns a file of the model, for code that runs elsewhere."""
        path = pathlib.PurePosixPath(self.part, file)
        return code.Trained(self.name.replace("_", "-"), self.words, str(path))

    def request(self, backend: str) -> runs.Request:
        """Returns what the command trains."""
        return runs.Request(self.words, backend, self.name, self.lab)


@functools.cache
def recipes() -> dict[str, Recipe]:
    """Returns all recipes by name."""
    found = {}
    for file in sorted(FOLDER.glob("*.toml")):
        for name, row in tomllib.loads(file.read_text("utf-8")).items():
            words = tuple(map(str, row.pop("words")))
            found[name] = Recipe(name, file.stem, words, **row)
    return found


def find(manager: runs.Runs, name: str, backend: str) -> pathlib.Path | None:
    """Returns the folder of a model that is finished, or None."""
    recipe = recipes()[name]
    folder = manager.folder(runs.EVERYBODY, recipe.id(backend))
    if (folder / "results.json").exists() and (
        folder / recipe.part / "model.keras"
    ).exists():
        return folder / recipe.part
    return None


def make(manager: runs.Runs, name: str, backend: str) -> runs.Run:
    """Starts to train a model, unless this or another server trains it already."""
    recipe = recipes()[name]
    key = recipe.id(backend)
    with _lock(manager.folder(runs.EVERYBODY, key)):
        manager.start(runs.EVERYBODY, recipe.request(backend), key)
    return manager.run(runs.EVERYBODY, key)


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[None]:
    """Holds a lock file: of two servers one starts a run, and the other sees it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait_for_all(here: Any, names: Sequence[str]) -> dict[str, pathlib.Path]:
    """Returns the folders of models by name; starts to train those that are missing.

    Raises:
        NotReady: Until all are trained.
    """
    manager, backend = run_panel.manager(), work.backend()
    for name in names:
        if find(manager, name, backend) is None:
            run = manager_state(manager, name, backend)
            if run is None or run.state == "stopped":
                make(manager, name, backend)
    return {name: wait(here, name) for name in names}


def wait(here: Any, name: str) -> pathlib.Path:
    """Returns the folder of a model; until it is trained, draws how far it is.

    With `early`, the folder has a model while it trains; the page is drawn again when
    a newer one is saved.

    Raises:
        NotReady: Until there is a model. The page is drawn again then.
    """
    manager, backend = run_panel.manager(), work.backend()
    folder = find(manager, name, backend)
    if folder is not None:
        return folder
    run = manager_state(manager, name, backend)
    if run is None or run.state == "stopped":
        run = make(manager, name, backend)

    part = recipes()[name]
    drawn = saved(run, part)  # when its model was saved, with which the page works

    @st.fragment(run_every=run_panel.EVERY)
    def live() -> None:
        now = manager.run(runs.EVERYBODY, run.id)
        text = "preparing" if drawn is None else "early"
        called = here.text(f"model_{name}")
        st.info(here.text(text, model=called))
        st.progress(now.share, text=run_panel.describe(here, now, called))
        if now.state == "finished" or saved(now, part) != drawn:
            st.rerun()
        if is_due(now, part):
            kerasseq.runs.request_model(now.folder / part.part)
        if not now.is_active and here.button("again"):
            manager.resume(runs.EVERYBODY, run.id)
            st.rerun()

    live()
    if drawn is None:
        _stored(here)
        raise NotReady(name)
    return run.folder / part.part


def picture(lab: str, view: str, language: str) -> pathlib.Path:
    """Returns the file of the stored picture of a view, which may not exist."""
    return PICTURES / language / f"{lab}_{view}.webp"


def _stored(here):
    """Draws how the page looked with a model that was trained before, if it is kept."""
    file = picture(here.name, here.view, here.language)
    if file.exists():
        st.image(str(file), caption=here.text("stored"))


def saved(run: runs.Run, recipe: Recipe) -> float | None:
    """Returns when the model of a run that trains was saved; None if it is no use."""
    file = run.folder / recipe.part / "model.keras"
    if not recipe.early or run.line.get("step", 0) < recipe.early:
        return None
    with contextlib.suppress(OSError):
        return file.stat().st_mtime
    return None


def is_due(run: runs.Run, recipe: Recipe) -> bool:
    """Whether to ask a run for its model: none is saved yet, or it is old."""
    if not recipe.early or run.state != "training":
        return False
    if run.line.get("step", 0) < recipe.early:
        return False
    return time.time() - (saved(run, recipe) or 0) > REFRESH


def manager_state(manager: runs.Runs, name: str, backend: str) -> runs.Run | None:
    """Returns the run of a model, or None if it was never started."""
    key = recipes()[name].id(backend)
    if not manager.folder(runs.EVERYBODY, key).with_suffix(".json").exists():
        return None
    return manager.run(runs.EVERYBODY, key)
