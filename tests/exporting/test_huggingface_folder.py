"""Folders of Hugging Face, compared with the classes of `transformers`."""

import json

import keras
import pytest

from kerasseq import exporting, models
from kerasseq.exporting import writing
from kerasseq.text import BytePairTokenizer, UnigramTokenizer
from tests.pretrained.helpers import MAKE, SIZES, made, shuffle

pytestmark = [
    pytest.mark.once("the peers are written in PyTorch"),
    pytest.mark.filterwarnings("ignore"),  # of the peers about themselves
]
COMPARED = ("gpt2", "llama", "mamba", "rwkv", "xlstm", "bert_classify", "t5")


@pytest.fixture(autouse=True)
def _peers():
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    pytest.importorskip("transformers")


@pytest.mark.parametrize("name", COMPARED)
def test_its_own_class_reads_the_folder(name, tmp_path):
    found = writing.write_model(made(name), tmp_path, format="huggingface")
    assert found["difference"] < 1e-5
    assert found["checked_by"].startswith("transformers ")
    assert {"config.json", "model.safetensors"} < found["files"].keys()


def test_the_tokenizer_of_transformers_reads_the_folder(tmp_path):
    import transformers

    text = "the cat sat on the mat, and the dog saw the cat"
    tokenizer = BytePairTokenizer(270).fit(text)
    model = models.GPT(tokenizer, max_sequence_length=13, **SIZES)
    shuffle(model.trainable_weights)
    found = exporting.export_model(model, tmp_path / "gpt", "huggingface")
    assert found.difference < 1e-5 and found.backend == "torch"
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "gpt")
    ids = theirs("a mat sat")["input_ids"]
    assert ids == tokenizer.encode("a mat sat").tolist()
    config = json.loads((tmp_path / "gpt" / "config.json").read_text())
    assert config["n_ctx"] == config["n_positions"] == 13
    same = models.from_pretrained(tmp_path / "gpt")
    assert same.tokenizer == tokenizer


def bert(tokenizer, **options):
    return models.BERT(tokenizer, **SIZES, max_sequence_length=13, **options)


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXT = "the cat sat on the mat"
READERS = {
    "bert": (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], bert, {}),
    "roberta": (
        ROBERTA,
        bert,
        {"pair_separators": 2, "num_segments": 1, "activation": "gelu"},
    ),
    "t5": (["<pad>", "</s>", "<unk>"], models.T5, {"published_ids": True}),
    "bart": (ROBERTA, models.BART, {}),
}


@pytest.mark.parametrize("name", READERS)
def test_a_text_has_the_marks_that_the_model_reads(name, tmp_path):
    import transformers

    special, make, options = READERS[name]
    tokenizer = UnigramTokenizer(300, special_tokens=special).fit([TEXT] * 3)
    if make is not bert:
        options = {**options, **SIZES}
    model = make(tokenizer, **options)
    exporting.export_model(model, tmp_path / "folder", "huggingface")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    rows = [theirs(TEXT), theirs("the cat")]
    padded = theirs.pad(rows)["input_ids"]
    ours = model.encode([TEXT, "the cat"])
    ids = ours["ids"] if make is bert else ours[0]
    assert [row[: len(padded[0])] for row in ids.tolist()] == padded
    if make is bert:
        pair, expected = theirs("the cat", "on"), model.encode(("the cat", "on"))
        assert pair["input_ids"] == expected["ids"][0].tolist()
        if name == "bert":
            assert pair["token_type_ids"] == expected["segments"][0].tolist()


def test_an_adapter_is_merged_into_the_folder(tmp_path):
    model = made("bert_classify")
    model.enable_lora(2)
    shuffle(model.trainable_weights)
    found = exporting.export_model(model, tmp_path / "folder", "huggingface")
    assert found.difference < 1e-5 and model.active_adapter == "default"


def test_images_are_written_and_not_compared(tmp_path):
    found = writing.write_model(made("vit"), tmp_path, format="huggingface")
    assert found["checked_by"] is None and found["difference"] is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            MAKE["rwkv7"],
            'no class for a model of the kind rwkv7.*"keras_hub"\\) writes',
        ),
        (
            lambda: models.LanguageModel("gru", vocabulary_size=5, units=3),
            "model must be one of GPT, Mamba, .*, received LanguageModel",
        ),
        (
            lambda: models.GPT(vocabulary_size=5, **SIZES, position="alibi"),
            "for gpt2 it has position='alibi' instead of 'learned'",
        ),
    ],
)
def test_models_that_it_has_no_class_for(make, message, tmp_path):
    with pytest.raises(ValueError, match=message) as error:
        exporting.export_model(make(), tmp_path / "out", "huggingface")
    assert str(error.value).count(" on torch:") == 1  # no other backend is asked
    assert " on tensorflow:" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_without_the_peers_nothing_is_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_is_installed", lambda name: name != "transformers")
    found = writing.write_model(made("llama"), tmp_path, format="huggingface")
    assert found["checked_by"] is None and "config.json" in found["files"]
