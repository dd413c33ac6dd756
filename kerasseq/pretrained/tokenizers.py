"""The tokenizer of a folder, where there is one that is known here."""

import warnings

from kerasseq.core.files import read_json
from kerasseq.language.bert_texts import SPECIAL_IDS, special_names
from kerasseq.text import WordPieceTokenizer, load_tokenizer
from kerasseq.text.byte_pair_files import from_vocabulary_and_merges

OURS = "tokenizer.kerasseq.json"
ASSETS = "assets/tokenizer"
PUBLISHED = {"[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}


def added(folder, source, family, arguments):
    """The arguments of a model, with the tokenizer of its folder if it fits.

    Args:
        folder: The folder, a path.
        source: "huggingface" or "keras_hub".
        family: The `Family`.
        arguments: Of the model.

    Warns:
        UserWarning: If there is a tokenizer that is not supported, is damaged, or has
            another number of ids than the model.
    """
    if "vocabulary_size" not in arguments:  # it reads no text
        return arguments
    tokenizer, size = _known(folder, source), arguments["vocabulary_size"]
    if tokenizer is None:
        return arguments
    if tokenizer.vocabulary_size != size:
        _warn(
            f"the tokenizer of {folder} has {tokenizer.vocabulary_size} ids, the model "
            f"{size}"
        )
        return arguments
    if "special_ids" in arguments:
        if not set(special_names(tokenizer).values()) <= set(tokenizer.vocabulary):
            return arguments
        arguments = {**arguments, "special_ids": None}
    return {**arguments, "vocabulary_size": None, "tokenizer": tokenizer}


def _known(folder, source):
    """The tokenizer of a folder; None if there is none, or one that is not known."""
    try:
        if (folder / OURS).exists():
            return load_tokenizer(folder / OURS)
        if source == "keras_hub":
            return _of_preset(folder)
        if (folder / "vocab.txt").exists() and not (folder / "tokenizer.json").exists():
            lowercase = _setting(folder / "tokenizer_config.json", "do_lower_case")
            return _word_piece(folder / "vocab.txt", lowercase)
        return load_tokenizer(folder)
    except FileNotFoundError:
        return None
    except (ValueError, ImportError) as error:
        _warn(error)
        return None


def _warn(reason):
    warnings.warn(
        f"The model is loaded without a tokenizer, so it takes ids instead of text: "
        f"{reason}",
        stacklevel=2,
    )


def _of_preset(folder):
    assets = folder / ASSETS
    if (assets / "vocabulary.txt").exists():
        lowercase = _setting(folder / "tokenizer.json", "config", "lowercase")
        return _word_piece(assets / "vocabulary.txt", lowercase)
    return from_vocabulary_and_merges(assets / "vocabulary.json", assets / "merges.txt")


def _word_piece(path, lowercase):
    """BERT's tokenizer, which takes letters as small ones unless a file says no."""
    return WordPieceTokenizer.from_vocab_file(path, lowercase=lowercase is not False)


def _setting(path, *names):
    """What a file says under a name, or under one within another; None if nothing."""
    content = read_json(path) if path.exists() else None
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content


def special_ids(size, padding):
    """The ids of BERT's special tokens, where no tokenizer says them.

    Args:
        size: Number of ids.
        padding: That of [PAD].

    Examples:
        >>> special_ids(30522, 0)["[MASK]"], special_ids(11, 0)["[MASK]"]
        (103, 4)
    """
    known = PUBLISHED if size > max(PUBLISHED.values()) else SPECIAL_IDS
    return {**known, "[PAD]": padding}


def write(folder, tokenizer):
    """Write the tokenizer of a model into a folder."""
    if tokenizer is not None:
        tokenizer.save(folder / OURS)
