"""`Chat`: a conversation with a language model, token by token."""

import bisect
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kerasseq import decoding
from kerasseq.core import checks
from kerasseq.core.arguments import check_names
from kerasseq.core.messages import Message, checked
from kerasseq.decoding.generation import choices
from kerasseq.text.chat import answers
from kerasseq.text.tokenizers.tokenizer import chat_template_of

SHARE = 4  # of what a model reads, a fourth is kept for an answer, if that is shorter
SAMPLING = ("sampler", "temperature", "top_k", "top_p", "min_p")


class Piece(NamedTuple):
    """A token of an answer.

    Attributes:
        text: What it adds to the answer: nothing at the end of the answer, or in the
            middle of a character.
        token: The token as in the vocabulary.
        probability: Its probability, before the sampler changes it.
        best: The most probable tokens with their probabilities.
    """

    text: str
    token: str
    probability: float
    best: list[tuple[str, float]]


class Chat:
    """A conversation with a language model, whose tokenizer has a chat template.

    The whole conversation is read again for each answer. When it becomes longer than
    the model reads, the oldest messages are left out, but for the instructions.

    Args:
        model: A decoder-only language model with a tokenizer.
        system: Instructions, with which the conversation begins.
        max_new_tokens: The most tokens of an answer.
        num_best: How many of the most probable tokens a `Piece` has.
        seed: Seed of the draws.
        **sampling: `sampler`, `temperature`, `top_k`, `top_p` and `min_p`, as for
            `GPT.generate`. Greedy search if there are none.

    Attributes:
        messages: The messages so far. Change them, or empty the list, at any time.

    Raises:
        TypeError: If the model does not generate text, or `system` is no string.
        ValueError: If its tokenizer has no chat template, or an argument is out of
            range.

    Examples:
        >>> import kerasseq
        >>> keras.utils.set_random_seed(0)
        >>> template = kerasseq.text.ChatTemplate(user="q", assistant="a", end=".")
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("aqx. ")
        >>> tokenizer.chat_template = template
        >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
        >>> chat = Chat(model, max_new_tokens=4)
        >>> len(chat.ask("x")) <= 4, chat.messages[0]["content"]
        (True, 'x')
    """

    def __init__(
        self,
        model: Any,
        system: str | None = None,
        *,
        max_new_tokens: int = 128,
        num_best: int = 4,
        seed: int | None = None,
        **sampling: Any,
    ) -> None:
        if not hasattr(model, "sample_answers"):
            raise TypeError(
                "model must be a decoder-only language model, such as models.GPT, "
                f"received {checks.short(model)}"
            )
        self.model = model
        self.template: answers.AnyTemplate = chat_template_of(model.tokenizer)
        self.max_new_tokens: int = checks.whole_number("max_new_tokens", max_new_tokens)
        checks.fits_memory("max_new_tokens", max_new_tokens)
        count = checks.whole_number("num_best", num_best)
        self.num_best: int = min(count, model.vocabulary_size)
        self.seed = seed
        check_names("Chat", type(self).__init__, SAMPLING, sampling)
        self.sampler: Any = decoding.get_sampler(default="greedy", **sampling)
        if not isinstance(self.sampler, decoding.Sampler):
            raise ValueError(
                f"sampler must choose one token after the other, received "
                f"{self.sampler!r}"
            )
        self.messages: list[Message] = []
        if system is not None:
            if not isinstance(system, str):
                raise TypeError(
                    f"system must be a string or None, received {checks.short(system)}"
                )
            self.messages = checked([{"role": "system", "content": system}])
        self.stop: list[int] = self._ids(answers.end_of_answer(self.template))[:1]
        self._fitted: tuple[Any, Any] = (None, None)  # the last result, by its question

    def _ids(self, text):
        return self.model.tokenizer.encode(text).tolist() if text else []

    def read(self, text: str) -> list[Message]:
        """Returns the messages that the model would read to answer a message.

        Args:
            text: The message.

        Returns:
            The instructions, if there are some, the latest messages, and this one.
        """
        return self._fitting(text)[0]

    def prompt(self, text: str) -> str:
        """Returns the text that the model would continue to answer a message.

        Args:
            text: The message.
        """
        messages, _ = self._fitting(text)
        return self.template.render(messages, add_generation_prompt=True)

    def ask(self, text: str) -> str:
        """Returns the answer to a message; both are added to the conversation.

        Args:
            text: The message.

        Raises:
            TypeError: If it is not a string.
            ValueError: If it is empty, or too long for the model.
        """
        return "".join(piece.text for piece in self.stream(text))

    def stream(self, text: str) -> Iterator[Piece]:
        """Yields each token of the answer of `ask` when it is generated.

        An answer that is not read to its end is added as far as it was read; an empty
        one is not, and neither is its question.

        Args:
            text: The message.

        Raises:
            TypeError: If it is not a string.
            ValueError: If it is empty, or too long for the model.
        """
        messages, ids = self._fitting(text)
        count = self.max_new_tokens
        if self._longest is not None:
            count = min(count, self._longest - len(ids))
        state, last = self.model.start([ids], count)
        turn = len(self.messages)
        generated = choices(
            self.model.step,
            state,
            last,
            count=self.num_best,
            max_new_tokens=count,
            sampler=self.sampler,
            stop=self.stop or None,
            seed=None if self.seed is None else self.seed + turn,
        )
        return self._pieces(messages[-1], generated)

    def _pieces(self, question, generated):
        """Yields the pieces of an answer, and adds it to the conversation."""
        ids, written = [], ""
        try:
            for choice in generated:
                text = written
                if choice.token not in self.stop:
                    ids.append(choice.token)
                    text = self.model.tokenizer.decode(ids, skip_special=True)
                if text.endswith("\ufffd") or not text.startswith(written):
                    text = written  # a part of a character
                new, written = text[len(written) :], text
                yield self._piece(new, choice)
        finally:
            if written:
                answer = {"role": "assistant", "content": written}
                self.messages += [question, answer]

    def _piece(self, text, choice):
        vocabulary = self.model.tokenizer.vocabulary
        best = zip(choice.ids, np.exp(choice.log_probabilities).tolist(), strict=True)
        return Piece(
            text,
            vocabulary[choice.token],
            float(np.exp(choice.log_probability)),
            [(vocabulary[i], p) for i, p in best],
        )

    @property
    def _longest(self):
        """The most tokens that the model reads or was made for, or None."""
        return getattr(self.model, "max_sequence_length", None)

    def _fitting(self, text):
        """Returns the messages that the model reads with a new one, and their ids.

        They are found once for a message: for what is read, its text, and the answer.
        """
        asked = [dict(each) for each in self.messages], text, self.max_new_tokens
        if self._fitted[0] != asked:
            self._fitted = asked, self._fit(text)
        return self._fitted[1]

    def _fit(self, text):
        messages = [*self.messages, {"role": "user", "content": text}]
        first = 1 if messages[0]["role"] == "system" else 0
        pairs = (len(messages) - first) // 2  # questions with their answers
        # Bisection: a template writes all messages again for each answer.
        left_out = bisect.bisect_left(
            range(pairs), True, key=lambda n: self._fits(self._without(messages, n))
        )
        messages = self._without(messages, left_out)
        ids = self._tokens(messages)
        if left_out == pairs and not self._fits(messages, room=1):
            raise ValueError(
                f"the message must leave room for an answer in the {self._longest} "
                f"tokens that the model reads, received {len(ids)} with what the "
                "chat template adds. Write a shorter one"
            )
        return messages, ids

    def _without(self, messages, pairs):
        """Leaves out the oldest questions with their answers."""
        first = 1 if messages[0]["role"] == "system" else 0
        last = min(first + 2 * pairs, len(messages) - 1)
        return [*messages[:first], *messages[last:]]

    def _tokens(self, messages):
        parts = answers.parts(self.template, messages, add_generation_prompt=True)
        return [i for part, _ in parts for i in self._ids(part)]

    def _fits(self, messages, room=None):
        """Returns whether messages leave room for an answer in what the model reads."""
        if self._longest is None:
            return True
        if room is None:
            room = min(self.max_new_tokens, max(self._longest // SHARE, 1))
        return len(self._tokens(messages)) + room <= self._longest
