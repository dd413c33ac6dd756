"""Files of Hugging Face that the tokenizers of kerasseq reproduce.

A `tokenizer.json` has added tokens, a normalizer, a pre-tokenizer, a model and a
decoder. `covered` compares them with what `BytePairTokenizer`, `WordPieceTokenizer` and
`UnigramTokenizer` do, which need no package.
"""

import os
import re
from typing import Any

from kerasseq.core.schema import Maybe, check
from kerasseq.text.files import tokens_in_order
from kerasseq.text.tokenizers import byte_alphabet
from kerasseq.text.tokenizers.byte_alphabet import BYTE_OF
from kerasseq.text.tokenizers.byte_pair_tokenizer import BytePairTokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.text.tokenizers.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

KEYS = ("added_tokens", "normalizer", "pre_tokenizer", "model", "decoder")
_PREFIX = {"always": True, "never": False, "first": "first"}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_PREPEND = {"type": "Prepend", "prepend": "▁"}
_BYTES_TO_TEXT = (  # of LLaMA 2 and Mistral
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
)
_METASPACE = {"type": "Metaspace", "replacement": "▁", "split": True}
_BEYOND = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
_OPTIONS = ("single_word", "lstrip", "rstrip")
_TIME = re.compile(r"<\|\d+\.\d\d\|>")  # of Whisper: special in all but the name
_PART = {str: object}
_SCHEMA = {
    "added_tokens?": Maybe([_PART]),
    "normalizer?": Maybe(_PART),
    "pre_tokenizer?": Maybe(_PART),
    "model": _PART,
    "decoder?": Maybe(_PART),
}
_VOCABULARIES = {
    "BPE": {str: int},
    "WordPiece": {str: int},
    "Unigram": [(str, float)],
}


def covered(
    content: dict[str, Any], path: str | os.PathLike[str] = "the tokenizer"
) -> Tokenizer | None:
    """Returns a tokenizer of kerasseq with the ids of a file; None if none has them.

    Args:
        content: The content of a `tokenizer.json`, as a dictionary.
        path: The file, for messages.

    Raises:
        ValueError: If it is damaged.

    Examples:
        >>> covered({"model": {"type": "WordLevel", "vocab": {"a": 0}}}) is None
        True
    """
    content = {key: content[key] for key in KEYS if key in content}
    try:
        kind = _checked(content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}. Download it again") from error
    added = sorted(content.get("added_tokens") or [], key=lambda token: token["id"])
    if kind not in _BUILDERS or not _are_plain(added, content.get("normalizer")):
        return None
    special = tuple(token["content"] for token in added)
    try:
        return _BUILDERS[kind](content, _vocabulary(content, added), special)
    except (LookupError, TypeError, ValueError):  # such as pieces without a byte
        return None


def _checked(content) -> str | None:
    """Returns the type of the model, and raises if what is read here is damaged."""
    check(content, _SCHEMA)
    for number, token in enumerate(content.get("added_tokens") or []):
        check(token.get("content"), str, f"added_tokens[{number}].content")
        check(token.get("id"), int, f"added_tokens[{number}].id")
    kind = _kind(content["model"])
    if kind in _VOCABULARIES:
        check(content["model"].get("vocab"), _VOCABULARIES[kind], "model.vocab")
    return kind


def _kind(model) -> str | None:
    """Returns the type of a model, which older files, such as GPT-2's, do not have."""
    if model.get("type") is not None:
        return model["type"] if isinstance(model["type"], str) else None
    if "merges" in model:
        return "BPE"
    return "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"


def _are_plain(added, normalizer) -> bool:
    """Returns whether added tokens are special, without options, found in one pass.

    The times of Whisper, such as `<|0.02|>`, count as special.
    """
    for token in added:
        special = token.get("special") or _TIME.fullmatch(token["content"])
        if not special or any(map(token.get, _OPTIONS)):
            return False
    # Times overlap with no other token, so a second pass finds the same.
    others = [token for token in added if not _TIME.fullmatch(token["content"])]
    normalized = {token.get("normalized", False) for token in others}
    return len(normalized) < 2 and (normalizer is None or True not in normalized)


def _vocabulary(content, added) -> list[str]:
    """Returns the tokens in the order of their ids, added tokens included."""
    ids = content["model"]["vocab"]
    if isinstance(ids, list):
        ids = {piece: i for i, (piece, _) in enumerate(ids)}
    added = {token["content"]: token["id"] for token in added}
    return tokens_in_order({**ids, **added}, "the vocabulary")


