"""Answers that a model samples to prompts, their rewards, and their advantages."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.padding import bucket
from kerasseq.training.batches import NumberedBatches
from kerasseq.training.grpo_loss import advantages

Reward = Callable[[list[Any], list[Any]], Any]  # of prompts and answers


def encoded_prompts(
    model: Any, prompts: Any, max_new_tokens: int, longest: int | None
) -> tuple[list[Any], list[list[int]]]:
    """Returns prompts, and the ids of each.

    Args:
        model: The language model.
        prompts: A list of texts, or of ids.
        max_new_tokens: The most tokens of an answer.
        longest: The most tokens of a prompt with its answer, or None.

    Raises:
        TypeError: If it is no list, or a prompt has the wrong type.
        ValueError: If there are no prompts, or one is empty or too long. The message
            names it.
    """
    rows = checks.several("prompts", prompts, "prompts")
    if not rows:
        raise ValueError("prompts must have at least one prompt, received none")
    encoded = []
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
        if longest is not None and len(ids) + max_new_tokens > longest:
            raise ValueError(
                f"prompts[{n}] must have at most {longest - max_new_tokens} tokens, as "
                f"the model reads {longest} with an answer of max_new_tokens="
                f"{max_new_tokens}, received {len(ids)}. Shorten it or the answers, or "
                "build the model with a larger max_sequence_length"
            )
        encoded.append(ids.tolist())
    return rows, encoded


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
    return {
        **answer_arrays(repeated, answers, length),
        "advantages": advantages(rewards, num_generations, scale_rewards),
        "rewards": rewards.astype("float32"),
    }


def answer_arrays(
    prompts: Sequence[list[int]], answers: Sequence[list[int]], length: int
) -> dict[str, np.ndarray]:
    """Returns prompts with answers as arrays, with padding on the right.

    Args:
        prompts: The ids of the prompt of each answer.
        answers: The ids of the answers.
        length: T.

    Returns:
        "ids" `(N, T)`, and "answer", True at the tokens of the answers.

    Examples:
        >>> arrays = answer_arrays([[3, 1]], [[4]], 5)
        >>> arrays["ids"].tolist(), arrays["answer"].tolist()
        ([[3, 1, 4, 0, 0]], [[False, False, True, False, False]])
    """
    ids = np.zeros((len(prompts), length), "int32")
    answer = np.zeros(ids.shape, bool)
    for n, (prompt, tokens) in enumerate(zip(prompts, answers, strict=True)):
        end = len(prompt) + len(tokens)
        ids[n, :end] = [*prompt, *tokens]
        answer[n, len(prompt) : end] = True
    return {"ids": ids, "answer": answer}


def decoded(tokenizer: Any, answers: Sequence[list[int]]) -> list[Any]:
    """Returns answers as texts, or as ids if there is no tokenizer."""
    if tokenizer is None:
        return list(answers)
    return [tokenizer.decode(row) for row in answers]


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
            f"{type(error).__name__}: {error}, raised for prompts such as "
            f"{checks.short(prompts[0])} with the answer {checks.short(answers[0])}"
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


def prompt_batches(
    prompts: Sequence[Any], ids: Sequence[list[int]], batch_size: int, seed: int
) -> NumberedBatches:
    """Returns batches of prompts by number, with a seed of the answers for each.

    Args:
        prompts: The prompts.
        ids: Their ids.
        batch_size: Prompts in a batch.
        seed: Seed of the order and of the answers.

    Examples:
        >>> batches = prompt_batches(["a", "b"], [[3], [5]], batch_size=2, seed=0)
        >>> prompts, ids, seed = batches.batch(0)
        >>> sorted(prompts), sorted(ids), batches.steps_per_epoch
        (['a', 'b'], [[3], [5]], 1)
    """

    def take(rows):
        return [[each[n] for n in rows] for each in (prompts, ids)]

    def change(batch, number):
        return *batch, seed_of(seed, number)

    return NumberedBatches(len(prompts), batch_size, seed, take, change)


def seed_of(seed: int, number: int) -> int:
    """Returns the seed of the answers of a batch.

    Args:
        seed: The seed of the run.
        number: The number of the batch.
    """
    entropy = [checks.whole_number("seed", seed, 0), number]
    return int(np.random.default_rng(entropy).integers(2**31))
