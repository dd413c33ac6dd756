"""`kerasseq train classify`, `train tag`, `predict` and `evaluate`."""

import csv
import gzip
import json

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import tables
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

TINY = ["--units", "7", "--batch-size", "8", "--checkpoint-every", "10"]
WORDS = {"vowel": "aeiou", "consonant": "bdgkl"}


def rows(count=64, seed=0):
    """Words with the kind of their last letter, which a small model learns."""
    rng = np.random.default_rng(seed)
    labels = [("vowel", "consonant")[n % 3 == 0] for n in range(count)]
    letters = list("aeioubdgkl")
    return [
        ("".join(rng.choice(letters, 3)) + str(rng.choice(list(WORDS[y]))), y)
        for y in labels
    ]


def write(path, table, heading=("word", "kind"), separator=",", encoding="utf-8"):
    with open(path, "w", newline="", encoding=encoding) as stream:
        csv.writer(stream, delimiter=separator).writerows([heading, *table])
    return path


CONLL = [
    [("Ada", "B-PER"), ("Byron", "I-PER"), ("writes", "O")],
    [("in", "O"), ("London", "B-LOC")],
] * 12


def write_conll(path, sentences=CONLL):
    lines = ["\n".join(f"{w}\t{t}" for w, t in sentence) for sentence in sentences]
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """The folder of a trained classifier, and its results."""
    from kerasseq.cli import main

    folder = tmp_path_factory.mktemp("classified")
    file = write(folder / "words.csv", rows())
    words = ["train", "classify", "--file", file, "--text", "word", "--label", "kind"]
    words += [*TINY, "--epochs", "12", "--learning-rate", "0.03", "--run", folder / "r"]
    assert main([str(word) for word in words]) == 0
    return folder / "r", json.loads((folder / "r" / "results.json").read_text())


def test_a_classifier_of_a_table(classified, command, tmp_path):
    run, results = classified
    assert results["accuracy"] > 0.9
    report = results["report"]
    counts = np.array(results["confusion"])
    assert results["labels"] == ["consonant", "vowel"]
    assert counts.sum() == report["macro avg"]["support"] == 12  # a fifth of each class
    assert np.trace(counts) / counts.sum() == pytest.approx(results["accuracy"])
    assert results["baselines"]["majority"]["accuracy"] == pytest.approx(8 / 12)
    assert (run / "loss.png").exists() and (run / "confusion.png").exists()
    assert json.loads((run / "run.json").read_text())["data"]["source"] == "words.csv"
    held_out = write(tmp_path / "new.csv", rows(20, seed=1))
    done = command("evaluate", run, "--file", held_out, "--json")
    found = json.loads(done.out)
    done = command("predict", run, "--file", held_out, "--out", "out.csv")
    with open(tmp_path / "out.csv", newline="") as stream:
        predicted = list(csv.DictReader(stream))
    right = [r["label"] == y for r, (_, y) in zip(predicted, rows(20, 1), strict=True)]
    assert np.mean(right) == pytest.approx(found["accuracy"])
    one = json.loads(command("predict", run, "--text", "bobi", "--json").out)[0]
    assert one["label"] == "vowel" and sum(one["probabilities"].values()) > 0.999
    line = command("predict", run, "--text", "bobi").out
    assert line == f"vowel  {one['probability']:.2f}\n"


def test_inspect_shows_what_moved_the_decision(classified, command, tmp_path, drawn):
    out = command("inspect", classified[0], "--text", "bobi", "--out", "o").out
    assert "What moved the decision for vowel" in out
    rows = [line.split() for line in out.splitlines() if "'" in line]
    assert [row[1] for row in rows] == ["'b'", "'o'", "'b'", "'i'"]
    model = kerasseq.load_model(classified[0] / "model.keras")
    scores = kerasseq.tracing.attribution(model, "bobi").scores
    assert [float(row[2]) for row in rows] == pytest.approx(scores.tolist(), abs=6e-4)
    assert {file.name for file in (tmp_path / "o").iterdir()} == {
        "gates.png",
        "gradient_flow.png",
    }


