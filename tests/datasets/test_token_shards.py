"""Ids of texts larger than memory: files, documents, resumption, blocks."""

import gzip
import json
import os
import pathlib
import pickle
import random
import signal

import numpy as np
import pytest

from kerasseq import text
from kerasseq.datasets import TokenShards, documents, prepare_shards, shard_writing
from kerasseq.datasets.joined_ids import JoinedIds
from kerasseq.text import BytePairTokenizer, CharacterTokenizer

pytestmark = pytest.mark.once("no tensors")

END = "<|endoftext|>"
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "it", "rained", "in", "Lyon"]
WORDS += ["and", "no", "dog"]
DOCUMENTS = [
    " ".join(random.Random(n).choices(WORDS, k=n % 37 + 1)) + "." * (n % 3)
    for n in range(101)
]


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer(295, special_tokens=(END,)).fit(" ".join(DOCUMENTS))


def write(folder, name, rows=None):
    """Writes the documents as one of the formats; returns the path."""
    rows, path = DOCUMENTS if rows is None else rows, folder / name
    lines = "".join(json.dumps({"n": 1, "text": row}) + "\n" for row in rows)
    content = lines if ".jsonl" in name else END.join(rows)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(content)
    return path


def ids_of(tokenizer, rows):
    return [[*tokenizer.encode(row).tolist(), tokenizer.id_of(END)] for row in rows]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz"])
def test_ids_are_those_of_the_documents(name, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "READ", 101)  # characters and lines are split
    file = write(tmp_path, name)
    shards = prepare_shards(file, tokenizer, tmp_path / "o", held_out=0)
    wanted = ids_of(tokenizer, DOCUMENTS)
    assert np.asarray(shards.ids).tolist() == sum(wanted, [])
    assert shards.ends.tolist() == np.cumsum([len(row) for row in wanted]).tolist()
    assert shards.tokenizer == tokenizer
    assert shards.sequence_length == 64 and len(shards[0][0]) == 64


def test_parquet_and_folders(tokenizer, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    frame = pandas.DataFrame({"body": [*DOCUMENTS[:7], None, "  "]})
    frame.to_parquet(folder / "b.parquet")
    (folder / "readme.md").write_text("not read")
    write(folder / "sub", "c.txt", DOCUMENTS[7:9])
    files, others = documents.find_files([folder])
    assert [file.name for file in files] == ["b.parquet", "c.txt"] and others == 1
    shards = prepare_shards(
        folder, tokenizer, tmp_path / "o", column="body", held_out=0
    )
    wanted = ids_of(tokenizer, DOCUMENTS[:9])
    assert np.asarray(shards.ids).tolist() == sum(wanted, [])
    with pytest.raises(ValueError, match="no column 'text'.*It has body"):
        prepare_shards(folder, tokenizer, tmp_path / "p")


@pytest.mark.parametrize(
    "name",
    ["CharacterTokenizer", "WordTokenizer", "BytePairTokenizer", "WordPieceTokenizer"],
)
def test_a_long_text_is_cut_where_its_tokens_stay_the_same(name, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 211)
    monkeypatch.setattr(documents, "READ", 307)
    lines = "\n".join(DOCUMENTS) + "\n\n  two\n\tempty\n" + " ".join(DOCUMENTS)
    tokenizer = getattr(text, name)().fit(lines)
    (tmp_path / "a.txt").write_text(lines)
    pieces = [p for p, _ in documents.Source((tmp_path / "a.txt",)).pieces()]
    assert len(pieces) > 20 and "".join(p.text for p in pieces) == lines
    assert [p.is_end for p in pieces] == [False] * (len(pieces) - 1) + [True]
    shards = prepare_shards(tmp_path / "a.txt", tokenizer, tmp_path / "o", held_out=0)
    ids = np.asarray(shards.ids)[: -1 if shard_writing.end_token(tokenizer) else None]
    assert ids.tolist() == tokenizer.encode(lines).tolist()


def test_a_file_without_lines_or_spaces_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 50)
    monkeypatch.setattr(documents, "READ", 31)
    (tmp_path / "a.txt").write_text("x" * 1009)
    pieces = [p for p, _ in documents.Source((tmp_path / "a.txt",)).pieces()]
    assert max(len(p.text) for p in pieces) <= 100
    assert "".join(p.text for p in pieces) == "x" * 1009


