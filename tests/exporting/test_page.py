"""The program of the how-to page reads a classifier without Keras."""

import json
import re

import keras
import pytest

from kerasseq import models
from kerasseq.exporting import writing
from kerasseq.text import CharacterTokenizer
from tests.processes import ROOT, run_python

PAGE = ROOT / "docs" / "pages" / "en" / "howto" / "export.md"
TEXTS = ["Andersen", "Rossi"]

pytestmark = [
    pytest.mark.once("a file of PyTorch, which any runtime reads"),
    pytest.mark.filterwarnings("ignore"),  # of PyTorch's tracers about themselves
]


def test_the_program_on_the_page(tmp_path):
    if keras.backend.backend() != "torch":
        pytest.skip("the file is written on PyTorch")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    page = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"python - <<'EOF'\n(.*?)EOF\n", page, re.DOTALL)
    assert 10 <= len(program.splitlines()) <= 20 and "keras" not in program
    tokenizer = CharacterTokenizer().fit(TEXTS)
    model = models.SequenceClassifier(
        "gru", ["Danish", "Italian", "French"], tokenizer=tokenizer, units=5
    )
    folder = tmp_path / "classifier"
    folder.mkdir()
    options = {"format": "onnx", "length": 9, "max_characters": 4}
    assert writing.write_model(model, folder, **options)["length"] == 9
    content = json.loads((folder / "preprocessing.json").read_text())
    assert content["max_characters"] == 4
    done = run_python(program, only=(), cwd=tmp_path)
    wanted = [each.label for each in model.classify([text[:4] for text in TEXTS])]
    assert done.stdout.strip() == str(wanted)
