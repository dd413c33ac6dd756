"""How a model writes token by token, with caches: words, or tokens of a picture."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from kerasseq import decoding, kernels
from kerasseq.core import checks
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.types import Tensor
from kerasseq.decoding.generation import decode
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.whisper.window_decoding import padded_rows


class Writing:
    """What `describe` and `draw` have in common."""

    def write(
        self,
        inputs: Callable[[np.ndarray], dict[str, np.ndarray]],
        count: int,
        *,
        length: int,
        sampler: decoding.Sampler | decoding.Beam,
        stop: tuple[int, ...] = (),
        seed: int | None = None,
        batch_size: int,
    ) -> list[list[int]]:
        """Returns the ids that are written for each row.

        Args:
            inputs: Function from indices of rows to arrays by name.
            count: The number of rows.
            length: The most ids.
            sampler: A sampler or a beam.
            stop: Ids after which a row ends.
            seed: Seed of the draws; those of a row depend on its index alone.
            batch_size: Rows that are processed at once.
        """
        size = checks.whole_number("batch_size", batch_size)
        start, written = self.preprocessor.first_written, []
        for first in range(0, count, size):
            rows = list(range(first, min(first + size, count)))
            more = padded_rows(rows)
            ids, _, lengths = decode(
                self.step,
                state=self.initial_state(inputs(np.array(more)), length),
                prompt=np.full((len(more), 1), start, "int32"),
                sampler=sampler,
                max_new_tokens=length,
                stop=stop,
                seed=None if seed is None else [seed + row for row in more],
            )
            written += [ids[n, 0, : lengths[n, 0]].tolist() for n in range(len(rows))]
        return written

    def initial_state(self, inputs: Any, length: int) -> dict[str, Any]:
        """Returns the state before the first of at most `length` tokens.

        Args:
            inputs: What is read before the first token, as `encode` returns it.
            length: The most tokens that are written.
        """
        programs = kernels.programs(self)

        def make():
            start = MethodLayer(self, "start_writing", casts=False)
            start = functools.partial(start, length=length)
            return kernels.compiled(start, pure=programs.pure)

        function = programs.get("start_writing", length, make)
        return function(
            {name: ops.convert_to_tensor(inputs[name]) for name in self.network.read}
        )

    def start_writing(self, inputs: dict[str, Tensor], length: int) -> dict[str, Any]:
        """Computes `initial_state` with the layers."""
        return self.network.start(inputs, length)

    @functools.cached_property
    def step(self) -> MethodLayer:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return TargetStep(self, "decode_step", self.preprocessor.never_written)

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the id after `token` `(B,)`, and the state."""
        return self.network.step(state, token)


def sampler_of(
    method: str, sampler: Any, **numbers: float | None
) -> decoding.Sampler | decoding.Beam:
    """Returns the sampler that the arguments of a method specify; greedy if none.

    Args:
        method: The name of the method, for messages.
        sampler: As for `GPT.generate`.
        **numbers: As for `GPT.generate`.

    Raises:
        ValueError: If it needs hidden states.
    """
    chosen = decoding.get_sampler(sampler, **numbers, default="greedy")
    if isinstance(chosen, decoding.Contrastive):
        raise ValueError(
            f"{method} cannot use contrastive search, which needs hidden states, "
            f'received {chosen!r}. Use another sampler, such as sampler="beam"'
        )
    return chosen