@pytest.mark.parametrize("end", ["", "  \n"])
def test_a_document_ends_where_no_place_to_cut_was_found(end, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 10)
    (tmp_path / "a.txt").write_text("x" * 20 + end + END + "\nthe cat")
    pieces = [p for p, _ in documents.Source((tmp_path / "a.txt",)).pieces()]
    assert [p.text for p in pieces if p.is_end] == [pieces[-2].text, "the cat"]
    assert "".join(p.text for p in pieces) == "x" * 20 + end + "the cat"


def test_what_is_hidden_is_not_read(tmp_path):
    for name in ("a.txt", "sub/b.txt", ".git/c.txt", "sub/.copies/d.txt", ".e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found, others = documents.find_files([tmp_path])
    assert [file.name for file in found] == ["a.txt", "b.txt"] and not others


def test_line_ends_and_marks_of_bytes(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\rthree".encode())
    (tmp_path / "b.txt").write_bytes("é\r\nè".encode("utf-16"))
    read = documents.Source((tmp_path / "a.txt",)).pieces()
    assert [p.text for p, _ in read] == ["one\ntwo\nthree"]
    read = documents.Source((tmp_path / "b.txt",), encoding="utf-16").pieces()
    assert [p.text for p, _ in read] == ["é\nè"]


def test_documents_are_held_out_by_a_draw_of_each(tokenizer, tmp_path):
    file = write(tmp_path, "a.jsonl")
    prepare_shards(file, tokenizer, tmp_path / "o", held_out=0.2, seed=3)
    rows = ids_of(tokenizer, DOCUMENTS)
    drawn = [shard_writing.draw(3, n) < 0.2 for n in range(len(rows))]
    assert 10 < sum(drawn) < 31
    for part, is_held_out in (("training", False), ("held_out", True)):
        shards = TokenShards(tmp_path / "o", part)
        wanted = [row for row, d in zip(rows, drawn, strict=True) if d == is_held_out]
        assert np.asarray(shards.ids).tolist() == sum(wanted, [])
        assert len(shards.ends) == len(wanted)


def test_the_seed_decides_what_is_held_out():
    drawn = np.array(
        [[shard_writing.draw(s, n) < 0.3 for n in range(997)] for s in (1, 2)]
    )
    assert (abs(drawn.mean(axis=1) - 0.3) < 0.05).all()
    assert 0.35 < (drawn[0] != drawn[1]).mean() < 0.49  # 0.42 if independent


def test_the_end_of_a_single_document_is_held_out(tokenizer, tmp_path):
    (tmp_path / "a.txt").write_text(" ".join(DOCUMENTS))
    prepare_shards(tmp_path / "a.txt", tokenizer, tmp_path / "o", held_out=0.1)
    parts = [TokenShards(tmp_path / "o", part) for part in ("training", "held_out")]
    ids = [np.asarray(part.ids).tolist() for part in parts]
    assert sum(ids, []) == sum(ids_of(tokenizer, [" ".join(DOCUMENTS)]), [])
    assert len(ids[1]) == round(0.1 * len(sum(ids, [])))
    assert [part.ends.tolist() for part in parts] == [[len(row)] for row in ids]


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 5, 11])
def test_an_interrupted_call_goes_on(stop_at, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_writing, "CHUNK", 601)
    file = write(tmp_path, "a.jsonl")
    words = {"held_out": 0.1, "shard_tokens": 601}
    prepare_shards(file, tokenizer, tmp_path / "whole", **words)
    calls, encoded = [], []

    def stop(read):
        calls.append(read)
        if len(calls) == stop_at:
            raise Stop

    with pytest.raises(Stop):
        prepare_shards(file, tokenizer, tmp_path / "o", progress=stop, **words)
    assert not list((tmp_path / "o").glob(".part*"))
    with pytest.raises(ValueError, match="not finished: run the same"):
        TokenShards(tmp_path / "o")
    encode = shard_writing.encode_chunk
    monkeypatch.setattr(
        shard_writing, "encode_chunk", lambda *c: encoded.append(1) or encode(*c)
    )
    prepare_shards(file, tokenizer, tmp_path / "o", **words)
    names = sorted(p.name for p in (tmp_path / "whole").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "o").iterdir())
    for name in names:
        if name != "index.json":
            first, second = ((tmp_path / d / name).read_bytes() for d in ("whole", "o"))
            assert first == second, name
    chunks = len([*shard_writing.chunks_of(documents.Source((file,)))])
    assert len(encoded) < chunks or stop_at == 1
    encoded.clear()
    prepare_shards(file, tokenizer, tmp_path / "o", **words)  # it is finished
    assert not encoded
    with pytest.raises(ValueError, match="shards of another held out, 0.1 instead"):
        prepare_shards(file, tokenizer, tmp_path / "o", held_out=0.2, shard_tokens=601)
    write(tmp_path, "a.jsonl", DOCUMENTS[1:])
    with pytest.raises(ValueError, match="other files, or these have changed"):
        prepare_shards(file, tokenizer, tmp_path / "o", **words)


