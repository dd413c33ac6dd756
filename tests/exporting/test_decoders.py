"""Prompt and step as ONNX programs, and the loop over them that needs no Keras."""

import contextlib
import io
import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from kerasseq import exporting, kernels, models
from kerasseq.exporting import decoder_steps, decoders, formats, writing
from kerasseq.text import BytePairTokenizer, CharacterTokenizer
from tests.processes import ROOT
from tests.test_examples import load

pytestmark = [
    pytest.mark.everywhere("the programs are written on TensorFlow"),
    pytest.mark.filterwarnings("ignore"),  # of TensorFlow about itself
]
TEXT = "the cat sat on the mat, and the dog saw the cat. a cow saw the moon. " * 5
PROMPTS = ["the cat", "a cow saw the", "and"]  # of unequal length
NEW = 31
LLAMA = {
    "position": "rope",
    "norm": "rms",
    "feed_forward": "geglu",
    "use_bias": False,
    "num_key_value_heads": 1,
}


@pytest.fixture(autouse=True)
def _on_tensorflow():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the programs are written on TensorFlow")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")


def byte_pairs():
    return BytePairTokenizer(277, pattern="gpt2").fit(TEXT)


def shuffled(model, scale=0.3):
    """The model, with weights that leave no part without effect."""
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        base = 1.0 if len(weight.shape) == 1 else 0.0
        weight.assign(base + scale * rng.normal(size=weight.shape))
    return model


def gpt(**options):
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 12}
    return models.GPT(byte_pairs(), **sizes, max_sequence_length=53, **options)


def exported(model, folder):
    """What `write_model` returns for the format onnx."""
    folder.mkdir()
    return writing.write_model(model, folder, format="onnx")


def printed(folder, count, *prompts):
    """What the loop without Keras prints."""
    script = load("generate_without_keras")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        script.main(str(folder), str(count), *prompts)
    return out.getvalue()


def written_ids(folder, rows, count):
    """Greedy ids by the programs, of rows of ids of unequal length."""
    programs = decoder_steps.Programs(folder)
    lengths = np.array([len(row) for row in rows])
    ids = np.zeros((len(rows), lengths.max()), "int64")
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    capacity = np.array(lengths.max() + count)
    inputs = {"ids": ids, "lengths": lengths, "capacity": capacity}
    tokens = [programs.prompt(inputs).argmax(axis=-1)]
    while len(tokens) < count:
        tokens.append(programs.step(tokens[-1]).argmax(axis=-1))
    return np.stack(tokens, axis=1)


def check_text(model, folder):
    """The loop writes what `generate` writes, for one prompt and for three."""
    for prompts in (PROMPTS[:1], PROMPTS):
        expected = model.generate(prompts, NEW, sampler="greedy")
        assert printed(folder, NEW, *prompts) == "".join(f"{x}\n" for x in expected)


def test_the_loop_without_keras_writes_the_text_of_generate(tmp_path):
    model = shuffled(gpt(**LLAMA))
    found = exported(model, tmp_path / "gpt")
    assert set(found["files"]) == {
        *("prompt.onnx", "step.onnx", "generation.json", "tokenizer.json"),
    }
    assert found["length"] is None and found["difference"] < 1e-5
    assert found["checked_by"].startswith("onnxruntime")
    check_text(model, tmp_path / "gpt")
    for rows in ([[7, 3, 5]], [[7, 3, 5], [2, 9, 4, 1, 8, 6, 10], [11]]):
        ids = written_ids(tmp_path / "gpt", rows, NEW)
        texts = model.generate([model.tokenizer.decode(r) for r in rows], NEW, top_k=1)
        own = [model.tokenizer.decode([*r, *i]) for r, i in zip(rows, ids, strict=True)]
        assert own == texts
    settings = tmp_path / "gpt" / "generation.json"
    known = {**json.loads(settings.read_text()), "context_length": 9}
    settings.write_text(json.dumps(known))
    with pytest.raises(ValueError, match="ends at 9 tokens, not 1[0-9]"):
        printed(tmp_path / "gpt", 8, *PROMPTS[:1])
    lines = (ROOT / "examples" / "generate_without_keras.py").read_text().splitlines()
    assert len(lines) <= 40 and not any("keras" in x for x in lines[7:])