def _byte_pair(content, vocabulary, special):
    model, decoder = content["model"], content.get("decoder")
    if any(map(model.get, _BEYOND)):
        return None
    if model.get("byte_fallback"):
        return _sentencepiece(content, vocabulary, special)
    if content.get("normalizer") is not None or not BYTE_OF.keys() <= set(vocabulary):
        return None
    pattern = _pattern(content.get("pre_tokenizer"))
    if pattern is None or not _has(decoder, type="ByteLevel"):
        return None
    return BytePairTokenizer.from_vocabulary(
        vocabulary,
        model.get("merges"),
        special_tokens=special,
        pattern=pattern,
        ignore_merges=model.get("ignore_merges", False),
    )


def _sentencepiece(content, vocabulary, special):
    model, unknown = content["model"], unknown_token(content["model"])
    begin = _are(content.get("normalizer"), "normalizers", (_PREPEND, _TO_MARK))
    if not begin or not _are(content.get("decoder"), "decoders", _BYTES_TO_TEXT):
        return None
    if content.get("pre_tokenizer") or not {*byte_alphabet.BYTES} <= {*vocabulary}:
        return None
    if model.get("ignore_merges") or unknown not in (None, *special):
        return None
    return BytePairTokenizer.from_vocabulary(
        vocabulary,
        model.get("merges"),
        level="sentencepiece",
        special_tokens=special,
        unknown=unknown,
        pattern="none",
    )


def _pattern(part):
    """Returns the pattern of a pre-tokenizer; None if it is not a single pattern."""
    if _has(part, **_BYTE_LEVEL):
        return "gpt2"
    parts = (part or {}).get("pretokenizers", [])
    if len(parts) != 2 or not _has(parts[1], **{**_BYTE_LEVEL, "use_regex": False}):
        return None
    if not _has(parts[0], type="Split", behavior="Isolated", invert=False):
        return None
    pattern = parts[0].get("pattern")
    return pattern.get("Regex") if isinstance(pattern, dict) else None


def _unigram(content, vocabulary, special):
    part, model = content.get("pre_tokenizer"), content["model"]
    unknown = unknown_token(model)
    beyond = content.get("normalizer") or content.get("decoder")
    if beyond or not _has(part, **_METASPACE) or unknown not in (None, *special):
        return None
    scores = [score for _, score in model["vocab"]]
    prefixed = part.get("add_prefix_space", True)  # in older files
    return UnigramTokenizer.from_pieces(
        vocabulary,
        scores + [0.0] * (len(vocabulary) - len(scores)),
        unknown=unknown,
        special_tokens=special,
        byte_fallback=model.get("byte_fallback", False),
        add_prefix_space=prefixed and _PREFIX.get(part.get("prepend_scheme", "always")),
        lossless=False,
    )


def _wordpiece(content, vocabulary, special):
    normalizer, decoder = content.get("normalizer"), content.get("decoder")
    model = content["model"]
    unknown, prefix = unknown_token(model), model.get("continuing_subword_prefix")
    known = _has(normalizer, type="BertNormalizer") and unknown in special
    if not known or not _has(content.get("pre_tokenizer"), type="BertPreTokenizer"):
        return None
    if decoder and not _has(decoder, type="WordPiece", prefix=prefix):
        return None
    return WordPieceTokenizer.from_vocabulary(
        vocabulary,
        special_tokens=special,
        unknown=unknown,
        lowercase=normalizer.get("lowercase"),
        strip_accents=normalizer.get("strip_accents"),
        split_chinese=normalizer.get("handle_chinese_chars"),
        clean=normalizer.get("clean_text"),
        prefix=prefix,
        max_word_length=model.get("max_input_chars_per_word"),
        cleanup=decoder is not None and decoder.get("cleanup", True),
    )


_BUILDERS = {"BPE": _byte_pair, "Unigram": _unigram, "WordPiece": _wordpiece}


def unknown_token(model: dict[str, Any]) -> str | None:
    """Returns the unknown token of the model of a `tokenizer.json`, or None.

    Examples:
        >>> unknown_token({"unk_id": 1, "vocab": [["a", -1.0], ["?", 0.0]]})
        '?'
    """
    if model.get("unk_id") is not None:
        return model["vocab"][model["unk_id"]][0]
    return model.get("unk_token") or None


def _are(part, name, components) -> bool:
    """Returns whether a sequence has these components, with their settings."""
    parts = part.get(name) if _has(part, type="Sequence") else None
    if not isinstance(parts, list) or len(parts) != len(components):
        return False
    pairs = zip(parts, components, strict=True)
    return all(_has(one, **settings) for one, settings in pairs)


def _has(part, **settings) -> bool:
    """Returns whether a component has these settings; missing ones count as equal."""
    return isinstance(part, dict) and all(
        part.get(key, value) == value for key, value in settings.items()
    )
