"""`kerasseq prepare`, and language models that train on its folder."""

import json

import numpy as np
import pytest

from kerasseq.cli import options, prepare
from kerasseq.datasets import TokenShards, prepare_shards
from kerasseq.datasets.shard_writing import draw
from kerasseq.text import BytePairTokenizer, CharacterTokenizer
from tests.cli.conftest import at_step

pytestmark = pytest.mark.once("the command line")

END = "<|endoftext|>"
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "it", "rained", "in", "Lyon"]
WORDS += ["and", "no", "dog"]
DOCUMENTS = [" ".join(WORDS[n % 7 : n % 5 + 8] * 3) for n in range(151)]
SMALL = ("--units", 4, "--sequence-length", 7, "--batch-size", 3, "--steps", 5)


@pytest.fixture
def articles(tmp_path):
    folder = tmp_path / "articles"
    folder.mkdir()
    lines = (json.dumps({"text": row}) + "\n" for row in DOCUMENTS[:100])
    (folder / "a.jsonl").write_text("".join(lines))
    (folder / "b.txt").write_text(END.join(DOCUMENTS[100:]))
    (folder / "notes.md").write_text("other")
    return folder


def test_prepare_and_train(command, articles, tmp_path):
    out = tmp_path / "ids"
    words = ("--vocabulary-size", 270, "--held-out", 0.1, "--processes", 1)
    words += ("--seed", 3)
    done = command("prepare", articles, "--out", out, *words)
    assert "1 other files or links of the folders are left out" in done.err
    assert "trained on" in done.err and "million a second" in done.err
    assert f"{END} ends a document" in done.out
    assert f"--data {out}" in done.out
    first = json.loads(command("prepare", articles, "--out", out, *words, "--json").out)
    counts = [first[part]["documents"] for part in ("training", "held_out")]
    assert sum(counts) == len(DOCUMENTS)
    assert counts[1] == sum(draw(3, n) < 0.1 for n in range(151)) > 3
    assert (
        "is finished: nothing" in command("prepare", articles, "--out", out, *words).err
    )
    before = {file: file.read_bytes() for file in out.iterdir()}
    more = ("--vocabulary-size", 271, *words[2:])
    message = command("prepare", articles, "--out", out, *more, code=2).err
    assert "vocabulary of 270 tokens, and nothing is tokenized again for" in message
    assert "Delete the folder or choose another --out" in message
    assert before == {file: file.read_bytes() for file in out.iterdir()}
    shards = TokenShards(out, sequence_length=7)
    assert first["training"]["tokens"] == len(shards.ids)
    assert first["vocabulary_size"] == shards.tokenizer.vocabulary_size

    train = ("train", "language-model", "--data", out, "--model", "gru", *SMALL)
    results = json.loads(command(*train, "--run", tmp_path / "r", "--json").out)
    assert results["bits_per_character"] > 0
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    assert record["data"]["source"] == "ids"
    assert record["data"]["tokens"] == len(shards.ids)
    apart = ("--documents-apart", "--run", tmp_path / "s", "--json")
    other = json.loads(command(*train, *apart).out)
    assert other["loss"] != results["loss"]
    text = command("generate", tmp_path / "r", "--prompt", "the", "--length", 5).out
    assert text.startswith("the")
    # Nothing but the folder is needed to resume, from anywhere.
    assert "is finished" in command("train", "--resume", tmp_path / "r").out


def test_a_tokenizer_of_a_file_and_nano_gpt(command, articles, tmp_path):
    tokenizer = BytePairTokenizer(290, special_tokens=(END,)).fit(DOCUMENTS)
    tokenizer.save(tmp_path / "mine.json")
    words = ("--tokenizer", tmp_path / "mine.json", "--held-out", 0.1)
    command("prepare", articles / "b.txt", "--out", tmp_path / "ids", *words)
    shards = TokenShards(tmp_path / "ids")
    assert shards.tokenizer == tokenizer
    nano = tmp_path / "nano"
    nano.mkdir()
    np.asarray(shards.ids).astype("<u2").tofile(nano / "train.bin")
    held_out = TokenShards(tmp_path / "ids", "held_out", sequence_length=1)
    np.asarray(held_out.ids).astype("<u2").tofile(nano / "val.bin")
    train = ("train", "language-model", "--model", "gru", *SMALL, "--json")
    both = []
    for name, more in (("ids", ()), ("nano", ("--tokenizer", tmp_path / "mine.json"))):
        run = ("--data", tmp_path / name, *more, "--run", tmp_path / f"run-{name}")
        both.append(json.loads(command(*train, *run).out))
    assert both[0]["loss"] == both[1]["loss"]
    assert both[0]["bits_per_character"] == both[1]["bits_per_character"]


def test_parts_of_the_folder(articles, tmp_path):
    tokenizer = CharacterTokenizer().fit(" ".join(WORDS))
    prepare_shards(articles / "b.txt", tokenizer, tmp_path / "ids", held_out=0.1)
    words = {"data": str(tmp_path / "ids"), "sequence_length": 7, "batch_size": 3}
    words |= {"documents_apart": True, "seed": 0, "held_out": 19}
    settings = options.Settings(**words, ngram_characters=23)
    shards, read = prepare.part_of(settings, "training"), []

    class Model:
        def answer_batches(self, rows, **words):
            read.append([each[0].tolist() for each in rows])
            return self

        def batch(self, number):
            return ()

    prepare.batches_apart(Model(), settings, [[0] * 13])
    assert [len(rows) for rows in read] == [13, len(shards) - 13]
    assert read[1] + read[0] == [each[0].tolist() for each in shards]
    held_out, last = prepare.texts(settings, shards)
    other = prepare.part_of(settings, "held_out")
    assert held_out == tokenizer.decode(np.asarray(other.ids[:19]))
    assert last == tokenizer.decode(np.asarray(shards.ids[-23:]))


