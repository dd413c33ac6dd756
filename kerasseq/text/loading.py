"""One way to load any tokenizer: ours, GPT-2's, BERT's, Hugging Face's."""

import os
import pathlib

from kerasseq.core.checks import nearest, short
from kerasseq.core.files import read_json
from kerasseq.text import huggingface
from kerasseq.text.byte_pair_files import from_vocabulary_and_merges
from kerasseq.text.byte_pair_tokenizer import BytePairTokenizer
from kerasseq.text.character_tokenizer import CharacterTokenizer
from kerasseq.text.huggingface_tokenizer import HuggingFaceTokenizer
from kerasseq.text.tokenizer import Tokenizer
from kerasseq.text.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.word_tokenizer import WordTokenizer
from kerasseq.text.wordpiece_tokenizer import WordPieceTokenizer

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


def load_tokenizer(path) -> Tokenizer:
    """Load a tokenizer from a file or folder, whatever wrote it.

    Args:
        path: A file that `save` wrote; a `tokenizer.json` of Hugging Face; a
            `vocab.txt` of BERT; or a folder with one of these two, or with
            `vocab.json` and `merges.txt` of GPT-2.

    Returns:
        The tokenizer, fitted.

    Raises:
        FileNotFoundError: If there is no such file, or the folder has none.
        ValueError: If a file is damaged, or has parts that are not known here.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be a path, got {short(path)}")
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
                f"{path} holds a {name}, which is no tokenizer.{nearest(name, OURS)}"
            )
        return OURS[name].load(path)
    if isinstance(content, dict) and "model" in content:
        return huggingface.build(content, path)
    raise ValueError(
        f"{path} is no tokenizer: neither one that kerasseq saved nor a tokenizer.json "
        "of Hugging Face, which has a model. For GPT-2's vocab.json and merges.txt "
        "give their folder"
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
