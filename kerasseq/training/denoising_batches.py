"""Batches of corrupted and original texts, with other noise in each epoch."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.training.batches import GroupedBatches
from kerasseq.training.pair_batches import PairArrays, pair_arrays

if TYPE_CHECKING:
    from kerasseq.training.denoising import Denoising

INSERTED = 8  # positions for masks of empty spans; more are very rare, and have room


def denoising_batches(
    denoising: "Denoising",
    model: Any,
    texts: Any,
    batch_size: int = 64,
    seed: int = 0,
    groups: int = 3,
) -> GroupedBatches:
    """Returns batches of sources, corrupted texts, and targets, the texts.

    Args:
        denoising: A `Denoising`.
        model: A model with a `source_vocabulary` and a `target_vocabulary`.
        texts: Strings, or rows of ids, as targets of the model.
        batch_size: Texts in a batch.
        seed: Seed of the order.
        groups: Maximum number of shapes.
    """
    source, target = _vocabularies(model)
    highest = target.size - target.offset - 1
    mask = denoising.mask_token_id
    if mask is not None and mask > highest:
        raise ValueError(
            f"mask_token_id must be an id of the model, at most {highest}, "
            f"received {mask}"
        )
    rows: list[np.ndarray] = target.token_ids(texts)
    if not rows:
        raise ValueError(f"texts must have at least one text, received {rows!r}")
    targets = [target.model_ids(text) for text in rows]
    marks = len(source.model_ids(rows[0])) - len(rows[0])
    lengths = [
        (len(text) + marks + INSERTED, len(wanted) + 1)  # and the end
        for text, wanted in zip(rows, targets, strict=True)
    ]

    def arrays_of(chosen, source_length, target_length) -> PairArrays:
        first = batches.epoch * len(rows)  # other noise in each epoch
        sources = [
            source.model_ids(denoising(rows[row], first + row)[0]) for row in chosen
        ]
        return pair_arrays(
            sources,
            [targets[row] for row in chosen],
            max(source_length, *map(len, sources)),
            target_length,
            **target.pair_options,
        )

    options = {"groups": groups, "arrays_of": arrays_of}
    batches = GroupedBatches(np.array(lengths), batch_size, seed, **options)
    return batches


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
