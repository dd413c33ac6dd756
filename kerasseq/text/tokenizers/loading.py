"""`load_tokenizer`: reads files of kerasseq, GPT-2, BERT and Hugging Face.

Every supported `tokenizer.json` of Hugging Face becomes a `HuggingFaceTokenizer`, or,
if it has no options beyond theirs, a `BytePairTokenizer`, `WordPieceTokenizer` or
`UnigramTokenizer`, which also show merges, n-best segmentations and unknown words.
"""

import os
import pathlib
from typing import Any

from kerasseq.core.checks import nearest, short
from kerasseq.core.files import read_json
from kerasseq.text.pipeline.models import BytePairModel, UnigramModel
from kerasseq.text.tokenizers.byte_alphabet import BYTE_OF
from kerasseq.text.tokenizers.byte_pair_tokenizer import (
    BytePairTokenizer,
    from_vocabulary_and_merges,
)
from kerasseq.text.tokenizers.character_tokenizer import CharacterTokenizer
from kerasseq.text.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.text.tokenizers.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.tokenizers.word_tokenizer import WordTokenizer
from kerasseq.text.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

OURS = {
    cls.__name__: cls
    for cls in (
        BytePairTokenizer,
        CharacterTokenizer,
        HuggingFaceTokenizer,
        UnigramTokenizer,
        WordPieceTokenizer,
        WordTokenizer,
    )
}


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """Loads a tokenizer from a file or folder.

    Args:
        path: A file that `save` wrote; a `tokenizer.json` of Hugging Face; a
            `vocab.txt` of BERT; or a folder with one of these two, or with
            `vocab.json` and `merges.txt` of GPT-2.

    Returns:
        The tokenizer, fitted.

    Raises:
        FileNotFoundError: If there is no such file, or the folder has none.
        ValueError: If a file is damaged, or has components that are not supported.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be a path, received {short(path)}")
    path = pathlib.Path(path)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix == ".txt":
        return WordPieceTokenizer.from_vocab_file(path)
    content = read_json(path)
    kind = content.get("format") if isinstance(content, dict) else None
    if isinstance(kind, str) and kind.startswith("kerasseq."):
        name = kind.removeprefix("kerasseq.")
        if name not in OURS:
            raise ValueError(
                f"{path} must hold a tokenizer, received a {name}.{nearest(name, OURS)}"
            )
        return OURS[name].load(path)
    if isinstance(content, dict) and "model" in content:
        return from_tokenizer_json(content, path)
    raise ValueError(
        f"{path} is not a tokenizer: neither one that kerasseq saved nor a "
        "tokenizer.json of Hugging Face, which has a model. For vocab.json and "
        "merges.txt of GPT-2, pass their folder"
    )


def _from_folder(folder):
    if (folder / "tokenizer.json").exists():
        return load_tokenizer(folder / "tokenizer.json")
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if vocabulary.exists() and merges.exists():
        return from_vocabulary_and_merges(vocabulary, merges)
    if (folder / "vocab.txt").exists():
        return load_tokenizer(folder / "vocab.txt")
    raise FileNotFoundError(
        f"{folder} has no tokenizer.json, no vocab.txt, and not both of vocab.json and "
        "merges.txt"
    )


_PREFIX = {"always": True, "never": False, "first": "first"}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_METASPACE = {"type": "Metaspace", "replacement": "▁", "split": True}


def from_tokenizer_json(
    content: dict[str, Any], path: str | os.PathLike[str]
) -> Tokenizer:
    """Returns a tokenizer for the content of a `tokenizer.json`.

    Args:
        content: The file as a dictionary.
        path: The file, for messages.

    Raises:
        ValueError: If a component is missing, damaged or not supported.
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
    """Whether all added tokens are special, without options, and found in one pass."""
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
    """Returns the pattern of a pre-tokenizer; None if it is not a single pattern."""
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
    """Whether a component has these settings; missing ones count as equal."""
    return part is not None and all(
        part.get(key, value) == value for key, value in settings.items()
    )
