"""A server of the app in a process of its own, and a headless browser."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

from tests.processes import clean_environment

ROOT = pathlib.Path(__file__).parent.parent.parent
DEBIAN = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port():
    """Returns a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(folder, script=None, **environment):
    """Starts the app with its files in `folder`, and yields its address.

    `script` starts another Streamlit script instead, to compare with.
    """
    port = free_port()
    words = ["kerasseq", "app", "--port", str(port), "--no-browser"]
    if script is not None:
        words = ["streamlit", "run", str(script), "--server.port", str(port)]
        words += ["--server.headless", "true", "--server.address", "127.0.0.1"]
        words += ["--browser.gatherUsageStats", "false"]
    defaults = {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}
    defaults["KERASSEQ_APP_RUNS"] = str(folder)
    with open(pathlib.Path(folder, "server.log"), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env=clean_environment(defaults | environment),
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _wait(process, address):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def launch(playwright):
    """Starts Debian's Chromium, or else the browser of playwright."""
    if os.path.exists(DEBIAN):
        return playwright.chromium.launch(executable_path=DEBIAN, args=ARGUMENTS)
    return playwright.chromium.launch(args=ARGUMENTS)
