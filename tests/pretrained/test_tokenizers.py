"""The `tokenizer.json` of a folder becomes the tokenizer of its model."""

import json

import pytest
import tokenizers

from kerasseq import models
from kerasseq.positions.rotary import RotaryEmbedding
from tests.pretrained.helpers import LLAMA
from tests.text.huggingface_examples import file, trained
from tests.text.test_huggingface_tokenizer import LLAMA_2, LLAMA_3_PARTS

pytestmark = pytest.mark.once("text: the same on all backends")

CONTENTS = {
    "LLaMA 2": lambda: file(
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
def test_the_tokenizer_of_a_folder(kind, tmp_path):
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
