"""What executions gave, in files of JSON and SVG."""

import datetime
import json
import os
import pathlib
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from docs.tools.places import TUTORIALS

if TYPE_CHECKING:  # needs nbclient, which rendering does not
    from docs.tools.execute import Execution

OUTPUTS, BACKENDS, SEEDS = "outputs.json", "backends.json", "seeds.json"


def folder(name: str) -> pathlib.Path:
    """Returns the folder of the results of a tutorial."""
    return TUTORIALS / "results" / name


def read(name: str, file: str) -> dict[str, Any]:
    """Reads one of the files of the results; empty if it does not exist."""
    path = folder(name) / file
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def figure(name: str, cell: str, language: str) -> pathlib.Path:
    """Returns the path of a figure, for light pages."""
    return folder(name) / f"{cell}.{language}.svg"


def write(name: str, key: str, labels: str, done: "Execution") -> None:
    """Replaces the results of a tutorial, all at once.

    Args:
        name: The name of the tutorial.
        key: The key of its code.
        labels: The key of the labels of its French figures.
        done: What the execution gave.
    """
    home = folder(name)
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as made:
        new = pathlib.Path(made) / "new"
        new.mkdir()
        about = {k: v for k, v in done.told.items() if k != "values"}
        about = {"key": key, "labels": labels, "date": today(), **about}
        _write_json(
            new / OUTPUTS,
            {**about, "values": done.told["values"], "printed": done.printed},
        )
        for (cell, language), text in done.figures.items():
            (new / f"{cell}.{language}.svg").write_text(text, encoding="utf-8")
        for kept in (home / BACKENDS, home / SEEDS):
            if kept.exists():
                shutil.copy(kept, new)
        if home.exists():
            home.rename(pathlib.Path(made) / "old")
        new.rename(home)
    write_number(name, key, done)


def write_number(name: str, key: str, done: "Execution") -> None:
    """Writes the number of a tutorial on one backend."""
    told = done.told
    kept = read(name, BACKENDS)
    kept[told["backend"]] = {
        "key": key,
        "result": told["values"]["result"],
        "seconds": told["seconds"],
        "kerasseq": told["kerasseq"],
        "keras": told["keras"],
        "date": today(),
    }
    _replace(name, BACKENDS, kept)


def write_seeds(name: str, key: str, backend: str, found: list[float]) -> None:
    """Writes the numbers of a tutorial with other seeds; none if it draws nothing."""
    _replace(
        name,
        SEEDS,
        {"key": key, "backend": backend, "results": found, "date": today()},
    )


def _replace(name, file, content):
    folder(name).mkdir(parents=True, exist_ok=True)
    path = folder(name) / file
    _write_json(path.with_suffix(".tmp"), content)
    os.replace(path.with_suffix(".tmp"), path)


def today() -> str:
    """Returns the date as in 2026-11-24."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _write_json(path, content):
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