def test_processes_do_not_change_the_files(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_writing, "CHUNK", 601)
    file = write(tmp_path, "a.jsonl")
    for name, processes in (("one", 1), ("two", 2)):
        words = {"shard_tokens": 601, "processes": processes, "held_out": 0.1}
        prepare_shards(file, tokenizer, tmp_path / name, **words)
    for one in (tmp_path / "one").iterdir():
        assert one.read_bytes() == (tmp_path / "two" / one.name).read_bytes()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has none")
def test_ctrl_c_waits_until_a_process_has_started():
    seen = []
    with pytest.raises(KeyboardInterrupt), shard_writing._no_interrupt():
        signal.raise_signal(signal.SIGINT)
        seen.append("started")
    assert seen == ["started"]


def test_two_calls_at_once_do_not_disturb_each_other(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_writing, "CHUNK", 601)
    file, words = write(tmp_path, "a.jsonl"), {"shard_tokens": 601, "held_out": 0.1}
    prepare_shards(file, tokenizer, tmp_path / "whole", **words)
    started, pid = [], os.getpid()

    def other(read):
        if not started:  # another process, of another number
            started.append(1)
            monkeypatch.setattr(os, "getpid", lambda: os.getppid())
            prepare_shards(file, tokenizer, tmp_path / "o", **words)
            monkeypatch.setattr(os, "getpid", lambda: pid)

    prepare_shards(file, tokenizer, tmp_path / "o", progress=other, **words)
    for one in (tmp_path / "whole").iterdir():
        assert one.read_bytes() == (tmp_path / "o" / one.name).read_bytes()
    assert len([*(tmp_path / "o").iterdir()]) == len([*(tmp_path / "whole").iterdir()])


def test_a_full_disk_loses_nothing(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_writing, "CHUNK", 601)
    file, calls = write(tmp_path, "a.jsonl"), []
    append = shard_writing._Writer._append

    def fails(self, *words):
        calls.append(1)
        if len(calls) == 7:
            raise OSError(28, "No space left on device")
        append(self, *words)

    monkeypatch.setattr(shard_writing._Writer, "_append", fails)
    with pytest.raises(OSError, match="No space left"):
        prepare_shards(file, tokenizer, tmp_path / "o", held_out=0, shard_tokens=601)
    assert not list((tmp_path / "o").glob(".part*"))
    shards = prepare_shards(
        file, tokenizer, tmp_path / "o", held_out=0, shard_tokens=601
    )
    assert not len(TokenShards(tmp_path / "o", "held_out", documents_apart=True))
    assert np.asarray(shards.ids).tolist() == sum(ids_of(tokenizer, DOCUMENTS), [])


def test_a_disk_that_is_full_at_the_start_leaves_no_folder_in_the_way(
    tokenizer, tmp_path, monkeypatch
):
    file, words = write(tmp_path, "a.jsonl"), (tokenizer, tmp_path / "o")
    with monkeypatch.context() as context, pytest.raises(OSError, match="No space"):

        def fails(*_):
            raise OSError(28, "No space left on device")

        context.setattr(shard_writing, "_save", fails)
        prepare_shards(file, *words)
    assert len(prepare_shards(file, *words).ids)


# Blocks


