"""Every tokenizer serves a language model, and is saved inside its file."""

import pytest

import kerasseq
from kerasseq import models, text

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
