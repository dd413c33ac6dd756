"""`generate` and `stream` for every model that predicts token by token.

How `GPT.generate` works, in the order of the calls:

1. `options` checks the arguments and makes the sampler (`decoding/generation.py`).
2. `ids` turns each prompt into ids with the tokenizer of the model (`causal_lm.py`).
3. `_windows` cuts prompts that fill all positions.
4. `start` computes the keys and values of the prompts, all but the last tokens at once
   (`GPT.start`).
5. `GPT.step` runs a token: attention writes its key and value into the caches, and
   reads those before (`MultiHeadAttention.call`, `attention/cache.py`).
6. `decode` calls it, and lets the sampler choose the next id, until all rows have
   ended: one compiled loop on TensorFlow and JAX (`decoding/loop.py`).
7. The tokenizer turns the ids into texts.

Checks (`decoding/inputs.py`) and kept programs (`kernels/programs.py`) change nothing.
"""

import dataclasses
from collections.abc import Iterator, Sequence, Set
from typing import Any, TypeAlias

import keras
import numpy as np

from kerasseq import decoding, kernels
from kerasseq.core import arguments, checks
from kerasseq.core.types import Nested, one_or_several
from kerasseq.decoding.generation import decode
from kerasseq.decoding.inputs import Seed
from kerasseq.models import hidden_states
from kerasseq.models.text_blocks import read_texts

# Text, or ids for a model without a tokenizer.
Prompt: TypeAlias = str | Sequence[int] | np.ndarray
Continuation: TypeAlias = str | np.ndarray | Any  # a list of them for a list
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

    def count(self, rows: list[list[int]]) -> int:
        """Returns the most tokens to generate for rows of ids.

        Raises:
            ValueError: If there is no limit, or a row has `max_length` tokens already.
        """
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        if self.max_length is None:
            raise ValueError(
                "max_new_tokens or max_length must be given: how many tokens to "
                "generate, without or with the prompt"
            )
        longest = max(map(len, rows))
        if longest >= self.max_length:
            raise ValueError(
                f"max_length counts the prompt and must be above its {longest} tokens, "
                f"received max_length={self.max_length}. Pass max_new_tokens to count "
                "the generated tokens alone"
            )
        return self.max_length - min(map(len, rows))


@one_or_several(str)
@checks.only_listed(arguments.check_names)
def generate(
    model: Any,
    prompts: Prompt | Sequence[Prompt],
    max_new_tokens: int | None = None,
    *,
    max_length: int | None = None,
    sampler: decoding.Sampler | decoding.Beam | str | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    stop: Stop = None,
    seed: Seed = None,
) -> Continuation:
    """Generates a continuation of a prompt, or of several at once.

    `temperature`, `top_k`, `top_p` and `min_p` may be combined. They apply in this
    order, as in Hugging Face's `generate`.

    A model with learned positions has a context of `max_sequence_length` tokens.
    At its end, generation continues from the last half of the context; a prompt
    that fills the context is cut to its last half, too.

    Args:
        model: The model.
        prompts: Text, or ids `(tokens,)` for a model without a tokenizer; or a list
            of such prompts, of any lengths. For an encoder-decoder model these are
            the sources.
        max_new_tokens: The most tokens to generate.
        max_length: Instead of `max_new_tokens`: the most tokens of the result, with
            the prompt, as in KerasHub.
        sampler: A sampler of `kerasseq.decoding`, a beam such as
            `decoding.Beam(4)`, or a name: "greedy", "random", "top_k", "top_p",
            "min_p", "beam" or, for decoder-only models, "contrastive".
            If None, the model samples; an encoder-decoder model is greedy.
        temperature: Lower is more deterministic, higher more random; 0 takes the
            most probable token.
        top_k: Sample from the k most probable tokens.
        top_p: Sample from the most probable tokens with this cumulative
            probability.
        min_p: Sample from the tokens with at least this fraction of the largest
            probability.
        stop: An id, text that is one token, or a list of these, after which
            generation ends.
        seed: Seed of the draws. The same seed gives the same tokens.

    Returns:
        The prompt and its continuation (of an encoder-decoder model, the target):
        text, or an array of ids; a list of them for a list of prompts.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a prompt is empty, or an argument out of range.
    """
    options = model.token_generation.options(
        max_new_tokens, max_length, stop, seed,
        sampler=sampler, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
    )  # fmt: skip
    rows, single = model.token_generation.read_prompts(prompts)
    outputs = model.token_generation.generate_rows(rows, options)
    return outputs[0] if single else outputs