def test_blocks_over_ends_and_apart(tokenizer, tmp_path):
    file, T = write(tmp_path, "a.jsonl"), 7
    prepare_shards(file, tokenizer, tmp_path / "o", held_out=0, shard_tokens=101)
    rows = ids_of(tokenizer, DOCUMENTS)
    joined = TokenShards(tmp_path / "o", sequence_length=T)
    whole = np.array(sum(rows, []))
    assert len(joined) == (len(whole) - 1) // T
    for number in (0, 5, len(joined) - 1, -1):
        x, y = joined[number]
        start = number % len(joined) * T
        assert x.tolist() == whole[start : start + T].tolist()
        assert y.tolist() == whole[start + 1 : start + T + 1].tolist()
        assert x.dtype == y.dtype == np.int32
    apart = TokenShards(tmp_path / "o", sequence_length=T, documents_apart=True)
    blocks = [
        (row[a : a + T], row[a + 1 : a + T + 1])
        for row in rows
        for a in range(0, len(row) - 1, T)
    ]
    blocks = [(x[: len(y)], y) for x, y in blocks]
    assert len(apart) == len(blocks)
    for (x, y, weights), (inputs, targets) in zip(apart, blocks, strict=True):
        n = len(targets)
        assert x[:n].tolist() == inputs and y[:n].tolist() == targets
        assert weights.tolist() == [1.0] * n + [0.0] * (T - n)
        assert not x[n:].any() and not y[n:].any()
    for shards in (joined, apart):
        with pytest.raises(IndexError):
            shards[len(shards)]
        parts = [shards[:5], shards[5:-2], shards[-2:]]
        assert sum(map(len, parts)) == len(shards)
        blocks = [block for part in parts for block in part]
        for block, expected in zip(blocks, shards, strict=True):
            np.testing.assert_array_equal(block, expected)
        if not shards.documents_apart:
            ends = [parts[1].ends[:-1], shards.ends - 5 * T]
            inside = ends[1][(ends[1] > 0) & (ends[1] < len(parts[1].ids))]
            assert ends[0].tolist() == inside.tolist()
            assert parts[1][2:].ends.tolist() == shards[7:-2].ends.tolist()
        assert len(shards[5:2]) == len(shards[3:3]) == 0
        inner = pickle.loads(pickle.dumps(shards[5:-2][1:3]))
        np.testing.assert_array_equal(inner[1], shards[7])
        with pytest.raises(ValueError, match="that of the sliced shards, received 5"):
            inner.with_length(5)
        again = pickle.loads(pickle.dumps(shards))
        assert [part.tolist() for part in again[3]] == [p.tolist() for p in shards[3]]
        assert len(pickle.dumps(shards)) < 1000, "files are opened again"


def test_folders_of_nano_gpt(tokenizer, tmp_path):
    ids = np.array(sum(ids_of(tokenizer, DOCUMENTS[:9]), []), "<u2")
    ids[:-31].tofile(tmp_path / "train.bin")
    ids[-31:].tofile(tmp_path / "val.bin")
    (tmp_path / "meta.pkl").write_bytes(b"never read")
    words = {"tokenizer": tokenizer, "sequence_length": 5}
    shards = TokenShards(tmp_path, end=tokenizer.id_of(END), **words)
    assert np.asarray(shards.ids).tolist() == ids[:-31].tolist()
    ends = np.flatnonzero(ids[:-31] == tokenizer.id_of(END)) + 1
    assert shards.ends.tolist() == [*ends.tolist(), len(ids) - 31]
    held_out = TokenShards(tmp_path, "held_out", **words)
    assert np.asarray(held_out.ids).tolist() == ids[-31:].tolist()
    with pytest.raises(ValueError, match="does not say where its documents end"):
        _ = held_out.ends
    with pytest.raises(
        ValueError, match="has the id 294, the tokenizer only ids below 3"
    ):
        TokenShards(tmp_path, tokenizer=CharacterTokenizer().fit("ab"))
    with pytest.raises(ValueError, match="give the tokenizer that made them"):
        TokenShards(tmp_path)


