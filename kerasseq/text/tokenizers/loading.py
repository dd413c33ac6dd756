"""`load_tokenizer`: reads files of kerasseq, GPT-2, BERT and Hugging Face.

A `tokenizer.json` without options beyond theirs becomes a `BytePairTokenizer`,
`WordPieceTokenizer` or `UnigramTokenizer`, which need no package and show merges,
n-best segmentations and unknown words. Every other becomes a `HuggingFaceTokenizer`.
"""

import os
import pathlib
from typing import Any

from kerasseq.core.checks import nearest, short
from kerasseq.core.files import read_json
from kerasseq.core.schema import Maybe, check
from kerasseq.text.files import tokens_in_order
from kerasseq.text.tokenizers.byte_alphabet import BYTE_OF
from kerasseq.text.tokenizers.byte_pair_tokenizer import (
    BytePairTokenizer,
    from_vocabulary_and_merges,
)
from kerasseq.text.tokenizers.character_tokenizer import CharacterTokenizer
from kerasseq.text.tokenizers.huggingface_tokenizer import (
    KEYS,
    HuggingFaceTokenizer,
    unknown_token,
)
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
        ImportError: If a `tokenizer.json` has components that the tokenizers of
            kerasseq lack, and the package `tokenizers` is not installed.
        ValueError: If a file is damaged.
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
_OPTIONS = ("single_word", "lstrip", "rstrip")
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


def from_tokenizer_json(
    content: dict[str, Any], path: str | os.PathLike[str]
) -> Tokenizer:
    """Returns a tokenizer for the content of a `tokenizer.json`.

    Args:
        content: The file as a dictionary.
        path: The file, for messages.

    Raises:
        ImportError: If it needs the package `tokenizers`, which is not installed.
        ValueError: If it is damaged.
    """
    content = {key: content[key] for key in KEYS if key in content}
    try:
        kind = _checked(content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}. Download it again") from error
    added = sorted(content.get("added_tokens") or [], key=lambda token: token["id"])
    if kind in _BUILDERS and _are_plain(added, content.get("normalizer")):
        special = tuple(token["content"] for token in added)
        try:
            tokenizer = _BUILDERS[kind](content, _vocabulary(content, added), special)
        except (
            LookupError,
            TypeError,
            ValueError,
        ):  # for example, pieces that lack a byte
            tokenizer = None
        if tokenizer is not None:
            return tokenizer
    return HuggingFaceTokenizer(content, path=path)


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
    """Whether all added tokens are special, without options, and found in one pass."""
    for token in added:
        if not token.get("special") or any(map(token.get, _OPTIONS)):
            return False
    normalized = {token.get("normalized", False) for token in added}
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
    beyond = ("dropout", "byte_fallback", "continuing_subword_prefix")
    if any(map(model.get, (*beyond, "end_of_word_suffix"))):
        return None
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


def _has(part, **settings) -> bool:
    """Whether a component has these settings; missing ones count as equal."""
    return isinstance(part, dict) and all(
        part.get(key, value) == value for key, value in settings.items()
    )
