"""The tokenizer of a Whisper folder: Hugging Face's files and KerasHub's preset.

`load_tokenizer` reads Hugging Face's. KerasHub keeps the special tokens beside the
vocabulary, only those that it needs, and none of the times.
"""

import json
import pathlib
from typing import Any

from kerasseq.core.files import read_json
from kerasseq.models.whisper import special_tokens as tokens
from kerasseq.pretrained.folders import Settings, read_table, write_table
from kerasseq.text import BytePairTokenizer
from kerasseq.text.tokenizers.byte_pair_tokenizer import from_vocabulary_and_merges
from kerasseq.text.tokenizers.tokenizer import Tokenizer

HUB_CLASS = "keras_hub>WhisperTokenizer"
ASSETS = pathlib.Path("assets/tokenizer")
_PARTS = ("special_tokens", "language_tokens")
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def with_times(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """Returns a tokenizer with the special tokens that older files leave out.

    Args:
        tokenizer: A tokenizer of Whisper.
        size: Number of ids of the model.

    Examples:
        >>> from kerasseq.text import BytePairTokenizer
        >>> vocabulary = [*"abcd", *tokens.whisper_special_tokens(["en"])[:9]]
        >>> tokenizer = BytePairTokenizer.from_vocabulary(vocabulary, [])
        >>> with_times(tokenizer, 13 + 1501).vocabulary[-1]
        '<|30.00|>'
    """
    count = tokenizer.vocabulary_size
    if (
        size - count != tokens.NUM_TIMESTAMPS
        or type(tokenizer) is not BytePairTokenizer
    ):
        return tokenizer
    if tokenizer.vocabulary[-1] != tokens.NO_TIMESTAMPS:
        return tokenizer
    return tokens.extended(tokenizer, tokens.timestamp_tokens())


def is_preset(folder: pathlib.Path) -> bool:
    """Returns whether the tokenizer of a KerasHub preset is that of Whisper."""
    path = folder / "tokenizer.json"
    table = read_json(path) if path.exists() else None
    return isinstance(table, dict) and table.get("registered_name") == HUB_CLASS


def read_preset(folder: pathlib.Path) -> BytePairTokenizer:
    """Reads the tokenizer of a KerasHub preset.

    Ids that it has no token for, such as those of the times, get the tokens that
    Whisper has there.

    Args:
        folder: The folder.

    Raises:
        ValueError: If a file is damaged.
    """
    assets = folder / ASSETS
    given = special_ids(folder)
    start = given.get(tokens.START)
    mark = given.get(tokens.NO_TIMESTAMPS)
    if start is not None and mark is not None:
        given = {**_layout(start, mark, given), **given}
    return from_vocabulary_and_merges(
        assets / "vocabulary.json", assets / "merges.txt", added=given
    )


def special_ids(folder: pathlib.Path) -> dict[str, int]:
    """Returns the ids of the special tokens that a preset of KerasHub names."""
    path = folder / "tokenizer.json"
    config = Settings(read_table(path), path).part("config")
    ids: dict[str, int] = {}
    for name in _PARTS:
        file = folder / ASSETS / f"{name}.json"
        table = config.get(name, read_json(file) if file.exists() else {})
        if not isinstance(table, dict):
            config.refuse(name, "a table of ids")
        ids.update(table)
    if not all(isinstance(i, int) for i in ids.values()):
        raise ValueError(f"{path} is damaged: the ids of special tokens must be whole")
    return ids


def is_multilingual(folder: pathlib.Path) -> bool:
    """Returns whether the tokenizer of a preset has languages, which the model uses."""
    return any(name in special_ids(folder) for name in map(_token, tokens.LANGUAGES))


_token = tokens.token_of


def _layout(start: int, mark: int, given: dict[str, int]) -> dict[str, int]:
    """Returns tokens for ids from the start on that have none.

    Args:
        start: Id of the start.
        mark: Id of no times.
        given: The ids that are known.
    """
    count = mark - start - 1 - len(tokens.TASKS) - 3  # languages between them
    codes = list(tokens.LANGUAGES)[: max(count, 0)]
    codes += [f"unused_{n}" for n in range(len(codes), count)]
    names = tokens.whisper_special_tokens(codes)[1:]
    taken = set(given.values())
    pairs = zip(names, range(start, start + len(names)), strict=True)
    return {t: i for t, i in pairs if i not in taken and t not in given}


def write(folder: pathlib.Path, tokenizer: Tokenizer | None, source: str) -> None:
    """Writes a tokenizer for Hugging Face or KerasHub, if they have such a one.

    Args:
        folder: The folder.
        tokenizer: The tokenizer. Written is one of bytes with the special tokens of
            Whisper; any other is in the file of kerasseq alone.
        source: "huggingface" or "keras_hub".
    """
    if not _is_theirs(tokenizer):
        return
    ids = {token: n for n, token in enumerate(tokenizer.vocabulary)}
    special = {t: ids[t] for t in tokenizer.special_tokens}
    special = dict(sorted(special.items(), key=lambda item: item[1]))
    ids = {token: n for token, n in ids.items() if token not in special}
    merges = [f"{left} {right}" for left, right, *_ in tokenizer.trace()]
    if source == "keras_hub":
        _write_preset(folder, ids, special, merges)
    else:
        _write_hugging_face(folder, ids, special, merges)


def _is_theirs(tokenizer) -> bool:
    if type(tokenizer) is not BytePairTokenizer or tokenizer.level != "byte":
        return False
    has_marks = {tokens.START, tokens.END} <= set(tokenizer.special_tokens)
    return has_marks and tokenizer.pattern == "gpt2" and tokenizer.all_bytes


def _write_vocabulary(path, ids):
    path.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")


def _write_preset(folder, ids, special, merges):
    """Writes the files of KerasHub's `WhisperTokenizer`."""
    words = {_token(code) for code in tokens.LANGUAGES}
    languages = {t: i for t, i in special.items() if t in words}
    config: dict[str, Any] = {
        "name": "whisper_tokenizer",
        "sequence_length": None,
        "add_prefix_space": False,
        "special_tokens": {t: i for t, i in special.items() if t not in words},
        "language_tokens": languages or None,
    }
    write_table(
        folder / "tokenizer.json",
        {
            "module": "keras_hub.src.models.whisper.whisper_tokenizer",
            "class_name": "WhisperTokenizer",
            "config": config,
            "registered_name": HUB_CLASS,
        },
    )
    assets = folder / ASSETS
    assets.mkdir(parents=True, exist_ok=True)
    end = {tokens.END: special[tokens.END]}
    _write_vocabulary(assets / "vocabulary.json", {**ids, **end})
    _write_merges(assets / "merges.txt", merges)


def _write_hugging_face(folder, ids, special, merges):
    """Writes the files of the `WhisperTokenizer` of transformers."""
    times = set(tokens.timestamp_tokens())
    added = [
        {
            "id": i,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": token not in times,
        }
        for token, i in special.items()
    ]
    end = {tokens.END: special[tokens.END]}
    model = {"type": "BPE", "vocab": {**ids, **end}, "merges": merges}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**_BYTE_LEVEL, "use_regex": True},
        "post_processor": None,
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": model,
    }
    write_table(folder / "tokenizer.json", content)
    _write_vocabulary(folder / "vocab.json", {**ids, **end})
    _write_merges(folder / "merges.txt", merges)
    beyond = {token: i for token, i in special.items() if token != tokens.END}
    write_table(folder / "added_tokens.json", beyond)
    ends = dict.fromkeys(
        ("bos_token", "eos_token", "unk_token", "pad_token"), tokens.END
    )
    settings = {
        "tokenizer_class": "WhisperTokenizer",
        "add_prefix_space": False,
        "errors": "replace",
        "clean_up_tokenization_spaces": False,
        **ends,
        "added_tokens_decoder": {
            str(token["id"]): {k: x for k, x in token.items() if k != "id"}
            for token in added
        },
    }
    write_table(folder / "tokenizer_config.json", settings)
    marks = [token for token in special if token not in times]
    write_table(
        folder / "special_tokens_map.json", {**ends, "additional_special_tokens": marks}
    )


def _write_merges(path, merges):
    lines = ["#version: 0.2", *merges]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
