"""Any `tokenizer.json` gives the ids, offsets and texts of the package `tokenizers`."""

import json
import random

import pytest
import tokenizers

from kerasseq.text import BytePairTokenizer, HuggingFaceTokenizer, load_tokenizer
from kerasseq.text.tokenizers.loading import from_tokenizer_json
from tests.text.huggingface_examples import CORPUS, LLAMA_3, file, generate, text
from tests.text.huggingface_examples import trained as model_of

pytestmark = pytest.mark.once("text: independent of the backend")

BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
BERT_PARTS = {
    "normalizer": BERT,
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
}
LLAMA_2 = {
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    },
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
BYTE_LEVEL = {**BYTE_LEVEL, "use_regex": True}
LLAMA_3_PARTS = {
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": LLAMA_3},
                "behavior": "Isolated",
                "invert": False,
            },
            {**BYTE_LEVEL, "use_regex": False},
        ],
    },
    "decoder": BYTE_LEVEL,
}
TEXTS = ["", "\n", "   ", "Hello  the world\n\n", "e\u0301 👩‍🚀 北京 שלום\x07\u200d ½"]
TEXTS += ["theABC1dog", "a<m>b <m> c", "<|end|>  x  <|end|>", CORPUS[-2000:]]


def load(content, folder):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content))
    return load_tokenizer(path), tokenizers.Tokenizer.from_file(str(path))


def check(ours, peer, one):
    """Ids, offsets and decoded texts are those of the peer."""
    encoding, theirs = ours.encode_with_offsets(one), peer.encode(one)
    assert encoding.ids.tolist() == ours.encode(one).tolist() == theirs.ids
    assert [*map(tuple, encoding.offsets.tolist())] == theirs.offsets
    for skip in (True, False):
        known = peer.decode(theirs.ids, skip_special_tokens=skip)
        assert ours.decode(theirs.ids, skip_special=skip) == known


PUBLISHED = {
    "byte fallback": lambda: file(model_of("sentencepiece"), **LLAMA_2),
    "ignore_merges": lambda: file(
        {**model_of("bytes"), "ignore_merges": True}, **LLAMA_3_PARTS
    ),
    "GPT-2": lambda: file(
        model_of("bytes"), pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL
    ),
    "prefix space": lambda: file(
        model_of("bytes"),
        pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True},
        decoder=BYTE_LEVEL,
    ),
    "BERT": lambda: file(model_of("wordpiece"), **BERT_PARTS),
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_kinds_of_files(kind, tmp_path):
    content = PUBLISHED[kind]()
    ours, peer = load(content, tmp_path)
    for one in TEXTS:
        check(ours, peer, one)
    if content["model"]["type"] == "BPE":
        assert ours.decode(ours.encode(TEXTS[4])).strip() == TEXTS[4]


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_unicode_forms(form, tmp_path):
    parts = {"normalizer": {"type": form}, "pre_tokenizer": BYTE_LEVEL}
    ours, peer = load(file(model_of("bytes"), **parts), tmp_path)
    for one in [*TEXTS, "q\u0307\u0323 \u1100\u1161\u11a8각 ﬁ Å"]:
        check(ours, peer, one)


def with_added(**options):
    """A WordPiece tokenizer that lowercases, with an added token."""
    return file(model_of("wordpiece"), {"content": "abc1", **options}, **BERT_PARTS)


def test_a_normalized_added_token(tmp_path):
    ours, peer = load(with_added(normalized=True), tmp_path)
    assert ours.decode(ours.encode("theABC1dog")) == "the abc1 dog"
    for one in TEXTS:
        check(ours, peer, one)


def test_only_special_tokens_are_skipped(tmp_path):
    content = with_added(normalized=True)
    content["added_tokens"].append(
        dict(content["added_tokens"][0], content="[END]", special=True, id=401)
    )
    ours, peer = load(content, tmp_path)
    ids = ours.encode("the abc1[END]")
    assert ours.decode(ids) == "the abc1 [end]"
    assert ours.decode(ids, skip_special=True) == "the abc1"
    assert ours.special_tokens == ("[END]",)
    # The peer compares the normalized "[end]" with "[END]", and does not skip it.
    assert peer.decode(ids, skip_special_tokens=True) == "the abc1 [end]"