def test_a_label_that_the_training_does_not_have(classified, command):
    run, _ = classified
    write("test.csv", [("bobi", "vowel"), ("bobi", "word")])
    found = json.loads(command("evaluate", run, "--file", "test.csv", "--json").out)
    assert found["accuracy"] == 0.5
    assert found["labels"] == ["consonant", "vowel", "word"]


def test_a_run_that_was_stopped_goes_on(command, tmp_path, monkeypatch):
    from kerasseq.cli import classify

    write("words.csv", rows())
    words = ["train", "classify", "--file", "words.csv", "--text", "word"]
    words += ["--label", "kind", *TINY, "--steps", "25", "--model", "elman"]
    command(*words, "--run", "whole")
    before = classify.evaluate

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(classify, "evaluate", stop)
    command(*words, "--run", "stopped", code=130)
    monkeypatch.setattr(classify, "evaluate", before)
    command("train", "--resume", "stopped")
    whole, stopped = (
        kerasseq.load_model(tmp_path / name / "model.keras")
        for name in ("whole", "stopped")
    )
    for a, b in zip(whole.get_weights(), stopped.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("crf", [True, False])
def test_a_tagger(command, crf, tmp_path, drawn):
    write_conll(tmp_path / "train.conll")
    words = ["train", "tag", "--file", "train.conll", *TINY, "--run", "r"]
    words += ["--epochs", "24", "--learning-rate", "0.05", *["--crf"] * crf]
    results = json.loads(command(*words, "--json").out)
    assert results["accuracy"] == 1
    assert results["entities"]["micro avg"]["f1-score"] == 1
    assert (tmp_path / "r" / "confusion.png").exists()
    done = command("predict", "r", "--text", "Ada Byron writes")
    assert done.out == "Ada/B-PER Byron/I-PER writes/O\n"
    done = command("evaluate", "r", "--file", "train.conll")
    assert "Accuracy: 1.000" in done.out and "F1 of entities: 1.000" in done.out


def test_other_models_predict(command, trained, tmp_path):
    (line,) = command("predict", trained[0], "--text", "model ga").out.splitlines()
    assert len(line.split("  ")) == 5
    (tmp_path / "two.txt").write_text("model\n\nstate\n")
    done = command("predict", trained[0], "--file", "two.txt", "--out", "o.jsonl")
    assert "wrote 2 rows" in done.err
    first = json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])
    assert first["text"] == "model" and len(first["next"]) == 5


def test_a_forecast_continues_its_series(command, refused, tmp_path):
    pytest.importorskip("pandas")
    table = [(f"{2001 + n // 12}-{n % 12 + 1:02}-01", 50 + n % 12) for n in range(60)]
    write("sales.csv", table, heading=("date", "sales"))
    words = ["train", "forecast", "--file", "sales.csv", "--horizon", "3"]
    command(*words, "--steps", "2", "--units", "3", "--run", "f")
    found = json.loads(command("predict", "f", "--json", "--horizon", "2").out)
    assert [row["date"][:7] for row in found] == ["2006-01", "2006-02"]
    assert len(command("predict", "f").out.splitlines()) == 1 + 3
    command("predict", "f", "--out", "f.csv")
    assert (tmp_path / "f.csv").read_text().count("\n") == 1 + 3
    assert "leave out --text" in refused("predict", "f", "--text", "a")


