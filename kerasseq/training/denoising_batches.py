"""Batches of corrupted and original texts, with other noise in each epoch."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.training.batches import GroupedBatches
from kerasseq.training.pair_batches import PairArrays, pair_arrays

if TYPE_CHECKING:
    from kerasseq.training.denoising import Denoising

INSERTED = 8  # positions for masks of empty spans; more are very rare, and have room


class DenoisingBatches(GroupedBatches):
    """Batches of sources, corrupted texts, and targets, the texts; of a few shapes.

    Args:
        denoising: A `Denoising`.
        model: A model with a `source_vocabulary` and a `target_vocabulary`.
        texts: Strings, or rows of ids, as targets of the model.
        batch_size: Texts in a batch.
        seed: Seed of the order.
        groups: Maximum number of shapes.
    """

    def __init__(
        self,
        denoising: "Denoising",
        model: Any,
        texts: Any,
        batch_size: int = 64,
        seed: int = 0,
        groups: int = 3,
    ) -> None:
        self.source, self.target = _vocabularies(model)
        highest = self.target.size - self.target.offset - 1
        mask = denoising.mask_token_id
        if mask is not None and mask > highest:
            raise ValueError(
                f"mask_token_id must be an id of the model, at most {highest}, "
                f"received {mask}"
            )
        self.denoising = denoising
        self.texts: list[np.ndarray] = self.target.token_ids(texts)
        if not self.texts:
            raise ValueError(f"texts must have at least one text, received {texts!r}")
        self.targets: list[np.ndarray] = [
            self.target.model_ids(text) for text in self.texts
        ]
        marks = len(self.source.model_ids(self.texts[0])) - len(self.texts[0])
        lengths = [
            (len(text) + marks + INSERTED, len(target) + 1)  # and the end
            for text, target in zip(self.texts, self.targets, strict=True)
        ]
        super().__init__(np.array(lengths), batch_size, seed, groups)

    def take(self, rows: np.ndarray) -> PairArrays:
        first = self._epoch * self.rows
        sources = [
            self.source.model_ids(self.denoising(self.texts[row], first + row)[0])
            for row in rows
        ]
        source_length, target_length = self.shape_of(rows)
        return pair_arrays(
            sources,
            [self.targets[row] for row in rows],
            max(source_length, *map(len, sources)),
            target_length,
            **self.target.pair_options,
        )


def _vocabularies(model):
    """Returns the vocabularies of source and target, which must be the same."""
    names = "source_vocabulary", "target_vocabulary"
    source, target = (getattr(model, name, None) for name in names)
    if source is None or target is None:
        raise TypeError(
            "model must read and write tokens, such as a Transformer, a T5 or a "
            f"Seq2Seq, received {type(model).__name__}"
        )
    tokenizers = source.tokenizer, target.tokenizer
    if source.size != target.size or tokenizers[0] != tokenizers[1]:
        raise ValueError(
            "model must have the same vocabulary for sources and targets, received "
            f"{source.size} and {target.size} ids. Build it with the same tokenizer "
            "twice"
        )
    return source, target
