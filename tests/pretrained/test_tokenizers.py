"""The `tokenizer.json` of a folder becomes the tokenizer of its model."""

import json
import sys

import pytest
import tokenizers

from kerasseq import models
from kerasseq.positions.rotary import RotaryEmbedding
from tests.pretrained.helpers import LLAMA
from tests.text.huggingface_examples import file, trained
from tests.text.test_huggingface_tokenizer import (
    LLAMA_2,
    LLAMA_3_PARTS,
    PUBLISHED,
    llama_2,
)

pytestmark = pytest.mark.once("text: the same on all backends")

CONTENTS = {
    "LLaMA 2": llama_2,
    "LLaMA 2 with a word": lambda: file(
        trained("sentencepiece"),
        {"content": "<m>", "single_word": True, "lstrip": True},
        **LLAMA_2,
    ),
    "LLaMA 3": lambda: file(
        {**trained("bytes"), "ignore_merges": True},
        {"content": "<|end|>", "special": True},
        **LLAMA_3_PARTS,
    ),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_the_tokenizer_of_a_folder(kind, tmp_path, monkeypatch):
    content = CONTENTS[kind]()
    peer = tokenizers.Tokenizer.from_str(json.dumps(content))
    sizes = {**LLAMA, "vocabulary_size": peer.get_vocab_size()}
    model = models.GPT(**sizes, position=RotaryEmbedding(500.0))
    models.save_pretrained(model, tmp_path / "one")
    (tmp_path / "one" / "tokenizer.json").write_text(json.dumps(content))
    same = models.from_pretrained(tmp_path / "one")
    for text in ["the cat  é北", " <m> a<m>b", "\n", "x<|end|>y"]:
        assert same.tokenizer.encode(text).tolist() == peer.encode(text).ids
    models.save_pretrained(same, tmp_path / "two")
    again = models.from_pretrained(tmp_path / "two")
    assert again.tokenizer == same.tokenizer
    written = again.generate("the cat", 3, seed=0)
    assert written == same.generate("the cat", 3, seed=0)
    assert written.startswith("the cat")
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if not installed
    if kind != "LLaMA 2 with a word":
        assert models.from_pretrained(tmp_path / "one").tokenizer == same.tokenizer
        return
    for name in ("one", "two"):
        with pytest.warns(UserWarning, match="takes ids instead.*`text`: tokenizers"):
            assert models.from_pretrained(tmp_path / name).tokenizer is None


def test_a_model_with_more_ids_than_its_tokenizer(tmp_path):
    """As T5 and other models, whose numbers of ids are multiples of 64 or 128."""
    content = PUBLISHED["T5"][1]()
    peer = tokenizers.Tokenizer.from_str(json.dumps(content))
    size = peer.get_vocab_size()
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "published_ids": True}
    models.save_pretrained(models.T5(vocabulary_size=size + 3, **sizes), tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    model = models.from_pretrained(tmp_path)
    assert model.tokenizer.vocabulary_size == size + 3
    text = "the ﬁrst cat"
    assert model.tokenizer.encode(text).tolist() == peer.encode(text).ids
    assert model.tokenizer.vocabulary[-1] == f"<unused_{size + 2}>"
    assert isinstance(model.translate(text).text, str)
