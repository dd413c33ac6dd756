"""Inputs a hundred times as large as the examples: bounds, progress, memory."""

import json
import os
import time
import tracemalloc

import numpy as np
import pytest

from kerasseq.cli import capacity, errors, tokenizing, waiting
from kerasseq.cli.eliza import LONGEST
from tests.cli.conftest import TINY, snapshot

pytestmark = pytest.mark.once("the command line")

TRAIN = ["train", "language-model", *TINY, "--model", "elman", "--steps", "1"]


def test_a_large_text_takes_at_most_12_bytes_a_character(command, tmp_path):
    """The text once, an id each, and parts: not the text three times and int64s."""
    size = 4_000_000
    (tmp_path / "a.txt").write_text("to be or not to be" * (size // 18))
    words = ["--held-out", "1000", "--counted", "1000", "--run", "r"]
    command(*TRAIN, "--text", "a.txt", "--held-out", "9", "--counted", "9")  # imports
    tracemalloc.start()
    try:
        command(*TRAIN, "--text", "a.txt", *words)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * size


def test_what_is_held_out_and_counted_is_bounded_and_said_so(command, text_path):
    words = [*TRAIN, "--text", text_path, "--json"]
    done = command(*words, "--held-out", "50", "--counted", "100")
    assert json.loads(done.out)["held_out_characters"] == 49
    assert (
        "the last 50 are held out, less than a tenth (--held-out), the models that "
        "count learn from the 100 before them (--counted)." in done.err
    )
    done = command(*words)
    assert "are held out." in done.err  # all of it: nothing to be said


def test_a_tokenizer_learns_from_a_bounded_part(monkeypatch, capsys):
    monkeypatch.setattr(tokenizing, "LEARNED", 30)
    made = tokenizing.make("word", 100, "to be or not " * 3 + "that is")
    assert "from the first 30 of the 46 characters" in capsys.readouterr().err
    assert "be" in made.vocabulary and "that" not in made.vocabulary
    assert len(tokenizing.make("character", 100, "ab" * 50).characters) == 2


@pytest.mark.parametrize("name", ["character", "bpe", "word"])
def test_a_text_is_tokenized_in_parts_that_end_with_lines(monkeypatch, name, text_path):
    text = text_path.read_text(encoding="utf-8")
    tokenizer = tokenizing.make(name, 300, text)
    monkeypatch.setattr(tokenizing, "PART", 200)
    assert tokenizing.encode(tokenizer, text).tolist() == (
        np.concatenate([tokenizer.encode(s) for s in text.splitlines(True)]).tolist()
    )
    assert len(tokenizing.encode(tokenizer, "é" * 900)) >= 900 / 300
    assert not len(tokenizing.encode(tokenizer, ""))


def test_a_wait_is_shown(monkeypatch, capsys):
    """A line after a while, at once for a large input, and none for a short wait."""
    with waiting.waiting("thinking"):
        pass
    assert capsys.readouterr().err == ""
    with waiting.waiting("thinking", waiting.LARGE):
        time.sleep(0.1)
    monkeypatch.setattr(waiting, "SILENT", 0.01)
    with pytest.raises(KeyboardInterrupt), waiting.waiting("waiting"):
        time.sleep(0.2)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "kerasseq: thinking …\nkerasseq: waiting …\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with waiting.waiting("[thinking]"):
        time.sleep(0.2)
    assert "[thinking] …" in capsys.readouterr().err


def test_ctrl_c_in_a_wait_ends_cleanly(command, monkeypatch, text_path):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("kerasseq.cli.language.compare", stop)
    words = [*TRAIN, "--text", text_path, "--run", "r"]
    done = command(*words, code=130)
    assert "kerasseq train --resume r" in done.err and "stopped" in done.err
    monkeypatch.undo()


@pytest.mark.parametrize(
    "words",
    [
        ["train", "language-model", "--text", "pipe"],
        ["train", "translation", "--pairs", "pipe"],
        ["tokens", "x", "--corpus", "pipe"],
        ["tokens", "--file", "pipe"],
        ["tokens", "x", "--tokenizer", "pipe"],
        ["tokens", "x", "--save", "pipe"],
        ["eliza", "--rules", "pipe"],
    ],
)
def test_a_file_that_never_ends_is_refused(refused, tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in refused(*words)
    line = refused(*[word.replace("pipe", "/dev/zero") for word in words])
    assert "/dev/zero" in line


def test_more_units_than_memory(refused, text_path, tmp_path):
    words = ["train", "language-model", "--text", text_path, "--units", "1000000"]
    line = refused(*words)
    assert "--units 1,000,000" in line and "this machine has" in line
    line = refused(*words[:-1], "10000000000000")
    assert "argument --units: must be at most 1,048,576" in line
    line = refused(*words[:-2], "--units", "4000", "--layers", "1000")
    assert "--layers 1,000" in line and "this machine has" in line
    assert not snapshot(tmp_path)


def test_what_a_backend_says_of_memory_is_one_line(refused, monkeypatch):
    def full(*args):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: 4e18 bytes")

    monkeypatch.setattr("kerasseq.datasets.sample", full)
    assert "there is not enough memory" in refused("data", "ar")
    monkeypatch.setattr(capacity, "memory", lambda: None)  # where no one can tell
    assert errors.is_memory(MemoryError()) and not errors.is_memory(KeyError("a"))


def test_an_unknown_word_of_5000_letters_is_cut(command, refused, tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be " * 9)
    words = ["tokens", "a" * 5000, "--tokenizer", "word", "--corpus", "a.txt"]
    assert len(command(*words).err) < 300
    for words in (["a" * 5000], ["data", "a" * 5000], ["data", "--" + "a" * 5000]):
        assert len(refused(*words)) < 1000


def test_a_line_without_end_is_refused(refused, monkeypatch, tmp_path):
    (tmp_path / "a.txt").write_text("a" * (LONGEST + 5))
    with open(tmp_path / "a.txt") as opened:
        monkeypatch.setattr("sys.stdin", opened)
        assert "line 1 of what you say must have at most" in refused("eliza")


def test_the_command_alone_with_a_wrong_option(refused):
    assert "kerasseq does not know --nope" in refused("--nope")
    assert "Did you mean" in refused("--versoin")


def test_saving_a_tokenizer_overwrites_nothing_but_tokenizers_of_ours(
    command, refused, tmp_path, text_path
):
    others = {
        "thesis.tex": b"x",
        "tokenizer.json": b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
        "ngrams.json": b'{"format": "kerasseq.NGramModel"}',
        "empty": b"",
    }
    words = ["tokens", "gate", "--corpus", text_path, "--save"]
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
        line = refused(*words, name)
        assert name in line and "not overwritten. Name another file" in line
    (tmp_path / "folder").mkdir()
    assert "folder" in refused(*words, "folder")
    assert snapshot(tmp_path) == others
    command(*words, "mine.json")
    command(*words, "mine.json", "--tokenizer", "character")
    assert b"CharacterTokenizer" in (tmp_path / "mine.json").read_bytes()
