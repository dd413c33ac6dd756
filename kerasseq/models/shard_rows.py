"""`TokenShards` for language models: one text, or a row for each block."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.datasets.token_shards import TokenShards
from kerasseq.models.answer_rows import Row


def opened(model: Any, data: Any, sequence_length: int | None) -> Any:
    """Returns token shards as a model reads them; other data as they are.

    Args:
        model: The language model.
        data: `TokenShards`, or any other data.
        sequence_length: Tokens of a block; those of the shards if None.

    Returns:
        The ids of shards whose documents are joined; `DocumentRows` of those that are
        kept apart.

    Raises:
        ValueError: If the shards are of another tokenizer, or documents are kept apart
            for a model with a memory, which reads one text.
    """
    if not isinstance(data, TokenShards):
        return data
    data.check_tokenizer(model.tokenizer, model.vocabulary_size)
    if not data.documents_apart:
        return data.ids
    if getattr(model, "segment_memory", None) is not None:
        raise ValueError(
            "documents_apart must be False for a GPT with memory_length, whose "
            "segments continue each other"
        )
    return DocumentRows(data.with_length(sequence_length or data.sequence_length))


def evaluated(model: Any, data: Any, sequence_length: int) -> tuple[Any, int]:
    """Returns data as `opened`, and the most tokens of a block: no more than theirs."""
    if isinstance(data, TokenShards):
        most = checks.whole_number("sequence_length", sequence_length)
        positions = model.context_length or most
        sequence_length = min(most, data.sequence_length, positions)
    return opened(model, data, sequence_length), sequence_length


def one_text(model: Any, data: Any) -> Any:
    """Returns data as `opened`, to be scored as one text.

    Raises:
        ValueError: If these are shards whose documents are kept apart.
    """
    if isinstance(data, TokenShards) and data.documents_apart:
        raise ValueError(
            "documents_apart must be False for the cross-entropy of all tokens, which "
            "reads over the ends of documents. `evaluate` keeps them apart"
        )
    return opened(model, data, None)


def block_length(data: Any, sequence_length: int | None) -> int | None:
    """Returns the tokens of a block, if the call does not say: those of the shards."""
    if sequence_length is None and isinstance(data, TokenShards):
        return data.sequence_length
    return sequence_length


class DocumentRows(Sequence[Any]):
    """The blocks of `TokenShards` with `documents_apart` as rows, read when used.

    Args:
        shards: The shards.

    Raises:
        ValueError: If there is no block.
    """

    def __init__(self, shards: TokenShards) -> None:
        self.shards: TokenShards = shards
        if not len(shards):
            raise ValueError(
                f"{shards.folder} has no document of two tokens in its {shards.part} "
                "part, as the first token of each is not predicted"
            )

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of each row `(rows,)`, the last of which is only a target."""
        return self.shards.rows[1] + 1

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return DocumentRows(self.shards[key])
        start, n = (int(column[key]) for column in self.shards.rows)
        ids = np.asarray(self.shards.ids[start : start + n + 1])
        return Row(ids, np.ones(n + 1, "float32"))
