"""`kerasseq train classify`, `train tag`, `predict` and `evaluate`."""

import csv
import gzip
import json
import sys
import tracemalloc

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.cli import (
    classify,
    console,
    labeled,
    options,
    predict,
    tables,
    text_tables,
)
from kerasseq.datasets.splitting import split_by_class
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
    words += [*TINY, "--epochs", "12", "--learning-rate", "0.03", "--dropout", "0.1"]
    words += ["--pooling", "last", "--run", folder / "r"]  # the last letter tells
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
    table = rows()
    known, _ = split_by_class([label for _, label in table], 0.2, 0)
    texts = {table[n][0] for n in known}
    new = [(f"{word}{n}", label) for n, (word, label) in enumerate(table[:9])]
    mixed = [*new, *table[:20]]
    write(tmp_path / "mixed.csv", mixed)
    done = command("evaluate", run, "--file", "mixed.csv", "--json")
    count = sum(word in texts for word, _ in mixed)
    assert 0 < count < 20 and json.loads(done.out)["repeated"] == count
    sentence = f"{count} of the 29 texts of mixed.csv are in the training part, too"
    assert sentence in " ".join(done.err.split())
    one = json.loads(command("predict", run, "--text", "bobi", "--json").out)[0]
    assert one["label"] == "vowel" and sum(one["probabilities"].values()) > 0.999
    line = command("predict", run, "--text", "bobi").out
    assert line == f"vowel  {one['probability']:.2f}\n"
    long = "bo" * 500  # the maximum length of the training
    done = command("predict", run, "--text", long + "b" * 9, "--json")
    assert "1 texts are cut to 1,000 characters" in done.err
    found = json.loads(done.out)[0]
    alone = json.loads(command("predict", run, "--text", long, "--json").out)[0]
    assert found["text"] == long + "b" * 9
    assert found["probabilities"] == pytest.approx(alone["probabilities"])


def test_a_model_without_merit_is_said_to_have_none(command, tmp_path):
    # 11 different texts, each several times, whose labels a constant answer guesses.
    texts = [(f"w{n % 11}", "rare" if n % 7 == 0 else "often") for n in range(77)]
    write(tmp_path / "t.csv", [*texts, ("alone", "one")], ("text", "label"))
    words = [*TINY, "--steps", "30", "--learning-rate", "0.01", "--run", "r"]
    out = command("train", "classify", "--file", "t.csv", *words).out
    found = json.loads((tmp_path / "r" / "results.json").read_text())
    assert found["repeated"] == 15 and "15 of the 15 held-out texts are in" in out
    assert "gru does not beat a simple model: accuracy on the held-out rows" in out
    assert "1 of 3 classes have no row here and are not predicted, such as one" in out
    scores = [found["report"][y]["f1-score"] for y in ("often", "rare")]
    assert found["report"]["macro avg"]["f1-score"] == pytest.approx(np.mean(scores))


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
def test_a_tagger(command, refused, crf, tmp_path, drawn):
    write_conll(tmp_path / "train.conll")
    words = ["train", "tag", "--file", "train.conll", *TINY, "--run", "r"]
    words += ["--epochs", "24", "--learning-rate", "0.05", *["--crf"] * crf]
    results = json.loads(command(*words, "--json").out)
    assert results["accuracy"] == 1
    assert "does not beat a simple" in results["verdict"]["sentence"]
    assert "Most likely to help" not in results["verdict"]["sentence"]
    assert results["entities"]["micro avg"]["f1-score"] == 1
    assert (tmp_path / "r" / "confusion.png").exists()
    done = command("predict", "r", "--text", "Ada Byron writes")
    assert done.out == "Ada/B-PER Byron/I-PER writes/O\n"
    command("predict", "r", "--file", "train.conll", "--out", "tags.csv")
    with open(tmp_path / "tags.csv", newline="") as stream:
        first = next(csv.DictReader(stream))
    assert first["words"] == "Ada Byron writes" and first["tags"] == "B-PER I-PER O"
    done = command("evaluate", "r", "--file", "train.conll")
    assert "24 of the 24 sentences of train.conll are in" in " ".join(done.out.split())
    (tmp_path / "r" / "training_rows.npy").write_bytes(b"")
    assert "training_rows.npy is damaged" in refused(
        "evaluate", "r", "--file", "train.conll"
    )
    (tmp_path / "r" / "training_rows.npy").unlink()  # as a run of an earlier version
    done = command("evaluate", "r", "--file", "train.conll", "--json")
    assert json.loads(done.out)["repeated"] is None
    done = command("evaluate", "r", "--file", "train.conll")
    assert "Accuracy: 1.000" in done.out and "F1 of entities: 1.000" in done.out


