"""`describe`: the captions that a model writes, word by word with caches."""

import functools
from typing import Any

import numpy as np
from keras import ops

from kerasseq import decoding, kernels
from kerasseq.core import checks
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.types import Tensor
from kerasseq.decoding.generation import decode
from kerasseq.models.multimodal.rows import original_errors
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.whisper.window_decoding import padded_rows
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.labeled_data import inputs_of, learned_rows


class Describing:
    """What a model of captions offers beside training."""

    def describe(
        self,
        x: Any,
        *,
        max_length: int | None = None,
        sampler: decoding.Sampler | decoding.Beam | str | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> str | list[str]:
        """Writes a caption for each picture, film or sound.

        Args:
            x: Pictures or sounds, or a dictionary of both, as for `fit`; or one row.
            max_length: The most tokens of a caption; `max_sequence_length` if None.
            sampler: As for `GPT.generate`; greedy if None.
            temperature: As for `GPT.generate`.
            top_k: As for `GPT.generate`.
            top_p: As for `GPT.generate`.
            min_p: As for `GPT.generate`.
            seed: Seed of the draws; those of a row depend on its index alone.
            batch_size: Rows that are processed at once.

        Returns:
            A caption for one row, else a list of them.

        Raises:
            ValueError: If the model has another head, `max_length` is above
                `max_sequence_length`, or a row is wrong, as for `fit`.
        """
        if self._arguments["head"] != "caption":
            raise ValueError(
                'describe needs head="caption", received a model with '
                f'head="{self._arguments["head"]}". Use embed_images'
            )
        numbers = {"temperature": temperature, "top_k": top_k}
        numbers |= {"top_p": top_p, "min_p": min_p}
        sampler = decoding.get_sampler(sampler, **numbers, default="greedy")
        if isinstance(sampler, decoding.Contrastive):
            raise ValueError(
                "describe cannot use contrastive search, which needs hidden states, "
                f'received {sampler!r}. Use another sampler, such as sampler="beam"'
            )
        longest = self.preprocessor.longest
        length = longest if max_length is None else max_length
        if checks.whole_number("max_length", length) > longest:
            raise ValueError(
                f"max_length must be at most max_sequence_length={longest}, received "
                f"{max_length}. Build the model with a larger max_sequence_length"
            )
        one = self.preprocessor.is_one(x)
        rows = learned_rows(self, inputs_of(self, self.preprocessor.several(x)))
        found: list[str] = []
        size = checks.whole_number("batch_size", batch_size)
        with original_errors(rows.reader):
            for first in range(0, len(rows), size):
                part = list(range(len(rows)))[first : first + size]
                found += self._captions(rows, part, length, sampler, seed)
        return found[0] if one else found

    def _captions(self, rows, part, length, sampler, seed):
        """The captions of some rows."""
        more = padded_rows(part) if len(part) > 1 else part
        state = self.initial_state(rows.inputs(np.array(more)), length)
        own = self.preprocessor
        hypotheses = decode(
            self.step,
            state=state,
            prompt=np.full((len(more), 1), own.start, "int32"),
            sampler=sampler,
            max_new_tokens=length,
            stop=(own.end,),
            seed=None if seed is None else [seed + row for row in more],
        )
        texts = []
        for row in range(len(part)):
            ids = hypotheses.ids[row, 0, : hypotheses.lengths[row, 0]].tolist()
            texts.append(own.tokenizer.decode([i for i in ids if i < own.start]))
        return texts

    def initial_state(self, inputs: Any, length: int) -> dict[str, Any]:
        """Returns the state before the first of at most `length` words.

        Args:
            inputs: Pictures as floats from 0 to 1, and sounds, as `encode` returns
                them.
            length: The most words that are read, with the start.
        """
        programs = kernels.programs(self)

        def make():
            start = MethodLayer(self, "start_caption", casts=False)
            start = functools.partial(start, length=length)
            return kernels.compiled(start, pure=programs.pure)

        function = programs.get("start_caption", length, make)
        inputs = {name: part for name, part in inputs.items() if name != "ids"}
        return function({k: ops.convert_to_tensor(v) for k, v in inputs.items()})

    def start_caption(self, inputs: dict[str, Tensor], length: int) -> dict[str, Any]:
        """Computes `initial_state` with the layers."""
        return self.network.start(inputs, length)

    @functools.cached_property
    def step(self) -> MethodLayer:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return TargetStep(self, "decode_step", (self.preprocessor.start,))

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the word after `token` `(B,)`, and the state."""
        return self.network.step(state, token)
