"""`kerasseq train`: a new run, or one that was stopped; the task does the rest."""

import hashlib
import importlib
import json
import math
import os
import pathlib
import sys
from types import SimpleNamespace

from kerasseq.cli import names, runs
from kerasseq.cli.console import Console, note
from kerasseq.cli.defaults import DEFAULTS, EPOCHS, OF_MODEL
from kerasseq.cli.errors import UsageError
from kerasseq.cli.quiet import load_keras
from kerasseq.cli.waiting import waiting
from kerasseq.core import backend

_MODULES = {
    "language-model": "language",
    "parentheses": "race",
    "forecast": "forecast",
    "translation": "translation",
}
PART = 2**20  # characters of a text that are encoded at a time


class Job:
    """One run: what it is to do, and where.

    Args:
        task: Name of the task.
        settings: Arguments of the run by name.
        folder: Its folder.
        console: Where to print.
        record: What `run.json` says, if the run was begun before.
        name: How messages call the model; the architecture if None.
    """

    def __init__(self, task, settings, folder, console, record=None, name=None):
        self.task, self.folder, self.console = task, pathlib.Path(folder), console
        self.settings = SimpleNamespace(**settings)
        self.record, self.name = record, name

    def check_data(self, data):
        """Make sure that the data are those that the run began with.

        Raises:
            ValueError: If they have changed since.
        """
        if self.record and self.record["data"]["sha256"] != data["sha256"]:
            raise ValueError(
                f"{data['source']} has changed since the run in {self.folder} began: "
                "it cannot go on with other data. Bring the old ones back, or start "
                "another run with --run"
            )

    def begin(self, data):
        """Make the folder, unless the run was begun before."""
        if self.record is None:
            arguments = vars(self.settings)
            used = backend.chosen()
            self.record = runs.create(self.folder, self.task, arguments, used, data)

    def finish(self, results):
        """Write down how the run ended: from now on it is finished."""
        runs.write_json(self.folder / runs.RESULTS, results)


def run(args):
    """Run `kerasseq train`."""
    if args.resume is None and args.task is None:
        raise UsageError(
            f"say what to train: {', '.join(names.TASKS)}; or --resume DIR. "
            "See  kerasseq train --help"
        )
    console = Console(stderr=bool(args.json))
    if args.resume is None:
        job = new(args.task, given(args), args.run, console, args.backend)
    else:
        job = resumed(args, console)
        if (job.folder / runs.RESULTS).exists():
            _finished(job, args.json)
            return
    results = work(job)
    if args.json:
        json.dump(results, sys.stdout, indent=1)
        print()


def work(job):
    """Do what the job says; on Ctrl-C say how to go on."""
    module = importlib.import_module(f"kerasseq.cli.{_MODULES[job.task]}")
    try:
        return module.train(job)
    except KeyboardInterrupt:
        if (job.folder / runs.RUN).exists():
            note(f"to go on:  kerasseq train --resume {job.folder}")
        raise


def _finished(job, as_json):
    results = runs.read_json(job.folder / runs.RESULTS)
    if not isinstance(results, dict):
        raise ValueError(
            f"{job.folder / runs.RESULTS} is damaged: expected an object, received "
            f"{results!r}. Delete it, and resume the run to measure again"
        )
    if as_json:
        json.dump(results, sys.stdout, indent=1)
        print()
    job.console.say(
        f"The run in {job.folder} is finished. To train longer, start another one with "
        "more --steps."
    )


def given(args):
    """What was typed of the options of a task."""
    task = args.task
    if task is None:
        return {}
    return {
        name: value
        for name in DEFAULTS[task]
        if (value := getattr(args, name)) is not None
    }


def new(task, typed, folder, console, backend_name=None):
    """Prepare a new run.

    Args:
        task: Name of the task.
        typed: Arguments that differ from the defaults.
        folder: What the user named, or None.
        console: Where to print.
        backend_name: What the user named, or None.

    Returns:
        The `Job`. Nothing is written yet.
    """
    for file in ("text", "pairs"):
        if typed.get(file) and typed.get("data"):
            raise UsageError(f"give --{file} or --data, not both")
    if typed.get("epochs") and typed.get("steps"):
        raise UsageError("give --epochs or --steps, not both")
    settings = DEFAULTS[task] | typed
    if settings["model"] == "transformer" and "attention" in typed:
        raise UsageError(
            "--attention is for recurrent models: a transformer has its own in each "
            "layer"
        )
    if task in OF_MODEL:
        model, recurrent, other = OF_MODEL[task]
        own = other if settings["model"] == model else recurrent
        settings |= {name: x for name, x in own.items() if settings[name] is None}
    if task == "parentheses":
        default = "runs/parentheses-race-"
    else:
        default = f"runs/{task}-{settings['model']}-"
    folder = runs.free_folder(folder, default)
    choose_backend(backend_name)
    return Job(task, settings, folder, console)


def resumed(args, console):
    """Prepare to go on with a run.

    Raises:
        FileNotFoundError: If there is no run in the folder.
        ValueError: If its record is damaged, or says other than what was typed.
    """
    folder = pathlib.Path(args.resume)
    record = runs.read(folder)
    task, known = record["task"], record["arguments"]
    if args.task not in (None, task):
        raise UsageError(f"the run in {folder} is of the task {task}, not {args.task}")
    typed = given(args)
    if getattr(args, "backend", None):
        typed["backend"] = args.backend
    for name, value in typed.items():
        was = {**known, "backend": record["backend"]}[name]
        if _same_path(name, value) != _same_path(name, was):
            raise UsageError(
                f"the run in {folder} was begun with --{name.replace('_', '-')} {was} "
                f"and cannot go on with {value}: leave it out, or start another run"
            )
    choose_backend(record["backend"])
    return Job(task, known, folder, console, record)


def _same_path(name, value):
    return os.path.abspath(value) if name in ("text", "pairs") and value else value


def choose_backend(name):
    """Load Keras on a backend that is there.

    Args:
        name: Its name, None for that of the environment.

    Raises:
        BackendError: If it is not installed, or Keras already runs on another.
    """
    if name and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = name
    backend.require()
    if name and backend.chosen() != name:
        raise backend.BackendError(
            f"Keras already runs on {backend.chosen()} in this process, and cannot "
            f"change to {name}"
        )
    with waiting("loading Keras"):
        load_keras()


def sha256(data) -> str:
    """The checksum of a text, or of the bytes of an array."""
    if not isinstance(data, str):
        return hashlib.sha256(data).hexdigest()
    found = hashlib.sha256()
    for start in range(0, len(data), PART):
        found.update(data[start : start + PART].encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def steps_of(settings, steps_per_pass):
    """How many steps `--epochs` or `--steps` mean."""
    if settings.steps:
        return settings.steps
    epochs = settings.epochs or EPOCHS
    return max(1, math.ceil(epochs * steps_per_pass))