def test_large_files_are_processed_in_parts(classified, command, monkeypatch, tmp_path):
    """The parts change nothing; progress and bounds are shown."""
    run, _ = classified
    write(tmp_path / "new.csv", rows(40, seed=1))
    words = ["evaluate", run, "--file", "new.csv", "--json"]
    whole = json.loads(command(*words).out)
    command("predict", run, "--file", "new.csv", "--out", "a.jsonl")
    monkeypatch.setattr(classify, "PART", 7)
    parts = json.loads(command(*words).out)
    for results in (whole, parts):  # rounding differs with the batches
        for each in results["hardest"]:
            each["probability"] = round(each["probability"], 4)
    assert parts == whole
    before = predict.predictor
    monkeypatch.setattr(predict, "predictor", lambda *a: (before(*a)[0], 7))
    command("predict", run, "--file", "new.csv", "--out", "b.jsonl")
    for one, other in zip(
        *(
            map(json.loads, (tmp_path / name).read_text().splitlines())
            for name in ("a.jsonl", "b.jsonl")
        ),
        strict=True,
    ):
        assert one["label"] == other["label"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)


def test_progress_is_shown_from_the_start(capsys, monkeypatch):
    monkeypatch.setattr(console, "MAX_SILENCE", 0)
    assert list(labeled.in_parts("abcdefg", 3, "reading")) == ["abc", "def", "g"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "kerasseq: reading, 0 of 7 …"
    assert lines[1].startswith("kerasseq: reading, 3 of 7, 0:0") and len(lines) == 3
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert list(labeled.in_parts("abcdefg", 3, "reading")) == ["abc", "def", "g"]
    assert "7/7" in capsys.readouterr().err


def test_what_serves_comparison_is_bounded(command, monkeypatch, tmp_path):
    """A sorted file: the first rows of the training have one label only."""
    monkeypatch.setattr(labeled, "BASELINE_ROWS", 12)
    monkeypatch.setattr(labeled, "MAX_TESTED", 5)
    write("words.csv", sorted(rows(), key=lambda row: row[1]))
    words = ["train", "classify", "--file", "words.csv", "--text", "word"]
    done = command(*words, "--label", "kind", *TINY, "--steps", "2", "--run", "r")
    assert "On 5 of the 12 held-out texts" in done.out
    assert "Logistic regression was fitted to 12 of the 52 rows" in done.out
    results = json.loads((tmp_path / "r" / "results.json").read_text())
    assert results["baselines"]["logistic regression, 1 to 3 characters"]["rows"] == 12
    assert np.sum(results["confusion"]) == 5
    assert labeled.title_of(3, 3, "texts") == "On the held-out texts"


def test_reading_texts_takes_at_most_12_bytes_a_character(tmp_path):
    count = 20_000
    rng = np.random.default_rng(0)
    codes = rng.integers(97, 123, (count, 99), dtype="uint8")
    texts = [bytes(row).decode() for row in codes]
    write(tmp_path / "t.csv", [(t, "ab"[n % 2]) for n, t in enumerate(texts)])
    given = classify.DEFAULTS | {"text": "word", "label": "kind"}
    settings = options.Settings(**given | {"file": str(tmp_path / "t.csv")})
    tracemalloc.start()
    try:
        found, labels, _ = classify.read(settings)
        split_by_class(labels, 0.2, seed=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == texts
    assert peak < 12 * 100 * count


def test_a_table_with_a_long_label_is_split_by_class():
    labels = ["a" * 10**6, *"bb" * 5, *["a" * 10**6] * 4]
    training, held_out = split_by_class(labels, 0.2, seed=0)
    assert sorted(labels[n][:1] for n in held_out) == ["a", "b", "b"]
    assert len(training) == 12


def test_other_models_predict(command, trained, tmp_path):
    (line,) = command("predict", trained[0], "--text", "model ga").out.splitlines()
    assert len(line.split("  ")) == 5
    (tmp_path / "two.txt").write_text("model\n\nstate\n")
    done = command("predict", trained[0], "--file", "two.txt", "--out", "o.jsonl")
    assert "wrote 2 rows" in done.err
    first, second = map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines())
    assert first["text"] == "model" and len(first["next"]) == 5
    command("predict", trained[0], "--file", "two.txt", "--out", "o.csv")
    with open(tmp_path / "o.csv", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["text"] for row in table] == ["model", "state"]
    assert table[1]["token_1"] == second["next"][0]["token"]
    assert float(table[1]["probability_5"]) == second["next"][4]["probability"]


def test_next_tokens_are_those_of_each_text_alone():
    """Padding to one length changes nothing; a GPT reads as much as it can."""
    tokenizer = kerasseq.text.CharacterTokenizer().fit("abcdefgh")
    for model in (
        kerasseq.models.LanguageModel("gru", tokenizer, units=5),
        kerasseq.models.GPT(tokenizer, num_layers=1, num_heads=1, hidden_dim=4,
                            max_sequence_length=11),
    ):  # fmt: skip
        texts = ["abc", "h", "abcdefghabcdefgh"]
        for text, found in zip(texts, predict.next_tokens(model, texts), strict=True):
            ids = tokenizer.encode(text)[-(model.context_length or 100) :]
            logits = keras.ops.convert_to_numpy(model(ids[None]))[0, -1]
            p = np.exp(logits) / np.exp(logits).sum()
            expected = np.sort(p)[::-1][: predict.NEXT_TOKENS]
            ours = [each["probability"] for each in found["next"]]
            np.testing.assert_allclose(ours, expected, atol=1e-6)
            assert found["next"][0]["token"] == tokenizer.decode([p.argmax()])
        with pytest.raises(ValueError, match="text with tokens"):
            predict.next_tokens(model, [""])


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
    assert "--missing is for a table" in refused("predict", "f", "--missing", "error")
    # A newer table, whose last months the training does not have.
    write("new.csv", [*table, ("2006-01-01", 7), ("2006-02-01", 8)], ("date", "sales"))
    found = json.loads(command("predict", "f", "--file", "new.csv", "--json").out)
    assert [row["date"][:7] for row in found] == ["2006-03", "2006-04", "2006-05"]
    model = kerasseq.load_model(tmp_path / "f" / "model.keras")
    expected = model.forecast(tables.read_table("new.csv"), 3)["sales"]
    np.testing.assert_allclose([row["sales"] for row in found], expected, rtol=1e-6)
    write("gap.csv", [*table, ("2006-02-01", 8)], ("date", "sales"))
    assert "a jump at line 62" in refused("predict", "f", "--file", "gap.csv")
    words = ["predict", "f", "--file", "gap.csv", "--missing", "interpolate"]
    assert "2006-03-01" in command(*words).out
    write("few.csv", table[:5], ("date", "sales"))
    assert "at least 22 values" in refused("predict", "f", "--file", "few.csv")


def test_a_forecast_of_a_series_without_a_table(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    words = ["train", "forecast", "--data", "ar", "--horizon", "3", "--steps", "2"]
    command(*words, "--units", "3", "--run", "s")
    found = json.loads(command("predict", "s", "--json").out)
    assert [row["step"] for row in found] == [1, 2, 3]
    assert set(found[0]) == {"step", "quantile 0.1", "quantile 0.5", "quantile 0.9"}
    assert len(command("predict", "s", "--horizon", "5").out.splitlines()) == 1 + 5
    command("predict", "s", "--out", "s.csv")
    assert (tmp_path / "s.csv").read_text().startswith("step,quantile 0.1,")


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
        found = text_tables.read_texts(str(path), given)
        assert found.columns == {"t": ["é;a", "b"], "l": ["x, y", "z"]}
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert text_tables.read_texts(str(packed), given) == found
    err = capsys.readouterr().err
    assert "b.csv is not utf-8: read as cp1252" in err
    assert "b.csv are separated by semicolons" in err
    lines = [json.dumps({"t": t, "l": y}) for t, y in table]
    (tmp_path / "e.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert text_tables.read_texts(str(tmp_path / "e.jsonl")).columns == found.columns


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
        ([("a", "x"), ("", "y")], [], 'column "word" (1), at line 3'),
        (
            [("a", "x"), ("b", " ")],
            [],
            'column "kind" (1), at line 3',
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


def test_labels_that_may_be_meant_otherwise(capsys):
    labels = ["red;blue", "blue;green", "Red", "red", "blue", "green;red"] * 9
    labeled.check_labels(labels, "colors.csv")
    noted = capsys.readouterr().err
    assert "1 of 6 labels differ from another one only in capitals or spaces" in noted
    assert "'blue;green' is read as one label. Several labels of a row" in noted
    labeled.check_labels(["Paris, France", "Rome, Italy", "Bern"] * 9, "cities.csv")
    assert capsys.readouterr().err == ""