@checks.only_listed(arguments.check_names)
def stream(
    model: Any,
    prompt: Prompt,
    max_new_tokens: int | None = None,
    *,
    max_length: int | None = None,
    sampler: decoding.Sampler | str | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    stop: Stop = None,
    seed: Seed = None,
) -> Iterator[str] | Iterator[int]:
    """Yields each piece of `generate` for one prompt when it is generated.

    Args:
        model: The model.
        prompt: Text or ids.
        max_new_tokens: The most tokens to generate.
        max_length: The most tokens with the prompt.
        sampler: As for `generate`, but not a beam, which decides at the end.
        temperature: As for `generate`, like all that follow.
        top_k: Sample from the k most probable tokens.
        top_p: Sample from tokens with this cumulative probability.
        min_p: Sample from tokens with this fraction of the largest probability.
        stop: After which generation ends.
        seed: Seed of the draws.

    Returns:
        An iterator over pieces of text, or over ids, without the prompt.

    Raises:
        ValueError: Before the first token, as for `generate`.
    """
    options = model.token_generation.options(
        max_new_tokens, max_length, stop, seed,
        sampler=sampler, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
    )  # fmt: skip
    rows, _ = model.token_generation.read_prompts(prompt)
    if len(rows) != 1:
        raise ValueError(
            f"stream takes one prompt, received {len(rows)}. generate takes several"
        )
    if isinstance(options.sampler, decoding.Beam):
        raise ValueError(
            f"stream cannot use {options.sampler!r}: a beam search knows its first "
            "token at the end. Use generate, or a sampler"
        )
    return model.token_generation.stream_row(rows[0], options)


