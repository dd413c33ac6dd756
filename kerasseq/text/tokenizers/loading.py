"""`load_tokenizer`: reads files of kerasseq, GPT-2, BERT, T5, LLaMA and others.

A `tokenizer.json` without options beyond theirs becomes a `BytePairTokenizer`,
`WordPieceTokenizer` or `UnigramTokenizer`, which need no package and show merges,
n-best segmentations and unknown words. Every other becomes a `HuggingFaceTokenizer`.
"""

import os
import pathlib
from typing import Any

from kerasseq.core.checks import nearest, short
from kerasseq.core.files import read_json
from kerasseq.text.tokenizers.byte_pair_tokenizer import (
    BytePairTokenizer,
    from_vocabulary_and_merges,
)
from kerasseq.text.tokenizers.character_tokenizer import CharacterTokenizer
from kerasseq.text.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer
from kerasseq.text.tokenizers.rwkv_tokenizer import RWKVTokenizer
from kerasseq.text.tokenizers.sentencepiece_file import FILES, read_sentencepiece
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.text.tokenizers.tokenizer_json import covered
from kerasseq.text.tokenizers.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.tokenizers.word_tokenizer import WordTokenizer
from kerasseq.text.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

OURS = {
    cls.__name__: cls
    for cls in (
        BytePairTokenizer,
        CharacterTokenizer,
        HuggingFaceTokenizer,
        RWKVTokenizer,
        UnigramTokenizer,
        WordPieceTokenizer,
        WordTokenizer,
    )
}


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """Loads a tokenizer from a file or folder.

    Args:
        path: A file that `save` wrote; a `tokenizer.json` of Hugging Face; a
            `vocab.txt` of BERT; a model of SentencePiece, such as `tokenizer.model`;
            or a folder with one of these three, or with `vocab.json` and `merges.txt`
            of GPT-2, and with `added_tokens.json` where there is one, as of Whisper.

    Returns:
        The tokenizer, fitted.

    Raises:
        FileNotFoundError: If there is no such file, or the folder has none.
        ImportError: If a `tokenizer.json` or a model of SentencePiece has components
            that the tokenizers of kerasseq lack, and the package `tokenizers` is not
            installed.
        ValueError: If a file is damaged, or a model of SentencePiece cannot be read
            with the same ids.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be a path, received {short(path)}")
    path = pathlib.Path(path)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix in (".model", ".spm"):
        return from_tokenizer_json(read_sentencepiece(path), path)
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
        added = folder / "added_tokens.json"
        added = read_json(added) if added.exists() else None
        return from_vocabulary_and_merges(vocabulary, merges, added=added)
    if (folder / "vocab.txt").exists():
        return load_tokenizer(folder / "vocab.txt")
    for name in FILES:
        if (folder / name).exists():
            return load_tokenizer(folder / name)
    raise FileNotFoundError(
        f"{folder} has no tokenizer.json, no vocab.txt, no {', no '.join(FILES)}, and "
        "not both of vocab.json and merges.txt"
    )


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
    ours = covered(content, path)
    return HuggingFaceTokenizer(content, path=path) if ours is None else ours
