"""The arguments of `generate`, and the sequences that are decoded with them."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np

from kerasseq import decoding
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding.inputs import Seed, Step

# Text, or ids for a model without a tokenizer.
Prompt: TypeAlias = str | Sequence[int] | np.ndarray
# Text or ids; a list of them for a list of prompts.
Continuation: TypeAlias = str | np.ndarray | Any
# An id, text that is one token, or several of these.
Stop: TypeAlias = int | str | Sequence[int | str] | None


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of `generate`, checked.

    Attributes:
        sampler: A `decoding.Sampler` or a `decoding.Beam`.
        max_new_tokens: The most tokens to generate; None for the model's default.
        max_length: The most tokens with the prompt, or None.
        stop: Ids after which a row is finished.
        seed: Seed of the draws.
    """

    sampler: decoding.Sampler | decoding.Beam
    max_new_tokens: int | None
    max_length: int | None
    stop: tuple[int, ...]
    seed: Seed

    def count(self, rows: list[list[int]]) -> int | None:
        """The most tokens to generate for rows of ids; None for the model's default.

        Raises:
            ValueError: If a row has `max_length` tokens already.
        """
        if self.max_length is None:
            return self.max_new_tokens
        longest = max(map(len, rows))
        if longest >= self.max_length:
            raise ValueError(
                f"max_length counts the prompt and must be above its {longest} tokens, "
                f"received max_length={self.max_length}. Pass max_new_tokens to count "
                "the generated tokens alone"
            )
        return self.max_length - min(map(len, rows))


class Hypotheses(NamedTuple):
    """The sequences decoded for a batch, best first.

    Attributes:
        ids: `(B, N, T)`, with the stop token, then padding.
        scores: `(B, N)`, log-probabilities; of a beam with length penalty, scores.
        lengths: `(B, N)`, with the stop token.
    """

    ids: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray


def decode(
    step: Step,
    state: Nested,
    prompt: Tensor,
    sampler: decoding.Sampler | decoding.Beam,
    *,
    seed: Seed = None,
    **options: Any,
) -> Hypotheses:
    """Runs a sampler or a beam search.

    Args:
        step: The step function, as for `decoding.generate`.
        state: The state before the prompt.
        prompt: Ids `(B, T)`.
        sampler: A `decoding.Sampler` or a `decoding.Beam`.
        seed: Seed of the draws of a sampler.
        **options: As for `decoding.generate` and `Beam.search`.
    """
    if isinstance(sampler, decoding.Beam):
        return Hypotheses(*sampler.search(step, state, prompt, **options)[:3])
    found = decoding.generate(
        step, state, prompt, sampler=sampler, seed=seed, **options
    )
    scores = found.log_probabilities.sum(axis=1)
    return Hypotheses(found.ids[:, None], scores[:, None], found.lengths[:, None])


def is_list_of_prompts(prompts: object) -> bool:
    """Whether this is a list of prompts, not the ids of a single one.

    Examples:
        >>> is_list_of_prompts(["to be"]), is_list_of_prompts([3, 1])
        (True, False)
    """
    return isinstance(prompts, list | tuple) and (
        not prompts or not isinstance(prompts[0], int | np.integer)
    )


def window_seed(seed: Seed, window: int) -> Seed:
    """A seed for each window of a long text."""
    if seed is None or isinstance(seed, keras.random.SeedGenerator) or not window:
        return seed
    if isinstance(seed, Sequence | np.ndarray):  # one for each row
        return [window_seed(each, window) for each in seed]
    return int(np.random.default_rng([seed, window]).integers(2**31))