class TokenGeneration:
    """How a decoder-only model generates: what its methods have in common.

    Args:
        model: It defines

            - `step(state, token)`, the step function of decoding;
            - `start(rows, count)`, from rows of ids to the state after all but the last
              token of each row, with room for `count` more, and these tokens `(B, 1)`;
            - `hidden_width`, the width of the vectors from which `step` computes the
              logits;
            - `ids`, `tokenizer`, and `context_length`, the number of positions, or
              None;
            - `default_sampler`, the name of the sampler if none is given, and
              `compiles_loop`.

    Attributes:
        has_hidden_states: Whether steps return them, as contrastive search needs.
    """

    has_hidden_states: bool = True

    def __init__(self, model: Any) -> None:
        self.model = model

    def options(
        self,
        max_new_tokens: int | None,
        max_length: int | None,
        stop: Stop,
        seed: Seed,
        **sampling: Any,
    ) -> Options:
        """Checks the arguments of `generate` and `stream`."""
        sampler = decoding.get_sampler(default=self.model.default_sampler, **sampling)
        if isinstance(sampler, decoding.Contrastive) and not self.has_hidden_states:
            raise ValueError(
                "contrastive search is for decoder-only models, such as GPT and "
                f"LanguageModel, received {sampler!r} for {type(self.model).__name__}. "
                'Use another sampler, such as sampler="beam"'
            )
        if max_new_tokens is not None and max_length is not None:
            raise ValueError(
                f"received max_new_tokens={max_new_tokens} and max_length={max_length}:"
                " give one of them. max_length counts the prompt"
            )
        counts = {"max_new_tokens": max_new_tokens, "max_length": max_length}
        for name, count in counts.items():
            if count is not None:  # an id and a log-probability each
                checks.fits_memory(name, checks.whole_number(name, count), bytes_each=8)
        stop = self.stop_ids(stop)
        return Options(sampler, max_new_tokens, max_length, stop, seed)

    def stop_ids(self, stop: Stop) -> tuple[int, ...]:
        """Returns the ids of stop tokens given as ids, text, or a list of both."""
        if stop is None:
            return ()
        each = [stop] if isinstance(stop, str | int | np.integer) else stop
        each = each.tolist() if hasattr(each, "tolist") else each
        is_list = isinstance(each, list | tuple | range | Set)
        if not is_list or not all(isinstance(s, str | int | np.integer) for s in each):
            raise TypeError(
                "stop must be a token, its id, or a list of tokens and ids, received "
                f"{checks.short(stop)}"
            )
        return tuple(self._stop_id(s) if isinstance(s, str) else s for s in each)

    def _stop_id(self, text: str) -> int:
        ids = self.model.ids(text)
        if len(ids) != 1:
            raise ValueError(
                f"stop must be one token, received {text!r}, which is {len(ids)}. Give "
                "one of them, or ids"
            )
        return int(ids[0])

    def read_prompts(self, prompts: Any) -> tuple[list[Any], bool]:
        """Prompts as lists of ids, and whether it was a single one."""
        if not isinstance(prompts, str | list | tuple | np.ndarray):
            prompts = read_texts(prompts)[0]
        if isinstance(prompts, list) and prompts and isinstance(prompts[0], dict):
            raise TypeError(
                f"prompts must be texts or ids, received messages, {prompts!r:.60}. "
                "Use kerasseq.models.Chat(model).ask(text)"
            )
        single = not is_list_of_prompts(prompts)
        try:
            rows = [self.model.ids(each) for each in ([prompts] if single else prompts)]
        except TypeError as error:
            raise TypeError(f"prompts must be texts or ids: {error}") from error
        if not rows or any(row is None or not len(row) for row in rows):
            received = f"received {prompts!r:.60}"
            raise ValueError(f"each prompt must have at least one token, {received}")
        return [row.tolist() for row in rows], single

    def _begin(self, rows, count, sampler):
        if isinstance(sampler, decoding.Contrastive):
            return hidden_states.start(self.model, rows, count)
        state, last = self.model.start(rows, count)
        return {"state": state, "prompt": last}

    def generate_rows(self, rows: list[list[int]], options: Options) -> list[Any]:
        """Returns the texts of rows of ids, each with its continuation."""
        limit = options.count(rows)
        finished = [False] * len(rows)
        for n, (contexts, count) in enumerate(self._windows(rows, limit)):
            hypotheses = decode(
                self.model.step,
                **self._begin(contexts, count, options.sampler),
                sampler=options.sampler,
                max_new_tokens=count,
                stop=options.stop,
                seed=window_seed(options.seed, n),
                compiled=self.compiles_loop(),
            )
            for row, ids in enumerate(rows):
                if not finished[row]:
                    ids += hypotheses.ids[row, 0, : hypotheses.lengths[row, 0]].tolist()
                    finished[row] = ids[-1] in options.stop
            if all(finished):
                break
        if options.max_length is not None:
            rows = [row[: options.max_length] for row in rows]
        return [self._output(row) for row in rows]

    def stream_row(self, row: list[int], options: Options) -> Iterator[Any]:
        """Checks the arguments at once, and returns the iterator."""
        return self._stream(row, options.count([row]), options)

    def _stream(self, row: list[int], limit: int, options: Options) -> Iterator[Any]:
        row, written = list(row), len(self._output(row))
        for n, (contexts, count) in enumerate(self._windows([row], limit)):
            tokens = decoding.stream(
                self.model.step,
                **self._begin(contexts, count, options.sampler),
                max_new_tokens=count,
                sampler=options.sampler,
                stop=options.stop,
                seed=window_seed(options.seed, n),
            )
            for token in tokens:
                row.append(int(token[0]))
                text = self._output(row)
                if self.model.tokenizer is None:
                    yield row[-1]
                elif not text.endswith("\ufffd"):  # else a part of a character
                    yield text[written:]
                    written = len(text)
            if row[-1] in options.stop:
                break
        if self.model.tokenizer is not None and len(self._output(row)) > written:
            yield self._output(row)[written:]  # a character that was not completed

    def _windows(
        self, rows: list[list[int]], limit: int
    ) -> Iterator[tuple[list[list[int]], int]]:
        """Yields contexts, the part of each row that is read, and a count of tokens.

        It is one window where positions do not end. Elsewhere a row that has filled all
        positions continues from its last half.
        """
        positions = self.model.context_length
        starts = [0] * len(rows)  # of the contexts
        while limit:
            count = limit
            if positions is not None:
                kept = max(1, positions // 2)
                for n, row in enumerate(rows):
                    if len(row) - starts[n] >= positions:
                        starts[n] = len(row) - kept  # the row is cut here
                lengths = [
                    len(row) - start for row, start in zip(rows, starts, strict=True)
                ]
                count = min(limit, max(positions - max(lengths), 1))
            yield [row[start:] for row, start in zip(rows, starts, strict=True)], count
            limit -= count

    def compiles_loop(self) -> bool:
        """Returns whether the loop is compiled as a whole, see `decoding.generate`."""
        if not self.model.compiles_loop or not kernels.default_jit_compile():
            return False
        return kernels.programs(self.model.step).pure is not False

    def _output(self, ids: list[int]) -> str | np.ndarray:
        """Returns text, or an array of ids."""
        if self.model.tokenizer is None:
            return np.array(ids, "int32")
        return self.model.tokenizer.decode(ids)

    def start(self, prompt: Any, count: int) -> tuple[Nested, np.ndarray]:
        """Returns the state of one row before its last token, and that token."""
        rows, _ = self.read_prompts(prompt)
        if len(rows) != 1:
            raise ValueError(f"prompt must be one prompt, received {len(rows)}")
        contexts, limit = next(self._windows(rows, count))
        if limit < count:
            raise ValueError(
                f"max_new_tokens must be at most {limit} after this prompt, as the "
                f"model has {self.model.context_length} positions, received {count}"
            )
        return self.model.start(contexts, count)

    def token_text(self, i: int) -> str:
        """Returns the text of a token."""
        return str(i) if self.model.tokenizer is None else str(self._output([i]))


def is_list_of_prompts(prompts: object) -> bool:
    """Returns whether this is a list of prompts, not the ids of a single one.

    Examples:
        >>> [is_list_of_prompts(x) for x in (["to be"], [3, 1], np.array([[3, 1]]))]
        [True, False, True]
    """
    if isinstance(prompts, np.ndarray):
        return prompts.ndim > 1
    several = isinstance(prompts, list | tuple)
    return several and not (prompts and isinstance(prompts[0], int | np.integer))


def window_seed(seed: Seed, window: int) -> Seed:
    """Returns a seed for each window of a long text."""
    if isinstance(seed, Sequence | np.ndarray):  # one for each row
        return [window_seed(each, window) for each in seed]
    if seed is None or isinstance(seed, keras.random.SeedGenerator) or not window:
        return seed
    return int(np.random.default_rng([seed, window]).integers(2**31))
