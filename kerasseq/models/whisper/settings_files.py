"""`generation_config.json` of Hugging Face, read and written.

A file is not trusted: ids are checked, and a word is only compared. Read are the
fields of `WhisperGeneration`. Not kept are all others, such as options of sampling,
which are arguments of `transcribe`, and `forced_decoder_ids` of older files, of which
`transcribe` has its own.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from kerasseq.core.schema import Maybe, check
from kerasseq.models.whisper.settings import WhisperGeneration
from kerasseq.models.whisper.special_tokens import token_of
from kerasseq.text.tokenizers.tokenizer import Tokenizer

FILE = "generation_config.json"
# The fields of the file, what they must be, and the names of the arguments.
FIELDS: dict[str, tuple[Any, str]] = {
    "decoder_start_token_id": (int, "start"),
    "eos_token_id": (int, "end"),
    "pad_token_id": (int, "padding"),
    "lang_to_id": ({str: int}, "languages"),
    "task_to_id": ({str: int}, "tasks"),
    "no_timestamps_token_id": (int, "no_timestamps"),
    "prev_sot_token_id": (int, "previous"),
    "suppress_tokens": ([int], "suppress_tokens"),
    "begin_suppress_tokens": ([int], "begin_suppress_tokens"),
    "max_initial_timestamp_index": (int, "max_initial_timestamp_index"),
    "alignment_heads": ([(int, int)], "alignment_heads"),
    "max_length": (int, "max_length"),
}
_CODE = re.compile(r"<\|([a-z]{2,4})\|>")


def read_generation(
    table: Mapping[str, Any],
    where: str | os.PathLike[str] = FILE,
    tokenizer: Tokenizer | None = None,
) -> WhisperGeneration:
    """Returns the settings of a `generation_config.json`.

    Args:
        table: The content of the file, or of the `config.json` of older folders.
        where: The file, for messages.
        tokenizer: Where ids come from that the file lacks, if there is one.

    Raises:
        ValueError: If a field is damaged, or start or end are nowhere.

    Examples:
        >>> table = {
        ...     "decoder_start_token_id": 7, "eos_token_id": 8, "is_multilingual": True,
        ...     "lang_to_id": {"<|en|>": 9}, "task_to_id": {"transcribe": 10},
        ... }
        >>> settings = read_generation(table)
        >>> settings.prompt("en"), generation_fields(settings)["lang_to_id"]
        ([7, 9, 10], {'<|en|>': 9})
    """
    try:
        options = _options(table)
        multilingual = options.pop("multilingual")
        if not multilingual:
            options = {**options, "languages": None, "tasks": None}
        if tokenizer is not None:
            return WhisperGeneration.from_tokenizer(
                tokenizer, multilingual=multilingual, **options
            )
        for field, name in (
            ("decoder_start_token_id", "start"),
            ("eos_token_id", "end"),
        ):
            if name not in options:
                raise ValueError(f"expected the key {field!r}, the id of the {name}")
        return WhisperGeneration(**options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} is damaged: {error}. Download it again") from error


def _options(table):
    """Returns the arguments that a file gives, checked."""
    multilingual = table.get("is_multilingual")
    check(multilingual, bool | None, "is_multilingual")
    options = {"multilingual": multilingual is not False}
    for field, (schema, name) in FIELDS.items():
        value = check(table.get(field), Maybe(schema), field)
        if value is not None:
            options[name] = value
    if "languages" in options:
        options["languages"] = _codes(options["languages"])
    return options


def _codes(table):
    """Returns ids by code, from ids by token."""
    codes = {}
    for token, i in table.items():
        match = _CODE.fullmatch(token)
        if match is None:
            raise ValueError(
                f"lang_to_id must have tokens such as <|en|>, received {token[:60]!r}"
            )
        codes[match[1]] = i
    return codes


def generation_fields(settings: WhisperGeneration) -> dict[str, Any]:
    """Returns settings as the content of a `generation_config.json`.

    Args:
        settings: The settings.

    Raises:
        ValueError: If Hugging Face has no such settings: there the first time follows
            the mark of no times, and the mark of no speech precedes it.
    """
    mark = settings.no_timestamps
    fixed = {"first_timestamp": 1, "no_speech": -1}
    for name, distance in fixed.items():
        value = getattr(settings, name)
        expected = None if mark is None else mark + distance
        if value is not None and value != expected:
            raise ValueError(
                f"{name} must be no_timestamps {distance:+}, {expected}, in files of "
                f"Hugging Face, received {value}. Save the model with model.save"
            )
    config = settings.get_config()
    table = {field: config[name] for field, (_, name) in FIELDS.items()}
    table = {field: x for field, x in table.items() if x or isinstance(x, int)}
    if "lang_to_id" in table:
        ids = settings.languages.items()
        table["lang_to_id"] = {token_of(code): i for code, i in ids}
    return {
        **table,
        "bos_token_id": settings.end,
        "is_multilingual": bool(settings.languages),
        "return_timestamps": False,
    }
