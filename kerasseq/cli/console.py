"""The terminal: printing, status messages, and loading Keras without its log lines.

Results go to stdout, all else to stderr. On a terminal output has colors and progress
bars, elsewhere it is plain. Control characters of data reach no terminal. Importing
this module loads no Keras.
"""

import contextlib
import contextvars
import io
import json
import os
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import rich.box
import rich.console
import rich.markup
import rich.progress
import rich.table

from kerasseq.cli import control
from kerasseq.core import backend
from kerasseq.core.printable import printable

PLAIN_WIDTH = 88  # of tables, if the output is not a terminal
FIRST_MESSAGE = 0.5  # seconds before a status is printed without a terminal
THREADS = (
    "OMP_NUM_THREADS",  # PyTorch
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",  # TensorFlow
    "TF_NUM_INTEROP_THREADS",
    "NPROC",  # JAX
)
LARGE = 5_000_000  # characters of an input whose status is printed at once
MAX_SILENCE = 15  # seconds between two lines of a progress
MAX_LINE = 100_000  # bytes of a line of the input
PROMPT = "> "
_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("silent", default=False)
_C1 = re.compile(r"[\x7f-\x9f]")  # control characters that JSON does not escape
_LOG_LINE = re.compile(
    rb"(WARNING: All log messages before absl|[IWE]\d{4} \d\d:\d\d:)"
)


@contextlib.contextmanager
def silence(silent: bool = True) -> Iterator[None]:
    """Prints results and errors alone until the block ends, if `silent`."""
    token = _silent.set(silent)
    try:
        yield
    finally:
        _silent.reset(token)


class Console(rich.console.Console):
    """A rich console that prints text literally, brackets included.

    Args:
        stderr: Whether to print on stderr, as when stdout is JSON.
    """

    def __init__(self, stderr: bool = False):
        stream = sys.stderr if stderr else sys.stdout
        terminal = stream.isatty()
        super().__init__(
            file=stream,
            width=None if terminal else PLAIN_WIDTH,
            force_terminal=terminal,
            color_system="auto" if terminal else None,
            markup=False,
            highlight=False,
            emoji=False,
        )

    def on_broken_pipe(self) -> NoReturn:
        """Leaves the error to `main`; rich would exit."""
        raise

    def write(self, text: str = "", style: str | None = None) -> None:
        """Prints text without breaking its lines."""
        self.print(printable(text), style=style, soft_wrap=True)

    def write_part(self, text: str) -> None:
        """Prints a part of a line at once; exactly, if the output is no terminal.

        A character that the encoding lacks is printed as "?".
        """
        text = printable(text) if self.is_terminal else text
        encoding = self.file.encoding or "utf-8"
        text = text.encode(encoding, "replace").decode(encoding)
        print(text, end="", file=self.file, flush=True)

    def info(self, text: str) -> None:
        """Prints what is no result, unless `silence` is asked for."""
        if not _silent.get():
            self.write(text)

    @property
    def shows_bars(self) -> bool:
        """Whether progress is shown as bars; elsewhere than on a terminal as lines."""
        return self.is_terminal and not _silent.get()

    def table(
        self, title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]
    ) -> None:
        """Prints a table.

        Args:
            title: The title.
            columns: The headings. `>` before one marks a column of numbers.
            rows: The values of each row.
        """
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD)
        for heading in columns:
            is_number = heading.startswith(">")
            table.add_column(
                printable(heading.removeprefix(">")),
                justify="right" if is_number else "left",
                no_wrap=is_number,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(printable(str(cell)) for cell in row))
        self.write(f"\n{title}", style="bold")
        self.print(table)


def note(text: str) -> None:
    """Prints a message on stderr."""
    # In one piece: a status may be printed by another thread.
    if not _silent.get():
        print(f"kerasseq: {printable(text)}\n", end="", file=sys.stderr)


