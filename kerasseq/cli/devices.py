"""Several devices for a run, and parts of a batch: the options, and what they start.

On JAX and TensorFlow one process has all devices. On PyTorch each has a process of its
own: the command starts itself once for each, as torchrun does. Only the first writes
into the folder of the run and prints; the others end after training. On JAX a user may
start the command in several processes, such as one on each machine.
"""

import argparse
import atexit
import contextlib
import contextvars
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kerasseq.cli import control, errors, options
from kerasseq.cli.errors import UsageError
from kerasseq.core import backend

if TYPE_CHECKING:
    import keras

# The tasks that train one model, whose loss is a mean over rows or steps.
TASKS = ("language-model", "classify", "tag", "images", "forecast", "translation")
TASKS += ("speech", "captions", "bert", "conversations")
PARALLEL = ("data", "model")
MAX = 64  # devices of one machine
MAX_PARTS = 1024  # of a batch
WORKERS = "KERASSEQ_WORKERS"  # folder that the processes of a run share
OF_JAX = ("KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID")
RUN = "run"  # file in it: the folder of the run; there while it trains
GRACE = 20.0  # seconds in which a process ends by itself after another was lost
# The block of `on_devices` around a run.
_block: contextvars.ContextVar[contextlib.ExitStack] = contextvars.ContextVar("block")
_LOST = re.compile(r"gloo|nccl|closed by peer|connection (re|was)", re.IGNORECASE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options, which are no part of a run: it is resumed with others."""
    is_task = len(parser.prog.split()) > 2
    default = argparse.SUPPRESS if is_task else None
    group = parser.add_argument_group("devices")
    for name, kind, metavar, text in (
        (
            "--devices",
            options.integer(at_most=MAX),
            "N",
            "GPUs among which each batch is divided; parts of the CPU without a GPU "
            "(default: 1)",
        ),
        (
            "--parallel",
            options.one_of("division", PARALLEL),
            "NAME",
            "data: each device has all weights; model: each has a part of them, on JAX "
            "and PyTorch (default: data)",
        ),
        (
            "--micro-batches",
            options.integer(at_most=MAX_PARTS),
            "N",
            "parts of a batch that are computed one after another, which takes less "
            "memory (default: 1)",
        ),
    ):
        group.add_argument(name, type=kind, metavar=metavar, default=default, help=text)


class Devices(NamedTuple):
    """What a run computes with.

    Attributes:
        count: The number of devices.
        parallel: "data" or "model".
        micro_batches: In how many parts a device computes its rows of a batch.
    """

    count: int = 1
    parallel: str = "data"
    micro_batches: int = 1

    @contextlib.contextmanager
    def in_run(self, folder: pathlib.Path) -> Iterator[None]:
        """Divides batches in a whole run, on JAX and TensorFlow.

        Args:
            folder: The folder of the run.

        Raises:
            UsageError: If another of several processes was lost.
        """
        if self.count == 1 or backend.chosen() == "torch":
            yield
            return
        from kerasseq import models, training  # loads Keras

        is_model = self.parallel == "model"
        if is_model:  # what an error about sizes names
            names = {**errors.typed_options.get(), "layout_map": "--parallel"}
            errors.typed_options.set(names)
        layout = models.GPT.get_layout_map if is_model else None  # one for all classes
        try:
            with contextlib.ExitStack() as block:
                devices = training.on_devices(self.count, layout_map=layout)
                block.enter_context(devices)
                _block.set(block)
                yield
        except Exception as error:
            if is_one_of_jax():  # the others wait for this one, which must not wait
                atexit.register(os._exit, 2)
            if "another process" not in str(error):
                raise
            raise UsageError(_lost(folder)) from error

    @contextlib.contextmanager
    def in_fit(self, model: "keras.Model", folder: pathlib.Path) -> Iterator[None]:
        """Prepares a model, and divides its batches in `fit`, on PyTorch.

        Args:
            model: The model, compiled.
            folder: The folder of the run.

        Raises:
            UsageError: If the weights of the model cannot be divided.
            SystemExit: After `fit` in all processes but the first.
        """
        if self.parallel == "model" and not type(model).divides_weights:
            raise UsageError(
                f"--parallel model divides the weights of Transformers and Mamba, "
                f"received a {type(model).__name__}. Leave it out"
            )
        if self.micro_batches > 1:
            model.loss_means.check_accumulation(self.micro_batches, None, model)
            model.micro_batches = self.micro_batches
        is_process = self.count > 1 and backend.chosen() == "torch"
        with (
            _in_process(self.count, self.parallel, folder)
            if is_process
            else contextlib.nullcontext()
        ):
            yield
        if self.parallel == "model" and is_one_of_jax():
            from kerasseq import training

            _block.get().close()  # then the first process has all weights
            if not training.is_first_process():
                raise SystemExit(0)


@contextlib.contextmanager
def _in_process(count: int, parallel: str, folder: pathlib.Path) -> Iterator[None]:
    """Divides batches among processes of PyTorch, of which this is one."""
    from kerasseq import training

    trains = pathlib.Path(os.environ[WORKERS], RUN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    is_first = training.is_first_process()
    if is_first:
        trains.write_text(str(folder))
    stopped: list[control.Stopped] = []
    try:
        with training.on_devices(count, parallel=parallel), _kept(stopped):
            yield  # the block ends after Ctrl-C as after training
    except RuntimeError as error:
        if not _LOST.search(str(error)):
            raise
        # What connects the processes would wait for the lost one at the end.
        os.kill(os.getpid(), signal.SIGKILL)
    except BaseException:
        if is_first:
            trains.unlink()
        raise
    if not is_first:
        raise SystemExit(0)
    trains.unlink()
    for error in stopped:
        raise error


@contextlib.contextmanager
def _kept(stopped: list[control.Stopped]) -> Iterator[None]:
    """Adds what stops training at the end of a step to a list."""
    try:
        yield
    except control.Stopped as error:
        stopped.append(error)


def is_one_of_jax() -> bool:
    """Returns whether the environment names several processes, for JAX."""
    is_jax = backend.chosen() == "jax"
    return is_jax and int(os.environ.get(OF_JAX[0]) or 0) > 1


@contextlib.contextmanager
def in_own_folder(args: argparse.Namespace) -> Iterator[None]:
    """Lets one process of several on JAX write files: the first.

    The others write into folders that are thrown away, and print errors alone. Which
    processes there are is in the variables that `keras.distribution.initialize` reads.

    Args:
        args: The arguments of the command; the folder of the run is changed.

    Raises:
        UsageError: If the number of their devices is not given.
    """
    count, number = (int(os.environ.get(name) or 0) for name in OF_JAX)
    if count < 2 or (vars(args).get("backend") or backend.chosen()) != "jax":
        yield
        return
    if not vars(args).get("devices"):
        raise UsageError(
            f"expected --devices N, the number of all devices, as {OF_JAX[0]} is "
            f"{count}, received none. Add it, or unset the variable"
        )
    if not number:
        yield
        return
    with tempfile.TemporaryDirectory() as shared, open(os.devnull, "w") as nothing:
        folder = str(pathlib.Path(shared, RUN))
        if args.resume is None:
            args.run = folder
        else:
            args.resume = shutil.copytree(args.resume, folder)
        with contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
            yield


def given(args: argparse.Namespace) -> Devices:
    """Returns what the user has given; the defaults for the rest.

    Raises:
        UsageError: If the options contradict each other.
    """
    words = vars(args)  # a comparison trains without these options
    named = {
        "count": words.get("devices"),
        "parallel": words.get("parallel"),
        "micro_batches": words.get("micro_batches"),
    }
    devices = Devices(**{name: value for name, value in named.items() if value})
    if devices.parallel == "model" and devices.count == 1:
        raise UsageError("--parallel model needs --devices of at least 2, received 1")
    return devices


def check(
    devices: Devices, task: str, backend_name: str | None, batch_size: int = MAX_PARTS
) -> None:
    """Raises a `UsageError` if a task or backend cannot train with these devices."""
    if devices == Devices():
        return
    if task not in TASKS:
        raise UsageError(
            f"--devices and --micro-batches are for {', '.join(TASKS)}: tasks that "
            f"train one model, whose loss compares no rows. Received {task}"
        )
    divided = devices.count if devices.parallel == "data" else 1
    if devices.micro_batches > 1 and devices.micro_batches * divided > batch_size:
        rows = f"{batch_size:,} examples of a batch (--batch-size)"
        rows += f", divided among {divided} devices" if divided > 1 else ""
        raise UsageError(
            f"--micro-batches must be at most the {rows}, received "
            f"{devices.micro_batches:,}. Choose fewer parts, or a larger --batch-size"
        )
    name = backend_name or backend.chosen()
    if devices.parallel == "model" and name == "tensorflow":
        raise UsageError(
            "--parallel model divides weights among devices, on JAX and PyTorch, "
            f"received the backend {name}. Add --backend torch, or leave it out"
        )


def needs_workers(devices: Devices, backend_name: str | None) -> bool:
    """Returns whether this process starts the processes that train."""
    name = backend_name or backend.chosen()
    return devices.count > 1 and name == "torch" and WORKERS not in os.environ


def is_worker() -> bool:
    """Returns whether another process writes the files of the run."""
    return WORKERS in os.environ and os.environ.get("RANK") != "0"


def run_workers(
    words: Sequence[str], count: int, resumed: str | os.PathLike[str] | None
) -> None:
    """Runs the command in several processes, and ends as the first of them.

    Args:
        words: The words after `kerasseq`.
        count: The number of processes.
        resumed: The folder of the run to resume, or None.

    Raises:
        SystemExit: With the exit code of the first process, if it is not 0.
        UsageError: If a process was lost.
    """
    with tempfile.TemporaryDirectory() as folder:
        shared = pathlib.Path(folder)
        environment = _environment(count, shared)
        processes = [
            _start(words, rank, environment, shared, resumed) for rank in range(count)
        ]
        first, *others = processes
        try:
            with control.signals_handled(
                lambda number, frame: first.send_signal(number)
            ):
                code = _wait(first, others, shared)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if code < 0:
            known = shared / RUN
            raise UsageError(_lost(known.read_text() if known.exists() else "RUN"))
    if code:
        raise SystemExit(code)


def _environment(count, shared):
    """Returns what PyTorch reads to connect the processes, as torchrun sets it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": count,
        WORKERS: shared,
    }
    threads = {"OMP_NUM_THREADS": "1"}  # for each process, unless it is set
    return threads | dict(os.environ) | {n: str(v) for n, v in settings.items()}


def _start(words, rank, environment, shared, resumed):
    """Starts a process; all but the first write into folders that are thrown away."""
    own, output = [*words], None
    if rank:
        output, folder = subprocess.DEVNULL, shared / f"{rank}"
        if resumed is not None:
            shutil.copytree(resumed, folder)
        own += ["--run" if resumed is None else "--resume", str(folder)]
    number = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    return subprocess.Popen(
        [sys.executable, "-m", "kerasseq", *own],
        env=environment | number,
        stdout=output,
        stderr=output,
        process_group=0,  # Ctrl-C reaches this process, which passes it on once
    )


def _wait(first, others, shared) -> int:
    """Waits for the first process, which is stopped if another is lost in training."""
    until = None
    while first.poll() is None:
        time.sleep(0.05)
        is_lost = any(process.poll() for process in others) and (shared / RUN).exists()
        if is_lost and until is None:
            until = time.monotonic() + GRACE
        if until is not None and time.monotonic() > until:
            first.kill()
    return first.returncode


def _lost(folder):
    return (
        "another process of the run has ended, killed by a user or for its memory, so "
        f"training stopped. To resume:  kerasseq train --resume {folder} --devices N"
    )


def _end_with_parent():
    """Ends this process soon after the one that has started it."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
