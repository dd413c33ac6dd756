"""Decoding with what a GPT keeps of the tokens before: keys and values, or states."""

import functools

import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.attention.cache import update_cache
from kerasseq.core.padding import bucket
from kerasseq.core.types import Nested, Tensor
from kerasseq.language.generation import GenerationMixin

SHORTEST_CACHE = 64  # shorter ones would be compiled for each length without gain


class CachedDecoding(GenerationMixin):
    """The step function of a GPT, and the state before it, for `generate`: a mixin."""

    def start(
        self, rows: list[list[int]], count: int
    ) -> tuple[dict[str, Nested], np.ndarray]:
        """The state of decoding after prompts, with room for `count` more tokens.

        Returns:
            The state after all but the last token of each row of ids: "caches", the
            keys and values of each layer, and "index" `(B,)`, the next position. And
            the last tokens `(B, 1)`.
        """
        batch, longest_prompt = len(rows), max(map(len, rows))
        length = max(bucket(longest_prompt + count), SHORTEST_CACHE)
        if self.context_length is not None:
            length = min(length, self.context_length)
        prompt_length = min(bucket(max(longest_prompt - 1, 1)), length)
        limit = self.stack.cache_limit
        cached = limit is None or max(prompt_length, longest_prompt + count) <= limit
        ids = np.zeros((batch, prompt_length if cached else length), "int32")
        for row, prompt in enumerate(rows):
            ids[row, : len(prompt) - 1] = prompt[:-1]
        index = np.array([len(prompt) - 1 for prompt in rows], "int32")
        last = np.array([[prompt[-1]] for prompt in rows], "int32")
        ids, index = ops.convert_to_tensor(ids), ops.convert_to_tensor(index)
        if not cached:  # keys change with the length: each step reads the whole text
            return {"ids": ids, "index": index}, last
        caches = self._compiled_prefill(length)(ids, index)
        return {"caches": caches, "index": index}, last

    def step(
        self, state: dict[str, Nested], token: Tensor
    ) -> tuple[Tensor, dict[str, Nested]]:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        index = state["index"]
        if "ids" in state:
            ids = update_cache(state["ids"], token[:, None], index)
            logits = self.stack.next_logits(ids, index)
            return logits, {"ids": ids, "index": index + 1}
        logits, caches = self.stack(token[:, None], state["caches"], index)
        return logits[:, 0], {"caches": caches, "index": index + 1}

    def prefill(self, ids: Tensor, lengths: Tensor, length: int) -> list[Nested]:
        """The caches and states after prompts.

        Args:
            ids: `(B, P)`.
            lengths: Tokens of each prompt, `(B,)`: padding changes no state.
            length: Tokens that the caches have room for.
        """
        real = ops.arange(ops.shape(ids)[1], dtype="int32") < lengths[:, None]
        caches = self.stack.make_caches(ops.shape(ids)[0], length)
        x = self.stack.embedding(ids)
        return self.stack.hidden_states(x, caches, 0, real)[1]

    def _compiled_prefill(self, length):
        programs = kernels.programs(self.step)
        prefill = functools.partial(self.prefill, length=length)
        return programs.get(
            "prefill", length, lambda: kernels.compiled(prefill, pure=programs.pure)
        )