def test_separators_encodings_and_compression(capsys, tmp_path):
    table = [("é;a", "x, y"), ("b", "z")]
    for name, separator, encoding in (
        ("a.csv", ",", "utf-8"),
        ("b.csv", ";", "cp1252"),
        ("c.tsv", "\t", "utf-8"),
        ("d.txt", "|", "utf-16"),
    ):
        path = write(tmp_path / name, table, ("t", "l"), separator, encoding)
        given = encoding if encoding == "utf-16" else None
        found = tables.read_table(str(path), given, as_text=True)
        assert list(found["t"]) == ["é;a", "b"] and list(found["l"]) == ["x, y", "z"]
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert tables.read_table(str(packed), given, as_text=True).equals(found)
    err = capsys.readouterr().err
    assert "b.csv is not utf-8: read as cp1252" in err
    assert "b.csv are separated by semicolons" in err
    lines = [json.dumps({"t": t, "l": y}) for t, y in table]
    (tmp_path / "e.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert list(tables.read_table(str(tmp_path / "e.jsonl"))["l"]) == ["x, y", "z"]


def test_columns_are_guessed_if_only_one_fits(refused, command):
    write("a.csv", rows(12), heading=("text", "label"))
    done = command("train", "classify", "--file", "a.csv", *TINY, "--steps", "2")
    assert '--text is "text"' in done.err and '--label is "label"' in done.err
    write("b.csv", rows(12), heading=("one", "two"))
    message = refused("train", "classify", "--file", "b.csv")
    assert "--text is needed" in message and '"one", "two"' in message


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ([("a", "x"), ("b", "y")], ["--text", "wrd"], 'Did you mean "word"?'),
        ([("a", "x"), ("b", "y")], ["--text", "word", "--label", "word"], '"kind"'),
        ([("a", "x"), ("", "y")], [], 'line 3: the cell in the column "word" is empty'),
        (
            [("a", "x"), ("b", " ")],
            [],
            'line 3: the cell in the column "kind"',
        ),
        ([("a", "x"), ("b", "x")], [], "at least two labels"),
        ([("a", "x"), ("b", "y")], [], "two rows of a label"),
        ([], [], "has no rows below"),
        ([("a", "x"), ("b", "y", "z")], [], "is no table"),
        ([("a", "1"), ("b", "2")], ["--held-out", "1"], "above 0 and below 1"),
    ],
)
def test_wrong_tables(refused, table, options, message, tmp_path):
    write("t.csv", table)
    words = ["train", "classify", "--file", "t.csv", *options]
    words += [] if "--text" in options else ["--text", "word"]
    words += [] if "--label" in options else ["--label", "kind"]
    assert message in refused(*words)
    assert set(snapshot(tmp_path)) == {"t.csv"}, "nothing is left"


def test_wrong_files(refused, classified, trained, tmp_path):
    run, _ = classified
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n{"a"')
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "ragged.conll").write_text("a\tX\nb\n")
    write("one.csv", [("a", "x")])
    for words, message in (
        (["train", "classify", "--file", "missing.csv"], "missing.csv"),
        (["train", "classify", "--file", "empty.csv"], "empty.csv is empty"),
        (["train", "classify", "--file", "bad.jsonl"], "bad.jsonl, line 2"),
        (["train", "classify", "--file", "words.doc"], "words.doc"),
        (["train", "tag", "--file", "ragged.conll"], "line 2"),
        (["train", "tag", "--file", "missing.conll"], "missing.conll"),
        (["train", "classify", "--file", "a", "--data", "names"], "exclude"),
        (["predict", run], "expected one of --text and --file"),
        (["predict", run, "--text", "a", "--horizon", "2"], "for the run of a"),
        (["predict", run, "--text", " "], "received an empty one"),
        (["predict", run, "--text", "a", "--out", "x.doc"], "must end in .csv"),
        (["predict", run, "--text", "a", "--out", "one.csv"], "exists already"),
        (["predict", run, "--file", "one.csv", "--column", "x"], "no column"),
        (["predict", "nowhere", "--text", "a"], 'no folder "nowhere"'),
        (["evaluate", trained[0], "--file", "one.csv"], "expected a run of"),
        (["evaluate", run, "--file", "missing.csv"], "missing.csv"),
    ):
        assert message in refused(*words), words
