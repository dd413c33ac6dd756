"""`kerasseq tokenize`, and language models with several tokenizers."""

import json

import pytest

from kerasseq.cli import options, text_models
from kerasseq.text import load_tokenizer
from tests.cli.conftest import RUN

pytestmark = pytest.mark.once("the command line")


def test_names_equal_those_of_the_classes():
    assert tuple(text_models.TOKENIZERS) == options.TOKENIZERS


@pytest.mark.parametrize("name", options.TOKENIZERS)
def test_every_tokenizer(name, command, text_path):
    words = ("--tokenizer", name, "--corpus", text_path, "--vocabulary-size", 300)
    done = command("tokenize", "gate model", *words)
    line, summary = done.out.splitlines()[:2]
    assert line.replace("|", "").replace(" ", "") == "gatemodel"
    assert " tokens, " in summary and f"{name} trained on words.txt" in summary
    found = json.loads(command("tokenize", "gate model", *words, "--json").out)
    assert len(found["ids"]) == len(found["tokens"]) == len(found["offsets"])
    assert found["vocabulary_size"] <= 300


def test_table_and_merges(command, text_path):
    words = ("--corpus", text_path, "--vocabulary-size", 270, "--table", "--merges")
    done = command("tokenize", "a gate", *words)
    assert "' '" in done.out and "1-" in done.out
    assert "The first 14 of 14 merges" in done.out
    done = command("tokenize", "a", "--tokenizer", "character", "--merges")
    assert "no merges" in done.err


def test_saved_tokenizer_is_loaded(command, text_path, tmp_path):
    file = tmp_path / "mine.json"
    first = command("tokenize", "gate", "--corpus", text_path, "--save", file)
    assert f"saved in {file}" in first.out
    assert load_tokenizer(file).decode(load_tokenizer(file).encode("é")) == "é"
    again = command("tokenize", "gate", "--tokenizer", file)
    assert again.out.splitlines()[0] == first.out.splitlines()[0]
    assert f"{file} as loaded" in again.out


def test_unknown_characters_are_reported(command, text_path):
    words = ("--tokenizer", "character", "--corpus", text_path)
    assert "2 of the 6 characters" in command("tokenize", "gateXX", *words).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected a text"),
        (["x", "--tokenizer", "bpee"], 'Did you mean "bpe"?'),
        (["x", "--vocabulary-size", 10], "received --vocabulary-size 10"),
        (["x", "--corpus", "empty.txt"], "empty.txt is empty"),
        (["x", "--corpus", "latin.txt"], "latin.txt is not utf-8"),
        (["x", "--tokenizer", "broken.json"], "broken.json is damaged"),
        (["--file", "nothing.txt"], "nothing.txt"),
    ],
)
def test_wrong_arguments(words, message, refused, tmp_path):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "broken.json").write_text("{")
    assert message in refused("tokenize", *words)


def test_language_model_with_byte_pairs(command, refused, text_path, tmp_path):
    run = tmp_path / "run"
    words = ("--tokenizer", "bpe", "--vocabulary-size", 280, "--run", run, "--json")
    done = command("train", "language-model", "--text", text_path, *RUN, *words)
    results = json.loads(done.out)
    import kerasseq

    model = kerasseq.load_model(run / "model.keras")
    text = text_path.read_text(encoding="utf-8")
    held_out = text[len(text) - len(text) // 10 :]
    ids, _, offsets = model.tokenizer.encode_with_offsets(held_out)
    characters = len(held_out) - offsets[0, 1]
    assert results["held_out_characters"] == characters
    bits = model.bits_per_token(held_out) * (len(ids) - 1)
    assert results["bits_per_character"] == pytest.approx(bits / characters, abs=1e-5)
    gain = min(results["bits_per_character_of_ngrams"].values()) - bits / characters
    assert results["verdict"]["mean"] == pytest.approx(gain, abs=1e-5)
    # Of letters of two bytes, of which a first one is two tokens.
    accents = "éàüßñ" * 5 + "ô" + "éàüßñ" * 33
    (tmp_path / "accents.txt").write_text(accents, encoding="utf-8")
    words = ("--tokenizer", "bpe", "--vocabulary-size", 257, "--steps", 1, "--json")
    done = command("train", "language-model", "--text", "accents.txt", *words)
    found = json.loads(done.out)
    gain = min(found["bits_per_character_of_ngrams"].values())
    gain -= found["bits_per_character"]
    assert found["verdict"]["mean"] == pytest.approx(gain, abs=1e-5)
    written = command("generate", run, "--prompt", "gate é", "--length", 5).out
    assert written.startswith("gate é") and len(written) > len("gate é\n")
    assert command("generate", run, "--length", 5).out
    unknown = refused("train", "language-model", "--tokenizer", "words")
    assert 'Did you mean "word"?' in unknown
