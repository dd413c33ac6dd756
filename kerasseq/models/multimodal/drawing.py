"""`draw`: the pictures that a model writes, token by token."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq import decoding
from kerasseq.core import arguments, checks
from kerasseq.models.multimodal.writing import sampler_of
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.fit_call import check_learned


@checks.only_listed(arguments.check_names)
def draw(
    model: Any,
    texts: str | Sequence[str],
    *,
    sampler: decoding.Sampler | decoding.Beam | str | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    seed: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> np.ndarray:
    """Draws a picture for each text.

    Args:
        model: The model.
        texts: A text, or several.
        sampler: As for `GPT.generate`; greedy if None.
        temperature: As for `GPT.generate`.
        top_k: As for `GPT.generate`.
        top_p: As for `GPT.generate`.
        min_p: As for `GPT.generate`.
        seed: Seed of the draws; those of a row depend on its index alone.
        batch_size: Rows that are processed at once.

    Returns:
        float32 `(rows, H, W, C)`, pixels from 0 to 1; of one text `(H, W, C)`.

    Raises:
        ValueError: If the model has another head, or a text is wrong, as for `fit`.
    """
    model.check_head("draw", "draw")
    check_learned(model)
    own = model.preprocessor
    sampler = sampler_of(
        "draw", sampler, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p
    )
    one = isinstance(texts, str)
    ids = own.whole_texts([texts] if one else texts)
    if not len(ids):
        return np.zeros((0, *own.pictures.shape), "float32")
    codes = model.write(
        lambda rows: {"ids": ids[rows]},
        len(ids),
        length=own.num_codes,
        sampler=sampler,
        seed=seed,
        batch_size=batch_size,
    )
    grids = np.reshape(codes, (len(codes), *own.grid))
    images = model.codebook.decode(grids, batch_size=batch_size)
    return images[0] if one else images
