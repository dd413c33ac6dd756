"""`as_tokenizer`: every `tokenizer` argument, as a tokenizer that models read.

It recognizes tokenizers of other packages by their classes and attributes, and imports
none of these packages itself.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from kerasseq.core.checks import short
from kerasseq.text.chat.jinja_template import JinjaTemplate
from kerasseq.text.tokenizers.loading import from_tokenizer_json
from kerasseq.text.tokenizers.tokenizer import Tokenizer

METHODS = ("fit", "encode", "decode")
KERAS_HUB = ("keras_hub", "keras_nlp")
# The line that converts a tokenizer, by its package and one of its methods or
# attributes.
LINES = (
    (
        KERAS_HUB,
        "merges",
        "kerasseq.text.BytePairTokenizer.from_vocabulary(tokenizer.vocabulary, "
        "tokenizer.merges)",
    ),
    (
        KERAS_HUB,
        "suffix_indicator",
        "kerasseq.text.WordPieceTokenizer.from_vocabulary(tokenizer.vocabulary, "
        "unknown=tokenizer.oov_token, lowercase=tokenizer.lowercase, "
        "strip_accents=tokenizer.strip_accents, "
        "split_chinese=tokenizer.split_on_cjk, prefix=tokenizer.suffix_indicator)",
    ),
    (
        KERAS_HUB,
        "set_vocabulary",  # with neither of the two above: its RWKVTokenizer
        "kerasseq.text.RWKVTokenizer.from_vocabulary(tokenizer.vocabulary)",
    ),
    (
        ("transformers",),
        "save_vocabulary",
        'transformers.AutoTokenizer.from_pretrained("FOLDER"), which is a fast '
        "tokenizer",
    ),
)
# The same by the begin of the name of a class whose vocabulary cannot be read, or that
# has none; "" is any other.
OTHERS = {
    "Byte": 'kerasseq.text.BytePairTokenizer(256).fit(" "), with a token for each byte',
    "UnicodeC": "kerasseq.text.CharacterTokenizer().fit(texts)",
    "SentencePiece": 'kerasseq.text.load_tokenizer("FILE.model"), the file of the same '
    "pieces",
    "Whitespace|UnicodeScript|Regex": "kerasseq.text.WordTokenizer().fit(texts)",
    "(Fast)?(Bert|Wordpiece)": "kerasseq.text.WordPieceTokenizer.from_vocabulary("
    "words), with the words of its table in their order",
    "": 'kerasseq.text.load_tokenizer("FOLDER"), a folder with the tokenizer.json or '
    "vocab.txt of the same model",
}
PACKAGES = {*KERAS_HUB, "tensorflow_text", "sentencepiece", "tiktoken"}


class TextTokenizer(Protocol):
    """What a model requires of a tokenizer."""

    @property
    def vocabulary_size(self) -> int: ...
    def fit(self, text: str, /) -> object: ...
    def encode(self, text: str, /) -> "list[int] | np.ndarray": ...
    def decode(self, ids: list[int], /) -> str: ...


class PackageTokenizer(Protocol):
    """`tokenizers.Tokenizer`: what can be written as a `tokenizer.json`."""

    def to_str(self) -> str: ...


class FastTokenizer(Protocol):
    """A tokenizer of `transformers` that uses the package `tokenizers`."""

    @property
    def backend_tokenizer(self) -> PackageTokenizer: ...


AnyTokenizer: TypeAlias = TextTokenizer | FastTokenizer | PackageTokenizer


def as_tokenizer(value: AnyTokenizer | None, name: str = "tokenizer") -> Any:
    """Returns a tokenizer of `kerasseq.text` with the ids of any tokenizer.

    | received | returned |
    |---|---|
    | a tokenizer of `kerasseq.text`, or None | the same |
    | `tokenizers.Tokenizer` | as `load_tokenizer` of its `tokenizer.json` |
    | a fast tokenizer of `transformers` | the same of its `backend_tokenizer` |
    | an object with `fit`, `encode`, `decode`, `vocabulary_size` | the same |
    | a tokenizer of KerasHub or TensorFlow Text, or another object | an error, with \
