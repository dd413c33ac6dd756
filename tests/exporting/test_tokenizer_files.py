"""A `tokenizer.json` has the ids of its tokenizer, in the package `tokenizers`."""

import json

import pytest

from kerasseq import text
from kerasseq.exporting import companions
from kerasseq.exporting.tokenizer_files import differences, tokenizer_json

pytestmark = pytest.mark.once("files of tokenizers")

TRAINING = [
    "the quick brown fox jumps over the lazy dog, 42 times!",
    "Don't say no; été déjà vu.\nLine two",
] * 5
SENTENCES = {"level": "sentencepiece"}
TOKENIZERS = {
    "characters": text.CharacterTokenizer(),
    "characters without unknown": text.CharacterTokenizer(unknown=None),
    "words": text.WordTokenizer(),
    "words in lowercase": text.WordTokenizer(lowercase=True, special_tokens=["<s>"]),
    "bytes": text.BytePairTokenizer(300),
    "bytes gpt4": text.BytePairTokenizer(
        300, pattern="gpt4", special_tokens=["<|end|>"]
    ),
    "some bytes": text.BytePairTokenizer(90, pattern="spaces", all_bytes=False),
    "pairs of characters": text.BytePairTokenizer(
        60, level="character", unknown="<unk>"
    ),
    "marks": text.BytePairTokenizer(330, pattern="none", **SENTENCES),
    "marks and words": text.BytePairTokenizer(330, **SENTENCES),
    "pieces": text.WordPieceTokenizer(100),
    "pieces with case": text.WordPieceTokenizer(100, lowercase=False),
    "unigrams": text.UnigramTokenizer(340),
    "unigrams as Hugging Face": text.UnigramTokenizer(340, lossless=False),
    "unigrams without bytes": text.UnigramTokenizer(100, byte_fallback=False),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_are_those_of_the_tokenizer(name):
    package = pytest.importorskip("tokenizers")
    tokenizer = TOKENIZERS[name].fit(TRAINING)
    content = tokenizer_json(tokenizer)
    built = package.Tokenizer.from_str(json.dumps(content))
    for line in TRAINING[:2]:
        found = built.encode(line, add_special_tokens=False).ids
        assert found == tokenizer.encode(line).tolist()


def test_what_the_format_cannot_hold_is_not_written(tmp_path):
    options = {"level": "character", "end_of_word": "_"}
    tokenizer = text.BytePairTokenizer(60, **options).fit(TRAINING)
    assert tokenizer_json(tokenizer) is None
    pytest.importorskip("tokenizers")
    other = text.CharacterTokenizer().fit(TRAINING)
    content = tokenizer_json(other)
    content["model"]["vocab"] = {"a": 0, "\ufffd": 1}
    assert differences(other, content) is not None


class Model:
    """What `companions` reads of a model of texts."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer


def test_another_tokenizer_is_written_as_our_own(tmp_path, monkeypatch):
    options = {"level": "character", "end_of_word": "_"}
    model = Model(text.BytePairTokenizer(60, **options).fit(TRAINING))
    monkeypatch.setattr(companions, "_interface", lambda *_: {})
    monkeypatch.setattr(companions, "_preprocessing", lambda _: {})
    (note,) = companions.write(model, tmp_path, None)
    assert "tokenizer.kerasseq.json" in note
    loaded = text.load_tokenizer(tmp_path / "tokenizer.kerasseq.json")
    assert loaded == model.tokenizer