def test_many_ids_have_four_bytes(tmp_path):
    words = [f"w{n}" for n in range(70_001)]
    tokenizer = text.WordTokenizer(80_000).fit(" ".join(words))
    (tmp_path / "a.txt").write_text(" ".join(words[-5:]))
    shards = prepare_shards(tmp_path / "a.txt", tokenizer, tmp_path / "o", held_out=0)
    assert json.loads((tmp_path / "o/index.json").read_text())["type"] == "<u4"
    assert shards.tokenizer.decode(np.asarray(shards.ids)) == " ".join(words[-5:])
    for size, kind in ((2**16, "<u2"), (2**16 + 1, "<u4")):
        tokenizer = text.WordTokenizer(size).fit(" ".join(words))
        assert tokenizer.vocabulary_size == size
        out = tmp_path / str(size)
        shards = prepare_shards(tmp_path / "a.txt", tokenizer, out, held_out=0)
        assert json.loads((out / "index.json").read_text())["type"] == kind
        last = np.array([size - 1])
        assert last.astype(kind)[0] == size - 1


def test_joined_ids():
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 9, n) for n in (3, 0, 7, 1, 11)]
    ids, whole = JoinedIds(parts), np.concatenate(parts)
    assert ids.shape == whole.shape and ids[-2] == whole[-2]
    for start in range(-23, 24, 3):
        for stop in (*range(-23, 24, 5), None):
            found = ids[start:stop]
            assert np.asarray(found).tolist() == whole[start:stop].tolist()
            assert np.asarray(found[1:3]).tolist() == whole[start:stop][1:3].tolist()
    with pytest.raises(ValueError, match="step 1"):
        ids[::2]
    with pytest.raises(IndexError):
        ids[22]


def test_a_sample_is_drawn_from_all(tmp_path):
    write(tmp_path, "a.jsonl", [f"{n:05}" * 40 for n in range(501)])
    source = documents.Source((tmp_path / "a.jsonl",))
    sample = documents.sampled(source, 20_003, seed=1)
    drawn = sorted({int(line[:5]) for line in sample.split("\n")})
    assert len(sample) <= 20_003 and 90 < len(drawn) < 102
    assert drawn[0] < 25 and drawn[-1] > 475
    assert sample == documents.sampled(source, 20_003, seed=1)
    assert sample != documents.sampled(source, 20_003, seed=2)
    write(tmp_path, "b.jsonl", ["x" * 40_009])
    whole = documents.sampled(documents.Source((tmp_path / "b.jsonl",)), 10**6, seed=1)
    assert whole == "x" * 40_009, "parts of a document are joined again"


# Wrong input


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"text": 3}\n', "line 2: text must be a text"),
        ("a.jsonl", b'{"text": "a"}\n\n[3]\n', "line 3 must be a JSON object"),
        ("a.jsonl", b'{"text": "a"}\n{"tex": "b"}\n', "Did you mean .*text|It has tex"),
        ("a.jsonl", b'{"text": \n', "line 1 is damaged: it is not JSON"),
        ("a.txt", "aé\nbé".encode("latin-1"), "byte 1, line 1.*cp1252"),
        ("a.txt", b"a" * 40 + "\n\né".encode("latin-1"), "byte 42, line 3"),
        ("a.txt", b"a\0b", "looks like a binary file"),
        ("a.txt", b"", "have no text"),
        ("a.txt", b" \n <|endoftext|>\n", "have no text"),
        ("a.txt.gz", b"\x1f\x8bnot gzip", "is damaged"),
        ("a.parquet", b"PAR1", "is no parquet, or is damaged"),
        ("a.csv", b"a", "must end with .txt"),
    ],
)
def test_wrong_files(name, content, message, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "READ", 17)
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    tokenizer = CharacterTokenizer().fit("ab")
    with pytest.raises(ValueError, match=message):
        prepare_shards(tmp_path / name, tokenizer, tmp_path / "o")


def test_links_to_folders_are_left_out(tmp_path):
    (tmp_path / "texts").mkdir()
    file = write(tmp_path / "texts", "a.txt")
    (tmp_path / "texts/circle").symlink_to(tmp_path / "texts")
    (tmp_path / "texts/nothing.txt").symlink_to(tmp_path / "none")
    assert documents.find_files([tmp_path / "texts"]) == ([file], 2)
    (tmp_path / "same.txt").symlink_to(file)
    assert documents.find_files([tmp_path / "same.txt"]) == ([tmp_path / "same.txt"], 0)


