"""Any `tokenizer.json` gives the ids, offsets and texts of the package `tokenizers`."""

import base64
import copy
import json
import pickle
import random
import sys
import types

import pytest
import tokenizers

from kerasseq import text as kt
from kerasseq.text import HuggingFaceTokenizer, as_tokenizer, load_tokenizer
from kerasseq.text.tokenizers.loading import from_tokenizer_json
from tests.text.huggingface_examples import (
    ATOMS,
    CORPUS,
    LLAMA_3,
    file,
    generate,
    text,
)
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
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["", "\n", "   ", "Hello  the world\n\n", "e\u0301 👩‍🚀 北京 שלום\x07\u200d ½"]
TEXTS += [
    "theABC1dog",
    "a<m>b <m> c",
    "<|end|>  x  <|end|>",
    "▁a <s> b<s>é",
    CORPUS[-2000:],
]


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


def special(*tokens):
    """Added tokens as files of BERT and GPT-2 have them."""
    return [{"content": token, "special": True} for token in tokens]


def bert(**options):
    """A file of BERT, whose special tokens are a part of the vocabulary."""
    parts = {**BERT_PARTS, "normalizer": {**BERT, **options}}
    return within(file(model_of("wordpiece"), *special(*BERT_TOKENS), **parts))


def llama_2():
    return within(file(model_of("sentencepiece"), *special("<unk>", "<s>"), **LLAMA_2))


def within(content):
    """A file whose added tokens are the first ones of the vocabulary."""
    for number, token in enumerate(content["added_tokens"]):
        token["id"] = number
    return content


def precompiled():
    """A file of T5, XLM-R and CamemBERT: SentencePiece's NFKC, and unigrams."""
    sentencepiece = pytest.importorskip("sentencepiece")
    from sentencepiece import sentencepiece_model_pb2

    rules = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    proto = sentencepiece_model_pb2.ModelProto.FromString(
        rules.serialized_model_proto()
    )
    table = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    return file(
        model_of("unigram"),
        *special("</s>"),
        normalizer={"type": "Precompiled", "precompiled_charsmap": table},
        pre_tokenizer=spaces,
        decoder=spaces,
    )


PUBLISHED = {
    "LLaMA 2": (kt.BytePairTokenizer, llama_2),
    "LLaMA 3": (
        kt.BytePairTokenizer,
        lambda: file(
            {
                **model_of("bytes"),
                "merges": model_of("bytes")["merges"][::2],
                "ignore_merges": True,  # reaches tokens without merges
            },
            *special("<|end|>"),
            **LLAMA_3_PARTS,
        ),
    ),
    "GPT-2": (
        kt.BytePairTokenizer,
        lambda: file(
            model_of("bytes"),
            *special("<|end|>"),
            pre_tokenizer=BYTE_LEVEL,
            decoder=BYTE_LEVEL,
        ),
    ),
    "prefix space": (
        HuggingFaceTokenizer,
        lambda: file(
            model_of("bytes"),
            pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True},
            decoder=BYTE_LEVEL,
        ),
    ),
    "BERT": (kt.WordPieceTokenizer, bert),
    "BERT, cased": (kt.WordPieceTokenizer, lambda: bert(lowercase=False)),
    "T5": (HuggingFaceTokenizer, precompiled),
    "words": (
        HuggingFaceTokenizer,
        lambda: file(
            {"type": "WordLevel", "vocab": {"?": 0, "the": 1}, "unk_token": "?"},
            pre_tokenizer={"type": "Whitespace"},
        ),
    ),
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_kinds_of_files(kind, tmp_path):
    cls, make = PUBLISHED[kind]
    content = make()
    ours, peer = load(content, tmp_path)
    assert type(ours) is cls
    for one in TEXTS:
        check(ours, peer, one)
    wrapped = HuggingFaceTokenizer.from_file(tmp_path / "tokenizer.json")
    assert wrapped.vocabulary == ours.vocabulary
    assert wrapped.special_tokens == ours.special_tokens
    for one in TEXTS:
        check(wrapped, peer, one)
    if content["model"]["type"] == "BPE":
        assert ours.decode(ours.encode(TEXTS[4])).strip() == TEXTS[4]


def with_added(**options):
    """A WordPiece tokenizer that lowercases, with an added token."""
    return file(model_of("wordpiece"), {"content": "abc1", **options}, **BERT_PARTS)


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


COVERED = {"LLaMA 3": "bytes", "GPT-2": "bytes", "BERT": "wordpiece"}
COVERED |= {"unigrams": "unigram", "unigrams with bytes": "unigram with bytes"}