@contextlib.contextmanager
def noted_warnings() -> Iterator[None]:
    """Prints warnings of the library as notes when the block ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        note(str(warning.message))


def print_result(text: str) -> None:
    """Prints a result on stdout; where that is no terminal, exactly as it is."""
    print(printable(text) if sys.stdout.isatty() else text)


def print_json(data: object) -> None:
    """Prints plain data as JSON on stdout."""
    text = json.dumps(data, indent=1, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # such as a lone surrogate in the name of a file
        text = json.dumps(data, indent=1)
    print_result(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


@contextlib.contextmanager
def status(what: str, size: int = 0) -> Iterator[None]:
    """Shows on stderr what the command does until the block ends.

    The progress of a run, if there is one, says the same.

    Args:
        what: In words, such as "reading the text".
        size: Characters of the input. For a large one the message appears at once,
            as a single call may block all threads.

    Yields:
        Nothing.
    """
    what = printable(what)
    with control.phase(what), _own_stderr() as stream:
        if stream.isatty():
            console = rich.console.Console(file=stream)
            with console.status(f"{rich.markup.escape(what)} …"):
                yield
            return
        finished = threading.Event()
        printer = threading.Thread(
            target=_print_status, args=(stream, what, size, finished)
        )
        printer.start()
        try:
            yield
        finally:
            finished.set()
            printer.join()


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Shows on stderr how many of many rows are done: a bar on a terminal, else lines.

    Args:
        what: In words, such as "predicting".
        total: Number of rows.

    Yields:
        A function of the number of rows that are done.
    """
    with _own_stderr() as stream:
        if stream.isatty():
            console = rich.console.Console(file=stream)
            columns = (
                rich.progress.TextColumn("{task.description}", markup=False),
                rich.progress.BarColumn(),
                rich.progress.TextColumn("{task.completed:,}/{task.total:,}"),
                rich.progress.TimeRemainingColumn(),
            )
            with rich.progress.Progress(*columns, console=console) as bar:
                task = bar.add_task(what, total=total)
                yield lambda done: bar.update(task, completed=done)
            return
        yield _lines_of_progress(stream, what, total)


def _lines_of_progress(stream, what, total):
    """Prints a line, and returns the function that prints others from time to time."""
    start = shown = time.monotonic()

    def show(done):
        nonlocal shown
        now = time.monotonic()
        if done and (now - shown < MAX_SILENCE or done == total):
            return
        shown, seconds = now, now - start
        left = f", {clock(seconds / done * (total - done))} left" if done else ""
        with contextlib.suppress(OSError, ValueError):  # stderr may be closed
            print(
                f"kerasseq: {what}, {done:,} of {total:,}{left} …",
                file=stream,
                flush=True,
            )

    show(0)
    return show


def bars_of_steps(console: Console) -> rich.progress.Progress:
    """Returns progress bars of trainings, with a field "state" behind each."""
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.TextColumn("{task.completed}/{task.total}"),
        rich.progress.TextColumn("{task.fields[state]}", markup=False),
        console=console,
    )


