"""Answers that a model samples to prompts, their rewards, and their advantages."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.padding import bucket

Reward = Callable[[list[Any], list[Any]], Any]  # of prompts and answers


def encoded_prompts(model: Any, prompts: Any) -> tuple[list[Any], list[list[int]]]:
    """Returns prompts, and the ids of each.

    Args:
        model: The language model.
        prompts: A list of texts, or of ids.

    Raises:
        TypeError: If it is no list, or a prompt has the wrong type.
        ValueError: If there are no prompts, or one is empty. The message names it.
    """
    rows = checks.several("prompts", prompts, "prompts")
    if not rows:
        raise ValueError("prompts must have at least one prompt, received none")
    found = []
    for n, row in enumerate(rows):
        if hasattr(row, "__len__") and not len(row):
            raise ValueError(
                f"prompts[{n}] must have at least one token, received "
                f"{checks.short(row)}"
            )
        ids = model.ids(row if isinstance(row, str) else np.asarray(row))
        if ids is None:
            raise TypeError(
                f"prompts[{n}] must be a text, or ids (tokens,), received "
                f"{checks.short(row)}"
            )
        found.append(ids.tolist())
    return rows, found


def sampled(
    model: Any,
    prompts: Sequence[Any],
    ids: Sequence[list[int]],
    reward: Reward,
    *,
    num_generations: int,
    scale_rewards: bool,
    temperature: float,
    max_new_tokens: int,
    stop: Any,
    seed: int,
) -> dict[str, np.ndarray]:
    """Returns sampled answers as the arrays that `GRPO` reads, without padding rows.

    Args:
        model: The language model.
        prompts: The prompts, as the reward function gets them.
        ids: Their ids.
        reward: A function from prompts and answers to numbers.
        num_generations: G, the answers to each prompt.
        scale_rewards: Whether to divide by the deviation in a group.
        temperature: As for `generate`.
        max_new_tokens: As for `generate`.
        stop: As for `generate`.
        seed: Seed of the draws.

    Returns:
        "ids" `(B G, T)` of prompts with answers; "answer", True at the tokens of the
        answers; "advantages" and "rewards" `(B G,)`.
    """
    repeated = [row for row in ids for _ in range(num_generations)]
    texts = [prompt for prompt in prompts for _ in range(num_generations)]
    drawn = model.sample_answers(
        repeated, max_new_tokens, temperature=temperature, stop=stop, seed=seed
    )
    answers = [
        row[:n].tolist() for row, n in zip(drawn.ids, drawn.lengths, strict=True)
    ]
    rewards = checked_rewards(reward, texts, decoded(model.tokenizer, answers))
    # One shape for prompts of similar lengths, as each new one is compiled.
    length = bucket(max(map(len, ids))) + max_new_tokens
    if model.context_length is not None:
        length = min(length, model.context_length + 1)
    rows = np.zeros((len(repeated), length), "int32")
    answer = np.zeros(rows.shape, bool)
    for n, (prompt, tokens) in enumerate(zip(repeated, answers, strict=True)):
        end = len(prompt) + len(tokens)
        rows[n, :end] = [*prompt, *tokens]
        answer[n, len(prompt) : end] = True
    return {
        "ids": rows,
        "answer": answer,
        "advantages": advantages(rewards, num_generations, scale_rewards),
        "rewards": rewards.astype("float32"),
    }


def decoded(tokenizer: Any, answers: Sequence[list[int]]) -> list[Any]:
    """Returns answers as texts, or as ids if there is no tokenizer."""
    if tokenizer is None:
        return list(answers)
    return [tokenizer.decode(row) for row in answers]


def advantages(rewards: np.ndarray, group: int, scale: bool) -> np.ndarray:
    r"""Compares each reward with the others of its group.

    $$A_i = \frac{r_i - \mathrm{mean}(r)}{\mathrm{std}(r) + 10^{-4}}$$

    with the deviation of a sample, whose divisor is G - 1, as in the package trl.

    Args:
        rewards: `(B G,)`.
        group: G, the number of answers to a prompt.
        scale: Whether to divide.

    Examples:
        >>> advantages(np.array([1.0, 3.0, 5.0, 5.0]), 2, False).tolist()
        [-1.0, 1.0, 0.0, 0.0]
        >>> advantages(np.array([1.0, 3.0]), 2, True).round(3).tolist()
        [-0.7070000171661377, 0.7070000171661377]
    """
    r = rewards.reshape(-1, group).astype("float64")
    centered = r - r.mean(axis=1, keepdims=True)
    if scale:
        centered /= r.std(axis=1, ddof=1, keepdims=True) + 1e-4
    return centered.reshape(-1).astype("float32")


def checked_rewards(
    reward: Reward, prompts: list[Any], answers: list[Any]
) -> np.ndarray:
    """Returns the rewards of answers, finite numbers, `(answers,)`.

    Args:
        reward: A function from prompts and answers to numbers.
        prompts: The prompt of each answer.
        answers: The answers.

    Raises:
        ValueError: If the function raises an error, or returns something else.

    Examples:
        >>> checked_rewards(lambda prompts, answers: [1, float("nan")], "ab", "cd")
        Traceback (most recent call last):
        ...
        ValueError: `reward` must return a finite number for each answer, received nan \
for the prompt 'b' with the answer 'd'
    """
    try:
        values = reward(prompts, answers)
    except Exception as error:
        raise ValueError(
            "`reward` must return a number for each answer, received "
            f"{type(error).__name__}: {error}, raised by {checks.short(reward)} for "
            f"prompts such as {checks.short(prompts[0])} with the answer "
            f"{checks.short(answers[0])}"
        ) from error
    rewards = _numbers(values)
    if rewards is None or rewards.shape != (len(answers),):
        count = "" if rewards is None else f", of the shape {rewards.shape}"
        raise ValueError(
            f"`reward` must return a list of {len(answers)} numbers, one for each "
            f"answer, received {checks.short(values)}{count}, for prompts such as "
            f"{checks.short(prompts[0])}"
        )
    for n in np.flatnonzero(~np.isfinite(rewards))[:1]:
        raise ValueError(
            "`reward` must return a finite number for each answer, received "
            f"{rewards[n]} for the prompt {checks.short(prompts[n])} with the answer "
            f"{checks.short(answers[n])}"
        )
    return rewards


def _numbers(values):
    """Values as a float array; None if they are no numbers."""
    try:
        if not isinstance(values, list | tuple):
            values = ops.convert_to_numpy(values)
        return np.asarray(values, "float64")
    except (TypeError, ValueError):
        return None
