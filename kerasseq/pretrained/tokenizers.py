"""The tokenizer of a checkpoint folder."""

import pathlib
import warnings

from kerasseq.core.files import read_json, read_text
from kerasseq.models.bert.bert_texts import SPECIAL_IDS, special_names
from kerasseq.pretrained import whisper_tokenizers
from kerasseq.pretrained.family import Arguments
from kerasseq.pretrained.folders import write_table
from kerasseq.text import RWKVTokenizer, WordPieceTokenizer, load_tokenizer
from kerasseq.text.tokenizers.byte_pair_tokenizer import from_vocabulary_and_merges
from kerasseq.text.tokenizers.conversion import with_their_template
from kerasseq.text.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer

FILE = "tokenizer.kerasseq.json"
TEMPLATE = "chat_template.jinja"
HUB_ASSETS = "assets/tokenizer"
HUB_RWKV = "keras_hub>RWKVTokenizer"
PUBLISHED_IDS = {"[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}


def with_tokenizer(
    folder: pathlib.Path, source: str, arguments: Arguments, own_ids: int = 0
) -> Arguments:
    """Returns the arguments of a model with the tokenizer of its folder, if it fits.

    Args:
        folder: The folder.
        source: "huggingface" or "keras_hub".
        arguments: Arguments of the model.
        own_ids: How many ids the model may have beyond those of the tokenizer.

    Warns:
        UserWarning: If the tokenizer is damaged, needs a package that is not installed,
            or its number of ids is not that of the model.
    """
    if "vocabulary_size" not in arguments:  # a model without text
        return arguments
    tokenizer, size = _load(folder, source), arguments["vocabulary_size"]
    if tokenizer is None:
        return arguments
    tokenizer = whisper_tokenizers.with_times(tokenizer, size)
    can_grow = isinstance(tokenizer, HuggingFaceTokenizer | RWKVTokenizer)
    if can_grow and tokenizer.vocabulary_size < size:
        tokenizer = tokenizer.padded(size)
    if size - tokenizer.vocabulary_size not in (0, own_ids):
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


def _load(folder, source):
    """Returns the tokenizer of a folder; None without a supported one."""
    try:
        if (folder / FILE).exists():
            return load_tokenizer(folder / FILE)
        if source == "keras_hub":
            return _load_from_preset(folder)
        if (folder / "vocab.txt").exists() and not (folder / "tokenizer.json").exists():
            lowercase = _setting(folder / "tokenizer_config.json", "do_lower_case")
            return _load_word_piece(folder / "vocab.txt", lowercase)
        return _with_template(load_tokenizer(folder), folder)
    except FileNotFoundError:
        return None
    except (ValueError, ImportError) as error:
        _warn(error)
        return None


def _with_template(tokenizer, folder):
    """Sets the chat template of a folder of Hugging Face, if it has one."""
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.exists() else {}
    template = settings.get("chat_template")
    if (folder / TEMPLATE).exists():
        template = read_text(folder / TEMPLATE)
    tokens = {name: x for name, x in settings.items() if name.endswith("_token")}
    try:
        return with_their_template(tokenizer, template, tokens)
    except (ImportError, ValueError) as error:
        warnings.warn(
            f"The tokenizer is loaded without its chat template: {error}", stacklevel=2
        )
        return tokenizer


def _warn(reason):
    warnings.warn(
        f"The model is loaded without a tokenizer, so it takes ids instead of text: "
        f"{reason}",
        stacklevel=2,
    )


def _load_from_preset(folder):
    assets = folder / HUB_ASSETS
    if whisper_tokenizers.is_preset(folder):
        return whisper_tokenizers.read_preset(folder)
    if _setting(folder / "tokenizer.json", "registered_name") == HUB_RWKV:
        return RWKVTokenizer.from_vocab_file(assets / "vocabulary.txt")
    if (assets / "vocabulary.txt").exists():
        lowercase = _setting(folder / "tokenizer.json", "config", "lowercase")
        return _load_word_piece(assets / "vocabulary.txt", lowercase)
    return from_vocabulary_and_merges(assets / "vocabulary.json", assets / "merges.txt")


def _load_word_piece(path, lowercase):
    """Returns BERT's tokenizer, which lowercases unless a file says otherwise."""
    return WordPieceTokenizer.from_vocab_file(path, lowercase=lowercase is not False)


def _setting(path, *names):
    """Returns a setting of a file by nested names; None if it is not there."""
    content = read_json(path) if path.exists() else None
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content


def special_ids(size: int, padding: int) -> dict[str, int]:
    """Returns default ids of BERT's special tokens.

    Args:
        size: Number of ids of the model.
        padding: Id of [PAD].

    Examples:
        >>> special_ids(30522, 0)["[MASK]"], special_ids(11, 0)["[MASK]"]
        (103, 4)
    """
    known = PUBLISHED_IDS if size > max(PUBLISHED_IDS.values()) else SPECIAL_IDS
    return {**known, "[PAD]": padding}


def write(
    folder: pathlib.Path, tokenizer: Tokenizer | None, source: str = "huggingface"
) -> None:
    """Saves the tokenizer of a model in a folder.

    Args:
        folder: The folder.
        tokenizer: The tokenizer, or None.
        source: "huggingface" or "keras_hub". A tokenizer of Whisper is saved for both,
            an `RWKVTokenizer` for KerasHub, too.
    """
    if tokenizer is None:
        return
    tokenizer.save(folder / FILE)
    whisper_tokenizers.write(folder, tokenizer, source)
    if source == "keras_hub" and isinstance(tokenizer, RWKVTokenizer):
        _write_rwkv(folder, tokenizer)


def _write_rwkv(folder, tokenizer):
    """Writes the two files of KerasHub's tokenizer."""
    lines = [f"{line}\n" for line in tokenizer.lines()]
    config = {"name": "rwkv_tokenizer", "vocabulary": lines, "pad_token_id": 0}
    write_table(
        folder / "tokenizer.json",
        {
            "module": "keras_hub.tokenizers",
            "class_name": "RWKVTokenizer",
            "config": {**config, "start_token_id": None, "end_token_id": 0},
            "registered_name": HUB_RWKV,
        },
    )
    assets = folder / HUB_ASSETS
    assets.mkdir(parents=True)
    (assets / "vocabulary.txt").write_text("".join(lines), encoding="utf-8")