@pytest.mark.parametrize("option", ["single_word", "lstrip", "rstrip", "special"])
def test_an_option_of_an_added_token(option, tmp_path):
    token = {"content": "<m>", option: True}
    parts = {"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL}
    ours, peer = load(file(model_of("bytes"), token, **parts), tmp_path)
    number = ours.id_of("<m>")
    assert number in ours.encode("a <m> b")
    assert (number in ours.encode("a<m>b")) == (option != "single_word")
    for one in TEXTS:
        check(ours, peer, one)


@pytest.mark.parametrize("seed", range(30))
def test_generated_tokenizers(seed):
    draw = random.Random(seed)
    for _ in range(5):
        content = generate(draw)
        try:
            ours = HuggingFaceTokenizer(content)
        except ValueError as error:  # the peer would find a token everywhere
            assert "removes the added token" in str(error)
            continue
        peer = tokenizers.Tokenizer.from_str(json.dumps(content))
        native = from_tokenizer_json(content, "a file")
        for _ in range(6):
            one = text(draw)
            compare(ours, native, peer, one)


def compare(ours, native, peer, one):
    theirs, encoding = peer.encode(one), ours.encode_with_offsets(one)
    assert encoding.ids.tolist() == theirs.ids == ours.encode(one).tolist()
    assert native.encode(one).tolist() == theirs.ids
    if ours.unknown is not None:  # else the peer leaves characters out of its offsets
        assert [*map(tuple, encoding.offsets.tolist())] == theirs.offsets
    assert ours.decode(theirs.ids) == peer.decode(theirs.ids, skip_special_tokens=False)


def test_the_model_is_not_named_in_older_files(tmp_path):
    for kind in ("bytes", "wordpiece", "unigram"):
        model = {k: v for k, v in model_of(kind).items() if k != "type"}
        ours, peer = load(file(model), tmp_path)
        check(ours, peer, "thecat,thedog")


def test_older_metaspace(tmp_path):
    part = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    parts = {"pre_tokenizer": part, "decoder": part}
    ours, peer = load(file(model_of("unigram"), **parts), tmp_path)
    check(ours, peer, " a the  cat")


def test_saved_files_keep_all_options(tmp_path):
    token = {"content": "<m>", "single_word": True, "lstrip": True, "normalized": True}
    content = file(model_of("sentencepiece"), token, **LLAMA_2)
    ours = load(content, tmp_path)[0]
    ours.save(tmp_path / "mine.json")
    assert load_tokenizer(tmp_path / "mine.json") == ours
    for one in TEXTS:
        same = load_tokenizer(tmp_path / "mine.json")
        assert same.encode(one).tolist() == ours.encode(one).tolist()


def test_it_cannot_be_fitted():
    with pytest.raises(ValueError, match="vocabulary is that of its file. Fit a Byte"):
        HuggingFaceTokenizer(file(model_of("bytes"))).fit("a text")


def test_a_plain_file_is_a_tokenizer_that_can_do_more(tmp_path):
    token = {"content": "<|end|>", "special": True}
    parts = {"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL}
    ours = load(file(model_of("bytes"), token, **parts), tmp_path)[0]
    assert isinstance(ours, BytePairTokenizer) and ours.trace()


def test_characters_of_no_token_are_an_error_where_the_peer_has_one():
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"a": 0}}
    model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
    with pytest.raises(ValueError, match="'b' has no token, and the vocabulary of"):
        HuggingFaceTokenizer(file(model)).encode("b")


def test_long_texts_take_time_in_proportion():
    ours = HuggingFaceTokenizer(file(model_of("sentencepiece"), **LLAMA_2))
    ours.encode(CORPUS * 10)
    assert len(ours.model._merged.known) > 100  # words are merged once
