"""`kerasseq compare cells`."""

import csv
import json

import numpy as np
import pytest

from kerasseq.cli import cells
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

TINY = ["--steps", "2", "--examples", "11", "--test-examples", "7", "--seeds", "0,1"]
TINY += ["--parameters", "3000", "--batch-size", "5"]
COMPARE = ["compare", "cells", *TINY]


def test_ranks_and_resuming(command, tmp_path, monkeypatch):
    words = [*COMPARE, "--models", "elman,gru", "--tasks", "copy,forecast"]
    words += ["--seeds", "1"]
    command(*words, "--run", "whole")
    trained, train = [], cells.train_cell

    def counted(*arguments):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(arguments[:3])
        return train(*arguments)

    monkeypatch.setattr(cells, "train_cell", counted)
    done = command(*words, "--run", "r", code=130)
    assert "train --resume r" in done.err
    stored = snapshot(tmp_path / "r" / cells.STORED)
    assert len(stored) == 3
    monkeypatch.setattr(cells, "train_cell", train)
    done = command("compare", "--resume", "r")
    assert "mean rank" in done.out
    both = [json.loads((tmp_path / r / "results.json").read_text()) for r in
            ("whole", "r")]  # fmt: skip
    assert both[0].pop("run") != both[1].pop("run")
    assert both[0] == both[1]
    found = both[0]
    for task, by_cell in found["ranks"].items():
        means = {cell: np.mean(s) for cell, s in found["scores"][task].items()}
        best = (max if cells.TASKS[task].higher_is_better else min)(means.values())
        assert (
            by_cell[min(by_cell, key=by_cell.get)]
            == by_cell[next(cell for cell, mean in means.items() if mean == best)]
        )
        assert sum(by_cell.values()) == 3
    for width, parameters in found["sizes"].values():
        assert width > 1 and abs(parameters - 3000) <= 150
    with open(tmp_path / "r" / cells.TABLE, encoding="utf-8", newline="") as stream:
        assert len(list(csv.DictReader(stream))) == 2 * 2
    (tmp_path / "r" / "results.json").unlink()
    (tmp_path / "r" / cells.STORED / "copy-gru-seed1.json").write_text('{"score": 1}')
    error = command("compare", "--resume", "r", code=2).err
    assert "copy-gru-seed1.json is damaged" in error


def test_the_other_tasks(command):
    words = ["--models", "min_gru", "--tasks", "parentheses,characters", "--seeds", "0"]
    done = command(*COMPARE, *words, "--run", "r", "--json")
    scores = json.loads(done.out)["scores"]
    assert 0 <= scores["parentheses"]["min_gru"][0] <= 1
    assert 5 < scores["characters"]["min_gru"][0] < 9  # bits, untrained


def test_sentences():
    def scores(elman, gru):
        return {
            "copy": {"lstm": [0.5, 0.6], "gru": gru, "elman": elman},
            "forecast": {"lstm": [2.0, 2.1], "gru": [2, 2], "elman": [1.0, 1.1]},
        }

    said = cells.sentences(scores([0.9, 0.8], [0.1, 0.2]))
    assert said[0] == "elman beats both lstm and gru on 2 of 2 tasks (copy, forecast)."
    assert said[1].startswith("elman does so on all tasks")
    said = cells.sentences(scores([0.9, 0.8], [0.85, 0.85]))
    assert said[0] == "elman beats both lstm and gru on 1 of 2 tasks (forecast)."
    assert said[1].startswith("No cell does so")
    assert cells.sentences({"copy": {"lstm": [1], "elman": [2]}}) == []


def test_scores():
    y, logits = np.array([[0, 1, 2]]), np.zeros((1, 3, 3))
    logits[0, 1, 1] = 3
    assert cells.TASKS["copy"].score(y, logits) == 0.5  # 0 needs no answer
    bits = cells.TASKS["characters"].score(y[:, :1], logits[:, :1])
    assert bits == pytest.approx(np.log2(3))
    assert cells.TASKS["forecast"].score(y, y + 2) == 4
    rows = cells.characters(5, seed=1)
    np.testing.assert_array_equal(rows.x[:, 1:], rows.y[:, :-1])


def test_errors(refused):
    assert "unknown task" in refused(*COMPARE, "--tasks", "copying")
    assert "unknown model" in refused(*COMPARE, "--models", "transformer")
    line = refused(*COMPARE, "--parameters", "100", "--run", "r")
    assert "--parameters: elman on parentheses" in line
