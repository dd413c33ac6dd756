"""Any tokenizer of Hugging Face's package `tokenizers`.

Ids, offsets and decoded texts are those of the package. Not applied are truncation and
padding, which are arguments of `encode_batch`, and the post-processor, which adds
special tokens around a text and trims offsets: models and samplers add these tokens.

One intentional difference: `decode(skip_special=True)` also skips special tokens that
the normalizer changes.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from kerasseq.core import packages
from kerasseq.core.checks import short
from kerasseq.core.files import read_json
from kerasseq.core.schema import check
from kerasseq.text.files import tokens_in_order
from kerasseq.text.texts import each_row, id_array
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.text.tokenizers.tokenizer_json import KEYS, covered, unknown_token

if TYPE_CHECKING:
    import tokenizers


class HuggingFaceTokenizer(Tokenizer):
    """Tokenizer of the package `tokenizers`, which the extra `text` installs.

    `load_tokenizer` uses it for each `tokenizer.json` that no other tokenizer of
    kerasseq reproduces, such as those of RoBERTa, T5 and XLM-R. It is saved with its
    model, and loads wherever the package is installed.

    Args:
        content: The content of a `tokenizer.json`, as a dictionary, of which
            `added_tokens`, `normalizer`, `pre_tokenizer`, `model` and `decoder` are
            used.
        path: The file, for messages.

    Attributes:
        backend_tokenizer: The `tokenizers.Tokenizer`.

    Raises:
        ImportError: If the package `tokenizers` is not installed.
        ValueError: If the package cannot read the content, or the ids have gaps.

    Examples:
        >>> vocabulary = {"a": 0, "b": 1, "ab": 2, "?": 3, "<m>": 4}
        >>> model = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]]}
        >>> tokenizer = HuggingFaceTokenizer(
        ...     {
        ...         "model": {**model, "unk_token": "?", "fuse_unk": True},
        ...         "added_tokens": [{"content": "<m>", "id": 4, "single_word": True}],
        ...         "normalizer": {"type": "Lowercase"},
        ...         "decoder": {"type": "Fuse"},
        ...     }
        ... )
        >>> tokenizer.encode("ABBA<m>")
        array([2, 1, 0, 3], dtype=int32)
        >>> tokenizer.encode("A <m> B")
        array([0, 3, 4, 3, 1], dtype=int32)
        >>> tokenizer.decode([2, 1, 0])
        'abba'
    """

    def __init__(
        self,
        content: dict[str, Any],
        *,
        path: str | os.PathLike[str] = "the tokenizer",
    ):
        self._content = {key: content[key] for key in KEYS if key in content}
        self.backend_tokenizer: tokenizers.Tokenizer = _built(self._content, path)
        ids = self.backend_tokenizer.get_vocab()
        self._vocabulary = tokens_in_order(ids, f"{path}: model.vocab and added_tokens")
        tokens = self.backend_tokenizer.get_added_tokens_decoder()
        self.special_tokens: tuple[str, ...] = tuple(
            tokens[i].content for i in sorted(tokens) if tokens[i].special
        )
        unknown = unknown_token(content["model"])
        self.unknown: str | None = unknown if unknown in ids else None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "HuggingFaceTokenizer":
        """Reads a `tokenizer.json`, also one that `load_tokenizer` reads as another.

        Raises:
            ImportError: If the package `tokenizers` is not installed.
            ValueError: If it is damaged, or the package cannot read it.
        """
        return cls(check(read_json(path), {str: object}, str(path)), path=path)

    def padded(self, size: int) -> "HuggingFaceTokenizer":
        """Returns the same tokenizer with unused special tokens up to a number of ids.

        Published models often have more ids than their tokenizer, such as 32,128
        instead of T5's 32,100, as multiples of 64 or 128 are fast.

        Args:
            size: Number of ids.

        Examples:
            >>> model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
            >>> HuggingFaceTokenizer({"model": model}).padded(3).vocabulary
            ['a', '<unused_1>', '<unused_2>']
        """
        unused = [
            {"content": f"<unused_{i}>", "id": i, "special": True}
            for i in range(self.vocabulary_size, size)
        ]
        added = [*(self._content.get("added_tokens") or []), *unused]
        padded = HuggingFaceTokenizer({**self._content, "added_tokens": added})
        return padded._with_template_of(self)

    def fit(self, text: str | Iterable[str]) -> "HuggingFaceTokenizer":
        """Raises an error, since the vocabulary is that of the file.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "a HuggingFaceTokenizer cannot be fitted: its vocabulary is that of its "
            "file. Fit a BytePairTokenizer, WordPieceTokenizer or UnigramTokenizer"
        )

    def _cut_out(self, text):
        return [(text, False)]  # the package finds added tokens

    def _encode_part(self, text):
        return self._encoding(text).ids

    def _places(self, text):
        encoding = self._encoding(text)
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [(i, start, end) for i, (start, end) in pairs]

    def _encoding(self, text):
        with _explained(
            "the tokenizer must have a token for each character of the text, such as "
            f"an unknown token, received {short(text)}",
            "Remove such characters",
        ):
            return self.backend_tokenizer.encode(text, add_special_tokens=False)

    @each_row
    def decode(self, ids: ArrayLike, *, skip_special: bool = False) -> str:
        """Converts ids to text.

        Args:
            ids: A list, array or tensor of whole numbers with one axis.
            skip_special: Whether to leave out special tokens. Other added tokens stay.

        Returns:
            The normalized text, including added tokens with `normalized`.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If an id is outside the vocabulary.
        """
        ids = id_array(ids, self.vocabulary_size).tolist()
        if skip_special:
            special = set(map(self.id_of, self.special_tokens))
            ids = [i for i in ids if i not in special]
        return self._decode_part(ids)

    def _decode_part(self, ids):
        with _explained(
            f"the decoder of the tokenizer must take the tokens of {short(ids)}",
            "Remove the id of this token",
        ):
            return self.backend_tokenizer.decode(ids, skip_special_tokens=False)

    def own_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {"content": self._content}

    @classmethod
    def from_own_config(cls, config: dict[str, Any]) -> Tokenizer:
        """Builds a tokenizer from the result of `own_config`.

        Without the package `tokenizers` it is another tokenizer of kerasseq, if one has
        the same ids.

        Raises:
            ImportError: If the package is needed and not installed.
            ValueError: If a key is missing or unknown, or the content is damaged.
        """
        check(config, {"content": {str: object}})
        try:
            return cls(config["content"])
        except ImportError:
            ours = covered(config["content"])
            if ours is None:
                raise
            return ours


