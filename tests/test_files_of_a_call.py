"""How many files of the package a call runs through: few, so that it is soon read."""

import pathlib
import sys

import keras
import pytest

import kerasseq
import kerasseq.cli

pytestmark = pytest.mark.everywhere("each backend has files of its own")

HOME = str(pathlib.Path(kerasseq.__file__).parent)


def files_of(call):
    """The files of kerasseq whose functions run in a call, after a first call."""
    call()
    found = set()

    def collect(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOME):
            found.add(name.removeprefix(HOME))

    sys.setprofile(collect)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(found)


def test_a_recurrent_layer_runs_through_few_files():
    layer = kerasseq.layers.PeepholeLSTM(3, return_sequences=True)
    x = keras.ops.ones((2, 7, 5))
    files = files_of(lambda: layer(x))
    # The equation is in one of them; the loop that is derived from it, in the others.
    own = {"torch": 4, "tensorflow": 1, "jax": 0}[keras.backend.backend()]
    assert {"/rnn/lstm.py", "/rnn/loop.py", "/kernels/recurrence.py"} <= {*files}
    assert len(files) <= 14 + own, files


def test_attention_runs_through_few_files():
    layer = kerasseq.layers.MultiHeadAttention(2, 3)
    x = keras.ops.ones((2, 7, 5))
    files = files_of(lambda: layer(x, x, use_causal_mask=True))
    assert "/attention/multi_head.py" in files
    assert len(files) <= 8, files


SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8}
WORDS = ("fine", "dull", "warm", "cold")
SIZES = {"source_vocabulary_size": 11, "target_vocabulary_size": 13}
TOKENIZER = kerasseq.text.CharacterTokenizer().fit(["to be or not"])
MODELS = {
    "GPT": lambda: kerasseq.models.GPT(TOKENIZER, **SMALL),
    "GPT of ids": lambda: kerasseq.models.GPT(vocabulary_size=11, **SMALL),
    "Transformer": lambda: kerasseq.models.Transformer(**SIZES, **SMALL),
    "Seq2Seq": lambda: kerasseq.models.Seq2Seq("gru", **SIZES, units=3),
}


@pytest.mark.parametrize(("name", "prompt"), [("GPT", "to be"), ("GPT of ids", [3, 1])])
def test_generation_runs_through_few_files(name, prompt):
    model = MODELS[name]()
    files = files_of(lambda: model.generate(prompt, max_new_tokens=20))
    assert "/decoding/loop.py" in files
    assert len(files) <= 20, files


@pytest.mark.parametrize("name", ["Transformer", "Seq2Seq"])
def test_translation_runs_through_few_files(name):
    model = MODELS[name]()
    files = files_of(lambda: model.translate([[3, 1, 5]]))
    assert "/decoding/loop.py" in files
    assert len(files) <= 22, files


def test_fit_runs_through_few_files():
    x, y = ["ja", "nein"] * 8, ["yes", "no"] * 8
    model = kerasseq.models.SequenceClassifier("gru", tokenizer="character", units=3)
    files = files_of(lambda: model.fit(x, y, verbose=0))
    assert {"/tasks/base.py", "/tasks/fit_call.py", "/training/batches.py"} <= {*files}
    # PyTorch runs the layer in each step, the others a compiled program of it.
    most = {"torch": 41, "tensorflow": 24, "jax": 24}[keras.backend.backend()]
    assert len(files) <= most, files


@pytest.mark.once("the command line")
def test_the_command_runs_through_few_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kerasseq.cli.figures.available", lambda: False)
    rows = [
        f"{kind},a {word} film" for kind, word in zip("ab" * 6, WORDS * 3, strict=True)
    ]
    pathlib.Path("films.csv").write_text("\n".join(["label,text", *rows]))
    words = ["train", "classify", "--file", "films.csv", "--model", "bag"]
    words += ["--steps", "2", "--tokenizer", "word", "--units", "3"]
    codes = []
    files = files_of(lambda: codes.append(kerasseq.cli.main(words)))
    assert codes == [0, 0]
    of_command = [name for name in files if name.startswith("/cli/")]
    assert {"/cli/train.py", "/cli/run.py", "/cli/classify.py"} <= {*of_command}
    assert len(of_command) <= 16, of_command
    # What the command calls around the `fit` of the model.
    around = ("/cli/", "/core/", "/datasets/", "/training/")
    assert len([name for name in files if name.startswith(around)]) <= 38, files
    assert len(files) <= 73, files
