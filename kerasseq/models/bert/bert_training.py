"""Pre-training of BERT: batches of pairs with hidden tokens, and guesses of these."""

from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.tasks.fit_call import FitCall, parts_of
from kerasseq.training import MaskedLMMaskGenerator, MaskedPairs, SentencePairs
from kerasseq.training.batches import TrainingRows

PRETRAINING = ("sequence_length", "masking")  # arguments of `fit` on documents


def is_pretraining(model: Any, x: Any, y: Any = None) -> bool:
    """Returns whether a model is trained on documents, lists of sentences."""
    is_list = y is None and isinstance(x, list) and len(x) > 0
    return is_list and isinstance(x[0], list) and model.head == "pretraining"


def pretraining_batches(
    model: Any,
    documents: Any,
    *,
    sequence_length: int | None = None,
    masking: MaskedLMMaskGenerator | None = None,
    batch_size: int = 32,
    seed: int = 0,
    next_rate: float = 0.5,
) -> MaskedPairs:
    """Returns batches of pairs of sentences with hidden tokens; see `BERT.batches`."""
    reader, longest = model.preprocessor, model.max_sequence_length
    length = sequence_length or longest
    if length > longest:
        raise ValueError(
            f"sequence_length={length} is more than the model reads, "
            f"max_sequence_length={longest}"
        )
    if masking is None:
        masking = MaskedLMMaskGenerator(
            vocabulary_size=model.vocabulary_size,
            mask_token_id=reader.special_ids["[MASK]"],
            unselectable_token_ids=reader.never_masked(),
            seed=seed,
        )
    pairs = SentencePairs(
        reader.documents(documents),
        reader.start,
        reader.end,
        reader.padding,
        sequence_length=length,
        batch_size=batch_size,
        seed=seed,
        next_rate=next_rate,
    )
    return MaskedPairs(pairs, masking)


class PretrainingRows(TrainingRows):
    """Documents to train a BERT on.

    Args:
        model: The BERT.
        call: The call of `fit`.

    Raises:
        ValueError: If rows have labels or weights.
    """

    def __init__(self, model: Any, call: FitCall) -> None:
        names = "sample_weight", "class_weight", "validation_split", "missing"
        call.refuse("to pre-train on documents", *names)
        self.model: Any = model
        self.documents: Any = call.x
        self.patience: int | None = call.patience
        self.options: dict[str, Any] = pretraining_options(call)

    def split(self, fraction: float, seed: int) -> Any:
        raise ValueError(
            f"patience={self.patience} needs data for validation, other documents, "
            "received none. Give validation_data"
        )

    def batches(self, batch_size: int, seed: int) -> MaskedPairs:
        """Returns pairs of sentences with hidden tokens."""
        sizes = {"batch_size": batch_size, "seed": seed}
        return self.model.batches(self.documents, **sizes, **self.options)


def pretraining_options(call: FitCall) -> dict[str, Any]:
    """Returns the arguments of `BERT.batches` for documents, in a call of `fit`."""
    return {name: call.own[name] for name in PRETRAINING if name in call.own}


def refuse_pretraining(model: Any, call: FitCall) -> None:
    """Raises if arguments for documents are given for other data."""
    for name in PRETRAINING:
        if call.own.pop(name, None) is not None:
            raise ValueError(
                f"{name} is for documents, lists of sentences, on which a BERT "
                f'with head="pretraining" is trained, received head={model.head!r} '
                f"and x={checks.short(call.x)}. Leave it out"
            )


def held_out_pairs(model: Any, call: FitCall) -> tuple[Any, ...]:
    """Returns all pairs of sentences of the documents to validate on, or to evaluate.

    Raises:
        ValueError: If the documents have weights.
    """
    documents, _, weights = parts_of(call.validation_data)
    call.refuse("for documents", "missing")
    if weights is not None:
        raise ValueError(
            "sample_weight must be left out for documents, received "
            f"{checks.short(weights)}"
        )
    return model.batches(documents, **pretraining_options(call)).all()


def fill(
    model: Any, text: str | tuple[str, str], k: int
) -> list[list[tuple[str, float]]]:
    """Returns what may stand where a text has [MASK]; see `BERT.fill`."""
    checks.whole_number("k", k)
    arrays = model.preprocessor.rows([text]).arrays
    is_hidden = arrays["ids"][0] == model.preprocessor.special_ids["[MASK]"]
    places = np.flatnonzero(is_hidden)
    if not len(places):
        raise ValueError(
            f"text must have a [MASK] to fill, received {checks.short(text)}"
        )
    asked = {**arrays, "positions": places[None].astype("int32")}
    logits = model.scores_of(asked, verbose=0)["tokens"][0]
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    vocabulary = model.tokenizer.vocabulary
    best = np.argsort(-p, axis=-1)[:, :k]
    return [
        [(vocabulary[i], float(row[i])) for i in ids]
        for row, ids in zip(p, best, strict=True)
    ]