def _built(content, path) -> "tokenizers.Tokenizer":
    """Returns the tokenizer of the package.

    Raises:
        ImportError: If the package is not installed.
        ValueError: If it cannot read the content.
    """
    tokenizers = packages.load(
        "tokenizers",
        "tokenizers",
        f"{path} has components that kerasseq's own tokenizers lack, so it needs the "
        "package of the extra `text`:",
    )
    _check_prefix(content["model"], path)
    added = [_complete(token) for token in content.get("added_tokens") or []]
    with _explained(
        f"{path} must be a tokenizer.json that the package tokenizers "
        f"{tokenizers.__version__} reads",
        "Download the file again, or install a newer version of the package",
    ):
        return tokenizers.Tokenizer.from_str(
            json.dumps({**content, "added_tokens": added})
        )


def _check_prefix(model, path):
    """Raises if merges are without the prefix of later pieces.

    The package cuts it off without looking, which may end the process.
    """
    prefix = model.get("continuing_subword_prefix")
    if not isinstance(prefix, str) or not isinstance(model.get("merges"), list):
        return
    for number, merge in enumerate(model["merges"]):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2:
            continue  # the package says what is wrong
        if isinstance(pair[1], str) and not pair[1].startswith(prefix):
            raise ValueError(
                f"{path} is damaged: model.merges[{number}] must have a second piece "
                f"that begins with model.continuing_subword_prefix={prefix!r}, "
                f"received {short(pair[1])}. Download it again"
            )


@contextlib.contextmanager
def _explained(expected, advice):
    """Turns errors of the package, and panics of its Rust code, into a `ValueError`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic is no Exception
        raise ValueError(f"{expected}; it reports: {error}. {advice}") from error


def _complete(token):
    """Returns an added token with the options that older files leave out."""
    options = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    return {**options, "normalized": not token.get("special", False), **token}
