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
