import contextlib
import json
import random
import re
from types import SimpleNamespace

import pytest

from kerasseq.cli import main

TINY = ["--units", "5", "--sequence-length", "7", "--batch-size", "3"]
RUN = [*TINY, "--steps", "25", "--checkpoint-every", "10", "--seed", "3"]


@contextlib.contextmanager
def at_step(step, act=None):
    """Until the block ends, a run is interrupted after a training step.

    Args:
        step: Which one.
        act: What to call instead of raising KeyboardInterrupt.
    """
    from kerasseq.cli.fitting import Progress

    before = Progress.on_train_batch_end

    def after(self, batch, logs=None):
        before(self, batch, logs)
        if self.done == step:
            if act is None:
                raise KeyboardInterrupt
            act()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "on_train_batch_end", after)
        yield


@pytest.fixture(scope="session")
def text_path(tmp_path_factory):
    """A file with some kB of text whose characters are predictable to a degree."""
    rng = random.Random(0)
    words = ["seq", "model", "gate", "state", "[bold]", "time", "loss", "é"]
    lines = (" ".join(rng.choices(words, k=7)) for _ in range(80))
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _no_figures(request, monkeypatch):
    """Draws no figures, which takes seconds, unless a test uses `drawn`."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("kerasseq.cli.figures.available", lambda: False)


@pytest.fixture
def drawn():
    """Lets a test draw figures."""


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        found = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert found == code, (found, out, err)
        return SimpleNamespace(out=out, err=without_status(err))

    return run


@pytest.fixture
def refused(command):
    """Runs the command, and expects exit code 2 and an error of one line."""

    def run(*words):
        done = command(*words, code=2)
        lines = done.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("kerasseq: error: "), done.err
        assert "Traceback" not in done.err
        return lines[0]

    return run


@pytest.fixture(scope="session")
def trained(text_path, tmp_path_factory):
    """A finished run and its results, for tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    words = ["train", "language-model", "--text", text_path, "--run", folder, *RUN]
    # With figures: fixtures of a session come before those of a test.
    assert main([str(word) for word in words]) == 0
    return folder, json.loads((folder / "results.json").read_text())


def without_status(err):
    """Removes the status messages from stderr."""
    status = re.compile(r"kerasseq: (?!error: ).* …\n")
    return "".join(s for s in err.splitlines(True) if not status.fullmatch(s))


def snapshot(folder):
    """Returns every file in a folder with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def at_prompt(monkeypatch):
    """Types an answer to each prompt of a terminal; an exception is raised there."""

    def run(*typed):
        answers = iter(typed)

        def answer(prompt):
            assert prompt == "> "
            found = next(answers)
            if isinstance(found, BaseException):
                raise found
            return found

        monkeypatch.setattr("builtins.input", answer)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        return answers

    return run
