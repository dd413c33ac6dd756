"""Every tokenizer serves a language model, and is saved inside its file."""

import json
import pathlib

import pytest
import tokenizers

import kerasseq
from kerasseq import models, text, training
from kerasseq.text.tokenizers.with_tokenizer import tokenizer_from_config
from tests.text.test_huggingface_tokenizer import bert

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

TEXT = "the cat sat on the mat, the rat sat on the cat. " * 5


def of_hugging_face():
    """LLaMA's kind of file, with an added token."""
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁the"]
    tokens += sorted(set(TEXT) - {" "}) + ["th", "the"]
    model = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True}
    model["vocab"] = {token: i for i, token in enumerate(tokens)}
    model["merges"] = [["t", "h"], ["th", "e"], ["▁", "the"]]
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
    added = {"content": "cat", "id": len(tokens), "single_word": True}
    return text.HuggingFaceTokenizer(
        {
            "model": model,
            "added_tokens": [{**added, "normalized": True}],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {**spaces, "split": False},
            "decoder": spaces,
        }
    )


TOKENIZERS = {
    "characters": lambda: text.CharacterTokenizer().fit(TEXT),
    "byte pairs": lambda: text.BytePairTokenizer(270, special_tokens=["<|end|>"]).fit(
        TEXT
    ),
    "characters in pairs": lambda: text.BytePairTokenizer(
        30, level="character", unknown="?"
    ).fit(TEXT),
    "words": lambda: text.WordTokenizer().fit(TEXT),
    "word pieces": lambda: text.WordPieceTokenizer(40).fit(TEXT),
    "Hugging Face": of_hugging_face,
    "longest matches": lambda: text.RWKVTokenizer(
        [b"", *(bytes([n]) for n in range(256)), b"the", b" cat", b"the cat"]
    ),
    "unigrams": lambda: text.UnigramTokenizer(290).fit(TEXT),
}


@pytest.mark.everywhere("saved in a model", cases=1)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_it_is_saved_with_the_model(name, tmp_path):
    tokenizer = TOKENIZERS[name]()
    model = models.LanguageModel("gru", tokenizer, units=3)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.tokenizer == tokenizer
    assert type(loaded.tokenizer) is type(tokenizer)
    written = model.generate("the cat", 3, temperature=0)
    assert loaded.generate("the cat", 3, temperature=0) == written
    assert written.startswith(tokenizer.decode(tokenizer.encode("the cat")))
    assert model.cross_entropy(TEXT) == pytest.approx(loaded.cross_entropy(TEXT))


SIZES = {"num_layers": 1, "hidden_dim": 4}
MODELS = {
    "LanguageModel": lambda t: models.LanguageModel("gru", t, units=3),
    "GPT": lambda t: models.GPT(t, **SIZES, num_heads=2),
    "RWKV": lambda t: models.RWKV(t, **SIZES),
    "Mamba": lambda t: models.Mamba(t, **SIZES),
    "XLSTM": lambda t: models.XLSTM(t, **SIZES),
    "BERT": lambda t: models.BERT(t, **SIZES, num_heads=2),
    "T5": lambda t: models.T5(t, **SIZES, num_heads=2),
    "T5Encoder": lambda t: models.T5Encoder(t, **SIZES, num_heads=2),
    "Seq2Seq": lambda t: models.Seq2Seq("gru", t, t, units=3),
    "Transformer": lambda t: models.Transformer(t, t, **SIZES, num_heads=2),
    "SequenceClassifier": lambda t: models.SequenceClassifier(
        "gru", ["a", "b"], tokenizer=t, units=3
    ),
    "SequenceTagger": lambda t: models.SequenceTagger(
        "gru", ["a", "b"], tokenizer=t, units=3
    ),
    "NGramModel": lambda t: text.NGramModel(2, tokenizer=t).fit("the cat"),
    "MaskedLMMaskGenerator": lambda t: training.MaskedLMMaskGenerator(t),
}


@pytest.mark.once("tokenizers do not depend on the backend")
@pytest.mark.parametrize("name", MODELS)
def test_a_tokenizer_of_the_package_in_a_model(name):
    """Each model reads its ids, and has it in its configuration as one of ours."""
    theirs = of_hugging_face().backend_tokenizer
    if name in ("BERT", "MaskedLMMaskGenerator"):  # with [MASK]; one of ours
        theirs = tokenizers.Tokenizer.from_str(json.dumps(bert()))
    model = MODELS[name](theirs)
    if name == "MaskedLMMaskGenerator":
        assert model.vocabulary_size == theirs.get_vocab_size()
        return
    config = json.loads(json.dumps(model.get_config()))
    names = ("tokenizer", "source_tokenizer", "target_tokenizer")
    found = [tokenizer_from_config(config[key]) for key in names if config.get(key)]
    assert found
    for ours in found:
        assert ours.encode(TEXT).tolist() == theirs.encode(TEXT).ids


@pytest.mark.once("tokenizers do not depend on the backend")
@pytest.mark.parametrize(
    "make",
    [
        lambda path: models.SequenceClassifier("gru", tokenizer=path, units=3),
        lambda path: models.LanguageModel("gru", path, units=3),
        models.GPT,
    ],
)
def test_a_path_in_place_of_a_tokenizer(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for path in ("tokenizer.json", "runs/bpe", "mine", pathlib.Path("mine")):
        with pytest.raises((TypeError, ValueError)) as caught:
            make(path)
        advice = f'Pass kerasseq.text.load_tokenizer("{path}")'
        assert str(caught.value).endswith(advice)
    with pytest.raises((TypeError, ValueError)) as caught:
        make("characters")
    assert '"characters")' not in str(caught.value)


@pytest.mark.once("tokenizers do not depend on the backend")
def test_ours_and_the_same_of_the_package_in_a_model(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(bert()))
    ours = text.load_tokenizer(tmp_path)
    wrapped = text.HuggingFaceTokenizer.from_file(tmp_path / "tokenizer.json")
    texts = ["Déjà  vu 👩‍🚀", "the cat", "e\u0301 北京!"]
    for cls, x in (
        (models.SequenceClassifier, texts),
        (models.SequenceTagger, [each.split() for each in texts]),
    ):
        first, second = (
            cls("gru", ["a", "b"], tokenizer=each, units=3) for each in (ours, wrapped)
        )
        assert (first.encode(x) == second.encode(x)).all()
    second.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.tokenizer == wrapped and loaded.tag(x) == second.tag(x)