@pytest.mark.parametrize("name", COVERED)
def test_another_component(name):
    """A tokenizer of ours takes the place of a file only if it has the same ids.

    Ours does not match the token of a byte as it is written in a text, such as <0x41>.
    """
    draw, kinds, model = random.Random(name), set(), model_of(COVERED[name])
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
    unigrams = file(model, *special("<unk>"), pre_tokenizer=spaces)
    unigrams["added_tokens"][0]["id"] = 0
    for _ in range(60):
        content = copy.deepcopy(PUBLISHED.get(name, (None, lambda: unigrams))[1]())
        other = generate(draw, COVERED[name])
        key = draw.choice([*content, None])
        if key is not None:
            content[key] = other[key]
        if key == "added_tokens":
            content[key] = [{**token, "special": True} for token in other[key]]
        native, wrapped = (
            from_tokenizer_json(content, ""),
            HuggingFaceTokenizer(content),
        )
        kinds.add(type(native))
        for one in [text(draw).replace("<0x41>", "") for _ in range(6)]:
            try:
                ids = wrapped.encode(one).tolist()
            except ValueError:  # the package panics if a normalizer empties a token
                continue
            assert native.encode(one).tolist() == ids
            if content["decoder"]:  # else the package joins pieces by spaces
                assert native.decode(ids) == wrapped.decode(ids)
    assert len(kinds) == 2  # ours, and the package's


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


def test_copies_and_files_keep_all_options(tmp_path):
    token = {"content": "<m>", "single_word": True, "lstrip": True, "normalized": True}
    content = file(model_of("sentencepiece"), token, **LLAMA_2)
    ours = load(content, tmp_path)[0]
    ours.save(tmp_path / "mine.json")
    for same in (
        load_tokenizer(tmp_path / "mine.json"),
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        HuggingFaceTokenizer.from_config(ours.get_config()),
    ):
        assert same == ours and same.unknown == "<unk>"
        for one in TEXTS:
            assert same.encode(one).tolist() == ours.encode(one).tolist()


def test_bytes_for_unknown_characters(tmp_path):
    ours, peer = load(llama_2(), tmp_path)
    draw = random.Random(0)
    for _ in range(300):
        check(ours, peer, "".join(draw.choices(ATOMS, k=draw.randint(1, 11))))
        row = draw.choices(range(ours.vocabulary_size), k=17)  # invalid bytes, too
        assert ours.decode(row) == peer.decode(row, skip_special_tokens=False)


def test_a_tokenizer_of_the_package(tmp_path):
    """As an argument: without truncation, padding and what is put around a text."""
    theirs = tokenizers.Tokenizer.from_str(json.dumps(PUBLISHED["LLaMA 2"][1]()))
    plain = [theirs.encode(one).ids for one in TEXTS]
    theirs.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    theirs.enable_truncation(3)
    theirs.enable_padding(length=5)
    fast = types.SimpleNamespace(backend_tokenizer=theirs)  # as of transformers
    for given in (theirs, fast):
        ours = as_tokenizer(given)
        assert [ours.encode(one).tolist() for one in TEXTS] == plain
    theirs.add_tokens(["zebra"])  # ours is a copy
    assert ours.vocabulary_size == theirs.get_vocab_size() - 1
    covered = tokenizers.Tokenizer.from_str(json.dumps(bert()))
    assert isinstance(as_tokenizer(covered), kt.WordPieceTokenizer)


def test_components_in_python_cannot_be_saved():
    theirs = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.PreTokenizer.custom(object())
    with pytest.raises(ValueError, match="that can be saved, .*Replace its components"):
        as_tokenizer(theirs)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (kt.CharacterTokenizer, r"Pass an object: CharacterTokenizer\(\.\.\.\)"),
        ("tokenizer.json", r'Pass kerasseq.text.load_tokenizer\("tokenizer.json"\)'),
        (3, "units must be a tokenizer of kerasseq.text, .* received 3. Train one"),
    ],
)
def test_what_is_no_tokenizer(value, message):
    with pytest.raises(TypeError, match=message):
        as_tokenizer(value, "units")


def test_a_prefix_that_merges_lack(tmp_path):
    model = {**model_of("bytes"), "continuing_subword_prefix": "a"}
    with pytest.raises(ValueError, match=r"merges\[0\] must have .*prefix='a'"):
        load(file(model), tmp_path)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_without_the_package(kind, tmp_path, monkeypatch):
    """Files of ours load; a file or an old model that needs it names the extra."""
    cls, make = PUBLISHED[kind]
    ours, _ = load(make(), tmp_path)
    path = tmp_path / "tokenizer.json"
    config = HuggingFaceTokenizer.from_file(path).get_config()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    if cls is not HuggingFaceTokenizer:
        assert load_tokenizer(path) == ours
        assert HuggingFaceTokenizer.from_config(config) == ours
        return
    message = (
        "needs the package of the extra `text`: tokenizers, which is not installed"
    )
    for use in (lambda: load_tokenizer(path), lambda: cls.from_config(config)):
        with pytest.raises(ImportError, match=message):
            use()


def test_it_cannot_be_fitted():
    with pytest.raises(ValueError, match="vocabulary is that of its file. Fit a Byte"):
        HuggingFaceTokenizer(file(model_of("bytes"))).fit("a text")


def test_errors_and_panics_of_the_package():
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"a": 0}}
    model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
    with pytest.raises(ValueError, match="received 'b'; it reports: .*Missing .UNK."):
        HuggingFaceTokenizer(file(model)).encode("b")