@pytest.mark.parametrize(
    "words, message",
    [
        (["nowhere", "4", "a"], "No such file or directory: 'nowhere/generation.json'"),
        ([], "missing 2 required positional arguments: 'folder' and 'count'"),
    ],
)
def test_the_loop_says_what_is_wrong(words, message):
    script = ROOT / "examples" / "generate_without_keras.py"
    words = [sys.executable, str(script), *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not done.stdout
    assert message in done.stderr and "Traceback" not in done.stderr
    assert "the FOLDER of kerasseq export, a COUNT, each TEXT" in done.stderr


def test_a_recurrent_encoder_decoder_with_attention(tmp_path):
    letters = CharacterTokenizer(unknown=None).fit("abcdef")
    model = models.Seq2Seq("gru", letters, byte_pairs(), units=7, input_feeding=True)
    shuffled(model)
    found = exported(model, tmp_path / "pairs")
    assert found["difference"] < 1e-5
    settings = json.loads((tmp_path / "pairs" / "generation.json").read_text())
    assert settings["tokenizers"] == ["source_tokenizer.json", "target_tokenizer.json"]
    assert (settings["has_prompt"], settings["end"], settings["offset"]) == (
        False, [model.target_vocabulary.end], model.target_vocabulary.offset,
    )  # fmt: skip
    for sources in (["fade"], ["fade", "be", "decade"]):
        expected = model.generate(sources, max_length=NEW)
        found = printed(tmp_path / "pairs", NEW, *sources)
        assert found == "".join(f"{x}\n" for x in expected)


def test_ids_of_a_model_without_tokenizer(tmp_path):
    model = shuffled(models.LanguageModel("lstm", vocabulary_size=13, units=7))
    found = exported(model, tmp_path / "lstm")
    assert found["difference"] < 1e-5
    settings = json.loads((tmp_path / "lstm" / "generation.json").read_text())
    assert settings["tokenizers"] is None and settings["context_length"] is None
    for rows in ([[5, 1]], [[7, 3, 5], [2, 9, 4, 1, 8, 6, 10], [11]]):
        ids = written_ids(tmp_path / "lstm", rows, NEW)
        expected = model.generate(rows, NEW, sampler="greedy")
        np.testing.assert_array_equal(ids, [x[-NEW:] for x in expected])


RECURRENT = ("peephole_lstm", "min_gru", "slstm", "gla", "mamba", "rwkv4")
OTHERS = {
    **{name: name for name in (*RECURRENT, "transformer")},
    "Mamba": lambda: models.Mamba(vocabulary_size=13, num_layers=1, hidden_dim=8),
    "alibi": lambda: gpt(position="alibi"),
    "sliding window": lambda: gpt(position="rope", sliding_window=3),
    "Transformer": lambda: models.Transformer(
        source_vocabulary_size=11, target_vocabulary_size=13, num_layers=1,
        num_heads=2, hidden_dim=8,
    ),
    "T5": lambda: models.T5(
        vocabulary_size=13, num_layers=1, num_heads=2, hidden_dim=8
    ),
    "BART": lambda: models.BART(
        vocabulary_size=13, num_layers=1, num_heads=2, hidden_dim=8
    ),
}  # fmt: skip


@pytest.mark.full("each converts operations of its own", cheap=False)
@pytest.mark.parametrize("name", OTHERS)
def test_other_models(name, tmp_path):
    make = OTHERS[name]
    if isinstance(make, str):
        model = models.LanguageModel(make, vocabulary_size=13, units=8)
    else:
        model = make()
    found = exported(shuffled(model, 0.1), tmp_path / "model")
    assert found["difference"] < 1e-5


@pytest.mark.full("training", cheap=False)
@pytest.mark.parametrize("kind", ["gpt", "lstm"])
def test_a_trained_model(kind, tmp_path):
    keras.utils.set_random_seed(0)
    if kind == "gpt":
        model = gpt()
    else:
        model = models.LanguageModel("lstm", byte_pairs(), units=31)
    model.fit(TEXT * 4, sequence_length=31, epochs=3, verbose=0)
    exported(model, tmp_path / "model")
    check_text(model, tmp_path / "model")


@pytest.mark.full("no other operation is refused", cheap=False)
def test_what_onnx_has_no_operations_for(tmp_path):
    """S4D computes with complex numbers."""
    model = models.LanguageModel("s4d", vocabulary_size=13, units=8)
    found = exported(model, tmp_path / "s4d")
    assert "Real] is not supported" in found["error"]
    assert not list((tmp_path / "s4d").iterdir())


def test_wrong_programs_are_not_left(tmp_path, monkeypatch):
    model = models.LanguageModel("gru", vocabulary_size=13, units=3)

    def write(model, folder, length):
        (folder / "prompt.onnx").write_bytes(b"half")

    monkeypatch.setattr(decoder_steps, "write", write)
    found = exported(model, tmp_path / "gru")
    assert "InvalidProtobuf" in found["error"] or "half" in found["error"]
    assert not list((tmp_path / "gru").iterdir())


def test_models_that_do_not_decode():
    model = models.SequenceClassifier("gru", 2, vocabulary_size=5, units=3)
    with pytest.raises(TypeError, match="received a SequenceClassifier"):
        decoders.decoder_of(model)
    with pytest.raises(ValueError, match="received a GPT with head=None"):
        decoders.decoder_of(gpt(head=None))
    assert formats.format_of("onnx", writing.kind_of(model)).module == "onnx_file"
    body = writing.kind_of(gpt(head=None))  # its forward pass is exported
    assert formats.format_of("onnx", body).module == "onnx_file"
    assert formats.format_of("onnx", writing.kind_of(gpt())).module == "decoder_steps"


def test_options_of_other_formats(tmp_path):
    model = models.LanguageModel("gru", vocabulary_size=13, units=3)
    with pytest.raises(ValueError, match="is not for the format onnx of a LanguageMod"):
        exporting.export_model(model, tmp_path / "out", quantize="int8")
    assert writing._lengths(model, formats.format_of("onnx", "GPT"), 7) == [None]


def test_errors_of_tf2onnx_are_raised():
    import logging

    with pytest.raises(ValueError, match="Erfc is not supported"), kernels.to_onnx():
        logging.getLogger("tf2onnx.tfonnx").error("Erfc is not supported")


def test_a_tokenizer_that_the_package_cannot_hold(tmp_path, monkeypatch):
    """A source of bytes with a mark at the end of words has a file for kerasseq."""
    marked = BytePairTokenizer(30, level="character", end_of_word="_").fit(TEXT)
    model = models.Seq2Seq("gru", marked, byte_pairs(), units=3)
    monkeypatch.setattr(decoder_steps.kernels, "write_onnx", lambda *args: {})
    monkeypatch.setattr(writing, "_is_installed", lambda name: False)
    found = exported(model, tmp_path / "pairs")
    assert found["checked_by"] is None
    assert "source_tokenizer.kerasseq.json" in found["files"]
    assert "target_tokenizer.json" in found["files"]
    (note,) = found["notes"]
    assert "source_tokenizer.kerasseq.json has it, for kerasseq.text" in note
    settings = json.loads((tmp_path / "pairs" / "generation.json").read_text())
    assert settings["tokenizers"] is None
