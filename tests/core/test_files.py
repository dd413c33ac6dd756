"""Temporary files of processes that were killed."""

import os
import subprocess
import sys

import pytest

from kerasseq.core.files import replacing
from kerasseq.datasets import digits_folder
from kerasseq.pretrained.folders import new_folder

pytestmark = pytest.mark.once("no backend is asked")


@pytest.fixture
def killed():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def write_file(path):
    with replacing(path) as temporary:
        temporary.write_text("new")


def write_folder(path):
    with new_folder(path) as temporary:
        (temporary / "config.json").write_text("{}")


def write_images(path):
    digits_folder(path, count=1)


@pytest.mark.parametrize("write", [write_file, write_folder, write_images])
@pytest.mark.parametrize("name", ["model.keras", "a-b[1]"])
def test_what_a_killed_process_left_is_deleted(tmp_path, killed, write, name):
    left = tmp_path / f".part-{killed}-{name}"
    if write is write_file:
        left.write_text("half")
    else:
        (left / "0").mkdir(parents=True)
    own = tmp_path / f".part-{os.getpid()}-{name}"  # numbers come again
    if write is not write_file:
        own.mkdir()
    kept = [f".part-{os.getppid()}-{name}", ".part-x-" + name, f".part-{killed}-other"]
    for each in kept:
        (tmp_path / each).write_text("of another")
    write(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, name])
