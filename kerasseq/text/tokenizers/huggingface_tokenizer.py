"""Tokenizer of a `tokenizer.json` of Hugging Face.

    text → added tokens → normalizer → pre-tokenizer → model → ids → decoder → text

Ids, offsets and decoded texts are those of the package `tokenizers`. Post-processors,
which add special tokens around a text and trim offsets, are not applied: models and
samplers add these tokens. Truncation and padding are arguments of `encode_batch`.
Character classes are those of Python's Unicode version.

Intentional differences: `decode` skips special tokens also if the normalizer changes
them, and offsets are correct if characters without a token are left out.

Not supported, with an error: BPE dropout, the precompiled normalizer of SentencePiece,
`Nmt`, end-of-word suffixes, and components that are not in the tables of
`kerasseq.text.pipeline`.
"""

import os
from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from kerasseq.core.schema import check
from kerasseq.text.files import tokens_in_order
from kerasseq.text.pipeline.added_tokens import AddedToken, Finder
from kerasseq.text.pipeline.decoders import DECODERS, Decoder
from kerasseq.text.pipeline.models import Model, read_model
from kerasseq.text.pipeline.normalizers import NORMALIZERS, Normalizer
from kerasseq.text.pipeline.part import Part, Piece
from kerasseq.text.pipeline.pre_tokenizers import (
    PRE_TOKENIZERS,
    Metaspace,
    PreTokenizer,
    Sequence,
)
from kerasseq.text.texts import each_row, id_array
from kerasseq.text.tokenizers.tokenizer import Tokenizer

KEYS = ("added_tokens", "normalizer", "pre_tokenizer", "model", "decoder")


class HuggingFaceTokenizer(Tokenizer):
    """Tokenizer with the components of a `tokenizer.json`.

    `load_tokenizer` uses it for files that no other tokenizer of kerasseq reproduces:
    those of LLaMA and Mistral, and those with normalizers or added tokens with options.
    `decode` uses the decoder of the file, and joins tokens by spaces without one.

    Args:
        content: The content of the file, as a dictionary, of which `added_tokens`,
            `normalizer`, `pre_tokenizer`, `model` and `decoder` are used.
        path: The file, for messages.

    Attributes:
        added_tokens: All `AddedToken`s in the order of their ids.
        normalizer: The normalizer, or None.
        pre_tokenizer: The pre-tokenizer, or None.
        model: The model.
        decoder: The decoder, or None.

    Raises:
        ValueError: If the file is damaged, or has an unsupported component.

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
        file = Part(content, path)
        self._content = {key: content[key] for key in KEYS if key in content}
        self.model: Model = read_model(file.part("model"))
        added = [AddedToken.read(part) for part in file.parts("added_tokens")]
        self.added_tokens: list[AddedToken] = sorted(added, key=lambda token: token.id)
        self.normalizer: Normalizer | None = file.optional("normalizer", NORMALIZERS)
        self.pre_tokenizer: PreTokenizer | None = file.optional(
            "pre_tokenizer", PRE_TOKENIZERS
        )
        self.decoder: Decoder | None = file.optional("decoder", DECODERS)
        ids = {**self.model.ids, **{t.content: t.id for t in self.added_tokens}}
        where = f"{path}: model.vocab and added_tokens"
        self._vocabulary = tokens_in_order(ids, where)
        special = [t.content for t in self.added_tokens if t.special]
        self.special_tokens: tuple[str, ...] = tuple(special)
        self.unknown: str | None = self.model.unknown
        self._find_added(path)

    def _find_added(self, path):
        """Prepares the search for added tokens, before and after the normalizer."""
        before, after = {}, {}
        self._decoded = list(self._vocabulary)
        for token in self.added_tokens:
            if not token.normalized:
                before[token.content] = token
                continue
            written = token.content
            if self.normalizer is not None:
                written = self.normalizer.text(written)
            if not written:
                raise ValueError(
                    f"{path}: the normalizer removes the added token "
                    f"{token.content!r}, so it is never found. Set its `normalized` to "
                    "false"
                )
            after.setdefault(written, token)  # the first of equal ones
            self._decoded[token.id] = written
        self._before, self._after = Finder(before), Finder(after)

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return self._vocabulary

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
        return [(text, False)]  # added tokens are found in `_words`

    def _encode_part(self, text):
        ids = []
        for piece, added in self._words(text, with_spans=False):
            if added is not None:
                ids.append(added)
            else:
                ids += [i for i, _, _ in self.model.places(piece.text)]
        return ids

    def _places(self, text):
        places = []
        for piece, added in self._words(text, with_spans=True):
            if added is None:
                found = self.model.places(piece.text)
            else:
                found = [(added, 0, len(piece.text))]
            for i, start, end in found:
                places.append((i, piece.spans[start][0], piece.spans[end - 1][1]))
        return places

    def _words(self, text, with_spans):
        """Yields the words of a text, with the ids of added tokens, or None."""
        for start, end, added in self._before.stretches(text):
            needed = with_spans or (start == 0 and self._asks_for_start)
            part = Piece.of(text[start:end], start, needed)
            if added is not None:
                yield part, added
                continue
            for piece, token in self._normalized(part):
                if token is not None:
                    yield piece, token
                elif self.pre_tokenizer is None:
                    yield piece, None
                else:
                    yield from ((word, None) for word in self.pre_tokenizer(piece))

    def _normalized(self, part):
        if self.normalizer is not None and part.spans is None:
            part = part.with_text(self.normalizer.text(part.text))
        elif self.normalizer is not None:
            part = self.normalizer.piece(part)
        for start, end, added in self._after.stretches(part.text):
            yield part.cut(start, end), added

    @property
    def _asks_for_start(self) -> bool:
        """Whether the ids of a word depend on whether it starts the text.

        Then the first word needs spans. Without a normalizer, and with `Metaspace` as
        the only step, it does not.
        """
        alone = self.normalizer is None and isinstance(self.pre_tokenizer, Metaspace)
        return not alone and any(
            isinstance(step, Metaspace) and step.scheme == "first"
            for step in _steps(self.pre_tokenizer)
        )

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
            special = {token.id for token in self.added_tokens if token.special}
            ids = [i for i in ids if i not in special]
        return self._decode_part(ids)

    def _decode_part(self, ids):
        tokens = [self._decoded[i] for i in ids]
        return (
            " ".join(tokens) if self.decoder is None else "".join(self.decoder(tokens))
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        return {"content": self._content}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "HuggingFaceTokenizer":
        """Builds a tokenizer from the result of `get_config`.

        Raises:
            ValueError: If a key is missing or unknown, or the content is damaged.
        """
        check(config, {"content": {str: object}})
        return cls(config["content"])


def _steps(pre_tokenizer):
    """Returns the steps of a pre-tokenizer."""
    if not isinstance(pre_tokenizer, Sequence):
        return [pre_tokenizer]
    return [step for each in pre_tokenizer.steps for step in _steps(each)]
