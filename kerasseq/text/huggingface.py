"""Tokenizers from Hugging Face's `tokenizer.json`.

Every file that is supported becomes a `HuggingFaceTokenizer`. Where a file says no more
than a `BytePairTokenizer`, `WordPieceTokenizer` or `UnigramTokenizer` can, it becomes
one of these, which can do more: show its merges, the n best paths, unknown words.
"""

from kerasseq.text.byte_alphabet import BYTE_OF
from kerasseq.text.byte_pair_tokenizer import BytePairTokenizer
from kerasseq.text.huggingface_tokenizer import HuggingFaceTokenizer
from kerasseq.text.pipeline.models import BytePairModel, UnigramModel
from kerasseq.text.tokenizer import Tokenizer
from kerasseq.text.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.wordpiece_tokenizer import WordPieceTokenizer

_PREFIX = {"always": True, "never": False, "first": "first"}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_METASPACE = {"type": "Metaspace", "replacement": "▁", "split": True}


def build(content: dict, path) -> Tokenizer:
    """A tokenizer from the content of a `tokenizer.json`.

    Args:
        content: The file as a dictionary.
        path: Where it came from, for messages.

    Raises:
        ValueError: If a part is missing, damaged or not supported.
    """
    tokenizer = HuggingFaceTokenizer(content, path=path)
    if not _is_plain(tokenizer):
        return tokenizer
    builders = {BytePairModel: _byte_pair, UnigramModel: _unigram}
    builder = builders.get(type(tokenizer.model), _wordpiece)
    try:
        return builder(tokenizer, content) or tokenizer
    except ValueError:  # for example, pieces that lack a byte
        return tokenizer


def _is_plain(tokenizer):
    """Whether all that is special is found before all else, and by no options."""
    added = tokenizer.added_tokens
    if not all(token.is_plain for token in added):
        return False
    if tokenizer.normalizer is not None and any(token.normalized for token in added):
        return False
    return len({token.normalized for token in added}) < 2  # else there are two passes


def _byte_pair(tokenizer, content):
    model = tokenizer.model
    if tokenizer.normalizer is not None or model.byte_fallback or model.ignore_merges:
        return None
    if not model.ids.keys() >= BYTE_OF.keys():
        return None
    pattern = _pattern(content.get("pre_tokenizer"))
    decoder = content.get("decoder") or {}
    if pattern is None or not _has(decoder, type="ByteLevel"):
        return None
    native = BytePairTokenizer(
        tokenizer.vocabulary_size,
        special_tokens=tokenizer.special_tokens,
        pattern=pattern,
    )
    native.take(tokenizer.vocabulary, model.merges)
    return native


def _pattern(part):
    """How the text is split into words; None if a pattern cannot tell."""
    if _has(part, **_BYTE_LEVEL):
        return "gpt2"
    parts = (part or {}).get("pretokenizers", [])
    if len(parts) != 2 or not _has(parts[1], **{**_BYTE_LEVEL, "use_regex": False}):
        return None
    if not _has(parts[0], type="Split", behavior="Isolated", invert=False):
        return None
    return parts[0]["pattern"].get("Regex")


def _unigram(tokenizer, content):
    part, model = content.get("pre_tokenizer"), content["model"]
    if tokenizer.normalizer is not None or not _has(part, **_METASPACE):
        return None
    known = tokenizer.unknown in (None, *tokenizer.special_tokens)
    if not known or tokenizer.decoder is not None:
        return None
    pieces, scores = map(list, zip(*model["vocab"], strict=True))
    added = tokenizer.vocabulary[len(pieces) :]
    return UnigramTokenizer.from_pieces(
        pieces + added,
        scores + [0.0] * len(added),
        unknown=tokenizer.unknown,
        special_tokens=tokenizer.special_tokens,
        byte_fallback=tokenizer.model.byte_fallback,
        add_prefix_space=_PREFIX[tokenizer.pre_tokenizer.scheme],
        lossless=False,
    )


def _wordpiece(tokenizer, content):
    normalizer, decoder = content.get("normalizer"), content.get("decoder")
    known = _has(normalizer, type="BertNormalizer")
    known = known and tokenizer.unknown in tokenizer.special_tokens
    if not known or not _has(content.get("pre_tokenizer"), type="BertPreTokenizer"):
        return None
    prefix = tokenizer.model.prefix
    if decoder and not _has(decoder, type="WordPiece", prefix=prefix, cleanup=False):
        return None
    return WordPieceTokenizer.from_vocabulary(
        tokenizer.vocabulary,
        special_tokens=tokenizer.special_tokens,
        unknown=tokenizer.unknown,
        lowercase=normalizer["lowercase"],
        strip_accents=normalizer.get("strip_accents"),
        split_chinese=normalizer["handle_chinese_chars"],
        clean=normalizer["clean_text"],
        prefix=prefix,
        max_word_length=tokenizer.model.longest_word,
    )


def _has(part, **settings) -> bool:
    """Whether a component has these settings; those it lacks are as by default."""
    return part is not None and all(
        part.get(key, value) == value for key, value in settings.items()
    )
