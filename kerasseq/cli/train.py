"""`kerasseq train`: starts a run, or resumes one that was stopped.

Train a model on a task. All files of the run are kept in one folder: arguments,
checkpoints, model, history and figures. A run that was stopped, even by kill -9, can be
resumed from its last checkpoint and ends as if it had not been stopped.

Examples:
  kerasseq train language-model --text my.txt --model gru --epochs 5 --run runs/mine
  kerasseq train parentheses --model elman,lstm --seeds 0,1
  kerasseq train forecast --file sales.csv --value sales
  kerasseq train images pictures
  kerasseq train --resume runs/mine
  kerasseq train classify --config runs/mine/run.json --seed 1 --dry-run

Options of a task:  kerasseq train language-model --help
"""

import argparse
import contextlib
import os
import pathlib
from typing import Any

from kerasseq.cli import control, devices, options, prepare, runs, schedule, text_models
from kerasseq.cli.commands import ALIASES, TASKS
from kerasseq.cli.console import Console, choose_backend, name_backend, note, print_json
from kerasseq.cli.errors import UsageError, refuse
from kerasseq.cli.run import DryRun, Run, free_folder
from kerasseq.core.files import read_json

# Options of the user's file, which the data of `kerasseq.datasets` do not have. A task
# may have others.
OF_FILE = ("encoding", "text", "label", "labels", "no_header", "missing", "strict")
OF_FILE += ("word_column", "tag_column", "value", "date", "group", "with", "known")
OF_UNLABELED = ("encoding", "max_characters")  # also of --unlabeled


