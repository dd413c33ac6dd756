"""`kerasseq app`: starts the Streamlit application, which is in the folder `apps`.

Start the app: labs that train models, compare them and show what happens inside.
It works without a network and without an account. Ctrl-C ends the app; what it trains
is saved and can be continued.

Examples:
  kerasseq app
  kerasseq app --language fr --backend torch
  kerasseq app --prepare
  kerasseq app --deck my_slides.toml
  kerasseq app --host 0.0.0.0 --port 8080 --no-browser
"""

import argparse
import contextlib
import errno
import ipaddress
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator

import kerasseq
from kerasseq.cli import control, options
from kerasseq.cli.console import Console, note
from kerasseq.core import backend, checks, packages
from kerasseq.published.architectures import architectures

HOST, PORT = "127.0.0.1", 8501
LANGUAGES = ("en", "fr")
SCRIPT, PREPARE = "kerasseq_app.py", "prepare.py"
PATIENCE = 40  # seconds for the server to stop its runs
START = 60  # seconds until the first page
RUNS = "KERASSEQ_APP_RUNS"  # the variable that names the folder of the app
DECK = "KERASSEQ_APP_DECK"  # the variable that names a deck
CLAIM = "server.json"  # in this folder, locked while a server uses it
PACKAGES = ("streamlit", "altair", "scikit-learn")  # all of the extra `app`
MISSING = f"the app needs Streamlit. {packages.install(*PACKAGES)}"


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("app")
    port = options.integer(at_least=1, at_most=65535)
    options.add(parser, "--port", port, "port", default=PORT)
    text = "address of the server; 0.0.0.0 lets other computers in"
    shown = f"{HOST}, this computer alone"
    options.add(parser, "--host", str, text, "NAME", default=HOST, shown=shown)
    options.add(parser, "--no-browser", None, "do not open a browser")
    kind, text = options.one_of("language", LANGUAGES), "en or fr"
    options.add(parser, "--language", kind, text, "NAME", shown="that of the browser")
    options.add_backend(parser)
    text = "train all models that the pages need, as before a lecture, and end"
    options.add(parser, "--prepare", None, text)
    text = "a TOML file with examples of your slides, shown in the labs"
    options.add(parser, "--deck", str, text, "FILE")


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq app`."""
    if not packages.is_installed("streamlit"):
        raise ModuleNotFoundError(MISSING)
    if args.deck is not None:
        check_deck(args.deck)  # a wrong field ends the command here
    if args.backend:
        os.environ["KERAS_BACKEND"] = args.backend
    backend.require()
    environment = {**os.environ, "KERAS_BACKEND": backend.chosen()}
    if args.language:
        environment["KERASSEQ_APP_LANGUAGE"] = args.language
    if args.deck is not None:
        environment[DECK] = os.path.abspath(args.deck)
    if args.prepare:
        _wait(subprocess.Popen([sys.executable, find(PREPARE)], env=environment))
        return
    _start(args, environment)


def check_deck(deck: str) -> None:
    """Reads a deck, and looks for the published models that it counts.

    Args:
        deck: The file.

    Raises:
        ValueError: If a field is wrong, or a model unknown; the message names it.
    """
    for example in kerasseq.datasets.slides(deck=deck):
        inputs = example.inputs
        for name in (*inputs.get("models", ()), inputs.get("model")):
            if name is not None and name not in architectures:
                raise ValueError(
                    f"{deck}, example {example.id}, inputs: expected a model of "
                    f"`kerasseq params`, received {checks.short(name)}."
                    f"{checks.nearest(name, architectures)}"
                )


def _start(args, environment):
    """Claims the folder and the port, and serves."""
    folder = kerasseq.datasets.cache_folder() / "app"
    folder = pathlib.Path(environment.setdefault(RUNS, str(folder)))
    address = f"http://{shown_host(args.host)}:{args.port}"
    with claimed(folder.expanduser(), address) as lock:
        check_port(args.host, args.port)
        _serve(args, address, environment, lock)


def _serve(args, address, environment, lock):
    """Starts the server, and waits until it ends."""
    console = Console()
    if not is_local(args.host):
        note(
            f"--host {args.host} lets every computer that reaches this one open the "
            "app, without a password: use its models, train, and fill its disk"
        )
    console.write(f"The app is at {address} (Ctrl-C ends it)")
    server = subprocess.Popen(
        command(args.host, args.port),
        env=environment,
        start_new_session=True,
        pass_fds=lock,
    )
    threading.Thread(
        target=_open_browser, args=(server, address, args.no_browser), daemon=True
    ).start()
    _wait(server)


@contextlib.contextmanager
def claimed(folder: pathlib.Path, address: str) -> Iterator[tuple[int, ...]]:
    """Holds the folder of the app for one server; another one is refused.

    Args:
        folder: The folder, which is made if it is missing.
        address: The address of the server.

    Yields:
        The file descriptors that the server inherits: the lock holds as long as it
        lives, even if this process is killed. None where a file has no such locks.

    Raises:
        ValueError: If another server uses the folder; the message has its address.
    """
    if os.name != "posix":
        yield ()
        return
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / CLAIM, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise ValueError(_in_use(folder, file.read())) from None
        file.truncate(0)
        json.dump({"address": address, "pid": os.getpid()}, file)
        file.flush()
        try:
            yield (file.fileno(),)
        finally:
            (folder / CLAIM).unlink(missing_ok=True)


def _in_use(folder, content):
    """Returns the message about a folder that another server uses."""
    try:
        claim = json.loads(content)
        where = f"at {claim['address']} (process {claim['pid']})"
    except (ValueError, KeyError, TypeError):  # it starts just now
        where = "on this computer"
    return (
        f"the app already runs {where}, with the same folder {folder}. Open that "
        f"address, or end that app; the variable {RUNS} names another folder"
    )


def find(name: str) -> str:
    """Returns the path of a script of the app: in the wheel, or in the repository.

    Raises:
        FileNotFoundError: If it is in neither.
    """
    package = pathlib.Path(kerasseq.__file__).parent
    for folder in (package / "apps", package.parent / "apps"):
        if (folder / name).is_file():
            return str(folder / name)
    raise FileNotFoundError(
        errno.ENOENT, "the app is not part of this installation", name
    )


def command(host: str, port: int) -> list[str]:
    """Returns the command that starts the server."""
    settings = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "server.showEmailPrompt": "false",
        "browser.gatherUsageStats": "false",
        "browser.serverAddress": shown_host(host),
        "logger.hideWelcomeMessage": "true",
    }
    words = [word for key, value in settings.items() for word in (f"--{key}", value)]
    return [sys.executable, "-m", "streamlit", "run", find(SCRIPT), *words]


def is_local(host: str) -> bool:
    """Returns whether only this computer reaches a server at this address.

    Examples:
        >>> is_local("localhost"), is_local("127.0.0.1"), is_local("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown_host(host: str) -> str:
    """Returns the host for an address that a browser on this computer opens.

    Examples:
        >>> shown_host("0.0.0.0"), shown_host("::1")
        ('127.0.0.1', '[::1]')
    """
    host = {"0.0.0.0": HOST, "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def check_port(host: str, port: int) -> None:
    """Raises an error if the server cannot use a port.

    Raises:
        ValueError: If the port is taken; the message names the next free one. If the
            host is not an address of this computer.
    """
    error = listen_error(host, port)
    if error is None:
        return
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        free = next(
            (p for p in range(max(port, 1023) + 1, 65536) if not listen_error(host, p)),
            None,
        )
        why = "in use" if error.errno == errno.EADDRINUSE else "reserved by the system"
        hint = f" The next free one is {free}: --port {free}" if free else ""
        raise ValueError(f"port {port} of {host} is {why}.{hint}")
    raise ValueError(
        f"--host must be an address of this computer, received {host} ({error})"
    )


def listen_error(host: str, port: int) -> OSError | None:
    """Returns the error of listening on a port, None if it works."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name == "posix":  # as the server does
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error
    return None


def _open_browser(server, address, no_browser):
    """Opens a browser once the server answers."""
    deadline = time.monotonic() + START
    while server.poll() is None and time.monotonic() < deadline:
        if _answers(address):
            break
        time.sleep(0.2)
    if server.poll() is None and not no_browser:
        webbrowser.open(address)


def _answers(address):
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
            return True
    except OSError:
        return False


def _wait(process):
    """Waits for a process, and ends it as Ctrl-C does when this one is ended."""
    try:
        with control.signals_handled():
            code = process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
        raise
    if code:
        raise RuntimeError(f"the app ended with exit code {code}")
