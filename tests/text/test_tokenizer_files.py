"""Files of GPT-2 and Hugging Face: the same ids as the package tokenizers."""

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from kerasseq.datasets import python_reference
from kerasseq.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    NGramModel,
    load_tokenizer,
)
from kerasseq.text.tokenizers.splitting import PATTERNS

CORPUS = python_reference()[:30_000]
HARD = [
    "",
    "  It's 2026's déjà-vu:\n\n\tnaïve ﬁligree… 北京 🙂🏽 don't",
    "x" * 99 + "\u200d\u0301é e\u0301 \x00\x7f",
    "<|endoftext|>a<|endoftext|> b",
]


def gpt2_like(pattern=None):
    """A byte-level tokenizer that the package tokenizers has trained."""
    peer = tokenizers.Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pattern is not None:
        cut = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        peer.pre_tokenizer = pre_tokenizers.Sequence([cut, rest])
    peer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    peer.train_from_iterator([CORPUS], trainer)
    return peer


PEER = gpt2_like()


@pytest.fixture
def folder(tmp_path):
    PEER.save(str(tmp_path / "tokenizer.json"))
    PEER.model.save(str(tmp_path))
    return tmp_path


def test_bytes_from_either_form_have_the_ids_of_the_peer(folder):
    from_json = load_tokenizer(folder / "tokenizer.json")
    assert load_tokenizer(folder) == from_json
    (folder / "tokenizer.json").unlink()
    from_two = load_tokenizer(folder)
    for tokenizer in (from_json, from_two):
        assert tokenizer.special_tokens == ("<|endoftext|>",)
        for text in [*HARD, CORPUS[-5000:]]:
            assert tokenizer.encode(text).tolist() == PEER.encode(text).ids
            assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(max_size=43))
def test_any_text_has_the_ids_of_the_peer(text):
    tokenizer = load_peer()
    assert tokenizer.encode(text).tolist() == PEER.encode(text).ids


def load_peer(made=[]):  # noqa: B006  # made once
    if not made:
        from kerasseq.text.tokenizers.loading import from_tokenizer_json

        made.append(from_tokenizer_json(json.loads(PEER.to_str()), "peer"))
    return made[0]


def test_a_pattern_of_its_own(tmp_path):
    peer = gpt2_like(PATTERNS["gpt4"])
    peer.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    for text in [*HARD, CORPUS[-5000:]]:
        assert tokenizer.encode(text).tolist() == peer.encode(text).ids


@pytest.mark.parametrize("scheme", ["always", "never", "first"])
def test_unigrams(scheme, tmp_path):
    peer = tokenizers.Tokenizer(models.Unigram())
    peer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<unk>", "</s>"], unk_token="<unk>"
    )
    trainer.show_progress = False
    peer.train_from_iterator([CORPUS], trainer)
    peer.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.special_tokens == ("<unk>", "</s>")
    for text in [*HARD, "a</s> b</s>c", CORPUS[-5000:]]:
        assert tokenizer.encode(text).tolist() == peer.encode(text).ids


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def peer_of_word_pieces(lowercase):
    """Word pieces that the package tokenizers has trained."""
    peer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    peer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=BERT, show_progress=False
    )
    peer.train_from_iterator([CORPUS], trainer)
    return peer


@pytest.mark.parametrize("lowercase", [True, False])
def test_word_pieces(lowercase, tmp_path):
    peer = peer_of_word_pieces(lowercase)
    peer.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert list(tokenizer.special_tokens) == BERT
    for text in [*HARD, "[CLS] Été [SEP]", CORPUS[-5000:]]:
        assert tokenizer.encode(text).tolist() == peer.encode(text).ids
    peer.model.save(str(tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    if lowercase:  # what vocab.txt cannot say is as in BERT
        assert load_tokenizer(tmp_path) == tokenizer


def test_what_kerasseq_saved_is_loaded(tmp_path):
    for fitted in (
        CharacterTokenizer().fit("abc"),
        BytePairTokenizer(260).fit("abab abab"),
    ):
        fitted.save(tmp_path / "mine.json")
        loaded = load_tokenizer(tmp_path / "mine.json")
        assert loaded == fitted and type(loaded) is type(fitted)


def change(content, path, value):
    *path, last = path.split(".")
    for key in path:
        content = content[int(key) if key.isdigit() else key]
    content[last] = value


OURS = "is damaged: "
PACKAGE = "must be a tokenizer.json that the package tokenizers 0.* reads; it reports: "


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model.type", "Unknown", PACKAGE),
        ("model.ignore_merges", "yes", PACKAGE),
        ("normalizer", {"type": "NFKD"}, None),
        ("normalizer", "NFKD", f"{OURS}normalizer: expected a table, received 'NFKD'"),
        ("pre_tokenizer", None, None),
        ("pre_tokenizer.add_prefix_space", 1, PACKAGE),
        ("decoder", {"type": "CTC"}, PACKAGE),
        ("model.vocab", {"a": 0, "b": 2}, f"{PACKAGE}Token `.*` out of vocabulary"),
        ("model.vocab", {"a": "b"}, f"{OURS}model.vocab.a: expected a whole number"),
        ("model.vocab", "ab", f"{OURS}model.vocab: expected a table, received 'ab'"),
        ("model.merges", [["a", "qq"]], f"{PACKAGE}Token `qq` out of vocabulary"),
        ("model.merges", None, PACKAGE),
        (
            "added_tokens",
            [{"id": 7}],
            rf"{OURS}added_tokens\[0\].content: expected a string",
        ),
    ],
)
def test_damaged_files_are_named(path, value, message, tmp_path):
    content = json.loads(PEER.to_str())
    change(content, path, value)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content))
    if message is None:
        peer = tokenizers.Tokenizer.from_file(str(file))
        for text in HARD:
            assert load_tokenizer(file).encode(text).tolist() == peer.encode(text).ids
        return
    with pytest.raises(ValueError, match=message) as found:
        load_tokenizer(file)
    assert str(file) in str(found.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "merges.txt",
            b"#version: 0.2\nh e\nh  e\n",
            "line 3 must have two tokens",
        ),
        ("merges.txt", b"h e\n\xff e\n", "not UTF-8: byte 0xff on line 2"),
        ("merges.txt", b"h qq\n", "merge number 0"),
        ("vocab.json", b"{", "vocab.json is damaged: it is not JSON"),
        ("vocab.json", b'{"a": 1}', "ids must be 0, 1, 2 .* 'a' has 1 where 0"),
        ("vocab.json", b'{"a": "x"}', "ids must be whole numbers"),
        ("vocab.json", b"[]", "must give each token an id"),
        ("vocab.json", b"[" * 100_000, "nested too deep"),
    ],
)
def test_damaged_pairs_of_files(folder, name, content, message):
    (folder / "tokenizer.json").unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_tokenizer(folder)


def test_what_is_no_tokenizer(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no tokenizer.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(FileNotFoundError, match="nothing.json"):
        load_tokenizer(tmp_path / "nothing.json")
    file = tmp_path / "a.json"
    file.write_text("[1]")
    with pytest.raises(ValueError, match="is not a tokenizer: neither"):
        load_tokenizer(file)
    assert not hasattr(NGramModel, "encode")
    file.write_text('{"format": "kerasseq.CharacterTokenizr", "version": 1}')
    with pytest.raises(ValueError, match='CharacterTokenizr. Did you mean "Character'):
        load_tokenizer(file)
