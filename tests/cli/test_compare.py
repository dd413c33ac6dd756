"""`kerasseq compare`."""

import csv
import importlib.util
import json

import numpy as np
import pytest

from kerasseq.cli import (
    compare,
    comparison,
    learners,
    options,
    runs,
)
from kerasseq.cli.run import write_record
from kerasseq.training import bootstrap_f1
from tests.cli.conftest import snapshot

pytest.importorskip("sklearn")
pytestmark = pytest.mark.once("the command line")

TOPICS = {
    "sport": ["match", "ball", "goal", "race", "team"],
    "food": ["bread", "soup", "rice", "cake", "salt"],
    "music": ["song", "drum", "choir", "opera", "piano"],
}
TINY = ["--units", "8", "--batch-size", "8", "--epochs", "1", "--bootstrap", "20"]
TINY += ["--pretraining-steps", "3"]


def table(count=47, seed=0):
    """Texts about one or two topics, which their words show."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in range(count):
        topics = sorted(rng.choice(list(TOPICS), 1 + n % 2, replace=False))
        words = [str(rng.choice(TOPICS[topic])) for topic in topics for _ in range(3)]
        rows.append((" ".join(words), topics))
    return rows


def write(path, rows=None, separator=";", heading=("comment", "topics")):
    rows = table() if rows is None else rows
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(heading)
        writer.writerows((text, separator.join(topics)) for text, topics in rows)
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder of a comparison of one learner of each kind, and its results."""
    from kerasseq.cli import main

    folder = tmp_path_factory.mktemp("compared")
    file = write(folder / "data.csv")
    words = ["compare", "--file", file, "--text", "comment", "--labels", "topics"]
    words += ["--models", "svc,elastic-net-tfidf,boosting,forest,gru,bert"]
    words += ["--seeds", "0,1", *TINY, "--run", folder / "run"]
    assert main([str(word) for word in words]) == 0
    return folder / "run", json.loads((folder / "run/results.json").read_text())


def test_scores_equal_scikit_learn(compared):
    from sklearn.metrics import precision_recall_fscore_support

    folder, results = compared
    record = json.loads((folder / "run.json").read_text())
    settings = options.Settings(**record["arguments"])
    data = compare.read_data(settings)
    y = data.indicators(data.y_tested)
    assert results["labels"] == data.labels == sorted(TOPICS)
    for name, each in results["learners"].items():
        drawn = []
        for seed, scores in each["seeds"].items():
            file = folder / compare.STORED / f"{name}-seed{seed}.json"
            predicted, seconds = compare.read_stored(file, y.shape)
            assert seconds > 0
            expected = precision_recall_fscore_support(y, predicted, zero_division=0)
            found = [[scores[n][k] for n in data.labels] for k in comparison.KEYS]
            np.testing.assert_allclose(found, expected[:3], err_msg=name)
            macro = [scores[comparison.MACRO][k] for k in comparison.KEYS]
            np.testing.assert_allclose(macro, np.mean(expected[:3], axis=1))
            assert list(results["support"].values()) == expected[3].tolist()
            drawn.append(bootstrap_f1(y, predicted, samples=20).mean(axis=1))
        low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
        mean = each["scores"][comparison.MACRO]
        np.testing.assert_allclose([mean["low"], mean["high"]], [low, high])
        f1 = [s[comparison.MACRO]["f1"] for s in each["seeds"].values()]
        np.testing.assert_allclose(
            [mean["f1"], mean["min"], mean["max"]], [np.mean(f1), min(f1), max(f1)]
        )
    assert results["learners"]["svc"]["scores"][comparison.MACRO]["f1"] > 0.9