def test_a_held_out_part_of_one_token(command, tmp_path):
    (tmp_path / "a.txt").write_text("the cat")
    words = ("--out", tmp_path / "ids", "--tokenizer", "character", "--json")
    found = json.loads(command("prepare", tmp_path / "a.txt", *words).out)
    assert found["held_out"] == {"tokens": 1, "documents": 1}
    assert found["training"]["tokens"] == 6


def test_documents_between_empty_lines(command, tmp_path):
    (tmp_path / "poems.txt").write_text("\n\n".join(DOCUMENTS[:7]))
    words = ("--tokenizer", "word", "--held-out", 0.1, "--separator", r"\n\n")
    done = command("prepare", "poems.txt", "--out", "ids", *words, "--json")
    found = json.loads(done.out)
    counts = [found[part]["documents"] for part in ("training", "held_out")]
    assert 7 <= sum(counts) <= 8  # the end of one may be held out


def test_sizes():
    words = ("7", "3b", "2kB", "50MB", "1.5 GB")
    assert [prepare.size(w) for w in words] == [7, 3, 2000, 50_000_000, 1_500_000_000]
    for word in ("", "MB", "-1", "0", "3 TB", "x"):
        with pytest.raises(Exception, match="expected a size such as 50MB"):
            prepare.size(word)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected files and a folder"),
        (["articles"], "expected files and a folder"),
        (["none.txt", "--out", "o"], 'no file "none.txt"'),
        (["articles/notes.md", "--out", "o"], "must end with .txt"),
        (["articles", "--out", "articles"], "not empty, and holds no shards"),
        (["articles", "--out", "o", "--tokenizer", "bpee"], 'Did you mean "bpe"?'),
        (["articles", "--out", "o", "--vocabulary-size", 10], "vocabulary"),
        (["articles", "--out", "o", "--train-on", "much"], "a size such as 50MB"),
        (["articles", "--out", "o", "--held-out", 2], "--held-out"),
        (["articles/a.jsonl", "--out", "o", "--column", "txt"], "has no column 'txt'"),
        (["articles/b.txt", "--out", "o", "--encoding", "utf-9"], "no text encoding"),
    ],
)
def test_wrong_arguments(words, message, command, articles, monkeypatch):
    monkeypatch.chdir(articles.parent)
    done = command("prepare", *words, code=2)
    assert message in done.err and "Traceback" not in done.err
    assert not (articles.parent / "o" / "index.json").exists()


def test_wrong_training(command, articles, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--tokenizer", "character", "--held-out", 0.1)
    command("prepare", articles, "--out", "ids", *words)
    train = ("train", "language-model", *SMALL, "--run", "r")
    (tmp_path / "nano").mkdir()
    (tmp_path / "nano" / "train.bin").write_bytes(b"abcd")
    for more, message in (
        (("--data", "idss"), "or give a folder of kerasseq prepare"),
        (("--data", "articles"), "has neither index.json of kerasseq prepare"),
        (("--data", "nano"), "Add the folder of the tokenizer"),
        (("--data", "nano", "--tokenizer", "bpe"), "Add the folder of the tokenizer"),
        (("--data", "nano", "--tokenizer", "gpt2"), "there is no folder gpt2"),
        (("--data", "ids", "--tokenizer", "bpe"), "cannot be chosen with --data ids"),
        (("--data", "ids", "--vocabulary-size", 5), "cannot be chosen with --data ids"),
        (("--data", "ids", "--text", articles / "b.txt"), "exclude each other"),
        (("--documents-apart",), "--documents-apart is for a folder"),
    ):
        done = command(*train, *more, code=2)
        assert message in done.err, done.err
        assert not (tmp_path / "r").exists()
    done = command("prepare", articles, "--out", "ids", "--tokenizer", "bpe", code=2)
    assert "shards of another tokenizer" in done.err
    (tmp_path / "ids" / "index.json").write_text("{}")
    done = command(*train, "--data", "ids", code=2)
    assert "is not an index of token shards" in done.err


def test_a_resumed_run_goes_on_at_the_same_batch(command, articles, tmp_path):
    words = ("--tokenizer", "character", "--held-out", 0.1)
    command("prepare", articles, "--out", tmp_path / "ids", *words)
    train = ("train", "language-model", "--data", tmp_path / "ids", *SMALL)
    train += ("--checkpoint-every", 2, "--documents-apart", "--json", "--run")
    whole = json.loads(command(*train, "whole").out)
    with at_step(3):
        command(*train, "stopped", code=130)
    found = json.loads(command("train", "--resume", "stopped", "--json").out)
    for name in ("loss", "bits_per_character", "validation_loss"):
        assert found[name] == pytest.approx(whole[name], rel=1e-6)
    (tmp_path / "whole" / "results.json").unlink()
    (tmp_path / "ids").rename(tmp_path / "away")
    for words in (
        ("--resume", "whole"),
        ("language-model", "--data", tmp_path / "ids"),
    ):
        assert "there is no folder" in command("train", *words, code=2).err
