"""`kerasseq app`: ports, hosts, what is missing, and an end without traces."""

import functools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import kerasseq
from kerasseq.cli import app
from kerasseq.cli.main import main
from tests.browser.server import free_port
from tests.processes import ROOT, clean_environment

pytestmark = pytest.mark.once("options, sockets and processes")


def test_a_taken_port_names_the_next_free_one(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["app", "--port", str(port), "--no-browser"]) == 2
    message = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 is in use" in message
    free = int(message.rpartition("--port ")[2])
    assert free > port
    app.check_port("127.0.0.1", free)


def test_a_host_of_another_computer(capsys):
    assert main(["app", "--host", "203.0.113.1", "--no-browser"]) == 2
    assert "--host must be an address of this computer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--port", "0"], ["--port", "65536"], ["--language", "de"], ["--x"]]
)
def test_wrong_options(words, capsys):
    assert main(["app", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_streamlit(monkeypatch, capsys):
    found = app.packages.is_installed
    monkeypatch.setattr(
        app.packages, "is_installed", lambda n: n != "streamlit" and found(n)
    )
    assert main(["app"]) == 2
    assert "pip install streamlit altair scikit-learn" in capsys.readouterr().err


def test_the_scripts_are_found():
    for name in (app.SCRIPT, app.PREPARE):
        assert pathlib.Path(app.find(name)).is_file()
    with pytest.raises(FileNotFoundError, match="not part of this installation"):
        app.find("nothing.py")


def test_the_command_of_the_server():
    words = app.command("0.0.0.0", 8502)
    options = dict(zip(words[5::2], words[6::2], strict=True))
    assert options["--browser.gatherUsageStats"] == "false"
    assert options["--server.address"] == "0.0.0.0"
    assert options["--browser.serverAddress"] == "127.0.0.1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_the_server_answers_and_ends_with_ctrl_c_or_its_terminal(number, tmp_path):
    pytest.importorskip("streamlit")
    port = free_port()
    words = ["-m", "kerasseq", "app", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *words],
        env=clean_environment({"KERASSEQ_APP_RUNS": str(tmp_path)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        # As in a background process, which Ctrl-C has to end as well.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
    )
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 180
        while not app._answers(address) and time.monotonic() < deadline:
            time.sleep(0.1)
        with urllib.request.urlopen(address) as page:
            assert page.status == 200
        said = f"already runs at {address} \\(process {process.pid}\\)"
        with pytest.raises(ValueError, match=said), app.claimed(tmp_path, "another"):
            pass
    finally:
        process.send_signal(number)
        printed = process.communicate(timeout=180)[0]
    assert process.returncode == 130
    assert f"The app is at {address}" in printed
    assert "Traceback" not in printed
    assert not app._answers(address)
    assert os.listdir(tmp_path) == []


PREPARING = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
from parts import prepared, runs
words = [sys.executable, "-m", "tests.apps.stub"]
runs.command = lambda request, folder: [*words, str(folder), "10000", "0.05"]
recipe = prepared.Recipe("toy", "start", ("parentheses",))
prepared.recipes = lambda: {"toy": recipe}
runpy.run_path(sys.argv[1] + "/prepare.py", run_name="__main__")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_preparing_ends_with_its_trainings(number, tmp_path):
    pytest.importorskip("streamlit")
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARING, str(ROOT / "apps")],
        env=clean_environment({"KERASSEQ_APP_RUNS": str(tmp_path)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def found():
        files = tmp_path.glob("runs/everybody/*/progress.jsonl")
        return [kerasseq.runs.read_state(file.parent) for file in files]

    deadline = time.monotonic() + 120
    while not found() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(60) == 130
    assert [run.state for run in found()] == ["stopped"]


def test_the_app_is_in_the_wheel():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"apps": "kerasseq/apps"}


def test_a_wrong_deck(tmp_path, capsys):
    deck = tmp_path / "deck.toml"
    assert main(["app", "--deck", str(deck), "--no-browser"]) == 2
    assert "deck.toml" in capsys.readouterr().err
    deck.write_text('[[examples]]\nid = "F:1"\ntitle = "a"\nlabb = "tokens"')
    assert main(["app", "--deck", str(deck), "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "there is no field `labb`" in said
    assert f"{deck}, example 1" in said


def test_a_deck_with_an_unknown_model(tmp_path, capsys):
    deck = tmp_path / "deck.toml"
    text = '[[examples]]\nid = "F:1"\ntitle = "a"\nkind = "counts"\nlab = "count"\n'
    recipe = 'recipe = "count"\ninputs = {model = "gpt33"}'
    deck.write_text(text + recipe)
    assert main(["app", "--deck", str(deck), "--no-browser"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "deck.toml, example F:1" in said and 'Did you mean "gpt3"?' in said
