"""A model of SentencePiece without a `tokenizer.json`: ids of the package, layouts."""

import io
import json
import random
import sys
import unicodedata

import pytest

from kerasseq import models
from kerasseq import text as kt
from kerasseq.text import load_tokenizer
from kerasseq.text.tokenizers.sentencepiece_file import FILES
from tests.text.huggingface_examples import ATOMS, CORPUS

sentencepiece = pytest.importorskip("sentencepiece")

pytestmark = pytest.mark.once("text: independent of the backend")

PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
BYTES = {"vocab_size": 600, "byte_fallback": True}
LLAMA = {"model_type": "bpe", **BYTES, **PLAIN, "split_digits": True}
SYMBOLS = {"user_defined_symbols": ["<foo>", "the", "th", "▁▁"]}
GEMMA = {**LLAMA, "add_dummy_prefix": False, "user_defined_symbols": ["<a>", "\n"]}
KINDS = {
    "unigrams": {},
    "unigrams with bytes": {**BYTES, **PLAIN},
    "unigrams across spaces": {"split_by_whitespace": False},
    "unigrams and symbols": SYMBOLS,
    "no space at the beginning": {"add_dummy_prefix": False},
    "letters as written": {**PLAIN},
    "lower case": {"normalization_rule_name": "nmt_nfkc_cf"},
    "pairs": {"model_type": "bpe"},
    "pairs and symbols": {"model_type": "bpe", **SYMBOLS},
    "LLaMA": {**LLAMA, "allow_whitespace_only_pieces": True},
    "LLaMA across spaces": {**LLAMA, "split_by_whitespace": False},
    "Gemma": GEMMA,
}
PIECES = [*ATOMS, "<foo>", "<a>", "foo>", "the", "them", "aaa", "====", *[" "] * 9]
TEXTS = ["a\tb\n c", "Hello  the world ", "ﬁ ½ 北京", CORPUS[:2500], "", " ", "▁"]