def clock(seconds: float) -> str:
    """Formats a duration as minutes and seconds.

    Examples:
        >>> clock(83)
        '1:23'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextlib.contextmanager
def _own_stderr():
    """Yields a copy of stderr that `quiet` does not redirect; no output if silent."""
    if _silent.get():
        yield io.StringIO()
        return
    try:
        copy = os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # no stderr, or one without a file
        yield sys.stderr or io.StringIO()
        return
    with os.fdopen(copy, "w", encoding="utf-8", errors="replace") as stream:
        yield stream


def _print_status(stream, what, size, finished):
    """Prints a line first, and another each time the waiting time has doubled."""
    start, pause = time.monotonic(), FIRST_MESSAGE
    if size < LARGE and finished.wait(pause):
        return
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        print(f"kerasseq: {what} …\n", end="", file=stream, flush=True)
        while not finished.wait(max(pause, 5)):
            pause = time.monotonic() - start
            line = f"kerasseq: {what}, {pause:.0f} s …\n"
            print(line, end="", file=stream, flush=True)


def choose_backend(
    name: str | None, threads: int | None = None, devices: int = 1
) -> None:
    """Loads Keras on a backend.

    Args:
        name: The name of the backend; that of the environment if None.
        threads: Number of threads that compute; the choice of the backend if None.
        devices: Number of devices that compute: parts of the CPU without a GPU.

    Raises:
        BackendError: If it is not installed, Keras already runs on another, or it is
            loaded, when the number of threads is fixed.
    """
    if threads is not None:
        limit_threads(threads)
    name_backend(name)
    with status("loading Keras"):
        load_keras(devices)


def name_backend(name: str | None) -> None:
    """Chooses a backend, as `choose_backend`, without loading Keras."""
    if name and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = name
    backend.require()
    if name and backend.chosen() != name:
        raise backend.BackendError(
            f"Keras already runs on {backend.chosen()} in this process, and cannot "
            f"change to {name}"
        )


def limit_threads(count: int) -> None:
    """Limits the threads of the backend, which reads these variables when it is loaded.

    Raises:
        BackendError: If it is loaded already.
    """
    if "keras" in sys.modules and any(os.environ.get(n) != str(count) for n in THREADS):
        raise backend.BackendError(
            f"--threads {count} must be given before Keras is loaded, but Keras "
            "already runs in this process. Start the command in a process of its own"
        )
    os.environ.update(dict.fromkeys(THREADS, str(count)))


def load_keras(devices: int = 1) -> None:
    """Imports Keras and its backend, which finds its devices with the first tensor."""
    if "keras" not in sys.modules:
        with quiet():
            import keras

            if devices > 1:
                from kerasseq.training import parallel

                parallel.make_virtual_devices(devices)
            keras.ops.zeros(())


def set_seed(seed: int) -> None:
    """Seeds all random generators. Keras then loads TensorFlow, if it is installed."""
    import keras

    with quiet():
        keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops the log lines that TensorFlow writes to the file descriptor of stderr.

    It writes them whatever its log level is. Everything else is printed at the end.
    """
    try:
        sys.stderr.flush()
        before = os.dup(2)
    except (OSError, ValueError):  # there is no stderr
        yield
        return
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            captured.seek(0)
            for line in captured:
                if not _LOG_LINE.match(line):
                    os.write(2, line)


# The lines of a dialogue, from a terminal or a pipe


def on_terminal() -> bool:
    """Returns whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def read_lines(stderr: bool = False) -> Iterator[str]:
    """Yields the lines that are typed at a prompt; or those of a pipe or file.

    Args:
        stderr: Whether the prompt is printed on stderr, as when stdout is JSON.

    Raises:
        ValueError: If a line is not UTF-8, or too long.
    """
    yield from _typed(stderr) if on_terminal() else _piped()


def _typed(stderr):
    """Yields the lines typed at a prompt, with the line editing of the terminal."""
    number = 0
    while True:
        number += 1
        try:
            if stderr:
                print(PROMPT, end="", file=sys.stderr, flush=True)
            yield input("" if stderr else PROMPT)
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise _not_utf8(number, error) from error


def _piped():
    """Yields the lines of a pipe or file, decoded as UTF-8 on every system."""
    if sys.stdin is None:  # closed, as by `<&-`
        return
    lines = iter(lambda: sys.stdin.buffer.readline(MAX_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise ValueError(
                f"expected at most {MAX_LINE:,} bytes in a line, received more in line "
                f"{number} of the input"
            )
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise _not_utf8(number, error) from error


def _not_utf8(number, error) -> ValueError:
    return ValueError(
        f"expected UTF-8, but byte {error.start + 1} of line {number} of the input is "
        f"0x{error.object[error.start]:02x}. Convert the input first, for example "
        "with  iconv -f cp1252 -t utf-8"
    )
