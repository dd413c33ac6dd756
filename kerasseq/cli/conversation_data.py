"""What `kerasseq train conversations` reads: conversations, and a text.

Importing this module loads no Keras.
"""

import json
import math
import os
import re
from typing import Any

import numpy as np

from kerasseq.cli import language_model, options, tokenize
from kerasseq.cli.console import note
from kerasseq.core.files import sha256
from kerasseq.core.messages import Message
from kerasseq.datasets import text_file
from kerasseq.datasets.conversation_files import conversation_rows
from kerasseq.text.chat import answers
from kerasseq.text.tokenizers.tokenizer import chat_template_of

BLOCK = 64  # tokens of a block of the text
LONGEST_TOKEN = 32  # characters of a block per token, at most
SCORED = 20_000  # characters at the end of the text, at most


def read(
    settings: options.Settings,
) -> tuple[tuple[dict[int, list[Message]], str], dict[str, Any]]:
    """Reads the conversations by their lines, and the text; "" for none."""
    rows = conversation_rows(settings.file, settings.encoding)
    if len(rows) < 2:
        raise ValueError(
            f"{settings.file} must have at least two conversations, as one is held "
            "out, received one"
        )
    data: dict[str, Any] = {"source": os.path.basename(settings.file)}
    data["rows"] = len(rows)
    settings.file = os.path.abspath(settings.file)  # to resume from any folder
    text = ""
    if settings.text is not None:
        text = text_file(settings.text, settings.encoding)
        data["text"] = os.path.basename(settings.text)
        settings.text = os.path.abspath(settings.text)
    words = [*map(key, rows.values()), text]
    return (rows, text), {**data, "sha256": sha256("\n".join(words))}


def key(talk: list[Message]) -> str:
    """Returns what is the same for a conversation that is there twice."""
    return json.dumps(talk)


def check_template(model: Any, base: str) -> None:
    """Raises unless the tokenizer of the base has a chat template.

    Raises:
        ValueError: If it has none. The message says how to get one.
    """
    if getattr(model.tokenizer, "chat_template", None) is None:
        raise ValueError(
            f"{base} has no chat template, which marks who speaks. Train it with  "
            "kerasseq train language-model --chat,  or set that of its tokenizer in "
            "Python"
        )


def fitting(
    model: Any, rows: dict[int, list[Message]], file: str, at_least: int = 1
) -> list[Any]:
    """Returns the conversations that the model reads, long ones cut after an answer.

    Args:
        model: The language model.
        rows: The conversations by their lines.
        file: The file, for messages.
        at_least: How many must be left.

    Raises:
        ValueError: If one has no answer, or too few are left.
    """
    template, kept, cut = chat_template_of(model.tokenizer), [], 0
    longest = model.context_length
    room = np.inf if longest is None else longest + 1  # the last token is not read
    for line, given in rows.items():
        talk, where = given, f"{file}, line {line}"
        while talk and count(model, answers.parts(template, talk, where)) > room:
            talk = shorter(talk)
        if talk:
            kept.append(talk)
            cut += talk is not given
    if len(kept) < len(rows):
        note(
            f"conversations left out: {len(rows) - len(kept):,} of {len(rows):,}, as "
            f"the model reads {longest} tokens"
        )
    if cut:
        note(
            f"conversations cut after an answer: {cut:,}, as the model reads {longest} "
            "tokens"
        )
    if len(kept) < at_least:
        raise ValueError(
            f"{file} must have conversations of at most {room} tokens, which the model "
            f"reads, at least {at_least}, received {len(kept)}. Train a base with a "
            "larger --sequence-length"
        )
    said = "\n".join(message["content"] for talk in kept for message in talk)
    tokenize.note_unknown(model.tokenizer, said, "conversations")
    return kept


def count(model: Any, parts: list[tuple[str, bool]]) -> int:
    """Returns the tokens of a conversation, whose parts are tokenized apart."""
    return sum(len(model.tokenizer.encode(text)) for text, _ in parts)


def shorter(talk: list[Message]) -> list[Message]:
    """Returns a conversation without its last answer; empty if it has one.

    Examples:
        >>> talk = [{"role": r, "content": "x"} for r in ("user", "assistant") * 2]
        >>> len(shorter(talk)), len(shorter(talk[:2]))
        (2, 0)
    """
    places = [n for n, each in enumerate(talk) if n and each["role"] == "assistant"]
    return talk[: places[-2] + 1] if len(places) > 1 else []


def mixed(model: Any, text: str, most: int, seed: int) -> tuple[list[str], str]:
    """Returns blocks of a text that are drawn at random, and its end, to be scored.

    Args:
        model: The language model.
        text: The text; "" for none.
        most: The largest number of blocks.
        seed: Seed of the draw.

    Raises:
        ValueError: If the text is too short.
    """
    if not text:
        return [], ""
    text, end = language_model.split(text, SCORED)
    language_model.check_held_out(model.tokenizer, end)
    length = min(BLOCK, model.context_length or BLOCK) + 1
    # A large text is not tokenized as a whole.
    per_token = len(end) / len(model.tokenizer.encode(end))
    starts = np.arange(0, len(text), math.ceil(length * per_token))
    drawn = np.sort(np.random.default_rng(seed).permutation(starts)[:most])
    blocks = [*filter(None, (block(model.tokenizer, text, n, length) for n in drawn))]
    tokenize.note_unknown(model.tokenizer, "\n".join(blocks), "blocks of the text")
    return blocks, end


def block(tokenizer: Any, text: str, start: int, length: int) -> str:
    """Returns the tokens of a text from a place on, or from the word after it.

    Args:
        tokenizer: Tokenizer of the model.
        text: The text.
        start: Position of a character.
        length: The largest number of tokens.

    Returns:
        The block; "" if it has fewer than two tokens, of which one is predicted.

    Examples:
        >>> from kerasseq.text import WordTokenizer
        >>> text = "a red cat , a blue dog"
        >>> tokenizer = WordTokenizer().fit(text)
        >>> block(tokenizer, text, 0, 3), block(tokenizer, text, 3, 3)
        ('a red cat', 'cat , a')
    """
    rest = text[start : start + LONGEST_TOKEN * length]
    if start and (space := re.search(r"\s+(?=\S)", rest)):
        rest = rest[space.end() :]
    ends = tokenizer.encode_with_offsets(rest).offsets[:length, 1]
    return rest[: int(ends.max())] if len(ends) > 1 else ""
