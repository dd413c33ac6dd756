"""Count-based models with a tokenizer, which take text instead of ids.

A tokenizer is what `as_tokenizer` takes. Before `fit`, its `encode` raises a
`ValueError` or its vocabulary size is 0.
"""

import inspect
from typing import Any

import numpy as np

from kerasseq.core.checks import whole_number
from kerasseq.core.schema import check
from kerasseq.text.probabilities import Seed
from kerasseq.text.tokenizers.conversion import TextTokenizer, as_tokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer


class TextModel:
    """Mixin that gives a `CountingModel` an optional tokenizer.

    Args:
        *args: Arguments of the next class.
        tokenizer: A tokenizer, or None if the model takes only ids.
    """

    def __init__(self, *args: Any, tokenizer: TextTokenizer | None = None):
        super().__init__(*args)
        self.tokenizer: TextTokenizer | None = as_tokenizer(tokenizer)

    def generate(
        self,
        prompt: str,
        max_new_tokens: int,
        *,
        temperature: float = 1.0,
        seed: Seed = None,
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
                "generate needs a tokenizer, but the model has none. Pass "
                "tokenizer=CharacterTokenizer() or another to the model, or call "
                "`sample`, which returns ids."
            )
        start = self._ids(prompt, "prompt")
        count = whole_number("max_new_tokens", max_new_tokens, at_least=0)
        new = self.sample(count, prompt=start, temperature=temperature, seed=seed)
        return self.tokenizer.decode([*start.tolist(), *new.tolist()])

    def _training_text(self, ids, vocabulary_size):
        """Returns ids and vocabulary size; fits the tokenizer if it is not fitted."""
        learns = isinstance(ids, str) and self.tokenizer is not None
        if learns and not has_learned(self.tokenizer):
            self.tokenizer.fit(ids)
        return self._encoded(ids, "ids"), self._size(vocabulary_size)

    def _size(self, given):
        """Returns the vocabulary size, as given or that of the tokenizer."""
        if self.tokenizer is None:
            if given is None:
                raise ValueError(
                    "`vocabulary_size` is required without a tokenizer. Pass the "
                    "number of ids, or build the model with a tokenizer and fit it "
                    "on text."
                )
            return given
        if not has_learned(self.tokenizer):
            raise ValueError(
                "the tokenizer is not fitted. Fit it on text before fitting on ids."
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
        """Returns ids unchanged, and encodes a string."""
        if not isinstance(given, str):
            return given
        if self.tokenizer is None:
            raise TypeError(
                f"`{name}` is a string, but the model has no tokenizer. Pass "
                "tokenizer=CharacterTokenizer() or another to the model, or pass ids."
            )
        return self.tokenizer.encode(given)


def has_learned(tokenizer: TextTokenizer) -> bool:
    """Returns whether a tokenizer has a vocabulary.

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


def tokenizer_config(tokenizer: TextTokenizer | None) -> dict[str, Any] | None:
    """Returns plain JSON from which `tokenizer_from_config` builds an equal tokenizer.

    Raises:
        TypeError: If it is not a class of `kerasseq.text`, which alone can be loaded.
    """
    if tokenizer is None:
        return None
    name = type(tokenizer).__name__
    if _tokenizer_class(name) is not type(tokenizer):
        raise TypeError(
            f"a saved model must have a tokenizer of kerasseq.text, "
            f"received {name}. Set "
            "the model's `tokenizer` to None before saving, and set it again after "
            "loading."
        )
    return {"class_name": name, "config": tokenizer.get_config()}


def tokenizer_from_config(config: dict[str, Any] | None) -> Tokenizer | None:
    """Builds what `tokenizer_config` described.

    Raises:
        ValueError: If it is not a tokenizer of `kerasseq.text`, or its config is wrong.
    """
    if config is None:
        return None
    check(config, {"class_name": str, "config": {str: object}}, "tokenizer")
    tokenizer_class = _tokenizer_class(config["class_name"])
    if tokenizer_class is None:
        raise ValueError(
            f"{config['class_name']!r} is not a tokenizer of kerasseq.text."
        )
    try:
        return tokenizer_class.from_config(config["config"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"tokenizer.config: {error}") from error


def _tokenizer_class(name):
    """Returns a tokenizer class of kerasseq.text by name; None for any other name."""
    for subclass in _subclasses(Tokenizer):
        ours = subclass.__module__.startswith("kerasseq.text.")
        if ours and subclass.__name__ == name and not inspect.isabstract(subclass):
            return subclass
    return None


def _subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from _subclasses(each)
