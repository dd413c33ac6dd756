"""The example that reads digits runs, tiny, and says how many were right."""

import runpy

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.once("an example: its model is tested everywhere")


def test_digits(tmp_path, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    example = runpy.run_path(str(ROOT / "examples" / "digits_vit.py"))
    figure = tmp_path / "digits.png"
    tiny = ["--epochs", "1", "--hidden-dim", "8", "--images", "40"]
    tiny += ["--layers", "1"]
    example["main"]([str(figure), *tiny])
    assert "of 8 held-out digits right" in capsys.readouterr().out
    assert figure.stat().st_size > 1000