def test_csv_has_each_learner_seed_and_label(compared):
    folder, results = compared
    with open(folder / compare.TABLE, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 6 * 3 * 4  # learners, seeds and mean, labels and macro
    row = next(r for r in rows if (r["learner"], r["seed"]) == ("svc", "mean"))
    expected = results["learners"]["svc"]["scores"][row["label"]]
    assert float(row["f1"]) == pytest.approx(expected["f1"], abs=1e-6)
    assert float(row["f1_low"]) <= float(row["f1"]) <= float(row["f1_high"])


def test_winners_are_the_best(compared):
    _, results = compared
    for label, each in results["winners"].items():
        f1 = {n: r["scores"][label]["f1"] for n, r in results["learners"].items()}
        ranked = sorted(f1.values(), reverse=True)
        assert [each["f1"], each["next_f1"]] == ranked[:2]
        assert f1[each["best"]] == ranked[0]


def test_each_network_is_compared_with_the_best_simple_model(compared):
    _, results = compared
    f1 = {n: r["scores"]["macro avg"]["f1"] for n, r in results["learners"].items()}
    simple = {name: value for name, value in f1.items() if learners.is_simple(name)}
    assert set(results["verdicts"]) == set(f1) - set(simple) != set()
    for name, each in results["verdicts"].items():
        assert each["mean"] == pytest.approx(f1[name] - max(simple.values()))
        assert each["low"] <= each["mean"] <= each["high"]
        assert each["better"] == (each["low"] > 0)


def test_a_stopped_comparison_trains_only_what_is_missing(
    tmp_path, command, monkeypatch
):
    trained, predict = [], learners.Learners.predict

    def counted(self, name, seed):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append((name, seed))
        return predict(self, name, seed)

    monkeypatch.setattr(learners.Learners, "predict", counted)
    words = ["--file", write(tmp_path / "d.csv"), "--text", "comment", *TINY]
    words += ["--labels", "topics", "--models", "svc,svc-tfidf", "--seeds", "0,1"]
    done = command("compare", *words, "--run", "r", code=130)
    assert "train --resume r" in done.err
    stored = snapshot(tmp_path / "r" / compare.STORED)
    assert len(stored) == len(trained) == 3
    assert not (tmp_path / "r" / "results.json").exists()
    trained.clear()
    command("compare", "--resume", "r")
    assert trained == [("svc-tfidf", 1)]
    after = snapshot(tmp_path / "r" / compare.STORED)
    assert {name: after[name] for name in stored} == stored
    # Finished: neither command trains again.
    trained.clear()
    assert "is finished" in command("train", "--resume", "r").out
    assert trained == []
    (tmp_path / "r" / "results.json").unlink()
    file = tmp_path / "r" / compare.STORED / "svc-seed0.json"
    file.write_text('{"predicted": ["01"], "seconds": 1}')
    error = command("compare", "--resume", "r", code=2).err
    assert "svc-seed0.json is damaged" in error


def test_pre_training_is_resumed_and_done_once(compared):
    folder, results = compared
    found = json.loads((folder / "pretraining/results.json").read_text())
    assert results["pretraining"] == found
    assert found["steps"] == 3
    assert found["texts"] == results["texts"][0]  # the training texts
    assert (folder / "pretraining/model.keras").exists()


def test_data_with_one_label_each(tmp_path, command):
    rows = [(text, topics[:1]) for text, topics in table(37)]
    file = write(tmp_path / "d.csv", rows, heading=("text", "label"))
    words = ["compare", "--file", file, *TINY, "--models", "svc,lstm,bert-scratch"]
    found = json.loads(command(*words, "--seeds", "0", "--json").out)
    assert not found["multi_label"]
    for name in ("lstm", "bert-scratch", "svc"):
        shape = (found["texts"][1], 3)
        file = tmp_path / found["run"] / compare.STORED / f"{name}-seed0.json"
        predicted, _ = compare.read_stored(file, shape)
        assert predicted.sum(axis=1).tolist() == [1] * shape[0]


def test_tables_and_figure(compared, command, drawn, tmp_path):
    folder, _ = compared
    for file in ("results.json", compare.TABLE):
        (folder / file).unlink()
    done = command("compare", "--resume", folder)
    assert "Who is best at which label" in done.out
    assert "F1, percent" in done.out
    rows = [line for line in done.out.splitlines() if line.startswith("  ")]
    assert max(map(len, rows)) <= 88
    assert (folder / compare.FIGURE).stat().st_size > 5000


def test_a_run_with_the_defaults_can_be_resumed(tmp_path):
    arguments = {**compare.DEFAULTS, "data": "family"}
    record = {"source": "family", "sha256": "0"}
    write_record(tmp_path, "compare", arguments, "torch", record)
    assert runs.read(tmp_path)["arguments"] == arguments


def test_labels_that_fit_into_a_table():
    support = dict(zip("+-0ijfspmat", range(11, 0, -1), strict=True))
    results = {"support": support, "learners": dict.fromkeys(learners.DEFAULT)}
    assert comparison.shown_labels(results) == list(support)
    results["support"] = {f"topic {n}": n for n in range(40)}
    shown = comparison.shown_labels(results)
    assert shown == [f"topic {n}" for n in range(40 - len(shown), 40)]
    assert 4 <= len(shown) <= 7


def test_family_groups_and_default_models():
    assert set(learners.DEFAULT) < set(learners.NAMES)
    for names in compare.GROUPS["family"].values():
        assert names == ["+", "-", "0"]


# Reading


@pytest.mark.parametrize("separator", [";", "|", ","])
def test_separators_are_found(separator, tmp_path, command):
    file = write(tmp_path / "d.csv", separator=separator)
    words = ["--file", file, "--text", "comment", "--labels", "topics", "--seeds", "0"]
    done = command("compare", *words, "--models", "svc", "--bootstrap", "5", "--json")
    assert json.loads(done.out)["labels"] == sorted(TOPICS)
    assert f'labels are separated by "{separator}"' in done.err


def settings_of(**given):
    return options.Settings(**options.with_defaults(compare.DEFAULTS, given))


def test_separator_none_keeps_cells_whole(tmp_path):
    file = write(tmp_path / "d.csv", [*table(48), *table(48)], ", ")
    data = compare.read_data(
        settings_of(file=str(file), text="comment", labels="topics", separator="none")
    )
    assert not data.multi_label
    assert "food, music" in data.labels


def test_parts_have_all_labels_and_no_common_rows(tmp_path):
    rows = [*table(60), ("cheese wine", ["rare"]), ("wine salt", ["rare", "food"])]
    file = str(write(tmp_path / "d.csv", rows))
    data = compare.read_data(settings_of(file=file, text="comment", labels="topics"))
    assert len(data.x) + len(data.tested) == 62
    for part in (data.y, data.y_tested):
        assert {name for row in part for name in row} == {*TOPICS, "rare"}
    again = settings_of(file=file, text="comment", labels="topics", data_seed=1)
    assert compare.read_data(again).tested != data.tested
    few = settings_of(file=file, text="comment", labels="topics", rows=7)
    with pytest.raises(ValueError, match="rare"):  # in one part at most
        compare.read_data(few)


def test_rows_of_the_generated_data(capsys):
    data = compare.read_data(settings_of(data="names", rows=2999))
    assert len(data.x) + len(data.tested) == 2999 and data.unlabeled is data.x
    whole = compare.read_data(settings_of(data="names"))
    assert set(data.x) <= set(whole.x) and set(data.tested) <= set(whole.tested)
    assert (data.x[5], data.y[5]) in zip(whole.x, whole.y, strict=True)
    assert "2,999 of 10,902 rows are used (--rows)" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--rows must be so many .* received 5: no"):
        compare.read_data(settings_of(data="names", rows=5))


def test_unlabeled_lines_without_held_out_texts(tmp_path):
    file = str(write(tmp_path / "d.csv"))
    chosen = {"file": file, "text": "comment", "labels": "topics"}
    tested = compare.read_data(settings_of(**chosen)).tested
    lines = tmp_path / "more.txt"
    lines.write_text("\n".join([tested[0].upper(), "some text", "", "more text"]))
    data = compare.read_data(settings_of(**chosen, unlabeled=str(lines)))
    assert data.unlabeled == ["some text", "more text"]


# Bad input: exit code 2, one line, and nothing half-written


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        (None, ["--text", "coment"], '--text: there is no column "coment".'),
        (None, ["--labels", "topic"], '--labels: there is no column "topic".'),
        ([("a b", ["x"]), ("", ["y"])], [], '"comment" (1), at line 3'),
        ([("a b", ["x"]), ("c", [])], [], '"topics" (1), at line 3'),
        ([("a b", ["x"]), ("c", ["x"])] * 3, [], "at least two labels"),
        (
            [*table(20), ("once only", ["food", "odd"])],
            [],
            'no held-out row has the label "odd", which is in line 22',
        ),
        ([("a", ["x", "y"]), ("b", ["", ""])], ["--separator", ";"], "line 3"),
        (None, ["--models", "svc,bird"], 'unknown model "bird"'),
        (None, ["--models", "svc,svc"], 'received "svc" more than once'),
        (None, ["--units", "9"], "expected a multiple of 4"),
        (None, ["--unlabeled", "none.txt"], "none.txt"),
        (None, ["--held-out", "1"], "below 1"),
    ],
)
def test_wrong_input(rows, words, message, tmp_path, refused):
    file = write(tmp_path / "d.csv", rows)
    before = snapshot(tmp_path)
    given = {"--file": file, "--text": "comment", "--labels": "topics"}
    given |= {"--separator": ";", "--models": "svc", "--run": "r"}
    given |= dict(zip(words[::2], words[1::2], strict=True))
    assert message in refused("compare", *(w for pair in given.items() for w in pair))
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "r").exists()


def test_without_scikit_learn(refused, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda n, *p: None if n == "sklearn" else find(n, *p),
    )
    assert "pip install scikit-learn" in refused("compare", "--models", "svc")


def test_options_without_a_file(refused):
    for words in (
        ("compare", "--held-out", "0.3"),
        ("compare", "--text", "comment"),
        ("compare", "--labels", "topics"),
        ("compare", "--separator", ";"),
        ("compare", "--missing", "skip", "--data", "names"),
        ("compare", "--no-header"),
        ("train", "classify", "--label", "stars"),
        ("train", "tag", "--tag-column", "-1"),
        ("train", "images", "--missing", "skip"),
        ("train", "translation", "--strict"),
        ("train", "vectors", "--encoding", "cp1252"),
    ):
        option = next(word for word in words if word.startswith("--"))
        assert f"{option} is for --" in refused(*words)
    line = refused("compare", "--max-characters", "7")
    assert "--max-characters is for --file or --unlabeled, received none" in line
    words = ("--max-characters", "7", "--unlabeled", "none.txt")
    assert "none.txt" in refused("compare", "--models", "svc", *words)