def trained(**options) -> bytes:
    """A small model that the package learns."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines()),
        model_writer=model,
        minloglevel=2,
        num_threads=1,
        **{"vocab_size": 400, **options},
    )
    return model.getvalue()


def write(folder, model, name="spiece.model", **files):
    (folder / name).write_bytes(model)
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def has_marks(text):
    """Whether there are accents apart from their letter, or letters to be joined."""
    return any(unicodedata.combining(c) or c in "\u200d\u1161\u11a8𝅥ा" for c in text)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_texts_of_the_package(kind, tmp_path):
    peer = write(tmp_path, trained(**KINDS[kind]))
    ours, draw = load_tokenizer(tmp_path), random.Random(kind)
    assert ours.vocabulary == [peer.id_to_piece(i) for i in range(len(peer))]
    of_pairs = "LLaMA" in kind  # without the package `tokenizers`
    assert isinstance(ours, kt.BytePairTokenizer) == of_pairs
    drawn = ["".join(draw.choices(PIECES, k=draw.randint(1, 14))) for _ in range(300)]
    number = 0
    for one in [*TEXTS, *drawn]:
        if any(token in one for token in ours.special_tokens):
            continue  # the package does not match them
        if has_marks(one) and not PLAIN.items() <= KINDS[kind].items():
            continue  # see the last test
        ids = peer.encode(one)
        assert ours.encode(one).tolist() == ids
        if peer.unk_id() not in ids:
            assert ours.decode(ids) == peer.decode(ids)
        number += 1
    assert number > 100


def test_ids_of_the_models_of_folders(tmp_path):
    """The layouts of fairseq and T5: ids of the package, moved, and more tokens."""
    t5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    kinds = {
        "XLMRobertaTokenizer": ("sentencepiece.bpe.model", {}, 1, 2, "<mask>"),
        "camembert": ("sentencepiece.bpe.model", {}, 4, 5, "<mask>"),
        "T5TokenizerFast": ("spiece.model", t5, 0, 7, "<extra_id_0>"),
        "deberta-v2": ("spm.model", t5, 0, 1, "[MASK]"),
        "LlamaTokenizer": ("tokenizer.model", LLAMA, 0, 0, None),
    }
    for kind, (name, options, moved, more, last) in kinds.items():
        (folder := tmp_path / kind).mkdir()
        file = "tokenizer_config" if "Tokenizer" in kind else "config"
        content = {"tokenizer_class": kind, "model_type": kind, "extra_ids": 7}
        if file == "config":
            del content["tokenizer_class"]
        peer = write(folder, trained(**options), name, **{file: content})
        ours = load_tokenizer(folder)
        assert load_tokenizer(folder / name) == ours
        assert ours.vocabulary_size == len(peer) + more
        assert last in (None, ours.vocabulary[-1])
        for one in ["the cat sat", "北 the北", *TEXTS[3:5]]:
            unknown = ours.id_of("<unk>")
            moved_ids = [
                unknown if i == peer.unk_id() else i + moved for i in peer.encode(one)
            ]
            assert ours.encode(one).tolist() == moved_ids
        if last is not None:
            ids = ours.encode(f"the {last} cat").tolist()
            assert ids.count(ours.vocabulary_size - 1) == 1
            assert ours.decode(ids, skip_special=True) == "the cat"
    assert ours.special_tokens == ("<unk>", "<s>", "</s>")  # of LLaMA


def test_added_tokens_of_other_files(tmp_path):
    peer = write(tmp_path, trained(**LLAMA), "tokenizer.model", added_tokens={})
    size = len(peer)
    added = {"<pad>": size, "<s>": 1, "<|end|>": size + 1}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    ours = load_tokenizer(tmp_path)
    assert ours.vocabulary[size:] == ["<pad>", "<|end|>"]
    assert isinstance(ours, kt.BytePairTokenizer)
    assert ours.encode("the<|end|>cat").tolist()[-len(peer.encode("cat")) - 1 :] == [
        size + 1,
        *peer.encode("cat"),
    ]
    token = {"content": "<image>", "special": False, "lstrip": True}
    settings = {"added_tokens_decoder": {str(size): token}}
    (tmp_path / "added_tokens.json").unlink()
    write(tmp_path, trained(**LLAMA), "tokenizer.model", tokenizer_config=settings)
    ours = load_tokenizer(tmp_path)
    assert ours.special_tokens == ("<unk>", "<s>", "</s>")
    assert size in ours.encode("the   <image>") and ours.vocabulary_size == size + 1


REFUSED = {
    "spaces at the end": ({"treat_whitespace_as_suffix": True}, {}),
    "user-defined symbols": ({"user_defined_symbols": ["\n"]}, {}),
    "lower case": ({}, {"do_lower_case": True}),
    "the ids of mbart are others": ({}, {"tokenizer_class": "MBartTokenizer"}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused_with_the_line_that_converts(reason, tmp_path):
    options, settings = REFUSED[reason]
    write(tmp_path, trained(**options), tokenizer_config=settings)
    with pytest.raises(ValueError, match=f"same ids, since.*{reason}.*from_pretrained"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(("kind", "name"), [("word", "Word"), ("char", "Character")])
def test_types_that_nothing_converts(kind, name, tmp_path):
    write(tmp_path, trained(model_type=kind))
    with pytest.raises(ValueError, match=f"its type is {name}. Encode.* give the mode"):
        load_tokenizer(tmp_path)


def test_damaged_files(tmp_path):
    draw, model = random.Random(0), trained(vocab_size=150, **PLAIN)
    for number in range(60):
        damaged = bytearray(model)
        damaged[draw.randrange(1000)] = draw.randrange(256)
        damaged = damaged if number % 2 else model[: draw.randrange(len(model))]
        try:
            write_only(tmp_path, bytes(damaged))
            assert load_tokenizer(tmp_path).vocabulary_size > 2
        except ValueError as error:
            assert "spiece.model" in str(error)
    for damaged in (b"", b"version https://git-lfs.github.com/spec/v1", model[::-1]):
        write_only(tmp_path, damaged)
        with pytest.raises(ValueError, match="must be a model.*Download the folder"):
            load_tokenizer(tmp_path)
    for file in ({"added_tokens": {"a": "b"}}, {"config": {"extra_ids": "7"}}):
        write_only(tmp_path, model)
        (name, content), *_ = file.items()
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match="files beside it complete, received"):
            load_tokenizer(tmp_path)
        (tmp_path / f"{name}.json").unlink()
    (tmp_path / "spiece.model").unlink()
    with pytest.raises(FileNotFoundError, match=f"no {', no '.join(FILES)}"):
        load_tokenizer(tmp_path)


def write_only(folder, data):
    (folder / "spiece.model").write_bytes(data)


def test_a_checkpoint_and_its_file(tmp_path, monkeypatch):
    """T5 as published: more ids than pieces, and no tokenizer.json."""
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "published_ids": True}
    models.save_pretrained(models.T5(vocabulary_size=503, **sizes), tmp_path)
    peer = write(tmp_path, trained(**options))
    model = models.from_pretrained(tmp_path)
    text = "the ﬁrst cat"
    assert model.tokenizer.encode(text).tolist() == peer.encode(text)
    assert model.tokenizer.vocabulary_size == 503
    assert isinstance(model.translate(text).text, str)
    model.tokenizer.save(tmp_path / "mine.json")
    assert load_tokenizer(tmp_path / "mine.json") == model.tokenizer
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if not installed
    with pytest.warns(UserWarning, match="takes ids instead.*`text`: tokenizers"):
        assert models.from_pretrained(tmp_path).tokenizer is None


def test_several_accents_are_as_in_the_package_tokenizers(tmp_path):
    """The difference that `read_sentencepiece` names."""
    import tokenizers

    peer = write(tmp_path, trained(**BYTES))
    ours = load_tokenizer(tmp_path)
    content = ours.get_config()["content"]
    table = content["normalizer"]["normalizers"][0]["precompiled_charsmap"]
    theirs = tokenizers.normalizers.Sequence(
        [tokenizers.Tokenizer.from_str(json.dumps(content_of(table))).normalizer]
    )
    for text, one, all_marks in [
        ("e\u0301", "é", "é"),
        ("e\u0302\u0301", "ê", "ế"),
        ("E\u0301\u0323", "É", "É\u0323"),
    ]:
        assert theirs.normalize_str(text) == one
        assert ours.encode(text).tolist() == ours.encode(one).tolist()
        assert peer.encode(text) == peer.encode(all_marks)


def content_of(table):
    return {
        "model": {"type": "BPE", "vocab": {}, "merges": []},
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": table},
        "added_tokens": [],
    }
