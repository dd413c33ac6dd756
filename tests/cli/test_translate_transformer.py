"""`kerasseq train translation --model transformer`."""

import argparse
import json
import re

import pytest

from kerasseq.cli import translation
from kerasseq.text import CharacterTokenizer
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

TINY = ["train", "translation", "--model", "transformer", "--data", "sort", "--units",
        "6", "--num-layers", "1", "--steps", "3", "--checkpoint-every",
        "2"]  # fmt: skip


def test_train_and_translate(command, refused, tmp_path, monkeypatch):
    monkeypatch.setitem(translation.PRESETS, "quick", (5, 60))
    done = command(*TINY, "--run", "runs/t", "--json")
    results = json.loads(done.out)
    assert results["model"] == "transformer" and results["tested"] == 3
    record = json.loads((tmp_path / "runs/t/run.json").read_text())
    assert record["arguments"]["learning_rate"] == 2e-3
    assert "exact matches" in done.err
    assert command("translate", "a b", "--length", "3", "--beam-width", "2").out
    assert "finished" in command("train", "--resume", "runs/t").out
    monkeypatch.setattr("kerasseq.cli.figures.available", lambda: True)
    done = command("inspect", "runs/t", "--output-dir", "o")
    assert re.search(r"Translation\n.*source .*translation", done.out, re.DOTALL)
    assert set(snapshot(tmp_path / "o")) == {"alignment.png"}
    wrong = refused(*TINY, "--attention", "luong", "--run", "runs/u")
    assert "--attention is for recurrent models" in wrong


def test_a_wavenet_encodes_for_a_gru():
    sizes = {"model": "wavenet", "units": 6, "num_layers": 1, "learning_rate": 1e-3}
    settings = argparse.Namespace(**translation.DEFAULTS | sizes)
    model = translation.build(settings, 2 * [CharacterTokenizer().fit("ab")])
    names = [layer.name for layer in model.decoder.recurrent_layers]
    assert names == ["gru"] and model.get_layer("bidirectional_wavenet")


def test_help_shows_the_defaults_of_both_kinds(command):
    out = " ".join(command("train", "translation", "--help").out.split())
    assert "(default: 1; for transformer 2)" in out
    assert "(default: 0.004; for transformer 0.002)" in out
