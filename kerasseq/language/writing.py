"""Writing on from prompts, with a cache of keys and values."""

import functools

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.attention.cache import update_cache
from kerasseq.core import checks
from kerasseq.core.padding import bucket
from kerasseq.decoding import Greedy, Temperature, TopK, TopP, generate, stream

SHORTEST = 64  # of a cache: shorter ones are compiled for no gain


class Writer:
    """What a causal Transformer needs to write; a model with `stack` and `longest`."""

    def generate(
        self,
        prompt,
        length,
        *,
        temperature=1.0,
        top_k=None,
        top_p=None,
        sampler=None,
        stop=None,
        seed=None,
    ):
        """Write on from a prompt, or from several at once.

        Each token costs the same, since keys and values of those before are kept;
        unless the angles of a `RotaryEmbedding` depend on the length of the text and it
        grows beyond that of the training, where each token reads the text again. Where
        positions are learned, and so end, the model goes on from the last half of what
        it has read each time it comes to the end of them.

        Args:
            prompt: Text, or ids `(tokens,)` for a model without a tokenizer; or a list
                of such prompts, of any lengths.
            length: How many tokens to write.
            temperature: Lower is more deterministic, higher more random; 0 takes the
                most probable token.
            top_k: Only the k best tokens may be drawn.
            top_p: Only the best tokens that hold this much probability may be drawn.
            sampler: A sampler of `kerasseq.decoding`, instead of the last three.
            stop: Ids, or text that is one token, after which nothing more is written.
            seed: Seed of the draw; with it the text repeats exactly.

        Returns:
            The prompt and what was written: text, or an array of ids; a list of them
            for a list of prompts.

        Raises:
            ValueError: If a prompt is empty, or an option out of range.
        """
        rows, one = self._prompts(prompt)
        plan = self._plan(length, temperature, top_k, top_p, sampler, stop)
        sampler, stop = plan
        done = [False] * len(rows)
        for n, part in enumerate(self._parts(rows, length)):
            written = generate(
                self.step,
                *self._begin(rows, part),
                length=part,
                sampler=sampler,
                stop=stop,
                seed=seed_of(seed, n),
                compiled=kernels.default_jit_compile(),
            )
            for row, (ids, count) in enumerate(
                zip(written.ids, written.lengths, strict=True)
            ):
                if not done[row]:
                    rows[row] += ids[:count].tolist()
                    done[row] = bool(stop) and rows[row][-1] in stop
            if all(done):
                break
        return self._said(rows[0]) if one else [self._said(row) for row in rows]

    def stream(
        self,
        prompt,
        length=1000,
        *,
        temperature=1.0,
        top_k=None,
        top_p=None,
        sampler=None,
        stop=None,
        seed=None,
    ):
        """`generate` for one prompt, piece by piece, each when it comes.

        Args:
            prompt: Text or ids.
            length: The most tokens to write.
            temperature: As for `generate`, like all that follow.
            top_k: Only the k best tokens may be drawn.
            top_p: Only tokens that hold this much probability may be drawn.
            sampler: A sampler instead.
            stop: What ends the text.
            seed: Seed of the draw.

        Returns:
            An iterator over pieces of text, or over ids.

        Raises:
            ValueError: At once, if the prompt is empty, or an option out of range.
        """
        rows, _ = self._prompts(prompt)
        if len(rows) > 1:
            raise ValueError("stream takes one prompt; generate takes several")
        sampler, stop = self._plan(length, temperature, top_k, top_p, sampler, stop)
        return self._stream(rows, length, sampler, stop, seed)

    def _stream(self, rows, length, sampler, stop, seed):
        begun = len(self._said(rows[0]))
        for n, part in enumerate(self._parts(rows, length)):
            tokens = stream(
                self.step,
                *self._begin(rows, part),
                length=part,
                sampler=sampler,
                stop=stop,
                seed=seed_of(seed, n),
            )
            for token in tokens:
                rows[0].append(int(token[0]))
                text = self._said(rows[0])
                if self.tokenizer is None:
                    yield rows[0][-1]
                elif not text.endswith("\ufffd"):  # else half a character
                    yield text[begun:]
                    begun = len(text)
            if stop and rows[0][-1] in stop:
                return

    def _prompts(self, prompt):
        """Prompts as lists of ids, and whether there was one alone."""
        several = is_list_of_prompts(prompt)
        prompts = list(prompt) if several else [prompt]
        rows = [self.ids(each) for each in prompts]
        if not rows or any(row is None or not len(row) for row in rows):
            raise ValueError("prompt must have at least one token to write on from")
        return [row.tolist() for row in rows], not several

    def _plan(self, length, temperature, top_k, top_p, sampler, stop):
        """The sampler, and the ids that stop."""
        checks.whole_number("length", length)
        if sampler is None:
            sampler = sampler_of(temperature, top_k, top_p)
        elif (temperature, top_k, top_p) != (1.0, None, None):
            raise ValueError(
                "give a sampler, or temperature, top_k and top_p, not both: a sampler "
                "has its own"
            )
        if isinstance(stop, str):
            ids = self.ids(stop)
            if len(ids) != 1:
                raise ValueError(
                    f"stop={stop!r} is {len(ids)} tokens: give one token, or ids"
                )
            stop = int(ids[0])
        stop = () if stop is None else stop
        return sampler, (stop,) if isinstance(stop, int) else tuple(stop)

    def _parts(self, rows, length):
        """How many tokens to write before positions end and begin anew."""
        while length:
            read = max(map(len, rows))
            room = length
            if self.longest is not None:
                read = read if read < self.longest else max(1, self.longest // 2)
                room = self.longest - read
            part = min(length, max(room, 1))
            yield part
            length -= part

    def _begin(self, rows, part):
        """The state after all but the last token of each prompt, and that token."""
        if self.longest is not None:
            keep = max(1, self.longest // 2)
            rows = [r if len(r) < self.longest else r[-keep:] for r in rows]
        batch, longest = len(rows), max(map(len, rows))
        places = max(bucket(longest + part), SHORTEST)
        if self.longest is not None:
            places = min(places, self.longest)
        read = min(bucket(max(longest - 1, 1)), places)
        constant = self.stack.constant_length
        has_caches = constant is None or max(read, longest + part) <= constant
        ids = np.zeros((batch, read if has_caches else places), "int32")
        for row, prompt in enumerate(rows):
            ids[row, : len(prompt) - 1] = prompt[:-1]
        at = np.array([len(prompt) - 1 for prompt in rows], "int32")
        last = np.array([[prompt[-1]] for prompt in rows], "int32")
        ids, at = ops.convert_to_tensor(ids), ops.convert_to_tensor(at)
        if not has_caches:  # each token reads the whole text again
            return {"ids": ids, "at": at}, last
        return {"caches": self._fill(places)(ids), "at": at}, last

    def _fill(self, places):
        """Compiled: the caches after prompts `(B, P)`, for so many places."""
        programs = kernels.programs(self.step)
        fill = functools.partial(self.read_prompts, places=places)
        return programs.get(
            "fill", places, lambda: kernels.compiled(fill, pure=programs.pure)
        )

    def read_prompts(self, ids, places):
        """Caches of `places` tokens, filled with ids `(B, P)`."""
        caches = self.stack.make_caches(ops.shape(ids)[0], places)
        return self.stack(ids, caches, 0)[1]

    def step(self, state, token):
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        at = state["at"]
        if "ids" in state:
            ids = update_cache(state["ids"], token[:, None], at)
            return self.stack.next_scores(ids, at), {"ids": ids, "at": at + 1}
        logits, caches = self.stack(token[:, None], state["caches"], at)
        return logits[:, 0], {"caches": caches, "at": at + 1}

    def _said(self, ids):
        if self.tokenizer is None:
            return np.array(ids, "int32")
        return self.tokenizer.decode(ids)


def is_list_of_prompts(prompt):
    """Whether there are several prompts, or one in a list, not the ids of one.

    Examples:
        >>> is_list_of_prompts(["to be"]), is_list_of_prompts([3, 1])
        (True, False)
    """
    return isinstance(prompt, list | tuple) and (
        not prompt or not isinstance(prompt[0], int | np.integer)
    )


def sampler_of(temperature=1.0, top_k=None, top_p=None):
    """The sampler that a temperature and one bound mean.

    Examples:
        >>> sampler_of(0.0), sampler_of(0.8)
        (Greedy(), Temperature(temperature=0.8))

    Raises:
        ValueError: If there are two bounds, or a number is out of range.
    """
    if top_k is not None and top_p is not None:
        raise ValueError(
            f"give top_k={top_k} or top_p={top_p}, not both; or a sampler of your own"
        )
    if temperature == 0:
        return Greedy()
    if top_k is not None:
        return TopK(top_k, temperature=temperature)
    if top_p is not None:
        return TopP(top_p, temperature=temperature)
    return Temperature(temperature)


def seed_of(seed, part):
    """A seed for each part of a long text."""
    if seed is None or isinstance(seed, keras.random.SeedGenerator) or not part:
        return seed
    return int(np.random.default_rng([seed, part]).integers(2**31))
