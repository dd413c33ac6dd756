"""The tokenizer of a model as plain JSON, and back."""

from kerasseq import text


def tokenizer_config(tokenizer):
    """The tokenizer as plain JSON; None stays None.

    Examples:
        >>> letters = text.CharacterTokenizer().fit("ab")
        >>> saved = tokenizer_config(letters)
        >>> saved["class_name"], tokenizer_from_config(saved).characters
        ('CharacterTokenizer', ['a', 'b'])
    """
    if tokenizer is None:
        return None
    return {"class_name": type(tokenizer).__name__, "config": tokenizer.get_config()}


def tokenizer_from_config(saved):
    """What `tokenizer_config` was made from."""
    if not isinstance(saved, dict):
        return saved
    return getattr(text, saved["class_name"]).from_config(saved["config"])
