"""What an editor knows: annotations of the package, and names of lazy namespaces."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.once("a type checker reads the source")

LEAST = 0.99  # part of the names of all modules whose types are known
USES = """
import kerasseq
from typing import assert_type
import numpy as np
from kerasseq.rnn.lstm import LSTM
from kerasseq.models.gpt.gpt import GPT
from kerasseq.models.seq2seq.translation import Translation
from kerasseq.tasks.class_labels import Classification
from kerasseq.tasks.labels import Label

assert_type(kerasseq.layers.LSTM(3), LSTM)
assert_type(kerasseq.models.GPT(vocabulary_size=3), GPT)
tokenizer = kerasseq.text.WordTokenizer().fit("to be")
assert_type(tokenizer.encode("be"), np.ndarray)
assert_type(tokenizer.encode(["be"]), list[np.ndarray])
assert_type(tokenizer.decode([1]), str)
assert_type(tokenizer.decode([[1]]), list[str])
model = kerasseq.models.GPT(tokenizer)
assert_type(model.generate("to", 3, top_k=2), str)
assert_type(model.generate(["to", "be"]), list[str])
kerasseq.models.LanguageModel("gru", tokenizer=tokenizer).generate("to").upper()
translator = kerasseq.models.Seq2Seq("gru")
assert_type(translator.translate("to"), Translation)
assert_type(translator.translate(["to"], alignments=False), list[Translation])
classifier = kerasseq.models.SequenceClassifier("gru", tokenizer=tokenizer)
assert_type(classifier.classify("to"), Classification)
assert_type(classifier.classify(["to", "be"]), list[Classification])
tagger = kerasseq.models.SequenceTagger("gru", tokenizer=tokenizer)
assert_type(tagger.tag("to be"), list[Label])
assert_type(tagger.tag([["to", "be"], ["or"]], batch_size=2), list[list[Label]])
strings = tagger.tag(["to", "be"])  # of words, or of texts
assert_type(strings, list[Label] | list[list[Label]])
bert = kerasseq.models.BERT(kerasseq.text.WordPieceTokenizer(), head="tag")
assert_type(bert.tag("to be"), list[Label])
kerasseq.models.ViT(3, image_size=4, patch_size=2).classify("cat.png").label
model.generate(prompts="to")
model.generate([1, 2]).tolist()
"""


def pyright(*arguments, folders=(str(ROOT),)):
    """The report of basedpyright, which is pyright with its own Node.js."""
    program = shutil.which("basedpyright") or f"{sys.prefix}/bin/basedpyright"
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program, "--pythonpath", sys.executable, "--outputjson", *map(str, arguments)],
        cwd=ROOT,
        # An editable installation is found by a hook that type checkers do not run, and
        # --verifytypes asks the first python of PATH where packages are.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PATH": path},
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_types_of_the_package_are_known():
    # Classes derived from those of Keras and Rich count as unknown: the checker reads
    # stubs only. Those in `tests/stubs` name the base classes.
    folders = (str(ROOT), str(ROOT / "tests" / "stubs"))
    words = ("--verifytypes", "kerasseq", "--ignoreexternal")
    report = pyright(*words, folders=folders)
    found = report["typeCompleteness"]
    assert found["completenessScore"] >= LEAST


def test_names_of_lazy_namespaces_resolve(tmp_path):
    program = tmp_path / "uses.py"
    program.write_text(USES)
    report = pyright(program)
    errors = [d for d in report["generalDiagnostics"] if d["severity"] == "error"]
    assert not errors