def add_command(add: options.Add) -> None:
    """Adds the command and its tasks to the parser."""
    parser = add("train")
    options.add_resume(parser)
    devices.add_options(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq train`."""
    args.task = ALIASES.get(args.task, args.task)
    if args.resume is None and args.task is None:
        raise UsageError(
            f"expected a task: {', '.join(TASKS)}; or --resume DIR. "
            "See  kerasseq train --help"
        )
    with devices.in_own_folder(args):
        _run(args)


def _run(args):
    console = Console(stderr=bool(args.json))
    if args.resume is None:
        words = args.task, given(args), args.run, console, args.backend
        run = new_run(*words, args.threads, bool(args.dry_run))
    else:
        run = resumed_run(args, console)
        if (run.folder / runs.RESULTS).exists():
            _show_finished(run, args.json)
            return
    run.devices = devices.given(args)
    batch_size = getattr(run.settings, "batch_size", devices.MAX_PARTS)
    devices.check(run.devices, run.task, run.backend_name, batch_size)
    if devices.needs_workers(run.devices, run.backend_name) and not run.dry:
        devices.run_workers(args.words, run.devices.count, args.resume)
        return
    results = execute(run)
    if args.json:
        print_json(results)


def execute(run: Run) -> runs.Results:
    """Executes a run and returns its results; after Ctrl-C, says how to resume.

    SIGTERM and SIGHUP have the effect of Ctrl-C, and so has `runs.request_stop`.
    """
    try:
        with (
            control.signals_handled(),
            contextlib.nullcontext() if run.dry else run.reporter,
        ):
            if run.in_processes:
                name_backend(run.backend_name)
            else:
                count = run.devices.count
                choose_backend(run.backend_name, run.threads, count)
            schedule.parts.set(run.devices.micro_batches)
            with run.devices.in_run(run.folder):
                return TASKS[run.task].train(run)
    except DryRun as ended:
        return ended.args[0]
    except KeyboardInterrupt:
        if (run.folder / runs.RUN).exists():
            note(f"to resume:  kerasseq train --resume {run.folder}")
        raise


def _show_finished(run, as_json):
    file = run.folder / runs.RESULTS
    results = read_json(file)
    if not isinstance(results, dict):
        raise ValueError(
            f"{file} is damaged: expected an object, received {results!r}. Delete it, "
            "and resume the run to evaluate the model again"
        )
    if as_json:
        print_json(results)
    run.console.write(
        f"The run in {run.folder} is finished. To train longer, start another run with "
        "more --steps."
    )


def given(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of a task that the user has given."""
    defaults = TASKS[args.task].DEFAULTS if args.task else {}
    values = {name: getattr(args, name, None) for name in defaults}
    return {name: value for name, value in values.items() if value is not None}


def new_run(
    task: str,
    arguments: dict[str, Any],
    folder: str | os.PathLike[str] | None,
    console: Console,
    backend_name: str | None = None,
    threads: int | None = None,
    dry: bool = False,
) -> Run:
    """Prepares a new run. Nothing is written yet.

    Args:
        task: Name of the task.
        arguments: The arguments that differ from the defaults.
        folder: The folder that the user named, or None.
        console: Where to print.
        backend_name: The backend that the user named, or None.
        threads: Number of threads that compute, or None.
        dry: Whether it shall end before anything is written.
    """
    for one, other in ((TASKS[task].FILE, "data"), ("epochs", "steps")):
        if arguments.get(one) and arguments.get(other):
            raise UsageError(f"--{one} and --{other} exclude each other: give one")
    _check_file(task, arguments)
    if "documents_apart" in TASKS[task].DEFAULTS:
        arguments = prepare.with_shards(arguments)
    arguments = text_models.with_preset(arguments)
    arguments = text_models.with_base(arguments, TASKS[task].DEFAULTS)
    settings = options.with_defaults(TASKS[task].DEFAULTS, arguments)
    if settings.get("model") == "transformer" and "attention" in arguments:
        raise UsageError(
            "--attention is for recurrent models: a Transformer has attention in each "
            "layer. Leave it out, or choose another --model"
        )
    # Of a task with several; a race has a list.
    model = settings.get("model", settings.get("method"))
    words = [task, "race" if isinstance(model, list) else model]
    folder = free_folder(folder, f"runs/{'-'.join(filter(None, words))}-")
    more = {"threads": threads, "dry": dry}
    return Run(task, settings, folder, console, backend_name, **more)


def _check_file(task, arguments):
    """Raises if options of a file are given without a file."""
    module = TASKS[task]
    if module.FILE is None:  # it reads several, or none
        return
    for name in (*OF_FILE, *getattr(module, "OF_FILE", ())):
        files = [module.FILE]
        if name in OF_UNLABELED and "unlabeled" in module.DEFAULTS:
            files.append("unlabeled")
        if name in arguments and not any(arguments.get(each) for each in files):
            named = " or ".join(f"--{each}" for each in files)
            why = f"is for {named}, received none. Add {named}, or leave it out"
            refuse([name], why)


def resumed_run(args: argparse.Namespace, console: Console) -> Run:
    """Prepares to resume a run.

    Raises:
        FileNotFoundError: If there is no run in the folder.
        ValueError: If its record is damaged, or differs from the arguments given.
    """
    if not args.resume:
        raise UsageError('--resume must be the folder of a run, received ""')
    folder = pathlib.Path(args.resume)
    record = runs.read(folder)
    task, arguments = record["task"], record["arguments"]
    if args.task not in (None, task):
        raise UsageError(f"the run in {folder} has the task {task}, not {args.task}")
    typed = given(args)
    if getattr(args, "backend", None):
        typed["backend"] = args.backend
    paths = getattr(TASKS[task], "PATHS", (TASKS[task].FILE,))
    for name, value in typed.items():
        before = {**arguments, "backend": record["backend"]}[name]
        if value and name in ("preset", "base", *paths):
            value, before = map(os.path.abspath, (value, before or ""))
        if value != before:
            raise UsageError(
                f"the run in {folder} was started with --{name.replace('_', '-')} "
                f"{before}, received {value}. Leave it out, or start another run"
            )
    name = record["backend"]
    words = folder, console, name, record, args.threads, bool(args.dry_run)
    return Run(task, arguments, *words)
