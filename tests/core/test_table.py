"""Reports and tables in a notebook: HTML, with all text of data escaped."""

import re
import xml.etree.ElementTree

import numpy as np
import pytest

import kerasseq
from kerasseq.text import Eliza
from kerasseq.training import label_report

pytestmark = pytest.mark.once("text only")


def cells(shown):
    tree = xml.etree.ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def test_reports_and_tables_in_a_notebook():
    tags = ["B-<b>", "O", "O"]
    report = label_report([tags], [tags])
    shown = cells(report)
    assert shown[0] == ["", "precision", "recall", "f1-score", "support"]
    assert shown[1] == ["B-<b>", "1.000", "1.000", "1.000", "1"]
    assert ["<b>", "1.000", "1.000", "1.000", "1"] in shown  # of the entities
    assert "accuracy 1.000" in report._repr_html_()
    counted = kerasseq.models.count("gpt3")
    assert [re.split(r"  +", line) for line in str(counted).splitlines()[:-1]] == cells(
        counted
    )
    assert "27,938 matrices" in counted._repr_html_()
    assert ["gpt3", "GPT-3", "decoder", "96", "96", "12288"] in cells(
        kerasseq.models.architectures
    )
    eliza = Eliza()
    eliza.reply("<script>alert(1)</script>")
    assert cells(eliza.trace)[0] == ["you said", "<script>alert(1)</script>"]
    layer = kerasseq.layers.MinGRU(3)
    with kerasseq.tracing.trace(layer) as inside:
        layer(np.ones((2, 7, 5)))
    assert ["update_gate", "(2, 7, 3)"] in cells(inside)


def test_reports_of_files_in_a_notebook(tmp_path):
    (tmp_path / "p.txt").write_text("Go.\tVa !\n\n<no tab>\n", encoding="utf-8")
    _, report = kerasseq.datasets.read_pairs(tmp_path / "p.txt")
    assert cells(report)[0][1:] == ["lines", "the first"]
    assert cells(report)[1:] == [
        ["kept as pairs", "1", ""],
        ["blank", "1", ""],
        ["no tab", "1", "3: '<no tab>'"],
    ]
    files, notes = {"model.onnx": 1234}, ("<b> rounds",)
    made = kerasseq.exporting.Exported(
        tmp_path, "onnx", "torch", files, None, None, "onnxruntime 1", 0.0, notes, None
    )
    assert cells(made)[1:] == [
        ["model.onnx", "1,234"],
        ["checked by onnxruntime 1", ""],
        ["<b> rounds", ""],
    ]
