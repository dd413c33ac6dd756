"""Large inputs: bounds, status messages and memory."""

import json
import os
import time
import tracemalloc

import numpy as np
import pytest

from kerasseq.cli import console, errors, language_model, text_models, tokenize
from kerasseq.cli.console import MAX_LINE
from tests.cli.conftest import TINY, snapshot

pytestmark = pytest.mark.once("the command line")

TRAIN = ["train", "language-model", *TINY, "--model", "elman", "--steps", "1"]


def test_a_large_text_takes_at_most_12_bytes_a_character(
    command, tmp_path, monkeypatch
):
    """The text is kept once, with an int32 per character."""
    # The validation is of one length for all large texts, and would take most time.
    monkeypatch.setattr(language_model, "MAX_VALIDATION", 1000)
    size = 2_000_000
    (tmp_path / "a.txt").write_text("to be or not to be" * (size // 18))
    words = ["--held-out", "1000", "--ngram-characters", "1000", "--run", "r"]
    command(
        *TRAIN, "--text", "a.txt", "--held-out", "9", "--ngram-characters", "9"
    )  # imports
    tracemalloc.start()
    try:
        command(*TRAIN, "--text", "a.txt", *words)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * size


def test_held_out_and_ngram_characters_are_bounded(command, text_path):
    words = [*TRAIN, "--text", text_path, "--json"]
    done = command(*words, "--held-out", "50", "--ngram-characters", "100")
    assert json.loads(done.out)["held_out_characters"] == 49
    assert (
        "the last 50 characters are held out, less than a tenth (--held-out); the "
        "n-gram models are fitted to the 100 before them (--ngram-characters)."
    ) in done.err
    done = command(*words)
    assert "are held out." in done.err


def test_tokenizer_is_trained_on_a_bounded_part(monkeypatch, capsys):
    monkeypatch.setattr(text_models, "MAX_TRAINING", 30)
    made = text_models.tokenizer_by_name("word", 100, "to be or not " * 3 + "that is")
    assert "on the first 30 of the 46 characters" in capsys.readouterr().err
    assert "be" in made.vocabulary and "that" not in made.vocabulary
    assert (
        len(text_models.tokenizer_by_name("character", 100, "ab" * 50).characters) == 2
    )


@pytest.mark.parametrize("name", ["character", "bpe", "word"])
def test_text_is_tokenized_in_parts(monkeypatch, name, text_path):
    text = text_path.read_text(encoding="utf-8")
    tokenizer = text_models.tokenizer_by_name(name, 300, text)
    monkeypatch.setattr(tokenize, "PART", 200)
    assert tokenize.encode(tokenizer, text).tolist() == (
        np.concatenate([tokenizer.encode(s) for s in text.splitlines(True)]).tolist()
    )
    assert len(tokenize.encode(tokenizer, "é" * 900)) >= 900 / 300
    assert not len(tokenize.encode(tokenizer, ""))


def test_status_messages(monkeypatch, capsys):
    """A long wait has a line, a large input at once, and a short wait none."""
    with console.status("thinking"):
        pass
    assert capsys.readouterr().err == ""
    with console.status("thinking", console.LARGE):
        time.sleep(0.1)
    monkeypatch.setattr(console, "FIRST_MESSAGE", 0.01)
    with pytest.raises(KeyboardInterrupt), console.status("waiting"):
        time.sleep(0.2)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "kerasseq: thinking …\nkerasseq: waiting …\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with console.status("[thinking]"):
        time.sleep(0.2)
    assert "[thinking] …" in capsys.readouterr().err


def test_ctrl_c_while_a_status_is_shown(command, monkeypatch, text_path):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("kerasseq.cli.language_model.compare", stop)
    words = [*TRAIN, "--text", text_path, "--run", "r"]
    done = command(*words, code=130)
    assert "kerasseq train --resume r" in done.err and "stopped" in done.err
    monkeypatch.undo()


@pytest.mark.parametrize(
    "words",
    [
        ["train", "language-model", "--text", "pipe"],
        ["train", "translation", "--pairs", "pipe"],
        ["tokenize", "x", "--corpus", "pipe"],
        ["tokenize", "--file", "pipe"],
        ["tokenize", "x", "--tokenizer", "pipe"],
        ["tokenize", "x", "--save", "pipe"],
        ["eliza", "--rules", "pipe"],
        ["arena", "one", "two", "--prompts", "pipe"],
    ],
)
def test_files_without_end(refused, tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in refused(*words)
    line = refused(*[word.replace("pipe", "/dev/zero") for word in words])
    assert "/dev/zero" in line


def test_more_units_than_memory(refused, text_path, tmp_path):
    words = ["train", "language-model", "--text", text_path, "--units", "1000000"]
    line = refused(*words)
    assert "--units 1,000,000" in line and "this machine has" in line
    line = refused(*words[:-1], "10000000000000")
    assert (
        "argument --units/--hidden-size: expected an integer of at most 1,048,576"
        in line
    )
    line = refused(*words[:-2], "--units", "4000", "--num-layers", "1000")
    assert "--num-layers 1,000" in line and "GiB or more; this machine has" in line
    assert not snapshot(tmp_path)


def test_a_batch_of_more_than_there_is(command, text_path, tmp_path):
    words = ["train", "language-model", "--text", text_path, "--model", "gru"]
    words += ["--dry-run", "--run", tmp_path / "r", "--batch-size", 10**9]
    noted = command(*words).err
    assert "fewer than --batch-size 1,000,000,000: each epoch is one step" in noted


def test_out_of_memory_of_a_backend(refused, monkeypatch):
    def full(*args):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: 4e18 bytes")

    monkeypatch.setattr("kerasseq.datasets.sample", full)
    assert "not enough memory" in refused("data", "ar")
    assert errors.is_out_of_memory(MemoryError())
    assert not errors.is_out_of_memory(KeyError("a"))


def test_long_words_are_truncated(command, refused, tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be " * 9)
    words = ["tokenize", "a" * 5000, "--tokenizer", "word", "--corpus", "a.txt"]
    assert len(command(*words).err) < 300
    for words in (["a" * 5000], ["data", "a" * 5000], ["data", "--" + "a" * 5000]):
        assert len(refused(*words)) < 1000


def test_line_without_end(refused, monkeypatch, tmp_path):
    (tmp_path / "a.txt").write_text("a" * (MAX_LINE + 5))
    with open(tmp_path / "a.txt") as opened:
        monkeypatch.setattr("sys.stdin", opened)
        assert "received more in line 1" in refused("eliza")


def test_wrong_option_without_a_command(refused):
    assert "kerasseq: unrecognized argument --nope" in refused("--nope")
    assert "Did you mean" in refused("--versoin")


def test_save_overwrites_only_tokenizers_of_kerasseq(
    command, refused, tmp_path, text_path
):
    others = {
        "thesis.tex": b"x",
        "tokenizer.json": b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
        "ngrams.json": b'{"format": "kerasseq.NGramModel"}',
        "empty": b"",
    }
    words = ["tokenize", "gate", "--corpus", text_path, "--save"]
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
        line = refused(*words, name)
        assert name in line and "not overwritten. Choose another file" in line
    (tmp_path / "folder").mkdir()
    assert "folder" in refused(*words, "folder")
    assert snapshot(tmp_path) == others
    command(*words, "mine.json")
    command(*words, "mine.json", "--tokenizer", "character")
    assert b"CharacterTokenizer" in (tmp_path / "mine.json").read_bytes()