@pytest.mark.parametrize(
    ("content", "held_out", "message"),
    [("a", 0.1, "received 1, of"), ("abab", 0.99, "received 0, of")],
)
def test_too_little_to_train_on(content, held_out, message, tmp_path):
    (tmp_path / "a.txt").write_text(content)
    tokenizer = CharacterTokenizer().fit("ab")
    with pytest.raises(ValueError, match=f"two tokens to train on at least.*{message}"):
        prepare_shards(tmp_path / "a.txt", tokenizer, tmp_path / "o", held_out=held_out)


def test_two_tokens_are_trained_on(tmp_path):
    (tmp_path / "a.txt").write_text("ab")
    tokenizer = CharacterTokenizer().fit("ab")
    shards = prepare_shards(tmp_path / "a.txt", tokenizer, tmp_path / "o")
    assert (len(shards), len(shards.ids)) == (1, 2)
    with pytest.raises(ValueError, match="has no tokens.*with held_out above 0"):
        TokenShards(tmp_path / "o", "held_out", sequence_length=1)


def test_wrong_folders(tokenizer, tmp_path):
    file = write(tmp_path, "a.txt")
    with pytest.raises(FileNotFoundError, match="has no file that ends with"):
        (tmp_path / "empty").mkdir()
        prepare_shards(tmp_path / "empty", tokenizer, tmp_path / "o")
    (tmp_path / "link.txt").symlink_to(file)
    for second in (file, tmp_path / "link.txt"):
        with pytest.raises(ValueError, match="named twice, or linked to"):
            prepare_shards([file, second], tokenizer, tmp_path / "o")
    for source, error in ((3, TypeError), ([], ValueError)):
        with pytest.raises(error, match="source"):
            prepare_shards(source, tokenizer, tmp_path / "o")
    for name in ("column", "separator"):
        with pytest.raises(TypeError, match=f"{name} must be a string, received 3"):
            prepare_shards(file, tokenizer, tmp_path / "o", **{name: 3})
    with pytest.raises(ValueError, match="a.txt is not utf-16: "):
        prepare_shards(file, tokenizer, tmp_path / "o", encoding="utf-16")
    with pytest.raises(ValueError, match="not empty, and holds no shards"):
        prepare_shards(file, tokenizer, tmp_path)
    with pytest.raises(NotADirectoryError, match="expected a folder for the shards"):
        prepare_shards(file, tokenizer, file)
    with pytest.raises(FileNotFoundError, match="neither index.json"):
        TokenShards(tmp_path)
    prepare_shards(file, tokenizer, tmp_path / "o")
    with pytest.raises(ValueError, match="shorter sequence_length"):
        TokenShards(tmp_path / "o", "held_out", sequence_length=10_007)
    other = CharacterTokenizer().fit("abc")
    for each in (other, BytePairTokenizer(295, special_tokens=(END,)).fit("a b a b")):
        with pytest.raises(ValueError, match="shards of another tokenizer"):
            prepare_shards(file, each, tmp_path / "o")
    shards = TokenShards(tmp_path / "o")
    with pytest.raises(ValueError, match="made with another tokenizer"):
        shards.check_tokenizer(other, 3)
    with pytest.raises(ValueError, match="have 295 ids, the model 5"):
        shards.check_tokenizer(None, 5)
    index = json.loads((tmp_path / "o/index.json").read_text())
    for change in ({"type": "<f4"}, {"parts": {}}, {"version": 2}, {"format": "x"}):
        (tmp_path / "o/index.json").write_text(json.dumps(index | change))
        with pytest.raises(ValueError, match="damaged|version 2|not an index"):
            TokenShards(tmp_path / "o")
    index["parts"]["training"][0]["file"] = "../../secret"
    (tmp_path / "o/index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="damaged: expected a file"):
        TokenShards(tmp_path / "o")
    index["parts"]["training"][0]["file"] = "training-00000.bin"
    (tmp_path / "o/index.json").write_text(json.dumps(index))
    path = pathlib.Path(tmp_path / "o/training-00000.bin")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="is damaged: expected"):
        TokenShards(tmp_path / "o")
