"""Pairs of answers to a prompt as arrays of ids, and their batches."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerasseq.core.checks import short
from kerasseq.core.messages import are_messages
from kerasseq.core.padding import padded
from kerasseq.datasets.preferences import KEYS, checked_row, columns_of
from kerasseq.text.chat import answers
from kerasseq.text.tokenizers.tokenizer import chat_template_of
from kerasseq.training.batches import GroupedBatches

Encode = Callable[[Any], np.ndarray | None]  # from a text, or ids, to ids
Pair = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids of prompt, chosen, rejected


def encoded_pairs(
    data: Any, encode: Encode, longest: int | None, tokenizer: Any = None
) -> list[Pair]:
    """Returns preferences as ids.

    Args:
        data: As for `columns_of`; the texts may be ids instead, or messages.
        encode: A function from a text or ids to ids `(tokens,)`; None for others.
        longest: The most tokens of a prompt with an answer, or None.
        tokenizer: Has the chat template that writes messages.

    Raises:
        TypeError: If the data are no rows of preferences.
        ValueError: If a text is empty or too long, both answers are equal, or there are
            messages and no chat template.

    Examples:
        >>> row = {"prompt": [3], "chosen": [5, 2], "rejected": [7]}
        >>> [[part.tolist() for part in pair] for pair in encoded_pairs(
        ...     [row], np.asarray, None)]
        [[[3], [5, 2], [7]]]
    """
    pairs = []
    for n, row in enumerate(zip(*columns_of(data), strict=True)):
        if any(map(are_messages, row)):
            row = answers.preference_texts(chat_template_of(tokenizer), row, f"x[{n}]")
        pairs.append(_pair(row, encode, longest, f"x[{n}]"))
    return pairs


def _pair(row, encode, longest, where):
    if all(isinstance(part, str) for part in row):
        checked_row(dict(zip(KEYS, row, strict=True)), where)
    prompt, chosen, rejected = (
        _ids(part, encode, f"{where}, {key}")
        for key, part in zip(KEYS, row, strict=True)
    )
    if np.array_equal(chosen, rejected):
        raise ValueError(
            f"{where}, chosen and rejected must differ in a token, received "
            f"{short(row[1])} and {short(row[2])}. Leave the row out"
        )
    length = len(prompt) + max(len(chosen), len(rejected))
    if longest is not None and length > longest:
        raise ValueError(
            f"{where} must have at most {longest} tokens, with the prompt and the "
            f"longer answer, received {length}. Shorten it, or build the model with a "
            "larger max_sequence_length"
        )
    return prompt, chosen, rejected


def _ids(part, encode, where):
    """Returns the ids of a text of a row, at least one."""
    is_row = _is_row(part)
    if is_row and not len(part):
        raise ValueError(f"{where} must not be empty, received {short(part)}")
    ids = encode(part) if is_row else None
    if ids is None or not len(ids):
        raise TypeError(
            f"{where} must be a text, or ids (tokens,), received {short(part)}"
        )
    return ids


def _is_row(part):
    """Returns whether this is a text, or a sequence without others inside."""
    if isinstance(part, list | tuple):
        return not any(hasattr(each, "__len__") for each in part)
    return isinstance(part, str) or getattr(part, "ndim", None) == 1


def pair_arrays(pairs: Sequence[Pair], length: int | None = None) -> dict[str, Any]:
    """Returns pairs as the arrays that `DPO` reads.

    Args:
        pairs: Ids of prompts, chosen and rejected answers.
        length: Length to pad to; that of the longest if None.

    Returns:
        "ids" `(B, 2, T)` of each prompt with the chosen answer, and with the rejected
        one; and "answer", True at the tokens of the answers. Padding is on the right.

    Examples:
        >>> arrays = pair_arrays([([3], [5, 2], [7])])
        >>> arrays["ids"].tolist(), arrays["answer"].tolist()
        ([[[3, 5, 2], [3, 7, 0]]], [[[False, True, True], [False, True, False]]])
    """
    both = [(prompt, answer) for prompt, *two in pairs for answer in two]
    ids = padded([[*prompt, *answer] for prompt, answer in both], length)
    places = [[0] * len(prompt) + [1] * len(answer) for prompt, answer in both]
    answer = padded(places, ids.shape[1], "bool")
    shape = (len(pairs), 2, ids.shape[1])
    return {"ids": ids.reshape(shape), "answer": answer.reshape(shape)}


def pairwise_batches(
    pairs: Sequence[Pair], batch_size: int, seed: int = 0, longest: float = math.inf
) -> GroupedBatches:
    """Returns batches of preferences, of a few lengths.

    Args:
        pairs: Ids of prompts, chosen and rejected answers.
        batch_size: Pairs in a batch.
        seed: Seed of the order.
        longest: The most tokens of a row that the model reads.

    Examples:
        >>> batches = pairwise_batches([([3], [5, 2], [7]), ([3], [2], [5])], 1)
        >>> sorted(batches.batch(n)[0]["ids"].shape for n in range(2))
        [(1, 2, 2), (1, 2, 3)]
    """

    def arrays_of(rows, length):
        return (pair_arrays([pairs[row] for row in rows], length),)

    lengths = [len(prompt) + max(map(len, two)) for prompt, *two in pairs]
    options = {"longest": longest, "arrays_of": arrays_of}
    return GroupedBatches(np.array(lengths)[:, None], batch_size, seed, **options)
