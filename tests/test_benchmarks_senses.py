"""The benchmarks of words in context and of roles: they run, and read their bars."""

import argparse
import math

import numpy as np
import pytest

from benchmarks import roles, senses
from kerasseq import datasets, models, text

pytestmark = pytest.mark.full("other tests check the code that benchmarks run")


def options(tmp_path, **given):
    given = {"out": tmp_path / "out.jsonl", "seeds": "0", **given}
    return argparse.Namespace(part=(1, 1), minutes=9.0, **given)


def test_senses(monkeypatch, tmp_path):
    for name, value in (("PROBED", 48), ("WIDTH", 8), ("HEADS", 2), ("BLOCKS", 1)):
        monkeypatch.setattr(senses, name, value)
    monkeypatch.setattr(senses, "TESTED", 16)
    given = {"names": "transformer,gru", "languages": "en", "neutral": 2, "steps": 3}
    given = options(tmp_path, **given)
    found = senses.run(given)
    assert found["finished"] == "2 of 2" and found["outside of bars"] == "none"
    first, second = found["table"]
    assert first["probe before"] == second["probe before"] == "0.500"
    assert first["all states"] == "nan" and 0 <= float(second["all states"]) <= 1
    monkeypatch.setattr(senses, "measure", None)  # not called for what is finished
    assert senses.run(given) == found


def test_bars_of_senses():
    figures = {key: high for key, (_, high) in senses.BARS.items()}
    row = {"name": "gru", "language": "en", "seed": 7, "neutral": 0, "steps": 200}
    row["figures"] = figures
    assert senses.outside(row) == ""
    row["figures"] = {**figures, "swap": 0.5, "probe before": 0.501}
    assert senses.outside(row) == "gru 7: probe before, swap"
    assert senses.outside({**row, "name": "mamba"}) == "mamba 7: probe before"
    assert senses.outside({**row, "neutral": 2}) == ""


def test_roles(tmp_path):
    found = roles.run(options(tmp_path, steps=2, position="learned"))
    rows = {row["role"]: row for row in found["table"]}
    assert [*rows] == [*datasets.role_sentences(1)[0].edges]
    assert rows["pronoun to noun"]["bars"] == "missed"
    assert {row["bars"] for row in rows.values()} == {"missed", ""}
    best = {"layer": "block_1/x", "head": 2, "score": 0.95, "effect": 2.0}
    best |= {"median": 0.1, "rank": 1, "loss": 0.2}
    assert roles.flat(0, "pronoun to noun", best)["bars"] == "reached"
    assert roles.flat(0, "induction", best)["bars"] == ""


def test_weights_of_roles_are_on_nouns_verbs_and_adverbs():
    sentences = datasets.role_sentences(50)
    tokenizer = text.WordTokenizer().fit(sentence.text for sentence in sentences)
    model = models.GPT(tokenizer, num_layers=1, num_heads=1, hidden_dim=2)
    x, y, weights = roles.batches(model, sentences)
    words = np.array(tokenizer.vocabulary)
    assert {*words[y[weights == 1]]}.isdisjoint({"the", ".", "he", "she", "meets"})
    assert {"king", "queen"} <= {*words[y[weights == 1]]}
    lengths = [len(sentence.text.split()) for sentence in sentences]
    np.testing.assert_array_equal((weights > 0).sum(axis=1) + 1, lengths)
    np.testing.assert_array_equal(x[:, 1:], y[:, :-1])
    losses = roles.of_roles(model, sentences, ["induction"])
    assert math.isclose(losses["induction"], math.log(len(words)), rel_tol=0.1)
