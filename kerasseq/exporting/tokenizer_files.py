"""Tokenizers as a `tokenizer.json`, which the package `tokenizers` reads.

It has readers in Python, Rust, JavaScript and others. A file is compared with its
tokenizer, if the package is installed: what it cannot hold is not written. `encode`
there must be called with `add_special_tokens=False`, as models add their own; by
default it adds those of the model, such as [CLS] and [SEP] of a BERT.
"""

import json
from typing import Any, NamedTuple

from kerasseq.core import packages
from kerasseq.models.bert.bert_texts import BERTPreprocessor
from kerasseq.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    HuggingFaceTokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)
from kerasseq.text.tokenizers.byte_alphabet import BYTES
from kerasseq.text.tokenizers.splitting import PATTERNS
from kerasseq.text.tokenizers.tokenizer import Tokenizer

# What is compared, beside the vocabulary: cases, accents, spaces, digits, line ends.
TEXTS = (
    "Don’t say no, say 42!",
    "  two  spaces\nand a Line\t",
    "l'été déjà-vu naïve",
    "x_1 = (a + b) * 3.14  # 東京 \U0001f600",
    "",
)
LARGEST = 400  # tokens of the vocabulary in a text that is compared
WORD = r"[\w\p{M}]+(?:'[\w\p{M}]+)*|[^\w\p{M}\s]"
ANY = r"[\s\S]"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
METASPACE = {"type": "Metaspace", "replacement": "▁"}
PREPENDED = {
    "type": "Sequence",
    "normalizers": [{"type": "Prepend", "prepend": "▁"}, TO_MARK],
}
TO_SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Returns the content of a `tokenizer.json` with the ids of a tokenizer.

    Args:
        tokenizer: A fitted tokenizer.

    Returns:
        The content, or None if the format does not hold the tokenizer.

    Examples:
        >>> content = tokenizer_json(CharacterTokenizer().fit("banana"))
        >>> content["model"]["vocab"]
        {'a': 0, 'b': 1, 'n': 2, '\ufffd': 3}
    """
    for cls, build in _BUILDERS.items():
        if isinstance(tokenizer, cls):
            parts = build(tokenizer)
            break
    else:
        return None
    if parts is None:
        return None
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(tokenizer),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        **parts,
    }
    return content if differences(tokenizer, content) is None else None


class Marks(NamedTuple):
    """The ids around a text, as a model reads it.

    Attributes:
        before: The ids before a text, such as [CLS].
        after: Those after it, such as [SEP].
        between: Those between the texts of a pair.
        segment: The segment of the second text of a pair.
    """

    before: list[int]
    after: list[int]
    between: list[int]
    segment: int = 0


def marks_of(model: Any) -> Marks | None:
    """Returns the marks of a BERT, and those of a T5 or BART around its sources."""
    preprocessor = getattr(model, "preprocessor", None)
    if isinstance(preprocessor, BERTPreprocessor):
        after = [preprocessor.end]
        segment = min(1, preprocessor.num_segments - 1)
        between = after * preprocessor.separators
        return Marks([preprocessor.start], after, between, segment)
    source = getattr(model, "source_vocabulary", None)
    if source is None or source.tokenizer is None or source.offset:
        return None
    return Marks(source.before, source.after, source.after)


def with_marks(content: dict[str, Any], model: Any) -> dict[str, Any]:
    """Adds the marks around texts, for readers that are called without arguments.

    Args:
        content: The content of a `tokenizer.json`.
        model: The model that reads its ids.
    """
    marks = marks_of(model)
    if marks is None:
        return content
    names = model.tokenizer.vocabulary

    def parts(ids, segment=0):
        return [{"SpecialToken": {"id": names[i], "type_id": segment}} for i in ids]

    first = [*parts(marks.before), {"Sequence": {"id": "A", "type_id": 0}}]
    second = [
        {"Sequence": {"id": "B", "type_id": marks.segment}},
        *parts(marks.after, marks.segment),
    ]
    template = {
        "type": "TemplateProcessing",
        "single": [*first, *parts(marks.after)],
        "pair": [*first, *parts(marks.between), *second],
        "special_tokens": {
            names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]}
            for i in (*marks.before, *marks.after)
        },
    }
    return {**content, "post_processor": template}


def differences(tokenizer: Tokenizer, content: dict[str, Any]) -> str | None:
    """Returns a text of which a file has other ids; None if there is none.

    Without the package `tokenizers` nothing is compared.

    Args:
        tokenizer: A fitted tokenizer.
        content: The content of a `tokenizer.json`.
    """
    if not packages.is_installed("tokenizers"):
        return None
    import tokenizers

    built = tokenizers.Tokenizer.from_str(json.dumps(content))
    known = tokenizer.vocabulary[:LARGEST]
    others = {*tokenizer.special_tokens, *BYTES}  # names, and no texts
    plain = [token for token in known if token not in others]
    words = " ".join(plain).replace("▁", " ")
    for text in (*TEXTS, words, *tokenizer.special_tokens):
        try:
            expected = tokenizer.encode(text).tolist()
        except ValueError:  # a character without an id
            continue
        if built.encode(text, add_special_tokens=False).ids != expected:
            return text
    return None


def _added(tokenizer) -> list[dict[str, Any]]:
    options = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": tokenizer.id_of(token), "content": token, "special": True, **options}
        for token in tokenizer.special_tokens
    ]


def _vocabulary(tokenizer) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokenizer.vocabulary)}


def _split(pattern: str, behavior: str = "Isolated", invert: bool = False):
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": invert,
    }


def _of_huggingface(tokenizer):
    return tokenizer.own_config()["content"]


def _of_characters(tokenizer):
    model = {
        "type": "WordLevel",
        "vocab": _vocabulary(tokenizer),
        "unk_token": tokenizer.unknown or "",
    }
    return {"pre_tokenizer": _split(ANY), "model": model, "decoder": {"type": "Fuse"}}


def _of_words(tokenizer):
    steps = [{"type": "Lowercase"}] if tokenizer.lowercase else []
    apostrophe = {"type": "Replace", "pattern": {"String": "\u2019"}, "content": "'"}
    model = {
        "type": "WordLevel",
        "vocab": _vocabulary(tokenizer),
        "unk_token": tokenizer.unknown or "",
    }
    return {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*steps, {"type": "NFC"}, apostrophe],
        },
        "pre_tokenizer": _split(WORD, "Removed", invert=True),
        "model": model,
    }


def _of_byte_pairs(tokenizer):
    if tokenizer.end_of_word is not None:
        return None
    model = {
        "type": "BPE",
        "vocab": _vocabulary(tokenizer),
        "merges": [[left, right] for left, right, *_ in tokenizer.trace()],
        "unk_token": tokenizer.unknown,
        "byte_fallback": tokenizer.level == "sentencepiece",
        "fuse_unk": False,
        "ignore_merges": tokenizer.ignore_merges,
        "dropout": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
    }
    pattern = PATTERNS.get(tokenizer.pattern, tokenizer.pattern)
    if tokenizer.level == "character":
        parts = {"pre_tokenizer": _split(pattern), "decoder": {"type": "Fuse"}}
    elif tokenizer.level == "sentencepiece":
        parts = _with_marks(tokenizer, pattern)
    else:
        to_bytes = {**BYTE_LEVEL, "use_regex": False}
        steps = [_split(pattern), to_bytes]
        parts = {
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
            "decoder": {**BYTE_LEVEL, "use_regex": True},
        }
    return {"model": model, **parts}


def _with_marks(tokenizer, pattern):
    """Returns the parts around byte pairs of characters with ▁ for a space."""
    begin = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = [TO_SPACE, {"type": "ByteFallback"}, {"type": "Fuse"}, begin]
    parts = {"decoder": {"type": "Sequence", "decoders": decoders}}
    if tokenizer.pattern == "none":
        return {**parts, "normalizer": PREPENDED}
    marks = {**METASPACE, "prepend_scheme": "never", "split": False}
    steps = [_split(pattern), marks]
    return {
        **parts,
        "normalizer": {"type": "Prepend", "prepend": " "},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
    }


def _of_word_pieces(tokenizer):
    model = {
        "type": "WordPiece",
        "vocab": _vocabulary(tokenizer),
        "unk_token": tokenizer.unknown,
        "continuing_subword_prefix": tokenizer.prefix,
        "max_input_chars_per_word": tokenizer.max_word_length,
    }
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": tokenizer.clean,
        "handle_chinese_chars": tokenizer.split_chinese,
        "strip_accents": tokenizer.strip_accents,
        "lowercase": tokenizer.lowercase,
    }
    decoder = {
        "type": "WordPiece",
        "prefix": tokenizer.prefix,
        "cleanup": tokenizer.cleanup,
    }
    return {
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": model,
        "decoder": decoder,
    }


def _of_unigrams(tokenizer):
    scores = tokenizer.scores.tolist()
    unknown = tokenizer.unknown
    model = {
        "type": "Unigram",
        "vocab": [
            list(each) for each in zip(tokenizer.vocabulary, scores, strict=True)
        ],
        "unk_id": None if unknown is None else tokenizer.id_of(unknown),
        "byte_fallback": tokenizer.byte_fallback,
    }
    schemes = {True: "always", False: "never", "first": "first"}
    scheme = schemes[tokenizer.add_prefix_space]
    marks = {**METASPACE, "prepend_scheme": scheme, "split": True}
    parts = {"model": model, "decoder": marks}
    if tokenizer.lossless and tokenizer.add_prefix_space is True:
        before_marks = _split("▁", "MergedWithNext")
        return {**parts, "normalizer": PREPENDED, "pre_tokenizer": before_marks}
    return {**parts, "pre_tokenizer": marks}


_BUILDERS = {
    HuggingFaceTokenizer: _of_huggingface,
    CharacterTokenizer: _of_characters,
    WordTokenizer: _of_words,
    BytePairTokenizer: _of_byte_pairs,
    WordPieceTokenizer: _of_word_pieces,
    UnigramTokenizer: _of_unigrams,
}
