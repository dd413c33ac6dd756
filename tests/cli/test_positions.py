"""`kerasseq positions`."""

import json

import pytest

from kerasseq import layers
from kerasseq.cli import positions
from kerasseq.positions.base import AttentionPosition, PositionEncoding
from tests.layer_checks import LAYERS

pytestmark = pytest.mark.once("the command line")


def test_table(command):
    done = command("positions", "--sequence-length", 16, "--hidden-size", 8)
    lines = {
        words[0]: words[1:] for words in map(str.split, done.out.splitlines()) if words
    }
    sine = ["yes", "0.66", "yes", "0.00", "yes", "256", "yes", "yes", "0.00"]
    assert lines["sine"] == sine
    assert lines["binary"][2] == "no" and lines["rotary"][6:8] == ["no", "3,5"]
    assert "Encodings of 16 positions, 8 features" in done.out


def test_json(command):
    found = json.loads(
        command("positions", "--sequence-length", 16, "--hidden-size", 8, "--json").out
    )
    assert found["length"] == 16 and found["width"] == 8
    assert found["layers"]["amplitude"]["unique"] == {"holds": True, "value": 8**0.5}
    assert found["layers"]["rotary"]["width"] == {"holds": False, "value": [3, 5]}


def test_every_position_layer_is_shown():
    shown = {type(layer).__name__ for layer in positions.make_layers(5).values()}
    known = {
        name
        for name in LAYERS
        if issubclass(getattr(layers, name), (PositionEncoding, AttentionPosition))
        and getattr(layers, name) is not AttentionPosition
        and name != "DisentangledPosition"  # has no relation without contents
    }
    assert shown == known


def test_figure_is_drawn_if_matplotlib_is_installed(command, monkeypatch, tmp_path):
    file = tmp_path / "positions.png"
    words = ("positions", "--sequence-length", 16, "--hidden-size", 8, "--figure", file)
    assert "matplotlib is not installed" in command(*words, code=2).err
    assert not file.exists()
    monkeypatch.undo()
    done = command(*words)
    assert f"Figure: {file}" in done.out and file.read_bytes()[1:4] == b"PNG"


def test_wrong_sizes(refused):
    assert "an integer of at least 2, received 1" in refused("positions", "--length", 1)
    for words in (["--width", 7], ["--length", 65, "--width", 6]):
        assert "--hidden-size must be even" in refused("positions", *words)
