"""The lab Memory race: results of several runs, and a string of one's own."""

import dataclasses
import hashlib
import json

import pytest

from parts import places, races
from tests.apps import pages

pytestmark = pytest.mark.once("a page computes on one backend")

BROWSER = "5" * 32


@pytest.fixture
def finished(folder):
    """Two finished runs of the same network on strings of other lengths."""
    import keras

    import kerasseq

    keras.utils.set_random_seed(0)
    model = kerasseq.models.SequenceClassifier("elman", 2, vocabulary_size=3, units=5)
    owner = places.runs() / hashlib.sha256(BROWSER.encode()).hexdigest()[:16]
    options = {"backend": "torch", "title": "Elman", "lab": "race", "seed": 7}
    for number, lengths in enumerate([(4, 20), (20, 30)], 1):
        request = races.request("elman", steps=9, lengths=lengths, **options)
        path = owner / f"race-{number}"
        (path / request.details["part"]).mkdir(parents=True)
        model.save(path / request.details["part"] / "model.keras")
        line = {"state": "finished", "step": 9, "steps": 9, "parameters": 1234}
        (path / "progress.jsonl").write_text(json.dumps(line) + "\n")
        content = json.dumps(dataclasses.asdict(request))
        path.with_suffix(".json").write_text(content)
        accuracy = {"elman": {"balanced": [0.25], "hard": [0.5 + number / 8]}}
        results = {"accuracy": accuracy, "majority": {"balanced": 1.0, "hard": 0.5}}
        (path / "results.json").write_text(json.dumps(results))


def test_runs_are_told_apart_in_rows_tables_and_figures(finished):
    page = pages.open_lab("race", browser=BROWSER)
    names = ["Elman, lengths 4–20", "Elman, lengths 20–30"]
    bars = [bar.proto.text for bar in page.get("progress")]
    assert [bar.partition("**")[2].partition("**")[0] for bar in bars] == names
    about = "32 units · seed 7 · learning rate 0.005 · batch size 64 · 9 steps"
    rows = [c.value for c in page.caption if about in c.value]
    assert [row.rpartition(" · ")[2] for row in rows] == ["1,234 parameters"] * 2
    table = page.table[0].value
    assert table["Network"].tolist() == [*names, "always the same answer"]
    assert table["hard: one symbol wrong"].tolist() == ["0.625", "0.750", "0.500"]
    assert table["Settings"].tolist() == [*rows, ""]
    assert pages.control(page, "network").options == names
    figures = [json.loads(f.proto.spec) for f in page.get("vega_lite_chart")]
    (probability, error, *_) = figures
    for figure in (probability, error):
        encoding = figure["layer"][0]["encoding"]
        assert encoding["color"]["scale"]["domain"] == names


def test_a_string_of_other_symbols_is_refused(finished):
    page = pages.open_lab("race", browser=BROWSER)
    pages.control(page, "string").set_value("([)]").run()
    assert "( )" in page.error[0].value


def test_wrong_labels_have_a_line_of_the_best_possible_accuracy(finished):
    from kerasseq.cli.main import parse

    first = races.request(
        "elman", steps=9, backend="torch", title="Elman", lab="race", seed=7
    )
    assert not any("flipped" in word for word in first.words)
    owner = places.runs() / hashlib.sha256(BROWSER.encode()).hexdigest()[:16]
    for number in (1, 2):
        file = owner / f"race-{number}.json"
        request = json.loads(file.read_text())
        wrong = races.request(
            *("elman",), steps=9, backend="torch", title="Elman", lab="race",
            seed=7, lengths=((4, 20), (20, 30))[number - 1], flipped=0.1
        )  # fmt: skip
        assert parse(["train", *wrong.words, "--run", "x"]).flipped == 0.1
        file.write_text(json.dumps(request | dataclasses.asdict(wrong)))
        line = {"step": 5, "steps": 9, "accuracy": 0.6, "loss": 0.7}
        with open(owner / f"race-{number}" / "progress.jsonl", "a") as progress:
            progress.write(json.dumps({**line, "state": "finished"}) + "\n")
    page = pages.open_lab("race", browser=BROWSER, flipped="0.1")
    table = page.table[0].value
    assert table["Network"].iloc[-1] == "best possible: 0.90"
    assert table["hard: one symbol wrong"].iloc[-1] == "0.900"
    figures = [str(figure.proto) for figure in page.get("vega_lite_chart")]
    assert sum("best possible: 0.90" in figure for figure in figures) == 1
    assert "noisy_parentheses" in page.code[0].value
    assert "flipped=0.1" in page.code[0].value
    french = pages.open_lab("race", browser=BROWSER, flipped="0.1", lang="fr")
    last = french.table[0].value.iloc[-1, 0].split()
    assert last == ["le", "mieux", "possible", ":", "0,90"]
