"""Answers to prompts: batches of those to learn from, and sampled ones."""

import math
from typing import Any

from kerasseq import decoding
from kerasseq.core import checks
from kerasseq.decoding.generation import Generated, generate
from kerasseq.decoding.inputs import Seed
from kerasseq.models import answer_rows, shard_rows
from kerasseq.training.batches import GroupedBatches


def answer_batches(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    sequence_length: int = 64,
    batch_size: int = 32,
    seed: int = 0,
) -> GroupedBatches:
    """Returns the batches on which `fit` trains, by number.

    Args:
        model: The language model.
        x: Prompts; or conversations, and texts among them, as for `fit`; or
            `TokenShards` with `documents_apart`.
        y: Answers, if `x` are prompts.
        sample_weight: What each row counts.
        sequence_length: Tokens of a block of texts.
        batch_size: Rows in a batch.
        seed: Seed of the order.

    Returns:
        Batches, whose `batch(number)` are inputs, targets `(B, T)` and what each
        target counts `(B, T)`: 0 for questions and padding.

    Raises:
        TypeError: If these are no prompts with answers, and no conversations.
        ValueError: If one is empty or too long, or there is no chat template.

    Examples:
        >>> import kerasseq
        >>> model = kerasseq.models.LanguageModel("gru", vocabulary_size=5, units=3)
        >>> ids, targets, weights = model.answer_batches([[3, 4]], [[1]]).batch(0)
        >>> ids.tolist(), targets.tolist(), weights.tolist()
        ([[3, 4]], [[4, 1]], [[0.0, 1.0]])
    """
    x = shard_rows.opened(model, x, None)
    rows = rows_of_answers(model, x, y, sample_weight, sequence_length=sequence_length)
    if rows is None:
        raise TypeError(
            "x must be prompts with answers as y, or a list of conversations, "
            f"received {checks.short(x)} and y={checks.short(y)}. For texts see "
            "training.TextBatches"
        )
    rows = answer_rows.AnswerRows(rows, model.padded_inputs, longest_row(model))
    return rows.batches(batch_size, seed)


def sample_answers(
    model: Any,
    prompts: Any,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    stop: Any = None,
    seed: Seed = None,
) -> Generated:
    r"""Samples an answer to each prompt, with the cached steps of `generate`.

    Args:
        model: The language model.
        prompts: As for `generate`: a list of texts or of ids, or one of them.
        max_new_tokens: The most tokens of an answer.
        temperature: Lower is more deterministic, higher more random; above 0.
        stop: As for `generate`.
        seed: Seed of the draws.

    Returns:
        A tuple of ids `(B, max_new_tokens)`, 0 after the end of an answer; lengths
        `(B,)`; and log-probabilities `(B, max_new_tokens)` at temperature 1.

    Raises:
        ValueError: If an argument is out of range, or a prompt with its answer is
            longer than the positions of the model.

    Examples:
        >>> import kerasseq
        >>> model = kerasseq.models.LanguageModel("gru", vocabulary_size=5, units=3)
        >>> answers = model.sample_answers([[3], [1, 2]], 4, seed=0)
        >>> answers.ids.shape, answers.lengths.tolist()
        ((2, 4), [4, 4])
    """
    count = checks.whole_number("max_new_tokens", max_new_tokens)
    rows, _ = model.token_generation.read_prompts(prompts)
    longest = max(map(len, rows)) + count
    if model.context_length is not None and longest > model.context_length:
        raise ValueError(
            f"a prompt with its answer must have at most {model.context_length} "
            f"tokens, the positions of the model, received {longest} with "
            f"max_new_tokens={count}. Shorten prompts or answers, or build the "
            "model with a larger max_sequence_length"
        )
    temperature = checks.positive("temperature", temperature)
    state, last = model.start(rows, count)
    return generate(
        model.step,
        state,
        last,
        max_new_tokens=count,
        sampler=decoding.RandomSampler(temperature),
        stop=model.token_generation.stop_ids(stop),
        seed=seed,
        compiled=model.token_generation.compiles_loop(),
    )


def rows_of_answers(
    model: Any, x: Any, y: Any = None, weights: Any = None, *, sequence_length: int
) -> Any:
    """Returns the rows of answers, conversations or documents; None for other data.

    Args:
        model: The language model.
        x: As for `answer_batches`.
        y: Answers, if `x` are prompts.
        weights: What each row counts.
        sequence_length: Tokens of a block of texts.
    """
    if isinstance(x, shard_rows.DocumentRows):
        return x
    positions = model.context_length or math.inf
    sequence_length = checks.whole_number("sequence_length", sequence_length)
    reader = answer_rows.Reader(
        model.ids, model.tokenizer, positions, min(sequence_length, positions)
    )
    return answer_rows.read(reader, x, y, weights)


def longest_row(model: Any) -> float:
    """Returns the most tokens of a row of answers; the last one is not read."""
    return (model.context_length or math.inf) + 1
