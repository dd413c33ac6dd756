"""What a language model answers to questions, and how it predicts right answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.cli.console import progress
from kerasseq.core.messages import Message

MAX_ANSWER = 64  # tokens


def last_question(talk: list[Message]) -> list[Message] | None:
    """Returns a conversation up to its last answer; None if no question is before it.

    Examples:
        >>> talk = [{"role": "user", "content": "Hi"}]
        >>> last_question(talk) is None
        True
        >>> answer = {"role": "assistant", "content": "Yes"}
        >>> len(last_question([*talk, answer, *talk]))
        2
    """
    while talk and talk[-1]["role"] != "assistant":
        talk = talk[:-1]
    return talk if len(talk) > 1 and talk[-2]["role"] == "user" else None


def answers(model: Any, questions: Sequence[list[Message]]) -> list[str]:
    """Returns the most probable answers to questions.

    Args:
        model: A language model whose tokenizer has a chat template.
        questions: Conversations that end with a question and its right answer.
    """
    from kerasseq.models import Chat

    found = []
    with progress("asking", len(questions)) as show:
        for talk in questions:
            chat = Chat(model, max_new_tokens=MAX_ANSWER)
            chat.messages = list(talk[:-2])
            found.append(chat.ask(talk[-2]["content"]))
            show(len(found))
    return found


def is_right(answer: str, expected: str) -> bool:
    """Returns whether an answer is the expected one, or ends with it.

    Examples:
        >>> [is_right(x, "7") for x in ("7", "The answer is 7.", "17", "7 or 8")]
        [True, True, False, False]
    """
    words, wanted = (x.casefold().strip(" .!").split() for x in (answer, expected))
    return bool(wanted) and words[-len(wanted) :] == wanted


def share_right(
    model: Any, questions: Sequence[list[Message]]
) -> tuple[float, list[str]]:
    """Returns the share of right answers, and all answers.

    Args:
        model: As for `answers`.
        questions: As for `answers`, at least one.
    """
    given = answers(model, questions)
    right = [
        is_right(a, q[-1]["content"]) for a, q in zip(given, questions, strict=True)
    ]
    return sum(right) / len(right), given


def bits_of_answers(
    model: Any, talks: Sequence[list[Message]], batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the bits that the answers of conversations need, and their tokens.

    Args:
        model: A language model.
        talks: The conversations.
        batch_size: How many are predicted at a time.

    Returns:
        Bits `(talks,)` and numbers of tokens `(talks,)`.
    """
    from keras import ops

    from kerasseq.training.policy import log_probability

    batches = model.answer_batches(talks, batch_size=batch_size)
    bits, tokens = np.zeros(len(talks)), np.zeros(len(talks))
    for group in batches.groups:  # of one shape each
        for n in range(0, len(group), batch_size):
            rows = group[n : n + batch_size]
            x, targets, counted = batches.take(rows)
            log_p = log_probability(model.predict_on_batch(x), targets, counted > 0)
            bits[rows] = -ops.convert_to_numpy(log_p) / np.log(2)
            tokens[rows] = counted.sum(axis=1)
    return bits, tokens


def bits_per_byte(model: Any, text: str) -> float:
    """Computes the bits of the tokens of a text but the first, per byte of theirs."""
    encoding = model.tokenizer.encode_with_offsets(text)
    start = int(encoding.offsets[0, 1])
    bits = model.surprise(encoding.ids).bits[1:].sum()
    return float(bits / len(text[start:].encode()))
