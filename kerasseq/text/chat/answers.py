"""Which parts of a conversation a model is given, and which it is to write."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kerasseq.core.checks import short
from kerasseq.core.messages import Message, checked
from kerasseq.core.schema import check
from kerasseq.text.chat.chat_template import ChatTemplate
from kerasseq.text.chat.jinja_template import JinjaTemplate

AnyTemplate: TypeAlias = ChatTemplate | JinjaTemplate
CONTENT = "Answer"  # by which to find what a template writes after an answer


def as_template(value: Any) -> AnyTemplate | None:
    """Returns a template; a string is one in Jinja.

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(value, str):
        return JinjaTemplate(value)
    if value is None or isinstance(value, ChatTemplate | JinjaTemplate):
        return value
    raise TypeError(
        "chat_template must be a kerasseq.text.ChatTemplate, a template of Hugging "
        f"Face as a string, or None, received {short(value)}"
    )


def from_config(config: Mapping[str, Any]) -> AnyTemplate:
    """Returns the template of which this is the config.

    Examples:
        >>> from_config({"end": "<eos>"}).end
        '<eos>'
    """
    kind = JinjaTemplate if "source" in config else ChatTemplate
    names = {"source": str, "tokens": {str: str}} if kind is JinjaTemplate else {}
    schema = names or dict.fromkeys(("user?", "assistant?", "system?", "end?"), str)
    return kind(**check(dict(config), schema, "chat_template"))


def parts(
    template: AnyTemplate,
    messages: Iterable[Message],
    where: str = "messages",
    *,
    add_generation_prompt: bool = False,
) -> list[tuple[str, bool]]:
    """Splits a conversation into what the model is given, and what it writes.

    Args:
        template: The chat template.
        messages: The messages. An answer to none, at the beginning, counts as given.
        where: What they are, for messages of errors.
        add_generation_prompt: Whether the model is to answer the last message. Else
            messages after the last answer are left out.

    Returns:
        Texts, and whether each is written by the model: its answers, and their ends. A
        model reads them tokenized apart, as it writes them.

    Raises:
        TypeError: If a message is no dictionary with role and content.
        ValueError: If there is no answer, or the text of a message depends on later
            ones, so that what is trained would not be what a chat reads.

    Examples:
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> parts(ChatTemplate(), [*messages, {"role": "assistant", "content": "Yes"}])
        [('<|user|>Hi<|assistant|>', False), ('Yes', True), ('<|end|>', True)]
    """
    messages = checked(messages, where)
    places = [n for n, each in enumerate(messages) if n and each["role"] == "assistant"]
    if not places and not add_generation_prompt:
        raise ValueError(
            f"{where} must have an answer, a message of the role assistant after "
            f"another, received {short(messages)}"
        )
    pieces, written = [], ""
    for n in places:
        before = template.render(messages[:n], add_generation_prompt=True)
        after = template.render(messages[: n + 1])
        content = messages[n]["content"].strip()  # as some templates write it
        start = after.find(content, len(before))
        end = start + len(content)
        _check(before.startswith(written) and after.startswith(before), before, after)
        pieces += [(before[len(written) :], False)]
        pieces += [(after[len(before) : end], True), (after[end:], True)]
        written = after
    if add_generation_prompt:
        after = template.render(messages, add_generation_prompt=True)
        _check(after.startswith(written), written, after)
        pieces.append((after[len(written) :], False))
    return [(text, is_written) for text, is_written in pieces if text]


def _check(grows, before, after):
    """Raises unless a text goes on as the one before."""
    if not grows:
        raise ValueError(
            "the chat template must write each message after those before it, without "
            f"changing them, received one that turns {before[-40:]!r} into "
            f"{after[-40:]!r}"
        )


def preference_texts(
    template: AnyTemplate, row: Sequence[Any], where: str = "x"
) -> tuple[str, str, str]:
    """Writes a row of preferences that is given as messages.

    Args:
        template: The chat template.
        row: Prompt, chosen and rejected answer, each a list of messages; answers may be
            strings, and with the messages of the prompt before them.
        where: What the row is, for messages of errors.

    Returns:
        The prompt, with what precedes an answer, and both answers with their ends.

    Raises:
        TypeError: If a message is no dictionary with role and content.
        ValueError: If an answer is not one message of the assistant.

    Examples:
        >>> prompt = [{"role": "user", "content": "Hi"}]
        >>> preference_texts(ChatTemplate(), (prompt, "Yes", "No"))
        ('<|user|>Hi<|assistant|>', 'Yes<|end|>', 'No<|end|>')
    """
    prompt, *others = row
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    prompt = checked(prompt, f"{where}, prompt")
    before = template.render(prompt, add_generation_prompt=True)
    texts = [before]
    for name, answer in zip(("chosen", "rejected"), others, strict=True):
        if isinstance(answer, str):
            answer = [{"role": "assistant", "content": answer}]
        answer = checked(answer, f"{where}, {name}")
        if len(answer) > len(prompt) and answer[: len(prompt)] == prompt:
            answer = answer[len(prompt) :]  # as in some data sets
        if len(answer) != 1 or answer[0]["role"] != "assistant":
            raise ValueError(
                f"{where}, {name} must be one message of the role assistant, received "
                f"{short(answer)}"
            )
        after = template.render([*prompt, *answer])
        _check(after.startswith(before), before, after)
        texts.append(after[len(before) :])
    return texts[0], texts[1], texts[2]


def end_of_answer(template: AnyTemplate) -> str:
    """Returns what a template writes after an answer; empty if it writes nothing.

    Examples:
        >>> end_of_answer(ChatTemplate(end="<eos>"))
        '<eos>'
    """
    messages = [{"role": role, "content": CONTENT} for role in ("user", "assistant")]
    return template.render(messages).rpartition(CONTENT)[2]
