"""Preferences: for a prompt, the answer that was chosen and the one that was rejected.

They come from a file (`preference_files.py`), or are made here from answers and a
reward: the better answer is chosen, or a vote is drawn with the model of Bradley and
Terry, in which the first of two answers is chosen with probability σ(r₁ − r₂).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kerasseq.core.checks import number, one_of, random_generator, several, short
from kerasseq.core.messages import are_messages, checked

KEYS = ("prompt", "chosen", "rejected")
VOTES = ("best", "bradley_terry")
Reward = Callable[[str, str], float]  # of a prompt and an answer


class Preferences(NamedTuple):
    """Prompts with two answers each.

    The names are those of the columns that the package trl reads. Each is a string, or
    a list of messages, which the chat template of a tokenizer writes.

    Attributes:
        prompt: The prompts.
        chosen: For each prompt the answer that was chosen.
        rejected: For each prompt the other answer.
    """

    prompt: list[Any]
    chosen: list[Any]
    rejected: list[Any]


def preferences(
    prompts: Sequence[str],
    answers: Sequence[Sequence[str]],
    reward: Reward,
    *,
    votes: str = "best",
    seed: int | None = 0,
) -> Preferences:
    r"""Compares the answers to each prompt, two by two, by their rewards.

    Equal answers are not compared.

    Args:
        prompts: The prompts.
        answers: For each prompt a list of at least two answers. All pairs are compared.
        reward: A function of prompt and answer that returns a number.
        votes: "best": the answer with the larger reward is chosen, and pairs of equal
            rewards are left out. "bradley_terry": a vote is drawn for each pair; the
            first answer is chosen with probability $\sigma(r_1 - r_2)$.
        seed: Random seed of the votes.

    Returns:
        The prompts, with the chosen and the rejected answers, as `Preferences`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a prompt or an answer is empty, a reward is not finite, `reward`
            raises an error, or no pair is left.

    Examples:
        >>> answers = [["24", "21", "77"]]
        >>> preferences(["n:"], answers, lambda prompt, answer: answer.count("7"))
        Preferences(prompt=['n:', 'n:'], chosen=['77', '77'], rejected=['24', '21'])

    References:
        Bradley and Terry 1952.
    """
    one_of("votes", votes, VOTES)
    if not callable(reward):
        raise TypeError(
            "`reward` must be a function of a prompt and an answer, received "
            f"{short(reward)}"
        )
    rng = random_generator(seed)
    rows = []
    for n, (prompt, texts) in enumerate(_questions(prompts, answers)):
        rewards = [
            _reward(reward, prompt, text, f"answers[{n}][{k}]")
            for k, text in enumerate(texts)
        ]
        for i, j in itertools.combinations(range(len(texts)), 2):
            gap = rewards[i] - rewards[j]
            if texts[i] == texts[j] or (votes == "best" and not gap):
                continue
            first_wins = gap > 0
            if votes == "bradley_terry":
                first_wins = rng.random() < (1 + math.tanh(gap / 2)) / 2
            i, j = (i, j) if first_wins else (j, i)
            rows.append((prompt, texts[i], texts[j]))
    if not rows:
        raise ValueError(
            "`answers` must have two answers with different rewards for a prompt, "
            f"received {short(answers)}, which are equal or have equal rewards"
        )
    return Preferences(*map(list, zip(*rows, strict=True)))


def _questions(prompts, answers) -> Iterator[tuple[str, list[str]]]:
    """Yields each prompt with its answers, checked."""
    prompts = several("prompts", prompts)
    answers = several("answers", answers, "lists of answers")
    if len(prompts) != len(answers):
        raise ValueError(
            "`prompts` and `answers` must have the same length, received "
            f"{len(prompts)} and {len(answers)}"
        )
    for n, (prompt, texts) in enumerate(zip(prompts, answers, strict=True)):
        check_text(f"prompts[{n}]", prompt)
        texts = several(f"answers[{n}]", texts)
        if len(texts) < 2:
            raise ValueError(
                f"answers[{n}] must have at least two answers, received {short(texts)}"
            )
        for k, text in enumerate(texts):
            check_text(f"answers[{n}][{k}]", text)
        yield prompt, texts


def _reward(reward, prompt, answer, where) -> float:
    """Returns the reward of an answer, a finite number."""
    try:
        value = reward(prompt, answer)
    except Exception as error:
        raise ValueError(
            f"`reward` must return a number for {where}, {short(answer)}, received "
            f"{type(error).__name__}: {error}, raised by {short(reward)}"
        ) from error
    value = number(f"the reward of {where}", value)
    if not math.isfinite(value):
        raise ValueError(
            f"the reward of {where} must be a finite number, received {value} for "
            f"{short(answer)}"
        )
    return float(value)


def columns_of(data: Any) -> Preferences:
    """Returns rows or columns named "prompt", "chosen" and "rejected" as columns.

    Args:
        data: `Preferences`, a dictionary or table of columns, or rows: dictionaries.

    Raises:
        TypeError: If it is something else.
        ValueError: If a column or a key is missing, or there are no rows.

    Examples:
        >>> columns_of([{"prompt": "1+1=", "chosen": "2", "rejected": "3"}])
        Preferences(prompt=['1+1='], chosen=['2'], rejected=['3'])
    """
    if isinstance(data, Preferences):
        table = data
    elif isinstance(data, Mapping) or hasattr(data, "columns"):
        _check_keys("x", data)
        table = Preferences(*(several(f"x[{key!r}]", data[key]) for key in KEYS))
    else:
        rows = several("x", data, "rows with prompt, chosen and rejected")
        for n, row in enumerate(rows):
            _check_keys(f"x[{n}]", row)
        table = Preferences(*([row[key] for row in rows] for key in KEYS))
    lengths = [len(column) for column in table]
    if len({*lengths}) > 1 or not lengths[0]:
        raise ValueError(
            "x must have at least one row, and columns of the same length, received "
            f"{lengths} rows of prompt, chosen and rejected"
        )
    return table


def _check_keys(where, row):
    if not (isinstance(row, Mapping) or hasattr(row, "columns")):
        raise TypeError(
            f"{where} must have the keys {', '.join(KEYS)}, received {short(row)}"
        )
    missing = [key for key in KEYS if key not in row]
    if missing:
        raise ValueError(
            f"{where} must have the keys {', '.join(KEYS)}, received "
            f"{short(list(row) or row)}, without {' and '.join(missing)}"
        )


def checked_row(row: Mapping[str, Any], where: str) -> tuple[str, str, str]:
    """Returns prompt, chosen and rejected answer of a row.

    Args:
        row: The row, with the three keys.
        where: Its place, for messages.

    Raises:
        TypeError: If one of them is not a string.
        ValueError: If a key is missing, a text is empty, or both answers are equal.

    Examples:
        >>> checked_row({"prompt": "", "chosen": "2", "rejected": "3"}, "a.jsonl:7")
        Traceback (most recent call last):
        ...
        ValueError: a.jsonl:7, prompt must not be empty, received ''
    """
    _check_keys(where, row)
    texts = tuple(row[key] for key in KEYS)
    for key, text in zip(KEYS, texts, strict=True):
        check_text(f"{where}, {key}", text)
    if texts[1] == texts[2]:
        raise ValueError(
            f"{where}, chosen and rejected must differ, received {short(texts[1])} "
            "twice. Leave the row out"
        )
    return texts


def check_text(where: str, text: object) -> None:
    """Raises unless this is a string, not empty; or a list of messages."""
    if are_messages(text):
        checked(text, where)
        return
    if not isinstance(text, str):
        raise TypeError(f"{where} must be a string, received {short(text)}")
    if not text:
        raise ValueError(f"{where} must not be empty, received ''")