the line that converts it |

    The result is a copy, without truncation, padding and post-processor: models pad,
    and add the special tokens around a text themselves.

    Args:
        value: The tokenizer.
        name: The name of the argument, for messages.

    Returns:
        The tokenizer, which is saved with its model.

    Raises:
        TypeError: If it is not a tokenizer, or one that must be converted first.
        ValueError: If it has components in Python, which cannot be saved.

    Examples:
        >>> import tokenizers
        >>> words = tokenizers.models.WordLevel({"to": 0, "be": 1, "?": 2}, "?")
        >>> theirs = tokenizers.Tokenizer(words)
        >>> theirs.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        >>> as_tokenizer(theirs).encode("to be or")
        array([0, 1, 2], dtype=int32)
    """
    if value is None or isinstance(value, Tokenizer):
        return value
    backend = getattr(value, "backend_tokenizer", value)
    if _module(backend) == "tokenizers" and hasattr(backend, "to_str"):
        tokenizer = from_tokenizer_json(_content(backend, name), name)
        return with_their_template(
            tokenizer,
            getattr(value, "chat_template", None),
            getattr(value, "special_tokens_map", {}),
        )
    is_class = isinstance(value, type)
    has_all = all(callable(getattr(value, method, None)) for method in METHODS)
    if has_all and not is_class and hasattr(value, "vocabulary_size"):
        return value
    raise TypeError(
        f"{name} must be a tokenizer of kerasseq.text, a tokenizers.Tokenizer or a "
        f"fast tokenizer of transformers, received {short(value)}. {_advice(value)}"
    )


def with_their_template(
    tokenizer: Tokenizer, template: object, tokens: Mapping[str, Any]
) -> Tokenizer:
    """Sets the chat template that a tokenizer has in Hugging Face.

    Args:
        tokenizer: The tokenizer, which is changed.
        template: In Jinja; or several by name, of which "default" is used; or None.
        tokens: Special tokens by name, as in `tokenizer_config.json`.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> tokens = {"eos_token": {"content": "."}, "pad_token": None}
        >>> with_their_template(CharacterTokenizer(), "Hi", tokens).chat_template
        JinjaTemplate(source='Hi', tokens={'eos_token': '.'})
    """
    if isinstance(template, list):
        template = {each["name"]: each["template"] for each in template}
    if isinstance(template, Mapping):
        template = template.get("default")
    if isinstance(template, str):
        texts = {
            name: token.get("content") if isinstance(token, Mapping) else token
            for name, token in tokens.items()
        }
        texts = {name: text for name, text in texts.items() if isinstance(text, str)}
        tokenizer.chat_template = JinjaTemplate(template, texts)
    return tokenizer


def fitted_tokenizer(
    value: AnyTokenizer | None, name: str = "tokenizer", more: str = ""
) -> Any:
    """Returns `as_tokenizer` of a tokenizer that has a vocabulary, or None.

    Args:
        value: The tokenizer, or None.
        name: The name of the argument, for messages.
        more: The end of the advice.

    Raises:
        TypeError: As `as_tokenizer`.
        ValueError: If it is not fitted.
    """
    tokenizer = as_tokenizer(value, name)
    if tokenizer is not None and not tokenizer.vocabulary_size:
        raise ValueError(
            f"{name} must be fitted, received a {type(tokenizer).__name__} without "
            f"tokens. Call its fit first{more}"
        )
    return tokenizer


def is_path(value: object) -> bool:
    """Returns whether this is a path: with a suffix or separator, or of a file.

    Examples:
        >>> [is_path(s) for s in ("tokenizer.json", "runs/bpe", "word", "Yes. No.")]
        [True, True, False, False]
    """
    if not isinstance(value, str):
        return isinstance(value, os.PathLike)
    return re.search(r"[/\\]|\.\w+$", value) is not None or os.path.exists(value)


def advice_for_path(path: str | os.PathLike[str]) -> str:
    """Returns what to pass in place of a path, as the end of a message."""
    text = os.fspath(path)
    return f"Pass kerasseq.text.load_tokenizer({json.dumps(text, ensure_ascii=False)})"


def _module(value) -> str:
    """Returns the package of the class of an object."""
    return type(value).__module__.partition(".")[0]


def _content(backend, name) -> dict[str, Any]:
    try:
        return json.loads(backend.to_str())
    except Exception as error:  # the package has no class of its own for errors
        raise ValueError(
            f"{name} must consist of components that can be saved, received one that "
            f"cannot: {error}. Replace its components in Python by those of the "
            "package tokenizers"
        ) from error


def _advice(value) -> str:
    if isinstance(value, type):
        return f"Pass an object: {value.__name__}(...)"
    if is_path(value):
        return advice_for_path(value)
    packages = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    for modules, attribute, line in LINES:
        if packages & set(modules) and hasattr(value, attribute):
            return f"Pass {line}"
    if packages & PACKAGES:
        name = type(value).__name__
        line = next(line for begin, line in OTHERS.items() if re.match(begin, name))
        return f"Pass {line}"
    return (
        "Train one, such as kerasseq.text.CharacterTokenizer().fit(texts), or load one "
        "with kerasseq.text.load_tokenizer(path)"
    )
