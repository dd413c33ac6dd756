"""Messages: what was said in a conversation, and by whom."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kerasseq.core.checks import short

ROLES = ("system", "user", "assistant")
Message: TypeAlias = Mapping[str, str]  # "role" and "content"


def checked(messages: Iterable[Message], where: str = "messages") -> list[Message]:
    """Returns messages as a list.

    Args:
        messages: Dictionaries with "role" and "content".
        where: What they are, for messages of errors.

    Raises:
        TypeError: If a message is no dictionary with role and content.
        ValueError: If there are none, a role is unknown, or a content empty.

    Examples:
        >>> checked([{"role": "bot", "content": "Hi"}])
        Traceback (most recent call last):
        ...
        ValueError: messages[0], role must be system, user or assistant, received 'bot'
    """
    if isinstance(messages, str | Mapping) or not hasattr(messages, "__iter__"):
        raise TypeError(
            f'{where} must be a list of {{"role": …, "content": …}}, received '
            f"{short(messages)}"
        )
    messages = list(messages)
    if not messages:
        raise ValueError(f"{where} must have at least one message, received []")
    for n, message in enumerate(messages):
        _check(message, f"{where}[{n}]")
    return messages


def _check(message, where):
    if not isinstance(message, Mapping) or not {"role", "content"} <= {*message}:
        raise TypeError(
            f"{where} must have role and content, received {short(message)}"
        )
    role, content = message["role"], message["content"]
    if role not in ROLES:
        raise ValueError(
            f"{where}, role must be system, user or assistant, received {short(role)}"
        )
    if not isinstance(content, str):
        raise TypeError(f"{where}, content must be a string, received {short(content)}")
    if not content:
        raise ValueError(f"{where}, content must not be empty, received ''")


def are_messages(value: object) -> bool:
    """Returns whether this is a list of messages with role and content, not empty.

    Examples:
        >>> are_messages([{"role": "user", "content": "Hi"}]), are_messages("Hi")
        (True, False)
    """
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return is_list and all(isinstance(part, Mapping) for part in value)
