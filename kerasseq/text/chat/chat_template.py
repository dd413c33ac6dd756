"""`ChatTemplate`: a conversation as text, with a token before each message.

    <|user|>Where does Paul live?<|assistant|>In Lyon.<|end|>

A language model continues a text. To chat, it is trained on conversations in one form,
in which tokens show who speaks, and where an answer ends.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

from kerasseq.core.checks import short
from kerasseq.core.messages import Message, checked


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """Writes each message after the token of its role.

    Set it as the `chat_template` of a tokenizer, which is saved with its model.

    Args:
        user: What precedes a message of the user.
        assistant: What precedes an answer.
        system: What precedes the instructions, if a conversation begins with some.
        end: What follows an answer: one token, at which generation stops.

    Raises:
        TypeError: If an argument is not a string.
        ValueError: If `end` is empty, or equal to what precedes a message.

    Examples:
        >>> from kerasseq.text import WordTokenizer
        >>> template = ChatTemplate()
        >>> tokenizer = WordTokenizer(special_tokens=template.special_tokens)
        >>> tokenizer = tokenizer.fit("where is he ? in lyon")
        >>> tokenizer.chat_template = template
        >>> messages = [{"role": "user", "content": "where is he ?"}]
        >>> tokenizer.apply_chat_template(messages, tokenize=False)
        '<|user|>where is he ?'

    References:
        Slides C: the chatbot arena.
    """

    user: str = "<|user|>"
    assistant: str = "<|assistant|>"
    system: str = "<|system|>"
    end: str = "<|end|>"

    def __post_init__(self) -> None:
        for name, text in self.get_config().items():
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a string, received {short(text)}")
        if not self.end or self.end in (self.user, self.assistant, self.system):
            raise ValueError(
                "end must be a token of its own, as generation stops there, received "
                f"{self.end!r}"
            )

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The tokens to give a tokenizer as its `special_tokens`."""
        return self.user, self.assistant, self.system, self.end

    def render(
        self, messages: Iterable[Message], add_generation_prompt: bool = False
    ) -> str:
        """Returns messages as text.

        Args:
            messages: Dictionaries with "role" and "content".
            add_generation_prompt: Whether to add what precedes an answer.

        Raises:
            TypeError: If a message is no dictionary with role and content.
            ValueError: If a role is unknown, or a content empty.
        """
        text = "".join(
            getattr(self, message["role"])
            + message["content"]
            + (self.end if message["role"] == "assistant" else "")
            for message in checked(messages)
        )
        return text + (self.assistant if add_generation_prompt else "")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return dataclasses.asdict(self)
