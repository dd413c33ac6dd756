"""Models that count, with a tokenizer: they take text for ids, and write it.

A tokenizer is anything with `fit`, `encode`, `decode` and `vocabulary_size`. Before
`fit`, its `encode` raises a `ValueError` or its vocabulary's size is 0.
"""

import numpy as np

from kerasseq.core.checks import whole_number
from kerasseq.core.schema import check

METHODS = ("fit", "encode", "decode")


class TextModel:
    """A counting model that may have a tokenizer; stands before `CountingModel`.

    Args:
        *args: For the class after it.
        tokenizer: A tokenizer, or None for ids alone.
    """

    def __init__(self, *args, tokenizer=None):
        super().__init__(*args)
        check_tokenizer(tokenizer)
        self.tokenizer = tokenizer

    def generate(
        self, prompt: str, max_new_tokens: int, *, temperature: float = 1.0, seed=None
    ) -> str:
        """Generates a continuation of a prompt; `sample` returns ids instead.

        Args:
            prompt: The text to continue; may be empty.
            max_new_tokens: How many tokens to generate.
            temperature: Lower is more deterministic, higher more random; 0 always
                takes the most probable token.
            seed: Seed of the draws.

        Returns:
            The prompt and its continuation.

        Raises:
            ValueError: If there is no tokenizer.
        """
        if self.tokenizer is None:
            raise ValueError(
                "the model has no tokenizer to write text with: build it with "
                "tokenizer=CharacterTokenizer() or another, or use `sample` for ids."
            )
        start = self._ids(prompt, "prompt")
        count = whole_number("max_new_tokens", max_new_tokens, at_least=0)
        new = self.sample(count, prompt=start, temperature=temperature, seed=seed)
        return self.tokenizer.decode([*start.tolist(), *new.tolist()])

    def _training_text(self, ids, vocabulary_size):
        """Return the ids and the vocabulary's size; the tokenizer learns if it must."""
        learns = isinstance(ids, str) and self.tokenizer is not None
        if learns and not has_learned(self.tokenizer):
            self.tokenizer.fit(ids)
        return self._encoded(ids, "ids"), self._size(vocabulary_size)

    def _size(self, given):
        """The vocabulary's size, as given or as the tokenizer has it."""
        if self.tokenizer is None:
            if given is None:
                raise ValueError(
                    "`vocabulary_size` is missing: say how many different ids there "
                    "are, or build the model with a tokenizer and fit it on text."
                )
            return given
        if not has_learned(self.tokenizer):
            raise ValueError(
                "the tokenizer has no vocabulary yet: fit it on text before it is used "
                "with ids."
            )
        size = self.tokenizer.vocabulary_size
        if given is not None and given != size:
            raise ValueError(
                f"`vocabulary_size` is {given}, but the tokenizer has {size} ids: "
                "leave it out."
            )
        return size

    def _ids(self, ids, name: str = "ids") -> np.ndarray:
        self._fitted_size()
        return super()._ids(self._encoded(ids, name), name)

    def _encoded(self, given, name: str):
        """Ids as they are, a string through the tokenizer."""
        if not isinstance(given, str):
            return given
        if self.tokenizer is None:
            raise TypeError(
                f"`{name}` is a string and the model has no tokenizer: build it with "
                "tokenizer=CharacterTokenizer() or another, or pass the ids that a "
                "tokenizer's `encode` gives."
            )
        return self.tokenizer.encode(given)


def check_tokenizer(tokenizer):
    """Raise a `TypeError` unless `tokenizer` is None or has what a tokenizer has.

    Examples:
        >>> check_tokenizer("word")
        Traceback (most recent call last):
        ...
        TypeError: `tokenizer` must have fit, encode and decode, as \
CharacterTokenizer() has; got 'word'.
    """
    is_class = isinstance(tokenizer, type)
    if tokenizer is None or (not is_class and _has(tokenizer, METHODS)):
        return
    raise TypeError(
        "`tokenizer` must have fit, encode and decode, as CharacterTokenizer() has; "
        f"got {tokenizer!r}."
    )


def has_learned(tokenizer) -> bool:
    """Tell whether a tokenizer has a vocabulary: without one, `encode` refuses.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> has_learned(CharacterTokenizer())
        False
    """
    try:
        tokenizer.encode("")
    except ValueError:
        return False
    return bool(tokenizer.vocabulary_size)


def tokenizer_config(tokenizer) -> dict | None:
    """Return plain JSON from which `tokenizer_from_config` builds an equal tokenizer.

    Raises:
        TypeError: If it is none of `kerasseq.text`, where no reader would find it.
    """
    if tokenizer is None:
        return None
    name = type(tokenizer).__name__
    if _tokenizer_class(name) is not type(tokenizer):
        raise TypeError(
            f"{name} is no tokenizer of kerasseq.text, so nothing that is saved says "
            "how to build it: set the model's `tokenizer` to None before, and to yours "
            "again after loading."
        )
    return {"class_name": name, "config": tokenizer.get_config()}


def tokenizer_from_config(config: dict | None):
    """Build what `tokenizer_config` described.

    Raises:
        ValueError: If it is no tokenizer of `kerasseq.text`, or its config is wrong.
    """
    if config is None:
        return None
    check(config, {"class_name": str, "config": {str: object}}, "tokenizer")
    found = _tokenizer_class(config["class_name"])
    if found is None:
        raise ValueError(f"{config['class_name']!r} is no tokenizer of kerasseq.text.")
    try:
        return found.from_config(config["config"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"tokenizer.config: {error}") from error


def _tokenizer_class(name):
    """Return a public class of ours that is a tokenizer; no other may a file name."""
    from kerasseq import text  # here, since the package imports the models

    found = getattr(text, name) if name in text.__all__ else None
    return found if _has(found, (*METHODS, "get_config", "from_config")) else None


def _has(thing, names) -> bool:
    return all(callable(getattr(thing, name, None)) for name in names)
